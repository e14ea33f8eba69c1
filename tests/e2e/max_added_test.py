"""Tests --max-added: no plan costs more than it allows."""

import command
from cli_cases import Case

RESNET = ["resnet", "--depth=8", "--batch=4", "--shape=3x32x32", "-o", "net.isth"]
LOSS, QUICK = "--loss=cross_entropy", "--effort=0.2"


class MaxAdded(Case):
    def setUp(self):
        super().setUp()
        self.run_ok("zoo", *RESNET)

    def opt(self, *args):
        return command.run("opt", "net.isth", LOSS, QUICK, *args, "--report=r.json", "-o", "small.isth", cwd=self.dir)

    def test_the_smallest_arena_at_a_price(self):
        reports = []
        for share in 2, 10, 100:
            r = self.report("opt", "net.isth", LOSS, QUICK, "--budget=min", f"--max-added={share}%", "-o", "small.isth")
            self.assertLessEqual(r["recompute_overhead"], share / 100)
            self.assertLessEqual(r["smallest_budget_bytes"], r["arena_bytes"])
            reports.append(r)
        arenas = [r["arena_bytes"] for r in reports]
        self.assertEqual(arenas, sorted(arenas, reverse=True))
        self.assertGreater(arenas[0], arenas[-1])
        # Without the option the smallest adds no more than the step's cost.
        self.assertEqual(self.report("opt", "net.isth", LOSS, QUICK, "--budget=min", "-o", "small.isth")["arena_bytes"], arenas[-1])

    def test_a_dearer_plan_is_refused(self):
        for plan in "--budget=70%", "--policy=memory":
            with self.subTest(plan):
                self.assertEqual(self.opt(plan).code, 0)
                refused = self.opt(plan, "--max-added=0.01%")
                self.assertEqual(refused.code, 3, refused)
                self.assertIn("a plan that adds 0.0 % of the step's cost at most was not found", refused.err)
                self.assertIn("--max-added=", refused.err)

    def test_usage(self):
        for text in "50", "2GiB", "min", "-1%", "lots":
            with self.subTest(text):
                refused = self.opt("--budget=min", f"--max-added={text}")
                self.assertEqual(refused.code, 2, refused)
                self.assertIn(f"--max-added expects a share of the step's cost, such as 50%, got '{text}'", refused.err)


if __name__ == "__main__":
    command.main()
