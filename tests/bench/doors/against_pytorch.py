"""Compares the peak and the time of a training step under Isthmus with those under PyTorch's own ways to save memory.

PyTorch's ways are the plain step (only with --kernels=aot_eager), `torch.utils.checkpoint` of every block, or where the authors of a public program place
it (own_checkpoints.py), and `activation_memory_budget` at several shares. Isthmus gets the measured peak of each of these ways as its budget, and must need less time.

Usage: against_pytorch.py [--models=NAME,...] [--kernels=aot_eager|inductor] [--shares=S,...] [--budgets=B,...] [--savings] [--rounds=N]
    [--costs=FILE|measured] [--threads=N]

Times are processor seconds of the process. Each row has the median over rounds, in which all ways take turns, of the ratio to the plain step
(aot_eager) or to stock inductor (inductor). Isthmus's rows end with the planned peak, and planning's share of the first step's wall-clock time.
The program needs PyTorch and the package: PYTHONPATH=tools/python ISTHMUS_LIBRARY=bazel-bin/tools/c/libisthmus.so; for the models of torchvision and
transformers, it needs the Python of `tools/setup --corpus`; for other public programs, the packages that own_checkpoints.py names.
"""

import argparse
import copy
import itertools
import math
import os
import statistics
import sys
import time
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doors", "torch"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402
from networks import UNet  # noqa: E402
from own_checkpoints import PROGRAMS, SEVERAL_GRAPHS, checkpointed  # noqa: E402


LOSSES = 4  # a step of several graphs has its own plan from the third on
MEASURED = 8  # Isthmus itself measures the first, second, fourth and eighth step, which then take longer


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
    """A first module, a chain of blocks, and a last module. saves=True checkpoints each block."""

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


def picture(name, kind, batch, side, **options):
    import torchvision

    model = getattr(torchvision.models, name)(**options)
    x, y = torch.randn(batch, 3, side, side), torch.randint(0, 1000, (batch,))
    return model, checkpointed(model, kind)(lambda m: F.cross_entropy(m(x), y))


def vit():
    sizes = dict(image_size=128, patch_size=16, num_layers=12, num_heads=6, hidden_dim=192, mlp_dim=768, dropout=0.1)
    return picture("VisionTransformer", "EncoderBlock", 4, 128, **sizes)


def words(config, model_class, kind, batch, length):
    import transformers

    model = getattr(transformers, model_class)(getattr(transformers, config[0])(**config[1])).train()
    x = torch.randint(0, 8000, (batch, length))
    return model, checkpointed(model, kind)(lambda m: F.cross_entropy(m(input_ids=x).logits.flatten(0, 1), x.flatten()))


def gpt2():
    sizes = dict(n_layer=12, n_embd=256, n_head=8, vocab_size=8000, n_positions=128, use_cache=False)
    return words(("GPT2Config", sizes), "GPT2LMHeadModel", "GPT2Block", 4, 128)


def bert():
    sizes = dict(num_hidden_layers=12, hidden_size=256, num_attention_heads=8, intermediate_size=1024, vocab_size=8000)
    return words(("BertConfig", sizes), "BertForMaskedLM", "BertLayer", 4, 128)


class Level(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.net = nn.Sequential(conv(before, after), conv(after, after))

    def forward(self, x):
        return self.net(x)


def unet():
    """Returns a UNet with four levels of two convolutions each, and its loss."""
    model, x, y = UNet(Level, [3, 16, 32, 64, 128]), torch.randn(2, 3, 128, 128), torch.randint(0, 2, (2, 128, 128))
    return model, checkpointed(model, "Level")(lambda m: F.cross_entropy(m(x), y))


MODELS = {
    "mlp": mlp,
    "resnet": resnet,
    "transformer": transformer,
    "resnet50": lambda: picture("resnet50", "Bottleneck", 4, 128),
    "densenet121": lambda: picture("densenet121", "_DenseBlock", 4, 96),
    "vit": vit,
    "unet": unet,
    "gpt2": gpt2,
    "bert": bert,
    **PROGRAMS,
}


def own_code(function):
    """Returns a copy of the function with a code object of its own. PyTorch keeps compiled code by code object, so no way's function is compiled
    again with the settings of another way."""
    code = function.__code__.replace(co_firstlineno=next(own_code.lines))
    return types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)


own_code.lines = itertools.count(1)


