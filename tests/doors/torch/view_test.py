"""Tests pages of `view` and of `explain(...).save`: their figures are those of the report, names are paths of modules, and lines are those of the
program."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
import command  # noqa: E402

command.with_python_of_torch()

import pickle  # noqa: E402
import tempfile  # noqa: E402
import unittest  # noqa: E402
from pathlib import Path  # noqa: E402

import snapshots  # noqa: E402
import torch  # noqa: E402
from page_data import PageData  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402

torch.set_num_threads(1)


class Model(nn.Module):
    def __init__(self, checkpointed=False):
        super().__init__()
        self.checkpointed = checkpointed
        self.h = nn.ModuleList([nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(4)])

    def forward(self, x):
        for layer in self.h:
            x = x + (checkpoint(layer, x, use_reentrant=False) if self.checkpointed else layer(x))
        return x.square().mean()


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        torch.manual_seed(0)
        self.x = torch.randn(512, 64)

    def page(self, path):
        return PageData(Path(path).read_bytes())

    def check(self, data, report):
        """The peak, the budget and the step beside it are those of the report."""
        live = [sum(at) for at in zip(*data.live_by_kind().values())]
        self.assertEqual(max(live), report.planned_peak_bytes)
        self.assertEqual(data.head["figures"]["predicted_peak_bytes"], report.planned_peak_bytes)
        self.assertEqual(data.head["figures"]["baseline_peak_bytes"], report.baseline_peak_bytes)
        self.assertEqual(data.head["budget_bytes"], report.budget_bytes)
        beside = [sum(at) for at in zip(*data.live_by_kind("b.").values())]
        self.assertEqual(max(beside), report.program_peak_bytes)

    def test_a_step_within_a_budget(self):
        (path,) = isthmus.torch.view(Model(), self.x, budget="50%", path=self.folder / "step.html")
        self.assertEqual(path, str(self.folder / "step.html"))
        data = self.page(path)
        (graph,) = isthmus.torch.explain(Model(), self.x, budget="50%", prices=False).graphs
        self.check(data, graph.report)
        self.assertEqual(data.head["model"], "Model")
        self.assertGreater(graph.report.recomputed, 0)
        recomputed = {data.names()[d["value"]].decode(): d for d in data.head["decisions"]}
        kept = {t.name for t in graph.tensors if t.is_kept}
        self.assertTrue(recomputed)
        for tensor in graph.tensors:
            name = f"{tensor.module}.{tensor.name}" if tensor.module else tensor.name
            self.assertEqual(name in recomputed, tensor.name not in kept, name)
            if name in recomputed:
                self.assertAlmostEqual(recomputed[name]["us"], tensor.us, places=3)

    def test_names_types_and_lines(self):
        (path,) = isthmus.torch.view(Model(), self.x, budget="50%", path=self.folder / "step.html")
        data = self.page(path)
        step, names = data.head["steps"][0], data.names()
        self.assertTrue(any(name.startswith(b"h.2.0.addmm") for name in names), names)
        self.assertTrue({"h", "0", "aten.addmm"} <= set(step["modules"]) | {op["name"] for op in step["ops"]})
        self.assertIn("f32[512, 256]", step["types"])
        line = next(k for k, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "x = x + (checkpoint" in text)
        self.assertIn(f"view_test.py:{line} in forward", step["sources"])
        self.assertFalse(any("linear.py" in source for source in step["sources"]), step["sources"])
        sources, results = data.column("a.node.source"), data.column("a.node.result")
        told = {names[r] for r, s in zip(results, sources) if s and step["sources"][s - 1].startswith("view_test.py")}
        self.assertTrue(any(name.startswith(b"h.2.0.addmm") for name in told), told)

    def test_a_program_that_checkpoints_itself_is_shown_as_it_runs(self):
        (graph,) = isthmus.torch.explain(Model(checkpointed=True), self.x, budget="100%", prices=False).graphs
        graph.save(self.folder / "step.html")
        data = self.page(self.folder / "step.html")
        self.assertLess(graph.report.program_peak_bytes, graph.report.baseline_peak_bytes)
        self.check(data, graph.report)
        self.assertIn("recomputed", data.live_by_kind("b."))

    def test_several_graphs_are_pages_in_the_order_of_the_step(self):
        model = Model()

        def broken(x):
            y = torch.tanh(model.h[0](x))
            torch._dynamo.graph_break()
            return model.h[1](y).square().mean()

        explained = isthmus.torch.explain(broken, self.x, budget="min", prices=False)
        self.assertEqual(len(explained.graphs), 2)
        paths = explained.save(self.folder / "step.html")
        self.assertEqual([os.path.basename(p) for p in paths], ["step-1.html", "step-2.html"])
        for k, (path, graph) in enumerate(zip(paths, explained.graphs)):
            data = self.page(path)
            self.check(data, graph.report)
            self.assertEqual(data.head["model"], f"broken, graph {k + 1} of 2")

    def test_beside_a_snapshot(self):
        allocator = snapshots.training()
        (self.folder / "s.pickle").write_bytes(pickle.dumps(allocator.snapshot()))
        (path,) = isthmus.torch.view(Model(), self.x, path=self.folder / "step.html", snapshot=self.folder / "s.pickle")
        data = self.page(path)
        self.assertEqual(data.head["steps"][1]["snapshot"]["reserved_bytes"], max(map(sum, allocator.known)))
        self.assertEqual([sum(at) for at in zip(*data.live_by_kind("b.").values())], [sum(now) for now in allocator.known])

    def test_what_cannot_be_written(self):
        (self.folder / "bad.pickle").write_bytes(b"no pickle")
        for wrong, phrase in [
            ({"path": self.folder / "step.txt"}, "ends in .html"),
            ({"path": self.folder / "none" / "step.html"}, "cannot write"),
            ({"path": self.folder / "step.html", "snapshot": self.folder / "none.pickle"}, "cannot read"),
            ({"path": self.folder / "step.html", "snapshot": self.folder / "bad.pickle"}, "protocol 2 to 5"),
        ]:
            with self.subTest(phrase), self.assertRaisesRegex(isthmus.BadInput, phrase):
                isthmus.torch.view(Model(), self.x, **wrong)
        with self.assertRaisesRegex(isthmus.BadInput, "nothing to show"):
            isthmus.torch.view(lambda x: x + 1, self.x, path=self.folder / "step.html")
        self.assertEqual([p.name for p in self.folder.iterdir()], ["bad.pickle"])


if __name__ == "__main__":
    command.main()
