"""Keeps inductor from fusions that need more memory than the plan."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from .limits import Limits
from .memory import storage_bytes, workspace


def fuse_within(scheduler: Any, limits: Limits, room: int) -> None:
    """Keeps inductor from a fusion after which any node near it needs more bytes than both the plan's peak and what the node needed before.
    Inductor's own check forbids only fusions that raise the graph's peak, which it counts before kernels compute in place, so that peak is above
    the plan's."""
    scheduler._can_fuse_peak_memory_check = _Guard(scheduler, limits, room).may_fuse


@dataclass(frozen=True)
class _Whole:
    """The result of a concatenation. Nodes that write a part of it are fused with others, and so it is live from the first of them on, where
    inductor counts it from its own node on."""

    name: str
    bytes: int
    last: Any
    """Its own node, before which all parts are written."""


class _Guard:
    def __init__(self, scheduler: Any, limits: Limits, room: int) -> None:
        self.scheduler, self.limits, self.room = scheduler, limits, room
        self.check = scheduler._can_fuse_peak_memory_check
        self.writers: dict[_Whole, list[Any]] = {}
        """The fused nodes that write parts."""

    def may_fuse(self, state: Any, node1: Any, node2: Any) -> Any:
        may, update = self.check(state, node1, node2)
        if not may or update is None:
            return may, update
        update.live_after[update.candidate_step - update.region_start] -= self._fused_away(update.candidate)
        writers = [(whole, node) for node in (node1, node2) for whole in self._wholes(state, node)]
        wholes = {whole for whole, _ in writers}
        if self._rises_above(state, update) or any(self._is_too_early(whole, state, update) for whole in wholes):
            return False, None
        for whole, node in writers:
            self.writers.setdefault(whole, []).append(node)
        return may, update

    def _rises_above(self, state: Any, update: Any) -> bool:
        region = range(update.region_start, update.region_end + 1)
        early = self._early(state)
        before = {k: self._live(state, k, early) for k in region}
        of_node = {id(state.nodes[k]): live for k, live in before.items() if state.nodes[k] is not None}
        of_node[id(update.candidate)] = max(before[update.region_start], before[update.region_end])
        for k, node, live in zip(region, update.region_nodes, update.live_after):
            if live + workspace(node, self.limits) + _at(k, early) > max(of_node[id(node)], self.room):
                return True
        return False

    def _is_too_early(self, whole: _Whole, state: Any, update: Any) -> bool:
        """Returns True if there is no room for a concatenation's result from the fused node on until all its parts are there."""
        last = self.scheduler._fusion_node_step(state, whole.last)
        early = self._early(state, but=whole)
        return max(self._live(state, k, early) for k in range(update.region_start, last + 1)) + whole.bytes > self.room

    def _live(self, state: Any, k: int, early: Sequence[_Early]) -> int:
        return int(state.baseline_live_after[k]) + workspace(state.nodes[k], self.limits) + _at(k, early)

    def _early(self, state: Any, but: _Whole | None = None) -> list[_Early]:
        """Returns the concatenations' results that are live before their own nodes."""
        step = functools.partial(self.scheduler._fusion_node_step, state)
        return [(min(map(step, nodes)), step(whole.last), whole.bytes) for whole, nodes in self.writers.items() if whole != but]

    def _fused_away(self, fused: Any) -> int:
        """Returns the bytes of results that only the fused kernel itself reads. Inductor counts these as if they were in memory."""
        names = {node.get_name() for node in fused.get_nodes()}
        gone = (b for b in fused.get_outputs() if self.scheduler.can_buffer_be_removed_through_fusion(b.get_name(), names))
        return sum(b.mpi_buffer.size_alloc for b in gone)

    def _wholes(self, state: Any, node: Any) -> Iterator[_Whole]:
        """Yields the concatenations' results into which the node writes, if inductor knows when their own nodes run."""
        from torch._inductor import ir

        for buffer in node.get_outputs():
            layout = buffer.node.get_output_spec()
            if isinstance(layout, ir.NonOwningLayout):
                whole = layout.view.data.data
                last = self.scheduler.name_to_buf[whole.get_name()].defining_op
                if self.scheduler._fusion_node_step(state, last) is not None:
                    yield _Whole(whole.get_name(), storage_bytes(whole), last)


_Early = tuple[int, int, int]  # the step from which it is live, the step of its own node, and its bytes


def _at(k: int, early: Sequence[_Early]) -> int:
    return sum(size for first, last, size in early if first <= k < last)


@contextlib.contextmanager
def parts_apart() -> Iterator[None]:
    """Keeps inductor from computing the parts of a concatenation inside its result, which would then be live from the first part on. A plan counts
    each part as a tensor of its own that is copied into the result. If memory allows, inductor still fuses the copy with the kernel that computes
    the part. Inductor asks the patched function which operands a node writes into, and does not compute those in place."""
    from torch._inductor import graph
    from torch._inductor.fx_utils import get_node_storage

    find = graph.get_mutated_storages

    def with_parts(gm: fx.GraphModule) -> Any:
        found = find(gm)
        for node in gm.graph.nodes:
            if node.target is torch.ops.aten.cat.default:
                found.update(s for s in map(get_node_storage, node.all_input_nodes) if s is not None)
        return found

    graph.get_mutated_storages = with_parts
    try:
        yield
    finally:
        graph.get_mutated_storages = find
