"""The five checks of each file, which fill a row of the table."""

import shutil
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_side
import program
from onnx_side import floats

FORWARD = 1e-4  # limits of errors, as shares of a tensor's largest magnitude
GRADIENT = 2e-3
MOST_BY_DIFFERENCES = 10  # gradients of a file that are compared with differences, with eight runs each
DIFFERENCES = 3e-2  # the limit of errors of gradients against differences of a loss in f32
ROUNDING = 10  # the limit is so many times the difference between the program's own f32 and f64 results
SMALL_OUTPUT = 2e-3  # ONNX Runtime's functions have errors of 1e-7 of one, even if their results are small
SMALLEST = 1e-3  # a gradient below this share of the largest one is mostly rounding


@dataclass
class Case:
    """One file, with the inputs that it is fed and the options to train it."""

    name: str
    export: str
    path: str
    draws: list  # (inputs, the input that the loss adds), each as {name: array}
    loss: list  # the options that make it a training step
    dims: list = field(default_factory=list)
    needs_inputs: bool = False  # whether sizes, or values that decide them, come from the inputs


@dataclass
class Row:
    name: str
    export: str
    figures: dict = field(default_factory=dict)
    failures: list = field(default_factory=list)  # (check, message, command)
    notes: list = field(default_factory=list)
    outcome: str = ""  # the reason why no check was made

    def fail(self, question, text, call=None):
        self.failures.append((question, text, call.line if call else ""))


def difference(got, want, scale=0.0):
    """Returns the error as a share of the largest magnitude of `want`, or of `scale` if that is larger."""
    if got.shape != want.shape:
        return float("inf")
    if want.dtype.kind not in "f":
        return 0.0 if np.array_equal(got, want) else float("inf")
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    if not (np.array_equal(finite, np.isfinite(got)) and np.array_equal(got[~finite], want[~finite], equal_nan=True)):
        return float("inf")
    if not finite.any():
        return 0.0
    return float(np.abs(got[finite] - want[finite]).max() / max(scale, np.abs(want[finite]).max(), 1e-30))


DRAWS = 3  # of inputs: if an activation falls on a kink, rounding decides between two gradients


