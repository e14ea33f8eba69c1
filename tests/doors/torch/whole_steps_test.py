"""Trains programs of which PyTorch compiles a part or nothing. In every step that is measured the bytes of the whole step are within the budget, or an
exception says where they come from."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
import command  # noqa: E402

command.with_python_of_torch()

import contextlib  # noqa: E402
import functools  # noqa: E402
import gc  # noqa: E402
import linecache  # noqa: E402
import re  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
import unittest  # noqa: E402
import warnings  # noqa: E402
from unittest import mock  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402
from isthmus.torch.amounts import in_mib  # noqa: E402
from training import refusal  # noqa: E402

torch.set_num_threads(1)
FULL = bool(os.environ.get("ISTHMUS_FULL"))
warnings.filterwarnings("ignore", message="Error detected in WhileLoop")  # PyTorch traces a loop's backward in its anomaly mode
WIDTH, ROWS = 64, 512


def layers(count=6, width=WIDTH):
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(count)])


class Model(nn.Module):
    """A model with a loss; subclasses say what PyTorch's tracer meets on the way."""

    def __init__(self):
        super().__init__()
        self.blocks = layers()

    def forward(self, x):
        return self.blocks(x).square().mean()


class BranchInLoop(Model):
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
            if x.abs().max() > 1e3:
                raise ValueError("too large")
        return x.square().mean()


class NumberInLoop(Model):
    def forward(self, x):
        for block in self.blocks:
            x = block(x) * (1.0 if x.sum().item() > 0 else 1.0)
        return x.square().mean()


class ReentrantCheckpoints(Model):
    """A checkpoint's backward runs another backward."""

    def forward(self, x):
        x.requires_grad_()
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
            if x.abs().max() > 1e3:
                raise ValueError("too large")
        return x.square().mean()


class Loop(Model):
    """PyTorch compiles no loop with a gradient unless it is told to capture numbers. The backward of what it runs op by op traces another backward."""

    def forward(self, x):
        weight = self.blocks[0][0].weight
        _, x = while_loop(lambda k, h: k < 4, lambda k, h: (k + 1, torch.tanh(h @ weight)), (torch.tensor(0), x))
        return self.blocks(x).square().mean()


class Experts(Model):
    def forward(self, x):
        choice = torch.arange(len(x)) % 2
        for block in self.blocks:
            out = torch.zeros_like(x)
            for expert in range(2):
                rows = torch.where(choice == expert)[0]
                if len(rows):
                    out = out.index_add(0, rows, block(x[rows]))
            x = out
        return x.square().mean()


class SavedTensorHooks(Model):
    def forward(self, x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            return self.blocks(x).square().mean()


class BackwardHook(Model):
    def __init__(self):
        super().__init__()
        self.blocks[3].register_full_backward_hook(lambda module, grad_in, grad_out: None)


class BatchNormWithoutMomentum(Model):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH, momentum=None), nn.ReLU()) for _ in range(6)])


