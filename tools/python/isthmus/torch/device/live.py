"""Finds what PyTorch holds of a device between two steps, and says what it is: parameters, buffers, gradients, optimizers' state, and the rest.

A GPU's allocator knows its live bytes. The CPU's does not, so there all tensors that Python knows of are counted.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .. import hooks
from .optimizers import allocated, living

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


def found_on(
    device: torch.device, given: Iterable[torch.optim.Optimizer] = ()
) -> tuple[Live, list[torch.optim.Optimizer], list[torch.Tensor]]:
    """Returns what is live on a device, the optimizers of the program, and the parameters on the device that may get gradients. given: optimizers
    that the user has named."""
    gc.collect()  # tensors in dead cycles are no part of the next step
    objects = gc.get_objects()
    tensors = [o for o in objects if issubclass(type(o), torch.Tensor)]
    trained = [t for t in tensors if hooks.is_leaf_of_program(t) and t.device == device]
    buffers = [b for o in objects if issubclass(type(o), torch.nn.Module) for b in o.__dict__.get("_buffers", {}).values()]
    del objects
    optimizers = list({id(o): o for o in (*given, *living())}.values())
    states = [t for o in optimizers for t in pytree.tree_leaves(dict(o.state)) if isinstance(t, torch.Tensor)]
    known: set[int] = set()
    frozen = [t for t in tensors if type(t) is torch.nn.Parameter and not t.requires_grad]
    # `grad` is a tensor of which Python may not know until it is asked for.
    groups = ([*trained, *frozen], buffers, [t.grad for t in trained], states)
    of_kind = {kind: _counted(group, device, known) for kind, group in zip(KINDS, groups, strict=True)}
    everything = hooks.live_on_gpu(device) if device.type == "cuda" else sum(of_kind.values()) + _counted(tensors, device, known)
    others = max(0, everything - sum(of_kind.values()))
    return Live(of_kind, others), optimizers, [t for t in trained if _is_counted(t, device)]


def _counted(tensors: Iterable[Any], device: torch.device, known: set[int]) -> int:
    """Returns the bytes of the storages on a device that are not known yet, and adds them to the known ones."""
    total = 0
    for t in _plain(tensors):
        if _is_counted(t, device):
            storage = t.untyped_storage()
            if storage._cdata not in known:
                known.add(storage._cdata)
                total += allocated(storage.nbytes(), device)
    return total


def inputs_among(arguments: Iterable[Any], device: torch.device) -> int:
    """Returns the bytes of a call's arguments that are neither parameters nor buffers."""
    given = [a for a in arguments if isinstance(a, torch.Tensor)]
    held = {id(b) for o in gc.get_objects() if issubclass(type(o), torch.nn.Module) for b in o.__dict__.get("_buffers", {}).values()}
    return _counted([a for a in given if not isinstance(a, torch.nn.Parameter) and id(a) not in held], device, set())


def _plain(tensors: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yields the tensors, and for a sparse one those that it consists of."""
    for t in tensors:
        if not isinstance(t, torch.Tensor) or hooks.is_traced(t):
            continue
        if t.layout is torch.sparse_coo:
            yield from (t._indices(), t._values())
        elif t.layout is torch.strided:
            yield t


def _is_counted(t: torch.Tensor, device: torch.device) -> bool:
    try:
        return t.untyped_storage().device == device
    except (NotImplementedError, RuntimeError):  # it has no storage of its own, such as that of a wrapper around other tensors
        return False
