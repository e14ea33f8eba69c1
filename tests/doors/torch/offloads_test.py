"""Tests copies of tensors to the host's memory and back: they change no bits, and the measured peak is the planned one. They run on the CPU,
where a copy is complete when its start returns."""

import os
import sys
import unittest
from unittest import mock

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
import command  # noqa: E402

command.with_python_of_torch()

import functools  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts  # noqa: E402

import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402
from isthmus.planning import live_bytes  # noqa: E402
from isthmus.torch.graph import offload_ops  # noqa: E402
from isthmus.torch.plans import attempt  # noqa: E402
from networks import ResNet  # noqa: E402
from training import SLACK, differences, refusal, train, with_isthmus  # noqa: E402
from troubles import Body, dropout, linears  # noqa: E402

torch.set_num_threads(1)
FETCH = {"allow": "recompute,fetch", "link": "5GB"}


def pictures():
    torch.manual_seed(0)
    x, y = torch.randn(8, 3, 32, 32), torch.randint(0, 4, (8,))
    return ResNet(), lambda m: [F.cross_entropy(m(x), y)]


class Offloads(unittest.TestCase):
    def setUp(self):
        torch.compiler.reset()
        isthmus.torch.reset()

    def holds(self, model, loss_of, want, budget, least=0.95, **options):
        """Trains within the budget, checks results and peak, and returns the graph's report. least: a bound of measured over planned peak."""
        got = train(model, loss_of, compiled=with_isthmus(budget, **options))
        (graph,) = isthmus.torch.report().graphs
        self.assertEqual(differences(want, got), [])
        self.assertLessEqual(got.peak, (1 + SLACK) * graph.planned_peak_bytes)
        self.assertGreater(got.peak, least * graph.planned_peak_bytes)
        self.assertLessEqual(graph.planned_peak_bytes, graph.budget_bytes or graph.baseline_peak_bytes)
        return graph

    def test_fetches_what_takes_longer_to_recompute(self):
        model, loss_of = pictures()
        want = train(model, loss_of)
        recomputes = self.holds(model, loss_of, want, "50%")
        fetches = self.holds(model, loss_of, want, "50%", **FETCH)
        self.assertEqual((recomputes.transfers, recomputes.host_bytes), (0, 0))
        self.assertGreater(fetches.transfers, 0)
        self.assertGreater(fetches.host_bytes, 0)
        self.assertLess(fetches.added_cost, recomputes.added_cost)
        self.assertIn(f"{fetches.transfers} copies to the host and back", str(fetches))
        slow = self.holds(model, loss_of, want, "50%", allow="recompute,fetch", link="1MB")
        self.assertEqual(slow.transfers, 0)

    def test_random_ops(self):
        model = dropout()
        want = train(model, lambda m: m())
        self.assertGreater(self.holds(model, lambda m: m(), want, "40%", 0.9, **FETCH).transfers, 0)  # the plan reserves the states of all random ops

    def test_by_inductor(self):
        model, loss_of = pictures()
        want = train(model, loss_of, compiled=with_isthmus("100%", kernels="inductor"))
        graph = self.holds(model, loss_of, want, "50%", kernels="inductor", **FETCH)
        self.assertGreater(graph.transfers, 0)
        self.assertLessEqual(graph.inductor_peak_bytes, graph.budget_bytes)

    def test_live_bytes_of_steps(self):
        """Inductor's code is held against what each step of the plan has live. The largest of it is the planned peak."""
        model, loss_of = pictures()
        found = []

        def noted(problem, schedule):
            found.append((isthmus.Plan.from_schedule(problem, schedule).figures, max(live_bytes(problem, schedule))))
            return live_bytes(problem, schedule)

        with mock.patch.object(attempt, "live_bytes", noted):
            with_isthmus("45%", kernels="inductor", **FETCH)(lambda: loss_of(model))()
        for figures, most in found:
            self.assertGreater(figures.transfers, 0)
            self.assertEqual(figures.peak_bytes, most)
        self.assertTrue(found)

    def test_what_checkpoint_marks_may_be_fetched_and_is_never_recomputed(self):
        def policy(context, op, *args, **kwargs):
            return CheckpointPolicy.MUST_CPU_OFFLOAD if op == torch.ops.aten.addmm.default else CheckpointPolicy.PREFER_RECOMPUTE

        contexts = functools.partial(create_selective_checkpoint_contexts, policy)

        def function(self):
            h = self.x
            for layer in self.layers:
                h = checkpoint(lambda h, f: h + f(h).sin().tanh(), h, layer, use_reentrant=False, context_fn=contexts)
            return h.square().mean()

        model = Body(function, layers=linears(6, 64), x=torch.randn(512, 64))
        want = train(model, lambda m: m())
        keeps = self.holds(model, lambda m: m(), want, "min")
        fetches = self.holds(model, lambda m: m(), want, "min", link="20GB")
        self.assertEqual(keeps.transfers, 0)
        self.assertGreater(fetches.transfers, 0)
        self.assertLess(fetches.planned_peak_bytes, 0.9 * keeps.planned_peak_bytes)
        for tensor in isthmus.torch.explain(lambda: model(), budget="min", link="20GB", prices=False).graphs[0].tensors:
            self.assertTrue(not tensor.fetched or tensor.op == "aten.addmm.default", tensor)
            self.assertTrue(tensor.runs == 1 or tensor.op != "aten.addmm.default", tensor)

    def test_several_graphs(self):
        """What one graph copies to the host is away while the others run."""
        torch.manual_seed(0)
        x = torch.randn(512, 64)
        model = nn.ModuleList([nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(4)]) for _ in range(3)])

        def loss_of(m):
            h = m[0](x)
            torch._dynamo.graph_break()
            h = m[1](h)
            torch._dynamo.graph_break()
            return [m[2](h).square().mean()]

        def compiled(budget, **options):
            return lambda f: torch.compile(f, backend=isthmus.torch.backend, options={"budget": budget, **options})

        want = train(model, loss_of, steps=4)
        for kernels, budget in (("aot_eager", "50%"), ("aot_eager", "min"), ("inductor", "50%")):
            with self.subTest(kernels=kernels, budget=budget):
                torch.compiler.reset()
                isthmus.torch.reset()
                got = train(model, loss_of, steps=4, compiled=compiled(budget, kernels=kernels, **FETCH))
                step = isthmus.torch.report().steps[-1]
                self.assertGreater(sum(part.transfers > 0 for part in step.parts), 1)
                self.assertLessEqual(step.planned_peak_bytes, step.budget_bytes or 0.5 * step.baseline_peak_bytes)
                most = step.planned_peak_bytes if kernels == "aot_eager" else step.budget_bytes
                self.assertLessEqual(got.peak, (1 + SLACK) * most, step)
                self.assertGreater(got.peak, 0.9 * step.planned_peak_bytes)
                if kernels == "aot_eager":
                    self.assertEqual(differences(want, got), [])

    def test_explain(self):
        model, loss_of = pictures()
        (graph,) = isthmus.torch.explain(lambda: loss_of(model)[0], budget="50%", prices=False, **FETCH).graphs
        fetched = [t for t in graph.tensors if t.fetched]
        self.assertEqual(2 * len(fetched), graph.report.transfers)
        self.assertEqual(sum(t.bytes for t in fetched), graph.report.host_bytes)
        self.assertRegex(str(graph), rf"fetched +{len(fetched)} ")
        self.assertEqual(graph.to_dot(fold=0).count('fillcolor="#E3DDF3"'), 4 * len(fetched))

    def test_refuses(self):
        _, loss_of = pictures()
        for options, words in (
            ({"allow": "fetch"}, "allow is 'recompute', and may have ',fetch'"),
            ({"allow": "recompute,invert"}, "allow is 'recompute', and may have ',fetch'"),
            ({"allow": "recompute,fetch", "link": "0"}, "bytes a second"),
            ({"allow": "recompute,fetch", "link": "50%"}, "bytes a second"),
            ({"allow": "recompute,fetch"}, "give a link"),
        ):
            with self.subTest(**options):
                with self.assertRaises(Exception) as caught:
                    train(*pictures(), compiled=with_isthmus("50%", **options))
                self.assertIsInstance(refusal(caught.exception), isthmus.BadInput)
                self.assertIn(words, str(refusal(caught.exception)))


