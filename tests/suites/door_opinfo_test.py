"""Runs PyTorch's OpInfo and ModuleInfo samples through the PyTorch door at the least peak: results, gradients and the next random number must be
those of plain PyTorch, bit by bit.

By default one sample of every twenty-fifth operator runs, in f32 and, by turns, in bf16 or in the other memory format, of every twentieth that has a
variant that writes into its operand, and of every twentieth module. With ISTHMUS_FULL=1 in the environment, or names as arguments, such as
'nn.functional.conv*', 'add_' or 'nn.Conv2d', many samples run, in four types, both memory formats, with one thread and two, with symbolic sizes and
under autocast.
"""

import argparse
import contextlib
import fnmatch
import itertools
import os
import random
import sys
import warnings
import zlib
from dataclasses import dataclass
from typing import Any, Callable

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import command  # noqa: E402

command.with_python_of_torch()

import torch  # noqa: E402
from opinfo_samples import modules, operators  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import isthmus.torch  # noqa: E402

FULL = os.environ.get("ISTHMUS_FULL") == "1"
# PyTorch's tracing makes other ops of these, so that every backend has other bits than plain PyTorch. Results are those of aot_eager there.
OF_ANOTHER_TRACE = {
    "addcdiv": (lambda way: True, "Dynamo makes it of div, mul and add"),
    "addcdiv_": (lambda way: True, "Dynamo makes it of div, mul and add"),
    "nn.functional.bilinear": (lambda way: way.context is autocast, "its parts are cast one by one"),
    "nn.functional.multi_margin_loss": (lambda way: way.dynamic, "it is traced in parts"),
    "nn.functional.multilabel_margin_loss": (lambda way: way.dynamic, "it is traced in parts"),
    "nn.MultiMarginLoss": (lambda way: way.dynamic, "it is traced in parts"),
    "nn.MultiLabelMarginLoss": (lambda way: way.dynamic, "it is traced in parts"),
}
# PyTorch's own kernel gives other values in each call where the last axis has a stride.
WRONG_WITH_CHANNELS_LAST = {"torch.ops.aten._scaled_dot_product_flash_attention_for_cpu"}
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
# Their results are memory as it was found, or depend on addresses.
LEFT_OUT = ("empty*", "new_empty*", "*_strided", "empty_like")


def plain():
    return contextlib.nullcontext()


def autocast():
    return torch.autocast("cpu", torch.bfloat16)


@dataclass(frozen=True)
class Way:
    """How the samples run."""

    dtype: torch.dtype
    is_channels_last: bool = False
    threads: int = 1
    dynamic: bool = False
    context: Callable[[], Any] = plain

    def __str__(self):
        form = " channels last" if self.is_channels_last else ""
        return f"{str(self.dtype).removeprefix('torch.')}{form} threads={self.threads} dynamic={self.dynamic} {self.context.__name__}"


FEW = (Way(torch.float32), Way(torch.bfloat16), Way(torch.float32, is_channels_last=True))
MANY = (
    *(Way(dtype) for dtype in DTYPES),
    Way(torch.float32, is_channels_last=True),
    Way(torch.float32, is_channels_last=True, threads=2),
    Way(torch.float32, threads=2),
    Way(torch.float32, dynamic=True),
    Way(torch.float32, context=autocast),
)


def channels_last(value):
    if isinstance(value, torch.Tensor) and not torch.nn.parameter.is_lazy(value) and value.dim() == 4:
        return value.detach().to(memory_format=torch.channels_last).requires_grad_(value.requires_grad)
    return value


class Sample:
    """A call of a function: its tensors are the arguments of what is compiled, as in a training."""

    def __init__(self, function, args, kwargs):
        self.function = function
        self.leaves, self.spec = pytree.tree_flatten((args, kwargs))

    def run(self, wrap, way):
        """Returns the results, the gradients and the next random number. PyTorch's compiled code puts the gradient that it is given into the strides
        of its result, or, with symbolic sizes, into rows; so it is given as such to all."""
        places = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        given = [self.leaves[k].detach().clone(memory_format=torch.preserve_format) for k in places]
        given = [x.requires_grad_(self.leaves[k].requires_grad) for k, x in zip(places, given)]

        def function(*tensors):
            leaves = list(self.leaves)
            for k, x in zip(places, tensors):
                leaves[k] = x * 1 if x.requires_grad else x  # an op that writes into its operand may not write into a leaf
            args, kwargs = pytree.tree_unflatten(leaves, self.spec)
            with way.context():
                return [y for y in pytree.tree_leaves(self.function(*args, **kwargs)) if isinstance(y, torch.Tensor)]

        torch.manual_seed(1)
        results = wrap(function)(*given)
        differentiable = [y for y in results if y.requires_grad and (y.is_floating_point() or y.is_complex())]
        if differentiable:
            torch.autograd.backward(differentiable, [gradient_of(y, in_rows=way.dynamic) for y in differentiable])
        return [y.detach() for y in results] + [x.grad for x in given] + [torch.rand(1)]


def gradient_of(y, *, in_rows):
    gradient = torch.linspace(-1, 1, y.numel()).view(y.shape)
    return gradient.to(y.dtype) if in_rows else torch.empty_like(y).copy_(gradient)


def of_module(module, forward):
    """Returns a function of a module's parameters and buffers and of its inputs, and its operands."""
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return lambda state, *args, **kwargs: torch.func.functional_call(module, state, args, kwargs), (state, *forward.args), forward.kwargs


