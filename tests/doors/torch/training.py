"""What the tests of the PyTorch door share: training steps, with and without the backend, and whether they are the same bit for bit."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import isthmus.torch

Model = torch.nn.Module
LossOf = Callable[[Model], Sequence[torch.Tensor]]
"""The losses of one step of a model."""
SLACK = 0.01
"""The share that a measured peak may have above the planned one: what PyTorch allocates for itself, such as scalars."""


@dataclass
class Trained:
    losses: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    parameters: list[torch.Tensor]
    buffers: list[torch.Tensor]
    draw: torch.Tensor
    """The next of the generator."""
    peak: int
    """Measured, of the last step."""
    first_gradients: list[torch.Tensor | None]
    """Of the first step, before a difference of one rounding has had the time to grow."""


def train(model: Model, loss_of: LossOf, steps: int = 3, compiled: Callable[[Any], Any] = lambda f: f) -> Trained:
    """`steps` of SGD of a copy of the model, and one more step to measure the peak. compiled: wraps the function that makes the losses."""
    model = copy.deepcopy(model)
    function = compiled(lambda: loss_of(model))
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    torch.manual_seed(1)
    losses: list[torch.Tensor] = []
    first_gradients: list[torch.Tensor | None] = []

    def gradients() -> list[torch.Tensor | None]:
        return [None if p.grad is None else p.grad.clone() for p in parameters]

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        made = function()
        torch.autograd.backward([loss for loss in made if loss.requires_grad])
        losses.append(torch.stack([loss.detach().double() for loss in made]))

    for _ in range(steps):
        step()
        first_gradients = first_gradients or gradients()
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    peak = isthmus.torch.measured_peak(step)
    return Trained(
        losses,
        gradients(),
        [p.detach().clone() for p in parameters],
        [b.clone() for b in model.buffers()],
        torch.rand(1),
        peak,
        first_gradients or gradients(),
    )


def with_isthmus(budget: Any, **options: Any) -> Callable[[Any], Any]:
    """For `train`: compiled whole, within a budget. What was compiled before is forgotten."""
    torch.compiler.reset()
    isthmus.torch.reset()
    return lambda f: torch.compile(f, backend=isthmus.torch.backend, fullgraph=True, options={"budget": budget, **options})


def differences(want: Trained, got: Trained) -> list[str]:
    """What is not the same, bit for bit. NaNs are the same as NaNs."""
    found = []
    for kind in ("losses", "first_gradients", "gradients", "parameters", "buffers"):
        pairs = list(zip(getattr(want, kind), getattr(got, kind), strict=True))
        found += [f"{kind.replace('_', ' ')} {k}" for k, (a, b) in enumerate(pairs) if not same(a, b)]
    return found + ([] if same(want.draw, got.draw) else ["the next draw"])


def same(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(nan=1e30), b.nan_to_num(nan=1e30))


def refusal(error: BaseException) -> isthmus.Error | None:
    """The package's own exception, which PyTorch wraps while it compiles."""
    inner = getattr(error, "inner_exception", error)
    return inner if isinstance(inner, isthmus.Error) else None
