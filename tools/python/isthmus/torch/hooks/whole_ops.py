"""Keeps PyTorch from taking apart, when it traces, ops whose parts round otherwise than the op's own kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._decomp.decompositions import upsample_compute_output_size

_INTERPOLATIONS = (
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
    "_upsample_lanczos2d_aa",
)
_OF_ELEMENTS = ("hardshrink", "softshrink")
_OF_KNOWN_SIZES = ("multi_margin_loss", "multilabel_margin_loss_forward")  # PyTorch cannot trace their backward with symbolic sizes

_Op = torch._ops.OpOverload
_Kernel = Callable[..., Any]
_Key = torch._C.DispatchKey
_TRACED = (_Key.Autograd, _Key.CompositeImplicitAutograd)
"""The keys of the kernels in Python with which PyTorch takes ops apart."""


@contextlib.contextmanager
def whole_ops(own: Mapping[_Op, _Kernel], *, has_symbolic_sizes: bool) -> Iterator[None]:
    """Traces ops without PyTorch's decompositions, which are for compilers that have no kernels for the ops. own: functions that are traced in
    place of ops."""
    names = (*_INTERPOLATIONS, *_OF_ELEMENTS, *(() if has_symbolic_sizes else _OF_KNOWN_SIZES))
    kernels: dict[_Op, dict[_Key, _Kernel]] = {op: {} for name in names for op in _overloads(name)}
    for op, kernel in own.items():
        kernels[op] = dict.fromkeys([key for key in _TRACED if key in op.py_kernels] or [_Key.Autograd], kernel)
    for packet in map(_packet, _INTERPOLATIONS):
        kernels[packet.vec] = dict.fromkeys(_TRACED, _of_scales(packet.default))
    before = {op: dict(op.py_kernels) for op in kernels}
    for op, given in kernels.items():
        _set(op, {**{key: kernel for key, kernel in op.py_kernels.items() if key not in _TRACED}, **given})
    traced = {**dict.fromkeys(_INTERPOLATIONS, _traced_gradient), **dict.fromkeys(_OF_ELEMENTS, _traced_gradient_of_elements)}
    for name, kernel in traced.items():
        op = _gradient_of(name)
        before[op] = dict(op.py_kernels)
        _set(op, {_Key.Meta: kernel, **op.py_kernels})
    try:
        yield
    finally:
        for op, given in before.items():
            _set(op, given)


def _set(op: _Op, kernels: Mapping[_Key, _Kernel]) -> None:
    op.py_kernels.clear()
    op.py_kernels.update(kernels)
    op._dispatch_cache.clear()


def _overloads(name: str) -> list[_Op]:
    return [getattr(_packet(name), overload) for overload in _packet(name).overloads()]


def _gradient_of(name: str) -> _Op:
    return _packet(f"{name}_backward").default


def _traced_gradient(gradient: torch.Tensor, output_size: Any, input_size: Any, *others: Any) -> torch.Tensor:
    """Returns a tensor like the gradient of an interpolation. Most of PyTorch's own functions for that take no symbolic sizes."""
    return gradient.new_empty(input_size).to(memory_format=torch._prims_common.suggest_memory_format(gradient))


def _traced_gradient_of_elements(gradient: torch.Tensor, x: torch.Tensor, *others: Any) -> torch.Tensor:
    """Returns a tensor like the gradient of an op of elements. PyTorch's own functions for that, in C++, take no symbolic sizes."""
    return gradient * x


def _packet(name: str) -> Any:
    return getattr(torch.ops.aten, name)


def _of_scales(op: _Op) -> _Kernel:
    """Returns a kernel for the overload that takes a size or scales, and that calls `op` with the size. PyTorch's own is in C++ and takes no
    symbolic sizes."""

    def interpolated(x: torch.Tensor, size: Any, *others: Any) -> torch.Tensor:
        *flags, scales = others
        size = upsample_compute_output_size(x.size(), size, scales)
        return op(x, size, *flags, *(scales or [None] * len(size)))

    return interpolated
