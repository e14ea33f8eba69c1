"""Compares loss and all gradients of the shared ONNX models with PyTorch's.

shared/onnx/README.md says how the models were made. In f32 the tolerance is that of the page; in f64 it is the nine
digits that the files have, so that neither rounding nor kinks can hide errors. Reference kernels run f64. For the two
models of 224 x 224 pixels this is done in training mode only: its graph has all that the evaluation's graph has except
batch norm's other form, which unet_bilinear's small graph covers.
"""

import command

command.with_python_of_torch()

import json  # noqa: E402
import lzma  # noqa: E402
import os  # noqa: E402

import numpy as np  # noqa: E402
import onnx_file  # noqa: E402

# The modes in which each model is compared in f64.
MODELS = {
    "smallcnn": ("eval", "train"),
    "smallcnn_dynamo": ("eval", "train"),
    "unet_hw": ("eval", "train"),
    "gpt2": ("train",),
    "gpt2_sdpa": ("train",),
    "resnet18": ("train",),
    "mobilenetv2": ("train",),
    "unet_bilinear": ("eval", "train"),
    "char_tcn": ("eval", "train"),
    "char_cells": ("eval", "train"),
}
# In f64 these models differ from PyTorch in the eighth digit, as their files have f32 constants where PyTorch has exact
# numbers: the square root of two in GELU, the attention's scale, the weights of interpolation.
CONSTANTS_IN_F32 = {"gpt2": 1e-7, "gpt2_sdpa": 1e-7, "unet_bilinear": 1e-6}
POLICY_MODELS = ["smallcnn"]


