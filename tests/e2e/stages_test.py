"""Tests steps over several devices: losses and gradients, peaks, orders, checkpoint modes, files, refusals."""

import json
import math
import os
import random
import re
import unittest
from xml.etree import ElementTree

import command
from cli_cases import Case
from command import npy, read_npy
from training import npz

FULL = bool(os.environ.get("ISTHMUS_FULL"))
LOSS = "--loss=cross_entropy"
ONE = "--threads=1"
ORDERS = ["gpipe", "1f1b", "zero-bubble"]
MODES = ["always", "except_last", "never"]
NETS = {
    "mlp": ["mlp", "--depth=6", "--width=64", "--batch=12", "--dropout=0.2"],
    "unet": ["unet", "--depth=2", "--width=8", "--batch=8", "--shape=3x32x32"],
    "gpt2": ["gpt2", "--depth=4", "--width=32", "--heads=4", "--batch=8", "--tokens=16", "--vocab=300", "--dropout=0.1"],
}


class Stages(Case):
    def net(self, name, *options):
        self.run_ok("zoo", *(options or NETS[name]), "-o", name + ".isth")
        return name + ".isth"

    def run_into(self, folder, *args):
        """The report, and the paths of the outputs' files; each device's peak is what was predicted."""
        r = self.report("run", *args, ONE, "--outputs=" + folder)
        for stage in r.get("stages", []):
            self.assertEqual(stage["measured_peak_bytes"], stage["predicted_peak_bytes"])
        if "stages" in r:
            self.assertEqual(r["predicted_peak_bytes"], max(s["predicted_peak_bytes"] for s in r["stages"]))
        return r, self.written(folder)

    def written(self, folder):
        names = json.loads(self.read(folder + "/names.json"))
        return {name: self.path(f"{folder}/{file}") for file, name in names.items()}

    def assert_bits(self, got, want):
        """Compares the outputs that both have, of which there are some."""
        both = set(got) & set(want)
        self.assertTrue(both)
        for name in both:
            self.assertEqual(self.read(got[name]), self.read(want[name]), name)

    def fails_with(self, code, *args):
        result = command.run(*args, cwd=self.dir)
        self.assertEqual(result.code, code, result.err)
        return result

    def values(self, path):
        return path if isinstance(path, list) else list(read_npy(path)[2])

    def assert_near(self, got, want, tolerance):
        """Compares outputs that both have, gradients among them: the norm of the difference, as a share of the norm."""
        both = set(got) & set(want)
        self.assertTrue(any(name.startswith("grad") for name in both))
        for name in both:
            a, b = self.values(got[name]), self.values(want[name])
            self.assertEqual(len(a), len(b), name)
            off = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)))
            self.assertLessEqual(off, tolerance * max(math.sqrt(sum(y * y for y in b)), 1e-30), name)


