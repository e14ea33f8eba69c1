"""Tests the command line with valid input: output files, numbers, names, equal bits."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import command
import onnx_file
from cli_cases import MLP, ZOO, Case
from command import npy, read_npy

VERBS = ["opt", "run", "train", "plan", "explain", "verify", "grad", "invert", "import", "zoo", "dot", "ops", "devices", "selftest"]

class Reports(Case):
    INTEGERS = ["baseline_peak_bytes", "predicted_peak_bytes", "arena_bytes", "persistent_bytes", "output_bytes", "nodes", "clones"]
    NUMBERS = ["recompute_overhead", "plan_seconds"]
    MAY_BE_UNKNOWN = ["lower_bound_overhead", "lower_bound_bytes", "bound_model", "smallest_budget_bytes", "smallest_budget_overhead", "knee"]

    def check(self, r, steps):
        self.assertEqual(r["schema"], "isthmus.report/1")
        for key in self.INTEGERS:
            self.assertIs(type(r[key]), int, key)
            self.assertGreaterEqual(r[key], 0, key)
        for key in self.NUMBERS:
            self.assertIn(type(r[key]), (int, float), key)
        for key in self.MAY_BE_UNKNOWN:
            self.assertIn(key, r)
        self.assertIs(type(r["policy_used"]), str)
        self.assertGreaterEqual(r["arena_bytes"], r["predicted_peak_bytes"])
        self.assertEqual(r["predicted_peak_bytes"] % 64, 0)
        self.assertGreaterEqual(r["predicted_peak_bytes"], r["output_bytes"])
        if r["predicted_peak_bytes"] > 1 << 20 and r["arena_bytes"] > 1.01 * r["predicted_peak_bytes"]:
            self.assertIn("the least that was found", r["talk"])
            self.assertLessEqual(r["arena_bytes"], 1.1 * r["predicted_peak_bytes"])
        if not steps:
            self.assertIsNone(r["measured_peak_bytes"])
            return
        self.assertEqual(r["measured_peak_bytes"], r["predicted_peak_bytes"])
        self.assertEqual(len(r["step_seconds"]), steps)
        self.assertTrue(all(s > 0 for s in r["step_seconds"]))
        self.assertEqual(len(r["loss"]), steps)
        self.assertEqual(len(set(r["loss"])), 1, "the same step from the same state gives the same loss")

    def test_keys_and_types(self):
        for policy in "none", "speed", "memory":
            with self.subTest(policy):
                args = [self.chain(), "--loss=mse", f"--policy={policy}"]
                planned = self.report("opt", *args, "-o", "out.isth")
                self.check(planned, steps=0)
                run = self.report("run", *args, "--steps=3")
                self.check(run, steps=3)
                for key in self.INTEGERS + ["recompute_overhead"]:
                    self.assertEqual(planned[key], run[key], key)
                self.assertEqual(planned["clones"] > 0, policy != "none")
                self.assertEqual(planned["recompute_overhead"] > 0, policy != "none")

    def test_figures_of_a_sum_that_is_known(self):
        """At %b, the exp of x, the exp of that, and the loss are live; sizes are rounded up to 64 bytes."""
        self.write("m.isth", "isthmus 1\ngraph @g {\n  param %x : f32[1000]\n  %a = exp(%x) : f32[1000]\n"
                             "  %s = sum(%a) : f32[]\n  output %s\n}\n")
        r = self.report("run", "m.isth")
        self.assertEqual(r["persistent_bytes"], 4032)
        self.assertEqual(r["predicted_peak_bytes"], 4032 + 64)
        self.assertEqual(r["output_bytes"], 64)

    def test_every_net_and_policy(self):
        for name in ZOO:
            model, loss = self.zoo(name)
            baseline = None
            for policy in "none", "speed", "memory":
                with self.subTest(f"{name} {policy}"):
                    r = self.report("run", model, *loss, f"--policy={policy}", "--steps=2")
                    self.check(r, steps=2)
                    baseline = baseline or r
                    self.assertEqual(r["loss"], baseline["loss"])
                    self.assertEqual(r["baseline_peak_bytes"], baseline["predicted_peak_bytes"])
                    if policy == "memory":
                        self.assertLessEqual(r["predicted_peak_bytes"], baseline["predicted_peak_bytes"])

    def test_memory_saves_on_a_deep_net(self):
        model, loss = self.zoo("resnet")
        r = self.report("opt", model, *loss, "--policy=memory", "-o", "out.isth")
        self.assertLess(r["predicted_peak_bytes"], 0.7 * r["baseline_peak_bytes"])

    def test_a_large_net_is_counted(self):
        """With a batch of 256, ResNet-50 needs more memory than most machines have, but counting takes a few
        seconds."""
        self.run_ok("zoo", "resnet", "--depth=50", "--batch=256", "-o", "resnet50.isth")
        figures = {}
        for policy in "none", "memory":
            r = self.report("run", "resnet50.isth", "--loss=cross_entropy", "--device=counting", f"--policy={policy}",
                            memory_limit=4096)
            self.assertEqual(r["measured_peak_bytes"], r["predicted_peak_bytes"])
            self.assertIsNone(r["loss"])
            figures[policy] = r["predicted_peak_bytes"]
        self.assertGreater(figures["none"], 15 << 30)
        self.assertLess(figures["memory"], 0.6 * figures["none"])

    def test_a_rewritten_file_keeps_its_figures(self):
        first = self.report("opt", self.chain(), "--loss=mse", "--policy=memory", "-o", "out.isth")
        again = self.report("run", "out.isth")
        self.check(again, steps=1)
        for key in self.INTEGERS + ["policy_used", "recompute_overhead"]:
            self.assertEqual(first[key], again[key], key)

    def test_a_policys_choice_can_be_given_back(self):
        self.run_ok("zoo", "cnn", "-o", "zoo.isth")
        for policy in "speed", "memory":
            with self.subTest(policy):
                first = self.report("opt", "zoo.isth", "--loss=cross_entropy", f"--policy={policy}", "-o", "out.isth")
                self.assertGreater(first["clones"], 0)
                self.assertTrue(first["checkpoints"])
                marked = [line.split()[0][1:] for line in self.read("out.isth").decode().splitlines() if "#checkpoint" in line]
                self.assertEqual(sorted(marked), sorted(first["checkpoints"]))
                given = self.report("opt", "zoo.isth", "--loss=cross_entropy", "--checkpoints=" + ",".join(first["checkpoints"]), "-o", "list.isth")
                again = self.report("opt", "out.isth", "--policy=collection", "-o", "marks.isth")
                for other in given, again:
                    for key in "predicted_peak_bytes", "clones", "recompute_overhead", "checkpoints":
                        self.assertEqual(other[key], first[key], key)
                self.run_ok("verify", "list.isth", "marks.isth")
        self.assertEqual(self.report("opt", "zoo.isth", "--loss=cross_entropy", "-o", "none.isth")["checkpoints"], [])


class Arenas(Case):
    def test_within_one_percent_of_the_peak(self):
        zoo = (("resnet", "--depth=18", "--batch=2"), ("mobilenetv2", "--batch=2", "--shape=3x96x96"),
               ("unet", "--batch=2", "--shape=1x128x128"), ("cnn", "--batch=32"))
        for name, *options in zoo:
            self.run_ok("zoo", name, *options, "-o", "zoo.isth")
            for policy in "none", "speed", "memory":
                with self.subTest(f"{name} {policy}"):
                    r = self.report("opt", "zoo.isth", "--loss=cross_entropy", f"--policy={policy}", "-o", "out.isth")
                    self.assertGreater(r["predicted_peak_bytes"], 1 << 20)
                    self.assertLessEqual(r["predicted_peak_bytes"], r["arena_bytes"])
                    self.assertLessEqual(r["arena_bytes"], 1.01 * r["predicted_peak_bytes"])


class Graphs(Case):
    def test_opt_then_run(self):
        for policy in "none", "speed", "memory":
            with self.subTest(policy):
                self.run_ok("opt", self.chain(), "--loss=mse", f"--policy={policy}", "--keep-outputs", "-o", "out.isth")
                self.assert_same(self.outputs("chain.isth", "--loss=mse"), self.outputs("out.isth"))

    def test_optimising_twice_is_optimising_once(self):
        for policy in "none", "speed", "memory":
            for then in "none", "speed", "memory":
                with self.subTest(f"{policy} then {then}"):
                    self.run_ok("opt", self.chain(), "--loss=mse", f"--policy={policy}", "-o", "first.isth")
                    self.run_ok("opt", "first.isth", f"--policy={then}", "-o", "second.isth")
                    self.run_ok("opt", "chain.isth", "--loss=mse", f"--policy={then}", "-o", "once.isth")
                    self.assertEqual(self.read("second.isth").decode(), self.read("once.isth").decode())

    def test_the_same_call_gives_the_same_file(self):
        model, loss = self.zoo("unet")
        for name in "a.isth", "b.isth":
            self.run_ok("opt", model, *loss, "--policy=memory", "-o", name)
        self.assertEqual(self.read("a.isth"), self.read("b.isth"))

    def test_what_is_printed_is_read(self):
        """A graph that was written by the program is written again byte by byte."""
        for name in ZOO:
            with self.subTest(name):
                model, loss = self.zoo(name)
                self.assertEqual(self.run_ok("import", model).out, self.read(model))
                self.run_ok("opt", model, *loss, "--policy=memory", "-o", "out.isth")
                self.assertEqual(self.run_ok("import", "out.isth").out, self.read("out.isth"))

    def test_graphs_on_the_way(self):
        """Each step's graph is a text that reads back, and what it is said to be; the plan is the one without looking."""
        model = "mlp.isth"
        self.run_ok("zoo", "mlp", "--depth=4", "--batch=64", "--width=32", "--shape=32", "--dropout=0.1", "-o", model)
        asked = ["opt", model, "--loss=cross_entropy", "--policy=memory"]
        self.run_ok(*asked, "-o", "plain.isth")
        whole = self.run_ok(*asked, "--print-after=convert,differentiate,lower,chunk,rewrite", "-o", "small.isth").out.decode()
        self.assertEqual(self.read("small.isth"), self.read("plain.isth"))
        self.assertEqual([line for line in whole.splitlines() if line.startswith("// after")], [f"// after {s}" for s in ("convert", "differentiate", "lower", "rewrite")])
        steps = dict(re.findall(r"// after (\w+)\n(.*?\n}\n)", whole, re.S))
        self.assertNotIn("backward", steps["convert"])
        self.assertIn("backward", steps["differentiate"])
        self.assertNotIn("clone", steps["lower"])
        self.assertEqual(steps["rewrite"].encode(), self.read("plain.isth"))
        for step, text in steps.items():
            self.write(f"{step}.isth", text)
            self.run_ok("verify", "plain.isth", f"{step}.isth", *(["--loss=cross_entropy"] if step == "convert" else []))
        parts = self.run_ok(*asked[:3], "--microbatches=2", "--print-after=chunk").out.decode()
        self.assertIn("chunk", parts)
        self.assertEqual(parts.count("// after"), 1)
        refused = command.run("opt", model, "--print-after=plan", cwd=self.dir)
        self.assertEqual(refused.code, 2)
        self.assertIn("differentiate", refused.err)

    def test_pipes(self):
        piped = self.run_ok("zoo", *ZOO["cnn"]).out
        piped = self.run_ok("opt", "-", "--loss=mean", "--policy=memory", "--keep-outputs", "-o", "-", stdin=piped).out
        self.assertTrue(piped.startswith(b"isthmus 2\n"))
        through_pipes = self.outputs("-", stdin=piped)
        model, loss = self.zoo("cnn")
        self.assert_same(through_pipes, self.outputs(model, *loss))

    def test_a_marked_collection(self):
        text = self.read(self.chain()).decode()
        for name in "a3", "a7":
            text = re.sub(rf"(  %{name} = .*)", r"\1 #checkpoint", text)
        r = self.report("run", self.write("m.isth", text), "--loss=mse", "--policy=collection")
        self.assertGreater(r["clones"], 0)
        r = self.report("run", "m.isth", "--loss=mse", "--checkpoints=%a5")
        self.assertGreater(r["clones"], 0)

    def test_checkpoints_are_names_or_patterns(self):
        files = []
        for patterns in "%a1,%a2", "a1,a2", "a?", "%a*", '"a1",%"a2"', "a1,a*":
            with self.subTest(patterns):
                self.run_ok("opt", self.mlp(), "--loss=mse", f"--checkpoints={patterns}", "-o", "out.isth")
                files.append(self.read("out.isth"))
        self.assertEqual(len(set(files)), 1)

    def test_every_policy_gives_the_same_bits(self):
        for name in ZOO:
            model, loss = self.zoo(name)
            want = self.outputs(model, *loss)
            for policy in "speed", "memory":
                with self.subTest(f"{name} {policy}"):
                    self.assert_same(self.outputs(model, *loss, f"--policy={policy}"), want)

    def test_threads_do_not_change_bits(self):
        for name in "resnet", "gpt2", "gpt2_fused":
            with self.subTest(name):
                model, loss = self.zoo(name)
                self.assert_same(*(self.outputs(model, *loss, "--precision=f64", f"--threads={n}") for n in (1, 2)))

    def test_the_phase_of_recomputed_batch_norm(self):
        """Running averages are updated once a step, however often a batch norm is computed."""
        model, loss = self.zoo("resnet")
        want = self.outputs(model, *loss)
        got = self.outputs(model, *loss, "--policy=memory")
        states = [n for n in want if n.startswith("state.")]
        self.assertGreater(len(states), 10)
        for name in states:
            self.assertEqual(want[name], got[name], name)


