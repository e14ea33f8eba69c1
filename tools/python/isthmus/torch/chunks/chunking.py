"""Rewrites a joint graph so that a region of it runs chunk by chunk: each of its ops becomes one op a chunk, on its part of the operands."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from ...regions import Cut
from .. import hooks
from ..graph.joint import CHUNK, ONTO, WITH_FORWARD
from ..graph.sizes import STRIDES, storage_of, tensors_in
from .factors import are_alike, args_of_chunk, results_of, shape_of
from .region import Region
from .seeds import depends_on

aten = torch.ops.aten
prims = torch.ops.prims


class Unfit(Exception):
    """The region cannot be rewritten: what its chunks give lies otherwise in memory than the whole results."""


def chunked(gm: fx.GraphModule, region: Region, chunks: int, numbers: Sequence[fx.Node]) -> fx.GraphModule:
    """Returns the joint graph with a region in so many chunks, from 2 to `region.units`. Ops that depend on the region and on which others of its
    ops depend run between two turns of it: a forward and a backward part, each chunk by chunk. numbers: what `seeds.numbers_of` returns, or none;
    with them the forward and the backward run in one turn. Raises Unfit."""
    return hooks.without_code(gm, _Chunking(gm.graph, region, chunks, numbers).run())


class _Chunking:
    def __init__(self, graph: fx.Graph, region: Region, chunks: int, numbers: Sequence[fx.Node]) -> None:
        self.old, self.region, self.chunks = graph, region, chunks
        self.seed = numbers[0] if numbers else None
        self.numbers = set(numbers)
        self.new = fx.Graph()
        self.ops = region.ops
        self.depending = depends_on(region, numbers)
        self.env: dict[fx.Node, fx.Node] = {}  # by old node: the node that has its whole value
        self.parts: dict[fx.Node, list[fx.Node]] = {}  # by old value of the region: its chunks
        self.cut: dict[tuple[fx.Node, int], fx.Node] = {}  # by old value and chunk: a part of a value from outside
        self.split: dict[fx.Node, fx.Node] = {}  # by old value from outside: with its cut axis as two
        self.sums: dict[fx.Node, fx.Node] = {}  # by old total
        self.changed: set[fx.Node] = set()  # new nodes with other storages than the old nodes had
        self.turn_of: dict[fx.Node, int] = {}
        self.emitted: set[int] = set()  # turns
        self.known: dict[Any, Any] = {}  # by signature: what was traced
        self.ones: dict[fx.Node, fx.Node] = {}  # by old number: what it is for a seed of 1

    def run(self) -> fx.Graph:
        self._find_turns()
        last = {turn: op for op, turn in self.turn_of.items()}
        for node in self.old.nodes:
            if node.op == "output":
                break
            if node in self.region:
                if last[self.turn_of[node]] is node:
                    self._emit_turn(self.turn_of[node])
            elif not self.region.makes(node):
                self._emit(node)
        output = next(n for n in self.old.nodes if n.op == "output")
        for value in output.all_input_nodes:
            self._emit(value)
        made = self.new.node_copy(output, self._whole)
        made.meta = dict(output.meta)
        self.new.lint()
        return self.new

    # --- turns: an op is in the turn after all ops on which it depends by way of ops outside

    def _find_turns(self) -> None:
        after: dict[fx.Node, int] = {}  # by node: the first turn that may depend on it
        for node in self.old.nodes:
            is_in = self.region.makes(node)
            reads = [a for a in node.all_input_nodes if not (is_in and a in self.numbers)]
            turn = max((after[a] + (not is_in and self.region.makes(a)) for a in reads), default=0)
            after[node] = turn
            if node in self.region:
                self.turn_of[node] = turn

    # --- the order

    def _emit(self, first: fx.Node) -> None:
        """Emits a node outside of the region, after those that it needs and that come later in the order."""
        stack = [first]
        while stack:
            node = stack[-1]
            if node in self.env or self.region.makes(node):
                if self.region.makes(node):
                    self._emit_turn(self._turn(node))
                    self._whole(node)
                stack.pop()
                continue
            missing = [a for a in node.all_input_nodes if a not in self.env]
            if missing:
                stack += missing
                continue
            stack.pop()
            self._copy(node)

    def _turn(self, value: fx.Node) -> int:
        return self.turn_of[value if value in self.turn_of else value.args[0]]  # type: ignore[index]

    def _copy(self, node: fx.Node) -> None:
        made = self.env[node] = self.new.node_copy(node, lambda a: self.env[a])
        made.meta = dict(node.meta)
        changed = [a for a in node.all_input_nodes if self.env[a] in self.changed]
        storages = {storage_of(t) for a in changed for t in tensors_in(a.meta.get("val"))}
        if any(storage_of(t) in storages for t in tensors_in(node.meta.get("val"))):  # a view, of what has another storage now
            made.meta["val"] = hooks.traced(made)
            self.changed.add(made)

    def _emit_turn(self, turn: int) -> None:
        if turn in self.emitted:
            return
        self.emitted.add(turn)
        ops = [op for op in self.ops if self.turn_of[op] == turn]
        for op in ops:
            for a in op.all_input_nodes:
                if self.region.makes(a):
                    self._emit_turn(self._turn(a))
                elif a not in self.numbers:
                    self._emit(a)
        for k in range(self.chunks):
            for op in ops:
                self._emit_chunk(op, k)

    # --- chunks

    def _range(self, value: fx.Node, k: int) -> tuple[int, int]:
        """Returns where chunk k of a tensor begins in each outer part of its cut axis, and its size there."""
        cut = self.region.cuts[value]
        units = self.region.units
        block = shape_of(value)[cut.axis] // cut.outer // units
        begin, end = units * k // self.chunks, units * (k + 1) // self.chunks
        return begin * block, (end - begin) * block

    def _operand(self, value: fx.Node, k: int) -> fx.Node:
        if value in self.numbers:
            return self._of_one(value)
        if value not in self.region.cuts:
            return self.env[value]
        return self.parts[value][k] if self.region.makes(value) else self._part(value, k)

    def _of_one(self, number: fx.Node) -> fx.Node:
        """Returns what a number that depends on the seed is if the seed is 1."""
        if number not in self.ones:
            if number is self.seed:
                value = number.meta["val"]
                how = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
                one = self.new.call_function(aten.full.default, (list(value.shape), 1.0), how)
            else:
                for a in number.all_input_nodes:
                    (self._of_one if a in self.numbers else self._emit)(a)
                one = self.new.node_copy(number, lambda a: self.ones.get(a) or self.env[a])
            one._rename(f"{number.name}_of_one")
            one.meta = {"val": hooks.traced(one), CHUNK: True, WITH_FORWARD: True}
            self.ones[number] = one
        return self.ones[number]

    def _part(self, value: fx.Node, k: int) -> fx.Node:
        """Returns chunk k of a tensor from outside: a view, or a copy if the view of a tensor in rows would not lie in rows, as kernels expect."""
        if (value, k) not in self.cut:
            begin, size = self._range(value, k)
            cut = self.region.cuts[value]
            if cut.outer == 1:
                part = self._add(aten.slice.Tensor, (self.env[value], cut.axis, begin, begin + size), value, f"chunk_{k}")
            else:
                of_parts = self._add(aten.slice.Tensor, (self._in_parts(value), cut.axis + 1, begin, begin + size), value, f"parts_{k}")
                part = self._add(aten.reshape.default, (of_parts, _merged(shape_of(of_parts), cut.axis)), value, f"chunk_{k}")
            if value.meta["val"].is_contiguous() and not part.meta["val"].is_contiguous():
                part = self._add(aten.clone.default, (part,), value, f"rows_{k}", {"memory_format": torch.contiguous_format})
            self.cut[value, k] = part
        return self.cut[value, k]

    def _in_parts(self, value: fx.Node) -> fx.Node:
        """Returns a tensor from outside with its cut axis as two, the outer parts and what they have each."""
        if value not in self.split:
            whole, cut = self.env[value], self.region.cuts[value]
            self.split[value] = self._add(aten.reshape.default, (whole, _split(shape_of(value), cut)), value, "split")
        return self.split[value]

    def _emit_chunk(self, op: fx.Node, k: int) -> None:
        if op in self.region.totals and all(a in self.region.totals for a in op.all_input_nodes):
            return  # its operands add up to it
        results = results_of(op)
        first = results.get(0)
        args = op.args
        if first is not None and first in self.region.cuts:
            cut = self.region.cuts[first]
            args = args_of_chunk(op, cut.axis, cut.outer * self._range(first, k)[1])
        args, kwargs = fx.node.map_arg((args, dict(op.kwargs)), lambda a: self._operand(a, k))
        total = self.region.total_of(op)
        if op.target is aten.mm.default and op not in self.region.cuts and total in self.sums and not self._is_narrow(op):
            self.sums[total] = self._add(aten.addmm.default, (self.sums[total], *args), op, f"chunk_{k}", onto=True)
            return
        made = self._add(op.target, args, op, f"chunk_{k}", kwargs)
        for position, value in results.items():
            part = made if value is op else self._add(operator.getitem, (made, position), value, f"chunk_{k}")
            if value in self.region.cuts:
                self.parts.setdefault(value, []).append(part)
            else:
                self._sum(value, part, k)

    @staticmethod
    def _is_narrow(value: fx.Node) -> bool:
        """Returns True if sums of such numbers would be rounded at each chunk: they are added in f32."""
        dtype = value.meta["val"].dtype
        return dtype.is_floating_point and dtype.itemsize < 4

    def _sum(self, value: fx.Node, part: fx.Node, k: int) -> None:
        total = self.region.total_of(value)
        if total in self.sums:
            self.sums[total] = self._add(aten.add.Tensor, (self.sums[total], part), value, f"sum_{k}", onto=True)
        else:
            self.sums[total] = self._add(prims.convert_element_type.default, (part, torch.float32), value, "in_f32") if self._is_narrow(value) else part

    # --- whole values

    def _whole(self, value: fx.Node) -> fx.Node:
        """Returns the whole value of a node."""
        if value in self.env:
            return self.env[value]
        if value in self.region.cuts:
            made = self._joined(value)
        else:
            made = self.sums[value]
            if self._is_narrow(value):
                made = self._add(prims.convert_element_type.default, (made, value.meta["val"].dtype), value, "whole")
        if self.seed is not None and value in self.depending:
            self._emit(self.seed)
            made = self._add(aten.mul.Tensor, (made, self.env[self.seed]), value, "scaled", onto=True)
            made.meta.pop(WITH_FORWARD, None)
        if not are_alike(value, made):
            raise Unfit
        self.changed.add(made)
        self.env[value] = made
        return made

    def _joined(self, value: fx.Node) -> fx.Node:
        cut, parts = self.region.cuts[value], self.parts[value]
        if cut.outer == 1:
            return self._add(aten.cat.default, (parts, cut.axis), value, "whole")
        split = [self._add(aten.reshape.default, (p, _split(shape_of(p), cut)), value, f"parts_of_{k}") for k, p in enumerate(parts)]
        whole = self._add(aten.cat.default, (split, cut.axis + 1), value, "in_parts")
        return self._add(aten.reshape.default, (whole, list(shape_of(value))), value, "whole")

    # --- nodes

    def _add(self, target: Any, args: Any, old: fx.Node, suffix: str, kwargs: dict[str, Any] | None = None, *, onto: bool = False) -> fx.Node:
        """Adds a node. onto: it may write its result into its first operand."""
        node = self.new.call_function(target, tuple(args), kwargs or {})
        node._rename(f"{old.name}_{suffix}")
        node.meta = {key: value for key, value in old.meta.items() if key not in (STRIDES, ONTO, WITH_FORWARD)}
        node.meta[CHUNK] = True
        node.meta["val"] = self._traced(node)
        if onto:
            node.meta[ONTO] = True
        if self.seed is not None and self.region.makes(old):
            node.meta[WITH_FORWARD] = True
            node.meta.pop("partitioner_tag", None)
        return node

    def _traced(self, node: fx.Node) -> Any:
        """Returns the same as `hooks.traced`. Chunks of one size are traced once, because tracing takes longer than all else here."""
        key = _signature(node)
        known = self.known.get(key)
        if known is None:
            made = hooks.traced(node)
            operands = {storage_of(t) for a in node.all_input_nodes for t in tensors_in(a.meta["val"])}
            is_new = all(storage_of(t) not in operands for t in tensors_in(made))
            self.known[key] = made if is_new and node.target is not operator.getitem else _VIEW
            return made
        return hooks.traced(node) if known is _VIEW else pytree.tree_map(_like, known)


def _split(shape: Sequence[int], cut: Cut) -> list[int]:
    """Returns the shape with the axis of the cut as two."""
    return [*shape[: cut.axis], cut.outer, shape[cut.axis] // cut.outer, *shape[cut.axis + 1 :]]


def _merged(shape: Sequence[int], axis: int) -> list[int]:
    """Returns the shape with an axis and the next one as one."""
    return [*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]]


_VIEW = object()
"""Stands for an op that is to be traced each time."""


def _like(value: Any) -> Any:
    if not isinstance(value, FakeTensor):
        return value
    with value.fake_mode:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


def _signature(node: fx.Node) -> Any:
    """Returns what the type of an op's result depends on."""

    def told(a: fx.Node) -> str:
        value = a.meta["val"]
        return str((value.shape, value.stride(), value.dtype) if isinstance(value, torch.Tensor) else id(value))

    return node.target, repr(fx.node.map_arg((node.args, dict(node.kwargs)), told))
