"""Tests that one graph and equal options give the same graph, byte for byte, by the command line, C, C++ and Python."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import command  # noqa: E402

import isthmus  # noqa: E402

BY_C, BY_CPP = (os.path.abspath(path) for path in sys.argv[1:3])
del sys.argv[1:3]
THREADS, EFFORT = 2, 0.02
CANNOT_BE_MET = 3  # as an exit code of the programs, and as a status

SMALL_IMAGES = ["--batch=2", "--shape=3x32x32"]
# Every network of the zoo, small; some in two forms.
GRAPHS = {
    "mlp": ["--depth=6", "--width=64", "--batch=256", "--shape=64", "--dropout=0.1"],
    "cnn": SMALL_IMAGES,
    "resnet": ["--depth=8", *SMALL_IMAGES],
    "resnet ": ["--depth=20", "--batch=4", "--shape=3x16x16"],
    "vgg16": SMALL_IMAGES,
    "unet": ["--depth=2", "--width=8", *SMALL_IMAGES],
    "unet ": ["--depth=3", "--width=4", "--batch=1", "--shape=3x64x64"],
    "mobilenetv2": SMALL_IMAGES,
    "densenet": SMALL_IMAGES,
    "gpt2": ["--depth=2", "--width=48", "--batch=2", "--tokens=32", "--vocab=64"],
    "gpt2 ": ["--depth=4", "--width=24", "--batch=1", "--tokens=16", "--vocab=500"],
    "vae": ["--batch=4"],
    "nice": ["--depth=3", "--width=16", "--batch=8"],
    "realnvp": ["--depth=2", "--width=8", "--batch=2", "--shape=3x16x16"],
    "glow": ["--depth=2", "--width=8", "--batch=2", "--shape=3x16x16"],
    "glow ": ["--depth=6", "--width=4", "--batch=2", "--shape=3x8x8"],
    "revnet": SMALL_IMAGES,
    "irevnet": SMALL_IMAGES,
    "iresnet": ["--depth=2", "--width=8", "--batch=2", "--shape=3x8x8"],
    "iresnet ": ["--depth=4", "--width=4", "--batch=2", "--shape=3x8x8"],
}
WAYS = {"recompute": 1, "invert": 2, "fetch": 4, "encode": 8, "chunk": 16}


def flags(options):
    """The command line's spelling of Python's options."""
    out = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            out.append(option)
        else:
            out.append(f"{option}={','.join(value) if isinstance(value, list) else value}")
    return out


# Options that the programs in C and C++ take, too.
PLANS = [
    {"policy": "none"},
    {"policy": "speed"},
    {"policy": "memory"},
    {"budget": "80%"},
    {"budget": "min"},
    {"budget": "80%", "allow": ["recompute", "encode"]},
    {"budget": "80%", "allow": ["fetch"]},
    {"budget": "min", "allow": ["recompute", "invert", "fetch", "encode"]},
    {"budget": "min", "allow": ["recompute", "chunk"]},
]


class DoorsAgree(command.TestCase):
    """A door gives the bytes of the file, or None where the budget cannot be met."""

    def by_command(self, model, options):
        done = command.run("opt", model, *flags(options), f"--effort={EFFORT}", f"--threads={THREADS}", "-o", "planned.isth", cwd=self.dir)
        self.assertIn(done.code, (0, CANNOT_BE_MET), done)
        return self.read("planned.isth") if done.code == 0 else None

    def by_python(self, model, options):
        graph = isthmus.Graph.load(self.path(model))
        try:
            graph.compile(effort=EFFORT, threads=THREADS, **options).save(self.path("planned.isth"))
        except isthmus.CannotBeMet:
            return None
        return self.read("planned.isth")

    def by_program(self, program, model, options):
        plan = options.get("policy", options.get("budget", ""))
        allow = sum(WAYS[way] for way in options.get("allow", ["recompute"]))
        arguments = [self.path(model), self.path("planned.isth"), options.get("loss", ""), plan, str(allow), str(THREADS), str(EFFORT)]
        done = subprocess.run([program, *arguments], capture_output=True, text=True)
        self.assertIn(done.returncode, (0, CANNOT_BE_MET), (done, options))
        return self.read("planned.isth") if done.returncode == 0 else None

    def test_every_network_by_every_door(self):
        """Every network with three plans; together they are all plans, for networks of every kind."""
        met = 0
        for i, (name, size) in enumerate(GRAPHS.items()):
            self.run_ok("zoo", name.strip(), *size, "-o", "model.isth")
            names_loss = "\n  loss " in self.read("model.isth").decode()
            loss = {} if names_loss else {"loss": "cross_entropy"}
            for k in range(3):
                options = {**loss, **PLANS[(3 * i + k) % len(PLANS)]}
                with self.subTest(name, **options):
                    expected = self.by_command("model.isth", options)
                    met += expected is not None
                    self.assertEqual(self.by_python("model.isth", options), expected)
                    self.assertEqual(self.by_program(BY_C, "model.isth", options), expected)
                    self.assertEqual(self.by_program(BY_CPP, "model.isth", options), expected)
        self.assertGreater(met, 45, "plans that can be met, of 60")

    def test_every_option(self):
        self.run_ok("zoo", "resnet", "--depth=8", *SMALL_IMAGES, "-o", "resnet.isth")
        self.run_ok("zoo", "glow", *GRAPHS["glow"], "-o", "glow.isth")
        self.run_ok("profile", "resnet.isth", "--loss=cross_entropy", f"--threads={THREADS}", "-o", "costs.json")
        classes = {"loss": "cross_entropy"}
        for model, options in (
            ("resnet.isth", {"loss": "mean", "wrt": "inputs"}),
            ("resnet.isth", {"loss": "mean", "wrt": "all", "budget": "70%"}),
            ("resnet.isth", {**classes, "class_axis": 1, "ignore_index": 3, "budget": "70%"}),
            ("resnet.isth", {**classes, "keep_outputs": True, "budget": "70%"}),
            ("resnet.isth", {**classes, "eval": True, "budget": "70%"}),
            ("resnet.isth", {**classes, "as_written": True, "budget": "70%"}),
            ("resnet.isth", {**classes, "precision": "f64", "budget": "70%"}),
            ("resnet.isth", {**classes, "precision": "bf16", "layout": "channels-last", "budget": "70%"}),
            ("resnet.isth", {**classes, "layout": "channels-last", "policy": "memory"}),
            ("resnet.isth", {**classes, "seed": 7, "budget": "60%"}),
            ("resnet.isth", {**classes, "memory_limit": "5MiB"}),
            ("resnet.isth", {**classes, "budget": "min", "max_added": "10%"}),
            ("resnet.isth", {**classes, "budget": "60%", "max_added": "0.1%"}),
            ("resnet.isth", {**classes, "costs": self.path("costs.json"), "budget": "70%"}),
            ("resnet.isth", {**classes, "budget": "70%", "allow": ["fetch"], "host_memory": "1MiB", "link": "2GB"}),
            ("resnet.isth", {**classes, "device": "counting", "budget": "70%"}),
            ("glow.isth", {"budget": "min", "allow": ["recompute", "invert"], "max_inverse_error": 1e-6}),
            ("glow.isth", {"budget": "min", "allow": ["recompute", "invert"], "iterations": 4}),
            ("resnet.isth", {**classes, "checkpoints": "*.sum,relu1"}),
            ("resnet.isth", {**classes, "policy": "memory", "smallest_checkpoint": 100000}),
            ("resnet.isth", {**classes, "chunk": "%y:axis=0,chunks=2"}),
            ("resnet.isth", {**classes, "microbatches": 2, "budget": "60%"}),
        ):
            with self.subTest(model, **options):
                self.assertEqual(self.by_python(model, options), self.by_command(model, options))

    def test_a_step_over_several_devices(self):
        self.run_ok("zoo", "mlp", *GRAPHS["mlp"], "-o", "mlp.isth")
        self.run_ok("zoo", "resnet", "--depth=8", *SMALL_IMAGES, "-o", "resnet.isth")
        classes = {"loss": "cross_entropy"}
        for model, options in (
            ("mlp.isth", {**classes, "stages": 2}),
            ("mlp.isth", {**classes, "stages": 3, "microbatches": 4, "schedule": "1f1b", "checkpoint": "except_last", "balance": "2,1,1"}),
            ("mlp.isth", {**classes, "stages": 4, "microbatches": 4, "schedule": "interleaved", "devices": ["cpu:0", "cpu:1"]}),
            ("mlp.isth", {**classes, "stages": 2, "microbatches": 2, "schedule": "gpipe", "checkpoint": "never", "balance": ["%relu3"]}),
            ("resnet.isth", {**classes, "stages": 2, "microbatches": 2, "batch_norm": "micro", "budget": "60%", "schedule": "zero-bubble"}),
        ):
            with self.subTest(model, **options):
                planned = self.by_command(model, options)
                self.assertIn(b"@cpu:1", planned)
                self.assertEqual(self.by_python(model, options), planned)

    def test_what_was_planned_before(self):
        self.run_ok("zoo", "unet", *GRAPHS["unet"], "-o", "unet.isth")
        self.run_ok("opt", "unet.isth", "--loss=cross_entropy", "--policy=memory", "-o", "before.isth")
        for options in ({}, {"budget": "70%"}):
            self.assertEqual(self.by_python("before.isth", options), self.by_command("before.isth", options))

    def test_refusals_and_reports_are_the_same(self):
        self.run_ok("zoo", "mlp", *GRAPHS["mlp"], "-o", "mlp.isth")
        refused = command.run("opt", "mlp.isth", "--loss=mean", "--budget=1000", f"--effort={EFFORT}", f"--threads={THREADS}",
                              "--report=refused.json", cwd=self.dir)
        self.assertEqual(refused.code, 3)
        with self.assertRaises(isthmus.CannotBeMet) as caught:
            isthmus.Graph.load(self.path("mlp.isth")).compile(loss="mean", budget=1000, effort=EFFORT, threads=THREADS)
        expected = json.loads(self.read("refused.json"))
        for report in (expected, caught.exception.report):
            report.pop("plan_seconds")
        self.assertLessEqual(caught.exception.report.items(), expected.items())


if __name__ == "__main__":
    command.main()