@dataclass(frozen=True)
class Subject:
    """An operator or a module. `samples` returns those of a type."""

    name: str
    dtypes: frozenset[torch.dtype]
    samples: Callable[[torch.dtype], list[Sample]]


def of_operators():
    for name, op in operators().items():
        if op.supports_autograd and not any(fnmatch.fnmatch(name, p) for p in LEFT_OUT):
            dtypes = frozenset(op.supported_backward_dtypes("cpu"))
            yield Subject(name, dtypes, lambda dtype, op=op: samples_of(op, op, dtype))


def of_writing_operators():
    """Yields the variants that write their result into their first operand."""
    for name, op in operators().items():
        if op.inplace_variant is not None and op.supports_autograd and op.supports_inplace_autograd:
            dtypes = frozenset(op.supported_backward_dtypes("cpu"))
            yield Subject(f"{name}_", dtypes, lambda dtype, op=op: samples_of(op, op.inplace_variant, dtype, writes=True))


def of_modules():
    for name, info in modules().items():

        def samples(dtype, info=info):
            inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=True)
            made = []
            for i in inputs:
                if i.forward_input is not None:
                    constructor = i.constructor_input
                    module = info.module_cls(*constructor.args, **constructor.kwargs).to(dtype)
                    made.append(Sample(*of_module(module, i.forward_input)))
            return made

        yield Subject(name, frozenset(info.dtypes), samples)


def samples_of(op, function, dtype, *, writes=False):
    found = op.sample_inputs("cpu", dtype, requires_grad=True)
    # A broadcast first operand is too small for the result.
    return [Sample(function, (s.input, *s.args), s.kwargs) for s in found if not (writes and s.broadcasts_input)]


def same(a, b):
    if a is None or b is None:
        return a is b
    if a.dtype != b.dtype or a.shape != b.shape or a.layout != b.layout:
        return False
    if a.layout != torch.strided:
        return same(a.to_dense(), b.to_dense())
    a, b = ((torch.view_as_real(x) if x.is_complex() else x) for x in (a.resolve_conj().resolve_neg(), b.resolve_conj().resolve_neg()))
    return torch.equal(torch.nan_to_num(a, nan=7.0), torch.nan_to_num(b, nan=7.0))


def is_of_another_trace(subject, way):
    holds, _ = OF_ANOTHER_TRACE.get(subject.name, (lambda way: False, ""))
    return holds(way)


def check(subject, way, count):
    """Returns (samples compared, texts of failures, samples that PyTorch itself cannot run or trace, or runs wrong)."""
    compared, failures, left_out = 0, [], 0
    torch.set_num_threads(way.threads)
    seed = zlib.crc32(subject.name.encode())
    random.seed(seed)
    torch.manual_seed(seed)
    samples = subject.samples(way.dtype)
    samples = samples[:: max(1, len(samples) // count)][:count]
    if way.is_channels_last and subject.name in WRONG_WITH_CHANNELS_LAST:
        return 0, [], len(samples)
    for sample in samples:
        if way.is_channels_last:
            sample.leaves = [channels_last(leaf) for leaf in sample.leaves]
        try:
            want = sample.run(lambda f: f, way)
            torch.compiler.reset()
            traced = sample.run(lambda f: torch.compile(f, backend="aot_eager", dynamic=way.dynamic), way)
        except Exception:
            left_out += 1
            continue
        torch.compiler.reset()
        isthmus.torch.reset()
        try:
            options = {"budget": "min"}
            got = sample.run(lambda f: torch.compile(f, backend=isthmus.torch.backend, dynamic=way.dynamic, options=options), way)
            if is_of_another_trace(subject, way):
                want = [t if same(t, g) else w for w, t, g in zip(want, traced, got, strict=True)]
            different = [k for k, (a, b) in enumerate(zip(want, got, strict=True)) if not same(a, b)]
            failures += [f"{subject.name} {way}: other bits in {different}"] if different else []
        except Exception as e:
            failures.append(f"{subject.name} {way}: {' '.join(str(getattr(e, 'inner_exception', e)).split())[:300]}")
        compared += 1
    return compared, failures, left_out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", help="operators, those that write with '_' behind, and modules")
    parser.add_argument("--samples", type=int, help="how many of each")
    parser.add_argument("--part", default="1/1", help="K/N: the K-th of N parts of them")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    every = bool(options.patterns) or FULL
    kinds = ((of_operators, 25, FEW), (of_writing_operators, 20, FEW[:1]), (of_modules, 20, FEW[:1]))
    chosen = []
    for of_kind, step, few in kinds:
        for k, subject in enumerate(list(of_kind())[:: 1 if every else step]):
            chosen.append((subject, MANY if every else few[:1] + few[1 + k % 2 :][:1]))
    part, parts = map(int, options.part.split("/"))
    chosen = [(s, ways) for s, ways in chosen if not options.patterns or any(fnmatch.fnmatch(s.name, p) for p in options.patterns)]
    passed = failed = skipped = 0
    for subject, way in itertools.chain.from_iterable(itertools.product([s], ways) for s, ways in chosen[part - 1 :: parts]):
        if way.dtype not in subject.dtypes:
            continue
        compared, failures, left_out = check(subject, way, options.samples or (4 if every else 1))
        for line in failures:
            print(f"FAILED {line}", flush=True)
        passed, failed, skipped = passed + compared - len(failures), failed + len(failures), skipped + left_out
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
