"""Peak and time of a training step within a budget, beside PyTorch's own ways: plain, `torch.utils.checkpoint` of every block, and
`activation_memory_budget` at several shares. Isthmus is given the very bytes that each of these took, and must need less time.

Usage: against_pytorch.py [--models=NAME,...] [--kernels=aot_eager|inductor] [--rounds=N] [--threads=N]

Times are medians of rounds in which all take turns, as ratios to the plain step (aot_eager) or to inductor's own (inductor). Needs
PyTorch and the package: PYTHONPATH=tools/python ISTHMUS_LIBRARY=bazel-bin/tools/c/libisthmus.so.
"""

import argparse
import copy
import itertools
import statistics
import time
import types

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import isthmus
import isthmus.torch

SHARES = (0.75, 0.5, 0.25, 0.0)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2, self.mlp = nn.LayerNorm(width), nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Blocks(nn.Module):
    """Something, blocks one behind the other, something."""

    def __init__(self, first, blocks, last):
        super().__init__()
        self.first, self.blocks, self.last = first, nn.ModuleList(blocks), last

    def forward(self, x, saves=False):
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if saves else block(x)
        return self.last(x)


def conv(before, after):
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(conv(width, width), nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return F.relu(x + self.net(x))


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, 10)

    def forward(self, x):
        return self.out(x.mean((2, 3)))


def transformer():
    model = Blocks(nn.Embedding(1000, 192), [Block(192, 6) for _ in range(8)], nn.Linear(192, 1000))
    x, y = torch.randint(0, 1000, (8, 128)), torch.randint(0, 1000, (8 * 128,))
    return model, lambda m, **o: F.cross_entropy(m(x, **o).flatten(0, 1), y)


def resnet():
    model = Blocks(conv(3, 32), [Residual(32) for _ in range(8)], Head(32))
    x, y = torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,))
    return model, lambda m, **o: F.cross_entropy(m(x, **o), y)


def mlp():
    """The blocks of pytorch#197838, in which smaller shares came to larger peaks."""
    model = Blocks(nn.Identity(), [nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256), nn.LayerNorm(256)) for _ in range(6)], nn.Identity())
    x = torch.randn(2048, 256)
    return model, lambda m, **o: m(x, **o).square().mean()


MODELS = {"mlp": mlp, "resnet": resnet, "transformer": transformer}


def own_code(function):
    """PyTorch keeps what it compiles by code object: each way has one, so that none is compiled again in the settings of another."""
    code = function.__code__.replace(co_firstlineno=next(own_code.lines))
    return types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)


own_code.lines = itertools.count(1)


class Way:
    """One way to run the step; `run` takes it."""

    def __init__(self, name, model, loss_of, **options):
        self.name, self.model, self.times = name, copy.deepcopy(model), []
        self.loss = own_code(lambda: loss_of(self.model, **options))

    def compiled(self, **how):
        self.loss = torch.compile(self.loss, fullgraph=True, **how)
        self.run()
        return self

    def run(self):
        self.model.zero_grad()
        self.loss().backward()

    def measure(self):
        self.run()
        self.model.zero_grad()
        self.peak = isthmus.torch.measured_peak(self.run)
        return self

    def timed(self):
        start = time.perf_counter()
        self.run()
        self.times.append(time.perf_counter() - start)


def pytorchs(model, loss_of, kernels):
    yield Way("plain", model, loss_of).measure()
    yield Way("checkpoint of every block", model, loss_of, saves=True).measure()
    for share in (1.0, *SHARES):
        with torch._functorch.config.patch(activation_memory_budget=share):
            yield Way(f"activation_memory_budget {share}", model, loss_of).compiled(backend=kernels).measure()


def ours(model, loss_of, kernels, budget):
    try:
        way = Way(f"isthmus, {budget / 2**20:.1f} MiB", model, loss_of)
        return way.compiled(backend="isthmus", options={"budget": budget, "kernels": kernels}).measure()
    except Exception as e:
        if isinstance(getattr(e, "inner_exception", e), isthmus.CannotBeMet):
            return None
        raise


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--kernels", default="aot_eager", choices=("aot_eager", "inductor"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.models.split(","):
        torch.manual_seed(0)
        torch._dynamo.reset()
        model, loss_of = MODELS[name]()
        theirs = list(pytorchs(model, loss_of, options.kernels))
        pairs = [(way, ours(model, loss_of, options.kernels, way.peak)) for way in theirs]
        least = Way("isthmus, min", model, loss_of).compiled(backend="isthmus", options={"budget": "min", "kernels": options.kernels}).measure()
        ways = [w for pair in pairs for w in pair if w] + [least]
        for _ in range(options.rounds):
            for way in ways:
                way.timed()
        base = next(w for w in theirs if w.name == ("plain" if options.kernels == "aot_eager" else "activation_memory_budget 1.0"))

        def row(way):
            ratios = [a / b for a, b in zip(way.times, base.times)]
            return f"{way.peak / 2**20:7.1f} MiB  {statistics.median(ratios):.3f} ({min(ratios):.2f} to {max(ratios):.2f})"

        print(f"{name}, {options.kernels}: time beside '{base.name}', {1000 * statistics.median(base.times):.0f} ms")
        for way, mine in pairs:
            print(f"  {way.name:32} {row(way)}   isthmus within that: {row(mine) if mine else 'cannot be met'}")
        print(f"  {least.name:32} {row(least)}", flush=True)


if __name__ == "__main__":
    main()
