"""Compares one OpInfo sample in PyTorch with our results for the exported file."""

import collections
import json
import os

import command
import numpy as np
import onnx
import torch
import torch_export
from opinfo_exceptions import Failure

TOLERANCE = {"f64": 1e-9, "f32": 2e-4}
SMALLEST_SCALE = {"f64": 1e-3, "f32": 1e-2}
LEVELS = ("m.onnx", "first.isth", "second.isth")  # by the number of gradients
# The types that our files can hold.
DTYPES = {torch.float64, torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool}


class Stop(Exception):
    def __init__(self, failure):
        self.failure = failure


def one_line(text):
    return " ".join(str(text).split())


def same_type(a, b):
    return a.shape == b.shape and a.dtype == b.dtype


class Check:
    """One sample. `failures` lists all failures, and `done` counts the comparisons that were made."""

    def __init__(self, op, sample, folder, exporter):
        self.op, self.sample, self.dir, self.exporter = op, sample, folder, exporter
        self.failures, self.done = [], collections.Counter()

    def path(self, name):
        return os.path.join(self.dir, name)

    def check(self, with_policy):
        try:
            self.evaluate()
            self.write()
            self.compare("f64", "m.onnx", [("value", self.values)])
            self.compare("f32", "m.onnx", [("f32", self.values)])
            graph = self.differentiate()
            self.compare("f64", graph, [("gradient", self.first), ("second", self.second)][: LEVELS.index(graph)])
            if with_policy and graph != "m.onnx":
                self.compare_policy(graph)
        except Stop as stop:
            self.failures.append(stop.failure)

    # --- PyTorch's results

    def evaluate(self):
        """Computes outputs, gradients and gradients of gradients of the sample, and draws the seeds of both."""
        inputs = self.sample.inputs
        bad = [str(x.dtype) for x in inputs if x.dtype not in DTYPES] + [str(x.layout) for x in inputs if x.layout != torch.strided]
        if bad:
            raise Stop(Failure("type", f"operand of {bad[0]}"))
        try:
            ys = self.sample(*inputs)
        except Exception as e:
            raise Stop(Failure("torch", one_line(e)))
        bad = [str(y.dtype) for y in ys if y.dtype not in DTYPES] + [str(y.layout) for y in ys if y.layout != torch.strided]
        if bad or not ys:
            raise Stop(Failure("type", f"result of {bad[0]}" if bad else "no result"))
        self.outputs = [f"y{i}" for i in range(len(ys))]
        self.values = {n: y.detach() for n, y in zip(self.outputs, ys)}
        self.ys = [n for n, y in zip(self.outputs, ys) if y.requires_grad and y.is_floating_point()]
        self.xs = [n for n, x in zip(self.sample.names(), inputs) if x.requires_grad] if self.ys else []
        self.fed = {n: x.detach() for n, x in zip(self.sample.names(), inputs)}
        self.first, self.second = {}, {}
        if self.xs:
            self.differentiate_by_torch(dict(zip(self.outputs, ys)), dict(zip(self.sample.names(), inputs)))

    def differentiate_by_torch(self, ys, xs):
        xs = {n: xs[n] for n in self.xs}
        random = torch.Generator().manual_seed(1)

        def seed(like):
            return torch.randn(like.shape, generator=random).to(like.dtype)

        seeds = {f"seed.{n}": seed(ys[n]).requires_grad_() for n in self.ys}
        self.twice = self.op.supports_gradgrad
        try:
            grads = torch.autograd.grad([ys[n] for n in self.ys], list(xs.values()), list(seeds.values()),
                                        allow_unused=True, create_graph=self.twice)
        except Exception as e:
            raise Stop(Failure("torch", f"gradient: {one_line(e)}"))
        grads = {f"grad.{n}": torch.zeros_like(x) if g is None else g for (n, x), g in zip(xs.items(), grads)}
        self.first = {n: g.detach() for n, g in grads.items()}
        self.fed |= {n: s.detach() for n, s in seeds.items()}
        if not self.twice:
            return
        seeds2 = {f"seed.{n}": seed(g) for n, g in grads.items()}
        self.fed |= seeds2
        by = {**xs, **seeds}
        through = [(g, seeds2[f"seed.{n}"]) for n, g in grads.items() if g.requires_grad]
        try:
            found = torch.autograd.grad([g for g, _ in through], list(by.values()), [s for _, s in through], allow_unused=True)
        except Exception as e:
            self.twice = False
            return self.failures.append(Failure("torch", f"second gradient: {one_line(e)}"))
        self.second = {f"grad2.{n}": torch.zeros_like(x) if g is None else g for (n, x), g in zip(by.items(), found)}

    # --- Our results

    def write(self):
        """Writes the ONNX file."""
        inputs = tuple(x.detach() for x in self.sample.inputs)
        try:
            torch_export.export(self.sample, inputs, self.path("m.onnx"), self.exporter, self.sample.names(), self.outputs)
        except Exception as e:
            raise Stop(Failure("export", f"{type(e).__name__}: {one_line(e)}"))
        graph = onnx.load(self.path("m.onnx")).graph
        if [o.name for o in graph.output] != self.outputs:
            raise Stop(Failure("export", f"the exporter names outputs {', '.join(o.name for o in graph.output)}"))
        self.leave_out_unused({i.name for i in graph.input})

    def leave_out_unused(self, read):
        """Removes inputs that nothing reads, as the exporter does. Their gradients must be zero in PyTorch too."""
        self.fed = {n: x for n, x in self.fed.items() if n.rpartition(".")[2] in read or n.startswith("seed.y")}
        self.xs = [n for n in self.xs if n in read]
        for wanted in self.first, self.second:
            for name in [n for n in wanted if n.startswith("grad") and not n.startswith("grad2.seed") and n.partition(".")[2] not in read]:
                if wanted.pop(name).any():
                    raise Stop(Failure("export", f"the exporter dropped an input that has a gradient, {name}"))

    def write_inputs(self, precision, level):
        """Writes the inputs of a graph with gradients up to this level, and returns their folder."""
        folder = f"in_{precision}_{level}"
        os.makedirs(self.path(folder), exist_ok=True)
        for name, tensor in self.fed.items():
            if name.startswith(("x", "seed.y", "seed.grad.")[: level + 1]):
                array = np.ascontiguousarray(tensor.numpy(force=True)).reshape(tensor.shape)
                array = array.astype(np.float32) if precision == "f32" and array.dtype == np.float64 else array
                np.save(self.path(f"{folder}/{name}.npy"), array)
        return folder

    def call(self, stage, *args):
        result = command.run(*args, cwd=self.dir)
        if result.code < 0 or result.code == 5:
            raise Stop(Failure("crash", one_line(result)))
        if 'm.onnx: node "' in result.err or "m.onnx: error" in result.err:
            raise Stop(Failure("import", one_line(result.err)))
        return None if result.code == 0 else Failure(stage, one_line(result.err) or f"exit {result.code}")

    def differentiate(self):
        """Returns the graph with the highest order of gradients that is to be compared."""
        if not self.xs:
            return "m.onnx"
        failure = self.call("grad", "grad", "m.onnx", "--as-written", f"--ys={','.join(self.ys)}", f"--xs={','.join(self.xs)}",
                            "--grad-ys=inputs", "-o", "first.isth")
        if failure:
            self.failures.append(failure)
            return "m.onnx"
        if not self.twice:
            return "first.isth"
        by = [*self.xs, *(f"seed.{n}" for n in self.ys)]
        failure = self.call("grad2", "grad", "first.isth", f"--ys={','.join(self.first)}", f"--xs={','.join(by)}",
                            "--grad-ys=inputs", "-o", "second.isth")
        if failure:
            self.failures.append(failure)
            return "first.isth"
        return "second.isth"

    def run(self, graph, precision, folder, *options):
        level = LEVELS.index(graph)
        # The files are mostly f64. Without --precision, nodes that are f32 in the file stay f32.
        options = ["--precision=f32"] * (precision == "f32") + ["--as-written"] * (level == 0) + [*options]
        failure = self.call("run", "run", graph, f"--inputs={self.write_inputs(precision, level)}", f"--outputs={folder}",
                            "--threads=1", *options)
        if failure:
            raise Stop(failure)
        with open(self.path(f"{folder}/names.json")) as file:
            return {name: np.load(self.path(f"{folder}/{f}")) for f, name in json.load(file).items()}

    def compare(self, precision, graph, stages):
        if not stages:
            return
        got = self.run(graph, precision, f"out_{precision}_{LEVELS.index(graph)}")
        for stage, wanted in stages:
            failure = self.compare_values(stage, precision, got, wanted)
            if failure and stage == "value" and failure.off > 1e-6:
                self.ask_the_reference(failure, got)
            if failure:
                self.failures.append(failure)
            elif wanted:
                self.done[stage] += 1

    def compare_values(self, stage, precision, got, wanted):
        for name, tensor in wanted.items():
            want = tensor.numpy(force=True)
            if name not in got:
                return Failure(stage, f"no output {name}; there are {', '.join(got)}")
            if got[name].shape != want.shape or (precision == "f64" and got[name].dtype != want.dtype):
                return Failure(stage, f"{name} is {got[name].dtype}{list(got[name].shape)}, not {want.dtype}{list(want.shape)}")
            off = torch_export.difference(got[name], want, SMALLEST_SCALE[precision])
            if off > TOLERANCE[precision]:
                return Failure(stage, f"{name} is off by {off:.1e}: {one_line(got[name].ravel()[:8])}, "
                                      f"not {one_line(want.ravel()[:8])}", off)

    def ask_the_reference(self, failure, got):
        """Finds with ONNX's reference implementation whether the exporter wrote another function than PyTorch's."""
        try:
            from onnx.reference import ReferenceEvaluator
            fed = {n: x.numpy(force=True) for n, x in self.fed.items() if not n.startswith("seed.")}
            found = dict(zip(self.outputs, ReferenceEvaluator(self.path("m.onnx")).run(None, fed)))
        except Exception as e:
            failure.text += f"; ONNX's reference fails by {type(e).__name__}"
            return
        torchs = {n: y.numpy(force=True) for n, y in self.values.items()}
        sides = [side for side, theirs in (("PyTorch's", torchs), ("our", got))
                 if all(same_type(y, theirs[n]) and torch_export.difference(theirs[n], y, 1e-3) < 1e-6 for n, y in found.items())]
        failure.text += f"; ONNX's reference gives {' and '.join(sides) or 'other'} values"
        if sides == ["our"]:
            raise Stop(Failure("export", f"the exporter writes another function: {failure.text}"))
        if any(got[n].shape != want.shape for n, want in torchs.items()):
            raise Stop(failure)  # gradients could not be fed

    def compare_policy(self, graph):
        plain = self.run(graph, "f64", "out_none", "--policy=none")
        less = self.run(graph, "f64", "out_memory", "--policy=memory")
        same = plain.keys() == less.keys() and all(plain[n].tobytes() == less[n].tobytes() for n in plain)
        if same:
            self.done["policy"] += 1
        else:
            self.failures.append(Failure("policy", "other bits than without a policy"))
