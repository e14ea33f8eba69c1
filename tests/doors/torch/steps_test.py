"""Steps that run several graphs within one budget: losses, gradients, buffers and the next draw are eager's bit for bit, and the measured
peak of the whole step is the planned one, never above the budget."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
import command  # noqa: E402

command.with_python_of_torch()

import unittest  # noqa: E402
import warnings  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402
from training import differences, refusal, train  # noqa: E402

torch.set_num_threads(1)
WIDTH = 64


def block(width=WIDTH):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width), nn.LayerNorm(width))


class Halves(nn.Module):
    """PyTorch's tracer breaks off in its middle."""

    def __init__(self, blocks=6):
        super().__init__()
        self.first = nn.ModuleList([block() for _ in range(blocks // 2)])
        self.second = nn.ModuleList([block() for _ in range(blocks // 2)])

    def forward(self, x):
        for layer in self.first:
            x = x + layer(x)
        torch._dynamo.graph_break()
        for layer in self.second:
            x = x + layer(x)
        return x.square().mean()


class AcrossBreaks(nn.Module):
    """Three graphs; the third reads what the first returns, and a buffer counts. Each reads it once: gradients of several readers are added
    up within a graph first, and so by any backend in another order than eager's."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([block() for _ in range(5)])
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x):
        early = x + self.parts[1](torch.tanh(self.parts[0](x)))
        torch._dynamo.graph_break()
        x = self.parts[2](early)
        self.mean.lerp_(x.detach().mean(0), 0.1)
        torch._dynamo.graph_break()
        x = self.parts[4](x + self.parts[3](x)) + early.sin()
        return x.square().mean()


class Recurrent(nn.Module):
    """PyTorch's tracer does not enter an LSTM: it runs between two graphs, and keeps what it needs for its own backward."""

    def __init__(self):
        super().__init__()
        self.before, self.lstm, self.after = block(), nn.LSTM(WIDTH, WIDTH, batch_first=True), nn.Sequential(block(), block())

    def forward(self, x):
        x = self.before(x.view(-1, WIDTH)).tanh().view(-1, 32, WIDTH)
        x, _ = self.lstm(x)
        return self.after(x.reshape(-1, WIDTH)).square().mean()


class SameGraph(nn.Module):
    """Blocks that are compiled one by one: PyTorch compiles the first, and calls the same code for all."""

    def __init__(self, blocks=4):
        super().__init__()
        self.blocks = nn.ModuleList([block() for _ in range(blocks)])

    def compile_blocks(self, **options):
        for each in self.blocks:
            each.compile(backend=isthmus.torch.backend, options=options)

    def forward(self, x):
        for each in self.blocks:
            x = each(x) + x
        return x.square().mean()


def data(rows=384):
    return torch.randn(rows, WIDTH)


def in_pieces(budget, **options):
    """For `train`: compiled as PyTorch cuts it, within a budget for all of the pieces."""
    torch.compiler.reset()
    isthmus.torch.reset()
    return lambda f: torch.compile(f, backend=isthmus.torch.backend, options={"budget": budget, **options})


class Steps(unittest.TestCase):
    def holds(self, model, loss_of, budget, graphs, slack=0.05, **options):
        want = train(model, loss_of)
        got = train(model, loss_of, compiled=in_pieces(budget, **options))
        self.assertEqual(differences(want, got), [])
        return self.peak_holds(got.peak, graphs, slack)

    def peak_holds(self, peak, graphs, slack=0.05):
        (step,) = isthmus.torch.report().steps
        self.assertEqual(len(step.parts), graphs)
        self.assertLessEqual(peak, step.planned_peak_bytes)
        self.assertGreaterEqual(peak, (1 - slack) * step.planned_peak_bytes)
        if step.budget_bytes is not None:
            self.assertLessEqual(step.planned_peak_bytes, step.budget_bytes)
        return step

    def test_a_model_that_breaks_has_one_budget(self):
        torch.manual_seed(0)
        model, x = Halves(), data()
        whole = self.holds(model, lambda m: [m(x)], "100%", 2)
        self.assertEqual(whole.recomputed, 0)
        for budget in ("60%", whole.baseline_peak_bytes // 2, "min"):
            with self.subTest(budget=budget):
                step = self.holds(model, lambda m: [m(x)], budget, 2)
                self.assertEqual(step.baseline_peak_bytes, whole.baseline_peak_bytes)
                self.assertGreater(step.recomputed, 0)
        self.assertLess(step.planned_peak_bytes, 0.35 * whole.baseline_peak_bytes)

    def test_what_passes_between_graphs_is_counted_once(self):
        torch.manual_seed(0)
        model, x = AcrossBreaks(), data()
        for budget in ("100%", "70%", "min"):
            with self.subTest(budget=budget):
                self.holds(model, lambda m: [m(x)], budget, 3)

    def test_ops_between_graphs_keep_what_they_need(self):
        torch.manual_seed(0)
        model, x = Recurrent(), data(16 * 32)
        for budget in ("100%", "75%"):
            with self.subTest(budget=budget):
                self.holds(model, lambda m: [m(x)], budget, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
