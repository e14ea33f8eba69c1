"""How much memory the code takes that inductor has generated, before it is compiled; and another plan where that is above the budget.

With `hooks` the only module that touches private parts of PyTorch. Inductor moves ops as it fuses them, and computes some in place. When
the code of a graph is there, what it allocates and frees, and when, is known to the byte; but for what kernels allocate themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomSchedulerPass

from .costs import sized
from .lives import STEP

MOST_REPLANS = 3  # where the code takes more than is planned; the last of them is for the least peak
_PERSISTENT = ("primals_", "fwd_rng_state", "bwd_rng_state")  # inputs that the code does not free, by the begin of their names
_TANGENTS = "tangents_"


class AboveBudget(BaseException):
    """Ends a compilation whose code would take more than it may. No Exception, which PyTorch would wrap or swallow."""


@dataclass
class Limits:
    """What the code of a forward may take, and what it takes, under False; the same of its backward, under True."""

    planned_bytes: dict[bool, int]
    most_bytes: int | None
    """More is `AboveBudget`; None: it may take whatever it does."""
    beside_bytes: dict[bool, int]
    """What is there while the code runs and that it neither allocates nor frees."""
    workspace: Callable[[fx.Node], int]
    """Bytes that PyTorch's own kernel of a node takes while it runs."""
    step_bytes: Sequence[int]
    """What the plan has live in each of its steps, with what is there beside."""
    frees_tangents: bool
    """They die when they have been read for the last time. Otherwise they are among what is there beside."""
    taken_bytes: dict[bool, int] = field(default_factory=dict)
    """The peaks. Code that comes from a cache is not counted."""
    above_bytes: dict[int, int] = field(default_factory=dict)
    """Of steps whose code is above the plan's peak, what it takes beside what the plan has live there."""

    def room(self, is_backward: bool) -> int:
        """For what the code allocates."""
        return self.planned_bytes[is_backward] - self.beside_bytes[is_backward]

    def note(self, is_backward: bool, uses: Iterable[tuple[Sequence[int], int]]) -> None:
        """uses: of each node of the code, the steps of the plan that it computes, and the bytes that are live meanwhile."""
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
        """What the code takes above the most, as far as it was counted."""
        taken = max(self.taken_bytes.values(), default=0)
        return 0 if self.most_bytes is None else max(0, taken - self.most_bytes)

    @property
    def peak_bytes(self) -> int | None:
        """None: not all of the code was counted."""
        return max(self.taken_bytes.values()) if len(self.taken_bytes) == 2 else None


class Replanned(Protocol):
    """A partitioner that is told what inductor made of its plan."""

    limits: Limits | None
    """Of what was planned last."""

    def uuid(self) -> str: ...

    def plan_for_less(self, excess_bytes: int) -> None:
        """The code would take so much more than it may. The partitioner is called again, unless this raises."""

    def compiled(self) -> None:
        """The code is there, and `limits` tell what it takes."""


def within_limits(partitioner: Replanned, compile: Callable[[dict[str, Any]], Any]) -> Any:
    """compile: with these settings of inductor; it calls the partitioner, where there is a backward."""
    while True:
        partitioner.limits = None
        try:
            with _parts_apart():
                made = compile({"_pre_fusion_custom_pass": Watch(partitioner)})
        except AboveBudget:
            made = None
        if partitioner.limits is None:  # no backward, and so no plan
            return made
        excess = partitioner.limits.excess_bytes
        if not excess:
            partitioner.limits.most_bytes = None  # a backward that is compiled only when it is called has no other plan
            partitioner.compiled()
            return made
        partitioner.plan_for_less(excess)


@contextlib.contextmanager
def _parts_apart() -> Iterator[None]:
    """Inductor computes the parts of a concatenation where they stand in the whole, which then lives from the first part on. A plan takes
    the parts for tensors of their own until they are concatenated: each is copied into the whole. Where memory allows, fusing joins the
    copy with what computes the part again. What inductor asks here is which operands must not be computed in place, as they are written
    into."""
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
    """Has the memory of each graph that inductor compiles counted, once its code is generated."""

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


def _watch(graph: Any, limits: Limits) -> None:
    """Until the code is there, the order of the nodes and what is computed in place may change."""
    generate = graph.wrapper_code.generate
    ended: list[Any] = []

    def generate_and_count(*args: Any, **kwargs: Any) -> Any:
        code = _Code(graph, limits, is_generated=True)
        limits.note(graph.is_backward, ((_steps(node), live) for node, live in _lives(code, set(map(id, ended)))))
        return generate(*args, **kwargs)

    graph.wrapper_code.generate = generate_and_count
    _fuse_within(graph.scheduler, limits, limits.room(graph.is_backward))
    for device in graph.device_types:
        if device == "cpu":
            _end_functions_in_time(graph, limits, ended)


