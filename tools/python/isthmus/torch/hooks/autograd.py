"""The nodes by which PyTorch's autograd runs a backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def node_of_call(results: Any) -> Any:
    """The node that runs the backward of a compiled graph which has just given these results; None where none needs a gradient.

    What is at hand may be a view of what the graph has made, so the nodes before it are looked at too.
    """
    found = [t.grad_fn for t in results if isinstance(t, torch.Tensor) and t.grad_fn is not None]
    for _ in range(4):
        for node in found:
            if type(node).__name__ == "CompiledFunctionBackward" and not hasattr(node, _SEEN):
                setattr(node, _SEEN, True)
                return node
        found = [before for node in found if not hasattr(node, _SEEN) for before, _ in node.next_functions if before is not None]
    return None


_SEEN = "_isthmus_seen"


def nodes_between(results: Any) -> Iterator[Any]:
    """The nodes of ops that have run between compiled graphs and led to these tensors."""
    stack = [t.grad_fn for t in results if isinstance(t, torch.Tensor) and t.grad_fn is not None]
    visited = set(stack)
    while stack:
        node = stack.pop()
        if hasattr(node, _SEEN):
            continue
        yield node
        for before, _ in node.next_functions:
            if before is not None and before not in visited:
                visited.add(before)
                stack.append(before)


def kept_by(node: Any) -> Iterator[torch.Tensor]:
    """What an op keeps for its backward. What hooks have packed away is left where it is."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            saved = getattr(node, name)
            for each in saved if isinstance(saved, (list, tuple)) else (saved,):
                is_plain = isinstance(each, torch._C._autograd.SavedTensor) and each.unpack_hook is None
                if is_plain and isinstance(each.data, torch.Tensor):
                    yield each.data


def leaf_of(node: Any) -> torch.Tensor | None:
    """The tensor into whose `grad` a node puts its gradient."""
    return node.variable if type(node).__name__ == "AccumulateGrad" else None
