"""Tells which tensors are batches that a DataLoader has handed out."""

from __future__ import annotations

import functools
from collections import deque
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils.data.dataloader import _BaseDataLoaderIter

_MOST_BATCHES = 8
"""The last batches that are remembered."""

@dataclass(frozen=True)
class _Part:
    """A tensor of a batch. It is not kept alive."""

    ref: StorageWeakRef
    device: torch.device
    form: tuple[torch.Size, torch.dtype]


_batches: deque[list[_Part]] = deque(maxlen=_MOST_BATCHES)


def is_batch(t: torch.Tensor) -> bool:
    """Returns True if a DataLoader has lately handed out the tensor, or one on another device of which it has the shape and the type: it is a copy
    of that one."""
    storage = t.untyped_storage()._cdata
    return any(
        part.ref.cdata == storage or part.device != t.device and part.form == (t.shape, t.dtype) for parts in _batches for part in parts
    )


def _watch() -> None:
    following = _BaseDataLoaderIter.__next__

    @functools.wraps(following)
    def watched(loader: Any) -> Any:
        batch = following(loader)
        tensors = [t for t in pytree.tree_leaves(batch) if isinstance(t, torch.Tensor) and t.layout is torch.strided]
        _batches.append([_Part(StorageWeakRef(t.untyped_storage()), t.device, (t.shape, t.dtype)) for t in tensors])
        return batch

    _BaseDataLoaderIter.__next__ = watched  # type: ignore[method-assign]


_watch()
