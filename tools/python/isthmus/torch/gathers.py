"""Collectives that are to run again in the backward: an all-gather of a sharded parameter, so that the whole of it is freed after the forward.

`torch.utils.checkpoint` marks them, and sharding that compiles as part of the model uses that. No collective is repeated by a plan, since
ranks with other plans would wait for one another for ever. So a marked one becomes two nodes before anything is planned: one of the forward
and one of the backward, neither of which may run again.

All ranks run the collectives in one order, whatever their plans. Which become two, and where the second one stands, is decided here by the
ops of the joint graph, which are the same on all ranks, and by nothing that may differ between them, such as budgets, costs or the sizes of
parts. `joint` then has each collective read an empty output of the one before it in that graph, so that a plan may only move other ops
between them.

The second one stands just before the first node of the backward that reads it, which is as late as it can: earlier, what it gathers would
lie in memory beside what the backward holds anyway. An op of the forward that a plan computes again still reads what the forward has
gathered, which is then kept until that time.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from . import hooks, rules

_CASTS = (torch.ops.aten._to_copy.default, torch.ops.prims.convert_element_type.default)
_RECOMPUTE = "recompute"
"""In a node's meta: what `torch.utils.checkpoint` says of it."""
_WISHES = (hooks.CheckpointPolicy.MUST_RECOMPUTE, hooks.CheckpointPolicy.PREFER_RECOMPUTE)


def split(graph: fx.Graph, forward: Sequence[Any], after: set[fx.Node]) -> None:
    """Gives the backward collectives of its own in place of those that are marked. forward: what the forward returns. after: nodes that
    cannot run before the backward begins."""
    family = _family(graph, forward, after)
    needed = _needed(graph, forward, after)
    again: dict[fx.Node, fx.Node] = {}
    for node in list(graph.nodes):
        if node.op == "call_function" and node not in needed and node not in family:
            for operand in node.all_input_nodes:
                if operand in family:
                    node.replace_input_with(operand, _again(graph, operand, node, family, again))
    for node in reversed(family):
        if not node.users:  # the forward does not need it
            graph.erase_node(node)


def leave_to_pytorch(graph: fx.Graph, forward: Sequence[Any], after: set[fx.Node]) -> None:
    """Has PyTorch's own cut, which makes two of what is marked, do so with the nodes that `split` would take. By itself it keeps some of
    them, where they are read in another region of `torch.utils.checkpoint`, and repeats collectives that are marked less strictly."""
    family = _family(graph, forward, after)
    for node in graph.nodes:
        if node in family:
            node.meta[_RECOMPUTE] = hooks.CheckpointPolicy.MUST_RECOMPUTE
            node.meta.pop("ac_graph_id", None)
        elif rules.communicates(node) and node.meta.get(_RECOMPUTE) in _WISHES:
            del node.meta[_RECOMPUTE]


def _family(graph: fx.Graph, forward: Sequence[Any], after: set[fx.Node]) -> dict[fx.Node, None]:
    """The marked collectives of the forward, and what is made of nothing but their results, cheaply or as something to be computed again.
    What the forward returns is left out: it is there to the end, and a second one would free nothing."""
    found: dict[fx.Node, None] = {}
    for node in graph.nodes:
        if node.op != "call_function" or node in after:
            continue
        operands = node.all_input_nodes
        if rules.communicates(node) and not rules.waits(node):
            if _is_marked(node) and _reads_little(node, found):
                found[node] = None
        elif any(a in found for a in operands) and _is_cheap(node) and all(a in found or hooks.is_sym_node(a) for a in operands):
            found[node] = None
    for node in _returned(found, forward):
        del found[node]
    return found


def _is_marked(node: fx.Node) -> bool:
    return node.meta.get(_RECOMPUTE) is hooks.CheckpointPolicy.MUST_RECOMPUTE


def _reads_little(node: fx.Node, family: dict[fx.Node, None]) -> bool:
    """What the second one reads is there anyway, or is a part of what it gives. Bytes are not compared: they may differ between ranks."""
    if rules.mutates(node):
        return False
    return node.target._opname.startswith("all_gather") or all(a in family or _is_there(_source(a)) for a in node.all_input_nodes)


def _source(node: fx.Node) -> fx.Node:
    """What it is a view of, or a cast."""
    while node.op == "call_function" and (rules.is_view(node) or node.target in _CASTS):
        node = node.all_input_nodes[0]
    return node


def _is_there(node: fx.Node) -> bool:
    """From the begin of a step to its end, or it is a number."""
    return node.op in ("placeholder", "get_attr") or hooks.is_sym_node(node)


def _is_cheap(node: fx.Node) -> bool:
    if rules.waits(node) or node.target is operator.getitem or rules.is_view(node) or node.target in _CASTS:
        return True
    return node.meta.get(_RECOMPUTE) in _WISHES and rules.may_repeat(node, frozenset()) and not rules.draws(node)


def _returned(family: dict[fx.Node, None], forward: Sequence[Any]) -> set[fx.Node]:
    """What the forward returns, with all that it is made of and that is made of that."""
    returned = {o for o in forward if isinstance(o, fx.Node) and o in family}
    for node in reversed(family):
        if node in returned:
            returned.update(a for a in node.all_input_nodes if a in family)
    for node in family:
        if any(a in returned for a in node.all_input_nodes):
            returned.add(node)
    return returned


def _needed(graph: fx.Graph, forward: Sequence[Any], after: set[fx.Node]) -> set[fx.Node]:
    """Nodes that the forward cannot do without. All others are there for the backward, also where they could run before it."""
    acts = [n for n in graph.nodes if n.op == "call_function" and n not in after and rules.acts(n)]
    needed: set[fx.Node] = set()
    stack = [o for o in forward if isinstance(o, fx.Node)] + acts
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack.extend(node.all_input_nodes)
    return needed


def _again(graph: fx.Graph, node: fx.Node, reader: fx.Node, family: dict[fx.Node, None], again: dict[fx.Node, fx.Node]) -> fx.Node:
    """The same for the backward, where `reader` is the first to read it."""
    if node not in again:
        operands = {a: _again(graph, a, reader, family, again) if a in family else a for a in node.all_input_nodes}
        with graph.inserting_before(reader):
            made = graph.node_copy(node, lambda a: operands[a])
        made._rename(f"{node.name}_again")
        made.meta = {**node.meta, "val": hooks.traced(made), "partitioner_tag": "must_be_in_backward"}
        made.meta.pop(_RECOMPUTE, None)
        again[node] = made
    return again[node]
