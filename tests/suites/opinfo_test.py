"""Compares PyTorch's OpInfo samples with our op table: values, gradients, and gradients of gradients.

Every operator of PyTorch's own test table that takes f64 is exported to ONNX, one sample of arguments at a time. The
results of the file are compared with PyTorch's: outputs in f64 and f32, gradients with random seeds, gradients of these
with random seeds, and, once for each operator, a memory policy bit by bit. opinfo_exceptions.txt lists what is left out.

By default a few samples of each operator run. With ISTHMUS_FULL=1 in the environment many samples of all operators run.
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import json
import multiprocessing
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import command  # noqa: E402

command.with_python_of_torch()

import opinfo_exceptions  # noqa: E402
import torch  # noqa: E402
import torch_export  # noqa: E402
from opinfo_check import Check, one_line  # noqa: E402
from opinfo_exceptions import ENDS_THE_PROCESS, Failure  # noqa: E402
from opinfo_samples import operators, samples  # noqa: E402

# The number of samples for each operator. PyTorch has up to 1440 for one, which differ little.
SAMPLES, FULL_SAMPLES = 2, 30
FULL = os.environ.get("ISTHMUS_FULL") == "1"


def check_operator(name, count, exporter, position=None):
    """Returns [(index, text of the sample, failures, comparisons made, seconds)] for `count` samples of an operator, or
    for the one at `position` among them."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # the exporter uses it as the type of Python numbers
    op = OPERATORS[name]
    found, with_policy = [], True
    try:
        chosen = samples(name, op, count)
    except Exception as e:
        return [(0, "", [Failure("torch", f"samples: {one_line(e)}")], {}, 0)]
    for index, sample in chosen if position is None else chosen[position : position + 1]:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
            check = Check(op, sample, folder, exporter)
            try:
                check.check(with_policy)
            except Exception as e:
                check.failures.append(Failure("test", f"{type(e).__name__}: {one_line(e)}"))
        with_policy = with_policy and not check.done["policy"]
        for failure in check.failures:
            failure.sample = one_line(sample)
        found.append((index, one_line(sample)[:300], check.failures, dict(check.done), time.monotonic() - start))
    return found


def be_quiet():
    """Silences a process of the pool, as the exporters' native code prints to the standard streams."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def pool_of(jobs):
    return concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), be_quiet)


def has_died(future):
    return isinstance(future.exception(), concurrent.futures.process.BrokenProcessPool)


def check_all(tasks, jobs, deadly=()):
    """Yields (name, result of check_operator) for each task (name, count, exporter). `deadly` are operators for which
    the exporter is known to end the process."""
    # The exporter divides by zero and ends the process, so that the pool loses all its unfinished tasks.
    alone = [[t] for t in tasks if t[0] in deadly]
    tasks = [t for t in tasks if t[0] not in deadly]
    undone = []
    with pool_of(jobs) as pool:
        futures = {pool.submit(check_operator, *task): task for task in tasks}
        for future in concurrent.futures.as_completed(futures):
            if has_died(future):
                undone.append(futures[future])
            else:
                yield futures[future][0], future.result()
    few = max(1, len(undone) // 8)
    alone += [undone[i : i + few] for i in range(0, len(undone), few)]
    for some in alone:
        yield from check_all(some, jobs) if len(some) > 1 else [(some[0][0], check_one_by_one(some[0]))]


def check_one_by_one(task):
    found = []
    while True:
        with pool_of(1) as pool:
            future = pool.submit(check_operator, *task, len(found))
            if has_died(future):
                found.append((0, f"the one at {len(found)}", [Failure("export", ENDS_THE_PROCESS)], {}, 0))
            elif future.result():
                found += future.result()
            else:
                return found


class Report:
    """Counts samples, and prints unexpected results."""

    def __init__(self, table):
        self.table = table
        self.passed = self.failed = self.left_out = self.operators = 0
        self.done, self.groups = collections.Counter(), collections.defaultdict(collections.Counter)

    def add(self, name, found, whole):
        compared = False
        for index, text, failures, done, _ in found:
            groups = [self.table.group_of(name, f) for f in failures]
            for failure, group in zip(failures, groups):
                if group is None:
                    print(f"FAILED {name}, sample {index}: {text}\n    {failure}", flush=True)
                else:
                    self.groups[group.head][name] += 1
            self.failed += None in groups
            self.left_out += None not in groups and any(g.stage != "tolerance" for g in groups)
            self.passed += all(g is not None and g.stage == "tolerance" for g in groups)
            self.done.update(done)
            compared = compared or "value" in done
        self.operators += compared
        for line in self.table.stale(name, [failures for _, _, failures, _, _ in found], whole):
            self.failed += 1
            print(f"FAILED {name}: {line}\n    `--update` takes it from the table", flush=True)

    def print(self):
        print("\nleft out, or compared less closely:")
        for head, ops in sorted(self.groups.items(), key=lambda x: -len(x[1])):
            print(f"  {len(ops):3} operators, {sum(ops.values()):4} samples: {head}")
        print(f"\n{self.operators} operators compared; comparisons: {', '.join(f'{n} of {k}' for k, n in sorted(self.done.items()))}")
        print(f"{self.passed} passed, {self.failed} failed, {self.left_out} skipped", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", help="operators, as 'nn.functional.conv*'")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--samples", type=int, help="how many of each operator")
    parser.add_argument("--exporter", choices=torch_export.EXPORTERS, help="for all operators")
    parser.add_argument("--dump", help="a file for every sample's failures, one JSON list a line")
    parser.add_argument("--update", action="store_true", help="make the table tell what is left out now; for a full run")
    options = parser.parse_args()
    table, report = opinfo_exceptions.Table(), None
    count = options.samples if options.samples is not None else FULL_SAMPLES if FULL else SAMPLES
    names = [n for n in OPERATORS if not options.patterns or any(fnmatch.fnmatch(n, p) for p in options.patterns)]
    tasks = []
    for name in names:
        exporter = options.exporter or table.exporter(name)
        some = count
        if not exporter.startswith("ts"):
            some = min(some, 2 if FULL else table.is_always_run(name))  # the newer exporter takes seconds
        elif table.is_left_out(name) and not FULL:
            some = 1  # checks that the list still holds
        if some:
            tasks.append((name, some, exporter))
    report, results = Report(table), {}
    with open(options.dump or os.devnull, "w") as dump:
        for name, found in check_all(tasks, options.jobs, table.deadly()):
            for index, text, failures, done, seconds in found:
                print(json.dumps([name, index, text, [[f.stage, f.text[:1500], f.off] for f in failures], done, seconds]),
                      file=dump, flush=True)
            results[name] = [failures for _, _, failures, _, _ in found]
            if not options.update:
                report.add(name, found, FULL)
    if options.update:
        return table.update(results)
    report.print()
    sys.exit(1 if report.failed else 0)


OPERATORS = operators()

if __name__ == "__main__":
    main()