class Gradients(Case):
    def test_names(self):
        self.assertEqual(sorted(self.outputs(self.mlp(), "--loss=mse")),
                         ["grad.b1", "grad.w1", "grad.w2", "grad.w3", "loss", "y"])
        self.assertEqual(sorted(self.outputs("mlp.isth", "--loss=mse", "--wrt=inputs")), ["grad.x", "loss", "y"])
        self.assertEqual(sorted(self.outputs("mlp.isth", "--loss=mse", "--wrt=%w2,x")), ["grad.w2", "grad.x", "loss", "y"])
        self.assertEqual(sorted(self.outputs("mlp.isth", "--loss=%y", "--wrt=%w3")), ["grad.w3", "y"])

    def test_a_forward_run(self):
        self.assertEqual(sorted(self.outputs(self.mlp())), ["y"])

    def test_second_differentiation(self):
        self.run_ok("grad", self.mlp(), "--loss=mse", "-o", "first.isth")
        self.run_ok("grad", "first.isth", "--ys=%grad.w1", "--xs=%w1,%w2", "--grad-ys=inputs", "-o", "second.isth")
        got = self.outputs("second.isth")
        for name in "grad2.w1", "grad2.w2", "grad.w1", "loss", "y":
            self.assertIn(name, got)
        self.assertIn("  input %seed.grad.w1 : f32[32, 128]\n", self.read("second.isth").decode())
        self.run_ok("grad", "second.isth", "--ys=%grad2.w2", "--xs=%w3", "-o", "third.isth")
        self.assertIn("grad3.w3", self.outputs("third.isth"))

    def test_what_no_gradient_reaches_is_told(self):
        self.write("two.isth", """isthmus 2
graph @two {
  input %x : f32[4, 8]
  param %w1 : f32[8, 8]
  param %w2 : f32[8, 8]
  %h1 = matmul(%x, %w1)
  %y1 = mean(%h1)
  %h2 = matmul(%x, %w2)
  output %y1
  output %h2
}
""")
        told = "no gradient of '%y1' reaches '%w2': what is given for it is zeros"
        for options in ["grad", "--ys=y1", "--xs=w1,w2"], ["grad", "--ys=y1", "--xs=w2"], ["opt", "--loss=%y1", "--wrt=w1,w2"]:
            with self.subTest(options):
                r = self.run_ok(options[0], "two.isth", *options[1:], "-o", "out.isth")
                self.assertIn(told, r.err)
                self.assertIn("--xs" if options[0] == "grad" else "--wrt", r.err)
        self.assertNotIn("no gradient", self.run_ok("grad", "two.isth", "--ys=y1", "--xs=w1", "-o", "out.isth").err)

    def test_hessian_vector_products_of_a_rewritten_graph(self):
        """Recomputation does not affect gradients of higher order: clones are mapped to their origins."""
        self.run_ok("grad", self.chain(), "--loss=mse", "-o", "first.isth")
        for policy in "--policy=memory", "--policy=speed", "--checkpoints=%a3,%a7":
            with self.subTest(policy):
                r = self.report("opt", "chain.isth", "--loss=mse", policy, "--keep-outputs", "-o", "rewritten.isth")
                self.assertGreater(r["clones"], 0)
                for source in "first", "rewritten":
                    self.run_ok("grad", f"{source}.isth", "--ys=%grad.w1,%grad.w2", "--xs=%w1,%w2,%x", "--grad-ys=inputs",
                                "-o", f"hvp_of_{source}.isth")
                a, b = (self.outputs(f"hvp_of_{s}.isth") for s in ("first", "rewritten"))
                self.assertTrue({"grad2.w1", "grad2.w2", "grad2.x"} <= set(a))
                self.assert_same(a, b)
                self.assertTrue(any(a["grad2.w1"][128:]), "all zeros")
                self.run_ok("verify", "hvp_of_first.isth", "hvp_of_rewritten.isth")

    def test_gradient_of_a_rewritten_graph_has_no_clones(self):
        self.run_ok("opt", self.chain(), "--loss=mse", "--policy=speed", "-o", "rewritten.isth")
        self.assertIn("clone(", self.read("rewritten.isth").decode())
        self.run_ok("grad", "rewritten.isth", "--ys=%loss", "--xs=%w0", "-o", "second.isth")
        self.assertNotIn("clone(", self.read("second.isth").decode())

    def test_a_stop_gradient_of_the_user_cuts_every_order(self):
        self.write("m.isth", "isthmus 1\ngraph @g {\n  param %w : f32[4] = normal {seed = 1}\n  %s = stop_gradient(%w) : f32[4]\n"
                             "  %m = mul(%s, %w) : f32[4]\n  %y = mul(%m, %w) : f32[4]\n  output %y\n}\n")
        w = self.write("in/w.npy", npy("f32", (4,), [1.0, -2.0, 0.5, 3.0]))
        self.assertTrue(w)
        self.run_ok("grad", "m.isth", "--ys=%y", "--xs=%w", "-o", "first.isth")
        self.run_ok("grad", "first.isth", "--ys=%grad.w", "--xs=%w", "-o", "second.isth")
        self.outputs("second.isth", "--inputs=in")
        self.assertEqual(read_npy(self.path("outputs/grad.w.npy"))[2], (2.0, 8.0, 0.5, 18.0), "2 s w")
        self.assertEqual(read_npy(self.path("outputs/grad2.w.npy"))[2], (2.0, -4.0, 1.0, 6.0), "2 s")

    def test_values_that_are_known(self):
        self.write("m.isth", "isthmus 1\ngraph @g {\n  input %x : f32[2, 2]\n  param %w : f32[2, 2] = ones\n"
                             "  %y = matmul(%x, %w) : f32[2, 2]\n  output %y\n}\n")
        self.write("in/x.npy", npy("f32", (2, 2), [1.0, 2.0, 3.0, 4.0]))
        self.write("in/target.npy", npy("f32", (2, 2), [3.0, 3.0, 3.0, 7.0]))
        self.outputs("m.isth", "--loss=mse", "--inputs=in", "--wrt=all")
        self.assertEqual(read_npy(self.path("outputs/loss.npy")), ("f32", (), (4.0,)))
        # y = [[3, 3], [7, 7]], and one element differs by 4 from the target: dy = [[0, 0], [2, 0]].
        self.assertEqual(read_npy(self.path("outputs/grad.w.npy")), ("f32", (2, 2), (6.0, 0.0, 8.0, 0.0)))
        self.assertEqual(read_npy(self.path("outputs/grad.x.npy")), ("f32", (2, 2), (0.0, 0.0, 2.0, 2.0)))

    def test_a_loss_that_is_no_scalar_is_seeded_with_ones(self):
        self.write("m.isth", "isthmus 1\ngraph @g {\n  param %w : f32[3] = ones\n  %y = affine(%w) {scale = 2.5}\n  output %y\n}\n")
        self.outputs("m.isth", "--loss=%y")
        self.assertEqual(read_npy(self.path("outputs/grad.w.npy"))[2], (2.5, 2.5, 2.5))

    def test_eval(self):
        model, loss = self.zoo("resnet")
        trained, evaluated = set(self.outputs(model, *loss)), set(self.outputs(model, *loss, "--eval"))
        states = {n for n in trained if n.startswith("state.")}
        self.assertGreater(len(states), 0)
        self.assertEqual(trained - evaluated, states)

    def test_eval_without_dropout(self):
        model, loss = self.zoo("mlp")
        seeds = [["--seed=1"], ["--seed=2"]]
        self.write("in/x.npy", npy("f32", (64, 784), [i % 13 / 13 for i in range(64 * 784)]))
        dropped = [self.outputs(model, *loss, *s, "--inputs=in")["y"] for s in seeds]
        self.assertNotEqual(*dropped)
        kept = [self.outputs(model, *loss, *s, "--inputs=in", "--eval")["y"] for s in seeds]
        self.assertEqual(*kept)


