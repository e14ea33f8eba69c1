"""Counts the memory that inductor's generated code takes, before that code is compiled, and asks for another plan if it is above the budget.

Apart from `hooks`, this is the only module that uses private parts of PyTorch. Inductor moves ops when it fuses them, and computes some results in
place. Once a graph's code is generated, the bytes that it allocates and frees, and their order, are known exactly, except the bytes that kernels
allocate themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import fx
from torch._dynamo.utils import counters
from torch._inductor.custom_graph_pass import CustomSchedulerPass

from . import offload_ops
from .lives import STEP
from .sizes import sized

MOST_REPLANS = 3  # further plans for a graph whose code takes more than it may; the last one is for the least peak
_PERSISTENT = ("primals_", "fwd_rng_state", "bwd_rng_state")  # name prefixes of inputs that the code does not free
_TANGENTS = "tangents_"
_CODE_BYTES = "isthmus_code_bytes"  # inductor's counter that has the peak of the code of one graph


class AboveBudget(BaseException):
    """Ends a compilation whose code would take more bytes than its limit. It is no Exception, because PyTorch would wrap or swallow one."""


@dataclass
class Limits:
    """The memory that the code of a graph may take, and the memory that it takes. In dicts, the key False is the forward, and True the backward."""

    planned_bytes: dict[bool, int]
    most_bytes: int | None
    """`note` raises AboveBudget for a larger peak; None: there is no limit."""
    beside_bytes: dict[bool, int]
    """Bytes that are live while the code runs, and that it neither allocates nor frees."""
    workspace: Callable[[fx.Node], int]
    """Returns the bytes that PyTorch's own kernel of a node allocates while it runs."""
    step_bytes: Sequence[int]
    """For each step of the plan, the bytes that are live while it runs, including the reserved ones."""
    frees_tangents: bool
    """True: the code frees each tangent after its last read. False: the tangents are part of `beside_bytes`."""
    on_host: frozenset[str] = frozenset()
    """The names of tensors in the host's memory, which is not counted."""
    taken_bytes: dict[bool, int] = field(default_factory=dict)
    """The peaks in bytes."""
    above_bytes: dict[int, int] = field(default_factory=dict)
    """For each step whose code exceeds the plan's peak, the code's live bytes minus the plan's live bytes in that step."""

    def room(self, is_backward: bool) -> int:
        """Returns the bytes that the code may allocate within the plan."""
        return self.planned_bytes[is_backward] - self.beside_bytes[is_backward]

    def note(self, is_backward: bool, uses: Iterable[tuple[Sequence[int], int]]) -> None:
        """Counts the peak of the code, and raises AboveBudget if the peak is above `most_bytes`. uses: for each node of the code, the steps of the
        plan that it computes, and the bytes that are live while it runs, without `beside_bytes`."""
        peak = 0
        for steps, live in uses:
            live += self.beside_bytes[is_backward]
            peak = max(peak, live)
            if live > self.planned_bytes[is_backward] and steps:
                step = max(steps, key=self.step_bytes.__getitem__)
                self.above_bytes[step] = max(self.above_bytes.get(step, 0), live - self.step_bytes[step])
        self.taken_bytes[is_backward] = max(self.taken_bytes.get(is_backward, 0), peak)
        if self.most_bytes is not None and peak > self.most_bytes:
            raise AboveBudget

    @property
    def excess_bytes(self) -> int:
        """The bytes that the code takes above `most_bytes`, as far as they were counted."""
        taken = max(self.taken_bytes.values(), default=0)
        return 0 if self.most_bytes is None else max(0, taken - self.most_bytes)

    @property
    def peak_bytes(self) -> int | None:
        """The peak of the forward's and the backward's code; None: not all of the code was counted."""
        return max(self.taken_bytes.values()) if len(self.taken_bytes) == 2 else None


class Replanned(Protocol):
    """A partitioner that learns how much memory inductor's code for its plan takes."""

    limits: Limits | None
    """The limits of the latest plan; None: there is no plan."""

    def uuid(self) -> str: ...

    def plan_for_less(self, excess_bytes: int) -> None:
        """Is called if the code takes `excess_bytes` more than it may. The partitioner is then called again for another plan, unless this
        raises."""

    def compiled(self) -> None:
        """Is called once the code is compiled. `limits` then has the bytes that the code takes."""


