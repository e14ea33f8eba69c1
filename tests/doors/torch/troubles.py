"""Programs that went wrong in PyTorch's own partitioner. tests/bench/doors/known_troubles.py runs them with it and with Isthmus.

Each program is a model whose forward returns the losses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Body(nn.Module):
    """A function of parameters and buffers, which returns one loss or several."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self):
        losses = self.function(self)
        return losses if isinstance(losses, (list, tuple)) else [losses]


def linears(count, width):
    torch.manual_seed(0)
    return nn.ModuleList([nn.Linear(width, width) for _ in range(count)])


def dropout() -> Body:
    def function(self):
        h = self.x
        for layer in self.layers:
            h = h + F.dropout(F.gelu(layer(h)), 0.3)
        return F.dropout(h, 0.1).square().mean()

    return Body(function, layers=linears(6, 64), x=torch.randn(256, 64))


def blocks_of_an_mlp() -> Body:
    def function(self):
        h = self.x
        for norm, up, down in zip(self.norms, self.up, self.down):
            h = h + down(F.gelu(up(norm(h))))
        return h.square().mean()

    torch.manual_seed(0)
    width, inner, blocks = 64, 256, 6
    return Body(
        function,
        norms=nn.ModuleList([nn.LayerNorm(width) for _ in range(blocks)]),
        up=nn.ModuleList([nn.Linear(width, inner) for _ in range(blocks)]),
        down=nn.ModuleList([nn.Linear(inner, width) for _ in range(blocks)]),
        x=torch.randn(1024, width),
    )


def buffer_that_changes() -> Body:
    """In `y = sin(k * b) * x; b.add_(1)` PyTorch's backward recomputes the sine of the new b."""

    def function(self):
        y = torch.sin(self.b * 1.5) * self.p
        loss = (y * y.cos()).sum()
        self.b.add_(1)
        return loss

    torch.manual_seed(0)
    return Body(function, b=torch.ones(1000), p=nn.Parameter(torch.randn(1000)))


def views_of_a_buffer_that_changes() -> Body:
    def function(self):
        h = self.x
        for layer in self.layers:
            h = layer(h) * torch.exp(self.b.view(8, 8).t().reshape(64) * 0.1)
        self.b.mul_(0.9).add_(h.detach().mean(0))
        return h.square().mean()

    torch.manual_seed(0)
    return Body(function, layers=linears(4, 64), b=torch.ones(64), x=torch.randn(128, 64))


def blocks_that_run_twice() -> Body:
    def function(self):
        h = self.x
        for _ in range(2):
            for layer in self.layers:
                h = h + F.dropout(torch.tanh(layer(h)), 0.1)
        return h.square().mean()

    torch.manual_seed(0)
    return Body(function, layers=linears(4, 64), x=torch.randn(256, 64))


def checkpointed_blocks() -> Body:
    def block(layer, h):
        return F.dropout(torch.sin(layer(h)), 0.1).tanh()

    def function(self):
        h = self.x
        for layer in self.layers:
            h = h + checkpoint(block, layer, h, use_reentrant=False)
        return h.square().mean()

    torch.manual_seed(0)
    return Body(function, layers=linears(4, 64), x=torch.randn(256, 64))


def autocast() -> Body:
    def function(self):
        h = self.x
        with torch.autocast("cpu", torch.bfloat16):
            for layer in self.layers:
                h = h + F.gelu(layer(F.layer_norm(h, (64,))))
        return h.float().square().mean()

    torch.manual_seed(0)
    return Body(function, layers=linears(5, 64), x=torch.randn(256, 64))


@dataclass(frozen=True)
class Trouble:
    threads: str
    """The numbers of its issues in PyTorch's tracker."""
    make: Callable[[], Body]
    shares: tuple[float, ...]
    """The values of `activation_memory_budget`."""
    budgets: tuple[str, ...]
    """The budgets for Isthmus."""


TROUBLES = (
    Trouble("pytorch#190758, #190717", dropout, (1.0, 0.5, 0.0), ("100%", "80%", "60%", "min")),
    Trouble("pytorch#197838", blocks_of_an_mlp, (1.0, 0.5, 0.3, 0.2, 0.15, 0.1, 0.05, 0.0), ("100%", "70%", "50%", "40%", "min")),
    Trouble("pytorch#197039", buffer_that_changes, (1.0, 0.0), ("100%", "min")),
    Trouble("pytorch#185497, #174124", views_of_a_buffer_that_changes, (1.0, 0.0), ("100%", "75%", "min")),
    Trouble("pytorch#193193", blocks_that_run_twice, (1.0, 0.5, 0.0), ("100%", "60%", "min")),
    Trouble("pytorch#120381, #182420", checkpointed_blocks, (1.0, 0.0), ("100%", "80%", "min")),
    Trouble("pytorch#141896", autocast, (1.0, 0.5, 0.0), ("100%", "60%", "min")),
)
