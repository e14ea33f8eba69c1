"""Duplicates the collectives that must run again in the backward, such as the all-gather of a sharded parameter, so that their results are
freed after the forward.

`torch.utils.checkpoint` marks these collectives; sharding that compiles as part of the model uses such marks. A plan never recomputes a
collective, because ranks with different plans would wait for one another forever. So before planning each marked collective becomes two
nodes, one of the forward and one of the backward, and each of them runs once.

All ranks must run the collectives in one order, whatever their plans. So the choice of collectives and the places of their duplicates
depend only on the ops of the joint graph, which are the same on all ranks, and not on budgets, costs or the sizes of shards, which may
differ. `extraction` then makes each collective read an empty output of the collective before it, so that a plan can only move other ops.

The duplicate stands just before the first node of the backward that reads it: any earlier, its result would be live for longer than
needed. A forward op that a plan recomputes still reads the result of the forward's collective, which then stays live until that time.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from .. import hooks
from ..graph import rules
from ..graph.walks import needed_for

_CASTS = (torch.ops.aten._to_copy.default, torch.ops.prims.convert_element_type.default)
_RECOMPUTE = "recompute"
"""The key in a node's meta of the policy that `torch.utils.checkpoint` has set."""
_WISHES = (hooks.CheckpointPolicy.MUST_RECOMPUTE, hooks.CheckpointPolicy.PREFER_RECOMPUTE)


def split(graph: fx.Graph, forward: Sequence[Any], after: set[fx.Node]) -> None:
    """Duplicates the marked collectives for the backward. forward: the outputs of the forward. after: nodes that cannot run before the
    backward begins."""
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
    """Changes the marks so that PyTorch's own partitioner recomputes the nodes that `split` would duplicate, and no other collective. It
    would otherwise save marked nodes that another region of `torch.utils.checkpoint` reads, and recompute collectives with weaker marks."""
    family = _family(graph, forward, after)
    for node in graph.nodes:
        if node in family:
            node.meta[_RECOMPUTE] = hooks.CheckpointPolicy.MUST_RECOMPUTE
            node.meta.pop("ac_graph_id", None)
        elif rules.communicates(node) and node.meta.get(_RECOMPUTE) in _WISHES:
            del node.meta[_RECOMPUTE]


def _family(graph: fx.Graph, forward: Sequence[Any], after: set[fx.Node]) -> dict[fx.Node, None]:
    """Returns the marked collectives of the forward, and the nodes that read nothing but their results and are cheap or marked too. Nodes
    that the forward returns are left out: they live until the end of the step, so duplicates would free nothing."""
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
    """Returns True if a duplicate reads only what is live anyway, or a shard of its result. Bytes are not compared: ranks may differ in them."""
    if rules.mutates(node):
        return False
    return node.target._opname.startswith("all_gather") or all(a in family or _is_there(_source(a)) for a in node.all_input_nodes)


def _source(node: fx.Node) -> fx.Node:
    """Returns the node of which this one is a view or a cast, directly or through others; or the node itself."""
    while node.op == "call_function" and (rules.is_view(node) or node.target in _CASTS):
        node = node.all_input_nodes[0]
    return node


def _is_there(node: fx.Node) -> bool:
    """Returns True if the node is live throughout the step, or is a number."""
    return node.op in ("placeholder", "get_attr") or hooks.is_sym_node(node)


def _is_cheap(node: fx.Node) -> bool:
    if rules.waits(node) or node.target is operator.getitem or rules.is_view(node) or node.target in _CASTS:
        return True
    return node.meta.get(_RECOMPUTE) in _WISHES and rules.may_repeat(node, frozenset()) and not rules.draws(node)


def _returned(family: dict[fx.Node, None], forward: Sequence[Any]) -> set[fx.Node]:
    """Returns the members of the family that the forward returns, all members from which these are computed, and all that read any of those."""
    returned = {o for o in forward if isinstance(o, fx.Node) and o in family}
    for node in reversed(family):
        if node in returned:
            returned.update(a for a in node.all_input_nodes if a in family)
    for node in family:
        if any(a in returned for a in node.all_input_nodes):
            returned.add(node)
    return returned


def _needed(graph: fx.Graph, forward: Sequence[Any], after: set[fx.Node]) -> set[fx.Node]:
    """Returns the nodes that the forward needs. All others serve only the backward, even if they could run before it."""
    acts = [n for n in graph.nodes if n.op == "call_function" and n not in after and rules.acts(n)]
    return needed_for([*forward, *acts])


def _again(graph: fx.Graph, node: fx.Node, reader: fx.Node, family: dict[fx.Node, None], again: dict[fx.Node, fx.Node]) -> fx.Node:
    """Returns the duplicate of a node for the backward, in which `reader` is its first reader."""
    if node not in again:
        operands = {a: _again(graph, a, reader, family, again) if a in family else a for a in node.all_input_nodes}
        with graph.inserting_before(reader):
            made = graph.node_copy(node, lambda a: operands[a])
        made._rename(f"{node.name}_again")
        made.meta = {**node.meta, "val": hooks.traced(made), "partitioner_tag": "must_be_in_backward"}
        made.meta.pop(_RECOMPUTE, None)
        again[node] = made
    return again[node]
