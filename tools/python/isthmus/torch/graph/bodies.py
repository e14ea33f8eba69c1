"""Runs ops whose operands are graphs, such as `torch.cond`, so that the memory that their bodies take can be measured."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

_CONDITION = torch.ops.higher_order.cond
_LOOPS = (torch.ops.higher_order.while_loop, torch.ops.higher_order.while_loop_stack_output)


def body_of(node: fx.Node) -> fx.GraphModule | None:
    """Returns the graph that a node of a graph stands for; None for other nodes."""
    if node.op != "get_attr" or node.graph.owning_module is None:
        return None
    found = operator.attrgetter(str(node.target))(node.graph.owning_module)
    return found if isinstance(found, fx.GraphModule) else None


def has_bodies(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.HigherOrderOperator) and any(body_of(a) is not None for a in node.all_input_nodes)


def calls(node: fx.Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Callable[[], Any]]:
    """Returns calls of the node's op with these operands, of which one takes the most memory: one for each branch. A loop runs twice, because
    from then on one state is read while the next one is made."""
    target: Any = node.target
    if target is _CONDITION:
        _, *others = args
        return [lambda: target(torch.tensor(True), *others, **kwargs), lambda: target(torch.tensor(False), *others, **kwargs)]
    if target in _LOOPS:
        goes_on, body, state, others = args
        return [lambda: _two_rounds(goes_on, body, state, others)]
    return [lambda: target(*args, **kwargs)]


def _two_rounds(goes_on: Callable[..., Any], body: Callable[..., Any], state: Sequence[Any], others: Sequence[Any]) -> Any:
    for _ in range(2):
        goes_on(*state, *others)
        state = body(*state, *others)
    return state
