"""Programs with views whose elements share memory, which PyTorch traces otherwise than it runs them: writes into such views are refused, and their
gradients get memory of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch import fx
from torch._functorch._aot_autograd.schemas import MemoryFormatMeta

from ...errors import Unsupported
from .symbols import sized

_SCATTER = torch.ops.aten.as_strided_scatter.default


def refuse_overlapping_writes(graph: fx.Graph) -> None:
    """Raises Unsupported if an op of the program writes in place into such a view of `as_strided`. PyTorch itself refuses those of `unfold`
    and `expand`."""
    for node in graph.nodes:
        # The traced write computes all elements first and then stores each, so of several that share memory only one is changed.
        if node.target is not _SCATTER:
            continue
        sizes, strides = ([sized(n.meta["val"] if isinstance(n, fx.Node) else n) for n in each] for each in node.args[2:4])
        if not overlaps(sizes, strides):
            continue
        *_, (_, writer) = node.meta.get("source_fn_stack") or [("", None)]
        if writer is not None and getattr(writer, "__name__", writer) != "as_strided_scatter":
            raise Unsupported(
                f"'{getattr(writer, '__name__', writer)}' writes into a view of as_strided with sizes {sizes} and strides "
                f"{strides}, whose elements share memory: PyTorch traces such a write otherwise than it runs it; write into a copy of "
                f"the view, or keep it out of what is compiled, with torch.compiler.disable for one"
            )


@contextlib.contextmanager
def gradients_without_overlaps() -> Iterator[None]:
    """Traces and runs backwards to which the gradient of such a view is given in rows. PyTorch copies a gradient into the strides of the result that it
    is of, which it does not do for `expand`, but does for `unfold` and `as_strided`: of the elements that share memory one would be left."""
    as_in_pytorch = MemoryFormatMeta.from_tensor

    def from_tensor(t: torch.Tensor, force_use_memory_format: bool = False) -> MemoryFormatMeta | None:
        shares = t.layout is torch.strided and overlaps(t.shape, t.stride())
        return as_in_pytorch(t, force_use_memory_format or shares)

    MemoryFormatMeta.from_tensor = staticmethod(from_tensor)  # type: ignore[method-assign]
    try:
        yield
    finally:
        MemoryFormatMeta.from_tensor = staticmethod(as_in_pytorch)  # type: ignore[method-assign]


def overlaps(sizes: Sequence[int | torch.SymInt], strides: Sequence[int | torch.SymInt]) -> bool:
    """Returns True if some elements may share memory. With symbolic sizes, those of this call are meant."""
    reach = 0  # the farthest place of an element along the dimensions so far
    for stride, size in sorted((sized(stride), sized(size)) for stride, size in zip(strides, sizes)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False
