"""Tests tools/count_tests.py on events and files as Bazel writes them."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tools"))
import count_tests  # noqa: E402

GTEST = """<?xml version="1.0"?><testsuites name="AllTests"><testsuite name="A">
  <testcase name="Good" status="run" result="completed" classname="A" />
  <testcase name="Skipped" status="run" result="skipped" classname="A"><skipped message="no device" /></testcase>
  <testcase name="DISABLED_X" status="notrun" result="suppressed" classname="A" />%s
</testsuite></testsuites>"""
GTEST_BAD = '<testcase name="Bad" status="run" result="completed" classname="A"><failure message="1 != 2"/></testcase>'
# The report that Bazel writes for a test which writes no XML itself.
GENERIC = '<testsuites><testsuite name="x" tests="1"><testcase name="x" status="run"/></testsuite></testsuites>'


class CountTests(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="count tests ")  # a name that URLs must escape
        self.addCleanup(self.folder.cleanup)
        self.events = []

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def result(self, label, status="PASSED", xml=GENERIC, log="", shard=1, attempt=1):
        files = []
        for name, text in ("test.xml", xml), ("test.log", log):
            if text is None:
                continue
            path = self.path(f"{len(self.events)}.{name}")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            files.append({"name": name, "uri": "file://" + path.replace(" ", "%20")})
        key = {"label": label, "run": 1, "shard": shard, "attempt": attempt}
        self.events.append(
            {"id": {"testResult": key}, "testResult": {"status": status, "testActionOutput": files}}
        )

    def count(self, bazel_status=0):
        """Returns the exit status and the printed lines."""
        with open(self.path("events.json"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(event) + "\n" for event in self.events)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            status = count_tests.main(self.path("events.json"), str(bazel_status))
        return status, out.getvalue().splitlines()

    def test_googletest_cases(self):
        self.result("//a", xml=GTEST % "")
        self.assertEqual(self.count(), (0, ["2 skipped", "1 passed, 0 failed"]))

    def test_googletest_failure_is_named(self):
        self.result("//a", "FAILED", xml=GTEST % GTEST_BAD)
        self.assertEqual(self.count(3), (1, ["FAILED //a: A.Bad", "2 skipped", "1 passed, 1 failed"]))

    def test_failure_outside_of_the_cases(self):
        self.result("//leaks", "FAILED", xml=GTEST % "")
        self.assertEqual(self.count(3), (1, ["FAILED //leaks", "2 skipped", "1 passed, 1 failed"]))

    def test_other_tests_are_one_case(self):
        self.result("//a", log="1 passed, 1 failed\nbut this is the last line\n")
        self.result("//b", "FAILED")
        self.assertEqual(self.count(3), (1, ["FAILED //b", "1 passed, 1 failed"]))

    def test_own_count(self):
        self.result("//a", log="talk\n12 passed, 0 failed\n\n")
        self.result("//b", "FAILED", log="3 passed, 2 failed")
        self.assertEqual(self.count(3)[1][-1], "15 passed, 2 failed")

    def test_own_count_of_skipped_cases(self):
        self.result("//a", log="12 passed, 0 failed, 3 skipped\n")
        self.assertEqual(self.count(), (0, ["3 skipped", "12 passed, 0 failed"]))

    def test_own_count_that_hides_the_failure(self):
        self.result("//a", "FAILED", log="3 passed, 0 failed")
        self.assertEqual(self.count(3), (1, ["FAILED //a", "3 passed, 1 failed"]))

    def test_killed_test_without_files(self):
        self.result("//a", "TIMEOUT", xml=None, log=None)
        self.result("//b", "FAILED", xml="<testsuites><cut")
        self.assertEqual(self.count(3)[1][-1], "0 passed, 2 failed")

    def test_shards_add_up(self):
        self.result("//a", xml=GTEST % "", shard=1)
        self.result("//a", xml=GTEST % "", shard=2)
        self.assertEqual(self.count()[1][-1], "2 passed, 0 failed")

    def test_last_attempt_counts(self):
        self.result("//a", "FAILED", attempt=1)
        self.result("//a", attempt=2)
        self.assertEqual(self.count(), (0, ["1 passed, 0 failed"]))

    def test_not_built(self):
        self.result("//a")
        self.events.append({"id": {"targetCompleted": {"label": "//a"}}, "completed": {"success": True}})
        self.events.append({"id": {"targetCompleted": {"label": "//b"}}, "aborted": {}})
        self.assertEqual(self.count(1), (1, ["FAILED //b: did not build", "1 passed, 1 failed"]))

    def test_bazel_failed_before_any_target(self):
        self.assertEqual(self.count(1), (1, ["FAILED bazel: exit status 1", "0 passed, 1 failed"]))

    def test_no_events_is_a_failure(self):
        with open(self.path("events.json"), "w", encoding="utf-8") as file:
            file.write('{"id": ')
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
            status = count_tests.main(self.path("events.json"), "0")
        self.assertEqual((status, out.getvalue().splitlines()[-1]), (1, "0 passed, 1 failed"))


if __name__ == "__main__":
    run = unittest.main(exit=False).result
    failed = len(run.failures) + len(run.errors)
    print(f"{run.testsRun - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
