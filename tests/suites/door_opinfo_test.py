"""Runs PyTorch's OpInfo samples through the PyTorch door at the least peak: results, gradients and the next random number must be those of plain
PyTorch, bit by bit.

By default one sample of every twentieth operator runs, in two types and memory formats. With ISTHMUS_FULL=1 in the environment, or names of
operators as arguments, many samples run, in four types, both memory formats, with one thread and two, with symbolic sizes and under autocast.
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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import command  # noqa: E402

command.with_python_of_torch()

import torch  # noqa: E402
from opinfo_samples import operators  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import isthmus.torch  # noqa: E402

FULL = os.environ.get("ISTHMUS_FULL") == "1"
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
# Their results are memory as it was found, or depend on addresses.
LEFT_OUT = ("empty*", "new_empty*", "*_strided", "empty_like")


def channels_last(value):
    if isinstance(value, torch.Tensor) and value.dim() == 4:
        return value.detach().to(memory_format=torch.channels_last).requires_grad_(value.requires_grad)
    return value


class Sample:
    def __init__(self, op, sample):
        self.op = op
        self.leaves, self.spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))

    def run(self, wrap, context):
        """Returns the results, the gradients and the next random number. The operands are the function's arguments, as in a training."""
        places = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        given = [self.leaves[k].detach().clone(memory_format=torch.preserve_format) for k in places]
        given = [x.requires_grad_(self.leaves[k].requires_grad) for k, x in zip(places, given)]

        def function(*tensors):
            leaves = list(self.leaves)
            for k, x in zip(places, tensors):
                leaves[k] = x * 1 if x.requires_grad else x  # an op that writes into its operand may not write into a leaf
            args, kwargs = pytree.tree_unflatten(leaves, self.spec)
            with context():
                return [y for y in pytree.tree_leaves(self.op(*args, **kwargs)) if isinstance(y, torch.Tensor)]

        torch.manual_seed(1)
        results = wrap(function)(*given)
        differentiable = [y for y in results if y.requires_grad and (y.is_floating_point() or y.is_complex())]
        if differentiable:
            torch.autograd.backward(differentiable, [torch.linspace(-1, 1, y.numel()).view(y.shape).to(y.dtype) for y in differentiable])
        return [y.detach() for y in results] + [x.grad for x in given] + [torch.rand(1)]


def same(a, b):
    if a is None or b is None:
        return a is b
    a, b = a.resolve_conj().resolve_neg(), b.resolve_conj().resolve_neg()
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(torch.nan_to_num(a, nan=7.0), torch.nan_to_num(b, nan=7.0))


def samples(name, op, dtype, count):
    seed = zlib.crc32(name.encode())
    random.seed(seed)
    torch.manual_seed(seed)
    found = list(op.sample_inputs("cpu", dtype, requires_grad=True))
    return found[:: max(1, len(found) // count)][:count]


def check(name, op, dtype, form, threads, dynamic, context, count):
    """Returns (samples compared, texts of failures, samples that PyTorch itself cannot run or trace)."""
    compared, failures, left_out = 0, [], 0
    torch.set_num_threads(threads)
    for sample in samples(name, op, dtype, count):
        sample = Sample(op, sample.transform(channels_last) if form == "channels last" else sample)
        try:
            want = sample.run(lambda f: f, context)
            torch.compiler.reset()
            sample.run(lambda f: torch.compile(f, backend="aot_eager", dynamic=dynamic), context)
        except Exception:
            left_out += 1
            continue
        torch.compiler.reset()
        isthmus.torch.reset()
        where = f"{name} {dtype} {form} threads={threads} dynamic={dynamic} {context.__name__}"
        try:
            got = sample.run(lambda f: torch.compile(f, backend=isthmus.torch.backend, dynamic=dynamic, options={"budget": "min"}), context)
            different = [k for k, (a, b) in enumerate(zip(want, got, strict=True)) if not same(a, b)]
            failures += [f"{where}: other bits in {different}"] if different else []
        except Exception as e:
            failures.append(f"{where}: {' '.join(str(getattr(e, 'inner_exception', e)).split())[:300]}")
        compared += 1
    return compared, failures, left_out


def plain():
    return contextlib.nullcontext()


def autocast():
    return torch.autocast("cpu", torch.bfloat16)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", help="operators, as 'nn.functional.conv*'")
    parser.add_argument("--samples", type=int, help="how many of each operator")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    ops = [(n, op) for n, op in operators().items() if op.supports_autograd and not any(fnmatch.fnmatch(n, p) for p in LEFT_OUT)]
    if options.patterns:
        ops = [(n, op) for n, op in ops if any(fnmatch.fnmatch(n, p) for p in options.patterns)]
    every = bool(options.patterns) or FULL
    ways = [(d, "rows", 1, False, plain) for d in (DTYPES if every else DTYPES[1:3])]
    ways += [(torch.float32, "channels last", 1, False, plain)]
    if every:
        ways += [(torch.float32, "channels last", 2, False, plain), (torch.float32, "rows", 2, False, plain)]
        ways += [(torch.float32, "rows", 1, True, plain), (torch.float32, "rows", 1, False, autocast)]
    count = options.samples or (4 if every else 1)
    passed = failed = skipped = 0
    for (name, op), (dtype, form, threads, dynamic, context) in itertools.product(ops if every else ops[::20], ways):
        if dtype not in op.supported_backward_dtypes("cpu"):
            continue
        compared, failures, left_out = check(name, op, dtype, form, threads, dynamic, context, count)
        for line in failures:
            print(f"FAILED {line}", flush=True)
        passed, failed, skipped = passed + compared - len(failures), failed + len(failures), skipped + left_out
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
