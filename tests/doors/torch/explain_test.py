"""Tests what `explain` and `report` print: equal layers in one line, what saves most for its time first, where the peak is, prices down to the least,
and where chunks end."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
import command  # noqa: E402

command.with_python_of_torch()

import re  # noqa: E402
import subprocess  # noqa: E402
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

    def test_the_drawing_has_every_run_or_every_module(self):
        ops = self.graph.to_dot(fold=0)
        schedule = self.graph._made.plan.schedule
        self.assertEqual(len(re.findall(r"^    \d+ \[", ops, re.M)), len(schedule))
        self.assertEqual(ops.count('fillcolor="#FCE3C0"'), self.graph.report.recomputed)
        modules = self.graph.to_dot(fold=2)
        self.assertIn("cluster_again", modules)
        for k in range(6):
            self.assertEqual(modules.count(f"<b>h.{k}</b>"), 2 + any(t.module.startswith(f"h.{k}.") and t.runs > 1 for t in self.graph.tensors))
        self.assertEqual(self.graph.to_dot(), self.graph.to_dot(fold=3), "ops are too many, and all modules are not")
        for text in (ops, modules):
            subprocess.run(["dot", "-Tsvg"], input=text.encode(), check=True, capture_output=True)

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


def language_loss(words, ids):
    embedding, head = words
    logits = nn.functional.dropout(head(embedding(ids)), 0.1)  # DRAWS
    return nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())


class Reported(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch.compiler.reset()
        isthmus.torch.reset()

    def report_of(self, function, *inputs, steps=1, dynamic=None, **options):
        compiled = torch.compile(function, backend="isthmus", options=options, dynamic=dynamic)
        for _ in range(steps):
            compiled(*inputs).backward()
        return isthmus.torch.report()

    def test_the_least_peak_and_its_price(self):
        model, x = Model(), torch.randn(512, 64)
        report = self.report_of(model, x, budget="70%")
        (graph,) = report.graphs
        text = str(report)
        (least,) = isthmus.torch.explain(model, x, budget="min", prices=False).graphs
        self.assertEqual(graph.least.peak_bytes, least.report.planned_peak_bytes)
        self.assertEqual(graph.least.added_cost, least.report.added_cost)
        self.assertIn(f"the least is {graph.least.peak_bytes / 2**20:.1f} MiB, +{graph.least.added_cost:.1%} time", text)

    def test_what_the_step_takes_whatever_is_planned(self):
        model = Model()
        (graph,) = self.report_of(model, torch.randn(512, 64), budget="70%").graphs
        size = sum(4 * p.numel() for p in model.parameters())
        self.assertEqual((graph.gradient_bytes, graph.parameter_bytes), (size, size))
        self.assertIn(f"gradients take {size / 2**20:.1f} MiB of the peak, and parameters and buffers {size / 2**20:.1f} MiB beside it", str(graph))

    def test_times_in_milliseconds(self):
        (graph,) = self.report_of(Model(), torch.randn(512, 64), budget="50%").graphs
        added, whole = re.search(r"\(([\d.]+) ms of ([\d.]+) ms\)", str(graph)).groups()
        self.assertAlmostEqual(float(added) / float(whole), graph.added_cost, delta=0.01)
        self.assertAlmostEqual(float(whole), graph.step_us / 1e3, delta=0.01)

    def test_a_step_of_several_graphs(self):
        def broken(model, x):
            for layer in model.h[:3]:
                x = x + layer(x)
            torch._dynamo.graph_break()
            return model(x)

        report = self.report_of(broken, Model(), torch.randn(512, 64), steps=3, budget="60%")
        (step,) = report.steps
        self.assertLess(step.least.peak_bytes, step.planned_peak_bytes)
        self.assertGreater(step.least.added_cost, step.added_cost)
        self.assertIn("\n  the least is ", str(report))
        self.assertGreater(step.step_us, max(part.step_us for part in step.parts))

    def test_the_op_that_ends_a_part_in_chunks(self):
        words, ids = nn.ModuleList([nn.Embedding(4000, 32), nn.Linear(32, 4000)]), torch.randint(0, 4000, (4, 64))
        with open(__file__, encoding="utf-8") as file:
            line = next(k for k, text in enumerate(file, 1) if "# DRAWS" in text)
        options = {"budget": "90%", "allow": "recompute,chunk", "strict": False}
        where = f"explain_test.py:{line}"
        self.assertIn(f"chunks end at aten.native_dropout ({where}): it draws random numbers", str(self.report_of(language_loss, words, ids, **options)))
        self.setUp()
        self.assertRegex(str(self.report_of(language_loss, words, ids, dynamic=True, **options)), rf"chunks end at .* \({where}\): its sizes vary")
        self.setUp()
        self.assertNotIn("chunks end", str(self.report_of(language_loss, words, ids, budget="100%")))


if __name__ == "__main__":
    command.main()