class FrozenEmbedding(Model):
    """A hook makes the frozen embedding's output require a gradient, as PEFT's `enable_input_require_grads` does."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, WIDTH).requires_grad_(False)
        self.embedding.register_forward_hook(lambda module, args, out: out.requires_grad_(True))

    def forward(self, x):
        return self.blocks(self.embedding(torch.arange(len(x)) % 100)).square().mean()


class LeafBetween(Model):
    def forward(self, x):
        h = self.blocks[:2](x).detach().requires_grad_(True)
        torch._dynamo.graph_break()
        return self.blocks[2:](h).square().mean()


class RetainsGradient(Model):
    def forward(self, x):
        h = self.blocks[:3](x)
        torch._dynamo.graph_break()
        h.retain_grad()
        return self.blocks[3:](h).square().mean()


class EagerPrefix(Model):
    """Tensors that the first graph reads are made within the step."""

    def forward(self, x):
        h = torch.cat([x, x, x], 1)
        torch._dynamo.graph_break()
        return self.blocks(h[:, :WIDTH] + h[:, WIDTH : 2 * WIDTH]).square().mean() + h.sum()


class Recurrent(Model):
    kind = nn.GRU

    def __init__(self):
        super().__init__()
        self.recurrent = self.kind(WIDTH, WIDTH)

    def forward(self, x):
        return self.blocks(self.recurrent(x.view(32, -1, WIDTH))[0]).square().mean()


class SimpleRecurrent(Recurrent):
    kind = nn.RNN


class LongShortTerm(Recurrent):
    kind = nn.LSTM


def whole(model, options):
    return torch.compile(model, backend="isthmus", options=options)


def blockwise(model, options):
    for k, block in enumerate(model.blocks):
        model.blocks[k] = torch.compile(block, backend="isthmus", options=options)
    return model


class OnlyModel(nn.Module):
    """The model is compiled, and its loss, which is large, is not."""

    def __init__(self, model, options):
        super().__init__()
        self.compiled = torch.compile(nn.Sequential(model.blocks, model.head), backend="isthmus", options=options)

    def forward(self, x):
        return F.cross_entropy(self.compiled(x), torch.arange(len(x)) % 1000)


class Language(Model):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, 1000)

    def forward(self, x):
        return F.cross_entropy(self.head(self.blocks(x)), torch.arange(len(x)) % 1000)


class StepInside(nn.Module):
    """The compiled function runs the backward itself."""

    def __init__(self, model, options):
        super().__init__()

        def step(x):
            loss = model(x)
            loss.backward()
            return loss.detach()

        self.step = torch.compile(step, backend="isthmus", options=options)

    def forward(self, x):
        return self.step(x)


class TwoLosses(nn.Module):
    """Two backwards run one graph's backward twice."""

    def __init__(self, model, options):
        super().__init__()
        self.compiled = torch.compile(lambda x: (model.blocks[:3](x), model.blocks(x)), backend="isthmus", options=options)

    def forward(self, x):
        first, second = self.compiled(x)
        first.square().mean().backward(retain_graph=True)
        second.square().mean().backward()
        return second.detach()


PROGRAMS = {
    "whole": (Model, whole),
    "a branch in a loop": (BranchInLoop, whole),
    "a number in a loop": (NumberInLoop, whole),
    "experts": (Experts, whole),
    "reentrant checkpoints": (ReentrantCheckpoints, whole),
    "a loop": (Loop, whole),
    "saved-tensor hooks": (SavedTensorHooks, whole),
    "a backward hook": (BackwardHook, whole),
    "batch norm without momentum": (BatchNormWithoutMomentum, whole),
    "a frozen embedding": (FrozenEmbedding, whole),
    "a leaf between graphs": (LeafBetween, whole),
    "a retained gradient": (RetainsGradient, whole),
    "an eager prefix": (EagerPrefix, whole),
    "GRU": (Recurrent, whole),
    "RNN": (SimpleRecurrent, whole),
    "LSTM": (LongShortTerm, whole),
    "block by block": (Model, blockwise),
    "an eager loss": (Language, OnlyModel),
    "the backward inside": (Model, StepInside),
    "two losses": (Model, TwoLosses),
}


class Training:
    def __init__(self, make, compiled, budget, **options):
        torch.compiler.reset()
        isthmus.torch.reset()
        torch.manual_seed(0)
        self.model = make()
        self.x = torch.randn(ROWS, WIDTH)
        self.call = compiled(self.model, {"budget": budget, **options}) if budget else self.model

    def step(self):
        self.model.zero_grad(set_to_none=True)
        loss = self.call(self.x)
        if loss.requires_grad:
            loss.backward()

    def measured(self, steps=5):
        """Returns the peak of a step after some others."""
        for _ in range(steps):
            self.step()
        self.model.zero_grad(set_to_none=True)
        return isthmus.torch.measured_peak(self.step)


