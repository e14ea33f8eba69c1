"""Refuses programs that write into a view whose elements share memory, which PyTorch traces otherwise than it runs them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from ...errors import Unsupported
from .symbols import sized

_SCATTER = torch.ops.aten.as_strided_scatter.default


def refuse_overlapping_writes(graph: fx.Graph) -> None:
    """Raises Unsupported if an op of the program writes in place into such a view of `as_strided`. PyTorch itself refuses those of `unfold`
    and `expand`."""
    for node in graph.nodes:
        # The traced write computes all elements first and then stores each, so of several that share memory only one is changed.
        if node.target is not _SCATTER or not _overlaps(node.args[2], node.args[3]):
            continue
        *_, (_, writer) = node.meta.get("source_fn_stack") or [("", None)]
        if writer is not None and getattr(writer, "__name__", writer) != "as_strided_scatter":
            raise Unsupported(
                f"'{getattr(writer, '__name__', writer)}' writes into a view of as_strided with sizes {list(node.args[2])} and strides "
                f"{list(node.args[3])}, whose elements share memory: PyTorch traces such a write otherwise than it runs it; write into a copy of "
                f"the view, or keep it out of what is compiled, with torch.compiler.disable for one"
            )


def _overlaps(sizes: Sequence[int | torch.SymInt], strides: Sequence[int | torch.SymInt]) -> bool:
    """Returns True if some elements may share memory. With symbolic sizes, those of this call are meant."""
    reach = 0  # the farthest place of an element along the dimensions so far
    for stride, size in sorted((sized(stride), sized(size)) for stride, size in zip(strides, sizes)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False
