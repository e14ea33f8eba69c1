"""Trains models within budgets with inductor's kernels: measured peaks are the planned ones, and graphs whose code takes more are planned again.

With ISTHMUS_FULL=1 in the environment, at more budgets and with a U-Net."""

import os
import sys
import time
import unittest
from unittest import mock

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
import command  # noqa: E402

command.with_python_of_torch()
os.environ["ISTHMUS_LIBRARY"] = os.path.abspath(os.environ["ISTHMUS_LIBRARY"])

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch._inductor.utils import run_and_get_code  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402
from isthmus.torch.inductor import memory, watch  # noqa: E402
from isthmus.torch.options import Options  # noqa: E402
from networks import ResNet, conv  # noqa: E402
from tasks import DenseNet, Outcome, Recurrent, Transformer, image_task, own_cache, segmentation_task, token_task  # noqa: E402
from training import train, with_isthmus  # noqa: E402

torch.set_num_threads(1)
FULL = bool(os.environ.get("ISTHMUS_FULL"))


class Rectified(nn.Module):
    """Computes masks from numbers of several types, in sizes that are no multiples of a vector register's."""

    def __init__(self):
        super().__init__()
        types = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
        self.parts = nn.ModuleList([nn.Sequential(nn.Linear(37, 37), nn.ReLU(), nn.Linear(37, 37), nn.ReLU()).to(t) for t in types])

    def forward(self, x):
        return torch.stack([part(x.to(part[0].weight.dtype)).float() for part in self.parts])


