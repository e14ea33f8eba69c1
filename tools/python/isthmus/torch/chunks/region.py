"""Finds regions of a joint graph that may run chunk by chunk along one axis. It is the growth of `isthmus.regions`, on PyTorch's ops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import fx

from ...regions import Cut, Factor, RegionGraph
from ..graph.preparation import after_tangents
from ..graph.sizes import bytes_of
from .factors import factors_of, is_reshape, maker_of, results_of, shape_of

aten = torch.ops.aten


@dataclass(frozen=True)
class Region:
    """`isthmus.regions.Region`, of the nodes of a graph."""

    units: int
    ops: Mapping[fx.Node, None]
    """In the order of the graph."""
    stops: Mapping[fx.Node, None]
    cuts: Mapping[fx.Node, Cut]
    totals: Mapping[fx.Node, fx.Node]

    def __contains__(self, op: fx.Node) -> bool:
        return op in self.ops

    def makes(self, value: fx.Node) -> bool:
        return maker_of(value) in self.ops

    def total_of(self, value: fx.Node) -> fx.Node:
        return self.totals.get(value, value)


class Regions:
    """The regions of a joint graph."""

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = RegionGraph()
        self._values: list[fx.Node] = []
        self._ops: list[fx.Node] = []
        self._numbers: dict[fx.Node, int] = {}
        late = after_tangents(graph)
        for node in graph.nodes:
            value = node.meta.get("val")
            if node.op == "call_function" and maker_of(node) is node:
                for result in _tensors_of(node).values():
                    self._add_value(result, late)
                self._add_op(node)
            elif isinstance(value, torch.Tensor) and node not in self._numbers:
                self._add_value(node, late)

    def cuts_of(self, value: fx.Node) -> list[Cut]:
        """Returns the cuts of a tensor from which a region may grow."""
        return self._graph.cuts_of(self._numbers[value])

    def grown(self, value: fx.Node, cut: Cut) -> Region:
        """Returns what grows from a tensor, to wherever it ends."""
        made = self._graph.grow(self._numbers[value], cut)
        values, ops = self._values, self._ops
        return Region(
            units=made.units,
            ops=dict.fromkeys(ops[i] for i in made.ops),
            stops=dict.fromkeys(ops[i] for i in made.stops),
            cuts={values[v]: cut for v, cut in made.cuts.items()},
            totals={values[v]: values[total] for v, total in made.totals.items()},
        )

    def grow(self, value: fx.Node, cut: Cut) -> Region | None:
        """Returns the region that grows from a tensor; None if the tensor must exist whole."""
        region = self.grown(value, cut)
        return region if region.units else None

    def _add_value(self, node: fx.Node, late: set[fx.Node]) -> None:
        value = node.meta["val"]
        self._numbers[node] = self._graph.value(
            shape_of(node),
            bytes_of(value),
            is_float=value.dtype.is_floating_point,
            is_kept=any(u.op != "call_function" for u in node.users),
            is_late=node in late,
        )
        self._values.append(node)

    def _add_op(self, op: fx.Node) -> None:
        read = [a for a in op.all_input_nodes if a in self._numbers]
        places = {a: i for i, a in enumerate(read)}
        results = _tensors_of(op)
        made = {k: i for i, k in enumerate(results)}
        factors = [
            Factor({places[a]: axis for a, axis in f.operands.items()}, {made[k]: axis for k, axis in f.results.items() if k in made}) for f in factors_of(op)
        ]
        reshapes = is_reshape(op)
        self._graph.op(
            [self._numbers[a] for a in read],
            [self._numbers[r] for r in results.values()],
            factors,
            is_whole=not factors and not reshapes,
            is_reshape=reshapes,
            is_addition=_is_addition(op),
        )
        self._ops.append(op)


def _tensors_of(op: fx.Node) -> dict[int, fx.Node]:
    return {k: r for k, r in results_of(op).items() if isinstance(r.meta.get("val"), torch.Tensor)}


def _is_addition(op: fx.Node) -> bool:
    operands = op.all_input_nodes
    if op.target is not aten.add.Tensor or op.kwargs or len(operands) != 2:
        return False
    types = {(v.shape, v.dtype) for v in (n.meta.get("val") for n in (op, *operands)) if isinstance(v, torch.Tensor)}
    return len(types) == 1 and all(isinstance(n.meta.get("val"), torch.Tensor) for n in operands)
