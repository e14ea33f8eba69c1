"""Trains with sizes that vary. A budget in bytes holds for every size that runs, planned before it runs; gradients are eager's bit for bit; and PyTorch
compiles no more often than without a budget."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
import command  # noqa: E402

command.with_python_of_torch()

import unittest  # noqa: E402
import warnings  # noqa: E402
from unittest import mock  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402
from isthmus.torch.options import Options  # noqa: E402
from isthmus.torch.plans.by_size import BySize, Entry, holds, with_room  # noqa: E402

torch.set_num_threads(1)
WIDTH, MIB = 64, 1 << 20


class Jagged(unittest.TestCase):
    def test_rows_of_any_length_in_one_tensor(self):
        """The length of a jagged tensor has a symbol, and no hint that is a number."""
        model = nn.Linear(WIDTH, WIDTH)
        rows = torch.nested.nested_tensor([torch.randn(30, WIDTH), torch.randn(7, WIDTH)], layout=torch.jagged)
        gradients = []
        for options in {"backend": "aot_eager"}, {"backend": "isthmus", "options": {"budget": "100%"}}:
            model.zero_grad()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.compile(lambda x: model(x), **options)(rows).values().square().mean().backward()
            gradients.append(model.weight.grad)
        self.assertTrue(torch.equal(*gradients))


class Texts(nn.Module):
    """A model of texts of any length. It returns its loss, in one graph or, with a break, in two; or what a loss outside is computed of."""

    def __init__(self, breaks=False, has_loss=True):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(4)])
        self.breaks, self.has_loss = breaks, has_loss

    def forward(self, tokens):
        h = tokens
        for block in self.blocks[:2]:
            h = h + block(h)
        if self.breaks:
            torch._dynamo.graph_break()
        for block in self.blocks[2:]:
            h = h + block(h)
        return h.square().mean() if self.has_loss else h


class Experts(nn.Module):
    """A mixture of experts: how many tokens an expert gets depends on the data."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, 3)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(3)])

    def forward(self, tokens):
        h = tokens.flatten(0, 1)
        best = self.gate(h).argmax(1)
        out = torch.zeros_like(h)
        for k, expert in enumerate(self.experts):
            rows = torch.nonzero(best == k).squeeze(1)
            out = out.index_add(0, rows, expert(h[rows]))
        return (out + h).square().mean()


class Training:
    def __init__(self, model, loss=lambda h: h, **how):
        torch.compiler.reset()
        isthmus.torch.reset()
        self.model, self.loss = model, loss
        self.call = isthmus.torch.fit(model, **how) if how else model

    def step(self, length, batch=4):
        """Runs a step and returns its peak and the gradients."""
        tokens = torch.linspace(-1, 1, batch * length * WIDTH).view(batch, length, WIDTH)
        self.model.zero_grad()
        peak = isthmus.torch.measured_peak(lambda: self.loss(self.call(tokens)).backward())
        return peak, [p.grad.clone() for p in self.model.parameters() if p.grad is not None]


def compilations():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


