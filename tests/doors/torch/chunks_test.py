"""Tests regions that run chunk by chunk: gradients are those of the whole step but for rounding, the measured peak is the planned one, and it is
below the least peak without chunks."""

import os
import sys
import unittest
from unittest import mock

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
import command  # noqa: E402

command.with_python_of_torch()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch._functorch import config as functorch_config  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402
from isthmus.torch.chunks import factors  # noqa: E402
from training import SLACK, train, with_isthmus  # noqa: E402

torch.set_num_threads(1)
aten = torch.ops.aten
WORDS = 2000
CHUNK = {"allow": "recompute,chunk"}


class Language(nn.Module):
    """A language model with one block."""

    def __init__(self, tied=True, width=32, padding=None):
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=padding)
        self.norm = nn.LayerNorm(width)
        self.block = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.head = nn.Linear(width, WORDS, bias=not tied)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids)
        return self.head(x + self.block(self.norm(x)))


def language(loss, batch=4, length=32, **options):
    torch.manual_seed(0)
    ids = torch.randint(0, WORDS, (batch, length))
    ids[0, :8] = 0
    return Language(**options), lambda m: [loss(m, ids)]


def cross_entropy(**options):
    return lambda m, ids: F.cross_entropy(m(ids).flatten(0, 1), ids.flatten(), **options)


def with_ignored(m, ids):
    labels = ids.flatten().clone()
    labels[::3] = -100
    return F.cross_entropy(m(ids).view(-1, WORDS), labels)


def shifted(m, ids):
    return F.cross_entropy(m(ids)[:, :-1].reshape(-1, WORDS), ids[:, 1:].reshape(-1))


def with_z_loss(m, ids):
    logits = m(ids)
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten()) + 0.1 * logits.logsumexp(-1).pow(2).mean()


class Rows(nn.Module):
    def __init__(self, width=32, dropout=0.0):
        super().__init__()
        parts = (nn.Sequential(nn.Linear(width, 8 * width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8 * width, width)) for _ in range(3))
        self.net = nn.Sequential(*parts)

    def forward(self, x):
        return self.net(x)


def rows(loss, dropout=0.0):
    torch.manual_seed(0)
    x, y = torch.randn(512, 32), torch.rand(512, 32)
    return Rows(dropout=dropout), lambda m: [loss(m(x), y)]


class Pictures(nn.Module):
    """A U-Net of two levels."""

    def __init__(self):
        super().__init__()

        def convolutions(before, after):
            return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(4, after), nn.ReLU(), nn.Conv2d(after, after, 3, padding=1))

        self.fine, self.coarse, self.up, self.out = convolutions(3, 8), convolutions(8, 16), convolutions(24, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        fine = self.fine(x)
        coarse = F.interpolate(self.coarse(F.max_pool2d(fine, 2)), scale_factor=2.0, mode="bilinear")
        return self.out(self.up(torch.cat([coarse, fine], 1)))


def pictures():
    torch.manual_seed(0)
    x, y = torch.randn(6, 3, 32, 32), torch.randint(0, 2, (6, 32, 32))
    return Pictures(), lambda m: [F.cross_entropy(m(x), y)]


class SequenceFirst(nn.Module):
    """A transformer's block on [tokens, batch, width], where products see tokens and batch as one axis."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.norm, self.project, self.out = heads, nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.block = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        tokens, batch, width = x.shape
        q, k, v = (t.reshape(tokens, batch * self.heads, -1).transpose(0, 1) for t in self.project(self.norm(x)).chunk(3, -1))
        attended = (q @ k.transpose(1, 2) / width**0.5).softmax(-1) @ v
        x = x + self.out(attended.transpose(0, 1).reshape(tokens, batch, width))
        return x + self.block(x)


def sequence_first():
    torch.manual_seed(0)
    x = torch.randn(48, 8, 32)
    return nn.Sequential(SequenceFirst(), SequenceFirst()), lambda m: [m(x).square().mean()]


def log_probabilities(m, ids):
    """A policy's loss: the log-probability of each next word, which a gather takes."""
    told = m(ids)[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None]).squeeze(2)
    return -(told * torch.linspace(-1, 1, told.numel()).view_as(told)).mean()


