"""Trains well-known networks within budgets, and prints planned and measured peaks and the differences from training without Isthmus.

Usage: named_models.py [--models=NAME,...] [--kernels=aot_eager,inductor] [--budgets=B,...] [--losses=N] [--threads=N]
    [--dtype=float32|float64]

Each row trains a copy of the model by SGD for the given number of losses, from the same state of the random generator.
With aot_eager, losses, gradients, parameters, buffers and the next random number must equal eager's bit by bit, and the measured peak must be
within 5 % of the planned one. With inductor, the loss and gradients of the first step must equal those of stock inductor or of eager,
whichever is closer, up to a relative difference of 1e-5 or of four times the one that eager's gradients have after each parameter is moved to
the next number of its type (batch norms amplify roundings, less so with --dtype=float64). The measured peak must be within 8 % of the planned
one, after at most two replans. With both, the measured peak must not exceed the budget. A budget that cannot be met gives a row that names
the least peak; `min` is then measured in place of the remaining budgets. The program exits with 1 if a row fails. It needs the same packages
and environment as against_pytorch.py, with torchvision and transformers.
"""

import argparse
import contextlib
import copy
import os
import re
import sys
import time
from dataclasses import dataclass, field

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doors", "torch"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import against_pytorch  # noqa: E402
import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402
from networks import Counter, CustomFunction, conv  # noqa: E402
from training import differences, refusal, same, train  # noqa: E402

MIB = 1 << 20
PEAK_TOLERANCE = {"aot_eager": 0.05, "inductor": 0.08}
ROUNDING = 1e-5
ROUNDINGS = 4
MOST_REPLANS = 2
LEAST_LOSSES_OF_SEVERAL_GRAPHS = 4  # the third step compiles them by their common plan, and the compiler may hold tensors for a while


class Speech(nn.Module):
    """Convolutions, an LSTM of two layers and dense layers, after "Convolutional, Long Short-Term Memory, Fully Connected Deep Neural
    Networks" (Sainath et al., 2015)."""

    def __init__(self, bands=40, width=128, labels=50):
        super().__init__()
        self.first, self.second = conv(1, 32), conv(32, 32)
        self.narrow, self.lstm = nn.Linear(32 * (bands // 4), width), nn.LSTM(width, width, 2, batch_first=True)
        self.dense = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(2 * width, labels))

    def forward(self, x):
        x = F.max_pool2d(self.first(x), (1, 2))
        x = F.max_pool2d(self.second(x), (1, 2))
        x = self.narrow(x.permute(0, 2, 1, 3).flatten(2))
        return self.dense(self.lstm(x)[0])


def speech():
    x, y = torch.randn(8, 1, 64, 40), torch.randint(0, 50, (8, 64))
    return Speech(), lambda m: F.cross_entropy(m(x).flatten(0, 1), y.flatten())


def segmentation(name, batch, side):
    import torchvision

    model = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=21)
    x, y = torch.randn(batch, 3, side, side), torch.randint(0, 21, (batch, side, side))
    return model, lambda m: F.cross_entropy(m(x)["out"], y)


def vectors(model):
    x = torch.randn(512, 64)
    return model, lambda m: m(x).square().mean()


@dataclass(frozen=True)
class Network:
    make: object
    """Returns a model and a function from the model to its loss."""
    graphs: str = "one"
    """"one"; "several": PyTorch breaks the function into several graphs; "apart": PyTorch decomposes an LSTM, which gives one graph.
    PyTorch's kernel for a whole LSTM rounds differently, so "apart" is compared with the same kernels without a budget."""
    against: str = ""
    """"eager": inductor is compared with eager, because PyTorch's own partitioner computes wrong gradients (pytorch#197039)."""


NETWORKS = {
    "custom_function": Network(lambda: vectors(CustomFunction())),
    "mutated_buffer": Network(lambda: vectors(Counter()), against="eager"),
    "lstm": Network(speech, "several"),
    "lstm_taken_apart": Network(speech, "apart"),
    "unet": Network(against_pytorch.unet),
    "vit": Network(against_pytorch.vit),
    "lraspp_mobilenet_v3": Network(lambda: segmentation("lraspp_mobilenet_v3_large", 4, 96)),
    "densenet121": Network(against_pytorch.MODELS["densenet121"]),
    "resnet50": Network(against_pytorch.MODELS["resnet50"]),
    "deeplabv3_resnet50": Network(lambda: segmentation("deeplabv3_resnet50", 2, 64)),
    "bert": Network(against_pytorch.bert),
    "gpt2": Network(against_pytorch.gpt2),
}


