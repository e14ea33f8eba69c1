"""Tests the CUDA device with the library that emulates a GPU on the CPU. Its kernels are ours, compiled for the CPU.

On a GPU, `isthmus selftest --device=cuda` makes the same checks.
"""

import json
import os

import command
from cli_cases import ZOO, Case
from training import NET, examples, npz

LIBRARY = os.path.abspath(
    os.environ.get("ISTHMUS_EMULATION") or "kernels/cuda/libisthmus_cuda_emulation.so"  # tests run in the root of the runfiles
)
EMULATION = {"ISTHMUS_CUDA_LIBRARY": LIBRARY}


class CudaCase(Case):
    def on_cuda(self, *args, **kwargs):
        return self.run_ok(*args, "--device=cuda", env=EMULATION, **kwargs)


class Devices(CudaCase):
    def test_listed(self):
        self.assertRegex(self.run_ok("devices", env=EMULATION).out.decode(), r"(?m)^cuda +cuda emulation, 2\.0 GiB of 2\.0 GiB free$")

    def test_not_available(self):
        missing = {"ISTHMUS_CUDA_LIBRARY": "/no/such.so"}
        self.assertRegex(self.run_ok("devices", env=missing).out.decode(), r"(?m)^cuda +not available: there is no /no/such.so")
        result = command.run("run", self.mlp(), "--loss=mse", "--device=cuda", cwd=self.dir, env=missing)
        self.assertEqual(result.code, 5, result)
        self.assertIn("device 'cuda' is not available: there is no /no/such.so", result.err)

    def test_no_such_gpu(self):
        result = command.run("run", self.mlp(), "--loss=mse", "--device=cuda:7", cwd=self.dir, env=EMULATION)
        self.assertEqual(result.code, 5, result)
        self.assertIn("device 'cuda:7' is not available: there is no GPU 7: 2 found", result.err)

    def test_malformed(self):
        for name in ("cuda:", "cuda:x", "cuda:-1", "gpu"):
            result = command.run("run", self.mlp(), "--loss=mse", f"--device={name}", cwd=self.dir, env=EMULATION)
            self.assertIn(result.code, (2, 5), f"{name}\n{result}")


