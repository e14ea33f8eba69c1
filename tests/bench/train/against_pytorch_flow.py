"""Compares peak and time of a training step of Glow with PyTorch's.

PyTorch runs it plain, with `torch.utils.checkpoint` of every step of the flow, and with a block written by hand that keeps only its
result and inverts it in the backward pass, as MemCNN, FrEIA and the Reformer do. Isthmus gets exactly the bytes that each of these
took as its budget, and at last the least that it finds.

Usage: against_pytorch_flow.py [--isthmus=bazel-bin/tools/isthmus] [--depth=16] [--width=64] [--batch=32] [--shape=3x32x32]
                               [--rounds=5] [--steps=5] [--effort=2]

A step is the loss and the gradients of all parameters, in f32, on one thread. Both peaks leave out parameters and the examples, and
count gradients. PyTorch's peaks are what its CPU allocator hands out (`isthmus.torch.measured_peak`), without what oneDNN allocates
within a convolution; those of Isthmus include such workspaces, and the arena's gaps. Times are processor seconds of a step, as medians
of rounds in which all alternate; those of Isthmus come from two runs of different lengths, so that the start is left out.

Needs PyTorch and the package: PYTHONPATH=tools/python ISTHMUS_LIBRARY=bazel-bin/tools/c/libisthmus.so.
"""

import argparse
import json
import math
import os
import re
import resource
import statistics
import struct
import subprocess
import tempfile
import time
from typing import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from isthmus.torch import measured_peak

Parameters = dict[str, Tensor]
CONVOLUTIONS = [f"coupling.net.conv{i}.{part}" for i in (1, 2, 3) for part in ("weight", "bias")]
PARTS = ("actnorm.bias", "actnorm.log_scale", "mix.weight", *CONVOLUTIONS)

# --- The flow


