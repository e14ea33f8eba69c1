"""Turns PyTorch's OpInfo samples into modules: tensors are inputs, and all else is constant."""

import random
import sys
import types
import unittest
import zlib

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree


def _prepare_import():
    """PyTorch's testing package imports this package for a base class of its own tests, which do not run here."""
    if "expecttest" not in sys.modules:
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase = unittest.TestCase


def modules():
    """Returns the samples that PyTorch has of its modules, by name, in the order of its table."""
    _prepare_import()
    from torch.testing._internal.common_modules import module_db

    return {info.name: info for info in module_db}


def operators():
    """Returns PyTorch's operators that take f64, by name, in the order of its table."""
    _prepare_import()
    from torch.testing._internal.common_methods_invocations import op_db

    found = {}
    for op in op_db:
        if torch.float64 in op.dtypes:
            found.setdefault(f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name, op)
    return found


class Sample(nn.Module):
    """One call of an operator. `inputs` are the tensors among its arguments, in f64 with values that are exact in
    f32."""

    def __init__(self, op, sample):
        super().__init__()
        self.op = op
        flat, self.spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.places = [i for i, a in enumerate(flat) if isinstance(a, torch.Tensor)]
        self.rest = [None if isinstance(a, torch.Tensor) else a for a in flat]
        self.inputs = [as_leaf(flat[i]) for i in self.places]

    def forward(self, *inputs):
        flat = list(self.rest)
        for place, x in zip(self.places, inputs, strict=True):
            flat[place] = x
        args, kwargs = pytree.tree_unflatten(flat, self.spec)
        return tuple(y for y in pytree.tree_leaves(self.op(*args, **kwargs)) if isinstance(y, torch.Tensor))

    def names(self):
        return [f"x{i}" for i in range(len(self.inputs))]

    def __str__(self):
        flat = list(self.rest)
        for place, x in zip(self.places, self.inputs, strict=True):
            flat[place] = f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
        args, kwargs = pytree.tree_unflatten(flat, self.spec)
        return ", ".join([*map(str, args), *(f"{k}={v}" for k, v in kwargs.items())])


def as_leaf(tensor):
    value = tensor.detach()
    if value.dtype == torch.float64 and value.layout == torch.strided:
        value = value.float().double()
    return value.clone().requires_grad_(tensor.requires_grad)


def samples(name, op, count):
    """Returns (index, sample) of the operator: `count` samples, spread evenly over all that PyTorch has; with None,
    all."""
    seed = zlib.crc32(name.encode())
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    found = list(op.sample_inputs("cpu", torch.float64, requires_grad=op.supports_autograd))
    if count is None or count >= len(found):
        chosen = range(len(found))
    elif count == 1:
        chosen = [0]
    else:
        chosen = sorted({round(i * (len(found) - 1) / (count - 1)) for i in range(count)})
    return [(i, Sample(op, found[i])) for i in chosen]
