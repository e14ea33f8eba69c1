"""Finds regions of a joint graph that may run chunk by chunk along one axis.

A region grows from one tensor, along the factors of the ops that make and read it. Tensors that are small beside it stay whole at the region's
border: operands are cut there, results are put together, and sums over the axis are added up. It is the way of `passes/chunk/region.h`, on
PyTorch's ops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import fx

from ..graph.preparation import after_tangents
from ..graph.sizes import bytes_of
from .factors import Axis, Factor, factors_of, maker_of, results_of, shape_of

_MOST_BEFORE = 32
_LEAST_SHARE = 1 / 8
"""Tensors of this share of the first one's bytes, or more, do not exist whole if they need not."""


@dataclass
class Region:
    factors: dict[fx.Node, Factor] = field(default_factory=dict)
    """By op, the factor along which it is cut."""
    axes: dict[fx.Node, int] = field(default_factory=dict)
    """The axis along which each tensor is cut that the ops read or make in chunks. Tensors that they read and that are not here are read whole;
    results that are not here are sums."""
    units: int = 0
    """The number of places, less one, at which all of these axes may be cut."""

    def copy(self) -> Region:
        return Region(dict(self.factors), dict(self.axes), self.units)

    def __contains__(self, op: fx.Node) -> bool:
        return op in self.factors

    def makes(self, value: fx.Node) -> bool:
        return maker_of(value) in self.factors


def grow(value: fx.Node, axis: int) -> Region | None:
    """Returns the region that grows from a tensor along one of its axes; None if the tensor must exist whole."""
    return Growth(value).along(axis)


def growth(value: fx.Node, axis: int) -> Growth:
    """Returns how a region has grown from a tensor along one of its axes, to wherever it ended."""
    grown = Growth(value)
    grown.along(axis)
    return grown


class Growth:
    def __init__(self, value: fx.Node) -> None:
        self.first = value
        self.least_bytes = int(bytes_of(value.meta["val"]) * _LEAST_SHARE)
        self.whole: set[fx.Node] = set()
        self.stops: dict[fx.Node, None] = {}
        """The ops that cannot be cut, and at which the region therefore ends."""
        self.region = Region()
        self.open: list[fx.Node] = []  # tensors that are cut and large, whose makers and readers are not all in the region

    def along(self, axis: int) -> Region | None:
        self.region.axes[self.first] = axis
        if not self._take_in(self.first):
            return None
        while self.open:
            value = self.open.pop(0)
            before, others = self.region.copy(), list(self.open)
            if not self._take_in(value):  # it stays whole, at the border
                self.region, self.open = before, others
                self.whole.add(value)
        self._take_in_between()
        self._take_in_gradients()
        return self.region if self.region.units > 1 else None

    def _take_in_between(self) -> None:
        """Takes in ops that read what the region makes, and on which others of its ops depend, such as those between a small result of the forward
        and the region's backward. The region then need not stop for them."""
        tried: set[fx.Node] = set()
        while True:
            between = self._between()
            cut = [v for v in self.region.axes if v not in tried and self.region.makes(v) and any(u in between for u in v.users)]
            if not cut:
                return
            for value in cut:
                tried.add(value)
                before = self.region.copy()
                if not (all(self._take(maker_of(u)) for u in value.users if u in between) and self._is_consistent()):
                    self.region = before
            self.open.clear()

    def _take_in_gradients(self) -> None:
        """Takes in the ops that make the gradients which the region reads, up to numbers such as the gradient of the loss, if they are few."""
        after, before = after_tangents(self.first.graph), self.region.copy()
        while len(self.region.factors) <= len(before.factors) + _MOST_BEFORE:
            read = [a for op in self.region.factors for a in _tensors_read(op) if a in after and not self.region.makes(a)]
            large = [a for a in read if a.meta["val"].numel() > 1]
            if not large:
                return
            if large[0] not in self.region.axes or not self._take(maker_of(large[0])) or not self._is_consistent():
                break
        self.region = before

    def _between(self) -> set[fx.Node]:
        """Returns the nodes outside of the region that depend on it and on which it depends."""
        nodes = list(self.first.graph.nodes)
        after, before = set(), set()
        for node in nodes:
            if any(self.region.makes(a) or a in after for a in node.all_input_nodes):
                after.add(node)
        for node in reversed(nodes):
            if any(self.region.makes(u) or u in before for u in node.users):
                before.add(node)
        return {n for n in after & before if not self.region.makes(n)}

    def _take_in(self, value: fx.Node) -> bool:
        """Takes the ops that make and read a tensor into the region, so that it need not exist whole."""
        if value in self.whole:
            return False
        readers = [u for u in value.users if u.op == "call_function"]
        if len(readers) < len(value.users):
            return False  # a result of the graph
        return self._take(maker_of(value)) and all(map(self._take, readers)) and self._is_consistent()

    def _take(self, op: fx.Node) -> bool:
        """Takes in an op of which an operand or a result is cut."""
        region = self.region
        if op in region:
            return True
        results = results_of(op)
        factor = self._cut_factor(op, results)
        if factor is None:
            self.stops[op] = None
            return False
        region.factors[op] = factor
        for operand in _tensors_read(op):
            if not self._cut(operand, factor.operands.get(operand), is_result=False):
                return False
        return all(self._cut(value, factor.results.get(k), is_result=True) for k, value in results.items())

    def _cut_factor(self, op: fx.Node, results: dict[int, fx.Node]) -> Factor | None:
        axes = self.region.axes
        for factor in factors_of(op):
            cut = [(a, at) for a, at in factor.operands.items()] + [(results[k], at) for k, at in factor.results.items() if k in results]
            if any(axes.get(value) == at.axis for value, at in cut):
                return factor
        return None

    def _cut(self, value: fx.Node, at: Axis | None, *, is_result: bool) -> bool:
        """Cuts a tensor that has the factor. One that is cut in another way, or that an op needs whole although the region makes it in chunks, is a
        contradiction."""
        region = self.region
        if at is None:
            return value.meta["val"].dtype.is_floating_point if is_result else value not in region.axes
        if region.axes.setdefault(value, at.axis) != at.axis:
            return False
        size = shape_of(value)[at.axis]
        if not isinstance(size, int):
            return False
        region.units = math.gcd(region.units, size // at.block)
        if bytes_of(value.meta["val"]) >= self.least_bytes and value.op == "call_function" and value is not self.first and value not in self.open:
            if not self._is_taken_in(value):
                self.open.append(value)
        return region.units > 1

    def _is_taken_in(self, value: fx.Node) -> bool:
        return value in self.whole or self.region.makes(value) and all(u in self.region for u in value.users)

    def _is_consistent(self) -> bool:
        """Returns True if every op reads what the region makes as the region makes it: cut along one axis, and no sum, which is not complete before
        the last chunk."""
        region = self.region
        for op, factor in region.factors.items():
            for a in _tensors_read(op):
                at, axis = factor.operands.get(a), region.axes.get(a)
                if region.makes(a) and axis is None or axis is not None and (at is None or at.axis != axis):
                    return False
            for k, value in results_of(op).items():
                at = factor.results.get(k)
                if region.axes.get(value) != (None if at is None else at.axis):
                    return False
        return True


def _tensors_read(op: fx.Node) -> Sequence[fx.Node]:
    return [a for a in op.all_input_nodes if isinstance(a.meta.get("val"), torch.Tensor)]