def within_limits(partitioner: Replanned, compile: Callable[[dict[str, Any]], Any]) -> Any:
    """Returns the result of `compile`, which is called with a new plan each time as long as the code takes more than it may. compile: takes
    settings of inductor, and calls the partitioner if the graph has a backward."""
    while True:
        partitioner.limits = None
        try:
            with _parts_apart():
                made = compile({"_pre_fusion_custom_pass": Watch(partitioner)})
        except AboveBudget:
            made = None
        if partitioner.limits is None:  # the graph has no backward, and so no plan
            return made
        excess = partitioner.limits.excess_bytes
        if not excess:
            partitioner.limits.most_bytes = None  # a backward that is compiled later, when it is called, gets no other plan
            partitioner.compiled()
            return made
        partitioner.plan_for_less(excess)


@contextlib.contextmanager
def _parts_apart() -> Iterator[None]:
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


class Watch(CustomSchedulerPass):
    """Counts the memory of each graph that inductor compiles, once the graph's code is generated."""

    def __init__(self, partitioner: Replanned) -> None:
        self._partitioner = partitioner

    def uuid(self) -> str:
        return self._partitioner.uuid()

    def __deepcopy__(self, memo: Any) -> Watch:
        return self  # inductor copies its settings

    def __call__(self, nodes: list[Any]) -> list[Any]:
        from torch._inductor.graph import SubgraphLowering
        from torch._inductor.virtualized import V

        limits = self._partitioner.limits
        if limits is not None and not isinstance(V.graph, SubgraphLowering):
            _watch(V.graph, limits)
        return nodes


def counted(partitioner: Replanned, is_backward: bool, compile: Callable[[], Any]) -> Any:
    """Returns the result of `compile`, which compiles one graph. Counts the memory of code that comes from inductor's cache too: inductor keeps,
    with the code, by how much its compilation raised each of inductor's counters, and raises them again when it finds the code."""
    counters["inductor"].pop(_CODE_BYTES, None)
    made = compile()
    peak = counters["inductor"].pop(_CODE_BYTES, 0)
    if partitioner.limits is not None:
        partitioner.limits.note(is_backward, [((), peak)])
    return made


def _watch(graph: Any, limits: Limits) -> None:
    """Counts the graph's memory when its code is generated, because until then the order of the nodes, and what is computed in place, may
    change."""
    generate = graph.wrapper_code.generate
    ended: list[Any] = []

    def generate_and_count(*args: Any, **kwargs: Any) -> Any:
        code = _Code(graph, limits, is_generated=True)
        uses = [(_steps(node), live) for node, live in _lives(code, set(map(id, ended)))]
        counters["inductor"][_CODE_BYTES] = max((live for _, live in uses), default=0)
        limits.note(graph.is_backward, uses)
        return generate(*args, **kwargs)

    graph.wrapper_code.generate = generate_and_count
    _fuse_within(graph.scheduler, limits, limits.room(graph.is_backward))
    for device in graph.device_types:
        if device == "cpu":
            _end_functions_in_time(graph, limits, ended)


def _fuse_within(scheduler: Any, limits: Limits, room: int) -> None:
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
    before = {k: state.baseline_live_after[k] + _workspace(state.nodes[k], limits) for k in region}
    of_node = {id(state.nodes[k]): live for k, live in before.items() if state.nodes[k] is not None}
    of_node[id(update.candidate)] = max(before[update.region_start], before[update.region_end])
    for node, live in zip(update.region_nodes, update.live_after):
        if live + _workspace(node, limits) > max(of_node[id(node)], room):
            return True
    for whole, last in _wholes(scheduler, state, update.node1, update.node2):
        lives = (state.baseline_live_after[k] + _workspace(state.nodes[k], limits) for k in range(update.region_start, last + 1))
        if max(lives) + whole > room:
            return True
    return False


def _fused_away(scheduler: Any, fused: Any) -> int:
    """Returns the bytes of results that only the fused kernel itself reads. Inductor counts these as if they were in memory."""
    names = {node.get_name() for node in fused.get_nodes()}
    gone = (b for b in fused.get_outputs() if scheduler.can_buffer_be_removed_through_fusion(b.get_name(), names))
    return sum(b.mpi_buffer.size_alloc for b in gone)


def _workspace(node: Any, limits: Limits) -> int:
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


