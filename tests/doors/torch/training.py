"""Runs training steps with and without the backend for the tests of the PyTorch door, and compares their results bit by bit."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import isthmus.torch

Model = torch.nn.Module
LossOf = Callable[[Model], Sequence[torch.Tensor]]
"""A function that returns the losses of one step of a model."""
SLACK = 0.01
"""A measured peak may exceed the planned one by this share, because PyTorch allocates memory of its own, for example for scalars."""


@dataclass
class Trained:
    losses: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    parameters: list[torch.Tensor]
    buffers: list[torch.Tensor]
    draw: torch.Tensor
    """The next random number after all steps."""
    peak: int
    """The measured peak of the last step, in bytes."""
    first_gradients: list[torch.Tensor | None]
    """The gradients of the first step, in which differences of rounding have not grown yet."""


def train(model: Model, loss_of: LossOf, steps: int = 3, compiled: Callable[[Any], Any] = lambda f: f) -> Trained:
    """Trains a copy of the model with SGD for `steps`, and runs one more step to measure the peak. compiled: wraps the function of the losses."""
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


def with_isthmus(budget: Any, *, dynamic: bool | None = None, **options: Any) -> Callable[[Any], Any]:
    """Returns a wrapper for `train` that compiles the whole function within a budget. Forgets everything that was compiled before."""
    return _compiling(budget, options, fullgraph=True, dynamic=dynamic)


def in_pieces(budget: Any, dynamic: bool | None = None, **options: Any) -> Callable[[Any], Any]:
    """The same for a function that PyTorch cuts into pieces, with one budget for all of them."""
    return _compiling(budget, options, dynamic=dynamic)


def _compiling(budget: Any, options: dict[str, Any], **how: Any) -> Callable[[Any], Any]:
    torch.compiler.reset()
    isthmus.torch.reset()
    return lambda f: torch.compile(f, backend=isthmus.torch.backend, options={"budget": budget, **options}, **how)


def differences(want: Trained, got: Trained) -> list[str]:
    """Returns the names of the results whose bits differ. NaNs count as equal."""
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
    """Returns the package's own exception, which PyTorch wraps while it compiles; None for any other exception."""
    inner = getattr(error, "inner_exception", error)
    return inner if isinstance(inner, isthmus.Error) else None
