"""Runs programs that went wrong in PyTorch's own partitioner, with `activation_memory_budget` at several shares and with Isthmus.

Usage: known_troubles.py

It prints for each run the relative difference between the gradients and eager's (0: all bits are equal), whether the next random number is
eager's, and the measured peak. It needs the same packages and environment as against_pytorch.py. known_troubles_test.py in
tests/doors/torch checks that with Isthmus gradients and random numbers are eager's.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doors", "torch"))

import torch  # noqa: E402

import isthmus.torch  # noqa: E402
from training import same, train, with_isthmus  # noqa: E402
from troubles import TROUBLES  # noqa: E402


def stock(share):
    """Returns a wrapper for `train` that compiles with PyTorch's own partitioner and `activation_memory_budget` at this share."""

    def compiled(function):
        torch.compiler.reset()
        call = torch.compile(function, backend="aot_eager", fullgraph=True)

        def with_share():
            with torch._functorch.config.patch(activation_memory_budget=share):
                return call()

        return with_share

    return compiled


def error(want, got):
    pairs = [(a, b) for a, b in zip(want.gradients, got.gradients, strict=True) if a is not None and b is not None]
    if all(same(a, b) for a, b in pairs):
        return 0.0
    off, size = (sum(float(t.double().square().sum()) for t in ts) ** 0.5 for ts in ([b - a for a, b in pairs], [a for a, _ in pairs]))
    return off / size


def row(name, want, run):
    try:
        got = run()
    except Exception as e:
        print(f"  {name:32} {type(getattr(e, 'inner_exception', e)).__name__}")
        return
    draw = "the next draw is eager's" if same(want.draw, got.draw) else "another next draw"
    print(f"  {name:32} error {error(want, got):8.2g}   {draw:25} {got.peak / 1024:9.0f} KiB", flush=True)


def main():
    torch.set_num_threads(1)
    for trouble in TROUBLES:
        model = trouble.make()
        want = train(model, lambda m: m())
        print(f"{trouble.make.__name__} ({trouble.threads}): plain {want.peak / 1024:.0f} KiB")
        for share in trouble.shares:
            row(f"activation_memory_budget {share}", want, lambda: train(model, lambda m: m(), compiled=stock(share)))
        for budget in trouble.budgets:
            row(f"isthmus, {budget}", want, lambda: train(model, lambda m: m(), compiled=with_isthmus(budget)))


if __name__ == "__main__":
    main()
