"""Tests what an error says of a budget that cannot be met: which bytes no plan saves, the nearest budget and its price, and what helps."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
import command  # noqa: E402

command.with_python_of_torch()

import re  # noqa: E402
import unittest  # noqa: E402
import warnings  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts  # noqa: E402

import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402
from isthmus.torch.amounts import at_least  # noqa: E402
from isthmus.budget import parse_budget  # noqa: E402

torch.set_num_threads(1)
WIDTH = 64


class Blocks(nn.Module):
    def __init__(self, width=WIDTH, breaks=False):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(4)])
        self.breaks = breaks

    def forward(self, x):
        for block in self.blocks[:2]:
            x = x + block(x)
        if self.breaks:
            torch._dynamo.graph_break()
        for block in self.blocks[2:]:
            x = x + block(x)
        return x.square().mean()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.lstm = Blocks(), nn.LSTM(WIDTH, 4 * WIDTH, batch_first=True)

    def forward(self, x):
        for block in self.first.blocks:
            x = x + block(x)
        return self.lstm(x.view(-1, 32, WIDTH))[0].square().mean()


def refused(model, x, steps=4, **options):
    """Trains until a budget is refused, and returns the error's text."""
    torch.compiler.reset()
    isthmus.torch.reset()
    call = isthmus.torch.fit(model, **options)
    try:
        for _ in range(steps):
            model.zero_grad()
            call(x).backward()
    except isthmus.CannotBeMet as e:
        return str(e)
    finally:
        model._compiled_call_impl = None
    raise AssertionError("the budget was met")


class Refusals(unittest.TestCase):
    def test_gradients_are_named(self):
        """Four rows: nearly all of the step's memory is gradients."""
        model = Blocks(256)
        size = sum(4 * p.numel() for p in model.parameters())
        text = refused(model, torch.randn(4, 256), budget="40%")
        told = float(re.search(r"of it ([\d.]+) MiB are gradients, which no plan saves", text).group(1))
        self.assertLessEqual(told, size / 2**20 + 0.05)
        self.assertGreater(told, 0.8 * size / 2**20)

    def test_what_a_checkpoint_policy_saves_is_named(self):
        def policies():
            return create_selective_checkpoint_contexts([torch.ops.aten.addmm.default])  # MUST_SAVE; others are recomputed

        class Selective(Blocks):
            def forward(self, x):
                for block in self.blocks:
                    x = x + checkpoint(block, x, use_reentrant=False, context_fn=policies)
                return x.square().mean()

        text = refused(Selective(), torch.randn(1024, WIDTH), budget="60%")
        told = float(re.search(r"([\d.]+) MiB are results of aten\.addmm in blocks\.\d\.\d and its like, .*\(MUST_SAVE\)", text).group(1))
        self.assertIn(told, (2.0, 3.0, 4.0), "the first layer of each of four blocks makes 1 MiB")

    def test_gradients_within_the_function_are_told(self):
        def gradients(parameters, x):
            return torch.func.grad(lambda p: torch.func.functional_call(model, p, (x,)).square().mean())(parameters)

        model, x = nn.Linear(8, 8), torch.randn(4, 8)
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        isthmus.torch.reset()
        with self.assertWarnsRegex(UserWarning, "takes gradients by torch.func.grad .* nothing of it is planned, .* a budget of 1KiB is not kept"):
            found = torch.compile(gradients, backend="isthmus", options={"budget": "1KiB"})(parameters, x)
        wanted = gradients(parameters, x)
        self.assertTrue(all(torch.equal(found[name], wanted[name]) for name in wanted))

    def test_an_op_that_needs_more_than_the_budget_is_named(self):
        text = refused(Blocks(), torch.randn(1024, WIDTH), budget="256KiB")
        op, size = re.search(r"; (aten\.\w+ in blocks\.\d\.\d) needs ([\d.]+) MiB by itself, which is more than the budget", text).groups()
        self.assertEqual(op.partition(" ")[0], "aten.gelu_backward")
        self.assertEqual(float(size), 3.0, "two operands and a result, each of 1024 rows of 256 numbers")

    def test_the_nearest_budget_can_be_met_at_its_price(self):
        for budget in ("256KiB", "5%"):
            with self.subTest(budget=budget):
                model, x = Blocks(), torch.randn(1024, WIDTH)
                text = refused(model, x, budget=budget)
                wanted, price = re.search(r'ask for "([^"]+)" or more, which adds ([\d.]+)% to the step\'s time', text).groups()
                torch.compiler.reset()
                isthmus.torch.reset()
                for _ in range(3):
                    model.zero_grad()  # as in the step that was refused: its gradients were not added to others
                    isthmus.torch.fit(model, budget=wanted)(x).backward()
                (graph,) = isthmus.torch.report()
                self.assertLessEqual(graph.planned_peak_bytes, graph.budget_bytes)
                self.assertLessEqual(100 * graph.added_cost, float(price) + 0.1)

    def test_what_runs_outside_and_where_the_graph_ends(self):
        text = refused(Recurrent(), torch.randn(512, WIDTH), budget="20%")
        self.assertRegex(text, r"MiB (between|outside).* by aten::lstm")
        self.assertIn("torch._dynamo.config.allow_rnn = True lets PyTorch take recurrent layers apart", text)
        self.assertRegex(text, r"refusals_test\.py:\d+ in forward")
        text = refused(Blocks(breaks=True), torch.randn(1024, WIDTH), budget="256KiB")
        self.assertRegex(text, r"PyTorch ends the graph early: .*refusals_test\.py:\d+ in forward")
        self.assertNotIn("allow_rnn", text)

    def test_a_step_of_several_graphs(self):
        text = refused(Blocks(breaks=True), torch.randn(1024, WIDTH), budget="10%")
        self.assertRegex(text, r"the step runs 2 graphs.* is what aten\.gelu_backward in blocks\.\d\.\d needs by itself")

    def test_without_strict_there_is_one_warning_of_the_whole_step(self):
        for breaks in (False, True):
            for budget in ("256KiB", "5%"):
                with self.subTest(breaks=breaks, budget=budget), warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    torch.compiler.reset()
                    isthmus.torch.reset()
                    model = isthmus.torch.fit(Blocks(breaks=breaks), budget=budget, strict=False)
                    for _ in range(6):
                        model(torch.randn(1024, WIDTH)).backward()
                    (said,) = [str(w.message) for w in caught if issubclass(w.category, UserWarning) and "budget" in str(w.message)]
                    self.assertRegex(said, r'that is taken, which adds [\d.]+% to the step\'s time; to have a budget that is kept, ask for "')
                    self.assertIn("the step runs 2 graphs" if breaks else "this graph", said)

    def test_amounts_that_are_asked_for_are_no_less(self):
        for size in (1, 1023, 1024, 1025, 5279040, 10**9, 2**30 + 1, 24 * 10**9):
            asked = parse_budget(at_least(size)).bytes
            self.assertGreaterEqual(asked, size)
            self.assertLess(asked, 1.11 * size + 1)


if __name__ == "__main__":
    command.main()
