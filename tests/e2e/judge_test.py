"""Compares `plan::evaluate` with the referee, which shares no code with the project, if its files are present. The
schedules are random, valid and invalid, with alternatives and transfers."""

import json
import os
import random
import subprocess
import sys
import unittest

import command
from joint_graphs import random_problem, random_schedule

SHARED = os.environ.get("ISTHMUS_SHARED", "")
REFEREE = os.path.join(SHARED, "referee")
JUDGE = os.environ.get("ISTHMUS_JUDGE") or os.path.join(
    os.environ.get("TEST_SRCDIR", ""), os.environ.get("TEST_WORKSPACE", ""), "tests", "passes", "judge")


@unittest.skipUnless(os.path.exists(os.path.join(REFEREE, "referee.py")), "the referee is not at hand")
class Judge(command.TestCase):
    def setUp(self):
        super().setUp()
        sys.path.insert(0, REFEREE)
        import referee
        self.referee = referee

    def verdict(self, graph, schedule):
        try:
            r = self.referee.evaluate(graph, schedule)
        except self.referee.Invalid as e:
            return f"invalid: {e}"
        views = [v for v in schedule if graph.view[v]]  # the referee also counts views as recomputed
        again = r["recomputed"] - (len(views) - len(set(views)))
        return f"{r['peak']} {r['cost']:.9f} {r['overhead']:.12f} {again} {r['copies']}"

    def test_random_schedules(self):
        rng = random.Random(1)
        lines, want, graphs = [], [], []
        for number in range(10000 if os.environ.get("ISTHMUS_FULL") else 600):
            graph = random_problem(rng, number)
            g = self.referee.Graph(graph)
            lines.append(json.dumps(graph))
            good = list(g.order)
            for _ in range(12):
                s = random_schedule(rng, graph, good)
                want.append(self.verdict(g, s))
                graphs.append((number, s))
                lines.append(json.dumps({"graph": graph["name"], "schedule": s}))
                if not want[-1].startswith("invalid"):
                    good = s
            lines.append("")
        done = subprocess.run([JUDGE], input="\n".join(lines).encode() + b"\n", capture_output=True, timeout=800)
        self.assertEqual(done.returncode, 0, done.stderr)
        got = done.stdout.decode().splitlines()
        self.assertEqual(len(got), len(want))
        invalid = copies = again = 0
        for mine, theirs, where in zip(got, want, graphs):
            if theirs.startswith("invalid"):
                invalid += 1
                self.assertTrue(mine.startswith("invalid"), (where, mine, theirs))
                continue
            self.assertEqual(mine.replace("-0.0", "0.0"), theirs.replace("-0.0", "0.0"), where)
            copies += not theirs.endswith(" 0")
            again += theirs.split()[3] != "0"
        for count, what in (invalid, "invalid"), (copies, "with copies"), (again, "with runs again"):
            print(f"{count} of {len(want)} {what}")
            self.assertGreater(count, len(want) // 20, what)


if __name__ == "__main__":
    command.main()