class Steps(nn.Module):
    """A recurrent network that is unrolled: each step adds a gradient of the same weights."""

    def __init__(self, width=128):
        super().__init__()
        self.cell, self.out = nn.GRUCell(width, width), nn.Linear(width, 4)

    def forward(self, x):
        state, states = torch.zeros_like(x[0]), []
        for each in x:
            state = self.cell(each, state)
            states.append(state)
        return self.out(torch.stack(states))


def steps():
    torch.manual_seed(0)
    x = torch.randn(6, 256, 128)
    return Steps(), lambda m: [m(x).square().mean()]


PROGRAMS = {
    "a tied head": language(cross_entropy()),
    "a head with a bias": language(cross_entropy(), tied=False),
    "a word that is padding": language(cross_entropy(), padding=0),
    "a batch of one": language(cross_entropy(), batch=1, length=96),
    "ignored labels": language(with_ignored),
    "weights of classes": language(cross_entropy(weight=torch.rand(WORDS, generator=torch.Generator().manual_seed(0)))),
    "smoothed labels": language(cross_entropy(label_smoothing=0.1)),
    "shifted labels": language(shifted),
    "shifted labels of one text": language(shifted, batch=1, length=97),
    "two losses of the logits": language(with_z_loss),
    "mse": rows(F.mse_loss),
    "bce": rows(F.binary_cross_entropy_with_logits),
    "dropout": rows(F.mse_loss, dropout=0.2),
    "pictures": pictures(),
    "the sequence first": sequence_first(),
    "gathered log-probabilities": language(log_probabilities),
    "steps of a recurrent network": steps(),
}


def of_norm(want, got):
    """Returns the largest difference of gradients, as a share of the norm of all of them."""
    total = torch.stack([g.double().norm() for g in want]).norm()
    return max(((a.double() - b.double()).norm() / total).item() for a, b in zip(want, got))


