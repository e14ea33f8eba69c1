"""Keeps inductor from fusions that need more memory than the plan."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from ..limits import Limits
from .memory import storage_bytes, workspace


def fuse_within(scheduler: Any, limits: Limits, room: int) -> None:
    """Keeps inductor from a fusion after which any node near it needs more bytes than both the plan's peak and what the node needed before.
    Inductor's own check forbids only fusions that raise the graph's peak, which it counts before kernels compute in place, so that peak is above
    the plan's."""
    check = scheduler._can_fuse_peak_memory_check

    def check_in_place(state: Any, node1: Any, node2: Any) -> Any:
        may, update = check(state, node1, node2)
        if may and update is not None:
            update.live_after[update.candidate_step - update.region_start] -= _fused_away(scheduler, update.candidate)
            if _rises_above(room, scheduler, state, update, limits):
                return False, None
        return may, update

    scheduler._can_fuse_peak_memory_check = check_in_place


def _rises_above(room: int, scheduler: Any, state: Any, update: Any, limits: Limits) -> bool:
    region = range(update.region_start, update.region_end + 1)
    before = {k: state.baseline_live_after[k] + workspace(state.nodes[k], limits) for k in region}
    of_node = {id(state.nodes[k]): live for k, live in before.items() if state.nodes[k] is not None}
    of_node[id(update.candidate)] = max(before[update.region_start], before[update.region_end])
    for node, live in zip(update.region_nodes, update.live_after):
        if live + workspace(node, limits) > max(of_node[id(node)], room):
            return True
    for whole, last in _wholes(scheduler, state, update.node1, update.node2):
        lives = (state.baseline_live_after[k] + workspace(state.nodes[k], limits) for k in range(update.region_start, last + 1))
        if max(lives) + whole > room:
            return True
    return False


def _fused_away(scheduler: Any, fused: Any) -> int:
    """Returns the bytes of results that only the fused kernel itself reads. Inductor counts these as if they were in memory."""
    names = {node.get_name() for node in fused.get_nodes()}
    gone = (b for b in fused.get_outputs() if scheduler.can_buffer_be_removed_through_fusion(b.get_name(), names))
    return sum(b.mpi_buffer.size_alloc for b in gone)


def _wholes(scheduler: Any, state: Any, *nodes: Any) -> Iterator[tuple[int, int]]:
    """Yields, for each concatenation into which the nodes write, its bytes and the place in the order at which all its parts are computed."""
    from torch._inductor import ir

    for buffer in (b for node in nodes for b in node.get_outputs()):
        layout = buffer.node.get_output_spec()
        if isinstance(layout, ir.NonOwningLayout):
            whole = layout.view.data.data
            last = scheduler._fusion_node_step(state, scheduler.name_to_buf[whole.get_name()].defining_op)
            if last is not None:
                yield storage_bytes(whole), last


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
