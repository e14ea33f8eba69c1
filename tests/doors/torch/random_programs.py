"""Makes random training programs from a seed: what is compiled, what the tracer meets, and what happens between the steps.

The models are those of random_models.py. A program may compile the loss, the model or its layers, break graphs, call checkpoints, read numbers
from tensors, run under autocast for some steps only, evaluate, accumulate, drop forwards, and step its optimizer in the backward.
"""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from random_models import RandomModel

Compile = Callable[[Any], Any]
COMPILED = ("loss", "model", "module", "layers", "step", "model and loss")
LAST_STEPS = 5
"""So many steps at the end are alike, so that each of them is measured and planned."""


class Model(nn.Module):
    """A random model with what breaks its graph."""

    def __init__(self, seed: int, r: random.Random) -> None:
        super().__init__()
        self.inner = RandomModel(seed, r.choice([4, 6, 8]))
        depth = len(self.inner.layers)
        self.breaks = set(r.sample(range(depth), r.choice([0, 0, 1, 2])))
        self.checkpoints = set(r.sample(range(depth), r.choice([0, 0, 1, 2])))
        self.reads_a_number = r.random() < 0.2

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Returns the results, and the losses of some layers."""
        inner = self.inner
        h, seen, losses = inner.start(x), [], []
        for k, layer in enumerate(inner.layers):
            h = checkpoint(layer, h, use_reentrant=False) if k in self.checkpoints else layer(h)
            h = h + seen[inner.skips[k]] if k in inner.skips else h
            seen.append(h)
            if k in self.breaks:
                torch._dynamo.graph_break()
            if k in inner.losses:
                losses.append(0.1 * h.float().square().mean())
            h = h.clone() if inner._written_by_next(k) else h
        if self.reads_a_number:
            h = h * min(1.0, h.detach().float().abs().mean().item())
        return inner.head(h if inner.of_tokens else h.mean((2, 3))), losses


def loss_of(results: tuple[torch.Tensor, list[torch.Tensor]], y: torch.Tensor) -> torch.Tensor:
    out, losses = results
    return sum(losses, F.cross_entropy(out.flatten(0, -2).float(), y.flatten()))


@dataclass
class Events:
    """What is special in a step."""

    batch: int = 0
    """Examples; 0: all."""
    backwards: int = 1
    two_forwards: bool = False
    drops_forward: bool = False
    evaluates: bool = False
    keeps_gradients: bool = False
    casts: bool = False

    @classmethod
    def drawn(cls, r: random.Random) -> Events:
        return cls(
            r.choice([0, 0, 0, 1, 3]),
            r.choice([1, 1, 1, 2, 3]),
            r.random() < 0.1,
            r.random() < 0.1,
            r.random() < 0.1,
            r.random() < 0.1,
            r.random() < 0.15,
        )


class Program:
    def __init__(self, seed: int) -> None:
        r = random.Random(seed)
        self.compiled = r.choice(COMPILED)
        self.model = Model(seed, r)
        self.steps = [Events.drawn(r) for _ in range(r.randint(2, 4))] + [Events()] * LAST_STEPS
        self.steps_in_backward = r.random() < 0.3
        self.dynamic = r.choice([None, None, False, True])

    def __str__(self) -> str:
        model = self.model
        return (
            f"compiles {self.compiled}, dynamic {self.dynamic}, layers {model.inner.names}, breaks {model.breaks}, checkpoints {model.checkpoints}, "
            f"reads {model.reads_a_number}, steps in backward {self.steps_in_backward}, {self.steps[:-LAST_STEPS]}"
        )

    @property
    def rounds(self) -> bool:
        """True: some steps run in bf16, which PyTorch's tracer rounds otherwise than the plain program does."""
        return any(e.casts for e in self.steps)

    def run(self, compile: Compile = lambda f: f) -> list[torch.Tensor | None]:
        """Runs a copy of the model. Returns losses, gradients, parameters, buffers and the next random number. compile: wraps a function or a module."""
        model = copy.deepcopy(self.model)
        parameters = list(model.parameters())
        found: list[torch.Tensor | None] = []
        if self.steps_in_backward:
            optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in parameters}
            for p in parameters:
                p.register_post_accumulate_grad_hook(lambda p: (optimizers[p].step(), optimizers[p].zero_grad()) and None)
        optimizer = torch.optim.SGD(parameters, lr=0.0 if self.steps_in_backward else 0.01)
        step = self._step(model, compile)
        torch.manual_seed(1)
        for events in self.steps:
            if not events.keeps_gradients:
                optimizer.zero_grad()
            if events.evaluates:
                with torch.inference_mode():
                    found.append(model(self.model.inner.x)[0].detach().double())
            found += step(events)
            found += [None if p.grad is None else p.grad.clone() for p in parameters]
            optimizer.step()
        found += [p.detach().clone() for p in parameters] + [b.clone() for b in model.buffers()] + [torch.rand(1)]
        return found

    def _step(self, model: Model, compile: Compile) -> Callable[[Events], list[torch.Tensor]]:
        """Returns the function of a step, which returns the losses."""

        def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return called_loss(called(x), y)

        def backward(x: torch.Tensor, y: torch.Tensor, twice: bool) -> torch.Tensor:
            found = (called_of_both(x, y) + called_of_both(x, y)) if twice else called_of_both(x, y)
            found.backward()
            return found.detach().clone()

        called, called_loss, called_of_both, called_backward = model, loss_of, loss, backward
        if self.compiled == "loss":
            called_of_both = compile(loss)
        elif self.compiled == "model":
            called = compile(lambda x: model(x))
        elif self.compiled == "module":
            called = compile(model)
        elif self.compiled == "layers":
            for k, layer in enumerate(model.inner.layers):
                model.inner.layers[k] = compile(layer)
        elif self.compiled == "step":
            called_backward = compile(backward)
        else:
            called, called_loss = compile(model), compile(loss_of)

        def step(events: Events) -> list[torch.Tensor]:
            inner = self.model.inner
            x, y = inner.x[: events.batch or None], inner.y[: events.batch or None]
            with torch.autocast("cpu", torch.bfloat16) if events.casts else contextlib.nullcontext():
                if events.drops_forward:
                    loss(x, y)
                return [called_backward(x, y, events.two_forwards) for _ in range(events.backwards)]

        return step


@contextlib.contextmanager
def wide_limits() -> Iterator[None]:
    """Lets PyTorch compile a function for each of several sizes and modes."""
    with torch._dynamo.config.patch(recompile_limit=32):
        yield