class Sizes(unittest.TestCase):
    def holds(self, make, lengths, budget, loss=lambda h: h, rounds=2, **how):
        """Trains with each length. Checks gradients, peaks, and how often PyTorch has compiled."""
        torch.manual_seed(0)
        model = make()
        plain = Training(model, loss)
        want = {n: plain.step(n)[1] for n in lengths}
        torch._dynamo.utils.counters.clear()
        stock = torch.compile(model, backend="aot_eager", dynamic=how.get("dynamic"))
        for n in lengths:
            loss(stock(torch.randn(4, n, WIDTH))).backward()
        most = compilations()
        torch._dynamo.utils.counters.clear()
        training = Training(model, loss, budget=budget, **how)
        for r in range(rounds):
            for n in lengths:
                peak, got = training.step(n)
                self.assertTrue(all(map(torch.equal, want[n], got)), n)
                # The first step of a size in several graphs may be one in which they are compiled.
                self.assertLessEqual(peak, budget, f"{n} in round {r}")
        self.assertLessEqual(compilations(), most)
        model._compiled_call_impl = None
        return isthmus.torch.report()

    def test_a_budget_in_bytes_holds_for_every_length(self):
        for lengths in ((32, 48, 96, 160, 256), (256, 160, 96, 48, 32), (100, 20, 230, 150, 250, 60)):
            with self.subTest(lengths=lengths), warnings.catch_warnings():
                warnings.simplefilter("error")
                report = self.holds(Texts, lengths, 5 * MIB)
                self.assertEqual(report.larger, ())

    def test_small_sizes_are_not_recomputed_for_the_sake_of_large_ones(self):
        torch.manual_seed(0)
        training = Training(Texts(), budget=5 * MIB, dynamic=True)
        recomputed = []
        for n in (32, 256, 40):
            training.step(n)
            (graph,) = isthmus.torch.report()
            recomputed.append(graph.recomputed)
        self.assertEqual((recomputed[0], recomputed[2]), (0, 0))
        self.assertGreater(recomputed[1], 0)

    def test_sizes_that_grow_little_by_little_need_few_plans(self):
        """A schedule is taken for larger sizes as long as it keeps to the budget there, and a new one has room for larger ones."""
        torch.manual_seed(0)
        training = Training(Texts(), budget=5 * MIB, dynamic=True)
        with mock.patch.object(Options, "plan", autospec=True, side_effect=Options.plan) as plan:
            for n in range(32, 272, 8):
                self.assertLessEqual(training.step(n)[0], 5 * MIB)
        self.assertLessEqual(plan.call_count, 6)

    def test_the_largest_size_is_planned_at_once(self):
        """Whether the option or `mark_dynamic` gives it: then there is one plan, and its peak is that of the largest size."""
        for way in ("sizes", "mark_dynamic", "sizes by fit"):
            with self.subTest(way=way):
                torch.manual_seed(0)
                how = {"dynamic": True, "sizes": {"tokens": {1: (1, 256)}}} if way != "mark_dynamic" else {}
                training = Training(Texts(), budget=5 * MIB, **how)
                with mock.patch.object(Options, "plan", autospec=True, side_effect=Options.plan) as plan:
                    peaks = {}
                    for n in (32, 200, 256, 100):
                        tokens = torch.randn(4, n, WIDTH)
                        if way == "mark_dynamic":
                            torch._dynamo.mark_dynamic(tokens, 1, min=1, max=256)
                        training.model.zero_grad()
                        peaks[n] = isthmus.torch.measured_peak(lambda: training.call(tokens).backward())
                self.assertEqual(plan.call_count, 1)
                (graph,) = isthmus.torch.report()
                self.assertEqual(max(size for _, size in graph.sizes), 256)
                self.assertLessEqual(peaks[256], graph.planned_peak_bytes)
                self.assertGreater(peaks[256], 0.97 * graph.planned_peak_bytes)
                self.assertLessEqual(max(peaks.values()), 5 * MIB)

    def test_a_tensor_that_is_larger_for_smaller_sizes_is_counted_and_named(self):
        class Padded(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(WIDTH, WIDTH)

            def forward(self, tokens):
                rest = torch.ones(4, 256 - tokens.shape[1], 16 * WIDTH).sin().exp()
                return self.linear(tokens).square().mean() * (rest * rest.sum()).sin().sum()

        torch.manual_seed(0)
        training = Training(Padded(), budget=64 * MIB, dynamic=True, sizes={"tokens": {1: (8, 240)}})
        peaks = [training.step(n)[0] for n in (200, 8, 16)]
        (graph,) = isthmus.torch.report()
        self.assertIn("exp", graph.largest_below)
        self.assertGreater(peaks[1], 2 * peaks[0])
        self.assertLessEqual(max(peaks), graph.planned_peak_bytes)

    def test_a_size_for_which_the_budget_cannot_be_met_is_refused_before_it_runs(self):
        training = Training(Texts(), budget=2 * MIB, dynamic=True)
        training.step(32)
        ran = []
        training.model.blocks[0].register_forward_hook(lambda *_: ran.append(1))
        with self.assertRaisesRegex(isthmus.CannotBeMet, r"with sizes s\d+=\d+, s\d+=1024, a budget of 2.0 MiB cannot be met|s\d+=1024, a budget of"):
            training.step(1024)
        self.assertEqual(ran, [])
        self.assertLessEqual(training.step(48)[0], 2 * MIB)
        (graph,) = isthmus.torch.report()
        self.assertLess(dict(graph.sizes).popitem()[1], 100, "the plan is the one before")
        with self.assertRaisesRegex(isthmus.CannotBeMet, "cannot be met"):
            Training(Texts(), budget=2 * MIB, dynamic=True, sizes={"tokens": {1: (1, 1024)}}).step(32)

    def test_without_strict_it_is_one_warning(self):
        training = Training(Texts(), budget=2 * MIB, dynamic=True, strict=False)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for n in (32, 1024, 1024, 1024, 32):
                training.step(n)
        said = [str(w.message) for w in caught if "cannot be met" in str(w.message)]
        self.assertEqual(len(said), 1, said)

    def test_a_loss_outside(self):
        """What it needs for a larger size is foreseen from smaller ones, before the step runs."""

        def loss(h):
            return torch.cat([h] * 8).exp().square().mean()

        self.holds(lambda: Texts(has_loss=False), (48, 48, 48, 96, 96, 160, 160, 48), 8 * MIB, loss=loss, dynamic=True)
        self.assertGreater(len(isthmus.torch.report().steps), 0)
        training = Training(Texts(has_loss=False), loss, budget=8 * MIB, dynamic=True)
        for _ in range(4):
            training.step(48)
        ran = []
        training.model.blocks[0].register_forward_hook(lambda *_: ran.append(1))
        with self.assertRaisesRegex(isthmus.CannotBeMet, r"with sizes s\d+=4, s\d+=400, a budget of 8.0 MiB cannot be met: the step runs one graph"):
            training.step(400)
        self.assertEqual(ran, [])

    def test_several_graphs(self):
        self.holds(lambda: Texts(breaks=True), (48, 48, 48, 96, 96, 160, 160, 48), 6 * MIB, dynamic=True)
        self.assertGreater(len(isthmus.torch.report().steps), 0)

    def test_a_mixture_of_experts(self):
        with mock.patch.object(torch._dynamo.config, "capture_dynamic_output_shape_ops", True):
            self.holds(Experts, (32, 48, 96, 128), 6 * MIB, dynamic=True)

    def test_inductors_kernels(self):
        torch.manual_seed(0)
        training = Training(Texts(), budget=4 * MIB, dynamic=True, kernels="inductor")
        for n in (48, 128, 250, 48):
            for _ in range(2):
                peak = training.step(n)[0]
            self.assertLessEqual(peak, 4 * MIB)
            (graph,) = isthmus.torch.report()
            self.assertLessEqual(peak, 1.01 * graph.inductor_peak_bytes)

    def test_options_that_are_wrong(self):
        for sizes in ({"x": {1: (5, 4)}}, {"x": {1: 4}}, {"x": 4}, {"x": {1: ("a", "b")}}, 3):
            with self.assertRaisesRegex(isthmus.BadInput, "sizes are the least and the most by argument and axis"):
                Options("2GB", sizes=sizes)
        training = Training(Texts(), budget=64 * MIB, sizes={"tokenz": {1: (1, 256)}})
        with self.assertWarnsRegex(UserWarning, "no graph has an argument 'tokenz'"):
            for _ in range(2):
                training.step(32)


class Tables(unittest.TestCase):
    def test_the_cheapest_plan_that_holds_is_found(self):
        table = BySize()
        table.add(Entry({"b": 4, "n": 64}, 0.0, "small"))
        table.add(Entry({"b": 4, "n": 256}, 0.5, "large"))
        self.assertEqual(table.find({"b": 2, "n": 64}).planned, "small")
        self.assertEqual(table.find({"b": 4, "n": 65}).planned, "large")
        self.assertIsNone(table.find({"b": 5, "n": 8}))
        table.add(Entry({"b": 8, "n": 256}, 0.0, "free"))  # it costs no more than the others, and holds for more
        self.assertEqual([e.planned for e in table.entries], ["free"])
        self.assertEqual(table.largest(), {"b": 8, "n": 256})
        self.assertTrue(holds({"n": 4}, {"n": 4}))
        self.assertFalse(holds({}, {"n": 4}))

    def test_room_for_larger_sizes(self):
        self.assertEqual(with_room({"b": 4, "n": 100}, {"b": 4, "n": 64}, {}), {"b": 4, "n": 125})
        self.assertEqual(with_room({"n": 100}, {"n": 64}, {"n": 110}), {"n": 110})
        self.assertEqual(with_room({"n": 120}, {"n": 64}, {"n": 110}), {"n": 120})


if __name__ == "__main__":
    command.main()
