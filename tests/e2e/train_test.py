"""Tests `isthmus train`: what it learns, which arrays it reads, how much memory it needs, and what it prints."""

import json
import math
import os
import re
import struct
import unittest
import zipfile

import command
from command import npy, read_npy
from training import TrainCase, examples, npz, tensors

# A flow of one layer, the negative log-likelihood of x, where x is exp(s) times a standard normal number, plus b.
FLOW = """isthmus 2
graph @flow {
  input %x : f32[8, 6]
  param %s : f32[6] = fill {value = 0}
  param %b : f32[6] = fill {value = 0}
  %c = sub(%x, %b)
  %t = neg(%s)
  %e = exp(%t)
  %z = mul(%c, %e)
  %q = square(%z)
  %p = affine(%q) {scale = 0.5, shift = 0.9189385332046727}
  %l = add(%p, %s)
  %n = sum(%l) {axes = [1]}
  %nll = mean(%n)
  loss %nll
  output %nll
  output %x
}
"""


def floats(entry):
    return struct.unpack(f"<{len(entry[2]) // 4}f", entry[2])


class Learning(TrainCase):
    def test_learns(self):
        for optimizer, rate in ("sgd", 0.3), ("adam", 0.01), ("adamw", 0.01):
            with self.subTest(optimizer):
                _, report = self.train(self.net(), self.data(400), f"--optimizer={optimizer}", f"--lr={rate}", "--epochs=20")
                self.assertEqual(len(report["loss"]), 20 * 25)
                self.assertLess(sum(report["loss"][-25:]) / 25, 0.6 * report["loss"][0])
                last = report["evaluations"][-1]
                self.assertEqual((last["epoch"], last["step"]), (20, 500))
                self.assertGreater(last["accuracy"], 0.8)
                self.assertGreater(report["evaluations"][0]["loss"], last["loss"])

    def test_a_batch_without_labels_that_count(self):
        x, (kind, shape, labels) = examples(64)
        self.write("none.npz", npz(x_train=x, y_train=(kind, shape, [-100] * 64)))
        result = command.run("train", self.net(), "--loss=cross_entropy", "--ignore-index=-100", "--data=none.npz", "--steps=4", cwd=self.dir)
        self.assertEqual(result.code, 1, result)
        self.assertIn("error: the loss is not a number at step 1: all labels of its batch are labels that do not count", result.err)
        self.assertNotIn("diverged", result.err)
        self.write("some.npz", npz(x_train=x, y_train=(kind, shape, [-100 if i % 3 else n for i, n in enumerate(labels)])))
        self.run_ok("train", self.net(), "--loss=cross_entropy", "--ignore-index=-100", "--data=some.npz", "--steps=4")

    def test_report(self):
        result, report = self.train(self.net(), self.data(), "--steps=7", "--optimizer=adam")
        self.assertEqual((report["examples"], report["batch"], report["first_step"], report["optimizer"]), (100, 16, 0, "adam"))
        for key in "loss", "learning_rate", "step_seconds":
            self.assertEqual(len(report[key]), 7, key)
        self.assertEqual(report["measured_peak_bytes"], report["predicted_peak_bytes"])
        parameters = 4 * (12 * 32 + 3 * 32 + 32 * 4)
        self.assertEqual(report["optimizer_bytes"], 2 * parameters + 8)
        self.assertEqual(report["gradient_bytes"], parameters)
        self.assertFalse(report["holds_all_gradients"])
        self.assertEqual([e["step"] for e in report["evaluations"]], [6, 7], "at each epoch's end, and at the end")
        self.assertIn("4 that are left are left out", result.err)
        self.assertIn("test loss", result.err)

    def test_seed_decides(self):
        losses = [self.train(self.net(), self.data(), "--steps=8", f"--seed={s}")[1]["loss"] for s in (1, 1, 2)]
        self.assertEqual(losses[0], losses[1])
        self.assertNotEqual(losses[0], losses[2])

    def test_every_example_once_an_epoch(self):
        """With a linear loss, an epoch changes the weight by half the sum of the examples, whatever their order."""
        model = self.write("mean.isth", "isthmus 2\ngraph @g {\n  input %x : f32[2, 1]\n  param %w : f32[1] = fill {value = 0}\n"
                                        "  %p = mul(%x, %w)\n  %y = mean(%p)\n  loss %y\n  output %y\n}\n")
        values = [2.0 ** i for i in range(10)]
        data = self.write("d.npz", npz(x=("f32", (10, 1), values)))
        orders = set()
        for seed in range(3):
            steps = []
            for step in range(1, 6):
                self.train(model, data, f"--steps={step}", "--lr=1", "--optimizer=sgd", f"--seed={seed}", "--save=w.safetensors",
                           loss=None)
                steps.append(-floats(tensors(self.read("w.safetensors"))[0]["w"])[0])
            self.assertEqual(steps[-1], sum(values) / 2)
            orders.add(tuple(steps))
        self.assertEqual(len(orders), 3)

    def test_schedules(self):
        w, n = 2, 10
        want = {"constant": lambda s: 1, "linear": lambda s: 1 - s, "cosine": lambda s: (1 + math.cos(math.pi * s)) / 2,
                "step": lambda s: 1 if s < 0.5 else 0.1 if s < 0.75 else 0.01}
        for name, factor in want.items():
            with self.subTest(name):
                _, report = self.train(self.net(), self.data(), f"--steps={n}", f"--warmup={w}", "--lr=0.5", f"--lr-schedule={name}")
                rates = [0.5 * ((s + 1) / w if s < w else factor((s - w) / (n - w))) for s in range(n)]
                for got, rate in zip(report["learning_rate"], rates, strict=True):
                    self.assertAlmostEqual(got, rate, 15)

    def test_clipping_holds_all_gradients(self):
        result, report = self.train(self.net(), self.data(), "--steps=2", "--clip-norm=0.1")
        self.assertTrue(report["holds_all_gradients"])
        self.assertIn("needs all gradients before the first update", result.err)

    def test_states_that_trade_places(self):
        """Next states are computed from the states before the step, also if one is another state unchanged."""
        model = self.write("m.isth", "isthmus 2\ngraph @g {\n  input %x : f32[2, 1]\n  param %w : f32[1] = fill {value = 0}\n"
                                     "  state %a : f32[1] = fill {value = 1}\n  state %b : f32[1] = fill {value = 2}\n"
                                     "  %p = mul(%x, %w)\n  %y = mean(%p)\n  loss %y\n  output %y\n"
                                     "  output %a next(%b)\n  output %b next(%a)\n}\n")
        data = self.write("d.npz", npz(x=("f32", (2, 1), [1.0, 2.0])))
        for steps, want in (1, (2.0, 1.0)), (2, (1.0, 2.0)):
            self.train(model, data, f"--steps={steps}", "--save=w.safetensors", loss=None)
            found, _ = tensors(self.read("w.safetensors"))
            self.assertEqual(floats(found["a"]) + floats(found["b"]), want)

    def test_only_some_parameters(self):
        self.train(self.net(), self.data(), "--steps=3", "--wrt=%w2", "--save=w.safetensors")
        found, _ = tensors(self.read("w.safetensors"))
        self.assertEqual(set(floats(found["b1"])), {0.0})
        self.assertEqual([n for n in found if n.startswith("optimizer.mean")], ["optimizer.mean.w2"])

    def test_differentiated_and_rewritten_models(self):
        """A file with gradients, and a planned file, train like the forward graph."""
        model, data = self.net(), self.data()
        want = self.train(model, data, "--steps=8")[1]["loss"]
        self.run_ok("grad", model, "--loss=cross_entropy", "-o", "grad.isth")
        self.assertEqual(self.train("grad.isth", data, "--steps=8", loss=None)[1]["loss"], want)
        self.run_ok("opt", model, "--loss=cross_entropy", "--policy=speed", "-o", "opt.isth")
        self.assertEqual(self.train("opt.isth", data, "--steps=8", loss=None)[1]["loss"], want)

    def test_a_plan_on_record(self):
        """The step of a planned file gets updates, so it is planned anew: as the file's record says, or a note says what it loses."""
        model, data = self.classifier(), self.digits()
        whole = self.train(model, data, "--steps=2", "--optimizer=sgd")[1]
        for request, kept in (
            (("--budget=75%",), r"planned anew with its updates: within the budget on record, [\d.]+ MiB; choose another with --budget"),
            (("--budget=60%", "--allow=recompute,chunk", "--effort=0.2"), "planned anew with its updates: within the budget on record"),
            (("--policy=memory",), "with its updates: by policy memory"),
            (("--microbatches=4",), "with its updates: not in the file's chunks; divide it with --microbatches"),
        ):
            with self.subTest(request):
                self.run_ok("opt", model, "--loss=cross_entropy", *request, "-o", "opt.isth")
                result, report = self.train("opt.isth", data, "--steps=2", "--optimizer=sgd", loss=None)
                self.assertRegex(result.err, kept)
                if "--microbatches=4" in request:
                    self.assertEqual(report["measured_peak_bytes"], whole["measured_peak_bytes"])
                else:
                    self.assertLess(report["measured_peak_bytes"], whole["measured_peak_bytes"])
                if request[0].startswith("--budget"):
                    budget = int(re.search(rb"budget = (\d+)", self.read("opt.isth"))[1])
                    self.assertLessEqual(report["arena_bytes"], budget)
                if "--allow=recompute,chunk" not in request:
                    self.assertEqual(report["loss"], whole["loss"])
        # What is asked for now counts.
        self.run_ok("opt", model, "--loss=cross_entropy", "--budget=75%", "-o", "opt.isth")
        result, report = self.train("opt.isth", data, "--steps=2", "--optimizer=sgd", "--memory=linear", loss=None)
        self.assertNotIn("on record", result.err)
        self.assertEqual(report["measured_peak_bytes"], whole["measured_peak_bytes"])

    def test_accuracy_counts_every_example(self):
        """40 tests in batches of 16: the last eight count too. The model's results are the labels."""
        model = self.write("m.isth", "isthmus 2\ngraph @g {\n  input %x : f32[16, 4]\n  param %w : f32[4] = fill {value = 1}\n"
                                     "  %y = mul(%x, %w)\n  output %y\n}\n")
        labels = [i % 4 for i in range(40)]
        right = [i not in (3, 36, 39) for i in range(40)]
        rows = [float((k == l) == r) for l, r in zip(labels, right) for k in range(4)]
        data = self.write("d.npz", npz(x=("f32", (40, 4), rows), labels=("i64", (40,), labels), x_test=("f32", (40, 4), rows),
                                       y_test=("i64", (40,), labels)))
        _, report = self.train(model, data, "--steps=1", "--lr=0")
        self.assertEqual(report["evaluations"][-1]["accuracy"], 37 / 40)

    def test_accuracy_of_labels_that_count(self):
        """In micro-batches as in whole batches. A batch of tests without such labels has no loss."""
        x, (kind, shape, labels) = examples(64)
        some = [-100 if i % 3 else n for i, n in enumerate(labels)]
        data = {}
        for name, tests in ("some", some), ("first", some[:32] + [-100] * 32), ("half", some[:32]):
            n = len(tests)
            data[name] = self.write(f"{name}.npz", npz(x=x, labels=(kind, shape, labels), x_test=(x[0], (n, *x[1][1:]), x[2][: n * (len(x[2]) // 64)]),
                                                       y_test=(kind, (n,), tests)))
        seen = {}
        for name, file in data.items():
            for ways in [], ["--microbatches=2"]:
                _, report = self.train(self.net(), file, "--ignore-index=-100", "--steps=1", "--lr=0", *ways)
                seen.setdefault(name, []).append(report["evaluations"][-1])
        for name, (whole, divided) in seen.items():
            with self.subTest(name):
                self.assertEqual(whole["accuracy"], divided["accuracy"])
                self.assertAlmostEqual(whole["loss"], divided["loss"], 5)
        count = sum(n >= 0 for n in some)
        self.assertAlmostEqual(seen["some"][0]["accuracy"] * count, round(seen["some"][0]["accuracy"] * count), 9)
        self.assertEqual(seen["first"][0]["accuracy"], seen["half"][0]["accuracy"])
        self.assertEqual(seen["first"][0]["loss"], seen["half"][0]["loss"])

    def test_counting_device(self):
        """With the counting device, one step is counted, and nothing is learned."""
        result, report = self.train(self.net(), self.data(), "--device=counting")
        self.assertEqual(report["measured_peak_bytes"], report["predicted_peak_bytes"])
        self.assertIsNone(report["loss"])
        self.assertIn("measured peak", result.err)
        refused = self.train(self.net(), self.data(), "--device=counting", "--save=w.safetensors", code=2)[0]
        self.assertIn("--save needs a device that computes, and 'counting' only counts", refused.err)


class Likelihood(TrainCase):
    def data(self, levels=16):
        draws = [(7 * i * i + 3 * i) % levels for i in range(40 * 6)]
        return self.write("d.npz", npz(x_train=("u8", (40, 6), draws), x_test=("u8", (40, 6), draws)))

    def test_bits_per_dimension(self):
        model, data = self.write("flow.isth", FLOW), self.data()
        result, report = self.train(model, data, "--levels=16", "--epochs=40", "--lr=0.05", loss=None)
        for nats, bits in zip(report["loss"], report["bits_per_dimension"], strict=True):
            self.assertAlmostEqual(bits, nats / (6 * math.log(2)) + 4, 12)
        self.assertLess(report["bits_per_dimension"][-1], 4.4)  # uniform numbers have four
        self.assertGreater(report["evaluations"][-1]["bits_per_dimension"], 4)
        self.assertIn("bits per dimension", result.err)

    def test_outputs_of_one_number(self):
        """The report has the values of each step's outputs, beside the loss. The next states are no results."""
        text = FLOW.replace("  output %x\n", "  state %seen : f32[] = fill {value = 0}\n  %more = affine(%seen) {shift = 1}\n"
                            "  %data = mean(%p)\n  output %x\n  output %data\n  output %more next(%seen)\n")
        _, report = self.train(self.write("flow.isth", text), self.data(), "--levels=16", "--steps=4", "--lr=0", loss=None)
        self.assertEqual(report["outputs"].keys(), {"data"})
        for nats, part in zip(report["loss"], report["outputs"]["data"], strict=True):
            self.assertAlmostEqual(nats, 6 * part, 5)  # the scales are ones, and the mean is over six features
        _, report = self.train(self.net(), TrainCase.data(self), "--steps=2")
        self.assertEqual(report["outputs"], {})

    def test_noise_is_uniform(self):
        """Noise fills the interval of each fed number, and is the same for the same seed."""
        levels, n = 4, 8
        model = self.write("m.isth", "isthmus 2\ngraph @g {\n  input %x : f32[8, 100]\n  param %w : f32[8, 100] = fill {value = 0}\n"
                                     "  %p = mul(%x, %w)\n  %y = sum(%p)\n  loss %y\n  output %y\n}\n")
        numbers = [i % levels for i in range(n * 100)]
        data = self.write("d.npz", npz(x=("u8", (n, 100), numbers)))

        def fed(seed):  # the weights become the negated input
            self.train(model, data, "--steps=1", "--lr=1", "--optimizer=sgd", f"--levels={levels}", f"--seed={seed}",
                       "--save=w.safetensors", loss=None)
            return [-v for v in floats(tensors(self.read("w.safetensors"))[0]["w"])]

        values = fed(1)
        self.assertTrue(all(-0.5 <= v < 0.5 for v in values))
        noise = []
        for i, v in enumerate(values):  # a hundred is a multiple of four: the order of rows does not matter
            noise.append((v + 0.5) * levels - i % levels)
        self.assertTrue(all(-1e-6 <= u <= 1 + 1e-6 for u in noise))
        self.assertAlmostEqual(sum(noise) / len(noise), 0.5, delta=0.05)
        self.assertGreater(len(set(noise)), 750)
        self.assertEqual(values, fed(1))
        self.assertNotEqual(values, fed(2))

    def test_not_of_these_levels(self):
        result, _ = self.train(self.write("flow.isth", FLOW), self.data(), "--levels=10", "--steps=1", loss=None, code=1)
        self.assertIn("expected whole numbers from 0 to 9 in 'x_train'", result.err)


class Memory(TrainCase):
    def test_same_bits_in_less_memory(self):
        """Trains fifty steps on digits with everything kept, the square root, a budget, and the least memory."""
        model, data = self.classifier(batch=64, width=8), self.digits()
        runs = {}
        for memory in "linear", "sqrt", "70%", "min":
            _, report = self.train(model, data, "--steps=50", f"--memory={memory}", "--effort=1", "--optimizer=sgd", "--lr=0.05",
                                   "--momentum=0.9", "--save=w.safetensors")
            runs[memory] = report, self.read("w.safetensors")
        linear, weights = runs["linear"]
        for memory, (report, saved) in runs.items():
            with self.subTest(memory):
                self.assertEqual(report["loss"], linear["loss"])
                self.assertEqual(saved, weights)
                self.assertEqual(report["measured_peak_bytes"], report["predicted_peak_bytes"])
        peak = {memory: report["measured_peak_bytes"] for memory, (report, _) in runs.items()}
        self.assertLess(peak["sqrt"], peak["linear"])
        self.assertLessEqual(runs["70%"][0]["arena_bytes"], 0.7 * peak["linear"])
        self.assertLess(peak["min"], 0.6 * peak["linear"])

    def test_classifier_in_30_percent(self):
        """Trains 41 convolutions briefly. tests/bench/train/classifier trains to the end with three seeds."""
        model, data = self.classifier(batch=128, width=12, depth=38), self.digits()
        same = ["--epochs=4", "--optimizer=sgd", "--lr=0.1", "--momentum=0.9", "--lr-schedule=cosine", "--warmup=11",
                "--save=w.safetensors"]
        _, all_of_it = self.train(model, data, *same)
        weights = self.read("w.safetensors")
        _, report = self.train(model, data, *same, "--memory=30%", "--effort=1")
        self.assertLessEqual(report["arena_bytes"], 0.3 * all_of_it["baseline_peak_bytes"])
        self.assertEqual(report["loss"], all_of_it["loss"])
        self.assertEqual(self.read("w.safetensors"), weights)
        self.assertGreater(report["evaluations"][-1]["accuracy"], 0.9)

    def test_budget_that_cannot_be_met(self):
        result, report = self.train(self.net(), self.data(), "--memory=1000", code=3)
        self.assertGreater(report["smallest_budget_bytes"], 1000)
        self.assertIsNone(report["arena_bytes"])
        _, report = self.train(self.net(), self.data(), f"--memory={report['smallest_budget_bytes']}", "--steps=1")
        self.assertEqual(len(report["loss"]), 1)

    def test_constant(self):
        """Inverses round: in f64 a flow's losses stay within 1e-6 of those with everything kept; with `sqrt` they have
        the same bits."""
        model, data, *more = self.flow()
        runs = {}
        for memory in "linear", "sqrt", "min", "constant":
            alone = ["--allow=invert"] if memory == "constant" else []  # recomputing may need still less here
            runs[memory] = self.train(model, data.split("=")[1], *more, f"--memory={memory}", *alone, "--effort=0.5", "--steps=15",
                                      "--precision=f64", loss=None)
        losses = {memory: report["loss"] for memory, (_, report) in runs.items()}
        self.assertEqual(losses["sqrt"], losses["linear"])
        for a, b in zip(losses["constant"], losses["linear"], strict=True):
            self.assertAlmostEqual(a, b, delta=1e-6 * abs(b))
        result, report = runs["constant"]
        self.assertGreater(report["inversions"], 0)
        self.assertGreater(len(report["inverse_errors"]), 0)
        self.assertIn("inverses", result.err)
        self.assertLess(report["measured_peak_bytes"], runs["linear"][1]["measured_peak_bytes"])
        both = self.train(model, data.split("=")[1], *more, "--memory=constant", "--effort=0.5", "--steps=1", loss=None)[1]
        recomputed = self.train(model, data.split("=")[1], *more, "--memory=min", "--effort=0.5", "--steps=1", loss=None)[1]
        self.assertLess(both["arena_bytes"], 1.05 * recomputed["arena_bytes"])

    def test_likelihoods_of_digits(self):
        """Compares bits per dimension of a multi-scale flow, and both parts of its loss: `sqrt` bit by bit, and
        inverses within their rounding. Here every step is compared, and whole runs in tests/bench/train/flows."""
        self.run_ok("zoo", "glow", "--depth=12", "--levels=2", "--width=12", "--batch=64", "--shape=1x8x8", "-o", "glow.isth")
        for precision, bound in ("f64", 1e-6), ("f32", 1e-3):
            runs = {}
            for memory in "linear", "sqrt", "constant":
                alone = ["--allow=invert"] if memory == "constant" else []  # recomputing may need still less here
                _, report = self.train("glow.isth", self.digits(), "--levels=17", "--lr=1e-3", "--steps=22", f"--memory={memory}",
                                       *alone, "--effort=0.5", f"--precision={precision}", "--save=w.safetensors", loss=None)
                runs[memory] = report, self.read("w.safetensors")
            (linear, weights), (sqrt, sqrt_weights), (constant, _) = runs.values()
            self.assertEqual(sqrt_weights, weights)
            for key in "loss", "bits_per_dimension", "outputs":
                self.assertEqual(sqrt[key], linear[key])
            self.assertGreater(constant["inversions"], 12)
            self.assertLess(constant["measured_peak_bytes"], linear["measured_peak_bytes"])
            self.assertEqual(constant["outputs"].keys(), {"logdet", "latent"})
            self.assertLess(linear["bits_per_dimension"][-1], 4)  # it started above 5
            pairs = [(linear["bits_per_dimension"], constant["bits_per_dimension"])]
            pairs += [(linear["outputs"][name], constant["outputs"][name]) for name in ("logdet", "latent")]
            for want, got in pairs:
                self.assertEqual(len(got), 22)
                for a, b in zip(want, got, strict=True):
                    self.assertAlmostEqual(a, b, delta=bound * max(1, abs(a)))


class Arrays(TrainCase):
    """Tests the arrays that are fed, and the errors about arrays that cannot be."""

    def fails(self, words, data, *args, model=None, code=1, **kwargs):
        result, _ = self.train(model or self.net(), data, *args, code=code, **kwargs)
        for word in words if isinstance(words, list) else [words]:
            self.assertIn(word, result.err)
        return result

    def test_names(self):
        x, y = examples(32)
        want = self.train(self.net(), self.write("d.npz", npz(x_train=x, y_train=y)), "--steps=2")[1]["loss"]
        for arrays in {"x": x, "labels": y}, {"x_train": x, "labels_train": y}, {"x": x, "y_train": y, "more": x}:
            with self.subTest(sorted(arrays)):
                self.assertEqual(self.train(self.net(), self.write("d.npz", npz(**arrays)), "--steps=2")[1]["loss"], want)

    def test_own_file_for_evaluation(self):
        x, y = examples(48, seed=1)
        want = self.train(self.net(), self.data(tests=48), "--steps=2")[1]["evaluations"]
        data = self.data(tests=0)
        for names in ("x_test", "y_test"), ("x", "labels"):
            with self.subTest(names):
                own = self.write("own.npz", npz(**dict(zip(names, (x, y)))))
                self.assertEqual(self.train(self.net(), data, "--steps=2", f"--eval-data={own}")[1]["evaluations"], want)
        self.assertEqual(self.train(self.net(), data, "--steps=2")[1]["evaluations"], [])
        # Labels alone are no tests, and are not passed over either.
        both = dict(zip(("x_train", "y_train"), examples(32)))
        self.fails("x_test", self.write("half.npz", npz(**both, y_test=y)), "--steps=2")

    def test_types_and_shapes_that_convert(self):
        """Integers become floats, axes of size one may be added or left out, and labels may have any integer type."""
        _, y = examples(32)
        numbers = [(i * 37) % 11 for i in range(32 * 12)]
        want = None
        for x in ("u8", (32, 12), numbers), ("f64", (32, 12), numbers), ("i64", (32, 1, 12, 1), numbers), ("i32", (32, 3, 4), numbers):
            for labels in ("i64", (32,), y[2]), ("u8", (32, 1), y[2]):
                data = self.write("d.npz", npz(x=x, labels=labels))
                losses = self.train(self.net(), data, "--steps=2")[1]["loss"]
                want = want or losses
                self.assertEqual(losses, want, (x[:2], labels[:2]))

    def test_compressed(self):
        x, y = examples(100)
        want = self.train(self.net(), self.write("d.npz", npz(x_train=x, y_train=y)), "--steps=6")[1]["loss"]
        packed = npz(zipfile.ZIP_DEFLATED, x_train=x, y_train=y)
        self.assertEqual(self.train(self.net(), self.write("d.npz", packed), "--steps=6")[1]["loss"], want)
        self.fails("method 12", self.write("d.npz", npz(zipfile.ZIP_BZIP2, x_train=x, y_train=y)), "--steps=1")

    def test_damaged(self):
        """A file that is truncated, or has a changed byte, gives an error or the same losses, and no crash."""
        x, y = examples(16)
        for compression in zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED:
            whole = npz(compression, x_train=x, y_train=y)
            want = self.train(self.net(), self.write("d.npz", whole), "--steps=1")[1]["loss"]
            for at in {*range(0, len(whole), 41), len(whole) - 1}:
                self.fails("d.npz", self.write("d.npz", whole[:at]), "--steps=1")
                changed = whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:]
                result = command.run("train", "net.isth", "--loss=cross_entropy", f"--data={self.write('d.npz', changed)}",
                                     "--steps=1", "--threads=1", "--report=r.json", cwd=self.dir)
                self.assertIn(result.code, (0, 1), result)
                if result.code == 0:
                    self.assertEqual(json.loads(self.read("r.json"))["loss"], want, at)

    def test_bomb(self):
        """A few bytes that claim to be many gigabytes take no memory."""
        whole = bytearray(npz(zipfile.ZIP_DEFLATED, x_train=("f32", (1, 1), [0])))
        entry = whole.index(b"PK\1\2")
        whole[entry + 24:entry + 28] = struct.pack("<I", 0xfffffffe)
        result = command.run("train", self.net(), "--loss=cross_entropy", f"--data={self.write('d.npz', bytes(whole))}",
                             cwd=self.dir, memory_limit=1500)
        self.assertEqual(result.code, 1, result)
        self.assertIn("damaged", result.err)

    def test_no_array(self):
        x, y = examples(32)
        self.fails(["expected an array for the input '%labels', called labels or labels_train or y_train", "it has other, x"],
                   self.write("d.npz", npz(x=x, other=y)))
        self.fails("it has no arrays", self.write("d.npz", npz()))
        self.fails("none.npz", "none.npz")
        self.fails("expected a .npz file", self.write("text.npz", b"hello"))

    def test_wrong_arrays(self):
        x, y = examples(32)
        self.fails(["expected examples of [12] for the input '%x'", "'x' is of type f32[32, 11]"],
                   self.write("d.npz", npz(x=("f32", (32, 11), x[2][:352]), labels=y)))
        self.fails("expected as many examples in 'labels' as in 'x', which are 32, and found 31",
                   self.write("d.npz", npz(x=x, labels=("i64", (31,), y[2][:31]))))
        self.fails("expected at least a batch of 16 examples in 'x', and found 15",
                   self.write("d.npz", npz(x=("f32", (15, 12), x[2][:180]), labels=("i64", (15,), y[2][:15]))))
        self.fails(["label from 0 on and below 4", "element 5 is 4"],
                   self.write("d.npz", npz(x=x, labels=("i64", (32,), [*y[2][:5], 4, *y[2][6:]]))))
        self.fails("element 0 is -1", self.write("d.npz", npz(x=x, labels=("i64", (32,), [-1, *y[2][1:]]))))
        self.fails("expected whole numbers for the input '%labels'",
                   self.write("d.npz", npz(x=x, labels=("f32", (32,), y[2]))))

    def test_tokens(self):
        """Labels may be flat: their number is a multiple of the batch."""
        self.run_ok("zoo", "gpt2", "--depth=1", "--width=16", "--heads=2", "--batch=2", "--tokens=8", "--vocab=16", "-o", "gpt.isth")
        rows = [[(3 * i * i + 5 * r + i) % 16 for i in range(9)] for r in range(10)]
        data = self.write("d.npz", npz(x_train=("i64", (10, 8), sum((r[:8] for r in rows), [])),
                                       y_train=("i64", (10, 8), sum((r[1:] for r in rows), []))))
        _, report = self.train("gpt.isth", data, "--epochs=30", "--lr=0.01")
        self.assertLess(report["loss"][-1], 0.6 * report["loss"][0])

    def test_given_inputs_stay(self):
        """An input of --inputs is the same in each step, and needs no array."""
        model = self.write("m.isth", "isthmus 2\ngraph @g {\n  input %x : f32[4, 3]\n  input %m : f32[3]\n"
                                     "  param %w : f32[3] = fill {value = 1}\n  %a = mul(%x, %w)\n  %p = mul(%a, %m)\n"
                                     "  %y = mean(%p)\n  loss %y\n  output %y\n}\n")
        data = self.write("d.npz", npz(x=("f32", (8, 3), [1.0] * 24)))
        self.fails("expected an array for the input '%m'", data, model=model, loss=None)
        self.write("in/m.npy", npy("f32", (3,), [0, 3, 0]))
        _, report = self.train(model, data, "--inputs=in", "--steps=1", loss=None)
        self.assertEqual(report["loss"], [1.0])


class Trouble(TrainCase):
    def test_divergence_saves_nothing(self):
        """The error names the step, and the last good file stays."""
        model = self.write("m.isth", "isthmus 2\ngraph @g {\n  input %x : f32[4, 3]\n  param %w : f32[3] = fill {value = 1}\n"
                                     "  %a = mul(%x, %w)\n  %q = square(%a)\n  %y = mean(%q)\n  loss %y\n  output %y\n}\n")
        data = self.write("d.npz", npz(x=("f32", (4, 3), [1.0] * 12)))
        result, report = self.train(model, data, "--lr=1e8", "--optimizer=sgd", "--steps=50", "--save=w.safetensors",
                                    "--save-every=1", code=1, loss=None)
        step = len(report["loss"])
        self.assertGreater(step, 1)
        saved, metadata = tensors(self.read("w.safetensors"))
        self.assertTrue(all(map(math.isfinite, floats(saved["w"]))))
        self.assertLessEqual(int(metadata["isthmus.step"]), step)
        self.assertRegex(result.err, f"at step {step + 1}|after step {step}")
        self.assertIn("--lr", result.err)
        before = self.read("w.safetensors")
        self.train(model, self.write("d.npz", npz(x=("f32", (4, 3), [math.nan] * 12))), "--steps=3", "--save=w.safetensors", code=1,
                   loss=None)
        self.assertEqual(self.read("w.safetensors"), before)

    def test_usage(self):
        model, data = self.net(), self.data()
        for words, *args in (
                ("give one of them", "--steps=3", "--epochs=3"), ("--optimizer expects one of", "--optimizer=adm"),
                ("did you mean 'adam'", "--optimizer=adm"), ("for --optimizer=sgd", "--momentum=0.9"),
                ("for --optimizer=adam or adamw", "--optimizer=sgd", "--betas=0.9,0.99"), ("--betas expects", "--betas=0.9"),
                ("--betas expects", "--betas=0.9,1"), ("--lr expects", "--lr=-1"), ("--lr expects", "--lr=nan"),
                ("--momentum expects", "--optimizer=sgd", "--momentum=1"), ("--clip-norm expects", "--clip-norm=0"),
                ("--lr-schedule expects", "--lr-schedule=cosin"), ("--warmup expects", "--steps=3", "--warmup=4"),
                ("--warmup expects", "--warmup=-1"),
                ("--save-every", "--save-every=3"), ("--memory", "--memory=lots"), ("give one of them", "--memory=sqrt", "--budget=50%"),
                ("leave out --load", "--resume=w.safetensors", "--load=w.safetensors"),
                ("leave out --allow", "--memory=constant", "--allow=recompute"),
                ("--nesterov", "--optimizer=sgd", "--nesterov"), ("--levels expects", "--levels=1"), ("--steps", "--steps=0")):
            with self.subTest(args):
                self.assertIn(words, self.train(model, data, *args, code=2)[0].err)
        self.assertEqual(command.run("train", model, cwd=self.dir).code, 2, "--data is needed")
        self.assertIn("--checkpoint=always", self.train(model, data, "--memory=sqrt", "--stages=2", code=1)[0].err)
        self.assertIn("no loss", self.train(model, data, loss=None, code=1)[0].err)
        self.assertIn("also read", self.train(model, data, f"--save={data}", code=2)[0].err)
        self.assertIn("cannot write", self.train(model, data, "--save=none/w.safetensors", code=1)[0].err)

    def test_inputs_of_the_optimizer_are_its_own(self):
        """A model's own input of this name keeps it."""
        text = self.read(self.net()).decode().replace("%x", "%learning_rate")
        x, y = examples(32)
        data = self.write("d.npz", npz(learning_rate=x, labels=y))
        want = self.train("net.isth", self.write("e.npz", npz(x=x, labels=y)), "--steps=3")[1]["loss"]
        self.assertEqual(self.train(self.write("m.isth", text), data, "--steps=3")[1]["loss"], want)


class Progress(TrainCase):
    def test_narrow_terminal(self):
        """Progress is one line that fits the terminal, with the loss first."""
        env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"}
        args = ["train", self.net(), "--loss=cross_entropy", f"--data={self.data(tests=0)}", "--steps=60000", "--threads=1"]
        for columns in 40, 120:
            with self.subTest(columns):
                code, text = self.on_terminal(*args, env=env, columns=columns)
                self.assertEqual(code, 0, text)
                bars = [bar.split(b"\r")[0] for bar in text.split(b"\r\x1b[K") if bar.startswith(b"training")]
                self.assertGreater(len(bars), 0, text)
                for bar in bars:
                    self.assertLess(len(bar), columns)
                    self.assertIn(b"loss", bar)
                if columns == 120:
                    self.assertRegex(bars[-1], rb"training \[#*\.*\] \d+ %  loss [\d.]+  [\d.]+ steps/s  peak [\d.]+ KiB  [\d.]+ m?s")
        code, text = self.on_terminal(*args, env={**env, "NO_COLOR": "1"})
        self.assertEqual((code, b"\x1b" in text), (0, False))

    def test_plain_and_none(self):
        data = self.data(tests=0)
        result, _ = self.train(self.net(), data, "--steps=20", "--progress=none")
        self.assertNotIn("training", result.err)
        self.assertEqual(result.out, b"", "talk goes to stderr")


class Loading(TrainCase):
    def test_trained_weights_are_used(self):
        """`run --load` of the saved weights gives the results of the evaluation."""
        model, data = self.net(), self.data(tests=16)
        _, report = self.train(model, data, "--steps=20", "--lr=0.01", "--save=w.safetensors")
        x, y = examples(16, seed=1)
        self.write("in/x.npy", npy(*x))
        result = self.run_ok("run", model, "--load=w.safetensors", "--eval", "--inputs=in", "--outputs=out")
        self.assertNotIn("left out", result.err, "the optimizer's state is no surprise")
        _, shape, values = read_npy(self.path("out/y.npy"))
        rows = [values[i:i + 4] for i in range(0, len(values), 4)]
        right = sum(max(range(4), key=row.__getitem__) == label for row, label in zip(rows, y[2]))
        self.assertEqual(right / 16, report["evaluations"][-1]["accuracy"])
        self.assertEqual(shape, (16, 4))

    def test_of_another_model(self):
        self.train(self.net(), self.data(), "--steps=1", "--save=w.safetensors")
        other = self.write("other.isth", self.read("net.isth").decode().replace("%w2", "%w3"))
        result = command.run("run", other, "--load=w.safetensors", cwd=self.dir)
        self.assertEqual(result.code, 1, result)
        self.assertIn("there is none for 'w3'", result.err)
        other = self.write("other.isth", self.read("net.isth").decode().replace("[32, 4]", "[32, 5]"))
        result = command.run("run", other, "--load=w.safetensors", cwd=self.dir)
        self.assertIn("'w2' is of type f32[32, 5] in the model, and of type f32[32, 4] here", result.err)

    def test_other_precision(self):
        self.train(self.net(), self.data(), "--steps=4", "--precision=f64", "--save=w.safetensors")
        result = self.run_ok("run", "net.isth", "--load=w.safetensors")
        self.assertIn("are of another precision", result.err)


if __name__ == "__main__":
    command.main()