class Inputs(Case):
    def test_what_is_missing_is_drawn_from_the_seed(self):
        model = self.mlp()
        self.assertEqual(self.outputs(model), self.outputs(model))
        self.assertEqual(self.outputs(model), self.outputs(model, "--seed=0"))
        self.assertNotEqual(self.outputs(model), self.outputs(model, "--seed=1"))

    def test_parameters_may_be_given(self):
        self.write("in/w3.npy", npy("f32", (128, 10), [0.0] * 1280))
        self.outputs(self.mlp(), "--inputs=in")
        self.assertEqual(set(read_npy(self.path("outputs/y.npy"))[2]), {0.0})

    def test_drawn_labels_are_in_range(self):
        for seed in range(5):
            self.run_ok("run", self.mlp(), "--loss=cross_entropy", f"--seed={seed}")

    def test_labels_of_other_axes(self):
        model, _ = self.zoo("unet")
        self.assertEqual(len(self.report("run", model, "--loss=cross_entropy")["loss"]), 1)

    def test_odd_names_of_inputs_and_outputs(self):
        """In file names / and : become _, and names that would then be equal are numbered; names.json maps files to
        outputs."""
        self.write("m.isth", 'isthmus 1\ngraph @g {\n  input %"in/x:0" : f32[2]\n  %"a/b" = exp(%"in/x:0")\n  %"a:b" = neg(%"in/x:0")\n'
                             '  %a_b = abs(%"in/x:0")\n  output %"a/b"\n  output %"a:b"\n  output %a_b\n}\n')
        self.write("in/in_x_0.npy", npy("f32", (2,), [-3.0, 0.0]))
        self.outputs("m.isth", "--inputs=in")
        names = json.loads(self.read("outputs/names.json"))
        self.assertEqual(names, {"a_b.npy": "a/b", "a_b.2.npy": "a:b", "a_b.3.npy": "a_b"})
        self.assertEqual(read_npy(self.path("outputs/a_b.2.npy"))[2], (3.0, 0.0))
        self.assertEqual(read_npy(self.path("outputs/a_b.3.npy"))[2], (3.0, 0.0))
        # A file that is called as one input is may be another one's, where that one has its own.
        self.write("d.isth", 'isthmus 2\ngraph @g {\n  input %"a/b" : f32[1]\n  input %a_b : f32[1]\n  %y = sub(%"a/b", %a_b)\n  output %y\n}\n')
        self.write("both/a_b.npy", npy("f32", (1,), [10.0]))
        self.write("both/a_b.2.npy", npy("f32", (1,), [3.0]))
        self.write("one/a_b.npy", npy("f32", (1,), [10.0]))
        self.write("exact/a_b.npy", npy("f32", (1,), [10.0]))
        self.write("exact/a/b.npy", npy("f32", (1,), [3.0]))
        drawn = {}
        for folder in "both", "one", "exact":
            self.outputs("d.isth", f"--inputs={folder}", "--seed=1")
            drawn[folder] = read_npy(self.path("outputs/y.npy"))[2][0]
        self.assertEqual((drawn["both"], drawn["exact"]), (7.0, -7.0))
        self.assertNotEqual(drawn["one"], 0, "one file for two inputs")

    def test_16_bits_that_numpy_does_not_know(self):
        """NumPy writes arrays of ml_dtypes' bfloat16 as |V2."""
        self.write("m.isth", "isthmus 2\ngraph @g {\n  input %x : bf16[2]\n  %y = cast(%x) {type = f32}\n  output %y\n}\n")
        self.write("in/x.npy", npy("u8", (2,), [0x40, 0x40, 0x00, 0xC0], descr="|V2"))
        self.outputs("m.isth", "--inputs=in")
        self.assertEqual(read_npy(self.path("outputs/y.npy"))[2], (3.0, -2.0))

    def test_precision_of_a_step(self):
        """A step that is differentiated already, in whatever precision, is converted; a loss's gradient stays f32 beside 16 bits."""
        loss = "--loss=cross_entropy"
        self.run_ok("zoo", "mlp", "--width=16", "--batch=4", "--shape=8", "-o", "net.isth")
        self.run_ok("grad", "net.isth", loss, "-o", "step.isth")
        for precision in "bf16", "f16", "f64":
            self.run_ok("opt", "net.isth", loss, f"--precision={precision}", "--budget=min", "--effort=0.1", "-o", "half.isth")
            self.run_ok("verify", "net.isth", "half.isth", loss, f"--precision={precision}")
            self.run_ok("verify", "half.isth", "step.isth", f"--precision={precision}")
            want = self.report("run", "net.isth", loss, f"--precision={precision}")["loss"]
            for step in "step.isth", "half.isth":
                self.assertEqual(self.report("run", step, f"--precision={precision}")["loss"], want)
            for other in "bf16", "f16", "f32", "f64":
                self.run_ok("run", "half.isth", f"--precision={other}")
        # A plan keeps its source order where casts are added.
        self.run_ok("zoo", "cnn", "--batch=4", "--width=4", "--shape=3x16x16", "-o", "net.isth")
        self.run_ok("opt", "net.isth", loss, "--budget=min", "--allow=recompute,fetch", "-o", "plan.isth")
        for precision in "bf16", "f64":
            self.run_ok("opt", "plan.isth", f"--precision={precision}", "--budget=min", "--effort=0.1", "-o", "other.isth")
            self.run_ok("verify", "net.isth", "other.isth", loss, f"--precision={precision}")

    def test_precision(self):
        for precision, code in ("f32", "<f4"), ("f64", "<f8"), ("f16", "<f2"):
            with self.subTest(precision):
                outputs = self.outputs(self.mlp(), "--loss=mse", f"--precision={precision}")
                for name, content in outputs.items():
                    self.assertIn(f"'descr': '{code}'".encode(), content[:128], name)
        self.outputs("mlp.isth", "--loss=mse", "--precision=bf16")

    def test_layout(self):
        """The layout changes the order of sums and nothing else; on the CPU no layout is chosen automatically."""
        for name in "cnn", "resnet", "unet":
            with self.subTest(name):
                model, loss = self.zoo(name)
                first = self.outputs(model, *loss, "--precision=f64")
                self.assert_same(self.outputs(model, *loss, "--precision=f64", "--layout=channels-first"), first)
                report = self.report("run", model, *loss, "--precision=f64", "--outputs=first")
                self.report("run", model, *loss, "--precision=f64", "--layout=channels-last", "--outputs=last")
                self.assertEqual(self.read("last/names.json"), self.read("first/names.json"))
                differ = 0
                for file in json.loads(self.read("first/names.json")):
                    a, b = read_npy(self.path(f"first/{file}")), read_npy(self.path(f"last/{file}"))
                    self.assertEqual(a[:2], b[:2], file)
                    largest = max(map(abs, a[2]))
                    self.assertLess(max(abs(x - y) for x, y in zip(a[2], b[2])), 1e-9 * largest + 1e-15, file)
                    differ += a[2] != b[2]
                self.assertGreater(differ, 0, "the layout changed nothing")
                self.assertGreater(report["nodes"], 0)

    def test_plans_channels_last(self):
        for name in "resnet", "unet":
            model, loss = self.zoo(name)
            want = self.outputs(model, *loss, "--layout=channels-last")
            for plan in "--policy=memory", "--policy=speed", "--budget=min":
                with self.subTest(f"{name} {plan}"):
                    got = self.outputs(model, *loss, "--layout=channels-last", plan, "--report=r.json")
                    self.assert_same(got, want)
                    r = json.loads(self.read("r.json"))
                    self.assertEqual(r["measured_peak_bytes"], r["predicted_peak_bytes"])
                    self.assertLess(r["predicted_peak_bytes"], r["baseline_peak_bytes"])

    def test_a_plan_keeps_its_layout(self):
        model, loss = self.zoo("resnet")
        for layout in "channels-first", "channels-last":
            for out in "out.isth", "out.onnx":
                with self.subTest(f"{layout} {out}"):
                    self.run_ok("opt", model, *loss, "--policy=memory", f"--layout={layout}", "--keep-outputs", "-o", out)
                    self.run_ok("verify", model, out, *loss)
                    self.run_ok("verify", out, model, *loss, "--layout=channels-first")
                    self.assert_same(self.outputs(out), self.outputs(model, *loss, f"--layout={layout}"))
        self.assertIn(b"record {layout = channels_last", self.read("out.isth"))
        self.assertIn("channels_last = true", self.read("out.isth").decode())
        talk = self.run_ok("run", "out.isth", "--layout=channels-first").err
        self.assertIn("planned channels-last", talk)

    def test_f32_files_serve_wider_runs(self):
        """A model's inputs are f32 on disk; a run in f64 reads the same numbers."""
        values = [i / 7 for i in range(64 * 32)]
        self.write("in/x.npy", npy("f32", (64, 32), values))
        narrow = self.outputs(self.mlp(), "--precision=f64", "--inputs=in")
        exact = [v for v in read_npy(self.path("in/x.npy"))[2]]
        self.write("in/x.npy", npy("f64", (64, 32), exact))
        self.assert_same(narrow, self.outputs("mlp.isth", "--precision=f64", "--inputs=in"))


    def test_a_fill_is_exact(self):
        """The text of a graph has all digits of the type in which a value is computed."""
        text = "isthmus 1\ngraph @g {\n  const %c : f64[3] = fill {value = -4.826984902407649}\n  %y = neg(%c)\n  output %y\n}\n"
        self.write("fill.isth", text)
        self.outputs("fill.isth")
        self.assertEqual(read_npy(self.path("outputs/y.npy")), ("f64", (3,), (4.826984902407649,) * 3))