def _wholes(scheduler: Any, state: Any, *nodes: Any) -> Iterator[tuple[int, int]]:
    """Yields, for each concatenation into which the nodes write, its bytes and the place in the order at which all its parts are computed."""
    from torch._inductor import ir

    for buffer in (b for node in nodes for b in node.get_outputs()):
        layout = buffer.node.get_output_spec()
        if isinstance(layout, ir.NonOwningLayout):
            whole = layout.view.data.data
            last = scheduler._fusion_node_step(state, scheduler.name_to_buf[whole.get_name()].defining_op)
            if last is not None:
                yield _storage_bytes(whole), last


def _end_functions_in_time(graph: Any, limits: Limits, ended: list[Any]) -> None:
    """Ends C++ functions where memory is short. On the CPU inductor makes one function of neighbouring nodes, which frees what the nodes read only
    at its end."""
    backend = graph.scheduler.get_backend(torch.device("cpu"))
    is_full = backend.ready_to_flush
    ends: list[set[int]] = []

    def ready_to_flush() -> bool:
        if not ends:
            ends.append(_ends(_Code(graph, limits, is_generated=False), limits.room(graph.is_backward)))
        node = graph.scheduler.current_node
        if is_full() or id(node) in ends[0]:
            ended.append(node)
            return True
        return False

    backend.ready_to_flush = ready_to_flush


@dataclass
class _Use:
    """The bytes that a node uses, after inductor has scheduled it."""

    node: Any
    allocated: int
    workspace: int
    freed: int
    joins: bool
    """True: the node shares a function with neighbours that join too."""


def _storage_bytes(buffer: Any) -> int:
    from torch._inductor.virtualized import V

    size = V.graph.sizevars.optimization_hint(V.graph.get_allocation_storage_size(buffer), fallback=0)
    return int(size) * buffer.get_dtype().itemsize


class _Code:
    """The bytes that the nodes of a graph allocate and free, in the order of the nodes."""

    def __init__(self, graph: Any, limits: Limits, *, is_generated: bool) -> None:
        """is_generated: the graph's code is generated. Before that, it is not known what is computed in place."""
        self.graph, self.scheduler, self.limits, self.is_generated = graph, graph.scheduler, limits, is_generated
        self.reuses = dict(graph.wrapper_code.reuses)
        self.outputs = set(graph.get_output_names())
        self.bytes: dict[str, int] = {}  # of each live storage, by the name of its first buffer
        self.inputs = sum(self._of_input(name) for name in graph.graph_inputs)

    def uses(self) -> Iterator[_Use]:
        for node in self.scheduler.nodes:
            allocated = sum(self._allocate(buffer, node) for buffer in node.get_outputs())
            freed = sum(self._free(name) for name in node.last_usage)
            yield _Use(node, allocated, _workspace(node, self.limits), freed, self._joins(node))

    def _of_input(self, name: str) -> int:
        from torch._inductor import ir

        value = self.graph.graph_inputs[name]
        persistent = _PERSISTENT if self.limits.frees_tangents else (*_PERSISTENT, _TANGENTS)
        if name.startswith(persistent) or name in self.limits.on_host or not isinstance(value, ir.TensorBox):
            return 0
        self.bytes[name] = _storage_bytes(value.data.data)
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
        self.bytes[name] = _storage_bytes(buffer.node)
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


def _steps(node: Any) -> list[int]:
    """Returns the steps of the plan that a node of the code computes. Nodes that PyTorch has put in place of ops have no step."""
    origins = (o for n in node.get_nodes() if n.node is not None for o in n.node.get_origins())
    return [o.meta[STEP] for o in origins if STEP in o.meta]


def _lives(code: _Code, ended: set[int]) -> Iterator[tuple[Any, int]]:
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


def _ends(code: _Code, room: int) -> set[int]:
    """Returns the ids of the nodes after which a function must end so that no more than `room` bytes are needed, if that is possible."""
    ends: set[int] = set()
    live, pending, before = code.inputs, 0, None
    for use in code.uses():
        if pending and (not use.joins or live + use.allocated > room):
            live, pending = live - pending, 0
            if before is not None and use.joins:
                ends.add(id(before))
        live += use.allocated
        pending += use.freed
        if not use.joins:
            live, pending = live - pending, 0
        before = use.node
    return ends
