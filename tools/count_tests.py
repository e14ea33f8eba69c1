#!/usr/bin/env python3
"""Counts the test cases of one `bazel test`, from the file that its --build_event_json_file wrote.

Usage: count_tests.py EVENTS.json BAZEL_EXIT_STATUS

Prints the failures and, as the last line, `N passed, N failed`. The exit status is 1 if anything failed or was not built.

The events name the results of this run only, whereas the folder bazel-testlogs also keeps results of tests that no longer
exist. A case is a googletest case. A test of another kind is one case, unless its last line is itself
`N passed, N failed`, perhaps followed by `, N skipped`. Skipped cases are counted separately.
"""

import json
import re
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

COUNTED = re.compile(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?")


@dataclass
class Count:
    passed: int = 0
    skipped: int = 0
    failed: list = field(default_factory=list)  # a line for each failure


def read(url):
    """Returns the file's bytes, or none: a test that was killed has not written all its files."""
    try:
        with open(urllib.parse.unquote(urllib.parse.urlparse(url).path), "rb") as file:
            return file.read()
    except OSError:
        return b""


def gtest_cases(xml):
    """Returns the cases of a googletest report; None for a report of another kind (Bazel writes one for any test)."""
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError:  # cut short by a crash, or no XML
        return None
    if root.get("name") != "AllTests":
        return None
    return list(root.iter("testcase"))


def count_result(count, name, ok, xml, log):
    """Adds one result: a test, or one shard of it."""
    failed_before = len(count.failed)
    cases = gtest_cases(xml)
    counted = COUNTED.fullmatch(log.decode(errors="replace").rstrip().rpartition("\n")[2])
    if cases is not None:
        for case in cases:
            if case.find("failure") is not None or case.find("error") is not None:
                count.failed.append(f"{name}: {case.get('classname')}.{case.get('name')}")
            elif case.get("result") == "completed":
                count.passed += 1
            else:  # skipped or disabled
                count.skipped += 1
    elif counted:
        count.passed += int(counted[1])
        count.failed += [name] * int(counted[2])
        count.skipped += int(counted[3] or 0)
    elif ok:
        count.passed += 1
    # A test can fail although none of its cases does, by a crash, a leak or a timeout.
    if not ok and len(count.failed) == failed_before:
        count.failed.append(name)


def count_events(events, bazel_status):
    results = {}  # (label, run, shard) -> the last attempt
    not_built = []
    for event in events:
        kind = event["id"]
        if "testResult" in kind and "testResult" in event:
            key = kind["testResult"]
            test = key["label"], key.get("run", 1), key.get("shard", 1)
            attempt = key.get("attempt", 1)
            if test not in results or attempt >= results[test][0]:
                results[test] = attempt, event["testResult"]
        elif "targetCompleted" in kind and not event.get("completed", {}).get("success"):
            not_built.append(kind["targetCompleted"]["label"])

    count = Count()
    for test, (_, result) in sorted(results.items()):
        files = {f["name"]: read(f.get("uri", "")) for f in result.get("testActionOutput", [])}
        ok = result.get("status") in ("PASSED", "FLAKY")
        count_result(count, test[0], ok, files.get("test.xml", b""), files.get("test.log", b""))
    tested = {label for label, _, _ in results}
    count.failed += [f"{label}: did not build" for label in sorted(set(not_built) - tested)]
    if bazel_status != 0 and not count.failed:
        count.failed.append(f"bazel: exit status {bazel_status}")
    return count


def main(path, bazel_status):
    try:
        with open(path, encoding="utf-8") as file:
            events = [json.loads(line) for line in file if line.strip()]
    except (OSError, ValueError) as error:  # Bazel stopped earlier, or was killed
        print(f"count_tests: {error}", file=sys.stderr)
        events, bazel_status = [], int(bazel_status) or 1
    count = count_events(events, int(bazel_status))
    for line in count.failed:
        print(f"FAILED {line}")
    if count.skipped:
        print(f"{count.skipped} skipped")
    print(f"{count.passed} passed, {len(count.failed)} failed")
    return 1 if count.failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
