"""Tests the layout of pictures with inductor's kernels on a CPU: the plan, its costs, the forward and the backward have the same."""

import contextlib
import os
import re
import sys
import tempfile
import unittest
from unittest import mock

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
import command  # noqa: E402

command.with_python_of_torch()
os.environ["ISTHMUS_LIBRARY"] = os.path.abspath(os.environ["ISTHMUS_LIBRARY"])

import torch  # noqa: E402
import torch._inductor.config  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch._inductor.utils import run_and_get_code  # noqa: E402

import isthmus.torch  # noqa: E402
from isthmus.torch.plans import planner  # noqa: E402
from isthmus.torch.graph.costs import Costs, signature  # noqa: E402
from networks import ResNet, UNet, conv  # noqa: E402
from training import train, with_isthmus  # noqa: E402

torch.set_num_threads(1)

_RESULT = re.compile(r"^ *assert_(?:size_stride|tensor_metadata)\(\w+, \((\d+), (\d+), (\d+), (\d+)\), (\([\d, ]+\)), .*'torch\.ops\.aten\.(convolution\w*)", re.M)


def have_channels_last(code):
    """Returns a set with True if results of convolutions in inductor's code, including weight gradients, have channels last; False if not."""
    found = [(tuple(map(int, m.groups()[:4])), tuple(map(int, m[5].strip("()").split(",")))) for m in _RESULT.finditer(code)]
    assert found, code
    return {strides[1] == 1 for shape, strides in found if shape[1] > 1 and shape[2] > 1}


@contextlib.contextmanager
def planned_graphs():
    """Collects the joint graphs that are planned in the block."""
    graphs = []
    extract = planner.extract

    def noting(gm, *args, **options):
        graphs.append(gm.graph)
        return extract(gm, *args, **options)

    with mock.patch.object(planner, "extract", noting):
        yield graphs


def convolutions(graph):
    return [n for n in graph.nodes if str(n.target).startswith("aten.convolution")]


class Outcome:
    """The results of training steps, inductor's code for them, the joint graph, and the report."""

    def __init__(self, model, loss_of, budget="min", **options):
        options["inductor"] = {"fx_graph_cache": False, **options.get("inductor", {})}
        compiled = with_isthmus(budget, kernels="inductor", **options)
        with planned_graphs() as graphs:
            self.trained, code = run_and_get_code(lambda: train(model, lambda m: [loss_of(m)], steps=1, compiled=compiled))
        self.forward_code, self.backward_code = code[:2]
        self.joint_graph = graphs[0]
        (self.report,) = isthmus.torch.report().graphs


def pictures(channels=3, batch=4, side=16):
    torch.manual_seed(0)
    return torch.randn(batch, channels, side, side)