class Chunks(unittest.TestCase):
    def setUp(self):
        torch.compiler.reset()
        isthmus.torch.reset()

    def trained(self, model, loss_of, budget, **options):
        got = train(model, loss_of, compiled=with_isthmus(budget, **options))
        return got, isthmus.torch.report().graphs[-1]

    def holds(self, model, loss_of, budget="min", error=1e-5, **options):
        want = train(model, loss_of)
        got, graph = self.trained(model, loss_of, budget, **CHUNK, **options)
        self.assertLess(of_norm(want.first_gradients, got.first_gradients), error)
        torch.testing.assert_close(torch.stack(got.losses), torch.stack(want.losses), rtol=error, atol=0.0)
        self.assertLessEqual(got.peak, (1 + SLACK) * graph.planned_peak_bytes)
        self.assertEqual(want.draw, got.draw)
        return graph

    def test_steps_take_less_than_any_plan_without_chunks(self):
        for name, (model, loss_of) in PROGRAMS.items():
            with self.subTest(name):
                self.setUp()
                _, without = self.trained(model, loss_of, "min", effort=0.2)
                graph = self.holds(model, loss_of, effort=0.2)  # the many regions that are tried take most of the time
                self.assertTrue(graph.chunks)
                share = 1.0 if name == "dropout" else 0.5  # a random op ends a region
                self.assertLess(graph.planned_peak_bytes, share * without.planned_peak_bytes)
                self.assertEqual(graph.baseline_peak_bytes, without.baseline_peak_bytes)

    def test_a_budget_below_what_recomputation_can_meet(self):
        model, loss_of = PROGRAMS["a tied head"]
        with self.assertRaises(Exception) as refused:
            self.trained(model, loss_of, "50%")
        self.assertIsInstance(getattr(refused.exception, "inner_exception", refused.exception), isthmus.CannotBeMet)
        graph = self.holds(model, loss_of, "50%")
        self.assertLessEqual(graph.planned_peak_bytes, graph.budget_bytes)
        self.assertLess(graph.added_cost, 0.1)
        self.assertRegex(str(graph), r"in chunks: aten\.\w+.* in .*head.*, \d+ along axis 0, forward and backward together")

    def test_a_budget_that_needs_no_chunks_changes_no_bit(self):
        model, loss_of = PROGRAMS["a tied head"]
        want = train(model, loss_of)
        got, graph = self.trained(model, loss_of, "100%", **CHUNK)
        self.assertEqual(graph.chunks, ())
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(want.gradients, got.gradients)))

    def test_sums_of_16_bits_are_made_in_32(self):
        def autocast(m, ids):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return F.cross_entropy(m(ids).flatten(0, 1).float(), ids.flatten())

        model, loss_of = language(autocast)
        exact = train(*language(cross_entropy()))
        plain = train(model, loss_of)
        got, graph = self.trained(model, loss_of, "min", **CHUNK)
        self.assertTrue(graph.chunks)
        error = of_norm(exact.first_gradients, plain.first_gradients)
        self.assertLess(of_norm(exact.first_gradients, got.first_gradients), 1.1 * error)

    def test_gradients_of_a_scaled_loss_and_of_two_backwards(self):
        model, loss_of = PROGRAMS["a tied head"]
        loss_of(model)[0].backward()
        want = [p.grad.clone() for p in model.parameters()]
        for keeps in (False, True):
            with mock.patch.object(functorch_config, "donated_buffer", not keeps):
                model.zero_grad()
                loss = with_isthmus("min", **CHUNK)(lambda: loss_of(model)[0])() * 3
                for left in (1, 0) if keeps else (0,):
                    loss.backward(retain_graph=left > 0)
                times = 6 if keeps else 3
                self.assertLess(of_norm([times * g for g in want], [p.grad for p in model.parameters()]), 1e-5)
        model.zero_grad()

    def test_results_that_leave_the_function_are_whole(self):
        torch.manual_seed(0)
        model, ids = Language(), torch.randint(0, WORDS, (4, 32))
        told = str(isthmus.torch.explain(lambda: model(ids), budget="min", prices=False, **CHUNK))
        self.assertRegex(told, r"not in chunks, as the caller gets it whole: .* in head \(\d.* MiB\); if that is for a loss, compile the loss with it")

    def test_sizes_that_vary_run_without_chunks(self):
        model, _ = PROGRAMS["a tied head"]
        loss = torch.compile(
            lambda ids: cross_entropy()(model, ids), backend="isthmus", fullgraph=True, dynamic=True, options={"budget": "100%", **CHUNK}
        )
        for length in (16, 24):
            loss(torch.randint(0, WORDS, (4, length))).backward()
        self.assertTrue(all(g.chunks == () for g in isthmus.torch.report().graphs))
        model.zero_grad()

    def test_steps_of_several_graphs(self):
        torch.manual_seed(0)
        first, head, x, labels = Rows(), nn.Linear(32, WORDS), torch.randn(256, 32), torch.randint(0, WORDS, (256,))
        model = nn.ModuleList([first, head])

        def in_two(compile):
            body, loss = compile(first), compile(lambda h: F.cross_entropy(head(h), labels))
            return lambda: loss(body(x).tanh())

        in_two(lambda f: f)().backward()
        want = [p.grad.clone() for p in model.parameters()]
        run = in_two(lambda f: torch.compile(f, backend="isthmus", fullgraph=True, options={"budget": "2MiB", **CHUNK}))
        for _ in range(5):
            model.zero_grad()
            run().backward()
            self.assertLess(of_norm(want, [p.grad for p in model.parameters()]), 1e-5)
        model.zero_grad()
        (step,) = isthmus.torch.report().steps
        self.assertTrue(any(part.chunks for part in step.parts))
        self.assertLessEqual(step.measured_peak_bytes, 2 * 2**20)

    def test_inductor(self):
        model, loss_of = PROGRAMS["a tied head"]
        _, without = self.trained(model, loss_of, "min", kernels="inductor")
        graph = self.holds(model, loss_of, kernels="inductor")
        self.assertTrue(graph.chunks)
        self.assertLess(graph.planned_peak_bytes, 0.8 * without.planned_peak_bytes)

    def test_options(self):
        for allow in ("chunk", "recompute,chunks", "recompute,chunk,invert"):
            with self.assertRaisesRegex(isthmus.BadInput, "allow is 'recompute', and may have ',fetch' and ',chunk' besides"):
                isthmus.torch.Partitioner("1MiB", allow=allow)