class Runs(CudaCase):
    def test_selftest(self):
        """Networks are left out unless all is asked for: they take a minute here, and the test below runs others."""
        parts = [] if os.environ.get("ISTHMUS_FULL") else ["--only=kernels,recording,graphs,memory"]
        out = self.on_cuda("selftest", "--graphs=60", *parts, timeout=900).out.decode()
        self.assertRegex(out, r"(\d+) passed, 0 failed\n$")

    def test_zoo_under_budgets(self):
        """The arena is within the budget, the peak is as predicted, steps repeat, and the bits equal those without a
        policy."""
        for name in ZOO:
            with self.subTest(name):
                model, options = self.zoo(name)
                want = self.outputs(model, *options, "--device=cuda", env=EMULATION)
                for plan in ("--policy=speed", "--policy=memory", "--budget=min"):
                    got = self.outputs(model, *options, plan, "--device=cuda", "--steps=3", "--report=r.json", env=EMULATION)
                    self.assert_same(got, want)
                    report = json.loads(self.read("r.json"))
                    self.assertEqual(report["measured_peak_bytes"], report["predicted_peak_bytes"])
                    self.assertEqual(len(set(report["loss"])), 1)
                    self.assertEqual(report["device_memory_bytes"], report["arena_bytes"] + report["persistent_bytes"])

    def test_tensors_go_to_the_host_and_back(self):
        """The peak of single and of recorded steps is as predicted, and the bits equal those of a step that keeps all
        values."""
        model, options = self.zoo("resnet")
        want = self.outputs(model, *options, "--device=cuda", env=EMULATION)
        ways = ["--budget=70%", "--allow=recompute,fetch", "--report=r.json"]
        got = self.outputs(model, *options, *ways, "--device=cuda", "--steps=4", env=EMULATION)
        self.assert_same(got, want)
        report = json.loads(self.read("r.json"))
        self.assertEqual(report["measured_peak_bytes"], report["predicted_peak_bytes"])
        self.assertEqual(len(set(report["loss"])), 1)
        self.assertGreater(report["transfers"], 0)
        self.assertGreater(report["host_bytes"], 0)
        self.assertEqual(report["device_notes"], [])
        faults = {**EMULATION, "ISTHMUS_EMULATION_FAULTS": "transfer"}
        result = command.run("run", model, *options, *ways, "--device=cuda", cwd=self.dir, env=faults)
        self.assertEqual(result.code, 5, result)
        self.assertIn("copying to the host or back: the emulation was told to fail a transfer", result.err)

    def test_nodes_are_measured(self):
        """Each node is measured. The most live bytes are the peak, and the measured step is not a recorded one."""
        model, options = self.zoo("cnn")
        plan = [*options, "--budget=70%", "--effort=0.2"]
        self.on_cuda("profile", model, *plan, "--steps=3", "-o", "costs.json", "--trace=trace.json")
        self.on_cuda("run", model, *plan, "--report=r.json")
        self.assertRegex(json.loads(self.read("costs.json"))["target"], "^cuda ")
        events = json.loads(self.read("trace.json"))["traceEvents"]
        self.assertEqual(max(e["args"]["bytes"] for e in events if e["ph"] == "C"), json.loads(self.read("r.json"))["measured_peak_bytes"])
        self.on_cuda("opt", model, *plan, "--costs=costs.json", "-o", "out.isth", "--report=r.json")
        self.assertEqual(json.loads(self.read("r.json"))["costs"], "measured")

    def test_training(self):
        """Trains with every optimizer on recorded launches, with state between steps and an evaluation after each
        epoch."""
        x, y = examples(48)
        data = self.write("d.npz", npz(x_train=x, y_train=y, x_test=x, y_test=y))
        model = self.write("net.isth", NET.format(batch=16))
        for optimizer in ["--optimizer=sgd", "--momentum=0.9"], ["--optimizer=adam", "--clip-norm=0.5"], ["--optimizer=adamw"]:
            with self.subTest(optimizer):
                args = ["train", model, "--loss=cross_entropy", f"--data={data}", "--steps=9", "--report=r.json", *optimizer]
                self.run_ok(*args)
                want = json.loads(self.read("r.json"))
                self.on_cuda(*args)
                got = json.loads(self.read("r.json"))
                for a, b in zip(got["loss"], want["loss"], strict=True):
                    self.assertAlmostEqual(a, b, 4)
                self.assertEqual([e["accuracy"] for e in got["evaluations"]], [e["accuracy"] for e in want["evaluations"]])
                self.assertEqual(got["measured_peak_bytes"], got["predicted_peak_bytes"])

    def test_a_plan_for_a_gpu_is_told_on_a_cpu(self):
        self.on_cuda("opt", self.chain(), "--loss=mean", "--policy=memory", "-o", "out.isth")
        self.assertIn(b"cuda emulation", self.read("out.isth"))
        result = self.run_ok("run", "out.isth")
        self.assertIn("cuda emulation", result.err)

    def test_biases_are_operands_of_products(self):
        """Each device has its own form of a rewritten file. The forms are compared on both devices."""
        model, options = self.mlp(), ["--loss=mse", "--precision=bf16"]  # the two forms differ in this precision
        self.on_cuda("opt", model, *options, "--policy=memory", "-o", "gpu.isth")
        self.run_ok("opt", model, *options, "--policy=memory", "-o", "cpu.isth")
        self.assertIn(b"record {bias = fused", self.read("gpu.isth"))
        self.assertNotIn(b"bias = fused", self.read("cpu.isth"))
        for device in "cpu", "cuda":
            for rewritten in "cpu.isth", "gpu.isth":
                self.run_ok("verify", model, rewritten, *options, f"--device={device}", env=EMULATION)
                self.run_ok("verify", rewritten, model, *options, f"--device={device}", env=EMULATION)
            result = command.run("verify", "cpu.isth", "gpu.isth", f"--device={device}", cwd=self.dir, env=EMULATION)
            self.assertEqual(result.code, 4, result)

    def test_channels_last_for_tensor_cores(self):
        """Channels last is the default where a GPU then convolves faster; elsewhere it must be requested."""
        model, loss = self.zoo("resnet")
        for precision, chosen in ("bf16", True), ("f16", True), ("tf32", True), ("f32", False), ("f64", False):
            for layout in "auto", "channels-first":
                with self.subTest(f"{precision} {layout}"):
                    self.on_cuda("opt", model, *loss, f"--precision={precision}", f"--layout={layout}", "-o", "out.isth")
                    self.assertEqual(b"channels_last = true" in self.read("out.isth"), chosen and layout == "auto")
        options = [model, *loss, "--precision=bf16", "--device=cuda"]
        want = self.outputs(*options, env=EMULATION)
        for plan in "--policy=memory", "--budget=min":
            self.assert_same(self.outputs(*options, plan, "--report=r.json", env=EMULATION), want)
            report = json.loads(self.read("r.json"))
            self.assertEqual(report["measured_peak_bytes"], report["predicted_peak_bytes"])

    def test_whose_kernels_ran(self):
        """The report counts nodes by the library that ran them, and nodes whose library failed. A note tells of such
        nodes."""
        options = ["run", self.mlp(), "--loss=mse", "--policy=none", "--device=cuda", "--steps=3", "--report=r.json"]
        want = self.run_ok(*options, env=EMULATION)
        report = json.loads(self.read("r.json"))
        products = report["kernels"]["emulation"]
        self.assertGreater(products, 0)
        self.assertEqual((report["substitute_kernels"], report["device_notes"]), (0, []))
        self.assertNotIn("note", want.err)
        losses = report["loss"]
        for faults, part in ("first-product second-product", "so our own kernel, which is slow, runs"), ("refuse-products", "refuse"):
            result = self.run_ok(*options, env={**EMULATION, "ISTHMUS_EMULATION_FAULTS": faults})
            report = json.loads(self.read("r.json"))
            self.assertEqual(report["substitute_kernels"], products)
            self.assertNotIn("emulation", report["kernels"])
            self.assertEqual(report["loss"], losses)
            self.assertTrue(any(part in note for note in report["device_notes"]), report["device_notes"])
            for note in report["device_notes"]:
                self.assertEqual(result.err.count(note), 1)
        self.run_ok("run", options[1], "--loss=mse", "--report=r.json")  # on the CPU
        report = json.loads(self.read("r.json"))
        self.assertLessEqual(set(report["kernels"]), {"plain", "onednn", "gemm", "unfolded"})
        self.assertEqual(report["substitute_kernels"], 0)

    def test_a_step_that_cannot_be_recorded(self):
        options = ["run", self.mlp(), "--loss=mse", "--device=cuda", "--steps=4", "--report=r.json"]
        result = self.run_ok(*options, env={**EMULATION, "ISTHMUS_EMULATION_FAULTS": "end-recording"})
        self.assertEqual(result.err.count("steps are run kernel by kernel, because recording one failed"), 1)
        self.assertEqual(len(set(json.loads(self.read("r.json"))["loss"])), 1)

    def test_parts_of_the_selftest(self):
        out = self.on_cuda("selftest", "--only=kernels,memory", "--ops=matmul,exp").out.decode()
        self.assertRegex(out, r"^kernels +\d+ passed, 0 failed, [0-9.]+ s\nmemory +\d+ passed, 0 failed, [0-9.]+ s\n\d+ passed, 0 failed\n$")
        for wrong in "--only=kernel", "--ops=matmuls":
            self.assertEqual(command.run("selftest", wrong, cwd=self.dir).code, 2)

    def test_tf32_is_another_target(self):
        self.on_cuda("opt", self.chain(), "--loss=mean", "--policy=memory", "--precision=tf32", "-o", "out.isth")
        self.assertIn(b"cuda emulation tf32", self.read("out.isth"))


if __name__ == "__main__":
    command.main()
