"""Trains within a total of the device: parameters, gradients, optimizers' state and what else is live, with the step. What PyTorch holds at the
peak, counted by the test itself, must never be above the total, and the bits must be eager's."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
import command  # noqa: E402

command.with_python_of_torch()

import contextlib  # noqa: E402
import gc  # noqa: E402
import traceback  # noqa: E402
import unittest  # noqa: E402
import weakref  # noqa: E402
from unittest import mock  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402
from isthmus.torch.device import ledger, optimizers, total  # noqa: E402
from isthmus.torch.options import Options  # noqa: E402
from isthmus.torch.steps.steps import Steps  # noqa: E402

torch.set_num_threads(1)
CPU = torch.device("cpu")
WIDTH, ROWS = 128, 768
MIB = 1 << 20
FULL = bool(os.environ.get("ISTHMUS_FULL"))  # more limits


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.net = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        return x + self.net(self.norm(x))


class Whole(nn.Module):
    """A model that returns its loss, in one graph or, with a break, in two."""

    def __init__(self, breaks=False):
        super().__init__()
        self.blocks, self.breaks = nn.Sequential(*[Block() for _ in range(6)]), breaks

    def forward(self, x):
        x = self.blocks[:3](x)
        if self.breaks:
            torch._dynamo.graph_break()
        return self.blocks[3:](x).square().mean()


def held():
    """Returns the bytes of all storages of tensors that Python knows of, and of the gradients of parameters."""
    gc.collect()
    tensors = [o for o in gc.get_objects() if issubclass(type(o), torch.Tensor)]
    tensors = [t for t in tensors if not isinstance(t, torch._subclasses.FakeTensor) and t.device.type == "cpu"]
    tensors += [t.grad for t in tensors if t.is_leaf and t.grad is not None]
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


class Training:
    """Trains a model and notes, for each step and each of the optimizer's, the most that PyTorch held."""

    def __init__(self, model, make_optimizer, batches=1):
        torch.compiler.reset()
        isthmus.torch.reset()
        self.model, self.make_optimizer, self.batches = model, make_optimizer, batches
        self.optimizer = None
        self.peaks = []

    def measured(self, run):
        before = held()
        self.peaks.append(before + isthmus.torch.measured_peak(run))

    def run(self, steps, call=None):
        call = self.model if call is None else call
        torch.manual_seed(1)
        for _ in range(steps):
            for _ in range(self.batches):
                x = torch.randn(ROWS, WIDTH)
                self.measured(lambda: call(x).backward())
            self.optimizer = self.optimizer or self.make_optimizer(self.model)
            self.measured(self.optimizer.step)
            self.optimizer.zero_grad()
        return [p.detach().clone() for p in self.model.parameters()]


def adam(model):
    return torch.optim.AdamW(model.parameters())


class Optimizers(unittest.TestCase):
    def test_what_a_step_needs_is_known_before_it(self):
        """State and workspace of PyTorch's optimizers are those that their first step makes."""
        kinds = [
            (torch.optim.AdamW, {}),
            (torch.optim.AdamW, {"foreach": True}),
            (torch.optim.AdamW, {"fused": True}),
            (torch.optim.AdamW, {"lr": torch.tensor(0.1)}),
            (torch.optim.Adam, {"amsgrad": True}),
            (torch.optim.SGD, {"lr": 0.1}),
            (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
            (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "foreach": True, "weight_decay": 0.1}),
            (torch.optim.RMSprop, {"centered": True, "momentum": 0.9}),
            *((kind, {}) for kind in (torch.optim.Adadelta, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam)),
            *((kind, {}) for kind in (torch.optim.Rprop, torch.optim.ASGD, torch.optim.Adafactor, torch.optim.Adagrad)),
        ]
        for kind, settings in kinds:
            with self.subTest(kind=kind.__name__, **settings):
                model = nn.Sequential(nn.Linear(256, 512), nn.Linear(512, 256))
                optimizer = kind(model.parameters(), **settings)
                torch.optim.lr_scheduler.StepLR(optimizer, 1)  # puts a `step` of its own on the optimizer
                optimizer.register_step_pre_hook(lambda *_: self.fail("the program's hook was called"))
                need = optimizers.need_of(optimizer, CPU)
                optimizer._optimizer_step_pre_hooks.clear()
                for p in model.parameters():
                    p.grad = torch.ones_like(p)

                def state():
                    return sum(t.untyped_storage().nbytes() for t in pytree.tree_leaves(dict(optimizer.state)) if isinstance(t, torch.Tensor))

                before = state()
                peak = isthmus.torch.measured_peak(optimizer.step)
                made = state() - before
                self.assertTrue(need.is_known)
                self.assertEqual(need.state_bytes, made)
                self.assertGreaterEqual(need.workspace_bytes, peak - made - 256)
                self.assertLessEqual(need.workspace_bytes, max(1.01 * (peak - made), 512))
                self.assertEqual(optimizers.need_of(optimizer, CPU).state_bytes, 0, "the state exists")

    def test_an_optimizer_that_cannot_run_without_memory_is_assumed_to_be_large(self):
        class Own(torch.optim.Optimizer):
            def step(self):
                raise RuntimeError("this is a kernel of its own")

        model = nn.Linear(64, 64, bias=False)
        need = optimizers.need_of(Own(model.parameters(), {}), CPU)
        self.assertEqual((need.is_known, need.state_bytes, need.workspace_bytes), (False, 8 * 64 * 64, 4 * 64 * 64))