# --- Every rule, on an op of its own


def numbers(*shape, low=-1.0, dtype=torch.float64):
    return torch.empty(shape, dtype=torch.float64).uniform_(low, 1.0).to(dtype)


def whole(most, *shape):
    return torch.randint(0, most, shape)


def _attention(backward):
    q, k, v = (numbers(4, 2, 6, 4, dtype=torch.float32) for _ in range(3))
    out, logs = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
    if not backward:
        return (lambda *a: aten._scaled_dot_product_flash_attention_for_cpu(*a), q, k, v)
    return (lambda *a: aten._scaled_dot_product_flash_attention_for_cpu_backward(*a, 0.0, False), numbers(4, 2, 6, 4, dtype=torch.float32), q, k, v, out, logs)


X, G = numbers(4, 6, 5), numbers(4, 6, 5)
P = numbers(4, 6, 8, 8)
LOGS, LABELS, TOTAL = numbers(6, 5).log_softmax(1), whole(5, 6), torch.tensor(6.0, dtype=torch.float64)
MAPS, OF_MAPS = numbers(4, 5, 3, 3).log_softmax(1), whole(5, 4, 3, 3)
SUM = factors.SUM
EXAMPLES = [
    (lambda a: aten.gelu(a), X),
    (lambda a, b: aten.add.Tensor(a, b), X, numbers(5)),
    (lambda a: aten._to_copy(a, dtype=torch.float32), X),
    (lambda a: aten.full_like(a, 2.0), X),
    (lambda a, b: aten.mm(a, b), numbers(6, 4), numbers(4, 9)),
    (lambda c, a, b: aten.addmm(c, a, b), numbers(9), numbers(6, 4), numbers(4, 9)),
    (lambda c, a, b: aten.addmm(c, a, b), numbers(6, 9), numbers(6, 4), numbers(4, 9)),
    (lambda a, b: aten.bmm(a, b), numbers(6, 4, 8), numbers(6, 8, 9)),
    (lambda a: aten.view(a, [24, 5]), X),
    (lambda a: aten.view(a, [4, 2, 3, 5]), X),
    (lambda a: aten.view(a, [1, 4, 30]), X),
    (lambda a: aten._unsafe_view(a, [4, 6, 5, 1]), X),
    (lambda a: aten.t(a), numbers(6, 4)),
    (lambda a: aten.transpose(a, 0, -1), X),
    (lambda a: aten.permute(a, [2, 0, 1]), X),
    (lambda a: aten.unsqueeze(a, 1), X),
    (lambda a: aten.squeeze.dim(a, 1), numbers(4, 1, 6)),
    (lambda a: aten.expand(a, [3, 4, 6]), numbers(4, 1)),
    (lambda c, a, b: aten.baddbmm(c, a, b), numbers(4, 6, 3), X, numbers(4, 5, 3)),
    (lambda a, b: aten.stack([a, b], 1), X, G),
    (lambda a: aten.unbind(a, 1), X),
    (lambda a: aten.unsafe_split(a, 4, 1), X),
    (lambda a: aten.unsafe_split_with_sizes(a, [2, 4], 1), X),
    (lambda a: aten.roll(a, [2], [1]), X),
    (lambda a: aten.repeat(a, [2, 1, 3, 1]), X),
    (lambda a: aten.tril(a), X),
    (lambda a: aten.triu(a), X),
    (lambda a: aten.glu(a, 1), X),
    (lambda g, a: aten.glu_backward(g, a, 1), numbers(4, 3, 5), X),
    (lambda a: aten.logcumsumexp(a, 1), X),
    (lambda a, i: aten.index_select(a, 1, i), X, whole(6, 9)),
    (lambda a, i: aten.index(a, [None, i]), X, whole(6, 9, 4)),
    (lambda a, i: aten._unsafe_index(a, [None, i, i]), X, whole(5, 7)),
    (lambda a, i, v: aten.index_put(a, [None, i], v, True), X, whole(6, 3), numbers(4, 3, 5)),
    (lambda a, i, s: aten.index_add(a, 1, i, s), X, whole(6, 3), numbers(4, 3, 5)),
    (lambda a, s: aten.select_scatter(a, s, 1, 2), X, numbers(4, 5)),
    (lambda a, i, s: aten.scatter_reduce(a, 1, i, s, "amax"), X, whole(6, 4, 2, 5), numbers(4, 2, 5)),
    (lambda a: aten.max(a, 1), X),
    (lambda a: aten.argmin(a, -1), X),
    (lambda a: aten.prod(a, 1, True), X),
    (lambda a: aten.var(a, [1], correction=1), X),
    (lambda a: aten.var_mean(a, [1], correction=0, keepdim=True), X),
    (lambda a: aten.linalg_vector_norm(a, 2, [1], True), X),
    (lambda a: aten.topk(a, 3, 1), X),
    (lambda a: aten.sort(a, 1), X),
    (lambda a: aten.reflection_pad2d(a, [1, 2, 1, 0]), P),
    (lambda g, a: aten.reflection_pad2d_backward(g, a, [1, 1, 1, 1]), numbers(4, 6, 10, 10), P),
    (lambda a: aten.pixel_shuffle(a, 2), numbers(4, 8, 3, 3)),
    (lambda a: aten.pixel_unshuffle(a, 2), P),
    (lambda a: aten.im2col(a, [2, 2], [1, 1], [0, 0], [2, 2]), P),
    (lambda a: aten.col2im(a, [8, 8], [2, 2], [1, 1], [0, 0], [2, 2]), numbers(4, 24, 16)),
    (lambda a, at: aten.grid_sampler_2d(a, at, 0, 0, False), P, numbers(4, 3, 3, 2)),
    (lambda g, a, at: aten.grid_sampler_2d_backward(g, a, at, 0, 0, False, [True, True]), numbers(4, 6, 3, 3), P, numbers(4, 3, 3, 2)),
    (lambda a: aten.add.Tensor(a, aten.full([4, 6, 5], 2.0, dtype=torch.float64, device="cpu", pin_memory=False)), X),
    (lambda a: aten.new_zeros(a, [4, 3]), X),
    (lambda a: aten.slice(a, 1, 1, 4), X),
    (lambda a: aten.slice_backward(a, [4, 9, 5], 1, 1, 7, 1), X),
    (lambda a: aten.select_backward(a, [4, 9, 6, 5], 1, 3), X),
    (lambda a, b: aten.slice_scatter(a, b, 1, 2, 4), X, numbers(4, 2, 5)),
    (lambda a: aten.select(a, 1, 2), X),
    (lambda a, b: aten.cat([a, b], 1), X, numbers(4, 2, 5)),
    (lambda a: aten.split(a, 4, 1), X),
    (lambda a: aten.constant_pad_nd(a, [0, 0, 1, 2], 0.5), X),
    (lambda a: aten.cumsum(a, 1), X),
    (lambda a: aten._softmax(a, -1, False), X),
    (lambda a: aten._log_softmax(a, 1, False), X),
    (lambda g, a: aten._softmax_backward_data(g, a, 1, torch.float64), G, X.softmax(1)),
    (lambda a, i: aten.gather(a, 1, i), X, whole(6, 4, 2, 5)),
    (lambda a, i: aten.scatter.value(a, 1, i, 3.0), X, whole(6, 4, 2, 5)),
    (lambda a, i, s: aten.scatter_add(a, 1, i, s), X, whole(6, 4, 2, 5), numbers(4, 2, 5)),
    (lambda a: aten.sum.dim_IntList(a, [1], True), X),
    (lambda a: aten.sum(a), X),
    (lambda a: aten.mean.dim(a, [-1]), X),
    (lambda a: aten.amax(a, [0, 2]), X),
    (lambda a: aten.logsumexp(a, [-1]), X),
    (lambda a, w, b: aten.native_layer_norm(a, [5], w, b, 1e-5), X, numbers(5), numbers(5)),
    (lambda g, a, w, b: aten.native_layer_norm_backward(g, a, [5], a.mean(-1, True), 1 / a.std(-1, keepdim=True), w, b, [True] * 3), G, X, numbers(5), numbers(5)),
    (lambda a, w, b: aten.native_group_norm(a, w, b, 4, 6, 64, 2, 1e-5), P, numbers(6), numbers(6)),
    (lambda g, a, w, m, r: aten.native_group_norm_backward(g, a, m, r, w, 4, 6, 64, 2, [True] * 3), numbers(4, 6, 8, 8), P, numbers(6), numbers(4, 2), numbers(4, 2)),
    (lambda a, w, b: aten.convolution(a, w, b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1), P, numbers(2, 6, 3, 3), numbers(2)),
    (lambda g, a, w: aten.convolution_backward(g, a, w, [2], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3), numbers(4, 2, 8, 8), P, numbers(2, 6, 3, 3)),
    (lambda a: aten.max_pool2d_with_indices(a, [2, 2], [2, 2]), P),
    (lambda g, a, i: aten.max_pool2d_with_indices_backward(g, a, [2, 2], [2, 2], [0, 0], [1, 1], False, i), numbers(4, 6, 4, 4), P, whole(64, 4, 6, 4, 4)),
    (lambda a: aten.avg_pool2d(a, [2, 2], [2, 2]), P),
    (lambda g, a: aten.avg_pool2d_backward(g, a, [2, 2], [2, 2], [0, 0], False, True, None), numbers(4, 6, 4, 4), P),
    (lambda a: aten._adaptive_avg_pool2d(a, [2, 2]), P),
    (lambda g, a: aten._adaptive_avg_pool2d_backward(g, a), numbers(4, 6, 2, 2), P),
    (lambda a: aten.upsample_bilinear2d(a, [16, 16], False), P),
    (lambda g: aten.upsample_bilinear2d_backward(g, [8, 8], [4, 6, 4, 4], False), P),
    (lambda a: aten.upsample_nearest2d(a, [16, 16]), P),
    (lambda g: aten.upsample_nearest2d_backward(g, [8, 8], [4, 6, 4, 4]), P),
    (lambda w, i: aten.embedding(w, i), numbers(9, 4), whole(9, 4, 6)),
    (lambda g, i: aten.embedding_dense_backward(g, i, 9, -1, False), X, whole(9, 4, 6)),
    _attention(False),
    _attention(True),
    (lambda a, t: aten.nll_loss_forward(a, t, None, SUM, -100), LOGS, LABELS),
    (lambda a, t: aten.nll_loss2d_forward(a, t, None, SUM, -100), MAPS, OF_MAPS),
    (lambda g, a, t, n: aten.nll_loss_backward(g, a, t, None, 1, -100, n), numbers(1)[0], LOGS, LABELS, TOTAL),
    (lambda g, a, t, n: aten.nll_loss2d_backward(g, a, t, None, 1, -100, n), numbers(1)[0], MAPS, OF_MAPS, TOTAL),
    (lambda a, t: aten.mse_loss(a, t, SUM), X, G),
    (lambda a, t: aten.huber_loss(a, t, SUM, 1.0), X, G),
    (lambda a, t: aten.binary_cross_entropy_with_logits(a, t, None, None, SUM), X, numbers(4, 6, 5, low=0.0)),
    (lambda g, a, t: aten.mse_loss_backward(g, a, t, SUM), numbers(1)[0], X, G),
    (lambda g, a, t: aten.smooth_l1_loss_backward(g, a, t, SUM, 1.0), numbers(1)[0], X, G),
]


