"""Finds nodes of PyTorch's autograd graph, which run the backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch


def node_of_call(results: Any) -> Any:
    """Returns the autograd node that runs the backward of the compiled graph that has just returned these results; None if no result
    needs a gradient. A result may be a view of a tensor that the graph made, so a few earlier nodes are searched too.
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
    """Yields the autograd nodes of the ops between the compiled graphs and these tensors, which the ops computed."""
    return _nodes(results, lambda node: hasattr(node, _SEEN))


def graph_of(value: Any) -> Any:
    """Returns the autograd node that made a tensor; None for a leaf, and for what is no tensor."""
    try:
        return value.grad_fn if isinstance(value, torch.Tensor) else None
    except RuntimeError:  # a view that was written into in a way for which there is no gradient
        return None


def kept_by_graphs(tensors: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yields the tensors that autograd's graphs keep for the backwards of these tensors."""
    for node in _nodes(tensors, lambda node: False):
        yield from kept_by(node)


def _nodes(results: Iterable[Any], is_end: Callable[[Any], bool]) -> Iterator[Any]:
    """Yields the autograd nodes from which these tensors come, up to those at which the search ends."""
    stack = [node for node in map(graph_of, results) if node is not None]
    visited = set(stack)
    while stack:
        node = stack.pop()
        if is_end(node):
            continue
        yield node
        for before, _ in node.next_functions:
            if before is not None and before not in visited:
                visited.add(before)
                stack.append(before)


def kept_by(node: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors that an op saves for its backward, except those that saved-tensor hooks have packed."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            try:
                saved = getattr(node, name)
            except RuntimeError:  # its backward has run
                continue
            for each in saved if isinstance(saved, (list, tuple)) else (saved,):
                is_plain = isinstance(each, torch._C._autograd.SavedTensor) and each.unpack_hook is None
                if is_plain and isinstance(each.data, torch.Tensor):
                    yield each.data


def is_in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1


def is_in_checkpoint() -> bool:
    """Returns True within a function that torch.utils.checkpoint runs, in the forward, in which nothing is kept, or in the backward. A reentrant checkpoint
    counts in the backward alone: without it the forward keeps no gradients."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return is_in_backward() or hooks is not None and getattr(hooks[0], "__qualname__", "").startswith(("_checkpoint_hook.", "_recomputation_hook."))


def leaf_of(node: Any) -> torch.Tensor | None:
    """Returns the leaf tensor into whose `grad` the node accumulates; None for other nodes."""
    return node.variable if type(node).__name__ == "AccumulateGrad" else None


def keeps_graph() -> bool:
    """Returns True if the backward that runs now may run again, so that tensors which the forward saved for it must stay as they are."""
    return bool(torch._C._autograd._get_current_graph_task_keep_graph())