class Totals(unittest.TestCase):
    def holds(self, model, beside, *, steps=5, make_optimizer=adam, batches=1, compiled=None, **options):
        """Trains a model within what is held already and `beside`. Checks its bits against eager's, and that never more is held. Returns what the
        total was, and the most that was held in each call."""
        start = {name: t.clone() for name, t in model.state_dict().items()}
        want = Training(model, make_optimizer, batches).run(steps)
        model.load_state_dict(start)
        for p in model.parameters():
            p.grad = None
        training = Training(model, make_optimizer, batches)
        limit = held() + beside
        got = training.run(steps, isthmus.torch.fit(model, total=limit, **options) if compiled is None else compiled(model, limit))
        self.assertTrue(all(map(torch.equal, want, got)))
        self.assertLessEqual(max(training.peaks), limit)
        return limit, training.peaks

    def test_a_whole_training_stays_within_a_total(self):
        """The last steps come close to the total: what is left to the step is used."""
        for breaks in (False, True):
            for beside in (20 * MIB,) if breaks else (24 * MIB, 18 * MIB) if FULL else (18 * MIB,):
                with self.subTest(breaks=breaks, beside=beside):
                    torch.manual_seed(0)
                    limit, peaks = self.holds(Whole(breaks), beside)
                    self.assertGreater(max(peaks[-2:]), limit - 0.1 * beside)

    def test_gradients_that_add_up_are_taken_off(self):
        """The second batch of a step finds gradients of the first one."""
        torch.manual_seed(0)
        self.holds(Whole(), 24 * MIB, batches=3, steps=3)
        (found,) = isthmus.torch.report().totals
        self.assertGreater(found.live.of_kind["gradients"], 0)

    def test_the_backends_option_does_the_same(self):
        torch.manual_seed(0)
        self.holds(Whole(), 24 * MIB, compiled=lambda m, limit: torch.compile(m, backend="isthmus", options={"total": limit}), steps=3)

    def test_an_optimizer_that_nobody_knew_of_is_found_when_its_state_exists(self):
        """No optimizer exists in the first step. After its state appeared, the graph is planned anew, before the next step runs."""
        torch.manual_seed(0)
        model = Whole()
        training = Training(model, lambda m: torch.optim.AdamW(m.parameters()))
        limit = held() + 20 * MIB
        isthmus.torch.fit(model, total=limit)
        training.run(1)
        (first,) = isthmus.torch.report()
        training.run(3)
        (second,) = isthmus.torch.report()
        parameters = sum(p.numel() * 4 for p in model.parameters())
        self.assertLess(second.budget_bytes, first.budget_bytes - 2 * parameters + 4096)
        self.assertLessEqual(second.planned_peak_bytes, second.budget_bytes)
        self.assertLessEqual(max(training.peaks[2:]), limit)

    def test_an_optimizer_in_the_backward_keeps_no_gradients(self):
        """A hook runs the optimizer of each parameter as soon as its gradient is there, and frees the gradient."""
        torch.manual_seed(0)
        model = Whole()
        own = {p: torch.optim.AdamW([p], foreach=False) for p in model.parameters()}

        def update(p):
            own[p].step()
            own[p].zero_grad()

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(update)

        class Nothing:
            step = zero_grad = staticmethod(lambda: None)

        training = Training(model, lambda m: Nothing)
        limit = held() + 20 * MIB
        isthmus.torch.fit(model, list(own.values()), limit)
        training.run(6)
        self.assertLessEqual(max(training.peaks), limit)
        (found,) = isthmus.torch.report().totals
        self.assertEqual(found.at_optimizers_step_bytes, 0)
        self.assertEqual(found.state_to_come, sum(p.numel() * 8 + 4 for p in model.parameters()))

    def test_what_cannot_be_met_is_said_without_pytorchs_lines(self):
        cases = (
            (5, {}, 8, "leaves nothing to the step, before anything is planned"),
            (11, {"foreach": True}, 8, "AdamW's own step needs .* foreach=False"),
            (11, {}, ROWS, "which a total of .* leaves to the step, cannot be met"),
        )
        for beside, settings, rows, text in cases:
            with self.subTest(beside=beside, **settings):
                torch.compiler.reset()
                isthmus.torch.reset()
                model = Whole()
                optimizer = torch.optim.AdamW(model.parameters(), **settings)
                isthmus.torch.fit(model, optimizer, held() + beside * MIB)
                with self.assertRaisesRegex(isthmus.CannotBeMet, f"(?s){text}") as caught:
                    model(torch.randn(rows, WIDTH))
                lines = traceback.format_exception(caught.exception)
                self.assertNotIn("eval_frame", "".join(lines))

    def test_without_strict_it_is_a_warning(self):
        torch.compiler.reset()
        isthmus.torch.reset()
        model = isthmus.torch.fit(Whole(), total=held(), strict=False)
        with self.assertWarnsRegex(UserWarning, "leaves nothing to the step"):
            model(torch.randn(8, WIDTH)).backward()

    def test_the_sum_is_shown_line_by_line(self):
        torch.compiler.reset()
        isthmus.torch.reset()
        before = held()
        earlier = sum(4 * o.numel() for o in gc.get_objects() if type(o) is nn.Parameter)  # of other tests
        model = Whole()
        model.register_buffer("mean", torch.zeros(MIB // 4))
        optimizer = torch.optim.AdamW(model.parameters())
        kept = torch.zeros(MIB)
        limit = held() + 32 * MIB
        isthmus.torch.fit(model, optimizer, limit)(torch.randn(ROWS, WIDTH)).backward()
        (found,) = isthmus.torch.report().totals
        lines = dict(found.lines())
        parameters = sum(p.numel() * 4 for p in model.parameters())
        self.assertEqual(lines[f"total ({limit} bytes)"], limit)
        self.assertEqual(lines["parameters"], -parameters - earlier)
        self.assertEqual(lines["buffers"], -MIB)
        self.assertEqual(lines["inputs"], -4 * ROWS * WIDTH)
        self.assertLessEqual(lines["other tensors"], -4 * kept.numel())
        self.assertGreaterEqual(lines["other tensors"], -4 * kept.numel() - before)
        self.assertEqual(lines["state of AdamW, worked out before its first step"], -2 * parameters - 4 * len(list(model.parameters())))
        self.assertEqual(sum(size for name, size in found.lines()[:-1]), found.left_bytes)
        self.assertIn("left to the step", str(isthmus.torch.report()))

    def test_a_model_stays_what_it_is_and_is_freed(self):
        torch.compiler.reset()
        isthmus.torch.reset()
        model = Whole()
        names = list(model.state_dict())
        optimizer = torch.optim.AdamW(model.parameters())
        self.assertIs(isthmus.torch.fit(model, optimizer, held() + 32 * MIB), model)
        model(torch.randn(8, WIDTH)).backward()
        optimizer.step()
        self.assertEqual(list(model.state_dict()), names)
        alive = weakref.ref(model), weakref.ref(optimizer)
        del model, optimizer
        gc.collect()
        self.assertEqual([ref() for ref in alive], [None, None])

    def test_explain_takes_a_total(self):
        model, x = Whole(), torch.randn(ROWS, WIDTH)
        (graph,) = isthmus.torch.explain(model, x, total=held() + 20 * MIB, prices=False).graphs
        self.assertLessEqual(graph.report.budget_bytes, 20 * MIB)
        self.assertGreater(graph.report.budget_bytes, 19 * MIB)


class Gpus(unittest.TestCase):
    """The arithmetic of a GPU, with a fake allocator, because none is at hand."""

    GPU = torch.device("cuda", 0)
    GIB = 1 << 30

    def room(self, given, *, free, whole=24, reserved=0, **settings):
        facts = {"mem_get_info": lambda d: (int(free * self.GIB), whole * self.GIB), "memory_reserved": lambda d: int(reserved * self.GIB)}
        with contextlib.ExitStack() as patches:
            for name, function in facts.items():
                patches.enter_context(mock.patch.object(torch.cuda, name, function))
            return total.room_of(total.Total.of(given, **settings), self.GPU)

    def test_all_of_a_gpu(self):
        room = self.room("gpu", free=21.5, reserved=2)
        self.assertEqual((room.total_bytes, room.context_bytes, room.taken_bytes), (24 * self.GIB, self.GIB // 2, 0))
        self.assertEqual(room.reserve_bytes, int(0.05 * 24 * self.GIB))
        self.assertEqual(room.bytes, int(23.5 * self.GIB) - room.reserve_bytes)

    def test_a_share_of_a_gpu(self):
        room = self.room(0.5, free=21.5, reserved=2, reserve="1GiB")
        self.assertEqual(room.bytes, int((12 - 0.5 - 1) * self.GIB))
        self.assertEqual(self.room("50%", free=21.5, reserved=2, reserve="1GiB"), room)

    def test_bytes_of_a_larger_gpu(self):
        """What other processes hold of a large GPU is not taken off, as long as the total is free."""
        room = self.room("24GiB", free=40, whole=80, reserved=1, reserve="0%")
        self.assertEqual((room.context_bytes, room.taken_bytes, room.bytes), (self.GIB, 0, 23 * self.GIB))

    def test_bytes_that_other_processes_hold(self):
        room = self.room("24GiB", free=10, reserved=1, reserve="0%")
        self.assertEqual((room.context_bytes, room.taken_bytes, room.bytes), (self.GIB, 12 * self.GIB, 11 * self.GIB))

    def test_what_is_live_is_counted_again_when_there_is_more_than_ever(self):
        """The allocator tells it before each step; the count itself takes longer."""

        class Found:
            def __init__(self, live, left):
                self.live, self.left_bytes = ledger.Live({}, live), left

            def check(self):
                pass

        counted = []
        steps = Steps(Options(total="1GiB"))
        steps._count = 3  # no step that is measured
        with contextlib.ExitStack() as patches:
            live = patches.enter_context(mock.patch.object(isthmus.torch.hooks, "live_on_gpu", return_value=100))
            patches.enter_context(mock.patch.object(total, "device_in_use", return_value=self.GPU))
            taken = patches.enter_context(mock.patch.object(ledger, "taken"))
            for now, left in ((100, 900), (100, 0), (150, 880), (150, 0), (120, 0), (200, 890), (180, 0), (200, 0)):
                live.return_value, taken.return_value = now, Found(now, left)
                steps.look_at_device()
                counted.append((taken.call_count, steps.options.left_bytes))
        self.assertEqual(counted, [(1, 900), (1, 900), (2, 880), (2, 880), (2, 880), (3, 880), (3, 880), (3, 880)])
        self.assertEqual(steps.options.parsed.bytes, 880)

    def test_blocks_of_the_allocator(self):
        self.assertEqual([optimizers.allocated(n, self.GPU) for n in (0, 1, 512, 513)], [0, 512, 512, 1024])
        self.assertEqual(optimizers.allocated(513, CPU), 513)

    def test_a_share_needs_a_gpu(self):
        for given in ("gpu", 0.9):
            with self.assertRaisesRegex(isthmus.BadInput, "needs a GPU, and the program's tensors are on the CPU: give bytes"):
                ledger.taken(total.Total.of(given), CPU)


class Amounts(unittest.TestCase):
    def test_amounts_as_people_write_them(self):
        readings = {0.5: "50%", "0.5": "50%", ".3": "30%", 1.0: "100%", "24 GB": "24GB", "24gb": "24GB", "24g": "24GB", "2gib": "2GiB", 2e9: 2000000000}
        for given, read in readings.items():
            self.assertEqual(Options(given).budget, read, given)
        for given in (50, "50", 5.5):
            with self.assertRaisesRegex(isthmus.BadInput, rf'{given} may be bytes or a share: write "{given}%", "{given}MiB"'):
                Options(given)
        with self.assertRaisesRegex(isthmus.BadInput, r'500 may be bytes or a share: write "500MiB" or "500GiB"'):
            Options(500)

    def test_totals_that_are_none(self):
        for given in ("much", -1, 0, 24, "200%", True, 2.5, "min"):
            with self.assertRaisesRegex(isthmus.BadInput, "total is '24GB', a number of bytes, 'gpu'"):
                Options(total=given)
        for given in ("much", "100%", "min"):
            with self.assertRaisesRegex(isthmus.BadInput, "reserve is a size"):
                Options(total="24GB", reserve=given)
        with self.assertRaisesRegex(isthmus.BadInput, "not both"):
            Options("2GB", total="24GB")
        with self.assertRaisesRegex(isthmus.BadInput, "reserve is a part of a total"):
            Options("2GB", reserve="1GB")
        with self.assertRaisesRegex(isthmus.BadInput, "sync=True"):
            Options(total="24GB", sync=True)
        with self.assertRaisesRegex(isthmus.BadInput, "a partitioner sees one graph"):
            isthmus.torch.Partitioner(None, total="24GB")
        with self.assertRaisesRegex(isthmus.BadInput, "optimizer is a torch.optim.Optimizer"):
            isthmus.torch.fit(nn.Linear(2, 2), torch.optim.AdamW)

    def test_options_with_a_near_name(self):
        with self.assertRaisesRegex(isthmus.BadInput, r"'bugdet' is no option of the backend 'isthmus' \(did you mean 'budget'\?\): those are budget,"):
            Options.named({"bugdet": 1})
        with self.assertRaisesRegex(isthmus.BadInput, r"'zzz' is no option of the backend 'isthmus': those are"):
            Options.named({"zzz": 1})


if __name__ == "__main__":
    command.main()
