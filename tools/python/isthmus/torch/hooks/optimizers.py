"""What PyTorch holds of a device, and what it calls when an optimizer runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks, register_optimizer_step_post_hook


@contextlib.contextmanager
def without_hooks_of_optimizers() -> Iterator[None]:
    """Keeps the hooks that a program has set for the steps of all optimizers from being called."""
    before = [(hooks, dict(hooks)) for hooks in (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)]
    try:
        for hooks, _ in before:
            hooks.clear()
        yield
    finally:
        for hooks, known in before:
            hooks.update(known)


def after_optimizers(call: Callable[[], None]) -> None:
    """Calls a function after each step of any optimizer, except one that PyTorch compiles."""

    def stepped(*_: Any) -> None:
        if not torch.compiler.is_compiling():
            call()

    register_optimizer_step_post_hook(stepped)


def has_optimizer_in_backward(parameter: torch.Tensor) -> bool:
    """Returns True if a hook runs as soon as the parameter's gradient is there, which may then be freed within the backward."""
    return bool(parameter._post_accumulate_grad_hooks)


def is_traced(t: torch.Tensor) -> bool:
    """Returns True for a tensor with which PyTorch only traces: it holds no memory."""
    return isinstance(t, (FakeTensor, FunctionalTensor)) or t.device.type == "meta"


def is_leaf_of_program(t: Any) -> bool:
    return not is_traced(t) and bool(t.requires_grad) and t.is_leaf


def live_on_gpu(device: torch.device) -> int:
    """Returns the bytes of the live tensors on a GPU, in the blocks that the allocator has handed out."""
    return int(torch.cuda.memory_allocated(device))