class Checker:
    """`draws` are the inputs that the file is fed, as (inputs, goal). Further draws are for checks that fail with the
    first."""

    def __init__(self, case, binary, folder):
        self.case = case
        shutil.rmtree(folder, ignore_errors=True)
        self.program = program.Program(binary, folder)
        self.row = Row(case.name, case.export)
        self.model = onnx.load(case.path)
        self.options = [f"--dim={d}" for d in case.dims]
        self.row.figures["nodes"] = len(self.model.graph.node)
        self.steps = {}
        self.use(0)

    def use(self, draw):
        self.draw, (self.inputs, self.goal) = draw, self.case.draws[draw]
        self.forward_feed = self.program.write_inputs(f"inputs{draw}", self.inputs)
        self.feed = self.program.write_inputs(f"training{draw}", {**self.inputs, **self.goal})

    def until_passed(self, ask):
        """Makes a check with one draw after the other until it passes; if it never does, the failures of the first draw
        count."""
        before = len(self.row.failures)
        first = None
        for draw in range(len(self.case.draws)):
            self.use(draw)
            ask()
            found = self.row.failures[before:]
            del self.row.failures[before:]
            if not found:
                first = []
                if draw:
                    self.row.figures["draws"] = max(draw + 1, self.row.figures.get("draws", 1))
                break
            first = first or found
        self.row.failures += first
        self.use(0)

    def run_step(self, *more):
        """Returns (call, outputs) of a training step of the file."""
        key = self.draw, more
        if key not in self.steps:
            folder = self.program.path("-".join(["step", str(self.draw), *(m.strip("-") for m in more)]))
            call = self.program.call(
                "run",
                self.case.path,
                *self.options,
                *self.case.loss,
                *more,
                self.feed,
                f"--outputs={folder}",
                f"--report={folder}.json",
            )
            self.steps[key] = call, program.outputs(folder) if call.code == 0 else None
        return self.steps[key]

    def rounding(self, name, got, scale=0.0, *more):
        """Returns how much rounding may change a result, from the same step in f64. A result that is wrong in both is
        not excused."""
        _, wide = self.run_step(*more, "--precision=f64")
        return ROUNDING * difference(got, wide[name], scale) if wide and name in wide else 0.0

    # (a)
    def forward(self):
        """Compares the results with ONNX Runtime's, without a loss. Returns False if further checks are useless."""
        folder = self.program.path("forward")
        call = self.program.call("run", self.case.path, *self.options, self.forward_feed, f"--outputs={folder}")
        if call.code != 0:
            refusal = onnx_side.refusal(self.case.path)
            if refusal:
                self.row.outcome = f"skipped: ONNX Runtime refuses it too: {refusal[:120]}"
            else:
                self.row.fail("forward", call.error(), call)
            return False
        got = program.outputs(folder)
        try:
            self.session = onnx_side.session(self.case.path)
            want = onnx_side.run(self.session, self.inputs)
        except Exception as error:  # the file or ONNX Runtime is at fault, so nothing is compared
            self.row.notes.append(f"ONNX Runtime does not run it: {str(error)[:200]}")
            self.session = None
            return True
        worst = 0.0
        for name, value in want.items():
            if name not in got:
                self.row.fail("forward", f"there is no output '{name}'", call)
                continue
            off = difference(got[name], np.asarray(value), SMALL_OUTPUT)
            worst = max(worst, off)
            if off > FORWARD and off > self.forward_rounding(name, got[name]):
                self.row.fail("forward", f"'{name}' is off by {off:.2g} of its largest", call)
        self.row.figures["forward"] = worst
        return True

    def forward_rounding(self, name, got):
        folder = self.program.path("forward-f64")
        call = self.program.call(
            "run", self.case.path, *self.options, self.forward_feed, "--precision=f64", f"--outputs={folder}"
        )
        return ROUNDING * difference(got, program.outputs(folder)[name]) if call.code == 0 else 0.0

    # (d)
    def plans(self):
        for question, wanted in (("memory", ["--policy=memory"]), ("budget", ["--budget=50%"])):
            call, made = self.optimised(question, wanted, "isth")
            if call.code == 3 and question == "budget":
                call, made = self.optimised(question, ["--budget=min"], "isth")
            if call.code != 0:
                self.row.fail(question, call.error(), call)
                continue
            planned = program.report(made + ".json")
            verify = self.program.call("verify", self.case.path, made, *self.options, *self.case.loss, *self.needed())
            if verify.code != 0:
                self.row.fail(question, "verify: " + verify.error(), verify)
            ran = self.program.call("run", made, self.feed, f"--report={made}.run.json")
            if ran.code != 0:
                self.row.fail(question, "run: " + ran.error(), ran)
                continue
            found = program.report(made + ".run.json")
            if not found["measured_peak_bytes"] == found["predicted_peak_bytes"] == planned["predicted_peak_bytes"]:
                self.row.fail(
                    question,
                    f"planned {planned['predicted_peak_bytes']}, predicted {found['predicted_peak_bytes']}, measured {found['measured_peak_bytes']} bytes",
                    ran,
                )
            self.row.figures[question] = found["measured_peak_bytes"] / max(1, planned["baseline_peak_bytes"])
            if planned["predicted_peak_bytes"] > planned["baseline_peak_bytes"]:
                self.row.fail(
                    question,
                    f"{planned['predicted_peak_bytes']} bytes, more than the {planned['baseline_peak_bytes']} without a plan",
                    call,
                )
            if (
                question == "memory"
                and planned["predicted_peak_bytes"] >= planned["baseline_peak_bytes"]
                and planned["recompute_overhead"] > 0
            ):
                self.row.fail(question, f"saves nothing and costs {planned['recompute_overhead']:.0%}", call)

    def needed(self):
        return [self.feed] if self.case.needs_inputs else []

    def optimised(self, name, wanted, form):
        path = self.program.path(f"{name}.{form}")
        return (
            self.program.call(
                "opt",
                self.case.path,
                *self.options,
                *self.case.loss,
                *wanted,
                *self.needed(),
                "-o",
                path,
                f"--report={path}.json",
            ),
            path,
        )

    # (e)
    def written(self):
        """Runs the rewritten graph as ONNX in ONNX Runtime, and compares it with our step of the file."""
        call, path = self.optimised("rewritten", ["--policy=memory", "--keep-outputs"], "onnx")
        if call.code != 0:
            self.row.fail("onnx", call.error(), call)
            return
        self.until_passed(lambda: self.run_written(call, path))

    def run_written(self, call, path):
        _, step = self.run_step()
        try:
            # Its optimiser rounds differently, and this check is about the file.
            got = onnx_side.run(onnx_side.session(path, optimize=False), {**self.inputs, **self.goal})
        except Exception as error:
            self.row.fail("onnx", f"ONNX Runtime refuses it: {str(error)[:300]}", call)
            return
        largest = largest_gradient(step)
        worst = 0.0
        for name, value in got.items():
            if name in step and not np.isnan(step[name]).any():
                scale = SMALLEST * largest if name.startswith("grad.") else 0
                off = difference(np.asarray(value), step[name], scale)
                worst = max(worst, off)
                if off > GRADIENT and off > self.rounding(name, step[name], scale):
                    self.row.fail("onnx", f"'{name}' is off by {off:.2g} by ONNX Runtime", call)
        missing = [n for n in step if n not in got]
        if missing:
            self.row.fail("onnx", f"lacks the outputs {missing[:5]}", call)
        self.row.figures["onnx"] = worst

    # (b), (c)
    def by_differences(self, names):
        """Compares gradients by constants of the file with differences of the loss of ONNX Runtime's outputs, in
        evaluation."""
        call, step = self.run_step("--eval")
        if step is None:
            self.row.fail("gradients", call.error(), call)
            return
        values = floats(self.model)
        names = [n for n in names if n in values]
        names = names[:: -(-len(names) // MOST_BY_DIFFERENCES)] if names else []
        if not names or not self.session:
            return
        session = onnx_side.session(onnx_side.with_open(self.model, names))
        feed = {**self.inputs, **{n: values[n] for n in names}}
        worst = 0.0
        for name in names:
            gradient = step[f"grad.{name}"].astype(np.float64)
            size = np.sqrt((gradient**2).sum())
            if size < 1e-12:
                size, direction = 0.0, np.random.default_rng(0).standard_normal(gradient.shape)
                direction /= np.sqrt((direction**2).sum())
            else:
                direction = gradient / size
            off = np.inf
            # Too small steps are lost in rounding, and too large ones leave the tangent; the best step differs by model.
            for h in (
                1e-4,
                1e-3,
                1e-2,
                1e-5,
            ):
                off = min(off, self.slope_error(session, feed, name, direction, size, h))
                if off < DIFFERENCES / 3:
                    break
            worst = max(worst, off)
            if off > DIFFERENCES:
                self.row.fail("gradients", f"'grad.{name}' is off by {off:.2g}, by differences of the loss", call)
        self.row.figures["differences"] = worst

    def slope_error(self, session, feed, name, direction, slope, h):
        value = feed[name]
        h *= max(1e-2, float(np.sqrt((value.astype(np.float64) ** 2).sum())))
        at = [
            self.loss_of(onnx_side.run(session, {**feed, name: (value + s * h * direction).astype(value.dtype)}))
            for s in (-2, -1, 1, 2)
        ]
        found = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h)
        noise = 3e-7 * abs(at[1]) / h  # the resolution of f32
        return max(0.0, abs(found - slope) - 3 * noise) / max(abs(slope), abs(found), 1e-6)

    def loss_of(self, outputs):
        first = np.asarray(next(iter(outputs.values()))).astype(np.float64)
        if "target" in self.goal:
            return float(((first - self.goal["target"]) ** 2).mean())
        axis = next((int(o.split("=")[1]) for o in self.case.loss if o.startswith("--class-axis=")), 1)
        first = np.moveaxis(first, axis, -1)
        top = first.max(-1, keepdims=True)
        logs = first - top - np.log(np.exp(first - top).sum(-1, keepdims=True))
        return float(-np.take_along_axis(logs, self.goal["labels"][..., None], -1).mean())


def largest_gradient(step):
    return max([float(np.abs(v).max(initial=0)) for n, v in step.items() if n.startswith("grad.")], default=0.0)


def learned_in(step):
    return [n.removeprefix("grad.") for n in step if n.startswith("grad.")]
