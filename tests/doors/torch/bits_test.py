"""Tests programs that PyTorch traces otherwise than it runs them, against eager, bit by bit."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
import command  # noqa: E402

command.with_python_of_torch()

import itertools  # noqa: E402
import unittest  # noqa: E402
import warnings  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402
from training import refusal, same, with_isthmus  # noqa: E402

torch.set_num_threads(1)
FULL = bool(os.environ.get("ISTHMUS_FULL"))


def some(choices, k):
    """Returns the k-th of the choices, around and around, or with ISTHMUS_FULL=1 all of them."""
    return choices if FULL else (choices[k % len(choices)],)


def function_of(forward, backward):
    """Returns a Function that doubles x, with what its passes do to a buffer: `forward` may return what `backward` is then given."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, buffer):
            ctx.buffer, ctx.kept = buffer, forward(buffer)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            more = backward(ctx.buffer, gradient, ctx.kept)
            return gradient * 2 if more is None else gradient * more.sum(), None

    return Function.apply


def adds_one(buffer):
    buffer.add_(1)


def adds_one_and_keeps_the_old(buffer):
    old = buffer.sin()
    buffer.add_(1)
    return old


WRITES = {
    "add": (adds_one, lambda b, g, kept: [b.add_(10), None][1]),
    "mul": (adds_one, lambda b, g, kept: [b.mul_(3), None][1]),
    "add of the gradient": (adds_one, lambda b, g, kept: [b.add_(g.sum()), None][1]),
    "fill": (adds_one, lambda b, g, kept: [b.fill_(7), None][1]),
    "copy": (adds_one, lambda b, g, kept: [b.copy_(torch.arange(4.0)), None][1]),
    "zero": (adds_one, lambda b, g, kept: [b.zero_(), None][1]),
    "several": (adds_one, lambda b, g, kept: [b.add_(g.sum()), b[1:].mul_(2), b.view(2, 2)[1].sub_(1), None][3]),
    "read before": (adds_one_and_keeps_the_old, lambda b, g, kept: [kept.cos(), b.add_(kept * g.sum())][0]),
    "read, not written": (adds_one_and_keeps_the_old, lambda b, g, kept: kept * 3),
    "read after": (adds_one, lambda b, g, kept: [b.add_(2), b.cos()][1]),
    "backward alone": (lambda b: None, lambda b, g, kept: [b.add_(g.sum()), None][1]),
}


class Written(unittest.TestCase):
    """Buffers that custom Functions write in both passes. The kernels of inductor may round otherwise."""

    def steps(self, function):
        torch.manual_seed(0)
        w, x, buffer, found = torch.randn(6, 6, requires_grad=True), torch.randn(5, 6), torch.arange(1.0, 5.0) / 3, []
        for _ in range(2):
            w.grad = None
            loss = function(w, x, buffer)
            loss.backward()
            found += [loss.detach(), w.grad, buffer.clone()]
        return found

    def test_a_buffer_that_both_passes_write(self):
        for k, (name, (forward, backward)) in enumerate(WRITES.items()):
            first, second = function_of(forward, backward), function_of(*WRITES["several"])

            def one(w, x, buffer):
                return torch.sin(first(torch.tanh(x @ w), buffer) @ w).square().mean()

            def two(w, x, buffer):
                return torch.sin(second(torch.tanh(first(x @ w, buffer)) @ w, buffer)).square().mean()

            pairs = itertools.product((one, two), ("100%", "min"))
            for function, budget in pairs if FULL else ((one, ("100%", "min")[k % 2]), (two, ("min", "100%")[k % 2])):
                with self.subTest(writes=name, functions=function.__name__, budget=budget):
                    want = self.steps(function)
                    self.assertTrue(all(map(same, want, self.steps(with_isthmus(budget)(function)))))

    def test_with_kernels_of_inductor(self):
        for name in ("add of the gradient", "read before", "read, not written"):
            function = function_of(*WRITES[name])

            def one(w, x, buffer):
                return torch.sin(function(torch.tanh(x @ w), buffer) @ w).square().mean()

            with self.subTest(writes=name):
                got = self.steps(with_isthmus("min", kernels="inductor")(one))
                for a, b in zip(self.steps(one), got, strict=True):
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)

    def test_an_overlapping_view_is_refused(self):
        def overlaps(x):
            y = x * 1.0
            y.as_strided((2, 2), (1, 1), 0).add_(1.0)
            return y.square().sum()

        def does_not(x):
            y = x * 1.0
            y.as_strided((2, 2), (2, 1), 0).add_(1.0)
            return torch.as_strided_scatter(y, torch.ones(2, 2), (2, 2), (1, 1), 0).square().sum()

        for needs_gradient in (True, False):
            x = torch.arange(9.0).requires_grad_(needs_gradient)
            self.assertTrue(same(does_not(x), with_isthmus("100%")(does_not)(x)))
            with self.assertRaises(Exception) as caught:
                with_isthmus("100%")(overlaps)(x)
            self.assertIsInstance(refusal(caught.exception), isthmus.Unsupported)
            self.assertIn("'add_' writes into a view of as_strided with sizes [2, 2] and strides [1, 1]", str(caught.exception))


