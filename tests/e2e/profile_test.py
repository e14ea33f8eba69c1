"""Tests `isthmus profile`: every node is measured, and plans can use the measured costs."""

import json
import os
import re
import unittest

import command
from cli_cases import Case

LOSS = "--loss=mean"
QUICK = "--effort=0.3"
# A node of the text form, as "  %a, %b = op(%x) {..} : f32[..]": its results and its op.
NODE = re.compile(r'^  (%.*?) = (\w+)\(')


def nodes_of(text):
    """Returns the ops of a graph's nodes, in order."""
    return [m[2] for m in map(NODE.match, text.splitlines()) if m]


class ProfileCase(Case):
    def profile(self, *args, **kwargs):
        """Returns the costs, the trace, and the text on standard output."""
        out = self.run_ok("profile", *args, "--steps=2", "-o", "costs.json", "--trace=trace.json", **kwargs).out.decode()
        return json.loads(self.read("costs.json")), json.loads(self.read("trace.json")), out

    def costs(self, ops, **changes):
        file = {"schema": "isthmus.costs/1", "target": "some", "per_estimate": 1, "ops": ops, **changes}
        return self.write("given.json", json.dumps(file))

    def calls(self, model, *options):
        """Returns all calls of the step except views."""
        return list(self.profile(model, *options)[0]["ops"])

    def fails(self, code, *args):
        result = command.run(*args, cwd=self.dir)
        self.assertEqual((result.code, result.out), (code, b""), f"isthmus {' '.join(args)}\n{result}")
        return result.err


class Measures(ProfileCase):
    def test_every_node(self):
        model, loss = self.chain(), [LOSS]
        costs, trace, out = self.profile(model, *loss)
        self.run_ok("grad", model, *loss, "-o", "step.isth")
        ops = [op for op in nodes_of(self.read("step.isth").decode()) if op != "reshape"]  # a view
        self.assertEqual({call.split("(")[0] for call in costs["ops"]}, set(ops))
        self.assertEqual(costs["schema"], "isthmus.costs/1")
        self.assertRegex(costs["target"], r"^cpu \S+ threads=\d+$")
        self.assertGreater(costs["per_estimate"], 0)
        self.assertTrue(all(us >= 0 for us in costs["ops"].values()))
        for op in set(ops):
            self.assertRegex(out, rf"(?m)^  {op} +{ops.count(op)} ", "its row tells how many nodes there are")
        runs = [e for e in trace["traceEvents"] if e["ph"] == "X"]
        self.assertEqual([e["args"]["call"].split("(")[0] for e in runs], ops)

    def test_the_trace_is_of_the_plan(self):
        """Events follow one another, the most live bytes are the peak, and recomputed nodes have a row of their own."""
        model, options = self.zoo("resnet")
        plan = [*options, "--budget=60%", QUICK]
        _, trace, out = self.profile(model, *plan)
        report = self.report("run", model, *plan)
        events = trace["traceEvents"]
        live = [e["args"]["bytes"] for e in events if e["ph"] == "C"]
        self.assertEqual(len(live), report["nodes"])
        self.assertEqual(max(live), report["measured_peak_bytes"])
        runs = [e for e in events if e["ph"] == "X"]
        for a, b in zip(runs, runs[1:]):
            self.assertLessEqual(a["ts"] + a["dur"], b["ts"] + 1e-6)
        rows = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
        self.assertEqual({e["cat"] for e in runs}, {"forward", "recomputed", "backward", "update"})
        self.assertTrue(all(rows[e["tid"]] == e["cat"] for e in runs))
        self.assertGreaterEqual(sum(e["cat"] == "recomputed" for e in runs), report["clones"])
        self.assertRegex(out, r"(?m)^  forward [\d.]+ %, recomputed [\d.]+ %, backward [\d.]+ %, update [\d.]+ %$")

    def test_transfers_and_inverses_have_rows(self):
        self.run_ok("zoo", "glow", "--depth=8", "--levels=1", "--width=8", "--batch=32", "--shape=1x8x8", "-o", "flow.isth")
        for ways, row in ("recompute,fetch", "copied"), ("recompute,invert", "rebuilt"):
            _, trace, _ = self.profile("flow.isth", "--budget=min", f"--allow={ways}", QUICK)
            self.assertIn(row, {e.get("cat") for e in trace["traceEvents"]}, ways)

    def test_a_forward_part_alone(self):
        result = self.run_ok("profile", self.mlp(), "--steps=1")
        self.assertIn("the forward part alone runs", result.err)
        self.assertNotIn("backward", result.out.decode())

    def test_standard_output(self):
        model = self.mlp()
        out = self.run_ok("profile", model, LOSS, "--steps=1", "-o", "-").out
        self.assertEqual(json.loads(out)["schema"], "isthmus.costs/1")
        out = self.run_ok("profile", model, LOSS, "--steps=1", "--trace=-").out
        self.assertIn("traceEvents", json.loads(out))

    def test_what_cannot_be(self):
        model = self.mlp()
        self.assertIn("only counts", self.fails(2, "profile", model, LOSS, "--device=counting"))
        self.assertIn("--steps", self.fails(2, "profile", model, LOSS, "--steps=0"))
        self.fails(2, "profile", model, LOSS, "-o", "same.json", "--trace=same.json")
        self.fails(2, "profile", model, LOSS, "-o", model)
        self.assertFalse(os.path.exists(self.path("same.json")))
        self.fails(1, "profile", "missing.isth")