class Rules(unittest.TestCase):
    def ops(self, function, inputs):
        """Yields the ops of a function that have factors, with the values of all nodes."""
        graph = make_fx(function, tracing_mode="real")(*inputs).graph
        values = dict(zip((n for n in graph.nodes if n.op == "placeholder"), inputs))
        for node in graph.nodes:
            if node.op == "call_function":
                args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)), lambda a: values[a])
                values[node] = node.target(*args, **kwargs)
            node.meta["val"] = values.get(node)
        return [(n, values) for n in graph.nodes if n.op == "call_function" and factors.factors_of(n)]

    def cut(self, node, values, factor, chunks):
        """Runs an op chunk by chunk along a factor, and returns its results put together."""
        operands = {a: values[a] for a in node.all_input_nodes}
        sizes = [operands[a].shape[axis] for a, axis in factor.operands.items()]
        results = [values[node]] if isinstance(values[node], torch.Tensor) else list(values[node])
        sizes += [results[k].shape[axis] for k, axis in factor.results.items()]
        (units,) = set(sizes)
        made = []
        for k in range(chunks):
            begin, end = units * k // chunks, units * (k + 1) // chunks

            def part(a):
                axis = factor.operands.get(a)
                if axis is None:
                    return operands[a]
                cut = operands[a].narrow(axis, begin, end - begin)
                return cut.contiguous() if operands[a].is_contiguous() else cut

            axis = factor.results.get(0)
            given = node.args if axis is None else factors.args_of_chunk(node, axis, end - begin)
            args, kwargs = torch.fx.node.map_arg((given, dict(node.kwargs)), part)
            got = node.target(*args, **kwargs)
            made.append([got] if isinstance(got, torch.Tensor) else list(got))
        return results, [
            torch.cat(parts, factor.results[k]) if k in factor.results else torch.stack(parts).sum(0) for k, parts in enumerate(zip(*made))
        ]

    def test_chunks_along_every_factor_give_the_whole(self):
        torch.manual_seed(0)
        seen = set()
        for function, *inputs in EXAMPLES:
            for node, values in self.ops(function, inputs):
                for factor in factors.factors_of(node):
                    axes = [values[a].shape[axis] for a, axis in factor.operands.items()]
                    if min(axes, default=2) < 2:
                        continue
                    seen.add(node.target)
                    for chunks in (2, 3):
                        if min(axes, default=3) >= chunks:
                            with self.subTest(f"{node.target} {factor} in {chunks}"):
                                want, got = self.cut(node, values, factor, chunks)
                                tolerance = 1e-5 if want[0].dtype is torch.float32 else 1e-10
                                torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
        alike = {aten.detach.default, aten.alias.default, aten.flip.default, aten.cumprod.default, aten.amin.default}
        alike |= {aten.zeros_like.default, aten.ones_like.default, aten.empty_like.default, aten.zeros.default, aten.ones.default}
        alike |= {aten.empty.memory_format, aten.new_full.default, aten.squeeze.dims, aten.squeeze.default, aten.split_with_sizes.default}
        alike |= {aten.scatter.src, aten.argmax.default, aten.any.dim, aten._log_softmax_backward_data.default, aten.smooth_l1_loss.default}
        alike |= {aten.huber_loss_backward.default, aten._fused_rms_norm.default, aten._fused_rms_norm_backward.default}
        alike |= {torch.ops.prims.convert_element_type.default, aten.min.dim, aten.std.correction}
        alike |= {aten.replication_pad2d.default, aten.replication_pad2d_backward.default}
        self.assertEqual({str(t) for t in factors.known() - seen - alike}, set())


if __name__ == "__main__":
    unittest.main()