class Inductor(unittest.TestCase):
    """The models are small, because inductor compiles slowly. Gradients need not be equal bit by bit, because fused kernels may round
    differently."""

    def outcome(self, model, loss_of, budget):
        return self.planned_and_measured(Outcome(model, loss_of, budget, "inductor"))

    def check(self, task, *budgets):
        torch.manual_seed(0)
        model, loss_of = task()
        whole = self.outcome(model, loss_of, "100%")
        for budget in budgets:
            with self.subTest(budget=budget):
                less = self.outcome(model, loss_of, budget)
                self.assertLess(less.measured, 0.8 * whole.measured)
                for want, gradient in zip(whole.gradients, less.gradients, strict=True):
                    self.assertLessEqual((want - gradient).norm(), 1e-4 * want.norm() + 1e-7)
                self.assertTrue(torch.equal(whole.trained.draw, less.trained.draw))

    def planned_and_measured(self, got):
        (graph,) = got.graphs
        if graph.budget_bytes is not None:
            self.assertLessEqual(graph.planned_peak_bytes, graph.budget_bytes)
            self.assertLessEqual(got.measured, graph.budget_bytes)
        self.assertLessEqual(got.measured, graph.planned_peak_bytes)
        self.assertGreaterEqual(got.measured, 0.95 * graph.planned_peak_bytes)
        self.assertLessEqual(abs(got.measured / graph.inductor_peak_bytes - 1), 0.01)
        return got

    def test_transformer(self):
        self.check(lambda: token_task(Transformer(layers=1), 100), *(["70%"] if FULL else []), "min")

    @unittest.skipUnless(FULL, "its parts are in the other tests")
    def test_unet(self):
        self.check(segmentation_task, "min")

    def test_densenet(self):
        """Inductor's kernels write the parts of a concatenation into the result if that costs no memory."""
        self.check(lambda: image_task(DenseNet(layers=4)), "min")

    def test_max_pool(self):
        """Inductor generates the code of max pooling. This code makes none of the tensors that PyTorch's own code makes, and computes indices where
        it reads them."""
        torch.manual_seed(0)
        parts = conv(3, 16), nn.MaxPool2d(2), conv(16, 16), nn.AvgPool2d(16), nn.Flatten(), nn.Linear(16, 4)
        self.outcome(*image_task(nn.Sequential(*parts)), "min")

    def test_interpolation(self):
        """The backward of an interpolation adds parts to constants, and inductor computes both where it adds them."""
        torch.manual_seed(0)
        parts = conv(3, 8), nn.MaxPool2d(4), nn.Conv2d(8, 8, 1), nn.Upsample(scale_factor=4, mode="bilinear"), nn.Conv2d(8, 4, 1)
        model, x = nn.Sequential(*parts), torch.randn(4, 3, 32, 32)
        target = torch.randint(0, 4, (4, 32, 32))
        for budget in ("90%", "min") if FULL else ("min",):
            self.outcome(model, lambda m: F.cross_entropy(m(x), target), budget)

    def test_recurrent(self):
        """The gradients of the tokens are a concatenation of parts that are computed one by one during the whole backward."""
        self.check(lambda: token_task(Recurrent(), length=6), "min")

    def test_checkpointed_products(self):
        """PyTorch's own partitioner computes the products twice, so there are two storages of each."""
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 128))
        x = torch.randn(512, 128)
        self.outcome(layers, lambda m: checkpoint(m, x, use_reentrant=False).square().mean(), "min")

    def test_masks_are_kept_as_integers(self):
        """Masks are kept as integers, because inductor's C++ writes and reads bools one by one."""
        torch.manual_seed(0)
        model, loss_of = image_task(ResNet(blocks=2))
        loss = with_isthmus("50%", kernels="inductor", inductor={"fx_graph_cache": False})(lambda: loss_of(model))
        _, code = run_and_get_code(lambda: loss().backward())
        self.assertEqual([("uint8_t*" in half, "bool*" in half) for half in code], [(True, False)] * 2)

    def test_masks_of_all_types_of_numbers(self):
        torch.manual_seed(0)
        model, x = Rectified(), torch.randn(133, 37)
        plain = train(model, lambda m: [m(x).square().mean()], steps=1)
        compiled = with_isthmus("60%", kernels="inductor", inductor={"fx_graph_cache": False})
        got, code = run_and_get_code(lambda: train(model, lambda m: [m(x).square().mean()], steps=1, compiled=compiled))
        self.assertIn("uint8_t*", code[1])
        for want, gradient in zip(plain.gradients, got.gradients, strict=True):
            self.assertLessEqual((want - gradient).norm(), 1e-6 * want.norm())

    def test_code_is_found_in_inductors_caches(self):
        torch.manual_seed(0)
        model, x = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64)), torch.randn(256, 64)
        peaks = []
        with own_cache():
            for hits in (0, 2):  # a forward and a backward
                torch._dynamo.utils.counters.clear()
                with_isthmus("min", kernels="inductor")(lambda: model(x).square().mean())().backward()
                self.assertEqual(torch._dynamo.utils.counters["inductor"]["fxgraph_cache_hit"], hits)
                peaks.append(isthmus.torch.report().graphs[0].inductor_peak_bytes)
        self.assertIsNotNone(peaks[0])
        self.assertEqual(peaks[1], peaks[0])


class FunctionEnds(unittest.TestCase):
    def test_no_function_ends_after_a_node_without_code(self):
        def use(name, allocated, freed, joins=True, is_empty=False):
            return memory.Use(name, allocated, 0, freed, joins, is_empty)

        nodes = [use("part", 10, 10), use("whole", 0, 3, is_empty=True), use("reader", 10, 0), use("product", 5, 0, joins=False)]
        code = mock.Mock(inputs=3, uses=lambda: iter(nodes))
        names = {id(u.node): u.node for u in nodes}
        self.assertEqual({names[i] for i in memory.function_ends(code, 15)}, {"part"})
        self.assertEqual(memory.function_ends(code, 23), set())


