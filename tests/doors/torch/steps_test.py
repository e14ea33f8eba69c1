"""Trains with steps that run several graphs within one budget. Losses, gradients, buffers and the next random number must be eager's bit for bit.
The measured peak of the whole step must be the planned one, which is never above the budget."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
import command  # noqa: E402

command.with_python_of_torch()

import contextlib  # noqa: E402
import itertools  # noqa: E402
import unittest  # noqa: E402
import warnings  # noqa: E402
from unittest import mock  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402
from isthmus.torch.inductor import watch  # noqa: E402
from training import differences, in_pieces, refusal, train  # noqa: E402

torch.set_num_threads(1)
FULL = bool(os.environ.get("ISTHMUS_FULL"))
WIDTH = 64


def block(width=WIDTH):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width), nn.LayerNorm(width))


class Halves(nn.Module):
    """A model in whose middle PyTorch's tracer ends a graph and begins another."""

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
    """A model of three graphs. The second and the third read a result of the first, and a buffer changes between them. Each graph reads that result
    once: the gradients of several readers would be added up within a graph first, in another order than eager's."""

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
    """A model with an LSTM, which PyTorch's tracer does not enter. The LSTM runs between two graphs, and saves tensors for its own backward."""

    def __init__(self, width=WIDTH, layers=1):
        super().__init__()
        self.before, self.lstm, self.after = block(), nn.LSTM(WIDTH, width, layers, batch_first=True), nn.Sequential(block(width), block(width))

    def forward(self, x):
        x = self.before(x.view(-1, WIDTH)).tanh().view(-1, 32, WIDTH)
        x, _ = self.lstm(x)
        return self.after(x.flatten(0, 1)).square().mean()


class SameGraph(nn.Module):
    """A model of blocks that are compiled one by one. PyTorch compiles the first block, and calls the same code for all of them."""

    def __init__(self, blocks=4):
        super().__init__()
        self.blocks = nn.ModuleList([block() for _ in range(blocks)])
        self.is_compiled = False

    def compile_blocks(self, **options):
        for each in () if self.is_compiled else self.blocks:
            each.compile(backend=isthmus.torch.backend, options=options)
        self.is_compiled = True
        return self

    def forward(self, x):
        for each in self.blocks:
            x = each(x) + x
        return x.square().mean()