@dataclass
class Row:
    name: str
    kernels: str
    budget: str
    plan: object = None
    """The report of the step if it runs several graphs, otherwise that of the graph."""
    measured: int = 0
    differs: list = field(default_factory=list)
    """The names of the results whose bits differ."""
    first_step: float = 0.0
    """The relative difference of the first step's loss or of its gradients, whichever is larger."""
    from_eager: float = 0.0
    """The same difference, from eager."""
    losses: float = 0.0
    """The largest relative difference of a loss."""
    tolerance: float = ROUNDING
    """The most that the smaller of `first_step` and `from_eager` may be."""
    refused: str = ""
    crashed: str = ""

    @property
    def limit(self):
        return self.plan.planned_peak_bytes if self.plan.budget_bytes is None else self.plan.budget_bytes

    def failures(self):
        if self.crashed or self.refused:
            return [self.crashed] if self.crashed else []
        beside = self.measured / self.plan.planned_peak_bytes
        found = []
        if self.kernels == "aot_eager" and self.differs:
            found.append("other bits")
        if self.kernels == "inductor" and (min(self.first_step, self.from_eager) > self.tolerance or "the next draw" in self.differs):
            found.append("other numbers")
        if self.measured > self.limit:
            found.append("above the budget" if self.plan.budget_bytes is not None else "above the plan")
        if abs(beside - 1) > PEAK_TOLERANCE[self.kernels]:
            found.append("off the plan")
        if self.plan.replans > MOST_REPLANS:
            found.append(f"{self.plan.replans} replans")
        return found

    def __str__(self):
        start = f"{self.name:20} {self.kernels:9} {self.budget:>5}"
        if self.crashed:
            return f"{start}  FAILS: {self.crashed}"
        if self.refused:
            return f"{start}  {self.refused}"
        plan = self.plan
        sizes = f"planned {plan.planned_peak_bytes / MIB:7.2f} MiB within {self.limit / MIB:7.2f} of {plan.baseline_peak_bytes / MIB:7.2f}"
        measured = f"measured beside the plan {self.measured / plan.planned_peak_bytes:.4f}, within it: {'yes' if self.measured <= self.limit else 'NO'}"
        bits = f"{len(self.differs)} differ ({', '.join(self.differs[:3])}{', ...' if len(self.differs) > 3 else ''})" if self.differs else "same bits"
        eager = f", from eager {self.from_eager:.1e}" if self.kernels == "inductor" else ""
        numbers = f"; first step {self.first_step:.1e}{eager}, losses {self.losses:.1e} (one rounding of parameters: {self.tolerance / ROUNDINGS:.1e})" if self.differs else ""
        replans = f"; {plan.replans} replans" if self.kernels == "inductor" else ""
        verdict = f"  FAILS: {', '.join(self.failures())}" if self.failures() else ""
        return f"{start}  {sizes}; {measured}; {bits}{numbers}{replans}{verdict}"


def relative(want, got):
    """Returns the norm of all differences over the norm of all `want`: gradients that are zero but for rounding have no relative difference."""
    pairs = [(a.double(), b.double()) for a, b in zip(want, got, strict=True) if a is not None and b is not None]
    off, size = (sum(float(t.square().sum()) for t in ts) ** 0.5 for ts in ([b - a for a, b in pairs], [a for a, _ in pairs]))
    return off / size if size else off


def after_one_rounding(model, loss_of):
    """Returns the relative difference of eager's gradients after each parameter is moved to the next number above or below."""

    def gradients(of):
        torch.manual_seed(1)
        loss_of(of).backward()
        return [p.grad for p in of.parameters()]

    moved = copy.deepcopy(model)
    with torch.no_grad():
        for p in moved.parameters():
            p.copy_(torch.nextafter(p, torch.where(torch.rand_like(p) < 0.5, float("inf"), -float("inf")).to(p.dtype)))
    return relative(gradients(copy.deepcopy(model)), gradients(moved))


def of_first_step(want, got):
    """Returns the relative difference of the first step's loss or of its gradients, whichever is larger."""
    if any((a is None) != (b is None) for a, b in zip(want.first_gradients, got.first_gradients, strict=True)):
        return float("inf")
    return max(relative(want.losses[:1], got.losses[:1]), relative(want.first_gradients, got.first_gradients))