class Way:
    """One way to run the training step. `run` runs the step once. fullgraph: the step is one graph when it is compiled."""

    def __init__(self, name, model, loss_of, *, fullgraph=True, **options):
        self.name, self.model, self.times, self.plan, self.fullgraph = name, copy.deepcopy(model), [], "", fullgraph
        self.loss = own_code(lambda: loss_of(self.model, **options))

    def compiled(self, **how):
        self.loss = torch.compile(self.loss, fullgraph=self.fullgraph, **how)
        isthmus.torch.reset()
        start = time.perf_counter()
        self.run()
        seconds = time.perf_counter() - start
        for _ in range(0 if self.fullgraph else LOSSES - 1):
            self.run()
        report = isthmus.torch.report()
        if report.graphs:
            spent = sum(graph.plan_seconds for graph in report.graphs)
            planned = (report.steps or report.graphs)[-1].planned_peak_bytes / 2**20
            self.plan = f"  planned {planned:.1f} MiB in {spent:.1f} s, {spent / seconds:.0%} of the first step"
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
        start = time.process_time()
        self.run()
        self.times.append(time.process_time() - start)


def pytorchs(model, loss_of, kernels, shares, **how):
    if kernels == "aot_eager":
        yield Way("plain", model, loss_of).measure()
    yield Way("torch.utils.checkpoint", model, loss_of, saves=True).measure()
    for share in shares:
        with torch._functorch.config.patch(activation_memory_budget=share):
            yield Way(f"activation_memory_budget {share}", model, loss_of, **how).compiled(backend=kernels).measure()


def ours(model, loss_of, kernels, budget, costs=None, **how):
    """Returns Isthmus's way, with its peak measured; None if the budget cannot be met. budget: bytes, or a string such as "70%" or "min"."""
    try:
        way = Way(f"isthmus, {budget if isinstance(budget, str) else f'{budget / 2**20:.1f} MiB'}", model, loss_of, **how)
        way = way.compiled(backend="isthmus", options={"budget": budget, "kernels": kernels, "costs": costs}).measure()
    except Exception as e:
        if isinstance(getattr(e, "inner_exception", e), isthmus.CannotBeMet):
            return None
        raise
    for _ in range(MEASURED - 2):
        way.run()
    return way


def compare(name, options):
    """Prints a table, and returns pairs of time ratios: that of an `activation_memory_budget` that saves memory, and that of Isthmus within its
    peak."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, loss_of = MODELS[name]()
    how = {"fullgraph": name not in SEVERAL_GRAPHS}
    theirs = list(pytorchs(model, loss_of, options.kernels, [1.0, *map(float, options.shares.split(","))], **how))
    least = min(w.peak for w in theirs if w.name in ("plain", "activation_memory_budget 1.0"))

    def mine_of(way):
        if options.savings and way.peak > 0.99 * least:
            return None
        return ours(model, loss_of, options.kernels, way.peak, options.costs, **how)

    pairs = [(way, mine_of(way)) for way in theirs]
    own = [w for w in (ours(model, loss_of, options.kernels, b, options.costs, **how) for b in filter(None, options.budgets.split(","))) if w]
    ways = [w for pair in pairs for w in pair if w] + own
    for _ in range(options.rounds):
        for way in ways:
            way.timed()
    base = next(w for w in theirs if w.name == ("plain" if options.kernels == "aot_eager" else "activation_memory_budget 1.0"))

    def ratios(way):
        return [a / b for a, b in zip(way.times, base.times)]

    def row(way):
        found = ratios(way)
        return f"{way.peak / 2**20:7.1f} MiB  {statistics.median(found):.3f} ({min(found):.2f} to {max(found):.2f}){way.plan}"

    print(f"{name}, {options.kernels}: time beside '{base.name}', {1000 * statistics.median(base.times):.0f} ms")
    for way, mine in pairs:
        within = row(mine) if mine else "not tried" if options.savings and way.peak > 0.99 * least else "cannot be met"
        print(f"  {way.name:32} {row(way)}   isthmus within that: {within}")
    for way in own:
        print(f"  {way.name:32} {row(way)}")
    added = [(statistics.median(ratios(a)), statistics.median(ratios(b))) for a, b in pairs if b and "budget" in a.name and a.peak < 0.99 * least]
    print("", flush=True)
    return added


def mean_of(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios))) - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--kernels", default="aot_eager", choices=("aot_eager", "inductor"))
    parser.add_argument("--shares", default="0.75,0.5,0.25,0", help="of activation_memory_budget")
    parser.add_argument("--budgets", default="70%,50%,30%,min", help="of Isthmus, beside the peaks of PyTorch's ways; may be empty")
    parser.add_argument("--savings", action="store_true", help="of PyTorch's ways, compare Isthmus with those alone that save memory")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--costs", help="the option of Isthmus: a file, or measured")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    added = [pair for name in options.models.split(",") for pair in compare(name, options)]
    if added:
        stock, mine = zip(*added)
        means = f"activation_memory_budget {mean_of(stock):.1%}, Isthmus at its peaks {mean_of(mine):.1%}"
        print(f"time added, geometric mean of {len(added)} points: {means}")


if __name__ == "__main__":
    main()