def data(rows=384):
    return torch.randn(rows, WIDTH)


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

    def test_what_ops_between_graphs_need_in_their_backward_is_planned(self):
        """The peak is in the LSTM's backward. It includes what the LSTM's kernel allocates, and the gradients of its weights, which no graph
        returns."""
        torch.manual_seed(0)
        model, x = Recurrent(2 * WIDTH, layers=2), data(8 * 32)
        for budget in ("100%", "min"):
            with self.subTest(budget=budget):
                self.holds(model, lambda m: [m(x)], budget, 2, slack=0.02)

    def test_a_program_may_profile_any_of_its_steps(self):
        """Isthmus measures ops between graphs with a profiler, and a thread can have only one. If the program profiles a step, Isthmus measures
        these ops in another step, and the program's profile is complete."""
        torch.manual_seed(0)
        model, x = Recurrent(2 * WIDTH, layers=2), data(8 * 32)
        for profiled in (0, 1, 2, 3, None) if FULL else (0, 2, None):
            with self.subTest(profiled=profiled):
                call = in_pieces("min")(lambda: model(x))
                for step in range(4):
                    model.zero_grad()
                    is_profiled = profiled in (step, None)
                    with torch.profiler.profile(profile_memory=True) if is_profiled else contextlib.nullcontext() as profile:
                        call().backward()
                    if is_profiled:
                        self.assertTrue(any(e.name == "aten::lstm" for e in profile.events()))
                (plan,) = isthmus.torch.report().steps
                self.assertEqual(plan.is_profiled, profiled is None)
                self.assertEqual("was not measured" in str(plan), profiled is None)
                if profiled is not None:
                    model.zero_grad()
                    self.peak_holds(isthmus.torch.measured_peak(lambda: call().backward()), 2, slack=0.02)

    def test_a_graph_that_is_called_several_times_has_a_plan_for_each(self):
        torch.manual_seed(0)
        model, x = SameGraph(), data()
        want = train(model, lambda m: [m(x)])
        budget = 3 << 20
        torch.compiler.reset()
        isthmus.torch.reset()
        got = train(model, lambda m: [m.compile_blocks(budget=budget)(x)])
        self.assertEqual(differences(want, got), [])
        step = self.peak_holds(got.peak, 4)
        self.assertEqual(step.budget_bytes, budget)
        self.assertLess(len(isthmus.torch.report().graphs), 4, "PyTorch was to compile one graph for several blocks")
        self.assertGreater(len({part.saved_bytes for part in step.parts}), 1, "the calls were to keep different amounts")

    def test_many_forwards_before_one_backward_keep_a_budget(self):
        torch.manual_seed(0)
        model, batches = SameGraph(blocks=1), [data(128) for _ in range(10)]
        plain = train(model, lambda m: [sum(m(x) for x in batches)])
        torch.compiler.reset()
        isthmus.torch.reset()
        budget = int(0.3 * plain.peak)
        got = train(model, lambda m: [sum(m.compile_blocks(budget=budget)(x) for x in batches)])
        self.assertEqual(differences(plain, got), [])
        self.assertLessEqual(got.peak, budget)
        self.assertEqual(self.peak_holds(got.peak, 10).most_waiting, 10)

    def test_forwards_may_run_between_backwards(self):
        """As in pipelining, the forward of the second of three micro-batches runs before the backward of the first."""
        torch.manual_seed(0)
        model, batches = Halves(), [data(128) for _ in range(3)]

        def run(call):
            model.zero_grad()
            torch.manual_seed(1)
            waiting, losses = [], []
            for x in [*batches, None]:
                if x is not None:
                    waiting.append(call(x))
                if len(waiting) == 2 or x is None:
                    losses.append(waiting[0].detach())
                    waiting.pop(0).backward()
            return losses + [p.grad.clone() for p in model.parameters()]

        want = run(model)
        call = in_pieces("min")(model)
        for _ in range(3):
            self.assertTrue(all(map(torch.equal, want, run(call))))
        model.zero_grad()
        self.peak_holds(isthmus.torch.measured_peak(lambda: run(call)), 6, slack=0.1)

    def test_other_sequences_of_graphs_have_plans_of_their_own(self):
        torch.manual_seed(0)
        parts = nn.ModuleList([block(), block(), block()])
        compiled = in_pieces("min")
        calls = [compiled(part) for part in parts]
        x = data()

        def run(first, second, third):
            parts.zero_grad()
            torch.manual_seed(1)
            loss = (third(second(first(x))) if third else second(first(x))).square().mean()
            loss.backward()
            return [loss.detach(), *(p.grad.clone() for p in parts.parameters() if p.grad is not None)]

        for _ in range(4):
            for third in (True, False):
                want = run(*parts[:2], parts[2] if third else None)
                got = run(*calls[:2], calls[2] if third else None)
                self.assertTrue(all(map(torch.equal, want, got)))
        self.assertEqual(sorted(len(step.parts) for step in isthmus.torch.report().steps), [2, 3])

    def within(self, budget, choices, blocks=6):
        """Runs a step for each list of choices, of which each is a block that is compiled by itself. Returns the measured peaks and the warnings."""
        torch.manual_seed(0)
        torch.compiler.reset()
        isthmus.torch.reset()
        model, x = SameGraph(blocks).compile_blocks(budget=budget), data()
        peaks = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for chosen in choices:

                def step():
                    h = x
                    for k in chosen:
                        h = model.blocks[k](h) + h
                    h.square().mean().backward()

                model.zero_grad()
                peaks.append(isthmus.torch.measured_peak(step))
        return peaks, [str(w.message) for w in caught if "is not kept" in str(w.message)]

    def test_steps_that_skip_layers_keep_a_budget(self):
        """Each sequence of calls is another one, and longer ones come after shorter ones. When all blocks have run, one plan serves all steps."""
        budget = 11 << 19
        some = [[0, 1, 2], [1, 3, 4], [0, 2, 4, 5], [1, 2, 3, 4, 5], [0, 1], [0, 1, 2, 3, 4, 5]]
        peaks, told = self.within(budget, [*some, *some])
        self.assertLessEqual(max(peaks), budget)
        self.assertEqual(told, [])
        self.assertEqual([len(step.parts) for step in isthmus.torch.report().steps], [6])
        self.assertGreater(peaks[-1], peaks[5], "the plan was to use what the budget leaves")

    def test_loops_of_any_length_keep_a_budget(self):
        budget = 11 << 19
        peaks, told = self.within(budget, [[0] * length for length in (2, 3, 2, 5, 1, 6, 4)], blocks=1)
        self.assertLessEqual(max(peaks), budget)
        self.assertEqual(told, [])

    def test_forwards_without_a_backward_change_nothing(self):
        torch.manual_seed(0)
        model, x = Halves(), data()
        model.eval()
        call = in_pieces("60%")(model)
        for _ in range(3):
            self.assertTrue(torch.equal(call(x), model(x)))
        self.assertEqual(isthmus.torch.report().steps, ())
        with torch.no_grad():
            self.assertTrue(torch.equal(call(x), model(x)))

    def test_results_that_are_kept_do_not_hold_up_steps(self):
        """A forward whose result is kept runs its backward only at the end. The steps in between must not wait for that backward."""
        torch.manual_seed(0)
        model, x = Halves(4), data(64)
        call = in_pieces("min")(model)
        kept = call(x)
        for _ in range(20):
            torch.manual_seed(1)
            model.zero_grad()
            call(x).backward()
        got = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        torch.manual_seed(1)
        model(x).backward()
        self.assertTrue(all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), got, strict=True)))
        self.assertEqual([len(step.parts) for step in isthmus.torch.report().steps], [2])
        model.zero_grad()
        kept.backward()

    def test_a_budget_that_the_step_cannot_meet_names_the_least(self):
        torch.manual_seed(0)
        model, x = Halves(), data()
        least = self.holds(model, lambda m: [m(x)], "min", 2).planned_peak_bytes
        alone = max(g.planned_peak_bytes for g in isthmus.torch.report().graphs)
        self.assertLess(alone, least)
        budget = (alone + least) // 2  # enough for each graph alone, but not for both
        with self.assertRaises(isthmus.CannotBeMet) as caught:
            train(model, lambda m: [m(x)], compiled=in_pieces(budget))
        self.assertIn("the step runs 2 graphs", str(caught.exception))
        self.assertIn(f"{least} bytes", str(caught.exception))
        with self.assertWarnsRegex(UserWarning, "that is taken"):
            got = train(model, lambda m: [m(x)], compiled=in_pieces(budget, strict=False))
        (step,) = isthmus.torch.report().steps
        self.assertEqual(step.planned_peak_bytes, least)
        self.assertLessEqual(got.peak, least)

    def test_the_first_step_keeps_to_a_budget_in_bytes(self):
        """Until the step is known, each graph that is known to have others beside it gets its least peak."""
        torch.manual_seed(0)
        model, x = Halves(), data()
        budget = self.holds(model, lambda m: [m(x)], "60%", 2).budget_bytes
        model.zero_grad()
        call = in_pieces(budget)(model)
        loss = call(x)
        kept = sum(g.saved_bytes for g in isthmus.torch.report().graphs)
        loss.backward()
        self.assertLess(kept, budget)
        self.assertEqual([g.budget_bytes for g in isthmus.torch.report().graphs], [budget, budget])

    def test_a_plan_of_the_step_sees_what_its_graphs_were_traced_with(self):
        """A step is planned when the next one begins, and that may run under another autocast, or with another default device."""
        torch.manual_seed(0)
        model, x = Halves(2), data(128)

        def trained(compiled):
            steps = itertools.count()

            def loss_of(m):
                step = next(steps)
                cast = torch.autocast("cpu", torch.bfloat16, enabled=step % 2 == 1)
                with cast, torch.device("meta" if step % 3 == 2 else "cpu"):
                    return [m(x).float()]

            return train(model, loss_of, steps=8, compiled=compiled)

        want = trained(lambda f: f)
        self.assertEqual(differences(want, trained(in_pieces("90%"))), [])
        self.assertGreaterEqual(len(isthmus.torch.report().steps), 2)

    def test_graphs_within_checkpoints(self):
        """Both runs of a checkpointed function take the same plan. The step is measured, and a budget that is not kept is refused."""

        class Checkpointed(SameGraph):
            def forward(self, x):
                for each in self.blocks:
                    x = checkpoint(each, x, use_reentrant=self.is_reentrant) + x
                return x.square().mean()

        def trained(budget):
            torch.compiler.reset()
            isthmus.torch.reset()
            return train(model, lambda m: [m.compile_blocks(budget=budget)(x)])

        torch.manual_seed(0)
        model, x = Checkpointed(), data().requires_grad_()
        for model.is_reentrant in False, True:
            with self.subTest(is_reentrant=model.is_reentrant), warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                want = train(model, lambda m: [m(x)])
                for budget in want.peak, "min":
                    got = trained(budget)
                    self.assertEqual(differences(want, got), [])
                    self.assertLess(got.peak, want.peak)
                self.assertEqual(any("reentrant checkpoint" in str(w.message) for w in heard), model.is_reentrant)
        model.is_reentrant = False
        peak = trained("min").peak
        with self.assertRaisesRegex(isthmus.CannotBeMet, "run within torch.utils.checkpoint"):
            trained(peak - 4096)

    def test_numbers_of_the_program(self):
        """A number that changes from step to step is a tensor that the tracer reads, or a constant where an op needs a number."""
        torch.manual_seed(0)

        class Scales(Halves):
            def forward(self, x):
                x = self.first[0](x)
                scale = x.detach().abs().max().item()
                if self.kind == "factor":
                    x = x * scale
                else:
                    x = torch.nn.functional.leaky_relu(x, scale)
                return self.second[0](x).square().mean()

        model, x = Scales(2), data(128)
        for model.kind, dynamic in ("factor", None), ("factor", True), ("slope", None):
            with self.subTest(kind=model.kind, dynamic=dynamic):
                want = train(model, lambda m: [m(x)], steps=6)
                got = train(model, lambda m: [m(x)], steps=6, compiled=in_pieces("100%", dynamic, effort=0.2))
                self.assertEqual(differences(want, got), [])

    def test_a_refusal_within_a_measured_peak_is_the_programs(self):
        torch.manual_seed(0)
        model, x = Halves(), data()
        function = in_pieces("5%")(model)
        with self.assertRaisesRegex(isthmus.CannotBeMet, "the step runs 2 graphs"):
            isthmus.torch.measured_peak(lambda: [function(x).backward() for _ in range(4)])

    def test_steps_that_compile_again_and_again_are_told(self):
        class Counts(Halves):
            count = 0

            def forward(self, x):
                self.count += 1
                return super().forward(x * self.count)

        model, x = Counts(2), data(16)
        function = in_pieces(1 << 20)(model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for step in range(6):
                function(x).backward()
                told = [str(w.message) for w in caught if "steps in a row have compiled" in str(w.message)]
                self.assertEqual(len(told), step > 3)
        self.assertIn("whether a budget of 1.0 MiB is kept", told[0])

    def test_breaks_are_named(self):
        torch.manual_seed(0)
        model, x = Halves(), data()
        self.holds(model, lambda m: [m(x)], "60%", 2)
        report = isthmus.torch.report()
        explained = isthmus.torch.explain(model, x, prices=False)
        for graphs in (report.graphs, report.steps[0].parts, [g.report for g in explained.graphs]):
            first, second = graphs
            self.assertIn("graph_break()", first.ends)
            self.assertRegex(first.ends, r"steps_test\.py:\d+ in forward")
            self.assertEqual(second.ends, "")
        for text in (str(report), str(explained)):
            self.assertIn("ends early: Call to `torch._dynamo.graph_break()`", text)
        self.assertIn("step of 2 graphs", str(report))

    def test_inductor_at_the_least_peak(self):
        """Inductor computes a gradient in the storage of a saved tensor, and this gradient is the next graph's tangent."""
        torch.manual_seed(0)
        model, x = Halves(4), data()
        got = train(model, lambda m: [m(x)], compiled=in_pieces("min", kernels="inductor"))
        step = self.peak_holds(got.peak, 2)
        self.assertLessEqual(got.peak, step.inductor_peak_bytes)

    def replanned(self, extra_bytes, budget, **options):
        """Returns the report of a step. A patch adds `extra_bytes` to the bytes that are counted for its code."""
        torch.manual_seed(0)
        model, x = Halves(2), data(128)
        lives = watch.live_at_nodes
        call = in_pieces(budget, kernels="inductor", inductor={"fx_graph_cache": False}, **options)(model)
        with mock.patch.object(watch, "live_at_nodes", lambda *args: ((node, live + extra_bytes) for node, live in lives(*args))):
            for _ in range(3):
                model.zero_grad()
                call(x).backward()
        (step,) = isthmus.torch.report().steps
        return step

    def test_the_excess_of_inductors_code_comes_off_the_plan_of_the_step(self):
        before = self.replanned(0, "75%")
        self.assertLessEqual(before.inductor_peak_bytes, before.budget_bytes)
        extra = before.budget_bytes // 20
        step = self.replanned(extra, "75%")
        self.assertEqual(step.budget_bytes, before.budget_bytes)
        self.assertLessEqual(step.planned_peak_bytes, step.budget_bytes - extra)
        self.assertLessEqual(step.inductor_peak_bytes, step.budget_bytes)
        aligned = 16 * 64  # a plan counts scalars as they are aligned, and code as many bytes as they have
        self.assertGreaterEqual(step.inductor_peak_bytes, step.planned_peak_bytes + extra - aligned)

    def test_a_step_whose_code_is_above_the_budget_in_all_plans_is_an_error(self):
        extra = 4 << 20
        with self.assertRaisesRegex(isthmus.CannotBeMet, "with what inductor makes of 4 plans of the step the least peak is"):
            self.replanned(extra, "100%", strict=True)
        with self.assertWarnsRegex(UserWarning, "of 4 plans of the step .* the last one is taken"):
            step = self.replanned(extra, "100%", strict=False)
        self.assertGreater(step.inductor_peak_bytes, step.budget_bytes)

    def test_inductor(self):
        torch.manual_seed(0)
        model, x = Halves(4), data()
        whole, less = (train(model, lambda m: [m(x)], compiled=in_pieces(b, kernels="inductor")) for b in ("100%", "60%"))
        (step,) = isthmus.torch.report().steps
        for part in step.parts:
            self.assertLessEqual(abs(part.inductor_peak_bytes / part.planned_peak_bytes - 1), 0.1)
        self.peak_holds(less.peak, 2)
        self.assertLess(less.peak, 0.7 * whole.peak)
        for want, got in zip(whole.gradients, less.gradients, strict=True):
            self.assertLessEqual((want - got).norm(), 1e-4 * want.norm() + 1e-7)
        self.assertTrue(torch.equal(whole.draw, less.draw))


class Sizes(unittest.TestCase):
    def test_other_batches_are_right_and_said_to_have_another_peak(self):
        torch.manual_seed(0)
        model = nn.Sequential(block(), block())
        batches = [data(128), data(96), data(192), data(160)]

        def run(call):
            model.zero_grad()
            torch.manual_seed(1)
            for x in batches:
                call(x).square().mean().backward()
            return [p.grad.clone() for p in model.parameters()]

        want = run(model)
        torch.compiler.reset()
        isthmus.torch.reset()
        call = torch.compile(model, backend=isthmus.torch.backend, options={"budget": "min"}, dynamic=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = run(call)
        self.assertTrue(all(map(torch.equal, want, got)))
        said = [str(w.message) for w in caught]
        self.assertEqual(sum("has symbolic sizes" in each for each in said), 1, said)
        (larger,) = [each for each in said if "its peak may be above the budget" in each]
        self.assertRegex(larger, r"was planned for s\d+=128 and runs with s\d+=192")
        report = isthmus.torch.report()
        (graph,) = report.graphs
        self.assertEqual([size for _, size in graph.sizes], [128])
        self.assertRegex(str(report), r"for s\d+=192")  # the step that was recorded
        self.assertRegex(str(report), r"has run with larger sizes than was planned, s\d+=192")


if __name__ == "__main__":
    command.main()