class Replanning(unittest.TestCase):
    """A patch adds bytes to those that are counted, as if inductor's code took more memory than it does."""

    def setUp(self):
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(4)])
        self.x = torch.randn(256, 64)

    def loss(self):
        h = self.x
        for layer in self.layers:
            h = h + torch.tanh(layer(h)).exp()
        return h.square().mean()

    def run_with(self, extra_bytes, budget="80%", caches=False, **options):
        """Returns the graph's report, and the live bytes of each code that was counted to its end."""
        counted = []
        lives = watch.live_at_nodes

        def more(*args):
            counted.append([(node, live + extra_bytes) for node, live in lives(*args)])
            return counted[-1]

        call = with_isthmus(budget, kernels="inductor", inductor={"fx_graph_cache": caches}, **options)(self.loss)
        with mock.patch.object(watch, "live_at_nodes", more):
            call().backward()
        (graph,) = isthmus.torch.report().graphs
        return graph, counted

    shared = {}  # what several tests look at, by name

    def fitting(self):
        """Returns what `run_with` returns for code that takes what was planned."""
        if "fitting" not in self.shared:
            self.shared["fitting"] = self.run_with(0)
        return self.shared["fitting"]

    def exceeding(self):
        """Returns the same for code that takes a twentieth of the budget more, and the plans, each of which takes a second more than it
        needs."""
        if "exceeding" not in self.shared:
            plan, plans = Options.plan, []

            def slow(*args, **options):
                time.sleep(1)
                plans.append(plan(*args, **options))
                return plans[-1]

            before, _ = self.fitting()
            with mock.patch.object(Options, "plan", slow):
                self.shared["exceeding"] = (*self.run_with(before.budget_bytes // 20), plans)
        return self.shared["exceeding"]

    def test_what_fits_is_compiled_once(self):
        graph, counted = self.fitting()
        self.assertEqual(len(counted), 2)  # forward and backward
        self.assertLessEqual(graph.inductor_peak_bytes, graph.budget_bytes)

    def test_the_excess_comes_off_the_plan(self):
        (before, _), (graph, counted, _) = self.fitting(), self.exceeding()
        self.assertGreater(len(counted), 2)
        self.assertEqual(graph.budget_bytes, before.budget_bytes)
        self.assertLess(graph.planned_peak_bytes, before.planned_peak_bytes)
        self.assertLessEqual(graph.inductor_peak_bytes, graph.budget_bytes)

    def test_the_time_of_all_plans_is_told(self):
        graph, _, plans = self.exceeding()
        self.assertGreater(len(plans), 1)
        self.assertGreaterEqual(graph.plan_seconds, len(plans))

    def test_the_least_peak_is_that_of_the_code(self):
        """Of three plans, the one whose code takes least is used, and the planned peak is what its code takes."""
        graph, counted = self.run_with(1 << 20, budget="min")
        self.assertEqual(graph.replans, 2)
        self.assertGreater(len(counted), 3)
        self.assertGreater(graph.planned_peak_bytes, 1 << 20)
        self.assertEqual(graph.planned_peak_bytes, graph.inductor_peak_bytes)

    def test_a_budget_that_the_least_plan_meets_is_met(self):
        """The last plan is for the least peak, even if the budgets of earlier plans were lowered much too far."""
        least, _ = self.run_with(0, budget="min")
        graph, _ = self.run_with(1 << 30, budget=least.inductor_peak_bytes + (1 << 30))
        self.assertLessEqual(graph.inductor_peak_bytes, graph.budget_bytes)

    def test_after_three_more_plans_it_is_an_error(self):
        with self.assertRaises(torch._dynamo.exc.BackendCompilerFailed) as caught:
            self.run_with(1 << 30)
        self.assertIsInstance(caught.exception.inner_exception, isthmus.CannotBeMet)
        self.assertIn("with what inductor makes of 4 plans the least peak is", str(caught.exception.inner_exception))

    def test_or_a_warning(self):
        with self.assertWarnsRegex(UserWarning, "the last one is taken"):
            graph, _ = self.run_with(1 << 30, strict=False)
        self.assertGreater(graph.inductor_peak_bytes, 1 << 30)

    def test_code_of_which_was_warned_is_no_way_around_the_error(self):
        with own_cache():
            with self.assertWarnsRegex(UserWarning, "the last one is taken"):
                self.run_with(1 << 30, caches=True, strict=False)
            with self.assertRaises(torch._dynamo.exc.BackendCompilerFailed):
                self.run_with(1 << 30, caches=True)


if __name__ == "__main__":
    command.main()