class Verify(Case):
    def test_equal(self):
        self.run_ok("opt", self.chain(), "--loss=mse", "--policy=memory", "-o", "out.isth")
        for args in (["chain.isth", "out.isth", "--loss=mse"], ["out.isth", "chain.isth", "--loss=mse"], ["out.isth", "out.isth"]):
            with self.subTest(args):
                result = self.run_ok("verify", *args, "--steps=2")
                self.assertEqual(result.out, b"")
                self.assertIn("equal", result.err)

    def test_sizes_are_bound_where_they_are_open(self):
        self.write("m.onnx", onnx_file.model([onnx_file.node("Relu", ["x"], ["y"])], [onnx_file.value_info("x", ["N", 4])],
                                             [onnx_file.value_info("y", ["N", 4])]))
        options = ["--dim", "N=3", "--loss=mean", "--wrt=inputs"]
        self.run_ok("opt", "m.onnx", *options, "-o", "m.isth")
        self.run_ok("verify", "m.onnx", "m.isth", *options)
        self.run_ok("verify", "m.isth", "m.onnx", *options)
        # Each of two models takes the sizes that it leaves open.
        self.run_ok("opt", "m.onnx", *options, "-o", "bound.onnx")
        self.run_ok("verify", "m.onnx", "bound.onnx", *options)
        self.run_ok("dot", "m.isth", "--diff=m.onnx", *options, "-o", "m.dot")
        self.run_ok("view", "m.isth", "m.onnx", *options, "-o", "m.html")
        for pair in ("m.onnx", "bound.onnx"), ("m.isth", "m.isth"):
            result = command.run("verify", *pair, *options, "--dim", "M=3", cwd=self.dir)
            self.assertEqual(result.code, 2)
            self.assertRegex(result.err, r"no open size of either model is called '[MN]'")
        self.assertEqual(command.run("verify", "m.isth", "m.isth", *options, cwd=self.dir).code, 2)

    def test_different(self):
        self.write("other.isth", MLP.replace("std = 0.2, seed = 1", "std = 0.2, seed = 7"))
        result = command.run("verify", self.mlp(), "other.isth", "--loss=mse", cwd=self.dir)
        self.assertEqual(result.code, 4, result)
        self.assertIn("grad.w1", result.err)
        self.assertEqual(result.out, b"")

    def test_different_by_one_bit(self):
        """The two models differ only in the last bit of a weight."""
        text = "isthmus 1\ngraph @g {\n  param %w : f32[2] = [1.0, %s]\n  %y = neg(%w) : f32[2]\n  output %y\n}\n"
        self.write("a.isth", text.replace("%s", "2.0"))
        self.write("b.isth", text.replace("%s", "2.0000002"))
        result = command.run("verify", "a.isth", "b.isth", "--loss=mean", cwd=self.dir)
        self.assertEqual(result.code, 4, result)
        self.assertIn("'%y'", result.err)
        self.assertIn("1 of 2", result.err)

    def test_different_outputs(self):
        self.write("other.isth", MLP.replace("output %y", "output %y\n  output %a1"))
        result = command.run("verify", self.mlp(), "other.isth", "--loss=mse", cwd=self.dir)
        self.assertEqual(result.code, 4, result)
        self.assertIn("'%a1'", result.err)