def conv(p: Parameters, x: Tensor, name: str) -> Tensor:
    w = p[f"{name}.weight"]
    return F.conv2d(x, w, p[f"{name}.bias"], padding=w.shape[-1] // 2)


class Step:
    """A step of the flow: actnorm, an invertible 1x1 convolution, an affine coupling. Steps are numbered from 1."""

    def __init__(self, parameters: Parameters, number: int, couplings: int) -> None:
        self.p = {part: parameters[f"level1.step{number}.{part}"] for part in PARTS}
        self.range = min(1, 16 / couplings)

    def mixed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the result of the first two layers, and what they add to an example's log-determinant."""
        log_scale, w = self.p["actnorm.log_scale"], self.p["mix.weight"]
        x = F.conv2d((x + self.p["actnorm.bias"]) * log_scale.exp(), w[:, :, None, None])
        return x, (log_scale.sum() + torch.linalg.slogdet(w)[1]) * x[0, 0].numel()

    def moved_by(self, stays: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.relu(conv(self.p, stays, "coupling.net.conv1"))
        shift, raw = conv(self.p, torch.relu(conv(self.p, h, "coupling.net.conv2")), "coupling.net.conv3").chunk(2, 1)
        return shift, torch.tanh(raw) * self.range

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the result, and the log-determinant of an example, averaged over the batch."""
        x, of_weights = self.mixed(x)
        stays, moves = x.chunk(2, 1)
        shift, log_scale = self.moved_by(stays)
        return torch.cat([stays, moves * log_scale.exp() + shift], 1), of_weights + log_scale.sum() / len(x)

    def back(self, y: Tensor, dy: Tensor, dlogdet: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Returns the operand, its gradient and those of the parameters, from the result. The coupling's network runs
        once for all."""
        stays, moved = y.chunk(2, 1)
        parameters = list(self.p.values())
        with torch.enable_grad():
            stays = stays.detach().requires_grad_()
            shift, log_scale = self.moved_by(stays)
            with torch.no_grad():
                moves = (moved - shift) * torch.exp(-log_scale)
            moves.requires_grad_()
            out = torch.cat([stays, moves * log_scale.exp() + shift], 1)
            found = torch.autograd.grad([out, log_scale.sum() / len(y)], [stays, moves, *parameters[3:]], [dy, dlogdet])
        del out, shift, log_scale
        mixed, dmixed = torch.cat([stays.detach(), moves.detach()], 1), torch.cat(found[:2], 1)
        with torch.no_grad():
            x = F.conv2d(mixed, torch.linalg.inv(self.p["mix.weight"])[:, :, None, None])
            x = x * torch.exp(-self.p["actnorm.log_scale"]) - self.p["actnorm.bias"]
        with torch.enable_grad():
            x.requires_grad_()
            again, of_weights = self.mixed(x)
            dx, *rest = torch.autograd.grad([again, of_weights], [x, *parameters[:3]], [dmixed, dlogdet])
        return x.detach(), dx, [*rest, *found[2:]]


class Reversible(torch.autograd.Function):
    """All steps as one function, which saves only the last value."""

    @staticmethod
    def forward(ctx, steps: list[Step], x: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def, override]
        logdet = x.new_zeros(())
        for step in steps:
            x, more = step(x)
            logdet = logdet + more
        ctx.steps = steps
        ctx.save_for_backward(x)
        return x, logdet

    @staticmethod
    def backward(ctx, dy: Tensor, dlogdet: Tensor):  # type: ignore[no-untyped-def, override]
        (y,), gradients = ctx.saved_tensors, []
        for step in reversed(ctx.steps):
            y, dy, own = step.back(y, dy, dlogdet)
            gradients = own + gradients
        return None, None, *gradients


def likelihood(z: Tensor, logdet: Tensor) -> Tensor:
    z = z.flatten(1)
    return 0.5 * (z * z).sum() / len(z) + 0.5 * z.shape[1] * math.log(2 * math.pi) - logdet


def in_turn(run: Callable[[Step, Tensor], tuple[Tensor, Tensor]]) -> Callable[[list[Step], Tensor], Tensor]:
    def loss(steps: list[Step], x: Tensor) -> Tensor:
        logdet = x.new_zeros(())
        for step in steps:
            x, more = run(step, x)
            logdet = logdet + more
        return likelihood(x, logdet)

    return loss


def reversible(steps: list[Step], x: Tensor) -> Tensor:
    return likelihood(*Reversible.apply(steps, x, *[t for step in steps for t in step.p.values()]))


WAYS = {
    "plain": in_turn(lambda step, x: step(x)),
    "checkpoint of every step": in_turn(lambda step, x: checkpoint(step, x, use_reentrant=False)),
    "reversible, by hand": reversible,
}


class Theirs:
    def __init__(self, name: str, parameters: Parameters, x: Tensor, depth: int) -> None:
        self.name, self.times, self.leaves = name, [], parameters
        self.steps = [Step(parameters, i + 1, depth) for i in range(depth)]
        self.x, self.loss_of = F.pixel_unshuffle(x, 2), WAYS[name]

    def run(self) -> None:
        for leaf in self.leaves.values():
            leaf.grad = None
        loss = self.loss_of(self.steps, self.x)
        loss.backward()
        self.loss = float(loss.detach())

    def measure(self) -> None:
        self.run()
        for leaf in self.leaves.values():
            leaf.grad = None
        self.peak = measured_peak(self.run)
        self.gradients = {name: leaf.grad.numpy().copy() for name, leaf in self.leaves.items()}

    def timed(self) -> None:
        start = time.process_time()
        self.run()
        self.times.append(time.process_time() - start)


# --- Isthmus


def written(tensors: Parameters) -> bytes:
    """Returns the bytes of a safetensors file."""
    header, data = {}, b""
    for name, t in tensors.items():
        content = t.detach().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Program:
    def __init__(self, path: str) -> None:
        self.path, self.environment = os.path.abspath(path), {**os.environ, "OMP_WAIT_POLICY": "passive"}

    def __call__(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.path, *args], capture_output=True, text=True, env=self.environment)

    def checked(self, *args: str) -> float:
        """Runs the program, and returns the processor seconds that it took."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = self(*args)
        if done.returncode:
            raise SystemExit(f"isthmus {' '.join(args)}\n{done.stderr}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Ours:
    """Plans within a budget of this many bytes, and measures the plan."""

    def __init__(self, isthmus: Program, budget: int | str, effort: float, steps: int) -> None:
        self.isthmus, self.steps, self.times = isthmus, steps, []
        self.file = f"within{budget}.isth"
        done = isthmus("opt", "glow.isth", "--load=w.safetensors", "--inputs=given", "--threads=1", f"--budget={budget}",
                       "--allow=recompute,invert", f"--effort={effort}", "-o", self.file)
        self.is_met = done.returncode == 0
        if done.returncode not in (0, 3):
            raise SystemExit(done.stderr)

    def run(self, steps: int, *args: str) -> float:
        return self.isthmus.checked("run", self.file, "--inputs=given", "--threads=1", f"--steps={steps}", "--report=r.json", *args)

    def measure(self) -> None:
        self.run(1, "--outputs=out")
        with open("r.json") as file:
            self.report = json.load(file)
        with open("out/names.json") as file:
            names = json.load(file)
        self.gradients = {name.removeprefix("grad."): np.load(f"out/{file}") for file, name in names.items() if name.startswith("grad.")}
        self.peak, self.loss = self.report["arena_bytes"], self.report["loss"][0]

    def timed(self) -> None:
        self.times.append((self.run(1 + self.steps) - self.run(1)) / self.steps)


def drawn(text: str) -> Parameters:
    """Draws the values of the graph's parameters; none is zero, so that the whole step matters."""
    parameters = {}
    for name, dims in re.findall(r"param %(\S+) : f32\[(.*?)\]", text):
        shape = [int(d) for d in dims.split(", ")]
        weight = torch.randn(shape) * (0.1 if len(shape) != 4 else math.prod(shape[1:])**-0.5)
        parameters[name] = torch.linalg.qr(weight + torch.eye(*shape))[0].contiguous() if len(shape) == 2 else weight
    return {name: t.requires_grad_() for name, t in parameters.items()}


def difference(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> float:
    """Returns the largest difference of gradients, as a share of the tensor's largest element."""
    assert a.keys() == b.keys(), a.keys() ^ b.keys()
    return max(float(np.abs(a[name] - b[name]).max() / np.abs(b[name]).max()) for name in a)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--isthmus", default="bazel-bin/tools/isthmus")
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--shape", default="3x32x32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="that a round of Isthmus is timed over")
    parser.add_argument("--effort", type=float, default=2)
    o = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    isthmus = Program(o.isthmus)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sizes = [f"--depth={o.depth}", "--levels=1", f"--width={o.width}", f"--batch={o.batch}", f"--shape={o.shape}"]
        isthmus.checked("zoo", "glow", *sizes, "-o", "glow.isth")
        with open("glow.isth") as file:
            parameters = drawn(file.read())
        x = torch.rand(o.batch, *map(int, o.shape.split("x"))) - 0.5
        os.mkdir("given")
        np.save("given/x.npy", x.numpy())
        with open("w.safetensors", "wb") as file:
            file.write(written(parameters))
        theirs = [Theirs(name, parameters, x, o.depth) for name in WAYS]
        for way in theirs:
            way.measure()
        ours = [Ours(isthmus, budget, o.effort, o.steps) for budget in [*(way.peak for way in theirs), "min"]]
        for way in ours:
            if way.is_met:
                way.measure()
        for _ in range(o.rounds):
            for way in [*theirs, *ours]:
                if isinstance(way, Theirs) or way.is_met:
                    way.timed()
        base, whole = theirs[0].times, theirs[0].gradients
        print(f"glow {' '.join(sizes)}: time beside plain PyTorch, {1000 * statistics.median(base):.0f} ms")

        def row(way: Theirs | Ours) -> str:
            ratios = [a / b for a, b in zip(way.times, base, strict=True)]
            return (f"{way.peak / 2**20:7.1f} MiB  {statistics.median(ratios):.3f} ({min(ratios):.2f} to {max(ratios):.2f})"
                    f"  gradients off by {difference(way.gradients, whole):.0e}")

        def print_row(name: str, mine: Ours) -> None:
            if not mine.is_met:
                print(f"  {name:26} cannot be met")
                return
            r = mine.report
            print(f"  {name:26} {row(mine)}  loss {mine.loss:.4f}, {r['clones']} clones, {r['inversions']} inverses, planned "
                  f"{1 + r['recompute_overhead']:.3f}")

        for way, mine in zip(theirs, ours):
            print(f"  {way.name:26} {row(way)}  loss {way.loss:.4f}")
            print_row("  isthmus within that", mine)
        print_row("isthmus, --budget=min", ours[-1])
        os.chdir("/")


if __name__ == "__main__":
    main()
