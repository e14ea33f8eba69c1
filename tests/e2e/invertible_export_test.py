"""Tests that reversible blocks are found in files of PyTorch's exporters, without marks or wrapper classes."""

import command

command.with_python_of_torch()

import json  # noqa: E402
import os  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

from torch_export import difference, export  # noqa: E402

torch.set_num_threads(2)

BATCH, CHANNELS, SIDE, DEPTH = 16, 8, 16, 24
MANY_CHANNELS = 2 * CHANNELS


def branch():
    return nn.Sequential(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.ReLU(), nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1))


class Block(nn.Module):
    """y1 = x1 + f(x2), y2 = x2 + g(y1) (Gomez et al. 2017), with several common ways to form halves."""

    def __init__(self, halves):
        super().__init__()
        self.f, self.g, self.halves = branch(), branch(), halves

    def forward(self, x):
        x1, x2 = self.halves(x)
        y1 = x1 + self.f(x2)
        return torch.cat([y1, x2 + self.g(y1)], 1)


class Net(nn.Module):
    def __init__(self, halves):
        super().__init__()
        self.first = nn.Conv2d(3, MANY_CHANNELS, 3, padding=1)
        self.blocks = nn.Sequential(*[Block(halves) for _ in range(DEPTH)])
        self.last = nn.Linear(MANY_CHANNELS, 10)

    def forward(self, x):
        return self.last(self.blocks(self.first(x)).mean((2, 3)))


HALVES = {"chunk": lambda x: x.chunk(2, 1), "slices": lambda x: (x[:, :CHANNELS], x[:, CHANNELS:])}


def mebibytes(report, figure="predicted_peak_bytes"):
    return f"{report[figure] / 2**20:.2f} MiB"


class Exported(command.TestCase):
    def plan(self, *args):
        self.run_ok("opt", "net.onnx", "--loss=cross_entropy", "--effort=0.5", *args, "-o", "small.isth", "--report=r.json")
        return json.loads(self.read("r.json"))

    def arrays(self, folder):
        names = json.loads(self.read(f"{folder}/names.json"))
        return {name: np.load(self.path(f"{folder}/{file}")) for file, name in names.items()}

    def gradients(self, folder, *args):
        self.run_ok("run", "net.onnx", "--loss=cross_entropy", "--inputs=given", f"--outputs={folder}", "--threads=1", *args)
        return {name.removeprefix("grad."): a for name, a in self.arrays(folder).items() if name.startswith("grad.")}

    def test_blocks_are_found(self):
        for how, halves in HALVES.items():
            for exporter in "ts17", "default":
                with self.subTest(halves=how, exporter=exporter):
                    self.setUp()
                    torch.manual_seed(0)
                    net, x, labels = Net(halves), torch.randn(BATCH, 3, SIDE, SIDE), torch.randint(0, 10, (BATCH,))
                    export(net, x, self.path("net.onnx"), exporter)
                    least = self.plan("--budget=min")
                    allowed = [f"--budget={int(0.9 * least['predicted_peak_bytes'])}", "--allow=recompute,invert"]
                    inverted = self.plan(*allowed)
                    print(f"{how}, {exporter}: {mebibytes(least, 'baseline_peak_bytes')}; by recomputing {mebibytes(least)} or more, "
                          f"{least['recompute_overhead']:+.1%}; with {inverted['inversions']} inverses {mebibytes(inverted)}, "
                          f"{inverted['recompute_overhead']:+.1%}")
                    self.assertGreater(inverted["inversions"], DEPTH)
                    self.assertLess(inverted["recompute_overhead"], 0.5 * least["recompute_overhead"])
                    os.makedirs(self.path("given"))
                    np.save(self.path("given/x.npy"), x.numpy())
                    np.save(self.path("given/labels.npy"), labels.numpy())
                    nn.functional.cross_entropy(net(x), labels).backward()
                    want = {name: p.grad.numpy() for name, p in net.named_parameters()}
                    for args in [], [*allowed, "--effort=0.5"]:
                        got = self.gradients("out", *args)
                        self.assertEqual(got.keys(), want.keys())
                        for name, w in want.items():
                            self.assertLess(difference(got[name], w, 1e-3), 1e-4, name)


if __name__ == "__main__":
    command.main()
