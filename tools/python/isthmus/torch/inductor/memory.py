"""The bytes that inductor's code for a graph allocates and frees, node by node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch import fx

from ..graph import offload_ops
from ..graph.sizes import sized
from ..hooks.symbols import value_of
from .limits import Limits

_PERSISTENT = ("primals_", "fwd_rng_state", "bwd_rng_state")  # name prefixes of inputs that the code does not free
_TANGENTS = "tangents_"


@dataclass
class Use:
    """The bytes that a node uses, after inductor has scheduled it."""

    node: Any
    allocated: int
    workspace: int
    freed: int
    joins: bool
    """True: the node shares a function with neighbours that join too."""
    is_empty: bool
    """True: the node has no code, as that of a concatenation whose parts are computed in place. No function ends after it."""


class Code:
    """The bytes that the nodes of a graph allocate and free, in the order of the nodes."""

    def __init__(self, graph: Any, limits: Limits, *, is_generated: bool) -> None:
        """is_generated: the graph's code is generated. Before that, it is not known what is computed in place."""
        self.graph, self.scheduler, self.limits, self.is_generated = graph, graph.scheduler, limits, is_generated
        self.reuses = dict(graph.wrapper_code.reuses)
        self.outputs = set(graph.get_output_names())
        self.bytes: dict[str, int] = {}  # of each live storage, by the name of its first buffer
        self.inputs = sum(self._of_input(name) for name in graph.graph_inputs)

    def uses(self) -> Iterator[Use]:
        from torch._inductor.scheduler import NopKernelSchedulerNode

        for node in self.scheduler.nodes:
            allocated = sum(self._allocate(buffer, node) for buffer in node.get_outputs())
            freed = sum(self._free(name) for name in node.last_usage)
            is_empty = isinstance(node, NopKernelSchedulerNode)
            yield Use(node, allocated, workspace(node, self.limits), freed, self._joins(node), is_empty)

    def _of_input(self, name: str) -> int:
        from torch._inductor import ir

        value = self.graph.graph_inputs[name]
        persistent = _PERSISTENT if self.limits.frees_tangents else (*_PERSISTENT, _TANGENTS)
        if name.startswith(persistent) or name in self.limits.on_host or not isinstance(value, ir.TensorBox):
            return 0
        self.bytes[name] = storage_bytes(value.data.data)
        return self.bytes[name]

    def _root(self, name: str) -> str:
        while name in self.reuses:
            name = self.reuses[name]
        return name

    def _allocate(self, buffer: Any, node: Any) -> int:
        from torch._inductor import ir

        name, layout = buffer.get_name(), buffer.node.get_output_spec()
        if name in self.bytes or name in self.reuses or _is_on_host(node) or not self._is_allocated(name, node):
            return 0
        if isinstance(layout, ir.MultiOutputLayout):  # each result is a node of its own
            users = [u.node for u in buffer.users if isinstance(getattr(u.node, "node", None), ir.MultiOutput)]
            return sum(self._allocate(result, user) for user in users for result in user.get_outputs())
        if isinstance(layout, ir.NonOwningLayout):  # the first part of a concatenation allocates the whole
            whole = self.scheduler.name_to_buf.get(layout.view.data.data.get_name())
            return self._allocate(whole, node) if whole is not None else 0
        if buffer.get_aliases() or buffer.get_mutations():
            return 0
        if not isinstance(layout, ir.Layout) or isinstance(layout, ir.MutationLayoutSHOULDREMOVE):
            return 0
        self.bytes[name] = storage_bytes(buffer.node)
        return self.bytes[name]

    def _is_allocated(self, name: str, node: Any) -> bool:
        if node.is_extern() or name in self.graph.removed_buffers:
            return node.is_extern()
        if self.is_generated:
            return name in self.graph.wrapper_code.allocated
        return not self.scheduler.can_buffer_be_removed_through_fusion(name, node.get_operation_names())

    def _free(self, name: str) -> int:
        buffer = self.scheduler.name_to_buf.get(name)
        if name in self.reuses.values() or name in self.outputs or (buffer is not None and not buffer.can_free()):
            return 0
        return self.bytes.pop(self._root(name), 0)

    @staticmethod
    def _joins(node: Any) -> bool:
        device = node.get_device()
        return device is not None and device.type == "cpu" and not node.is_extern() and not node.is_template()


def live_at_nodes(code: Code, ended: set[int]) -> Iterator[tuple[Any, int]]:
    """Yields each node, and the bytes that are live while it runs. ended: the ids of nodes after which a function ends."""
    live, pending = code.inputs, 0
    for use in code.uses():
        if not use.joins:
            live, pending = live - pending, 0
        live += use.allocated
        yield use.node, live + use.workspace
        pending += use.freed
        if not use.joins or id(use.node) in ended:
            live, pending = live - pending, 0


def function_ends(code: Code, room: int) -> set[int]:
    """Returns the ids of the nodes after which a function must end so that no more than `room` bytes are needed, if that is possible."""
    ends: set[int] = set()
    live, pending, late, before = code.inputs, 0, 0, None  # late: the pending bytes that an end after `before` would not free
    for use in code.uses():
        if not use.joins:
            live, pending, late = live - pending - late, 0, 0
        elif pending and live + use.allocated > room:
            live, pending, late = live - pending, late, 0
            ends.add(id(before))
        live += use.allocated
        if not use.joins:
            live -= use.freed
        elif use.is_empty:
            late += use.freed
        else:
            pending, late, before = pending + late + use.freed, 0, use.node
    return ends


def workspace(node: Any, limits: Limits) -> int:
    """Returns the bytes that an extern node's kernel allocates for itself, which inductor does not know; 0 for other nodes, and for None, which
    stands for a node that has been fused into another."""
    inner = getattr(node, "node", None)
    if inner is None or not node.is_extern():
        return 0
    operation = getattr(inner, "op_overload", None)
    origin = inner.get_origin_node() or next((n for n in inner.get_origins() if n.target is operation), None)
    return limits.workspace(origin) + _unread(node, origin) if origin is not None else 0


def _unread(node: Any, origin: fx.Node) -> int:
    """Returns the bytes of the results that no node reads, as where an op is recomputed for one of its results. They are live until the op ends."""
    from torch._inductor import ir

    results = origin.meta.get("val")
    if not isinstance(results, (tuple, list)):
        return 0
    users = [getattr(u.node, "node", None) for buffer in node.get_outputs() for u in buffer.users]
    taken = {user.indices[0][1] for user in users if isinstance(user, ir.MultiOutput)}
    return sum(sized(r.untyped_storage().nbytes()) for k, r in enumerate(results) if isinstance(r, torch.Tensor) and k not in taken)


def _is_on_host(node: Any) -> bool:
    """Returns True if the node copies a tensor to the host's memory, which is not counted."""
    return getattr(getattr(node, "node", None), "op_overload", None) is offload_ops.start_offload


def storage_bytes(buffer: Any) -> int:
    from torch._inductor.virtualized import V

    size = V.graph.get_allocation_storage_size(buffer)
    taken = value_of(size) if isinstance(size, sympy.Expr) else None
    if taken is None:
        taken = int(V.graph.sizevars.optimization_hint(size, fallback=0))
    return taken * buffer.get_dtype().itemsize
