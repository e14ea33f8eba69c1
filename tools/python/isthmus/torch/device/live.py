"""Finds what PyTorch holds of a device, and says what it is: parameters, buffers, gradients, optimizers' state, and the rest.

Tensors are those of which Python knows, and those that autograd's graphs keep for a backward. A GPU's allocator also knows its live bytes. The
CPU's does not, so there these tensors are all that is counted.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .. import hooks
from . import heap
from .optimizers import allocated, unwrapped_among

KINDS = ("parameters", "buffers", "gradients", "state")


@dataclass(frozen=True)
class Live:
    """The bytes that are live on a device before a step begins."""

    of_kind: dict[str, int]
    """By each of `KINDS`, its bytes."""
    other_bytes: int
    """The bytes of all other tensors, inputs among them."""

    @property
    def bytes(self) -> int:
        return sum(self.of_kind.values()) + self.other_bytes


@dataclass(frozen=True)
class Storage:
    """The bytes of one or more tensors. It keeps none of them alive."""

    ref: hooks.StorageWeakRef
    address: int
    """Where its memory begins."""
    bytes: int
    is_input: bool = False
    """True: it is of a batch that a DataLoader has handed out, or holds whole numbers, or PyTorch's allocator has not made it."""


Storages = dict[int, Storage]
"""Storages by `hooks.storage_id`, which is unique as long as the storage is watched."""


def found_on(
    device: torch.device, given: Iterable[torch.optim.Optimizer] = ()
) -> tuple[Live, list[torch.optim.Optimizer], list[torch.Tensor]]:
    """Returns what is live on a device, the optimizers of the program, and the parameters on the device that may get gradients. given: optimizers
    that the user has named."""
    gc.collect()  # tensors in dead cycles are no part of the next step
    groups, tensors, optimizers = _groups(device, given)
    known: Storages = {}
    of_kind = {kind: _added(group, device, known) for kind, group in zip(KINDS, groups, strict=True)}
    if device.type == "cuda":
        others = max(0, hooks.live_on_gpu(device) - sum(of_kind.values()))
    else:
        others = _added_others(tensors, device, known)
    return Live(of_kind, others), optimizers, [t for t in groups[0] if t.requires_grad and _is_counted(t, device)]


def storages_of(tensors: list[torch.Tensor], device: torch.device) -> Storages:
    """Returns the storages on a device that tensors hold, or that the graphs of these tensors keep."""
    found: Storages = {}
    _added_others(tensors, device, found)
    return found


def new_on(device: torch.device, young: list[torch.Tensor]) -> Storages:
    """Returns the storages on a device that are of no kind and that only young tensors hold. Here a leaf that needs a gradient is of a kind only if
    it is an `nn.Parameter`."""
    (leaves, *groups), tensors, _ = _groups(device)
    known: Storages = {}
    for group in ([t for t in leaves if isinstance(t, torch.nn.Parameter)], *groups):
        _added(group, device, known)
    ids = {id(t) for t in young}
    _added_others([t for t in tensors if id(t) not in ids], device, known)
    return {key: storage for key, storage in storages_of(young, device).items() if key not in known}


def _groups(
    device: torch.device, given: Iterable[torch.optim.Optimizer] = ()
) -> tuple[tuple[list[Any], ...], list[torch.Tensor], list[torch.optim.Optimizer]]:
    """Returns the tensors of each of `KINDS`, all tensors of which Python knows, and the optimizers of the program."""
    tensors, modules, living = heap.found(torch.Tensor, torch.nn.Module, torch.optim.Optimizer)
    trained = [t for t in tensors if hooks.is_leaf_of_program(t) and t.device == device]
    buffers = _buffers_of(modules)
    optimizers = list({id(o): o for o in (*given, *unwrapped_among(living))}.values())
    states = [t for o in optimizers for t in pytree.tree_leaves(dict(o.state)) if isinstance(t, torch.Tensor)]
    frozen = [t for t in tensors if type(t) is torch.nn.Parameter and not t.requires_grad]
    # `grad` is a tensor of which Python may not know until it is asked for.
    return ([*trained, *frozen], buffers, [t.grad for t in trained], states), tensors, optimizers


def _buffers_of(modules: Iterable[torch.nn.Module]) -> list[Any]:
    return [b for m in modules for b in m.__dict__.get("_buffers", {}).values()]


def _added(tensors: Iterable[Any], device: torch.device, known: Storages, *, are_kept: bool = False) -> int:
    """Adds the storages on a device that are not known yet to the known ones, and returns their bytes."""
    total = 0
    for t in _plain(tensors):
        if _is_counted(t, device):
            key, storage = hooks.storage_id(t), t.untyped_storage()
            if key not in known:
                size = allocated(storage.nbytes(), device)
                known[key] = Storage(hooks.StorageWeakRef(storage), _address(storage), size, not are_kept and _is_input(t))
                total += size
    return total


def _added_others(tensors: list[torch.Tensor], device: torch.device, known: Storages) -> int:
    """Does the same for tensors of which Python knows, and for what the graphs of these tensors keep."""
    plain = [t for t in tensors if hooks.graph_of(t) is None]
    return (
        _added(plain, device, known)
        + _added(hooks.kept_by_graphs(tensors), device, known, are_kept=True)
        + _added(tensors, device, known)
    )


def inputs_among(arguments: Iterable[Any], device: torch.device) -> int:
    """Returns the bytes of a call's arguments that are neither parameters nor buffers."""
    given = [a for a in arguments if isinstance(a, torch.Tensor)]
    (modules,) = heap.found(torch.nn.Module)
    held = set(map(id, _buffers_of(modules)))
    return _added([a for a in given if not isinstance(a, torch.nn.Parameter) and id(a) not in held], device, {})


def _plain(tensors: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yields the tensors, and for a sparse one those that it consists of."""
    for t in tensors:
        if not isinstance(t, torch.Tensor) or hooks.is_traced(t):
            continue
        if t.layout is torch.sparse_coo:
            yield from (t._indices(), t._values())
        elif t.layout is torch.strided:
            yield t


def _address(storage: torch.UntypedStorage) -> int:
    """Returns where the storage's bytes are; 0: it has none, as a parameter between two gatherings by FSDP."""
    try:
        return storage.data_ptr()
    except RuntimeError:
        return 0


def _is_input(t: torch.Tensor) -> bool:
    is_whole = not t.dtype.is_floating_point and not t.dtype.is_complex
    return is_whole or not t.untyped_storage().resizable() or hooks.is_batch(t)


def _is_counted(t: torch.Tensor, device: torch.device) -> bool:
    try:
        return t.untyped_storage().device == device
    except (NotImplementedError, RuntimeError):  # it has no storage of its own, such as that of a wrapper around other tensors
        return False
