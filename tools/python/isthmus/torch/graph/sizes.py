"""The sizes and strides of the tensors that nodes compute. Sizes that are symbolic stand for their hints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from ..hooks.graphs import storage_id
from ..hooks.symbols import has_backed_sizes, most_of, most_within, sized


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):  # most values are tensors; walking a structure takes ten times as long
        return iter((value,))
    return (t for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor))


def storage_of(value: Any) -> Any:
    """Returns a key that is equal for tensors that share a storage; None for a value that is not a tensor."""
    return storage_id(value) if isinstance(value, torch.Tensor) else None


def is_of_call(n: Any) -> bool:
    """Returns True if the size is taken from the call that is compiled, and may be larger in another call."""
    return not isinstance(n, int) and has_backed_sizes(n)


def is_unbounded(n: Any) -> bool:
    """Returns True if it is not known how large the size may be."""
    return not isinstance(n, int) and not n.node.has_hint() and most_of(n) is None


def elements_of(t: torch.Tensor) -> int:
    count = 1
    for size in t.shape:
        count *= sized(size)
    return count


def bytes_of(t: torch.Tensor) -> int:
    return elements_of(t) * t.element_size()


def largest_below(graph: fx.Graph) -> list[str]:
    """Returns the names of nodes whose tensors may be larger for smaller sizes than those that are taken. They are counted with the most that they can
    be."""
    values = ((n, t.untyped_storage().nbytes()) for n in graph.nodes for t in tensors_in(n.meta.get("val")))
    return list(dict.fromkeys(n.name for n, size in values if most_within(size) > sized(size)))


STRIDES = "isthmus_strides"
"""A key of a node's meta: the strides of each of its results, if its kernel gives others than PyTorch's tracing."""


def strides_of(node: fx.Node) -> tuple[int, ...]:
    """Returns the strides of the tensor that a node computes."""
    known = node.meta.get(STRIDES)
    return known[0] if known else tuple(map(sized, node.meta["val"].stride()))


def is_dense(t: torch.Tensor, strides: tuple[int, ...] | None = None) -> bool:
    """Returns True if a tensor lies row after row. Compares hints, because `is_contiguous` would add a guard to the code being compiled."""
    stride = 1
    for size, found in zip(reversed(t.shape), reversed(strides or tuple(map(sized, t.stride())))):
        if sized(size) != 1 and found != stride:
            return False
        stride *= sized(size)
    return True