class Layout(unittest.TestCase):
    def check(self, model, loss_of, *, channels_last, budgets=("min",)):
        """Checks that gradients equal plain PyTorch's up to rounding, that the layout is as given, and that peaks are within the plan."""
        plain = train(model, lambda m: [loss_of(m)], steps=1)
        outcomes = [Outcome(model, loss_of, budget) for budget in budgets]
        for budget, got in zip(budgets, outcomes):
            with self.subTest(budget=budget):
                self.assertEqual(got.report.channels_last, channels_last)
                self.assertEqual("channels last" in str(got.report), channels_last)
                for code in (got.forward_code, got.backward_code):
                    self.assertEqual(have_channels_last(code), {channels_last})
                self.assert_close(plain.gradients, got.trained.gradients)
                self.assertEqual([g.stride() for g in plain.gradients], [g.stride() for g in got.trained.gradients])
                self.assertLessEqual(got.trained.peak, got.report.planned_peak_bytes)
                self.assertLessEqual(got.report.inductor_peak_bytes, got.report.planned_peak_bytes)
        return outcomes

    def check_that_keeps_it(self, model, x):
        """Checks that the plan keeps the layout of the model."""
        (graph,) = isthmus.torch.explain(lambda: model(x).square().mean(), budget="100%", prices=False, kernels="inductor").graphs
        self.assertFalse(graph.report.channels_last)

    def assert_close(self, want, got):
        """Allows 1e-3, because PyTorch's own kernels differ by 5e-4 with the channels last. The gradient of a bias before a normalization is
        0 up to rounding, so it may differ by 1e-5 of the largest gradient."""
        largest = max(w.norm() for w in want)
        for w, g in zip(want, got, strict=True):
            self.assertLessEqual((w - g).norm(), 1e-3 * w.norm() + 1e-5 * largest)

    def test_a_residual_network_has_them_last_in_both_halves(self):
        """The backward's recomputed convolutions have the same layout, and the gradients have the same bits as without recomputation."""
        x = pictures(side=32)
        outcomes = self.check(ResNet(blocks=2), lambda m: m(x).square().mean(), channels_last=True, budgets=("100%", "70%", "min"))
        whole, *others = outcomes
        self.assertNotIn("extern_kernels.convolution(", whole.backward_code)
        self.assertIn("extern_kernels.convolution(", others[-1].backward_code)
        for less in others:
            self.assertTrue(all(map(torch.equal, whole.trained.gradients, less.trained.gradients)))
        for got in outcomes:
            self.assertGreaterEqual(got.report.inductor_peak_bytes, 0.92 * got.report.planned_peak_bytes)
        self.assertLess(others[-1].trained.peak, 0.5 * whole.trained.peak)

    def test_interpolation_keeps_the_layout_of_the_model(self):
        """The backward of interpolation scatters, which is slower with the channels last."""
        x = pictures()
        self.check(UNet(conv, [3, 8, 16]), lambda m: m(x).square().mean(), channels_last=False)

    def test_strides_that_are_read_by_number_keep_it(self):
        class Windows(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = conv(3, 8), conv(8, 8)

            def forward(self, x):
                x = self.first(x).contiguous()
                windows = x.as_strided((4, 8, 15, 15, 2), (8 * 16 * 16, 16 * 16, 16, 1, 1))
                return self.last(windows.amax(4))

        x = pictures()
        self.check(Windows(), lambda m: m(x).square().mean(), channels_last=False)

    def test_convolutions_of_all_kinds(self):
        class Kinds(nn.Module):
            """Strided, dilated and grouped convolutions, and one that runs twice."""

            def __init__(self):
                super().__init__()
                self.strided = nn.Conv2d(3, 16, 5, stride=2, padding=2)
                self.dilated = nn.Conv2d(16, 16, 3, padding=2, dilation=2)
                self.grouped = nn.Conv2d(16, 16, 3, padding=1, groups=4)
                self.even = nn.Conv2d(16, 8, 2)
                self.twice = nn.Conv2d(8, 8, 3, padding=1)

            def forward(self, x):
                x = F.relu(self.strided(x))
                x = x + torch.tanh(self.grouped(F.silu(self.dilated(x))))
                x = self.even(F.gelu(x))
                return self.twice(F.relu(self.twice(x)))

        x = pictures()
        self.check(Kinds(), lambda m: m(x).square().mean(), channels_last=True)

    def test_weights_that_are_one_wide_keep_it(self):
        """Inductor would copy the pictures of a depthwise or a 1x1 convolution into another layout."""
        x = pictures()
        for narrow in (nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.Conv2d(8, 8, 1)):
            with self.subTest(narrow=narrow):
                model = nn.Sequential(conv(3, 8), narrow, conv(8, 8))
                self.check_that_keeps_it(model, x)

    def test_pools_and_a_flat_head(self):
        """A picture is copied into the old layout before it is viewed as a vector."""

        class Pools(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = conv(3, 8), conv(8, 8)
                self.head = nn.Linear(8 * 4 * 4, 5)

            def forward(self, x):
                x = self.second(F.max_pool2d(self.first(x), 2))
                return self.head(F.avg_pool2d(x, 2).flatten(1))

        x = pictures()
        self.check(Pools(), lambda m: m(x).square().mean(), channels_last=True)

    def test_the_caller_sees_the_strides_of_the_model(self):
        """Results of the forward and the gradient of an input picture keep the model's strides."""
        model = nn.Sequential(conv(3, 8), conv(8, 8))
        compiled = with_isthmus("min", kernels="inductor")(model)
        seen = []
        for call in (model, compiled):
            x = pictures().requires_grad_()
            y = call(x)
            y.square().mean().backward()
            seen.append((y.stride(), x.grad.stride(), y.detach(), x.grad))
        self.assertEqual(seen[0][:2], seen[1][:2])
        self.assert_close(seen[0][2:], seen[1][2:])
        (graph,) = isthmus.torch.report().graphs
        self.assertTrue(graph.channels_last)

    def test_dropout_draws_what_it_draws_in_the_layout_of_the_model(self):
        model = nn.Sequential(conv(3, 8), nn.Dropout(0.5), conv(8, 8), nn.Dropout2d(0.5))
        x = pictures()
        one, other = (Outcome(model, lambda m: m(x).square().mean(), **o) for o in ({}, {"inductor": {"layout_optimization": False}}))
        self.assertEqual([one.report.channels_last, other.report.channels_last], [True, False])
        self.assert_close(other.trained.gradients, one.trained.gradients)
        self.assertTrue(torch.equal(one.trained.draw, other.trained.draw))

    def test_what_the_user_sets_wins(self):
        x = pictures()
        model = conv(3, 8)
        for setting in (True, False):
            with self.subTest(setting=setting):
                got = Outcome(model, lambda m: m(x).square().mean(), inductor={"layout_optimization": setting})
                self.assertFalse(got.report.channels_last)
                self.assertEqual(have_channels_last(got.forward_code), {setting})
        with torch._inductor.config.patch(layout_optimization=False):
            got = Outcome(model, lambda m: m(x).square().mean())
            self.assertEqual(have_channels_last(got.forward_code), {False})

    def test_concatenations_keep_it(self):
        """With the channels last, inductor would keep the parts live beside the result, which plans do not expect."""

        class Dense(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second, self.third = conv(3, 8), conv(8, 8), conv(16, 8)

            def forward(self, x):
                x = self.first(x)
                return self.third(torch.cat([x, self.second(x)], 1))

        x, model = pictures(), Dense()
        self.check_that_keeps_it(model, x)

    def test_few_convolutions_among_much_else_keep_it(self):
        class Patches(nn.Module):
            def __init__(self):
                super().__init__()
                self.patches = nn.Conv2d(3, 16, 4, stride=4)
                self.layers = nn.ModuleList([nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) for _ in range(10)])

            def forward(self, x):
                x = self.patches(x).flatten(2).transpose(1, 2)
                for layer in self.layers:
                    x = layer(x)
                return x

        x, model = pictures(), Patches()
        self.check_that_keeps_it(model, x)

    def test_sizes_that_change_keep_it(self):
        model = nn.Sequential(conv(3, 8), conv(8, 8))
        torch.compiler.reset()
        isthmus.torch.reset()
        call = torch.compile(model, backend="isthmus", dynamic=True, options={"budget": "min", "kernels": "inductor"})
        for side in (16, 24):
            x = pictures(side=side)
            want, got = (torch.autograd.grad(f(x).square().mean(), list(model.parameters())) for f in (model, call))
            self.assert_close(want, got)
        self.assertFalse(any(graph.channels_last for graph in isthmus.torch.report().graphs))

    def test_costs_are_those_of_the_layout_that_runs(self):
        x, model = pictures(), nn.Sequential(conv(3, 8), conv(8, 8))

        def loss_of(m):
            return m(x).square().mean()

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "costs.json")
            isthmus.torch.measure(lambda: loss_of(model), path=path)
            table = Costs.load(path).table
            last = Outcome(model, loss_of, costs=path)
            as_written = Outcome(model, loss_of, costs=path, inductor={"layout_optimization": False})
        keys = [{signature(n) for n in convolutions(got.joint_graph)} for got in (last, as_written)]
        self.assertFalse(keys[0] & keys[1])
        for these in keys:
            self.assertEqual(these - set(table), set())


if __name__ == "__main__":
    command.main()