class Plans(ProfileCase):
    def clones(self, model, *options):
        """Returns how often a plan repeats each op, and the plan's report."""
        report = self.report("opt", model, LOSS, *options, QUICK, "-o", "out.isth")
        self.run_ok("grad", model, LOSS, "-o", "step.isth")
        planned, source = (nodes_of(self.read(f).decode()) for f in ("out.isth", "step.isth"))
        return {op: planned.count(op) - source.count(op) for op in set(source)}, report

    def test_what_is_dear_is_not_repeated(self):
        model = self.chain()
        calls = self.calls(model, LOSS)
        for dear in "tanh", "sigmoid":
            with self.subTest(dear):
                file = self.costs({call: 1e5 if call.startswith(dear + "(") else 1 for call in calls})
                clones, report = self.clones(model, "--budget=75%", f"--costs={file}")
                self.assertEqual(clones[dear], 0, clones)
                self.assertGreater(report["clones"], 0)
                self.assertEqual(report["costs"], "measured")

    def test_the_overhead_is_that_of_the_file(self):
        model = self.chain()
        calls = self.calls(model, LOSS)
        file = self.costs({call: 1 + i for i, call in enumerate(calls)})
        us = json.loads(self.read(file))["ops"]
        plan = ["--budget=60%", QUICK, f"--costs={file}"]
        report = self.report("opt", model, LOSS, *plan, "-o", "out.isth")
        self.assertGreater(report["clones"], 0)

        def cost(*args):
            self.run_ok("profile", *args, "--steps=1", "--trace=trace.json")
            return sum(us[e["args"]["call"]] for e in json.loads(self.read("trace.json"))["traceEvents"] if e["ph"] == "X")

        self.assertAlmostEqual(report["recompute_overhead"], cost("out.isth") / cost(model, LOSS) - 1, places=12)

    def test_costs_of_no_call_change_nothing(self):
        model = self.chain()
        _, estimated = self.clones(model, "--budget=60%")
        plain = self.read("out.isth")
        _, measured = self.clones(model, "--budget=60%", f"--costs={self.costs({})}")
        self.assertEqual((estimated["costs"], measured["costs"]), ("estimated", "measured"))
        self.assertEqual(self.read("out.isth"), plain)
        self.assertEqual(measured["recompute_overhead"], estimated["recompute_overhead"])

    def test_a_file_of_another_machine_is_told(self):
        result = self.run_ok("opt", self.chain(), LOSS, "--budget=70%", QUICK, f"--costs={self.costs({})}", "-o", "out.isth")
        self.assertIn("'given.json' was measured on 'some', and this is 'cpu ", result.err)

    def test_every_verb_that_plans(self):
        model = self.chain()
        self.run_ok("profile", model, LOSS, "--steps=1", "-o", "costs.json")
        plan = [LOSS, "--budget=60%", QUICK, "--costs=costs.json"]
        made = self.report("opt", model, *plan, "-o", "out.isth")
        run = self.report("run", model, *plan)
        explained = json.loads(self.run_ok("explain", model, *plan, "--json").out)
        self.assertIn(", as measured for cpu", self.run_ok("explain", model, *plan).out.decode())
        rows = self.run_ok("sweep", model, LOSS, QUICK, "--costs=costs.json", "--budgets=60%").out.decode().splitlines()
        for key in "recompute_overhead", "predicted_peak_bytes", "clones", "costs":
            self.assertEqual(run[key], made[key], key)
        self.assertEqual(explained["costs"], "measured")
        self.assertEqual(float(rows[1].split(",")[rows[0].split(",").index("recompute_overhead")]), made["recompute_overhead"])

    def test_files_that_are_none(self):
        model = self.mlp()
        for text, said in (
            ("", "expected JSON"),
            ("[]", "expected costs as `isthmus profile"),
            ('{"schema": "isthmus.costs/2", "target": "x", "ops": {}}', "isthmus.costs/1"),
            ('{"schema": "isthmus.costs/1", "target": "x", "ops": {}}', "per_estimate"),
            ('{"schema": "isthmus.costs/1", "target": "x", "per_estimate": 1, "ops": {"a": -1}}', "of 'a', got -1"),
            ('{"schema": "isthmus.costs/1", "target": "x", "per_estimate": 1, "ops": {"a": 1e400}}', ""),
            ('{"schema": "isthmus.costs/1", "target": "x", "per_estimate": 1, "ops": {"a": "1"}}', "got \"1\""),
            ('{"schema": "isthmus.costs/1", "target": "x", "per_estimate": 1, "ops": {"a": 1, "a": 2}}', "given twice"),
        ):
            with self.subTest(text):
                file = self.write("bad.json", text)
                err = self.fails(1, "opt", model, LOSS, "--budget=90%", f"--costs={file}")
                self.assertIn("bad.json: ", err)
                self.assertIn(said, err)
        self.assertIn("missing.json", self.fails(1, "opt", model, LOSS, "--budget=90%", "--costs=missing.json"))
        self.fails(2, "opt", model, LOSS, "--budget=90%", f"--costs={self.costs({})}", "-o", "out.isth", "--report=given.json")

    def test_all_for_nothing(self):
        """Costs of zero must not cause a division by zero."""
        model = self.chain()
        file = self.costs({call: 0 for call in self.calls(model, LOSS)})
        report = self.report("opt", model, LOSS, "--budget=60%", QUICK, f"--costs={file}", "-o", "out.isth")
        self.assertEqual(report["recompute_overhead"], 0)


if __name__ == "__main__":
    command.main()
