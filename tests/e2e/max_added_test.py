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

    def test_the_smallest_arena_at_a_price_with_chunks(self):
        """Ops as small as these cost as much in parts as whole: chunks save a little, at more than the whole step's cost."""
        self.run_ok("zoo", "gpt2", "--depth=1", "--width=16", "--heads=2", "--batch=2", "--tokens=8", "--vocab=50", "-o", "gpt2.isth")

        def report(*args):
            return self.report("opt", "gpt2.isth", LOSS, QUICK, "--allow=recompute,chunk", *args, "-o", "small.isth")

        default, dear = report("--budget=min"), report("--budget=min", "--max-added=1000%")
        self.assertLessEqual(default["recompute_overhead"], 1)
        self.assertGreater(dear["recompute_overhead"], 1)
        self.assertLess(dear["arena_bytes"], default["arena_bytes"])
        # The smallest budget is the same at any price, and can be met.
        self.assertEqual(default["smallest_budget_bytes"], dear["smallest_budget_bytes"])
        met = report(f"--budget={default['smallest_budget_bytes']}")
        self.assertLessEqual(met["arena_bytes"], default["smallest_budget_bytes"])
        self.assertEqual(report("--budget=min", "--max-added=0%")["recompute_overhead"], 0)

    def test_the_price_is_of_the_step_as_it_was_given(self):
        """Micro-batches that were asked for add to the cost too, so that less is left to recomputation."""

        def added(*args):
            report = self.report("opt", "net.isth", LOSS, QUICK, "--microbatches=2", *args, "-o", "small.isth")
            return report["recompute_overhead"]

        least, most = added("--policy=none"), added("--budget=min", "--max-added=1000%")
        for part in 0.1, 0.5:
            share = least + part * (most - least)
            self.assertLessEqual(added("--budget=min", f"--max-added={100 * share:.3f}%"), share + 1e-5)

    def test_a_dearer_plan_is_refused(self):
        for plan in "--budget=70%", "--policy=memory":
            with self.subTest(plan):
                self.assertEqual(self.opt(plan).code, 0)
                refused = self.opt(plan, "--max-added=0.01%")
                self.assertEqual(refused.code, 3, refused)
                self.assertIn("a plan that adds 0.0 % of the step's cost at most was not found", refused.err)
                self.assertIn("--max-added=", refused.err)

    def test_the_advice_for_a_budget_below_the_price(self):
        """The smallest budget that was found is at any price, so it is not what to give."""
        refused = self.opt("--budget=1", "--max-added=1%")
        self.assertEqual(refused.code, 3, refused)
        self.assertIn("search for the smallest arena at that price with --budget=min", refused.err)
        self.assertEqual(self.opt("--budget=min", "--max-added=1%").code, 0)
        self.assertRegex(self.opt("--budget=1").err, r"give --budget=\d+")

    def test_usage(self):
        for text in "50", "2GiB", "min", "-1%", "lots":
            with self.subTest(text):
                refused = self.opt("--budget=min", f"--max-added={text}")
                self.assertEqual(refused.code, 2, refused)
                self.assertIn(f"--max-added expects a share of the step's cost, such as 50%, got '{text}'", refused.err)


if __name__ == "__main__":
    command.main()