def compare(row, want, eager, got):
    row.measured, row.differs = got.peak, differences(want, got)
    row.first_step, row.from_eager = of_first_step(want, got), of_first_step(eager, got)
    row.losses = max(0.0 if same(a, b) else relative([a], [b]) for a, b in zip(want.losses, got.losses, strict=True))
    if not all(bool(t.isfinite().all()) for t in (*got.losses, *got.parameters)):
        row.differs.append("numbers that are not finite")


def without_isthmus(network, kernels):
    """Returns the wrapper for the training that a row is compared with: eager, or the same kernels with PyTorch's own partitioner."""
    if network.against == "eager" or kernels == "aot_eager" and network.graphs != "apart":
        return lambda f: f
    return lambda f: torch.compile(f, backend=kernels, fullgraph=network.graphs != "several")


def within(budget, network, kernels):
    """Returns the wrapper that compiles within a budget."""
    options = {"budget": budget, "kernels": kernels}
    return lambda f: torch.compile(f, backend=isthmus.torch.backend, fullgraph=network.graphs != "several", options=options)


def trained(network, model, loss_of, losses, compiled):
    torch.compiler.reset()
    isthmus.torch.reset()
    apart = torch._dynamo.config.patch(allow_rnn=True) if network.graphs == "apart" else contextlib.nullcontext()
    with apart:
        return train(model, lambda m: [loss_of(m)], steps=losses - 1, compiled=compiled)


def measured(row, model, loss_of, want, eager, losses):
    network = NETWORKS[row.name]
    try:
        got = trained(network, model, loss_of, losses, within(row.budget, network, row.kernels))
    except Exception as error:  # the other rows must be measured too
        if isinstance(refusal(error), isthmus.CannotBeMet):
            least = re.search(r"the least peak.*?\((.*?)\)[^;]*", str(refusal(error)))
            row.refused = f"cannot be met: {least.group(0) if least else refusal(error)}"
        else:
            row.crashed = f"{type(getattr(error, 'inner_exception', error)).__name__}: {str(error).strip().splitlines()[0][:200]}"
        return row
    found = isthmus.torch.report()
    row.plan = found.steps[-1] if found.steps else max(found.graphs, key=lambda g: g.planned_peak_bytes)
    if network.graphs == "several" and not found.steps:
        row.crashed = "the step has no plan of its own"
    compare(row, want, eager, got)
    return row


def rows_of(name, kernels, options):
    torch.manual_seed(0)
    network = NETWORKS[name]
    model, loss_of = network.make()
    losses = max(options.losses, LEAST_LOSSES_OF_SEVERAL_GRAPHS) if network.graphs == "several" else options.losses
    progress(f"{name}: {losses} losses without Isthmus, {kernels}")
    want = trained(network, model, loss_of, losses, without_isthmus(network, kernels))
    eager = trained(network, model, loss_of, 1, lambda f: f)
    tolerance = max(ROUNDING, ROUNDINGS * after_one_rounding(model, loss_of))
    left = options.budgets.split(",")
    while left:
        budget = left.pop(0)
        progress(f"{name}: {kernels} within {budget}")
        row = measured(Row(name, kernels, budget, tolerance=tolerance), model, loss_of, want, eager, losses)
        yield row
        if row.refused and budget != "min":
            left = ["min"]  # smaller budgets cannot be met either


def progress(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(NETWORKS))
    parser.add_argument("--kernels", default="aot_eager,inductor")
    parser.add_argument("--budgets", default="70%,50%,30%", help="in falling order")
    parser.add_argument("--losses", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    options = parser.parse_args()
    torch.set_default_dtype(getattr(torch, options.dtype))
    torch.set_num_threads(options.threads)
    rows = []
    for kernels in options.kernels.split(","):
        for name in options.models.split(","):
            for row in rows_of(name, kernels, options):
                rows.append(row)
                print(row, flush=True)
    print("\n| model | kernels | budget | planned | measured beside it | |\n| --- | --- | --- | --- | --- | --- |")
    for row in rows:
        start = f"| {row.name} | {row.kernels} | {row.budget} |"
        if row.crashed or row.refused:
            print(f"{start} | | {row.crashed or row.refused} |")
            continue
        result = ", ".join(row.failures()) or ("same bits" if not row.differs else f"equal to {min(row.first_step, row.from_eager):.0e}, one rounding {row.tolerance / ROUNDINGS:.0e}")
        print(f"{start} {row.plan.planned_peak_bytes / MIB:.1f} MiB | {row.measured / row.plan.planned_peak_bytes:.3f} | {result} |")
    failed = sum(bool(row.failures()) for row in rows)
    print(f"{len(rows)} rows, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
