#!/usr/bin/env python3
"""Runs the ONNX project's backend tests (the data folders of the onnx wheel) through `isthmus run --test-data`.

Usage: onnx_suite.py [--isthmus=PROGRAM] [--data=FOLDER] [--list] [PATTERN...]
  PATTERN   cases to run, as `node/test_argmax*`; default: all
  --list    also prints each case that does not pass, with the message

Without options (as a test of Bazel's) all cases run, and all must pass except those that onnx_unsupported.txt names.
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LACKS_TYPE = re.compile(r"element type (\S+|number \d+) is not supported")
FOLDERS = ["node", "simple", "pytorch-converted", "pytorch-operator"]


def cases(data, patterns):
    for folder in FOLDERS:
        for name in sorted(os.listdir(os.path.join(data, folder))):
            case = f"{folder}/{name}"
            if os.path.exists(os.path.join(data, case, "model.onnx")) and (
                not patterns or any(fnmatch.fnmatch(case, p) for p in patterns)
            ):
                yield case


def run(program, data, case, exceptions):
    """Returns (case, outcome, message); the outcome is passed, wrong, refused, or crashed."""
    folder = os.path.join(data, case)
    tolerance = [f"--{o}" for pattern, o in exceptions if o.startswith("atol=") and fnmatch.fnmatch(case, pattern)]
    command = [program, "run", os.path.join(folder, "model.onnx"), f"--test-data={folder}", "--threads=1", "--progress=none"]
    command += tolerance
    try:
        result = subprocess.run(command, capture_output=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return case, "crashed", "no end after 120 s"
    message = result.stderr.decode(errors="replace").replace(folder + "/", "").strip()
    outcome = {0: "passed", 1: "refused", 4: "wrong"}.get(result.returncode, "crashed")
    return case, outcome, message


def read_exceptions(path):
    """Returns [(pattern, outcome)] of onnx_unsupported.txt."""
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = line.split("#")[0].split()
            if fields:
                found.append((fields[0], fields[1]))
    return found


def reason_of(message):
    """Returns the part of an error message by which errors are counted."""
    for pattern in (r"operator '([^']*)'(?: of .*?)? is not supported", r"element type '([^']*)' is not supported"):
        if match := re.search(pattern, message):
            return match[0].split("; ")[0]
    lines = [line for line in message.splitlines() if "error: " in line] or ["no message"]
    return lines[0].split("error: ")[-1][:100]


def judge(results, exceptions):
    """Returns the contradictions between the results and the list, as texts."""
    wrong = []
    used = set()
    for case, outcome, message in results:
        expected = "passed"
        for pattern, listed in exceptions:
            if fnmatch.fnmatch(case, pattern):
                used.add(pattern)
                expected = {"refused": "refused", "differs": "wrong"}.get(listed, "passed")
        if outcome == "refused" and LACKS_TYPE.search(message):
            continue
        # A pattern may also match cases that pass. No case may be wrong or crash.
        if outcome not in (expected, "passed") or (outcome == "refused" and "error: " not in message):
            wrong.append(f"{case} is {outcome}, expected: {expected}: {message[:600]}")
    wrong += [f"onnx_unsupported.txt: {p} names no case" for p, _ in exceptions if p not in used]
    return wrong


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--isthmus")
    parser.add_argument("--data")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("patterns", nargs="*")
    options = parser.parse_args()
    by_bazel = not options.isthmus
    if by_bazel:
        sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
        import command

        command.with_python_of_torch()
        options.isthmus = command.BINARY
    if not options.data:
        import onnx

        options.data = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")

    os.environ["OMP_WAIT_POLICY"] = "passive"
    exceptions = read_exceptions(os.path.join(HERE, "onnx_unsupported.txt"))
    todo = list(cases(options.data, options.patterns))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda c: run(options.isthmus, options.data, c, exceptions), todo))

    for folder in FOLDERS:
        count = collections.Counter(outcome for case, outcome, _ in results if case.startswith(folder + "/"))
        if count:
            print(f"{folder}: " + ", ".join(f"{n} {outcome}" for outcome, n in sorted(count.items())))
    plain = collections.Counter(o for c, o, _ in results if c.startswith("node/") and not c.endswith("_expanded"))
    if plain:
        print("node, without function expansions: " + ", ".join(f"{n} {outcome}" for outcome, n in sorted(plain.items())))
    reasons = collections.Counter(reason_of(m) for _, outcome, m in results if outcome == "refused")
    for reason, n in reasons.most_common():
        print(f"  {n:4} {reason}")
    if options.list:
        for case, outcome, message in results:
            if outcome != "passed":
                print(f"{outcome}: {case}\n    " + "\n    ".join(message.splitlines()[:4]))
    if not by_bazel:
        return 0
    wrong = judge(results, exceptions)
    for line in wrong:
        print("FAILED", line)
    count = collections.Counter(outcome for _, outcome, _ in results)
    print(f"{count['passed']} passed, {len(wrong)} failed, {count['refused'] + count['wrong']} skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
