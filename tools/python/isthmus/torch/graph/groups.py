"""Finds groups of neighbouring nodes that inductor fuses into one kernel. Of an elementwise chain, only the values that other nodes read are in
memory.

A group is one op of the problem. If its nodes were separate ops, a plan could keep values that are never in memory, and would count their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from .. import hooks
from .sizes import bytes_of, elements_of, is_dense, sized, storage_of, tensors_in

Group = list[fx.Node]
"""The nodes of a group, in the order of the graph."""


def is_fusible(node: fx.Node) -> bool:
    """Returns True if inductor may fuse a node. A kernel does not hold several results, or a value that is not a tensor, in registers."""
    return node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor) and hooks.is_fusible(node)


def find(nodes: Sequence[fx.Node], fuses: Callable[[fx.Node], bool], part: Callable[[fx.Node], Any]) -> dict[fx.Node, Group]:
    """Returns the group of each node that has one. A group consists of connected nodes within a run of neighbours that may be fused.

    fuses: returns True if a node may be in a group. part: neighbours for which it returns different values never share a group.
    """
    group_of: dict[fx.Node, Group] = {}
    for run in _runs(nodes, fuses, part):
        for node in run:
            group = [node]
            for a in node.all_input_nodes:
                other = group_of.get(a)
                if other is not None and other is not group and other[0] in run:
                    for member in group:
                        group_of[member] = other
                    other.extend(m for m in group if m not in other)
                    group = other
            group_of[node] = group
    position = {n: i for i, n in enumerate(nodes)}
    for group in {id(g): g for g in group_of.values()}.values():
        group.sort(key=position.__getitem__)
    return {n: g for n, g in group_of.items() if len(g) > 1}


def read_with(nodes: Sequence[fx.Node], fuses: Callable[[fx.Node], bool], after: set[fx.Node]) -> set[fx.Node]:
    """Returns `after`, and the nodes that belong to its kernels. Only nodes of `after` or its kernels read such a node, and it is not smaller than
    its operands together, so storing it in place of them saves no memory. Examples are constants, and indices that are computed from 8-bit
    offsets."""
    found = set(after)
    for node in reversed(nodes):
        if node not in found and node.users and fuses(node) and all(u in found for u in node.users):
            operands = sum(bytes_of(t) for a in node.all_input_nodes for t in tensors_in(a.meta.get("val")))
            if bytes_of(node.meta["val"]) >= operands:
                found.add(node)
    return found


def with_parts_together(nodes: Sequence[fx.Node], fuses: Callable[[fx.Node], bool], part: Callable[[fx.Node], bool]) -> list[fx.Node]:
    """Returns the nodes in an order in which those of each part stand together, within each stretch of nodes that may be fused. Otherwise nodes
    that the forward could run too, such as masks, would separate nodes that inductor fuses.

    part: no node for which it returns False reads one for which it returns True.
    """
    ordered: list[fx.Node] = []
    stretch: list[fx.Node] = []
    for node in nodes:
        if fuses(node):
            stretch.append(node)
            continue
        ordered += [*sorted(stretch, key=part), node]
        stretch = []
    return ordered + sorted(stretch, key=part)


def _runs(nodes: Sequence[fx.Node], fuses: Callable[[fx.Node], bool], part: Callable[[fx.Node], Any]) -> list[list[fx.Node]]:
    """Returns runs of neighbours without a node between them that cannot be fused. Views of values from before a run are not part of the run."""
    made: set[Any] = set()
    runs: list[list[fx.Node]] = [[]]
    for node in nodes:
        may = fuses(node)
        if not may or (runs[-1] and part(runs[-1][-1]) != part(node)):
            runs.append([])
            made = set()
        if may:
            key = storage_of(node.meta.get("val"))
            is_view = any(storage_of(t) == key for a in node.all_input_nodes for t in tensors_in(a.meta.get("val")))
            if not is_view:
                made.add(key)
            if key in made:
                runs[-1].append(node)
    return runs


def reuses(group: Group, stored: Sequence[fx.Node], operands: Sequence[fx.Node | None]) -> list[tuple[int, int]]:
    """Returns which result may take over the bytes of which operand when inductor computes in place, as pairs of their indices in the lists.

    Inductor computes in place if it reads the operand only where it writes the result: element by element, row after row, in the same dtype.
    """
    members = set(group)
    pairs = []
    for r, operand in enumerate(operands):
        if operand is None or not _fills_its_storage(operand):
            continue
        reached, stack = set(), [operand]
        elementwise = True
        while stack and elementwise:
            for user in stack.pop().users:
                if user in members and user not in reached:
                    elementwise = _keeps_places(user, operand)
                    reached.add(user)
                    stack += [user] if user not in stored else []
        if elementwise:
            value = operand.meta["val"]
            pairs += [(k, r) for k, s in enumerate(stored) if s in reached and s.meta["val"].dtype == value.dtype]
    return pairs


def _fills_its_storage(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and is_dense(value) and bytes_of(value) == sized(value.untyped_storage().nbytes())


def _keeps_places(node: fx.Node, like: fx.Node) -> bool:
    """Returns True if element k of the result is computed from, or is, element k of the operand."""
    target, value = node.target, node.meta["val"]
    if not isinstance(target, torch._ops.OpOverload) or not (torch.Tag.pointwise in target.tags or target.is_view):
        return False
    return is_dense(value) and elements_of(value) == elements_of(like.meta["val"])