class Training(Stages):
    def check(self, name, microbatches, stages, tolerance=1e-5, *options, sampled=ORDERS):
        """Compares a network's step with that of one device, in these orders, or with ISTHMUS_FULL=1 in all, and in all modes."""
        orders = ORDERS if FULL else sampled
        model = self.net(name)
        _, want = self.run_into("whole", model, LOSS, *options)
        _, batches = self.run_into("batches", model, LOSS, f"--microbatches={microbatches}", *options)
        self.assert_near(batches, want, tolerance)
        peaks = {}
        for order in orders:
            for mode in MODES:
                r, got = self.run_into("stages", model, LOSS, f"--stages={stages}", f"--microbatches={microbatches}",
                                       f"--schedule={order}", f"--checkpoint={mode}", *options)
                self.assertEqual(len(r["stages"]), stages)
                peaks[order, mode] = [s["predicted_peak_bytes"] for s in r["stages"]]
                # Orders, modes and devices change no bit of the step in micro-batches.
                self.assert_bits(got, batches)
        for order in orders:
            always, some, never = (peaks[order, mode] for mode in MODES)
            for a, s, n in zip(always, some, never):
                self.assertLessEqual(a, s)
                self.assertLessEqual(s, n)
        return peaks

    def test_a_linear_net(self):
        self.check("mlp", 4, 2)

    def test_long_skips(self):
        peaks = self.check("unet", 4, 3, sampled=["gpipe"])
        self.assertLess(peaks["gpipe", "always"][0], 0.6 * peaks["gpipe", "never"][0])

    def test_a_tied_head_dropout_and_an_uneven_last_micro_batch(self):
        self.check("gpt2", 3, 2, sampled=["1f1b", "zero-bubble"])

    def test_fewer_micro_batches_than_stages(self):
        self.check("gpt2", 2, 4, sampled=["zero-bubble"])

    def test_in_f64(self):
        self.check("mlp", 4, 3, 1e-11, "--precision=f64", sampled=["1f1b"])

    def test_several_stages_on_a_device(self):
        model = self.net("gpt2")
        _, want = self.run_into("whole", model, LOSS, "--microbatches=4")
        r, got = self.run_into("stages", model, LOSS, "--microbatches=4", "--stages=4", "--devices=cpu:0,cpu:1",
                               "--schedule=interleaved")
        self.assertEqual([s["device"] for s in r["stages"]], ["cpu:0", "cpu:1"])
        self.assertEqual(r["schedule"], "interleaved")
        self.assert_bits(got, want)

    def test_a_budget_holds_on_each_device(self):
        model = self.net("unet")
        free = self.report("opt", model, LOSS, ONE, "--stages=2", "--microbatches=4")
        budget = free["baseline_peak_bytes"] * 6 // 10
        r, got = self.run_into("stages", model, LOSS, "--stages=2", "--microbatches=4", f"--budget={budget}", "--effort=0.5")
        for stage in r["stages"]:
            self.assertLessEqual(stage["arena_bytes"], budget)
        _, want = self.run_into("whole", model, LOSS, "--microbatches=4")
        self.assert_bits(got, want)
        r = self.fails_with(3, "opt", model, LOSS, ONE, "--stages=2", "--microbatches=4", "--budget=1000", "--effort=0.1",
                           "--report=r.json")
        self.assertIn("cannot be met", r.err)
        with open(self.path("r.json")) as f:
            self.assertGreater(json.load(f)["smallest_budget_bytes"], 1000)

    def test_a_planned_file_runs_within_its_budget(self):
        model = self.net("unet")
        step = [model, LOSS, ONE, "--stages=2", "--microbatches=4"]
        free = self.report("opt", *step)["baseline_peak_bytes"]
        for percent in range(60, 84, 4):
            budget = free * percent // 100
            self.run_ok("opt", *step, f"--budget={budget}", "--effort=0.1", "-o", "planned.isth")
            with self.subTest(percent):
                self.assertLessEqual(self.report("run", "planned.isth", ONE)["arena_bytes"], budget)

    def test_the_smallest_budget_of_a_mode_can_be_met(self):
        """Of the orders that are tried, the fastest may need more: it does not count then."""
        self.run_ok("zoo", "unet", "--depth=2", "--width=4", "--batch=3", "--shape=3x16x16", "-o", "unet.isth")
        for mode in "never", "always":
            step = ["opt", "unet.isth", "--loss=l1", "--stages=3", "--schedule=auto", f"--checkpoint={mode}", "-o", "out.isth"]
            self.fails_with(3, *step, "--budget=10%", "--report=r.json")
            with open(self.path("r.json")) as f:
                least = json.load(f)["smallest_budget_bytes"]
            self.assertLessEqual(self.report(*step, f"--budget={least}")["arena_bytes"], least)

    def test_auto_is_as_fast_as_any_pair_that_fits(self):
        model = self.net("gpt2")
        options = [model, LOSS, ONE, "--stages=2", "--microbatches=4", "--effort=0.3"]
        budget = self.report("opt", *options)["baseline_peak_bytes"] * 7 // 10
        auto = self.report("opt", *options, f"--budget={budget}")
        fitting = 0
        for order in ORDERS:
            for mode in MODES:
                r = self.report("opt", *options, f"--schedule={order}", f"--checkpoint={mode}")
                if r["arena_bytes"] <= budget:
                    fitting += 1
                    # An order that is less than half a per cent faster is not worth what it holds.
                    self.assertLessEqual(auto["predicted_step_seconds"], 1.0051 * r["predicted_step_seconds"], (order, mode))
        self.assertGreater(fitting, 0)


