"""Tests what `explain` prints: equal layers in one line, what saves most for its time first, where the peak is, and prices down to the least."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
import command  # noqa: E402

command.with_python_of_torch()

import re  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

import isthmus.torch  # noqa: E402
from isthmus.torch.folding import folded, template  # noqa: E402

torch.set_num_threads(1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.h = nn.ModuleList([nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(6)])

    def forward(self, x):
        for layer in self.h:
            x = x + layer(x)
        return x.square().mean()


class Explained(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(0)
        model, x = Model(), torch.randn(512, 64)
        (cls.graph,) = isthmus.torch.explain(model, x, budget="50%").graphs
        (cls.least,) = isthmus.torch.explain(model, x, budget="min", prices=False).graphs
        cls.lines = str(cls.graph).splitlines()

    def test_equal_layers_are_one_line(self):
        rows = [line for line in self.lines if "aten.addmm, h." in line]
        counted = sum(int(re.search(r" x (\d+)$", row).group(1)) if " x " in row else 1 for row in rows)
        self.assertLess(len(rows), 4)
        self.assertEqual(counted, sum(t.op.startswith("aten.addmm") for t in self.graph.tensors))
        self.assertTrue(any(re.search(r"h\.[\d,-]+\.0 x \d", row) for row in rows), rows)
        self.assertFalse(any("L['" in line for line in self.lines))

    def test_what_saves_most_for_its_time_is_first(self):
        head = next(k for k, line in enumerate(self.lines) if line.split() == ["MiB", "runs", "ms", "a", "run", "MiB", "a", "ms", "tensor"])
        rates = [float(line.split()[3]) for line in self.lines[head + 1 : self.lines.index("", head)]]
        self.assertGreater(len(rates), 1)
        self.assertEqual(rates, sorted(rates, reverse=True))

    def test_where_the_peak_is(self):
        text = next(line for line in self.lines if "the peak is at" in line)
        self.assertRegex(text, r"the peak is at aten\.\w+ in h\.\d\.\d, [\d.]+ MiB; of it")
        self.assertEqual(self.graph.peak.bytes, self.graph.report.planned_peak_bytes)

    def test_prices_go_down_to_the_least(self):
        self.assertEqual(self.graph.prices[-1].peak_bytes, self.least.report.planned_peak_bytes)
        self.assertEqual(self.lines[-1].split()[-2:], ["the", "least"])
        peaks = [p.peak_bytes for p in self.graph.prices]
        self.assertEqual(peaks, sorted(peaks, reverse=True))

    def test_folding(self):
        self.assertEqual(folded([f"h.{k}.attn" for k in (0, 1, 2, 5)]), "h.0-2,5.attn x 4")
        self.assertEqual(folded(["h.0.1", "h.0.2"]), "h.0.1-2 x 2")
        self.assertEqual(folded(["norm"]), "norm")
        self.assertEqual(template("h.11.attn.c_fc"), ("h", "#", "attn", "c_fc"))


if __name__ == "__main__":
    command.main()
