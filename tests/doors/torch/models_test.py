"""Trains models of several kinds within budgets. With PyTorch's kernels, the losses of three steps, gradients, buffers, parameters and the next
random number must be those of plain PyTorch, bit by bit, and the measured peak must be the planned one."""

import copy
import gc
import io
import json
import os
import pickle
import subprocess
import sys
import unittest
import warnings
from unittest import mock

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
import command  # noqa: E402

command.with_python_of_torch()
os.environ["ISTHMUS_LIBRARY"] = os.path.abspath(os.environ["ISTHMUS_LIBRARY"])

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402
from isthmus.planning import live_bytes  # noqa: E402
from isthmus.torch.device.total import Total  # noqa: E402
from isthmus.torch.plans import attempt  # noqa: E402
from networks import Counter, CustomFunction, ResNet  # noqa: E402
from tasks import DenseNet, Outcome, Recurrent, Transformer, image_task, own_cache, segmentation_task, token_task, vector_task  # noqa: E402
from training import differences, train, with_isthmus  # noqa: E402

torch.set_num_threads(1)
FULL = bool(os.environ.get("ISTHMUS_FULL"))


class Models(unittest.TestCase):
    def check(self, task, budgets=("100%", "70%", "min")):
        torch.manual_seed(0)
        model, loss_of = task()
        plain = Outcome(model, loss_of, None)
        least = None
        for budget in budgets:
            with self.subTest(budget=budget):
                try:
                    got = Outcome(model, loss_of, budget)
                except torch._dynamo.exc.BackendCompilerFailed as error:
                    self.assertIsInstance(error.inner_exception, isthmus.CannotBeMet)
                    self.assertEqual(budget, "70%")  # the peak of "min" shows below that no plan meets it
                    continue
                (graph,) = got.graphs
                self.assertEqual(differences(plain.trained, got.trained), [])
                self.assertTrue(all(bits.isfinite().all() for bits in (*got.trained.losses, *got.gradients, *got.trained.parameters, *got.trained.buffers)))
                self.assertLessEqual(got.measured, graph.planned_peak_bytes)
                self.assertGreaterEqual(got.measured, 0.95 * graph.planned_peak_bytes)
                if graph.budget_bytes is not None:
                    self.assertLessEqual(graph.planned_peak_bytes, graph.budget_bytes)
                least = graph
        self.assertLess(least.planned_peak_bytes, least.baseline_peak_bytes)
        if "70%" in budgets and least.planned_peak_bytes <= 0.69 * least.baseline_peak_bytes:
            Outcome(model, loss_of, "70%")  # this must not raise

    def test_unet(self):
        self.check(segmentation_task)

    def test_densenet(self):
        self.check(lambda: image_task(DenseNet()))

    def test_resnet(self):
        self.check(lambda: image_task(ResNet()))

    def test_batch_norm_runs_again(self):
        """Batch norm has averages as operands, which the forward has changed by then. A recomputation must not need them."""
        torch.manual_seed(0)
        model, loss_of = image_task(ResNet())
        (graph,) = isthmus.torch.explain(lambda: loss_of(model), budget="min", prices=False).graphs
        again = [t for t in graph.tensors if "batch_norm" in t.op and t.runs > 1]
        self.assertGreater(len(again), 4)
        self.assertLess(graph.report.planned_peak_bytes, 0.4 * graph.report.baseline_peak_bytes)

    def test_strides_that_tracing_does_not_foresee(self):
        """Tracing assumes that `roll` of a channels_last tensor returns a contiguous one. Ops that read its result, or a view of it, then allocate
        other bytes than traced."""

        class Rolled(nn.Module):
            def __init__(self, begin):
                super().__init__()
                self.conv, self.begin = nn.Conv2d(16, 32, 3, padding=1), begin

            def forward(self, x):
                rolled = self.conv(x.contiguous(memory_format=torch.channels_last)).roll(1, 2)
                return F.avg_pool2d(rolled[:, self.begin :] if self.begin else rolled, 2)

        for begin in (0, 2):
            with self.subTest(begin=begin):
                torch.manual_seed(0)
                x = torch.randn(4, 16, 24, 24)
                got = Outcome(Rolled(begin), lambda m: m(x).square().mean(), "100%")
                planned = got.graphs[0].planned_peak_bytes
                self.assertLessEqual(got.measured, planned)
                self.assertGreaterEqual(got.measured, 0.99 * planned)

    def test_ops_that_tracing_takes_apart(self):
        """These ops must run whole, because their parts round differently from the ops' own kernels."""

        class Resized(nn.Module):
            def __init__(self, dimensions, **how):
                super().__init__()
                self.conv, self.how = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dimensions - 1](3, 5, 3, padding=1), how

            def forward(self, x):
                return F.interpolate(self.conv(x), **self.how)

        class Scored(nn.Module):
            def __init__(self, loss, classes):
                super().__init__()
                self.linear, self.loss, self.classes = nn.Linear(12, 7), loss, classes

            def forward(self, x):
                return self.loss(self.linear(x), self.classes)

        def resized(dimensions, **how):
            return Resized(dimensions, **how), torch.randn(4, 3, *(12,) * dimensions)

        classes, several = torch.randint(0, 7, (6,)), torch.tensor([[1, 3, -1, 0, 0, 0, 0]] * 6)
        for name, make in {
            "linear": lambda: resized(1, mode="linear", scale_factor=2.7),
            "bilinear": lambda: resized(2, mode="bilinear", scale_factor=0.6),
            "bilinear, smoothed": lambda: resized(2, mode="bilinear", scale_factor=0.6, antialias=True),
            "bicubic": lambda: resized(2, mode="bicubic", scale_factor=2.7, align_corners=True),
            "bicubic, smoothed": lambda: resized(2, mode="bicubic", scale_factor=0.6, antialias=True),
            "trilinear": lambda: resized(3, mode="trilinear", size=(9, 9, 9)),
            "nearest": lambda: resized(2, mode="nearest", scale_factor=2.7),
            "a margin": lambda: (Scored(F.multi_margin_loss, classes), torch.randn(6, 12)),
            "margins": lambda: (Scored(F.multilabel_margin_loss, several), torch.randn(6, 12)),
        }.items():
            for dynamic in (None, True):
                if dynamic and "margin" in name:
                    continue  # PyTorch cannot trace the losses whole with symbolic sizes
                with self.subTest(name, dynamic=dynamic), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the warning about symbolic sizes
                    torch.manual_seed(0)
                    model, x = make()
                    options = {"backend": isthmus.torch.backend, "fullgraph": True, "dynamic": dynamic, "options": {"budget": "min"}}
                    torch.compiler.reset()
                    plain = train(model, lambda m: [m(x).square().mean()])
                    got = train(model, lambda m: [m(x).square().mean()], compiled=lambda f: torch.compile(f, **options))
                    self.assertEqual(differences(plain, got), [])

    def test_stock_traces_ops_as_before(self):
        """Ops that are kept whole for a graph of Isthmus must be decomposed for other graphs as before."""
        op = torch.ops.aten.upsample_bilinear2d.vec
        before = dict(op.py_kernels)
        self.assertIn(torch._C.DispatchKey.Autograd, before)
        model, x = nn.Conv2d(3, 5, 3), torch.randn(2, 3, 8, 8)
        with_isthmus("min")(lambda: F.interpolate(model(x), scale_factor=2, mode="bilinear").mean())().backward()
        self.assertEqual(dict(op.py_kernels), before)

    def test_transformer_with_dropout(self):
        self.check(lambda: token_task(Transformer(), 100))

    def test_recurrent(self):
        self.check(lambda: token_task(Recurrent(), length=12))

    def test_custom_function(self):
        self.check(lambda: vector_task(CustomFunction()))

    def test_twenty_steps(self):
        """The optimizer's steps would amplify a difference of one bit."""
        for name, task in (("resnet", lambda: image_task(ResNet())), ("transformer", lambda: token_task(Transformer(), 100))):
            torch.manual_seed(0)
            model, loss_of = task()
            plain = train(model, lambda m: [loss_of(m)], steps=20)
            self.assertEqual(len(plain.losses), 21)  # one more for the step whose peak is measured
            self.assertLess(plain.losses[-1], plain.losses[0])
            for budget in ("100%", "70%", "50%", "min") if FULL else ("70%", "min"):
                with self.subTest(model=name, budget=budget):
                    got = train(model, lambda m: [loss_of(m)], steps=20, compiled=with_isthmus(budget))
                    (graph,) = isthmus.torch.report().graphs
                    self.assertEqual(differences(plain, got), [])
                    self.assertLessEqual(got.peak, graph.planned_peak_bytes)
                    self.assertEqual(graph.recomputed > 0, budget != "100%")

    def test_a_step_that_compiles_may_be_profiled(self):
        """Isthmus measures the memory of ops with a profiler too, in a thread that the program's profiler does not see."""
        torch.manual_seed(0)
        model, loss_of = image_task(ResNet(blocks=2))
        call = with_isthmus("100%")(lambda: loss_of(model))
        first = isthmus.torch.measured_peak(lambda: call().backward())
        (graph,) = isthmus.torch.report().graphs
        model.zero_grad()
        second = isthmus.torch.measured_peak(lambda: call().backward())
        for measured in (first, second):
            self.assertLessEqual(abs(measured / graph.planned_peak_bytes - 1), 0.01)

    def test_tensors_older_than_the_step_are_not_taken_off_its_peak(self):
        """Python's garbage collector may free objects that refer to themselves during the step. Their bytes must not be subtracted from the
        peak."""
        torch.manual_seed(0)
        model, loss_of = vector_task(Counter())
        want = isthmus.torch.measured_peak(lambda: loss_of(model).backward())
        thresholds = gc.get_threshold()

        def step():
            gc.set_threshold(1, 1, 1)
            loss_of(model).backward()

        model.zero_grad()
        gc.set_threshold(1 << 30)
        try:
            garbage = []
            isthmus.torch.measured_peak(lambda: garbage.append(torch.empty(1 << 20)))  # a profiler counts the free only if it saw the allocation
            garbage.append(garbage)
            del garbage
            self.assertEqual(isthmus.torch.measured_peak(step), want)
        finally:
            gc.set_threshold(*thresholds)

    def test_mutated_buffers(self):
        torch.manual_seed(0)
        model, loss_of = vector_task(Counter())
        plain, got = Outcome(model, loss_of, None), Outcome(model, loss_of, "min")
        self.assertEqual(differences(plain.trained, got.trained), [])
        self.assertLessEqual(got.measured, got.graphs[0].planned_peak_bytes)