class BatchNorm(Stages):
    RESNET = ["resnet", "--depth=8", "--shape=3x16x16"]

    def test_micro_is_separate_passes(self):
        """Each micro-batch has its own statistics; the first norm's averages are those of the whole batch."""
        model = self.net("r8", *self.RESNET, "--batch=8")
        small = self.net("r2", *self.RESNET, "--batch=2")
        draw = random.Random(0)
        picture = 3 * 16 * 16
        x = [draw.gauss(0, 1) for _ in range(8 * picture)]
        y = [draw.randrange(10) for _ in range(8)]
        total = {}
        for part in range(4):
            self.inputs(f"in{part}", x[2 * part * picture:2 * (part + 1) * picture], y[2 * part:2 * part + 2])
            _, out = self.run_into(f"out{part}", small, LOSS, "--precision=f64", f"--inputs=in{part}")
            for name, path in out.items():
                values = [v / 4 for v in self.values(path)]
                total[name] = [a + b for a, b in zip(total[name], values)] if name in total else values
        self.inputs("in", x, y)
        common = [model, LOSS, "--precision=f64", "--inputs=in"]
        _, whole = self.run_into("whole", *common)
        for extra in ([], ["--stages=2"], ["--stages=3", "--checkpoint=always"]):
            _, got = self.run_into("micro", *common, "--microbatches=4", "--batch-norm=micro", *extra)
            self.assert_near({n: v for n, v in got.items() if n.startswith(("grad.", "loss"))}, total, 1e-11)
            averages = {"grad" + n: got[n] for n in ("state.bn1.running_mean", "state.bn1.running_var")}
            self.assert_near(averages, {"grad" + n: v for n, v in whole.items()}, 1e-12)

    def test_uneven_micro_batches(self):
        """Ten examples in four parts, of 2, 3, 2 and 3: the step of separate passes, weighted by their examples."""
        draw = random.Random(0)
        picture = 3 * 16 * 16
        x = [draw.gauss(0, 1) for _ in range(10 * picture)]
        y = [draw.randrange(10) for _ in range(10)]
        total = {}
        for part, (begin, end) in enumerate(((0, 2), (2, 5), (5, 7), (7, 10))):
            own = self.net(f"r{end - begin}", *self.RESNET, f"--batch={end - begin}")
            self.inputs(f"in{part}", x[begin * picture:end * picture], y[begin:end])
            _, out = self.run_into(f"out{part}", own, LOSS, "--precision=f64", f"--inputs=in{part}")
            for name, path in out.items():
                values = [v * (end - begin) / 10 for v in self.values(path)]
                total[name] = [a + b for a, b in zip(total[name], values)] if name in total else values
        self.inputs("in", x, y)
        common = [self.net("r10", *self.RESNET, "--batch=10"), LOSS, "--precision=f64", "--inputs=in"]
        _, whole = self.run_into("whole", *common)
        step = [*common, "--microbatches=4", "--batch-norm=micro"]
        for extra in ([], ["--stages=2"]):
            _, got = self.run_into("micro", *step, *extra)
            self.assert_near({n: v for n, v in got.items() if n.startswith(("grad.", "loss"))}, total, 1e-11)
            averages = {"grad" + n: got[n] for n in ("state.bn1.running_mean", "state.bn1.running_var")}
            self.assert_near(averages, {"grad" + n: v for n, v in whole.items()}, 1e-12)
        # The file keeps the nodes of the whole, whose parts are as uneven.
        self.run_ok("opt", common[0], LOSS, ONE, "--microbatches=4", "--batch-norm=micro", "--stages=2", "-o", "p.isth")
        self.run_ok("opt", common[0], LOSS, ONE, "--microbatches=1", "--batch-norm=micro", "-o", "one.isth")
        self.run_ok("verify", "p.isth", "p.isth", ONE)

    def test_inference_needs_no_other_example(self):
        """A norm that reads its running averages normalizes each example by itself: forward, in training, and in micro-batches."""
        model = self.net("r8", *self.RESNET, "--batch=8")
        _, want = self.run_into("forward", model, "--eval")
        for extra in (["--microbatches=4"], ["--stages=2", "--microbatches=4"]):
            r, got = self.run_into("parts", model, "--eval", *extra)
            self.assert_bits(got, want)
        self.assertEqual(len(r["stages"]), 2)
        _, want = self.run_into("whole", model, LOSS, "--eval")
        _, batches = self.run_into("batches", model, LOSS, "--eval", "--microbatches=3")
        self.assert_near(batches, want, 1e-5)
        for mode in "always", "never":
            _, got = self.run_into("stages", model, LOSS, "--eval", "--stages=3", "--microbatches=3", f"--checkpoint={mode}")
            self.assert_bits(got, batches)

    def inputs(self, folder, x, y):
        os.makedirs(self.path(folder), exist_ok=True)
        self.write(folder + "/x.npy", npy("f64", (len(y), 3, 16, 16), x))
        self.write(folder + "/labels.npy", npy("i64", (len(y),), y))

    def test_whole_statistics_and_stages_exclude_each_other(self):
        model = self.net("r8", *self.RESNET, "--batch=8")
        r = self.fails_with(1, "run", model, LOSS, "--stages=2", "--microbatches=4")
        self.assertIn("needs the whole batch", r.err)
        self.assertIn("--batch-norm=micro", r.err)
        r = self.fails_with(1, "run", model, LOSS, "--microbatches=9", "--batch-norm=micro")
        self.assertIn("too few for 9 micro-batches", r.err)
        # Without a number of micro-batches the stages run one after the other.
        r = self.run_ok("run", model, LOSS, ONE, "--stages=2")
        self.assertIn("one after the other", r.err)
        self.assertIn("with --batch-norm=micro", r.err)