class TestData(Case):
    """Tests `run --test-data`: a model with inputs and expected outputs."""

    def case(self, wanted, folder="data/test_data_set_0"):
        """Writes y = relu(x), whose size depends on the data."""
        shape = ["N", 2]
        self.write("m.onnx", onnx_file.model([onnx_file.node("Relu", ["x"], ["y"])], [onnx_file.value_info("x", shape)],
                                             [onnx_file.value_info("y", shape)]))
        self.write(f"{folder}/input_0.pb", onnx_file.tensor("x", [3, 2], [1, -1, 2, -2, 3, -3]))
        self.write(f"{folder}/output_0.pb", onnx_file.tensor("y", [3, 2], wanted))

    def test_as_expected(self):
        self.case([1, 0, 2, 0, 3.0003, 0])
        for folder in "data", "data/test_data_set_0":
            result = self.run_ok("run", "m.onnx", f"--test-data={folder}")
            self.assertIn("1 outputs are as expected", result.err)
            self.assertEqual(result.out, b"")

    def test_different(self):
        self.case([1, 0, 2, 0.5, 3, 0])
        result = command.run("run", "m.onnx", "--test-data=data", cwd=self.dir)
        self.assertEqual(result.code, 4, result)
        for phrase in "output_0.pb", "'%y'", "1 of 6", "element 3", "0.5":
            self.assertIn(phrase, result.err)
        self.run_ok("run", "m.onnx", "--test-data=data", "--atol=0.6")

    def test_every_set_is_run(self):
        self.case([1, 0, 2, 0, 3, 0])
        self.case([1, 0, 2, 0, 4, 0], "data/test_data_set_1")
        result = command.run("run", "m.onnx", "--test-data=data", cwd=self.dir)
        self.assertEqual(result.code, 4, result)
        self.assertIn("test_data_set_1", result.err)
        self.assertNotIn("test_data_set_0", result.err)

    def test_wrong_data(self):
        self.case([1, 0, 2, 0, 3, 0])
        for content in b"", b"not a tensor", onnx_file.tensor("x", [2, 2], [1, 2, 3]):
            with self.subTest(content):
                self.write("data/test_data_set_0/input_0.pb", content)
                result = command.run("run", "m.onnx", "--test-data=data", cwd=self.dir)
                self.assertEqual(result.code, 1, result)
                self.assertIn("input_0.pb", result.err)
        result = command.run("run", "m.onnx", "--test-data=nowhere", cwd=self.dir)
        self.assertEqual(result.code, 1, result)
        self.assertIn("'nowhere'", result.err)

    def test_what_makes_no_sense_beside_it(self):
        self.case([1, 0, 2, 0, 3, 0])
        for option in "--inputs=data", "--loss=mean", "--wrt=all", "--eval", "--device=counting":
            result = command.run("run", "m.onnx", "--test-data=data", option, cwd=self.dir)
            self.assertEqual(result.code, 2, f"{option}: {result}")