class WholeSteps(unittest.TestCase):
    def plain(self, make):
        return Training(make, whole, None).measured(1)

    def test_a_budget_in_bytes_is_kept_or_refused(self):
        for k, (name, (make, compiled)) in enumerate(PROGRAMS.items()):
            plain = self.plain(make) * (2 if compiled is TwoLosses else 1)  # which runs the model for each loss
            too_little, half, enough = plain // 20, plain // 2, plain * 11 // 10
            for budget in (too_little, half, enough) if FULL else (too_little, (half, enough)[k % 2]):
                with self.subTest(name, budget=budget, plain=plain):
                    try:
                        peak = Training(make, compiled, budget).measured()
                    except Exception as e:
                        error = refusal(e)
                        self.assertIsInstance(error, isthmus.CannotBeMet, f"{e!r}")
                        self.assertIn(f"a budget of {in_mib(budget)} cannot be met", str(error))
                        self.assertNotEqual(budget, enough)
                        continue
                    self.assertLessEqual(peak, budget)
                    self.assertNotEqual(budget, too_little)

    def test_a_share_is_one_of_the_step(self):
        for name in ("whole", "block by block", "an eager loss", "a frozen embedding", "GRU"):
            with self.subTest(name):
                make, compiled = PROGRAMS[name]
                full = Training(make, compiled, "100%")
                peak = full.measured()
                baseline = next(iter(isthmus.torch.report())).planned_peak_bytes
                self.assertLessEqual(peak, baseline)
                self.assertGreaterEqual(peak, 0.98 * baseline)
                less = Training(make, compiled, "95%").measured()
                graph = isthmus.torch.report()[0]
                self.assertLessEqual(less, graph.budget_bytes)
                self.assertLessEqual(abs(graph.budget_bytes / (0.95 * baseline) - 1), 0.02)

    def test_the_least_peak_is_what_is_measured(self):
        for name, (make, compiled) in list(PROGRAMS.items())[::1 if FULL else 2]:
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                peak = Training(make, compiled, "min").measured()
                if isthmus.torch.report().graphs:
                    planned = isthmus.torch.report().planned_peak_bytes
                    self.assertLessEqual(peak, planned)
                    self.assertGreaterEqual(peak, 0.9 * planned)

    def test_what_is_not_compiled_is_named(self):
        for name, why in (("a branch in a loop", "Data-dependent branching"), ("experts", "PyTorch could not compile"), ("saved-tensor hooks", "PyTorch could not compile")):
            with self.subTest(name), self.assertRaises(isthmus.CannotBeMet) as caught:
                Training(*PROGRAMS[name], 16 << 10).measured()
            self.assertRegex(str(caught.exception), rf"PyTorch has compiled nothing of the step.*{why}")
            self.assertRegex(str(caught.exception), r"forward \(.*whole_steps_test\.py:\d+\)")
        with self.assertRaisesRegex(isthmus.CannotBeMet, r"outside of the graphs, .*whole_steps_test\.py:\d+\), .* of it by aten::cross_entropy_loss"):
            Training(*PROGRAMS["an eager loss"], self.plain(Language) * 7 // 10).measured()

    def test_errors_hold_no_frames(self):
        """What a refusal would hold, such as logits, is freed when the program goes on, not when Python collects garbage."""
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        for strict in True, False:
            with contextlib.suppress(isthmus.CannotBeMet), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                Training(*PROGRAMS["an eager loss"], "5%", strict=strict).measured()
            errors = [o for o in gc.get_objects() if issubclass(type(o), isthmus.Error)]
            self.assertEqual([str(e) for e in errors if e.__traceback__ is not None], [])

    def test_what_is_compiled_in_part_is_named(self):
        with self.assertRaises(isthmus.CannotBeMet) as caught:
            Training(*PROGRAMS["a backward hook"], self.plain(BackwardHook) * 9 // 10).measured()
        self.assertRegex(str(caught.exception), r"outside of the graphs, .*PyTorch could not compile forward \(.*whole_steps_test\.py:\d+\)")

    def test_without_strict_there_is_one_warning(self):
        for name in ("a branch in a loop", "an eager loss", "block by block"):
            make, compiled = PROGRAMS[name]
            for budget in (16 << 10, "5%"):
                with self.subTest(name, budget=budget), warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    Training(make, compiled, budget, strict=False).measured(8)
                    said = [str(w.message) for w in caught if "a budget of" in str(w.message)]
                    self.assertGreaterEqual(len(said), 1)
                    if budget == "5%":
                        self.assertEqual(len(said), 1, said)

    def test_gradients_of_an_earlier_backward_are_counted(self):
        def iteration(generator, judge):
            model.zero_grad(set_to_none=True)
            F.softplus(-judge(real).mean()).backward()
            fake = generator(noise)
            F.softplus(judge(fake.detach()).mean()).backward()
            F.softplus(-judge(fake).mean()).backward()

        real, noise = torch.rand(ROWS, WIDTH), torch.rand(ROWS, WIDTH)
        for budget in ("min", "70%"):
            with self.subTest(budget=budget):
                torch.compiler.reset()
                isthmus.torch.reset()
                torch.manual_seed(0)
                model = nn.ModuleList([layers(), layers()])
                compiled = [torch.compile(part, backend="isthmus", options={"budget": budget}) for part in model]
                for _ in range(5):
                    iteration(*compiled)
                model.zero_grad(set_to_none=True)
                peak = isthmus.torch.measured_peak(lambda: iteration(*compiled))
                self.assertLessEqual(peak, isthmus.torch.report().planned_peak_bytes)

    def test_larger_sizes_are_refused_when_they_are_above_the_budget(self):
        torch.compiler.reset()
        isthmus.torch.reset()
        model = layers()
        call = torch.compile(lambda x: model(x).square().mean(), backend="isthmus", options={"budget": "3MiB"}, dynamic=True)

        def run(rows):
            model.zero_grad(set_to_none=True)
            call(torch.randn(rows, WIDTH)).backward()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(4):
                run(256)
            with self.assertRaisesRegex(isthmus.CannotBeMet, r"with sizes s\d+=\d+, a budget of 3MiB cannot be met"):
                for rows in (512, 1024, 2048, 4096):
                    run(rows)

    def test_nothing_is_left_running(self):
        """Only the second and the third step, and fewer and fewer later ones, are measured; a backward that fails ends the measurement."""
        training = Training(Language, OnlyModel, "100%")
        for step in range(8):
            self.assertFalse(torch.autograd._profiler_enabled(), step)
            training.step()
            self.assertFalse(torch.autograd._profiler_enabled(), step)
        failing = Training(Model, whole, "100%")
        failing.step()
        loss = failing.call(failing.x)
        loss.register_hook(lambda g: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            loss.backward()
        self.assertFalse(torch.autograd._profiler_enabled())

    def test_nothing_is_left_running_after_what_is_no_step(self):
        """A forward whose results the program drops, as of a validation, and an optimizer's step that is compiled by itself."""
        training = Training(Model, whole, "100%")
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), torch.tensor(1e-3))
        update = torch.compile(lambda: optimizer.step(), backend="isthmus", options={"budget": "100%"})
        for step in range(8):
            training.step()
            for ran in (lambda: training.call(training.x).item()), update:
                model(torch.ones(4)).sum().backward()
                ran()
                self.assertFalse(torch.autograd._profiler_enabled(), step)
                self.assertTrue(gc.isenabled(), step)

    def test_a_measured_peak_may_be_of_many_steps(self):
        isthmus.torch.reset()
        torch.compiler.reset()
        model, x = layers(), torch.randn(ROWS, WIDTH)
        call = torch.compile(model, backend=isthmus.torch.backend, options={"budget": 64 << 20})
        peaks = [isthmus.torch.measured_peak(lambda: [call(x).square().mean().backward() for _ in range(20)]) for _ in range(2)]
        self.assertGreater(peaks[1], 0)

    def test_a_backward_in_another_thread_is_told(self):
        isthmus.torch.reset()
        torch.compiler.reset()
        model, x = torch.nn.Linear(64, 64), torch.randn(64, 64)
        call = torch.compile(model, backend=isthmus.torch.backend, options={"budget": "90%"})

        def step():
            thread = threading.Thread(target=call(x).square().mean().backward)
            thread.start()
            thread.join()

        step()
        with self.assertWarnsRegex(UserWarning, "in another thread .* a budget of 90% is not kept"):
            step()
        step()
        self.assertGreater(isthmus.torch.measured_peak(step), 0)  # nothing else profiles by now

    def test_programs_of_one_process_have_a_budget_each(self):
        isthmus.torch.reset()
        x = torch.randn(ROWS, WIDTH)
        for k in range(9):
            torch.compiler.reset()  # as people do in a notebook, before they try another model
            model = layers(2 + k % 2)
            call = torch.compile(model, backend="isthmus", options={"budget": "70%", "effort": 0.1})
            with self.subTest(program=k), warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                for _ in range(4):
                    model.zero_grad()
                    call(x).square().mean().backward()
            del call

    def test_a_program_is_told_what_another_one_was_told(self):
        isthmus.torch.reset()
        x = torch.randn(ROWS, WIDTH)
        for make in (BranchInLoop, NumberInLoop):
            torch.compiler.reset()
            model = make()
            call = torch.compile(model, backend="isthmus", options={"budget": "5%", "strict": False})
            with self.assertWarnsRegex(UserWarning, "a budget of 5% ") as caught:
                for _ in range(5):
                    model.zero_grad()
                    call(x).backward()
            told = [str(w.message) for w in caught.warnings if "a budget of 5% " in str(w.message)]
            self.assertEqual(len(told), 1, told)

    def test_a_function_that_is_compiled_too_often_is_told(self):
        isthmus.torch.reset()
        torch.compiler.reset()

        def train(width):
            model, x = layers(2, width), torch.randn(ROWS, width)
            call = torch.compile(model, backend="isthmus", options={"budget": "70%", "effort": 0.1})
            for _ in range(4):
                model.zero_grad()
                call(x).square().mean().backward()

        with torch._dynamo.config.patch(recompile_limit=1):
            train(32)
            for width in (48, 64):  # PyTorch tells of the first alone
                with self.assertRaisesRegex(isthmus.CannotBeMet, r"recompile_limit \(1\) allows.*torch\.compiler\.reset"):
                    train(width)

    def test_a_program_is_measured_after_one_with_threads(self):
        isthmus.torch.reset()
        x, options = torch.randn(ROWS, WIDTH), {"budget": "16KiB", "strict": False}
        call = torch.compile(layers(1), backend="isthmus", options=options)
        for _ in range(3):
            thread = threading.Thread(target=call(x).square().mean().backward)
            thread.start()
            thread.join()
        other = BranchInLoop()
        call = torch.compile(other, backend="isthmus", options=options)
        with self.assertWarnsRegex(UserWarning, "a budget of 16KiB "):
            for _ in range(5):
                other.zero_grad()
                call(x).backward()

    def test_a_forward_that_nothing_follows_is_measured_until_a_reset(self):
        waiting = Training(Model, whole, "100%")
        waiting.step()
        loss = waiting.call(waiting.x)
        self.assertTrue(torch.autograd._profiler_enabled())
        with tempfile.TemporaryDirectory() as folder:
            isthmus.torch.measure(layers(1), waiting.x, path=os.path.join(folder, "costs.json"), runs=1)
        isthmus.torch.reset()
        self.assertFalse(torch.autograd._profiler_enabled())
        loss.backward()

    def test_a_forward_that_nothing_follows_does_not_hide_later_steps(self):
        waiting = Training(Model, whole, "100%")
        waiting.step()
        loss = waiting.call(waiting.x)
        model = BranchInLoop()
        other = torch.compile(model, backend="isthmus", options={"budget": "16KiB"})
        with self.assertRaisesRegex(isthmus.CannotBeMet, "PyTorch has compiled nothing of the step"):
            for _ in range(20):
                model.zero_grad()
                other(waiting.x).backward()
        self.assertFalse(torch.autograd._profiler_enabled())
        loss.backward()

    def test_a_profile_that_begins_within_a_measured_step_is_the_programs(self):
        training = Training(Language, OnlyModel, "100%")
        training.step()
        for _ in range(2):
            loss = training.call(training.x)
            with torch.profiler.profile() as profile:
                loss.backward()
            self.assertTrue(any("CompiledFunctionBackward" in e.name for e in profile.events()))

    def test_a_timeline_on_a_gpu(self):
        """Reads the allocator's counters, which a fake allocator has here, because no GPU is at hand."""

        class Allocator:
            current = peak = 1000

            def takes(self, size):
                self.current += size
                self.peak = max(self.peak, self.current)

            def resets(self):
                self.peak = self.current

        a = Allocator()
        stats = {
            "is_initialized": lambda: True,
            "memory_allocated": lambda: a.current,
            "memory_stats": lambda: {"requested_bytes.all.current": a.current, "requested_bytes.all.peak": a.peak},
            "reset_peak_memory_stats": a.resets,
        }
        with contextlib.ExitStack() as patches:
            for name, function in stats.items():
                patches.enter_context(mock.patch.object(torch.cuda, name, function))
            timeline = isthmus.torch.hooks.timeline()
            a.takes(50)
            a.takes(-40)
            timeline.mark()
            a.takes(100)
            a.takes(-70)
            timeline.mark()
            a.takes(5)
            judged = []
            timeline.end(lambda: judged.append(timeline.peak))
        self.assertEqual((timeline.first_peak, timeline.levels, timeline.peaks, judged), (50, [10, 40], [110, 45], [110]))

    def test_a_report_lists_the_graphs_of_the_last_step(self):
        training = Training(Language, OnlyModel, "100%")
        peak = training.measured()
        (graph,) = isthmus.torch.report()
        self.assertEqual(graph.measured_peak_bytes, peak)
        self.assertLessEqual(peak, graph.planned_peak_bytes)
        self.assertLessEqual(graph.planned_peak_bytes, graph.budget_bytes)
        self.assertEqual((graph.recompute_overhead, graph.graph_breaks), (0.0, []))
        self.assertIn("outside of the graphs", str(isthmus.torch.report()))


class BeforeTheFirstCall(unittest.TestCase):
    """What an iteration makes before its first compiled call counts."""

    def setUp(self):
        torch.compiler.reset()
        isthmus.torch.reset()
        torch.manual_seed(0)
        self.x = torch.randn(ROWS, WIDTH)

    def compiled(self, function, budget):
        return function if budget is None else torch.compile(function, backend="isthmus", options={"budget": budget})

    def stem(self, budget, *, collects=()):
        stem, blocks = layers(3), layers(3)
        whole = self.compiled(lambda h: blocks(h).square().mean(), budget)

        def step():
            h = stem(self.x)
            for generation in collects:
                gc.collect(generation)
            whole(h).backward()
            del h
            stem.zero_grad(), blocks.zero_grad()

        return step

    def teacher(self, budget, *, is_compiled=False):
        student, teacher = layers(), layers().requires_grad_(False)
        loss_of = self.compiled(lambda x, want: (student(x) - want).square().mean(), budget)
        forward = self.compiled(teacher, budget) if is_compiled else teacher

        def step():
            with torch.no_grad():
                want = forward(self.x)
            loss_of(self.x, want).backward()
            student.zero_grad()

        return step

    def penalty(self, budget):
        critic = layers()
        judged = self.compiled(critic, budget)

        def step():
            x = (self.x / 2).requires_grad_()
            (g,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
            (judged(self.x).mean() + g.square().mean()).backward()
            critic.zero_grad()

        return step

    def peak(self, step, steps=5):
        for _ in range(steps):
            step()
        return isthmus.torch.measured_peak(step)

    def test_it_is_counted_and_told(self):
        compiled_teacher = functools.partial(self.teacher, is_compiled=True)
        for make, holder, share in (
            (self.stem, "h", 0.9),
            (functools.partial(self.stem, collects=(0, 1, 2)), "h", 0.9),
            (self.teacher, "want", 0.9),
            (compiled_teacher, "want", 0.9),
            (self.penalty, "g", 0.97),
        ):
            with self.subTest(holder=holder, make=make):
                self.setUp()
                plain = self.peak(make(None), 1)
                budget = int(share * plain)
                self.assertLessEqual(self.peak(make(budget)), budget)
                told = isthmus.torch.report().steps[-1].outside
                self.assertRegex("; ".join(told), rf"made before the first compiled call \(.*whole_steps_test.py:\d+\), held by `{holder}` \(.*whole_steps_test.py:\d+\)")

    def test_gradients_that_the_program_holds_are_older(self):
        model = layers()
        loss_of = self.compiled(lambda x: model(x).square().mean(), 64 << 20)
        optimizer, held = torch.optim.SGD(model.parameters(), 0.1), []
        for _ in range(6):
            loss_of(self.x).backward()
            optimizer.step()
            held[:] = [p.grad for p in model.parameters()]
            optimizer.zero_grad()
        self.assertEqual(isthmus.torch.report().steps, ())

    def test_what_leaves_no_room_is_refused_by_its_line(self):
        with self.assertRaisesRegex(isthmus.CannotBeMet, r"made before the first compiled call .*, held by `h` \(.*:(\d+)\)") as caught:
            self.peak(self.stem(ROWS * WIDTH * 4 * 5))
        line = int(re.search(r"held by `h` \(.*?:(\d+)\)", str(caught.exception)).group(1))
        self.assertIn("h = stem(self.x)", linecache.getline(__file__, line))

    def test_inputs_are_not(self):
        model = layers()
        loss_of = self.compiled(lambda x, rows: model(x[rows]).square().mean(), 8 << 20)
        loader = torch.utils.data.DataLoader([torch.randn(WIDTH) for _ in range(ROWS)], batch_size=ROWS)
        for _ in range(4):
            for x in loader:
                loss_of(x, torch.randperm(ROWS)).backward()
                model.zero_grad()
        report = isthmus.torch.report()
        self.assertEqual(report.steps, ())
        self.assertIsNotNone(report.graphs[0].measured_peak_bytes)

    def test_what_a_later_step_needs_more_is_counted_once(self):
        model = layers()
        whole = self.compiled(model, 14 * ROWS * WIDTH * 4)
        steps = 0

        def step():
            nonlocal steps
            steps += 1
            out = whole(self.x)
            more = torch.empty(4 * ROWS * WIDTH) if steps > 2 else None
            out.square().mean().backward()
            del more
            model.zero_grad()

        self.assertLessEqual(self.peak(step), 14 * ROWS * WIDTH * 4)

    def test_more_than_ever_before_is_measured_again(self):
        for is_once in (True, False):
            with self.subTest(is_once=is_once), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self.setUp()
                model, budget = layers(), 8 * ROWS * WIDTH * 4
                whole = self.compiled(lambda x: model(x).square().mean(), budget)
                refused = False
                for k in range(11):
                    kept = torch.empty(budget // 4) if k == 8 or k > 8 and not is_once else None
                    try:
                        whole(self.x).backward()
                    except isthmus.CannotBeMet:
                        refused = True
                        break
                    model.zero_grad()
                    del kept
                self.assertNotEqual(refused, is_once)
                self.assertEqual(sum("earlier steps began with less" in str(w.message) for w in caught), 1)

    def test_a_measured_peak_above_the_budget_is_told(self):
        model, budget = layers(), 4 << 20
        whole = self.compiled(lambda x: model(x).square().mean(), budget)

        def step(size=0):
            torch.empty(size, dtype=torch.uint8)  # it comes and goes
            whole(self.x).backward()
            model.zero_grad()

        self.assertLessEqual(self.peak(step), budget)
        with self.assertWarnsRegex(UserWarning, "the iteration is above its budget: it takes"):
            self.assertGreater(isthmus.torch.measured_peak(lambda: step(budget + 1)), budget)


if __name__ == "__main__":
    command.main()
