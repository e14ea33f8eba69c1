"""Checks an export whose module is known: which tensors are learned, and every gradient against PyTorch's."""

import matching
import numpy as np
import onnx_side
import reference
from checks import GRADIENT, SMALLEST, difference, learned_in
from learned import Learned


class Truth:
    """PyTorch's results of one module, shared by all of its exports."""

    def __init__(self, model, module, draws):
        self.model, self.module, self.draws = model, module, draws
        self.parameters = {n: matching.array(p) for n, p in module.named_parameters()}
        every = dict(module.named_parameters(remove_duplicate=False))
        self.names = {
            n: next(m for m, q in module.named_parameters() if q is p) for n, p in every.items()
        }  # the first name of each tied parameter
        self.buffers = {n for n, _ in module.named_buffers()}
        self.forms = list(matching.forms(module, draws[0][0]))
        self.norms = reference.batch_norms(module)
        self.steps = {}

    def step(self, draw, training, frozen=frozenset()):
        key = draw, training, frozen
        if key not in self.steps:
            self.steps[key] = reference.step(self.model, self.module, *self.draws[draw], training, frozen)
            again = reference.step(self.model, self.module, *self.draws[draw], training, frozen)
            assert again.loss == self.steps[key].loss, f"{self.model.name} draws numbers"
        return self.steps[key]


def norms_left_out(truth, model):
    """Returns the batch norms that the exporter folded: the file has no BatchNormalization with their averages."""
    constants = onnx_side.floats(model)
    present = [constants[n] for n in onnx_side.averages(model) if n in constants]
    return frozenset(
        n for n, m in truth.norms.items() if not any(np.array_equal(matching.array(m.running_mean), a) for a in present)
    )


def check(checker, truth, moved_path):
    """`moved_path` is the export of the same module with other parameters, which shows which tensors depend on
    parameters."""
    row = checker.row
    values = onnx_side.floats(checker.model)
    call, step = checker.run_step()
    if step is None:
        row.fail("learned", call.error(), call)
        return False
    row.notes += [n for n in call.notes() if n not in row.notes]

    matches = {}
    for name in learned_in(step):
        first = truth.names.get(name, name)
        value = values.get(name)
        if value is None and first in truth.parameters:
            value = truth.parameters[first]
        matches[name] = [] if value is None else matching.match(first, value, truth.forms, truth.parameters)
    Learned(checker, truth, step, matches, values, moved_path).ask(call)
    frozen = norms_left_out(truth, checker.model)
    checker.until_passed(lambda: gradients(checker, truth, matches, "train", frozen))
    if truth.norms:
        checker.until_passed(lambda: gradients(checker, truth, matches, "eval"))
    unmatched = [n for n, m in matches.items() if not m]
    checker.until_passed(lambda: checker.by_differences(unmatched))
    return True


def gradients(checker, truth, matches, mode, frozen=frozenset()):
    """Compares loss and gradients with PyTorch's. `frozen` are batch norms that the file no longer has."""
    row = checker.row
    more = ["--eval"] if mode == "eval" else []
    call, step = checker.run_step(*more)
    if step is None:
        row.fail("gradients", call.error(), call)
        return
    want = truth.step(checker.draw, mode == "train", frozen)
    largest = max([float(np.abs(g).max(initial=0)) for g in want.gradients.values() if g is not None], default=0)
    off = abs(float(step["loss"]) - want.loss) / max(abs(want.loss), 1e-6)
    if off > GRADIENT:
        row.fail("gradients", f"{mode}: the loss is {float(step['loss']):.6g}, PyTorch's {want.loss:.6g}", call)
    worst = 0.0
    named = {truth.names.get(n) for n in matches}
    for name, found in matches.items():
        got = step[f"grad.{name}"]
        if not found or any(want.gradients[p] is None for f in found for p in f.parameters):
            continue
        # Equal parameters that the exporter merged are one tensor in the file; those that have their own tensor are
        # checked there.
        apart = [f for f in found[1:] if not any(p in named for p in f.parameters)]
        expected = [np.asarray(f.gradient(want.gradients)) for f in found[:1] + apart]
        if any(e.size != got.size for e in expected):
            row.fail(
                "gradients", f"{mode}: 'grad.{name}' has the shape {list(got.shape)}, PyTorch's {list(expected[0].shape)}", call
            )
            continue
        expected = sum(e.reshape(got.shape) for e in expected)
        off = difference(got, expected, SMALLEST * largest)
        worst = max(worst, off)
        if off > GRADIENT and off > checker.rounding(f"grad.{name}", got, SMALLEST * largest, *more):
            ratio = float((got * expected).sum() / max(1e-30, (expected * expected).sum()))
            row.fail(
                "gradients",
                f"{mode}: 'grad.{name}' is off by {off:.2g} of its largest ({ratio:.2f} of PyTorch's by {', '.join(found[0].parameters)})",
                call,
            )
    row.figures[mode] = worst