def _fuse_within(scheduler: Any, limits: Limits, room: int) -> None:
    """Inductor refuses to fuse what would raise the peak of all. That is counted before kernels are there that compute in place, so
    it is more than the plan's: here nothing is fused for which any node around would need more than both the plan's peak and what it
    needed before."""
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
    """Bytes of what only the kernel itself reads, which inductor counts as if it were in memory."""
    names = {node.get_name() for node in fused.get_nodes()}
    gone = (b for b in fused.get_outputs() if scheduler.can_buffer_be_removed_through_fusion(b.get_name(), names))
    return sum(b.mpi_buffer.size_alloc for b in gone)


def _workspace(node: Any, limits: Limits) -> int:
    """What its kernel allocates for itself, of which inductor does not know. No node, as where two have become one: 0."""
    inner = getattr(node, "node", None)
    if inner is None or not node.is_extern():
        return 0
    operation = getattr(inner, "op_overload", None)
    origin = inner.get_origin_node() or next((n for n in inner.get_origins() if n.target is operation), None)
    return limits.workspace(origin) + _unread(node, origin) if origin is not None else 0


def _unread(node: Any, origin: fx.Node) -> int:
    """Bytes of the results that nothing takes out of its tuple, as where an op runs again for one of them: they are there until it is over."""
    from torch._inductor import ir

    results = origin.meta.get("val")
    if not isinstance(results, (tuple, list)):
        return 0
    users = [getattr(u.node, "node", None) for buffer in node.get_outputs() for u in buffer.users]
    taken = {user.indices[0][1] for user in users if isinstance(user, ir.MultiOutput)}
    return sum(sized(r.untyped_storage().nbytes()) for k, r in enumerate(results) if isinstance(r, torch.Tensor) and k not in taken)


def _wholes(scheduler: Any, state: Any, *nodes: Any) -> Iterator[tuple[int, int]]:
    """Of the concatenations into which these write, the bytes, and the place where all parts are there."""
    from torch._inductor import ir

    for buffer in (b for node in nodes for b in node.get_outputs()):
        layout = buffer.node.get_output_spec()
        if isinstance(layout, ir.NonOwningLayout):
            whole = layout.view.data.data
            last = scheduler._fusion_node_step(state, scheduler.name_to_buf[whole.get_name()].defining_op)
            if last is not None:
                yield _storage_bytes(whole), last


def _end_functions_in_time(graph: Any, limits: Limits, ended: list[Any]) -> None:
    """On the CPU neighbours are one function of C++, at whose end all that they have read is freed. One ends where memory is short."""
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
    """Of memory by a node that inductor has scheduled."""

    node: Any
    allocated: int
    workspace: int
    freed: int
    joins: bool
    """It is one function with its neighbours that join too."""


def _storage_bytes(buffer: Any) -> int:
    from torch._inductor.virtualized import V

    size = V.graph.sizevars.optimization_hint(V.graph.get_allocation_storage_size(buffer), fallback=0)
    return int(size) * buffer.get_dtype().itemsize


class _Code:
    """Of a graph, what its nodes allocate and free, in their order."""

    def __init__(self, graph: Any, limits: Limits, *, is_generated: bool) -> None:
        """is_generated: before that, it is not known what is computed in place."""
        self.graph, self.scheduler, self.limits, self.is_generated = graph, graph.scheduler, limits, is_generated
        self.reuses = dict(graph.wrapper_code.reuses)
        self.outputs = set(graph.get_output_names())
        self.bytes: dict[str, int] = {}  # of what lives, by the name of the storage's first buffer
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
        if name.startswith(persistent) or not isinstance(value, ir.TensorBox):
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
        if name in self.bytes or name in self.reuses or not self._is_allocated(name, node):
            return 0
        if isinstance(layout, ir.MultiOutputLayout):  # the results are nodes of their own
            users = [u.node for u in buffer.users if isinstance(getattr(u.node, "node", None), ir.MultiOutput)]
            return sum(self._allocate(result, user) for user in users for result in user.get_outputs())
        if isinstance(layout, ir.NonOwningLayout):  # a part of a concatenation, all of which is made with its first part
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
    """The steps of the plan that a node of the code computes. What PyTorch puts in place of ops has none."""
    origins = (o for n in node.get_nodes() if n.node is not None for o in n.node.get_origins())
    return [o.meta[STEP] for o in origins if STEP in o.meta]


def _lives(code: _Code, ended: set[int]) -> Iterator[tuple[Any, int]]:
    """Each node, and the bytes that are live while it runs. ended: nodes after which a function ends."""
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
    """After which nodes a function is to end, so that no more than `room` is needed where that is possible."""
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
