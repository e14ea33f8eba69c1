"""Groups of neighbours that inductor makes one kernel: of an elementwise chain only what others read is ever in memory.

A group is one op of the problem. Were its nodes ops of their own, a plan could keep what is never there, and count it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from . import hooks
from .costs import tensors_in
from .preparation import storage_of

Group = list[fx.Node]
"""In the order of the graph."""


def is_fusible(node: fx.Node) -> bool:
    """As far as inductor is concerned. Of several results, and of what is no tensor, there is no kernel that holds them inside."""
    return node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor) and hooks.is_fusible(node)


def find(nodes: Sequence[fx.Node], fuses: Callable[[fx.Node], bool], part: Callable[[fx.Node], Any]) -> dict[fx.Node, Group]:
    """The group of each node that has one: connected nodes of each run of neighbours that may be fused.

    fuses: whether a node may be in a group. part: neighbours in different parts never are in one.
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


def _runs(nodes: Sequence[fx.Node], fuses: Callable[[fx.Node], bool], part: Callable[[fx.Node], Any]) -> list[list[fx.Node]]:
    """Neighbours with nothing between them that cannot be fused. Views of what is there before the run stay by themselves."""
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