class Talk(Case):
    def test_stdout_has_only_products(self):
        model = self.chain()
        for args in (["run", model, "--loss=mse"], ["opt", model, "--loss=mse", "-o", "o.isth"], ["import", model, "-o", "i.isth"],
                     ["verify", model, model, "--loss=mse"], ["grad", model, "--loss=mse", "-o", "g.isth"],
                     ["dot", model, "-o", "d.dot"], ["zoo", "mlp", "-o", "z.isth"],
                     ["run", model, "--loss=mse", "--progress=plain"]):
            with self.subTest(args[0]):
                self.assertEqual(self.run_ok(*args).out, b"")
        for args in (["opt", model, "--loss=mse", "--policy=memory"], ["import", model], ["grad", model, "--loss=mse"], ["zoo", "mlp"]):
            with self.subTest(args[0]):
                out = self.run_ok(*args).out.decode()
                self.assertTrue(out.startswith("isthmus 2\n") and out.endswith("\n}\n"), out[:200])

    def test_colour_on_terminals_only(self):
        env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        env["TERM"] = "xterm"
        code, text = self.on_terminal("run", "no.isth", env=env)
        self.assertEqual(code, 1)
        self.assertIn(b"\x1b[", text)
        code, text = self.on_terminal("run", "no.isth", env={**env, "NO_COLOR": "1"})
        self.assertEqual(code, 1)
        self.assertNotIn(b"\x1b", text)
        self.assertNotIn("\x1b", command.run("run", "no.isth", cwd=self.dir).err)

    def test_no_progress_bar_with_no_color(self):
        env = {**os.environ, "NO_COLOR": "1", "TERM": "xterm"}
        code, text = self.on_terminal("run", self.chain(), "--loss=mse", "--steps=200", env=env)
        self.assertEqual(code, 0)
        self.assertNotIn(b"\x1b", text)
        self.assertNotIn(b"\r\x1b", text)

    def test_help(self):
        top = self.run_ok("--help").out.decode()
        for verb in VERBS:
            with self.subTest(verb):
                self.assertRegex(top, rf"(?m)^ *{verb}\b")
                text = self.run_ok(verb, "--help").out.decode()
                self.assertIn("Example", text)
                self.assertIn(f"isthmus {verb}", text)

    def test_help_of_a_model(self):
        text = self.run_ok("zoo", "unet", "--help").out.decode()
        self.assertIn("--width=64", text)
        self.assertIn("--shape=", text)
        self.assertNotIn("--heads", text)
        self.assertIn("--heads", self.run_ok("zoo", "--help").out.decode())
        self.assertIn("sqrt(N) bottlenecks", " ".join(self.run_ok("opt", "--help").out.decode().split()))

    def test_examples_of_help_are_right(self):
        """The examples in the help use existing options. (The files that they name do not exist.)"""
        for verb in VERBS:
            text = self.run_ok(verb, "--help").out.decode()
            example = next(line for line in text.splitlines() if line.strip().startswith(f"isthmus {verb}") and "Usage" not in line
                           and "[OPTIONS]" not in line)
            if verb in ("selftest",):  # it takes long, and has a test of its own
                continue
            result = command.run(*example.split()[1:], cwd=self.dir)
            self.assertIn(result.code, (0, 1), f"{example}\n{result}")

    def test_defaults_are_told(self):
        text = self.run_ok("run", "--help").out.decode()
        for option in "--loss", "--class-axis", "--wrt", "--dim", "--eval", "--as-written", "--seed", "--threads", "--precision", \
                "--layout", "--progress", "--policy", "--checkpoints", "--device", "--steps", "--inputs", "--outputs", "--report":
            self.assertIn(option, text)

    def test_version(self):
        self.assertRegex(self.run_ok("--version").out.decode(), r"^isthmus \d+\.\d+\.\d+\n$")

    def test_lists(self):
        self.assertIn("relu", self.run_ok("ops").out.decode())
        self.assertIn("cpu", self.run_ok("devices").out.decode())
        self.assertIn("resnet", self.run_ok("zoo").out.decode())

    def test_every_op_is_named_once(self):
        names = [line.split()[0] for line in self.run_ok("ops").out.decode().splitlines()[1:] if line.strip()]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreater(len(names), 80)

    def test_columns_of_the_ops_do_not_touch(self):
        header, *rows = self.run_ok("ops").out.decode().splitlines()
        columns = [header.index(c) for c in ("gradient", "inverse", "cpu kernels", "operands")]
        for row in rows:
            if row.strip():
                self.assertEqual({row[c - 1 : c] or " " for c in columns}, {" "}, row)

    def test_selftest(self):
        is_short = command.IS_SANITIZED or "ISTHMUS_FULL" not in os.environ  # //tests/random compares random graphs too
        fewer = ["--graphs=100"] if is_short else []
        out = self.run_ok("selftest", *fewer, timeout=600).out.decode()
        self.assertRegex(out, r"(\d+) passed, 0 failed\n$")