class Saves(torch.autograd.Function):
    """Its gradient does not depend on the one that arrives."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return x.cos()


class Ops(unittest.TestCase):
    def same(self, function, *inputs, budgets=("100%", "min"), **options):
        """Checks the result, the gradients and the next random number against eager."""

        def run(f):
            torch.manual_seed(1)
            given = [x.detach().clone(memory_format=torch.preserve_format).requires_grad_(x.requires_grad) for x in inputs]
            y = f(*given)
            y.backward(torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape))
            return [y.detach(), *(x.grad for x in given), torch.rand(1)]

        want = run(function)
        for budget in budgets:
            got = run(with_isthmus(budget, **options)(function))
            self.assertEqual([k for k, (a, b) in enumerate(zip(want, got, strict=True)) if not same(a, b)], [], budget)

    def test_a_gradient_that_depends_on_no_tangent(self):
        torch.manual_seed(0)
        x, y = torch.randn(8, requires_grad=True), torch.randn(8, requires_grad=True)
        for function in (
            lambda x, y: torch.tanh(torch.nextafter(torch.sin(x), y)),
            lambda x, y: torch.tanh(torch.copysign(torch.sin(x), y)),
            lambda x, y: Saves.apply(x) * y.detach() + y.floor(),
            lambda x, y: Saves.apply(x.sin()) * y,
        ):
            self.same(function, x, y)

    def test_products(self):
        for zeros, shape in itertools.product((0, 1, 2, 3), ((6, 7), (5,))):
            x = torch.linspace(-1, 1.5, 42).view(6, 7)[:, : shape[-1]].clone() if len(shape) == 2 else torch.linspace(-1, 1.5, 5)
            x.view(-1)[[1, 3, 4][:zeros]] = 0
            x.requires_grad_()
            functions = (
                lambda x: x.sin().prod().exp(),
                lambda x: x.sin().prod(-1).exp(),
                lambda x: x.prod(0, keepdim=True) * x,
                lambda x: x.prod(0, dtype=torch.float64),
                lambda x: torch.masked.prod(x, -1, mask=x > -0.5),
            )
            for k, function in enumerate(functions):
                for dtype in some((torch.float32, torch.bfloat16), k + zeros):
                    with self.subTest(zeros=zeros, shape=shape, dtype=dtype):
                        self.same(function, x.detach().to(dtype).requires_grad_(), budgets=("min",))

    def test_results_whose_elements_share_memory(self):
        """Such a result's strides cannot hold its gradient."""
        x = torch.randn(6, 8, requires_grad=True)
        for function in (
            lambda x: (x * 2).unfold(1, 3, 1),
            lambda x: (x * 2).as_strided((3, 4), (8, 2)),
            lambda x: (x * 2).as_strided((3, 4), (1, 1)),
        ):
            for kernels, dynamic in (("aot_eager", False), ("aot_eager", True), ("inductor", False)):
                with self.subTest(kernels=kernels, dynamic=dynamic):
                    self.same(function, x, budgets=("min",), kernels=kernels, dynamic=dynamic)
        self.same(lambda x: (x * 2)[:, :1].expand(6, 5), x)

    def test_dropout(self):
        dtypes, shares = (torch.float32, torch.float64, torch.bfloat16, torch.float16), (0.1, 0.15, 0.5, 1.0)
        for (k, dtype), (m, p) in itertools.product(enumerate(dtypes), enumerate(shares)):
            for layout in some(("rows", "columns", "channels last"), k + m):
                x = torch.randn(8, 6, 5, 4).to(dtype)
                x = x.to(memory_format=torch.channels_last) if layout == "channels last" else x[0, 0].t() if layout == "columns" else x
                with self.subTest(dtype=dtype, p=p, layout=layout):
                    self.same(lambda x: F.dropout(x.sin(), p).exp(), x.requires_grad_(), budgets=("min",))
        self.same(lambda x: F.dropout(x, 0.15) * F.dropout(x, 0.15), torch.randn(300, 300, requires_grad=True))

    def test_dropout_under_autocast(self):
        torch.manual_seed(0)
        v, w, x = torch.randn(16, 16, requires_grad=True), torch.randn(16, 16, requires_grad=True), torch.randn(8, 16, requires_grad=True)

        def function(v, w, x):
            with torch.autocast("cpu", torch.bfloat16):
                return F.dropout(torch.tanh(F.dropout(torch.tanh(x @ v), 0.1) @ w), 0.15).float()

        self.same(function, v, w, x)

    def test_a_backward_outside_of_autocast(self):
        """Ops of attention that are not cast in the forward are not cast in the backward. PyTorch's own tracing has the forward's autocast in both."""
        torch.manual_seed(0)
        attention, x, target = nn.MultiheadAttention(32, 4, dropout=0.1, batch_first=True), torch.randn(4, 16, 32), torch.randn(4, 16, 32)

        def gradients(function):
            attention.zero_grad()
            torch.manual_seed(1)
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.mse_loss(function(x).float(), target)
            loss.backward()
            return [p.grad.clone() for p in attention.parameters()]

        def function(x):
            return attention(x, x, x, need_weights=False)[0]

        want = gradients(function)
        for budget in ("100%", "min"):
            self.assertTrue(all(map(same, want, gradients(with_isthmus(budget)(function)))), budget)

    def test_interpolations(self):
        """Also of pictures whose channels lie last, which a convolution reads in the order in which they lie."""
        a, b = nn.Conv2d(12, 8, 1), nn.Conv2d(8, 8, 3, padding=1)
        modes = ("nearest", "nearest-exact", "bilinear", "bicubic")
        for mode, layout in itertools.product(modes, (torch.contiguous_format, torch.channels_last)):
            weights = [p.detach().clone().requires_grad_() for p in (a.weight, a.bias, b.weight, b.bias)]

            def function(aw, ab, bw, bb):
                h = F.interpolate(F.conv2d(x, aw, ab), scale_factor=2.0, mode=mode)
                return F.conv2d(h, bw, bb, padding=1).square()

            x = torch.randn(2, 12, 8, 8).to(memory_format=layout)
            with self.subTest(mode=mode, layout=layout):
                self.same(function, *weights, budgets=("min",))

    def test_ops_with_symbolic_sizes(self):
        """PyTorch has no functions in Python for the shapes of these gradients."""
        w = torch.ones(3, 1, 1, requires_grad=True)
        self.same_at_sizes({op.__name__: lambda x, w, op=op: op(x * w).sin() for op in (F.softshrink, F.hardshrink)}, w)

    def test_interpolation_to_a_symbolic_size(self):
        w = torch.ones(3, 1, 1, requires_grad=True)
        programs = {
            "a computed size": lambda x, w: F.interpolate(x * w, size=(x.shape[2] // 2, x.shape[3] // 2), mode="bilinear"),
            "scales": lambda x, w: F.interpolate(x * w, scale_factor=1.5, mode="bicubic", recompute_scale_factor=True),
            "another's size": lambda x, w: F.interpolate(F.max_pool2d(x * w, 2), size=x.shape[2:], mode="nearest") + x,
            "aligned corners": lambda x, w: F.interpolate(F.max_pool2d(x * w, 2), size=x.shape[2:], mode="bilinear", align_corners=True),
            "antialias": lambda x, w: F.interpolate(x * w, size=(x.shape[2] // 2, x.shape[3] // 2), mode="bilinear", antialias=True),
            "one dimension": lambda x, w: F.interpolate((x * w).flatten(2), size=x.shape[2] * 3, mode="linear"),
            "three dimensions": lambda x, w: F.interpolate((x * w)[None], size=[x.shape[1], x.shape[2] // 2, x.shape[3]], mode="trilinear"),
        }
        self.same_at_sizes(programs, w)

    def same_at_sizes(self, programs, w):
        """Compares results and gradients of programs f(x, w) with plain PyTorch's for pictures x of several sizes."""
        for (name, function), dynamic in itertools.product(programs.items(), (True, None)):
            with self.subTest(program=name, dynamic=dynamic), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with_isthmus("min")
                call = torch.compile(function, backend=isthmus.torch.backend, options={"budget": "min"}, dynamic=dynamic, fullgraph=True)
                for more in (0, 3, 1):
                    x = torch.randn(2, 3, 16 + more, 20 + more)
                    found = []
                    for f in (function, call):
                        w.grad = None
                        y = f(x, w)
                        y.square().mean().backward()
                        found.append((y.detach(), w.grad))
                    self.assertTrue(all(map(same, *found)), more)


if __name__ == "__main__":
    command.main()