class Golden(command.TestCase):
    def golden(self, model):
        with open(command.shared_folder("onnx", f"{model}.golden.json"), encoding="utf-8") as file:
            return json.load(file)

    def unpack(self, model):
        with lzma.open(command.shared_folder("onnx", f"{model}.onnx.xz")) as file:
            return self.write(f"{model}.onnx", file.read())

    def options(self, golden, model):
        """Returns --dim, --loss and --inputs, with the names of sizes that the file's description has."""
        inputs = {name: eval(text, {"np": np}) for name, text in golden["inputs"].items()}
        with open(command.shared_folder("onnx", f"{model}.json"), encoding="utf-8") as file:
            described = json.load(file)["inputs"]
        sizes = {}
        for entry in described:
            for symbol, size in zip(entry["shape"], inputs[entry["name"]].shape, strict=True):
                if isinstance(symbol, str):
                    sizes[symbol] = size
        key = "labels" if golden["loss"] == "cross_entropy" else "target"
        inputs[key] = eval(golden[key], {"np": np})
        os.makedirs(self.path("in"), exist_ok=True)
        for name, array in inputs.items():
            np.save(self.path(f"in/{name}.npy"), array)
        dims = [text for symbol, size in sizes.items() for text in ("--dim", f"{symbol}={size}")]
        axis = [f"--class-axis={golden['class_axis']}"] if "class_axis" in golden else []
        return [*dims, f"--loss={golden['loss']}", *axis, "--wrt=all", "--inputs=in"]

    def run_model(self, model, golden, *args):
        """Returns the report and the outputs by name."""
        file = self.unpack(model)
        result = command.run("run", file, *self.options(golden, model), "--outputs=out", "--report=r.json", *args,
                             cwd=self.dir, timeout=600)
        self.assertEqual(result.code, 0, str(result))
        self.assertEqual(result.out, b"")
        names = json.loads(self.read("out/names.json"))
        outputs = {name: np.load(self.path(f"out/{file}")) for file, name in names.items()}
        return json.loads(self.read("r.json")), outputs

    def compare(self, name, got, want, tolerance):
        """`tolerance` is a function of a number and the norm: the allowed error of the norm and of each element."""
        self.assertEqual(list(got.shape), want["shape"], name)
        got = got.astype(np.float64)
        norm = float(np.linalg.norm(got))
        for what, g, w in [("l2", norm, want["l2"]), *((f"element {i}", float(got.flat[i]), w) for i, w in enumerate(want["first4"]))]:
            allowed = tolerance(w, want)
            if not abs(g - w) <= allowed:
                self.problems.append(f"{name}, {what}: {g:.10g}, expected {w:.10g} within {allowed:.2g}")

    def running(self, model, want, outputs, tolerance):
        """Compares running averages. ONNX's running variance is biased, and PyTorch's is unbiased."""
        before = onnx_file.float_initializers(self.read(f"{model}.onnx"))
        for name, w in want.items():
            old = np.frombuffer(before[name], np.float32).astype(np.float64)
            got = outputs[f"state.{name}"].astype(np.float64)
            if name.endswith("running_var"):
                n = w["count"]
                got = 0.9 * old + (got - 0.9 * old) * n / (n - 1)  # converted to PyTorch's definition
            self.compare(f"state.{name}", got, w, tolerance)
        states = {n for n in outputs if n.startswith("state.")}
        self.assertEqual(states, {f"state.{n}" for n in want})

    def check(self, model, mode, precision, *args):
        golden = self.golden(model)
        want = golden[mode]
        mode_option = ["--eval"] if mode == "eval" else []
        report, outputs = self.run_model(model, golden, f"--precision={precision}", *mode_option, *args)
        self.problems = []

        kinks = golden["kinks"]

        def in_f32(_, w):
            if kinks:
                return max(0.03 * w["l2"], 5 * w.get("float32_err", 0) + 1e-5 * w["l2"])
            return 5 * w.get("float32_err", 0) + 1e-5 * w["l2"]

        # Half a unit of the ninth digit, plus the rounding of sums in f64. A gradient that is zero except for rounding
        # is so in both programs; float32_err tells the size of its terms.
        def in_f64(figure, w):
            of_norm = CONSTANTS_IN_F32.get(model, 1e-11)
            return 6e-9 * abs(figure) + of_norm * w["l2"] + 1e-6 * w.get("float32_err", 0)

        tolerance = in_f64 if precision == "f64" else in_f32
        plain = in_f64 if precision == "f64" else (lambda _, w: 1e-5 * w["l2"])  # no gradients, no kinks

        loss = report["loss"][0]
        allowed = 6e-9 * abs(want["loss"]) if precision == "f64" else \
            1e-5 * abs(want["loss"]) + 5 * abs(want["loss"] - want["loss_float32"])
        self.assertLessEqual(abs(loss - want["loss"]), allowed, f"loss {loss}, expected {want['loss']}")
        self.assertEqual(report["measured_peak_bytes"], report["predicted_peak_bytes"])

        first = next(name for name in outputs if not name.startswith(("grad.", "state.")) and name != "loss")
        self.compare(f"output0 ({first})", outputs[first], want["output0"], plain)
        gradients = {n for n in outputs if n.startswith("grad.")}
        self.assertEqual(gradients, {f"grad.{n}" for n in [*want["grads"], *want["input_grads"]]})
        for name, w in {**want["grads"], **want["input_grads"]}.items():
            self.compare(f"grad.{name}", outputs[f"grad.{name}"], w, tolerance)
        self.running(model, want.get("running", {}), outputs, plain)
        if self.problems:
            self.fail(f"{len(self.problems)} figures are off:\n" + "\n".join(self.problems[:20]))
        return outputs

    def check_policies(self, model, mode):
        """A rewritten graph gives the same bits, and therefore the same numbers."""
        want = self.check(model, mode, "f32", "--policy=none")
        for policy in "memory", "speed":
            with self.subTest(policy):
                got = self.check(model, mode, "f32", f"--policy={policy}")
                self.assertEqual(sorted(got), sorted(want))
                for name in want:
                    self.assertEqual(want[name].tobytes(), got[name].tobytes(), name)


def add_tests():
    def add(name, body):
        body.__name__ = name
        setattr(Golden, name, body)

    for model, exact_modes in MODELS.items():
        for mode in "eval", "train":
            add(f"test_{model}_{mode}_f32", lambda self, m=model, mode=mode: self.check(m, mode, "f32"))
            if mode in exact_modes:
                add(f"test_{model}_{mode}_f64", lambda self, m=model, mode=mode: self.check(m, mode, "f64"))
    for model in POLICY_MODELS:
        for mode in "eval", "train":
            add(f"test_{model}_{mode}_policies", lambda self, m=model, mode=mode: self.check_policies(m, mode))


add_tests()

if __name__ == "__main__":
    command.main()