class Pictures(Case):
    def test_dot(self):
        out = self.run_ok("dot", self.mlp()).out.decode()
        self.assertRegex(out, r"(?m)^digraph\b")
        self.run_ok("opt", "mlp.isth", "--loss=mse", "--policy=collection", "--dot=g.dot", "-o", "out.isth")
        text = self.read("g.dot")
        self.assertIn(b"\ndigraph ", text)
        graphviz = shutil.which("dot")
        if not graphviz:
            self.skipTest("NOT RUN in full: Graphviz is not installed")
        fonts = {**os.environ, "XDG_CACHE_HOME": self.dir}  # fontconfig complains if it cannot write its cache
        svg = subprocess.run([graphviz, "-Tsvg"], input=text, capture_output=True, check=False, env=fonts)
        self.assertEqual((svg.returncode, svg.stderr), (0, b""))
        self.assertIn(b"<svg", svg.stdout)

    def test_svg(self):
        if not shutil.which("dot"):
            self.skipTest("NOT RUN: Graphviz is not installed")
        self.run_ok("dot", self.mlp(), "--loss=mean", "-o", "g.svg")
        self.assertIn(b"<svg", self.read("g.svg"))
        self.assertNotIn(b"http-equiv", self.read("g.svg"))


class WrittenFiles(Case):
    def test_replaced_whole(self):
        """If a new output cannot be written, an old file of that name stays as it was."""
        self.write("out.isth", "precious")
        result = command.run("opt", self.mlp(), "--loss=mean", "--checkpoints=nope", "-o", "out.isth", cwd=self.dir)
        self.assertEqual(result.code, 1)
        self.assertEqual(self.read("out.isth"), b"precious")
        self.run_ok("opt", "mlp.isth", "--loss=mean", "-o", "out.isth")
        self.assertTrue(self.read("out.isth").startswith(b"isthmus 2\n"))
        self.assertEqual(sorted(os.listdir(self.dir)), ["mlp.isth", "out.isth"])

    def test_permissions_follow_the_umask(self):
        os.umask(0o022)
        self.run_ok("import", self.mlp(), "-o", "out.isth")
        self.assertEqual(os.stat(self.path("out.isth")).st_mode & 0o777, 0o644)

    def test_large_weights_go_beside(self):
        """The text does not contain a million digits. Copies of both files work elsewhere."""
        self.write("m.isth", "isthmus 1\ngraph @g {\n  const %w : f32[4096] = [" + ", ".join(str(i / 7) for i in range(4096)) +
                   "]\n  %y = exp(%w) : f32[4096]\n  output %y\n}\n")
        os.mkdir(self.path("out"))
        self.run_ok("import", "m.isth", "-o", "out/model.isth")
        written = sorted(os.listdir(self.path("out")))
        self.assertIn("model.isth", written)
        if "model.safetensors" in written:
            self.assertIn('weights "model.safetensors" digest "', self.read("out/model.isth").decode())
        want = self.outputs("m.isth")
        os.rename(self.path("out"), self.path("moved"))
        self.assert_same(self.outputs("moved/model.isth"), want)

    def test_interrupted(self):
        model, loss = self.zoo("resnet")
        before = sorted(os.listdir(self.dir))
        result = self.interrupted_at("^running: ", "run", model, *loss, "--steps=100000", "--outputs=o", "--report=r.json")
        self.assertIn(result.code, (130, -signal.SIGINT), result)
        self.assertEqual(sorted(os.listdir(self.dir)), before)

    def test_a_reader_that_stops(self):
        """`isthmus zoo ... | head -1` gives at most a short error, and does not crash."""
        process = subprocess.Popen([command.BINARY, "zoo", "resnet", "--depth=1202", "--batch=1"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        self.assertIn(process.wait(timeout=60), (0, 1, -signal.SIGPIPE), err)
        self.assertLess(err.count(b"\n"), 3, err)


if __name__ == "__main__":
    command.main()