class WholeBatch(Stages):
    """Nodes that need the whole batch, and inputs that have none."""

    NORM = """isthmus 2
graph @norm {
  input %x : f64[6, 4]
  param %w1 : f64[4, 4] = normal {seed = 1, std = 1.0}
  param %b1 : f64[4] = normal {seed = 2, std = 1.0}
  param %w2 : f64[4, 4] = normal {seed = 3, std = 1.0}
  param %b2 : f64[4] = normal {seed = 4, std = 1.0}
  %m1 = matmul(%x, %w1) {transpose_b = true}
  %h = add(%m1, %b1)
  %m2 = matmul(%h, %w2) {transpose_b = true}
  %y = add(%m2, %b2)
  %s = square(%y)
  LOSS
  loss %l
  output %l
}
"""
    LOSSES = {
        # torchgpipe's issue 13: the norm of the whole output.
        "norm": "%n = sum(%s) {axes = [0, 1]}\n  %l = sqrt(%n)",
        # Each example beside each other one, as contrastive losses have it; and then each by itself again.
        "pairs": "%g = matmul(%y, %y) {transpose_b = true}\n  %p = log_softmax(%g)\n  %q = mul(%p, %p)\n  %l = mean(%q)",
        "quartic": "%c = square(%s)\n  %l = mean(%c)",
    }

    def model(self, name):
        self.write(f"{name}.isth", self.NORM.replace("LOSS", self.LOSSES[name]))
        return f"{name}.isth"

    def test_a_loss_of_the_whole_batch_is_of_the_last_stage(self):
        for name in "norm", "pairs":
            model = self.model(name)
            _, want = self.run_into("whole", model)
            _, batches = self.run_into("batches", model, "--microbatches=3")
            self.assert_near(batches, want, 1e-12)
            for schedule in "gpipe", "auto":
                for mode in MODES:
                    with self.subTest(f"{name} {schedule} {mode}"):
                        step = [model, ONE, "--stages=2", "--microbatches=3", f"--schedule={schedule}", f"--checkpoint={mode}"]
                        told = self.run_ok("run", *step, "--outputs=got", "--report=r.json").err
                        self.assertIn("needs the whole batch, so all micro-batches run forward before any runs backward", told)
                        report = json.loads(self.read("r.json"))
                        self.assertEqual(report["schedule"], "gpipe")
                        self.assertEqual(report["measured_peak_bytes"], report["predicted_peak_bytes"])
                        self.assert_bits(self.written("got"), batches)
            self.run_ok("opt", model, ONE, "--stages=2", "--microbatches=3", "--checkpoint=always", "-o", "p.isth")
            self.run_ok("verify", model, "p.isth", ONE)
            for schedule in "1f1b", "zero-bubble":
                r = self.fails_with(1, "run", model, ONE, "--stages=2", "--microbatches=3", f"--schedule={schedule}")
                self.assertRegex(r.err, r"needs the whole batch, so .*--schedule=gpipe")

    def test_what_multiplies_gradients_is_whole(self):
        """Second derivatives along given directions: each has the sizes of a parameter."""
        model = self.model("quartic")
        self.run_ok("grad", model, "-o", "first.isth")
        names = ["w1", "b1", "w2", "b2"]
        self.run_ok("grad", "first.isth", "--ys=" + ",".join(f"%grad.{n}" for n in names), "--xs=" + ",".join(f"%{n}" for n in names),
                    "--grad-ys=inputs", "-o", "second.isth")
        _, want = self.run_into("whole", "second.isth")
        for extra in ([], ["--stages=2"], ["--stages=2", "--checkpoint=always", "--schedule=gpipe"]):
            _, got = self.run_into("parts", "second.isth", "--microbatches=3", *extra)
            self.assertTrue(any(n.startswith("grad2.") for n in got))
            self.assert_near(got, want, 1e-11)
        r = self.fails_with(1, "run", "second.isth", ONE, "--microbatches=7")
        self.assertIn("the batch, which has 6 examples (axis 0 of %x)", r.err)

    def test_two_towers_and_a_mask(self):
        """The batches of two inputs meet in the loss alone; a mask of as many rows, and one row for all, have none."""
        self.write("towers.isth", """isthmus 2
graph @towers {
  input %a : f64[4, 4]
  input %b : f64[4, 4]
  input %mask : f64[4, 4]
  input %row : f64[1, 4]
  param %u : f64[4, 4] = normal {seed = 1, std = 0.5}
  param %v : f64[4, 4] = normal {seed = 2, std = 0.5}
  %mu = mul(%u, %mask)
  %h = matmul(%a, %mu)
  %k = matmul(%b, %v)
  %kr = add(%k, %row)
  %t = tanh(%kr)
  %g = matmul(%h, %t) {transpose_b = true}
  %p = log_softmax(%g)
  %l = mean(%p)
  loss %l
  output %l
}
""")
        _, want = self.run_into("whole", "towers.isth")
        for extra in (["--microbatches=2"], ["--microbatches=4", "--stages=2", "--schedule=gpipe"]):
            _, got = self.run_into("parts", "towers.isth", *extra)
            self.assert_near(got, want, 1e-12)
        self.run_ok("opt", "towers.isth", ONE, "--microbatches=2", "-o", "p.isth")
        text = self.read("p.isth").decode()
        self.assertIn("part(%a)", text)
        self.assertIn("part(%b)", text)
        self.assertNotIn("(%mask) {", text)


