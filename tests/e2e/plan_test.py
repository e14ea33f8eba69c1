"""Tests byte budgets on the command line. The referee judges the schedules if its files are present."""

import json
import os
import random
import subprocess
import sys
import unittest

import cli_cases
import command
from joint_graphs import problem, random_problem

# Enough effort for these small graphs.
QUICK = ["--effort=0.05"]


class Budgets(cli_cases.Case):
    def test_runs_stay_within(self):
        for name in "mlp", "cnn", "unet", "gpt2", "gpt2_fused":
            file, loss = self.zoo(name)
            exact = self.outputs(file, *loss)
            for share in 90, 70:
                with self.subTest(f"{name} {share}%"):
                    args = [file, *loss, f"--budget={share}%", *QUICK]
                    result = command.run("run", *args, "--report=r.json", cwd=self.dir)
                    self.assertIn(result.code, (0, 3), result)
                    r = json.loads(self.read("r.json"))
                    if result.code == 3:
                        self.assertGreater(r["smallest_budget_bytes"], r["baseline_peak_bytes"] * share // 100)
                        continue
                    self.assertEqual(r["measured_peak_bytes"], r["predicted_peak_bytes"])
                    self.assertLessEqual(r["arena_bytes"], r["baseline_peak_bytes"] * share // 100)
                    self.assertEqual(r["policy_used"], "budget")
                    self.assert_same(exact, self.outputs(*args))

    def test_the_smallest_is_met_when_it_is_asked_for(self):
        file, loss = self.zoo("mlp")
        least = self.report("opt", file, *loss, "--budget=min", *QUICK)
        smallest = least["smallest_budget_bytes"]
        self.assertEqual(smallest, least["arena_bytes"])
        self.assertLessEqual(least["lower_bound_bytes"], smallest)
        again = self.report("opt", file, *loss, f"--budget={smallest}", *QUICK)
        self.assertLessEqual(again["arena_bytes"], smallest)
        refused = command.run("opt", file, *loss, "--budget=0", *QUICK, "--report=r.json", "-o", "out.isth", cwd=self.dir)
        self.assertEqual(refused.code, 3, refused)
        r = json.loads(self.read("r.json"))
        self.assertEqual(r["smallest_budget_bytes"], smallest)
        self.assertEqual(r["baseline_peak_bytes"], least["baseline_peak_bytes"])
        self.assertEqual(r["persistent_bytes"], least["persistent_bytes"])
        for key in "predicted_peak_bytes", "arena_bytes", "recompute_overhead", "policy_used", "nodes", "clones":
            self.assertIsNone(r[key], f"{key}: there is no plan")
        self.assertIn(f"{smallest} bytes", refused.err)
        self.assertIn("+{:.1f} %)".format(100 * least["recompute_overhead"]), refused.err)
        self.assertFalse(os.path.exists(self.path("out.isth")))
        less = 100 * (1 - least["lower_bound_bytes"] / smallest)
        self.assertGreater(less, 0.05)
        self.assertIn(f"({less:.1f} % less)", refused.err)

    def test_planning_twice_is_planning_once(self):
        file, loss = self.zoo("cnn")
        self.run_ok("opt", file, *loss, "--budget=80%", *QUICK, "-o", "once.isth")
        self.run_ok("opt", "once.isth", "--budget=80%", *QUICK, "-o", "twice.isth")
        self.assertEqual(self.read("once.isth"), self.read("twice.isth"))

    def test_a_plan_that_is_lost_is_told(self):
        file, loss = self.zoo("cnn")
        made = self.report("opt", file, *loss, "--budget=80%", *QUICK, "-o", "small.isth")
        lost = "the step is divided anew, without the plan in the file, which was within"
        self.assertNotIn(lost, self.run_ok("run", "small.isth").err)
        self.assertIn(lost, self.run_ok("run", "small.isth", "--microbatches=2").err)
        self.assertNotIn(lost, self.run_ok("run", file, *loss, "--microbatches=2").err)
        said = self.run_ok("run", "small.isth", "--precision=f64").err
        self.assertRegex(said, r"the budget on record, .*, was for another precision, so the plan is not held to it")
        self.assertGreater(self.report("run", "small.isth", "--precision=f64")["arena_bytes"], made["arena_bytes"])

    def test_memory_limit(self):
        file, loss = self.zoo("unet")
        r = self.report("opt", file, *loss, "--policy=none")
        limit = r["persistent_bytes"] + r["baseline_peak_bytes"] * 97 // 100
        within = self.report("opt", file, *loss, f"--memory-limit={limit}", *QUICK)
        self.assertLessEqual(within["persistent_bytes"] + within["arena_bytes"], limit)
        for limit, plan in (limit, "--policy=none"), (r["persistent_bytes"] + 64, "--budget=min"):
            over = command.run("opt", file, *loss, plan, f"--memory-limit={limit}", "--report=over.json", *QUICK, cwd=self.dir)
            self.assertEqual(over.code, 3, over)
            report = json.loads(self.read("over.json"))
            self.assertGreater(report["persistent_bytes"] + report["arena_bytes"], limit)

    def test_a_plan_without_clones_keeps_its_order(self):
        file, loss = self.zoo("unet")
        made = self.report("opt", file, *loss, "--budget=97%", "--effort=1", "-o", "out.isth")
        self.assertEqual(made["clones"], 0)  # a change of the order suffices
        ran = self.report("run", "out.isth")
        self.assertEqual(ran["measured_peak_bytes"], made["predicted_peak_bytes"])
        self.assertLess(ran["measured_peak_bytes"], made["baseline_peak_bytes"])

    def test_inputs_beside_a_graph_that_is_written(self):
        """`opt` feeds inputs to measure; their values are no part of the graph."""
        file, loss = self.zoo("mlp")
        os.mkdir(self.path("in"))
        self.write("in/nosuch.npy", command.npy("f32", (1,), [0.0]))
        refused = command.run("opt", file, *loss, "--inputs=in", "-o", "out.isth", cwd=self.dir)
        self.assertEqual(refused.code, 1, refused)
        self.assertIn("names no input of the graph", refused.err)
        self.assertFalse(os.path.exists(self.path("out.isth")))

    def test_malformed(self):
        self.write("p.json", json.dumps(problem(4)))
        for bad in "", "-1", "5 apples", "1e3", "%", "-50%", "1.5", "99999999999999999999":
            for args in (["plan", "p.json"], ["opt", self.mlp(), "--loss=mean"]):
                with self.subTest(f"{args[0]} {bad}"):
                    result = command.run(*args, f"--budget={bad}", cwd=self.dir)
                    self.assertEqual(result.code, 2, result)
        both = command.run("opt", self.mlp(), "--loss=mean", "--budget=50%", "--policy=speed", cwd=self.dir)
        self.assertEqual(both.code, 2, both)


class Plans(command.TestCase):
    def plan(self, *args):
        self.run_ok("plan", *args, "-o", "s.json", "--report=r.json")
        return json.loads(self.read("s.json")), json.loads(self.read("r.json"))

    def test_a_chain(self):
        self.write("p.json", json.dumps(problem(8)))
        for budget, again in (9000, 0), (8000, 1), (7000, 2), (6000, 3):
            with self.subTest(budget):
                s, r = self.plan("p.json", f"--budget={budget}")
                self.assertEqual(s["graph"], "chain8")
                self.assertEqual(len(s["schedule"]), 16 + again)
                self.assertEqual(r["baseline_peak_bytes"], 9000)
                self.assertEqual(r["predicted_peak_bytes"], budget)
                self.assertEqual(r["arena_bytes"], budget)
                self.assertAlmostEqual(r["recompute_overhead"], again / 16)

    def test_the_same_plan_again(self):
        self.write("p.json", json.dumps(problem(30)))
        first = self.plan("p.json", "--budget=50%", "--effort=0.05", "--seed=3")[0]
        self.assertEqual(first, self.plan("p.json", "--budget=50%", "--effort=0.05", "--seed=3")[0])

    def test_the_smallest(self):
        self.write("p.json", json.dumps(problem(20)))
        refused = command.run("plan", "p.json", "--budget=1", "--effort=0.05", "--report=r.json", cwd=self.dir)
        self.assertEqual(refused.code, 3, refused)
        r = json.loads(self.read("r.json"))
        smallest, price, knee = r["smallest_budget_bytes"], r["smallest_budget_overhead"], r["knee"]
        self.assertEqual(r["lower_bound_bytes"], smallest)
        self.assertIn(f"({smallest} bytes, +{100 * price:.1f} %), and no schedule needs less than 2.9 KiB; give", refused.err)
        self.assertIn("note: the knee of the price curve is a peak of ", refused.err)
        self.assertIn(f", +{100 * knee['overhead']:.1f} %: above it", refused.err)
        self.assertLess(knee["us_per_mib_above"], knee["us_per_mib_below"] / 2)
        _, r = self.plan("p.json", f"--budget={smallest}", "--effort=0.05")
        self.assertLessEqual(r["arena_bytes"], smallest)
        self.assertLessEqual(r["recompute_overhead"], price + 1e-9)
        self.assertIsNone(r["knee"])

    def test_a_saved_plan_is_replayed_and_may_be_edited(self):
        self.write("p.json", json.dumps(problem(8)))
        s, r = self.plan("p.json", "--budget=7000")
        self.run_ok("plan", "p.json", "--budget=7000", "--replay=s.json", "--report=again.json")
        again = json.loads(self.read("again.json"))
        for key in "predicted_peak_bytes", "arena_bytes", "recompute_overhead", "clones":
            self.assertEqual(r[key], again[key])
        ran = [i for k, i in enumerate(s["schedule"]) if i not in s["schedule"][:k]]
        self.write("edited.json", json.dumps({"graph": "chain8", "schedule": ran}))  # no op runs twice
        over = command.run("plan", "p.json", "--budget=7000", "--replay=edited.json", "--report=r.json", cwd=self.dir)
        self.assertEqual(over.code, 3, over)
        self.assertEqual(json.loads(self.read("r.json"))["smallest_budget_bytes"], 9000)
        self.write("edited.json", json.dumps({"graph": "chain8", "schedule": s["schedule"][1:]}))
        wrong = command.run("plan", "p.json", "--budget=7000", "--replay=edited.json", cwd=self.dir)
        self.assertEqual(wrong.code, 1, wrong)
        self.assertIn("edited.json: the schedule is not valid: 'op2' reads 'op1' before it has run", wrong.err)

    def test_a_curve_never_rises(self):
        self.write("p.json", json.dumps(problem(30)))
        _, r = self.plan("p.json", "--budget=52%", "--effort=0.2", "--curve=c.json")
        curve = json.loads(self.read("c.json"))
        points = curve["points"]
        self.assertGreater(len(points), 12)
        self.assertEqual(curve["baseline_peak_bytes"], r["baseline_peak_bytes"])
        for more, less in zip(points, points[1:]):
            self.assertGreater(more["budget_bytes"], less["budget_bytes"])
            self.assertLessEqual(more["recompute_overhead"], less["recompute_overhead"])
        for point in points:
            self.assertLessEqual(point["arena_bytes"], point["budget_bytes"])
            self.assertEqual(len(point["schedule"]), 60 + point["clones"])
        asked = [p for p in points if p["budget_bytes"] == r["baseline_peak_bytes"] * 52 // 100]
        self.assertEqual([p["recompute_overhead"] for p in asked], [r["recompute_overhead"]])

    def test_a_curve_of_a_budget_that_cannot_be_met(self):
        self.write("p.json", json.dumps(problem(20)))
        refused = command.run("plan", "p.json", "--budget=1", "--effort=0.05", "--curve=c.json", cwd=self.dir)
        self.assertEqual(refused.code, 3, refused)
        self.assertGreater(len(json.loads(self.read("c.json"))["points"]), 5)

    def test_stdout_is_the_schedule(self):
        result = self.run_ok("plan", "-", "--budget=100%", stdin=json.dumps(problem(3)).encode())
        self.assertEqual(json.loads(result.out), {"graph": "chain3", "schedule": [1, 2, 3, 4, 5, 6]})

    def test_an_interrupt_leaves_the_best_so_far(self):
        self.write("p.json", json.dumps(problem(60)))
        result = self.interrupted_at("^planning: ", "plan", "p.json", "--budget=60%", "--effort=100000", "-o", "s.json")
        self.assertEqual(result.code, 130, result)
        self.assertGreater(len(json.loads(self.read("s.json"))["schedule"]), 120)

    def test_wrong_files(self):
        for content, says in ("{", "expected JSON"), ("[]", "a list 'nodes'"), ('{"name": "g", "nodes": [{"id": 3}]}', "node 0"), \
                ('{"name": "g", "nodes": [{"id": 0, "cost": 1, "inputs": []}], "outputs": [0]}', "expected 'bytes'"), \
                ('{"name": "g", "nodes": [{"id": 0, "cost": 1, "bytes": 1, "bytes": 2, "inputs": []}], "outputs": [0]}',
                 "'bytes' is given twice"), ('{"name": "g", "nodes": ' + "[" * 100000, "nested"):
            self.write("p.json", content)
            result = command.run("plan", "p.json", "--budget=50%", "-o", "s.json", cwd=self.dir)
            self.assertEqual(result.code, 1, result)
            self.assertIn("p.json", result.err)
            self.assertIn(says, result.err)
            self.assertFalse(os.path.exists(self.path("s.json")))


SHARED = os.environ.get("ISTHMUS_SHARED", "")


@unittest.skipUnless(os.path.exists(os.path.join(SHARED, "referee/referee.py")), "the referee is not at hand")
class Referee(command.TestCase):
    """The referee shares no code with the project."""

    def judge(self, graph):
        judged = subprocess.run(
            [sys.executable, os.path.join(SHARED, "referee/referee.py"), graph, self.path("s.json")],
            capture_output=True, text=True, timeout=100)
        self.assertEqual(judged.returncode, 0, judged.stdout + judged.stderr)
        return json.loads(judged.stdout), json.loads(self.read("r.json"))

    def test_schedules_of_random_graphs(self):
        rng = random.Random(1)
        met = copies = 0
        for number in range(400 if os.environ.get("ISTHMUS_FULL") else 40):
            with self.subTest(number):
                self.write("p.json", json.dumps(random_problem(rng, number)))
                budget = rng.choice(["min", "95%", "85%", "75%"])
                result = command.run("plan", "p.json", f"--budget={budget}", "--effort=0.02", "-o", "s.json", "--report=r.json",
                                     cwd=self.dir)
                self.assertIn(result.code, (0, 3), result)
                if result.code == 3:
                    smallest = json.loads(self.read("r.json"))["smallest_budget_bytes"]
                    self.run_ok("plan", "p.json", f"--budget={smallest}", "--effort=0.02", "-o", "s.json", "--report=r.json")
                verdict, r = self.judge(self.path("p.json"))
                met += result.code == 0
                self.assertEqual(verdict["peak"], r["predicted_peak_bytes"])
                self.assertEqual(verdict["baseline_peak"], r["baseline_peak_bytes"])
                copies += verdict["copies"] > 0
                self.assertLessEqual(verdict["lower_bound"], verdict["peak"])
                self.assertLessEqual(r["lower_bound_bytes"], verdict["peak"])
                self.assertAlmostEqual(verdict["overhead"], r["recompute_overhead"], places=9)
                self.assertGreaterEqual(r["arena_bytes"], verdict["peak"])
        self.assertGreater(met, 20)
        self.assertGreater(copies, 0)

    def test_schedules_of_real_graphs(self):
        for name in "chain32_b16", "unet_b8_256", "resnet18_b64", "vgg16_b32":
            graph = os.path.join(SHARED, "graphs", f"{name}.json")
            for share in 80, 60:
                with self.subTest(f"{name} {share}%"):
                    self.run_ok("plan", graph, f"--budget={share}%", "--effort=0.3", "-o", "s.json", "--report=r.json")
                    verdict, r = self.judge(graph)
                    self.assertEqual(verdict["peak"], r["predicted_peak_bytes"])
                    self.assertEqual(verdict["baseline_peak"], r["baseline_peak_bytes"])
                    self.assertLessEqual(verdict["lower_bound"], r["lower_bound_bytes"])
                    self.assertLessEqual(r["lower_bound_bytes"], verdict["peak"])
                    self.assertAlmostEqual(verdict["overhead"], r["recompute_overhead"], places=9)
                    self.assertLessEqual(r["arena_bytes"], verdict["baseline_peak"] * share // 100)

    def test_checkpoints_move_along_a_skip_connection(self):
        """In a U-Net's first block, a plan keeps a convolution or a result computed from it. No single move leads from
        one plan to the other."""
        graph = os.path.join(SHARED, "graphs", "unet3d_b2_64.json")
        self.run_ok("plan", graph, "--budget=40%", "-o", "s.json", "--report=r.json")
        verdict, r = self.judge(graph)
        self.assertEqual(verdict["peak"], r["predicted_peak_bytes"])
        self.assertLess(r["recompute_overhead"], 0.14)  # 0.165 if the convolution is kept


if __name__ == "__main__":
    command.main()