class Lives(unittest.TestCase):
    def test_the_most_that_steps_have_live_is_the_peak(self):
        """The problem has chains with views, results in place of operands, and workspaces."""
        problem = isthmus.Problem(order="phases")
        x = problem.add("x", bytes=1000, pinned=True)
        forward = [x]
        for k in range(12):
            view = problem.add(f"view {k}", [forward[-1]], view_of=0)
            made = problem.add(f"made {k}", [view], cost=1, bytes=[900 + 100 * (k % 3), 64], workspace=50 * k)
            forward.append(problem.add(f"next {k}", [made], cost=1, bytes=900 + 100 * (k % 3), may_reuse=[(0, 0)]))
        problem.forward_outputs = [forward[-1]]
        gradient = forward[-1]
        for k, read in reversed(list(enumerate(forward))):
            gradient = problem.add(f"backward {k}", [gradient, read], cost=1, bytes=1000, phase="backward", may_reuse=[(0, 0)])
        problem.outputs = [gradient]
        for budget in ("min", "60%", "100%"):
            plan = isthmus.plan(problem, budget)
            self.assertEqual(max(live_bytes(problem, plan.schedule)), plan.figures.peak_bytes, budget)


class Answers(unittest.TestCase):
    """Tests what explain, measure and report return."""

    def test_explain_tells_of_every_tensor_that_runs_again(self):
        torch.manual_seed(0)
        model, loss_of = vector_task(CustomFunction())
        (graph,) = isthmus.torch.explain(lambda: loss_of(model), budget="70%").graphs
        again = [t for t in graph.tensors if t.runs > 1]
        self.assertTrue(again)
        self.assertTrue(all(t.us > 0 for t in again) and all(t.us == 0 for t in graph.tensors if t.runs == 1))
        self.assertEqual(sorted(graph.prices, key=lambda p: -p.peak_bytes), list(graph.prices))
        self.assertIn("recomputed", str(graph))
        self.assertEqual(graph.to_dot(fold=0).count('fillcolor="#FCE3C0"'), graph.report.recomputed)
        self.assertTrue(graph.to_dot().startswith("digraph"))

    def test_measured_costs_come_back(self):
        import tempfile

        torch.manual_seed(0)
        model, loss_of = vector_task(CustomFunction())
        state = torch.get_rng_state()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "costs.json")
            self.assertGreater(isthmus.torch.measure(lambda: loss_of(model), path=path), 5)
            self.assertTrue(torch.equal(state, torch.get_rng_state()))
            self.assertEqual(os.listdir(folder), ["costs.json"])
            with open(path) as file:
                ops = " ".join(json.load(file)["ops"])
            self.assertIn("aten.mm.default", ops)
            self.assertNotIn("aten.view.default", ops)  # views take no time, and are not measured
            self.assertNotIn("aten.t.default", ops)
            got = Outcome(model, loss_of, "80%", costs=path)
            self.assertGreater(got.graphs[0].recomputed, 0)
            with open(path, "w") as file:
                file.write("{}")
            with self.assertRaisesRegex(isthmus.BadInput, "expected costs"):
                isthmus.torch.Partitioner("50%", costs=path)

    def test_planning_makes_no_code(self):
        """The graphs that are planned, cut and thrown away need no Python code. The compiler generates the code of the modules when it runs
        them."""
        call = attempt.Attempt.__call__
        planned = []

        def without_code(*args, **options):
            with mock.patch.object(torch.fx.Graph, "python_code", side_effect=AssertionError("code is made")):
                planned.append(call(*args, **options))
            return planned[-1]

        torch.manual_seed(0)
        model, loss_of = vector_task(CustomFunction())
        with mock.patch.object(attempt.Attempt, "__call__", without_code):
            with_isthmus("70%")(lambda: loss_of(model))().backward()
        self.assertEqual(len(planned), 1)

    def test_graphs_that_stock_inductor_compiles_are_each_reported(self):
        torch.manual_seed(0)
        model, x = CustomFunction(), torch.randn(32, 64)
        torch.compiler.reset()
        isthmus.torch.reset()
        call = torch.compile(options={"custom_partitioner_fn": isthmus.torch.Partitioner("min", kernels="inductor")})
        with own_cache():  # a graph whose code an earlier run has cached would not be planned
            for loss in (lambda: model(x).square().mean(), lambda: model(x).exp().mean()):
                call(loss)().backward()
        self.assertEqual(len(isthmus.torch.report().graphs), 2)

    def test_a_budget_that_cannot_be_met_names_the_least(self):
        torch.manual_seed(0)
        model, loss_of = vector_task(CustomFunction())
        least = Outcome(model, loss_of, "min").graphs[0].planned_peak_bytes
        with self.assertRaises(torch._dynamo.exc.BackendCompilerFailed) as caught:
            Outcome(model, loss_of, least // 2)
        self.assertIsInstance(caught.exception.inner_exception, isthmus.CannotBeMet)
        self.assertIn(f"{least} bytes", str(caught.exception.inner_exception))
        with self.assertWarnsRegex(UserWarning, "that is taken"):
            self.assertEqual(Outcome(model, loss_of, least // 2, strict=False).graphs[0].planned_peak_bytes, least)

    def test_compiled_modules_are_copied_and_pickled(self):
        """A copy is compiled with the same options, and its step is planned within the same budget: also one that another process is sent."""
        x, options = torch.randn(512, 32), {"budget": "80%", "effort": 0.05}
        torch.compiler.reset()
        isthmus.torch.reset()
        torch.manual_seed(0)
        model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.1))])
        compiled, in_place = torch.compile(model, backend="isthmus", options=options), copy.deepcopy(model)
        in_place.compile(backend="isthmus", options=options)
        fitted = torch.compile(model, backend="isthmus", options={"total": Total.of("1GB", None, torch.optim.SGD(model.parameters())), "effort": 0.05})

        def gradients(module):
            module.zero_grad()
            torch.manual_seed(1)
            module(x).square().mean().backward()
            return [p.grad.clone() for p in module.parameters()]

        want = gradients(model)
        gradients(compiled)
        gradients(in_place)
        (budget,) = {graph.budget_bytes for graph in isthmus.torch.report().graphs}
        saved = io.BytesIO()
        torch.save(compiled, saved)
        copies = {
            "pickle": pickle.loads(pickle.dumps(compiled)),
            "save": torch.load(io.BytesIO(saved.getvalue()), weights_only=False),
            "deepcopy": copy.deepcopy(compiled),
            "copy": copy.copy(compiled),
            "compiled in place": copy.deepcopy(in_place),  # PyTorch's own copies of those are not compiled
            "pickle, in place": pickle.loads(pickle.dumps(in_place)),
            "total": pickle.loads(pickle.dumps(fitted)),
        }
        for name, made in copies.items():
            with self.subTest(name):
                torch.compiler.reset()
                isthmus.torch.reset()
                self.assertTrue(all(map(torch.equal, want, gradients(made))))
                planned = {graph.budget_bytes for graph in isthmus.torch.report().graphs}
                self.assertEqual(planned, set() if "in place" in name else planned if name == "total" else {budget})
        program = (
            "import pickle, sys, torch; torch.set_num_threads(1); made = pickle.load(sys.stdin.buffer); x = torch.ones(512, 32)\n"
            "made(x).sum().backward(); import isthmus.torch; (graph,) = isthmus.torch.report().graphs; print(graph.planned_peak_bytes <= graph.budget_bytes)"
        )
        paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(compiled), capture_output=True, check=False, env=paths)
        self.assertEqual(run.stdout.strip(), b"True", run.stderr.decode())

    def test_options_are_checked(self):
        for options, words in (
            ({}, "needs a budget"),
            ({"budget": "50%", "kernel": 1}, "'kernel' is no option"),
            ({"budget": "fifty"}, "a budget is a size"),
            ({"budget": "50%", "kernels": "xla"}, "kernels are"),
            ({"budget": "50%", "effort": -1}, "effort is a number"),
            ({"budget": "50%", "inductor": {"a": 1}}, "settings of inductor"),
            ({"budget": "50%", "allow_recompute": [3]}, "allow_recompute takes ops"),
        ):
            with self.subTest(options=options), self.assertRaises(Exception) as caught:
                torch._dynamo.reset()
                torch.compile(lambda x: x.sin().sum(), backend="isthmus", options=options)(torch.ones(3, requires_grad=True))
            self.assertIsInstance(caught.exception.inner_exception, isthmus.BadInput)
            self.assertIn(words, str(caught.exception.inner_exception))


if __name__ == "__main__":
    command.main()