class Ops(unittest.TestCase):
    def test_bits_and_strides(self):
        torch.manual_seed(0)
        pictures = torch.randn(2, 3, 4, 5)
        for x in (
            pictures,
            pictures.contiguous(memory_format=torch.channels_last),
            pictures.transpose(1, 3),
            pictures.bfloat16(),
            pictures > 0,
            pictures.to(torch.complex64),
            torch.tensor(3.5, dtype=torch.float64),
            torch.empty(0, 3),
        ):
            with self.subTest(dtype=x.dtype, shape=x.shape, strides=x.stride()):
                host = offload_ops.wait_offload(offload_ops.start_offload(x), x)
                back = offload_ops.wait_prefetch(offload_ops.start_prefetch(host, torch.device("cpu")))
                self.assertTrue(torch.equal(x, back))
                self.assertEqual((x.dtype, x.stride()), (back.dtype, back.stride()))

    def test_copies_on_the_host_are_outside_of_the_allocator(self):
        x = torch.ones(1 << 20)
        self.assertLess(isthmus.torch.measured_peak(lambda: offload_ops.start_offload(x)), 1 << 10)

    def test_order_on_a_gpu(self):
        """A copy waits for all earlier work of its device, and a wait makes later work wait for that copy alone."""
        log = []

        class Stream:
            def __init__(self, name):
                self.name = name

            def wait_stream(self, other):
                log.append(f"{self.name} waits for {other.name}")

            def wait_event(self, event):
                log.append(f"{self.name} waits for {event}")

            def record_event(self):
                log.append(f"{self.name} ends")
                return f"the end of copy {sum(line.endswith(' ends') for line in log)}"

            def __enter__(self):
                log.append(f"on {self.name}")

            def __exit__(self, *_):
                log.append(f"off {self.name}")

        compute = Stream("compute")
        module = mock.Mock(current_stream=lambda device: compute, stream=lambda s: s, Stream=lambda device: Stream("link"))
        device, a, b = torch.device("cuda:0"), torch.ones(3), torch.ones(3)
        with mock.patch.object(torch, "get_device_module", lambda _: module), mock.patch.dict(offload_ops._streams, clear=True):
            offload_ops._enqueue(a, torch.zeros(3), device, "to host")
            offload_ops._enqueue(b, torch.zeros(3), device, "to host")
            offload_ops._wait(a, device)
            offload_ops._wait(b, device)
        one = ["link waits for compute", "on link", "link ends", "off link"]
        self.assertEqual(log, [*one, *one, "compute waits for the end of copy 1", "compute waits for the end of copy 2"])
        self.assertEqual(a.sum() + b.sum(), 0)
        self.assertEqual(offload_ops._ends, {})


if __name__ == "__main__":
    command.main()
