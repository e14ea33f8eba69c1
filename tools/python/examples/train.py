"""Trains a small transformer on its own source text, plain and within half of the memory, and prints both peaks.

Usage: python train.py [--steps=N] [--budget=BUDGET] [--text=FILE]
"""

import argparse
import sys
import time

import torch
import torch.nn.functional as F

import isthmus.torch


class Block(torch.nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width), torch.nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Transformer(torch.nn.Module):
    def __init__(self, width: int = 96, layers: int = 4, length: int = 64) -> None:
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(256, width), torch.nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = torch.nn.Sequential(*[Block(width, 4) for _ in range(layers)])
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, 256)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.tokens(text[:, :-1]) + self.positions)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), text[:, 1:].flatten())


def train(text: torch.Tensor, steps: int, budget: str | None) -> tuple[list[float], int]:
    """Returns the losses, and the peak of a step in bytes."""
    torch.manual_seed(0)
    model = Transformer()
    loss_of = model if budget is None else torch.compile(model, backend="isthmus", options={"budget": budget}, fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses: list[float] = []

    def forward_and_backward() -> None:
        starts = torch.randint(0, len(text) - 65, (16,))
        loss = loss_of(torch.stack([text[s : s + 65] for s in starts.tolist()]))
        loss.backward()
        losses.append(loss.item())

    peak, begin = 0, time.monotonic()
    for step in range(steps):
        optimizer.zero_grad()
        if step + 1 == steps:
            peak = isthmus.torch.measured_peak(forward_and_backward)
        else:
            forward_and_backward()
        optimizer.step()
        done = (step + 1) * 30 // steps
        print(f"\r[{'#' * done}{' ' * (30 - done)}] step {step + 1}/{steps}, loss {losses[-1]:.3f}, {time.monotonic() - begin:.0f} s", end="", file=sys.stderr)
    print(file=sys.stderr)
    return losses, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--budget", default="50%", help="as 100MiB, 50%% or min; default %(default)s")
    parser.add_argument("--text", default=__file__, help="a file to learn; default: this one")
    options = parser.parse_args()
    with open(options.text, "rb") as file:
        text = torch.tensor(list(file.read()))
    if options.steps < 2 or len(text) < 66:
        parser.error("at least 2 steps are needed, and a text of 66 bytes")
    plain, peak = train(text, options.steps, None)
    small, small_peak = train(text, options.steps, options.budget)
    print(isthmus.torch.report())
    print(f"peak of a step: {peak / 2**20:.1f} MiB plain, {small_peak / 2**20:.1f} MiB within {options.budget}")
    print(f"losses: {plain[0]:.3f} to {plain[-1]:.3f}, {'the same bits in both runs' if plain == small else 'not the same'}")


if __name__ == "__main__":
    main()
