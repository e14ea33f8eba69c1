"""Defines ops that compute as plain PyTorch does on a CPU, where PyTorch traces something else that rounds otherwise.

Dropout: PyTorch traces `native_dropout`, which multiplies by a mask and then by 1 / (1 - p); its CPU multiplies by the mask divided by 1 - p.
Products: the gradient of a product divides the product by each factor if no factor is zero. PyTorch does not look at the numbers while it
traces, and then multiplies the other factors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

NAMESPACE = "isthmus_eager"
_library = torch.library.Library(NAMESPACE, "DEF")
_ops = getattr(torch.ops, NAMESPACE)
_aten = torch.ops.aten


def kernels() -> Mapping[torch._ops.OpOverload, Callable[..., Any]]:
    """Returns, by op, the function that is traced in its place."""
    return {_aten.dropout.default: _dropout, _aten.prod.default: _prod, _aten.prod.dim_int: _prod_of_dim}


# --- dropout


def _dropout(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    if not train or p == 0 or x.numel() == 0:
        return x
    if p == 1:
        return x * torch.zeros((), dtype=x.dtype, device=x.device)
    if x.device.type != "cpu" or not x.is_floating_point() or _is_transformed() or _rounds_alike(x.dtype, p):
        return _aten.native_dropout(x, p, train)[0]
    return _ops.dropout(x, p)[0]


def _rounds_alike(dtype: torch.dtype, p: float) -> bool:
    """Returns True if the factor of what is not dropped is the same number in `native_dropout`, which has it in single precision at least."""
    with torch.utils._python_dispatch._disable_current_modes():
        factor = torch.ones((), dtype=dtype).div(1 - p).double()
        return bool(factor == torch.tensor(1 / (1 - p), dtype=torch.promote_types(dtype, torch.float32)).double())


_library.define("dropout(Tensor x, float p) -> (Tensor, Tensor)", tags=[torch.Tag.nondeterministic_seeded])
_library.define("dropout_backward(Tensor gradient, Tensor mask, float p) -> Tensor")


def _dropped(x: torch.Tensor, p: float) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.empty_like(x, dtype=torch.bool).bernoulli_(1 - p)  # draws the same numbers as for a mask of the type of x
    return x * _noise(mask, x.dtype, p), mask


def _noise(mask: torch.Tensor, dtype: torch.dtype, p: float) -> torch.Tensor:
    return mask.to(dtype).div_(1 - p)


def _undropped(gradient: torch.Tensor, mask: torch.Tensor, p: float) -> torch.Tensor:
    return gradient * _noise(mask, gradient.dtype, p)


def _keep_mask(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.p = inputs[1]


def _gradient_of_dropout(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[Any, ...]:
    return _ops.dropout_backward(gradient, *ctx.saved_tensors, ctx.p), None


def _keep_given_mask(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.p = inputs[2]


def _gradient_of_gradient_of_dropout(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    return _ops.dropout_backward(gradient, *ctx.saved_tensors, ctx.p), None, None


# --- products


def _prod(x: torch.Tensor, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _product(x, None, False, dtype)


def _prod_of_dim(x: torch.Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _product(x, dim, keepdim, dtype)


def _product(x: torch.Tensor, dim: int | None, keepdim: bool, dtype: torch.dtype | None) -> torch.Tensor:
    if dtype is not None and dtype != x.dtype:
        x = x.to(dtype)
    if not x.requires_grad or x.device.type != "cpu" or _is_transformed():
        return _by_pytorch(x, dim, keepdim)
    return _ops.prod(x, dim, keepdim)


def _by_pytorch(x: torch.Tensor, dim: int | None, keepdim: bool) -> torch.Tensor:
    """Traces PyTorch's own op and its gradient, although `kernels` has a function for it."""
    key = torch._C.DispatchKey.AutogradCUDA if x.is_cuda else torch._C.DispatchKey.AutogradCPU
    return _aten.prod.default._op_dk(key, x) if dim is None else _aten.prod.dim_int._op_dk(key, x, dim, keepdim)


def _plain_product(x: torch.Tensor, dim: int | None, keepdim: bool) -> torch.Tensor:
    return torch.prod(x) if dim is None else torch.prod(x, dim, keepdim)


def _plain_gradient(gradient: torch.Tensor, x: torch.Tensor, dim: int | None, keepdim: bool) -> torch.Tensor:
    """Differentiates the plain op, outside of this op's own dispatch, which is below autograd. Autocast, which is above it, has cast the operands."""
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_keys(x), torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = _plain_product(x, dim, keepdim)
        return torch.autograd.grad(y, x, gradient)[0]


_library.define("prod(Tensor x, int? dim, bool keepdim) -> Tensor")
_library.define("prod_backward(Tensor gradient, Tensor x, int? dim, bool keepdim) -> Tensor")


def _keep_factors(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.others = inputs[1:]


def _gradient_of_product(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    (x,) = ctx.saved_tensors
    if torch.is_grad_enabled():  # this gradient has a gradient: PyTorch's own formula has one
        y = _by_pytorch(x, *ctx.others)
        return torch.autograd.grad(y, x, gradient, create_graph=True)[0], None, None
    return _ops.prod_backward(gradient, x, *ctx.others), None, None


for _name, _kernel, _meta in (
    ("dropout", _dropped, lambda x, p: (torch.empty_like(x), torch.empty_like(x, dtype=torch.bool))),
    ("dropout_backward", _undropped, lambda gradient, mask, p: gradient * mask),
    ("prod", _plain_product, _plain_product),
    ("prod_backward", _plain_gradient, lambda gradient, x, dim, keepdim: torch.empty_like(x)),
):
    torch.library.impl(f"{NAMESPACE}::{_name}", "CPU", _kernel, lib=_library)
    torch.library.register_fake(f"{NAMESPACE}::{_name}", _meta, lib=_library)
for _name, _gradient, _setup in (
    ("dropout", _gradient_of_dropout, _keep_mask),
    ("dropout_backward", _gradient_of_gradient_of_dropout, _keep_given_mask),
    ("prod", _gradient_of_product, _keep_factors),
):
    torch.library.register_autograd(f"{NAMESPACE}::{_name}", _gradient, setup_context=_setup, lib=_library)


def _is_transformed() -> bool:
    """Returns True within a function of torch.func, such as vmap, which has rules of its own for PyTorch's ops only."""
    return torch._C._functorch.peek_interpreter_stack() is not None
