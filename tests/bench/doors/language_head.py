"""Compares ways to train a language model whose peak is its head: the logits and their gradient.

Usage: language_head.py [--words=50257] [--width=256] [--layers=4] [--batch=4] [--length=128] [--rounds=8] [BUDGET ...]

Prints, for each way, the measured peak of a step without parameters, and the least and the median time of a step in processor seconds, ways taking
turns. The ways are PyTorch's own kernels with the loss as it is written; the loss in eight chunks by hand, each in torch.utils.checkpoint;
`linear_cross_entropy` in chunks of 64 tokens; and Isthmus within each budget, with and without chunks. Needs the Python of `tools/setup --torch`, and
$ISTHMUS_LIBRARY as tests/bench/doors/against_pytorch.py does.
"""

import argparse
import functools
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import isthmus
import isthmus.torch


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norms[1](x))


class Language(nn.Module):
    def __init__(self, words, width, layers, length, heads=8):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def hidden(self, ids):
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x).flatten(0, 1)

    def forward(self, ids):
        return F.linear(self.hidden(ids), self.words.weight)


def plain(model, ids):
    return F.cross_entropy(model(ids), ids.flatten())


def by_hand(model, ids, chunks=8):
    def of_chunk(x, labels):
        return F.cross_entropy(F.linear(x, model.words.weight), labels, reduction="sum")

    x, labels = model.hidden(ids), ids.flatten()
    parts = zip(x.chunk(chunks), labels.chunk(chunks))
    return sum(checkpoint(of_chunk, a, b, use_reentrant=False) for a, b in parts) / labels.numel()


def linear_cross_entropy(model, ids):
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=64)
    return F.linear_cross_entropy(model.hidden(ids), model.words.weight, ids.flatten(), options=options)


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("words", 50257), ("width", 256), ("layers", 4), ("batch", 4), ("length", 128), ("rounds", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("budgets", nargs="*", default=["147MiB", "110MiB", "min"])
    o = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, ids = Language(o.words, o.width, o.layers, o.length), torch.randint(0, o.words, (o.batch, o.length))
    ways = {"plain": plain, "by hand": by_hand, "linear_cross_entropy": linear_cross_entropy}
    for budget in o.budgets:
        for allow in ("recompute", "recompute,chunk"):
            own = functools.partial(lambda model, ids: plain(model, ids))  # compiled apart from the other ways
            ways[f"isthmus {budget} {allow}"] = torch.compile(own, backend="isthmus", fullgraph=True, options={"budget": budget, "allow": allow})

    def step(way):
        model.zero_grad()
        torch.manual_seed(1)
        ways[way](model, ids).backward()

    times, peaks = {}, {}
    for way in list(ways):
        try:
            for _ in range(4):
                step(way)
        except Exception as error:
            if not isinstance(getattr(error, "inner_exception", error), isthmus.CannotBeMet):
                raise
            print(f"{way:34}  cannot be met")
            continue
        times[way] = []
        peaks[way] = isthmus.torch.measured_peak(lambda: step(way)) / 2**20
    for _ in range(o.rounds):
        for way in times:
            start = time.process_time()
            step(way)
            times[way].append(time.process_time() - start)
    base = statistics.median(times["plain"])
    for way, taken in times.items():
        print(f"{way:34}  {peaks[way]:7.1f} MiB  {min(taken):.3f} s  {statistics.median(taken):.3f} s  {statistics.median(taken) / base:.2f} of plain")
    print(isthmus.torch.report())


if __name__ == "__main__":
    main()