class Files(Stages):
    def test_a_pipelined_file_runs_and_is_planned_anew(self):
        model = self.net("gpt2")
        _, want = self.run_into("whole", model, LOSS, "--microbatches=4")
        self.run_ok("opt", model, LOSS, ONE, "--stages=2", "--microbatches=4", "--checkpoint=always", "-o", "p.isth")
        r, got = self.run_into("file", "p.isth")
        self.assertGreater(r["clones"], 0)
        self.assertGreater(r["recompute_overhead"], 0)
        self.assert_bits(got, want)
        self.run_ok("verify", model, "p.isth", LOSS, ONE)
        self.run_ok("dot", "p.isth", "-o", "p.dot")
        again = self.report("opt", "p.isth", ONE, "--stages=3", "--microbatches=2", "-o", "q.isth")
        once = self.report("opt", model, LOSS, ONE, "--stages=3", "--microbatches=2")
        self.assertEqual(again["predicted_peak_bytes"], once["predicted_peak_bytes"])
        self.run_ok("verify", model, "q.isth", LOSS, ONE)

    def test_devices_alone_are_as_many_stages(self):
        model = self.net("gpt2")
        for name, stages in ("named", ()), ("counted", ("--stages=2",)):
            self.run_ok("opt", model, LOSS, ONE, *stages, "--devices=cpu:0,cpu:1", "-o", f"{name}.isth")
        self.assertEqual(self.read("named.isth"), self.read("counted.isth"))

    def test_a_pipelined_file_moves_to_other_devices(self):
        """With its micro-batches, its order and what it recomputes."""
        model = self.net("gpt2")
        for kind in "gpu", "cpu":
            devices = [{"name": f"{kind}:0", "speed": 2}, {"name": f"{kind}:1"}]
            self.write(f"{kind}.json", json.dumps({"schema": "isthmus.machine/1", "devices": devices}))
            self.run_ok("opt", model, LOSS, ONE, f"--machine={kind}.json", "--microbatches=4", "--checkpoint=always", "--schedule=1f1b",
                        "-o", f"{kind}.isth")
        self.assertIn("--devices", self.fails_with(5, "run", "gpu.isth", ONE).err)
        moved, got = self.run_into("moved", "gpu.isth", "--devices=cpu:0,cpu:1")
        again, want = self.run_into("here", "cpu.isth")
        self.assertEqual(moved["clones"], again["clones"])
        self.assert_bits(got, want)
        shown = self.run_ok("explain", "gpu.isth", ONE, "--machine=gpu.json")
        self.assertNotIn("divided anew", shown.err)
        # Any other request divides it anew, and says so.
        for request in "--schedule=gpipe", "--microbatches=2", "--checkpoint=never":
            with self.subTest(request):
                told = self.run_ok("run", "cpu.isth", ONE, request).err
                self.assertIn("the step is divided anew, without the plan in the file", told)

    def test_planned_twice_is_planned_once(self):
        """Also where losses take another form for micro-batches, and where a step in pipeline order has another order than its source."""
        nets = {"mlp": self.net("mlp"), "resnet": self.net("resnet", "resnet", "--depth=8", "--width=4", "--batch=4")}
        for name, loss, stages in ("mlp", LOSS, ("--stages=3", "--checkpoint=never")), ("resnet", "--loss=mean", ("--stages=4", "--devices=cpu:0,cpu:1")):
            self.run_ok("opt", nets[name], loss, ONE, *stages, "-o", "p.isth")
            self.run_ok("opt", "p.isth", ONE, *stages, "-o", "q.isth")
            with open(self.path("p.isth")) as p, open(self.path("q.isth")) as q:
                self.assertEqual(p.read(), q.read(), name)

    def test_a_file_in_another_mode_keeps_its_waits(self):
        """What is sent keeps its bytes until it was received, also where dead nodes are dropped."""
        model = self.net("gpt2", "gpt2", "--depth=2", "--width=32", "--heads=2", "--batch=3", "--tokens=16", "--vocab=50", "--dropout=0")
        self.run_ok("opt", model, LOSS, ONE, "--eval", "--stages=2", "--microbatches=1", "-o", "p.isth")
        _, want = self.run_into("want", model, LOSS, "--eval")
        _, got = self.run_into("got", "p.isth", "--eval")
        self.assert_bits(got, want)

    def test_second_derivatives_are_those_of_the_original(self):
        model = self.net("mlp")
        self.run_ok("grad", model, LOSS, "-o", "first.isth")
        with open(self.path("first.isth")) as f:
            name = next(line.split()[1] for line in f if line.strip().startswith("output %grad."))
        param = "%" + name[len("%grad."):]
        self.run_ok("grad", "first.isth", f"--ys={name}", f"--xs={param}", "-o", "second.isth")
        _, want = self.run_into("want", "second.isth")
        for mode in MODES:
            self.run_ok("opt", model, LOSS, ONE, "--stages=2", "--microbatches=4", f"--checkpoint={mode}", "-o", "p.isth")
            self.run_ok("grad", "p.isth", f"--ys={name}", f"--xs={param}", "-o", "p2.isth")
            _, got = self.run_into("got", "p2.isth")
            second = {n: v for n, v in want.items() if n.startswith("grad2.")}
            self.assertTrue(second)
            self.assert_near({n: got[n] for n in second}, second, 1e-5)

    def test_devices_by_hand(self):
        model = self.net("mlp", "mlp", "--depth=3", "--width=16", "--batch=4")
        _, want = self.run_into("whole", model, LOSS)
        with open(self.path(model)) as f:
            lines = f.read().splitlines()
        nodes = [i for i, line in enumerate(lines) if " = " in line and line.strip().startswith("%")]
        for i in nodes[len(nodes) // 2:]:
            lines[i] += " @cpu:1"
        self.write("placed.isth", "\n".join(lines) + "\n")
        r, got = self.run_into("placed", "placed.isth", LOSS)
        self.assertEqual([s["device"] for s in r["stages"]], ["cpu:0", "cpu:1"])
        self.assert_bits(got, want)

    def test_policies_on_devices_by_hand(self):
        """Each device keeps what the policy or the list says, and none needs more than without."""
        model = self.net("mlp", "mlp", "--depth=8", "--width=32", "--shape=32", "--batch=256")
        _, want = self.run_into("whole", model, LOSS)
        text = self.read(model).decode()
        placed = re.sub(r"(?m)^(  %(?:fc|relu)[4-9] = .*|  %y = .*)", r"\1 @cpu:1", text)
        self.write("placed.isth", placed)
        for k, way in enumerate(("--policy=memory", "--checkpoints=relu2,relu6")):
            with self.subTest(way):
                r, got = self.run_into(f"by{k}", "placed.isth", LOSS, way)
                self.assertEqual([s["device"] for s in r["stages"]], ["cpu:0", "cpu:1"])
                for s in r["stages"]:
                    self.assertLessEqual(s["predicted_peak_bytes"], s["baseline_peak_bytes"])
                self.assertLess(r["predicted_peak_bytes"], r["baseline_peak_bytes"])
                self.assertGreater(r["clones"], 0)
                self.assertTrue(r["checkpoints"])
                self.assert_bits(got, want)

    def test_the_forward_part_alone_runs_in_stages_too(self):
        model = self.net("unet")
        _, want = self.run_into_forward("whole", model)
        r, got = self.run_into_forward("stages", model, "--eval", "--stages=3", "--microbatches=4")
        self.assertEqual(r["clones"], 0)
        self.assert_bits(got, want)

    def run_into_forward(self, folder, *args):
        return self.report("run", *args, ONE, "--outputs=" + folder), self.written(folder)

    def test_training_carries_its_state(self):
        model = self.net("mlp", "mlp", "--depth=3", "--width=16", "--batch=8", "--shape=10")
        draw = random.Random(1)
        self.write("data.npz", npz(x_train=("f32", (64, 10), [draw.gauss(0, 1) for _ in range(640)]),
                                   y_train=("i64", (64,), [draw.randrange(10) for _ in range(64)])))
        train = ["train", model, "--data=data.npz", LOSS, ONE, "--steps=12", "--lr=0.01", "--optimizer=adam"]
        plain = self.report(*train, "--microbatches=4")
        staged = self.report(*train, "--microbatches=4", "--stages=2", "--save=w.safetensors")
        self.assertEqual(staged["loss"], plain["loss"])
        weights = self.read("w.safetensors")
        self.report(*train, "--microbatches=4", "--stages=2", "--devices=cpu:0", "--save=w.safetensors")
        self.assertEqual(self.read("w.safetensors"), weights, "two stages on one device")
        # The norm of all gradients, by which each stage scales its own, arrives in a message.
        train += ["--clip-norm=1", "--microbatches=4"]
        plain, staged = self.report(*train), self.report(*train, "--stages=2")
        self.assertEqual(staged["loss"], plain["loss"])
        self.assertEqual(staged["measured_peak_bytes"], staged["predicted_peak_bytes"])

    def test_what_is_overwritten_at_a_later_stage_than_its_readers(self):
        """A weight that two stages share lies where its update is made, and a state where its next value is."""
        self.write("shared.isth", """isthmus 2
graph @shared {
  input %x : f32[8, 8]
  param %w : f32[8, 8] = normal {seed = 1, std = 0.3}
  param %v : f32[8, 8] = normal {seed = 2, std = 0.3}
  %a = matmul(%x, %w)
  %b = tanh(%a)
  %c = matmul(%b, %v)
  %d = tanh(%c)
  %y = matmul(%d, %w) {transpose_b = true}
  %loss = mean(%y)
  loss %loss
  output %loss
}
""")
        self.run_ok("grad", "shared.isth", "--optimizer=sgd", "-o", "step.isth")
        self.write("norm.isth", """isthmus 2
graph @norm {
  input %x : f32[4, 3, 8, 8]
  param %w : f32[6, 3, 3, 3] = normal {seed = 1, std = 0.2}
  param %scale : f32[6] = ones
  param %bias : f32[6] = zeros
  state %mean : f32[6] = zeros
  state %var : f32[6] = ones
  %c = conv(%x, %w) {pads = [1, 1, 1, 1]}
  %n, %now.mean, %now.var = batch_norm(%c, %scale, %bias, %mean, %var) @cpu:0
  %next.mean = running_average(%mean, %now.mean) @cpu:1
  %loss = mean(%n)
  loss %loss
  output %loss
  output %next.mean next(%mean)
}
""")
        for model, options in ("step", ["--balance=1,5"]), ("step", ["--balance=5,1"]), ("step", ["--microbatches=1"]), ("norm", ["--microbatches=1"]):
            with self.subTest(f"{model} {options}"):
                self.run_ok("opt", f"{model}.isth", ONE, "--stages=2", *options, "-o", "p.isth")
                self.run_ok("verify", f"{model}.isth", "p.isth", ONE, "--steps=2")



class Explained(Stages):
    def test_what_bounds_the_step(self):
        model = self.net("mlp", "mlp", "--depth=8", "--width=256", "--shape=256", "--batch=64")
        common = ["explain", model, LOSS, ONE, "--microbatches=8"]
        r = self.run_ok(*common, "--stages=2")
        for wanted in ("is the slowest", "before their first node", "works longest"):
            self.assertIn(wanted, r.out.decode())
        figures = json.loads(self.run_ok(*common, "--stages=4", "--balance=5,1,1,1", "--json").out.decode())
        cut = figures["cut"]
        self.assertEqual(cut["slowest_stage"], 0)
        self.assertGreater(cut["slowest_seconds"], 1.5 * cut["forward_bound_seconds"])
        self.assertGreaterEqual(cut["forward_bound_seconds"], cut["bound_seconds"])
        self.assertGreaterEqual(cut["bound_seconds"], cut["mean_seconds"])
        step = figures["predicted_step_seconds"]
        for s in figures["stages"]:
            parts = [s["busy_seconds"]] + [s[f"wait_{w}_seconds"] for w in ("before", "between", "after")]
            self.assertTrue(all(p >= 0 for p in parts))
            self.assertAlmostEqual(sum(parts), step, delta=1e-9 * step)
        waits = sum(s["wait_before_seconds"] + s["wait_between_seconds"] + s["wait_after_seconds"] for s in figures["stages"])
        self.assertAlmostEqual(waits / (4 * step), figures["bubble"], places=9)
        refused = self.fails_with(2, *common, "--stages=2", "--of=%h")
        self.assertIn("--of shows tensors of a step on one device, and this one runs on 2; `isthmus view` shows", refused.err)

    def test_a_step_that_is_too_large_to_be_built(self):
        model = self.net("mlp", "mlp", "--depth=128", "--width=16", "--shape=16", "--batch=1024")
        r = self.report("opt", model, LOSS, ONE, "--stages=128", "--microbatches=1024", "--schedule=1f1b", "--checkpoint=always")
        self.assertEqual(len(r["stages"]), 128)
        self.assertGreater(r["nodes"], 1_000_000)
        # One message forward and one back, for each micro-batch, between two stages.
        self.assertEqual(r["messages"], 2 * 127 * 1024)
        # The first stages have more micro-batches under way.
        self.assertGreater(r["stages"][1]["predicted_peak_bytes"], r["stages"][126]["predicted_peak_bytes"])
        self.assertLess(r["plan_seconds"], 60)

    def test_a_plan_that_is_too_dear_is_called_so(self):
        for size, micro in ((8, 8), (128, 1024)):  # built, and simulated
            model = self.net("mlp", "mlp", f"--depth={size}", "--width=16", "--shape=16", f"--batch={micro}")
            options = [f"--stages={size}", f"--microbatches={micro}", "--schedule=1f1b", "--checkpoint=always", "--max-added=1%"]
            r = self.fails_with(3, "explain", model, LOSS, ONE, *options)
            self.assertRegex(r.err, r"a plan that adds 1\.0 % of the step's cost at most was not found: this one adds \d+\.\d %; give --max-added=")


class Timeline(Stages):
    def test_the_picture_of_a_schedule(self):
        """Bars take up the time in which devices compute, and each message is a line."""
        model = self.net("gpt2")
        r = self.report("opt", model, LOSS, ONE, "--stages=2", "--microbatches=4", "--checkpoint=always", "--schedule=1f1b", "--timeline=t.svg")
        svg = ElementTree.fromstring(self.read("t.svg"))
        name = "{http://www.w3.org/2000/svg}"
        self.assertEqual(set(re.findall(rb"https?://[^\"]*", self.read("t.svg"))), {b"http://www.w3.org/2000/svg"})
        texts = [t.text for t in svg.iter(name + "text")]
        self.assertLessEqual({"cpu:0", "cpu:1", "forward", "backward", "recompute"}, set(texts))
        self.assertEqual(len([p for p in svg.iter(name + "path") if p.get("class") == "message"]), r["messages"])
        busy = sum(s["busy_seconds"] for s in r["stages"]) / r["predicted_step_seconds"]
        grounds = [x for x in svg.iter(name + "rect") if x.get("class") == "wait"]
        bars = [g.find(name + "rect") for g in svg.iter(name + "g")]
        drawn = sum(float(b.get("width")) for b in bars) / float(grounds[0].get("width"))
        self.assertAlmostEqual(drawn, busy, delta=0.02 * busy)
        for batch in "1234":
            self.assertTrue(any(g.find(name + "title").text.startswith(f"recompute of micro-batch {batch}, ") for g in svg.iter(name + "g")))

    def test_one_device_and_refusals(self):
        model = self.net("mlp")
        self.run_ok("opt", model, LOSS, ONE, "--policy=memory", "--timeline=t.svg")
        self.assertIn(b">cpu:0</text>", self.read("t.svg"))
        r = self.fails_with(2, "opt", model, LOSS, "--timeline=t.png")
        self.assertIn(".svg, got 't.png'", r.err)


class Refusals(Stages):
    def test_what_options_expect(self):
        model = self.net("mlp")
        for wanted, *options in (
            ("--checkpoints", "--stages=2", "--checkpoint=%a,%b"),
            ("did you mean 'except_last'", "--stages=2", "--checkpoint=except_lst"),
            ("expects one of gpipe", "--stages=2", "--schedule=pipe"),
            ("--lr-schedule", "--stages=2", "--schedule=cosine"),
            ("a number of stages", "--stages=0"),
            ("a number of stages", "--stages=two"),
            ("expected one for each stage", "--stages=3", "--balance=1,2"),
            ("one fewer than stages", "--stages=3", "--balance=%a"),
            ("different devices", "--stages=2", "--devices=cpu:0,cpu:0"),
            ("more stages than devices", "--stages=2", "--schedule=interleaved"),
        ):
            r = self.fails_with(2, "run", model, LOSS, *options)
            self.assertIn(wanted, r.err)
        for wanted, *options in (
            ("to divide among them", "--stages=500"),
            ("does not exist", "--stages=2", "--balance=%nothing"),
            ("nodes on 'tpu:0'", "--stages=2", "--devices=cpu:0,tpu:0"),
            ("for 2 stages", "--stages=2", "--devices=cpu:0,cpu:1,cpu:2"),
            ("--checkpoint=always", "--stages=2", "--policy=memory"),
            ("for one device", "--stages=2", "--budget=50%", "--allow=recompute,invert"),
        ):
            r = command.run("run", model, LOSS, "--microbatches=2", *options, cwd=self.dir)
            self.assertIn(r.code, (1, 5), r.err)
            self.assertIn(wanted, r.err)

    def test_verbs_that_look_at_one_device(self):
        model = self.net("mlp")
        r = self.fails_with(2, "profile", model, LOSS, "--stages=2", "--microbatches=2", "-o", "out.json")
        self.assertIn("looks at a step that is whole, and this one runs in stages on 2 devices", r.err)
        self.assertFalse(os.path.exists(self.path("out.json")))

    def test_files_that_would_wait_for_ever(self):
        text = """isthmus 2
graph @g {
  input %x : f32[4]
  %a = relu(%x) : f32[4] @cpu:0
  %a.sent = send(%a) {tag = 0, to = "cpu:1"} : token[] from(transfer(%a)) @cpu:0
  %a.in, %a.got = receive(%a.sent) {dims = [4], from = "cpu:0", tag = 0} : f32[4], token[] from(transfer(%a)) @cpu:1
  %a.there = wait(%a.in, %a.got) : f32[4] from(transfer(%a)) @cpu:1
  %b = relu(%a.there) : f32[4] @cpu:1
  %a.free = wait(%a, %a.sent) : f32[4] from(transfer(%a)) @cpu:0
  output %b
}
"""
        self.write("g.isth", text)
        r = self.report("run", "g.isth", ONE)
        self.assertEqual(r["messages"], 1)
        lines = text.splitlines()
        reshaped = "  %p = reshape(%x) {dims = [4]}"
        part = "  %p = part(%x) {size = 4, start = 0} from(chunk(%x, 0))"
        for wanted, old, new in (
            ("sends later", lines[4:6], [lines[5].replace("receive(%a.sent)", "receive()"), lines[4]]),
            ("expected the token", lines[5:6], [lines[5].replace("receive(%a.sent)", "receive()")]),
            ("sends tag 0", lines[5:6], [lines[5].replace("tag = 0", "tag = 1")]),
            ("same devices at both ends", lines[5:6], [lines[5].replace('from = "cpu:0"', 'from = "cpu:2"')]),
            ("expected a send there", lines[7:8], [lines[7].replace("%a.there", "%a")]),
            ("nothing waits for", lines[8:9], []),
            # A view of an input has a device as any other value.
            ("'%p', which is on cpu:1; expected a send there", lines[3:4], [f"{reshaped} @cpu:1", lines[3].replace("%x", "%p")]),
            ("'%p', which is on cpu:1; expected a send there", lines[3:4], [f"{part} @cpu:1", lines[3].replace("%x", "%p")]),
        ):
            self.write("bad.isth", text.replace("\n".join(old), "\n".join(new)))
            r = self.fails_with(1, "run", "bad.isth", ONE)
            self.assertIn(wanted, r.err)


if __name__ == "__main__":
    unittest.main()
