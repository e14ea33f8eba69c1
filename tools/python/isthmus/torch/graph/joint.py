"""The problem of a joint graph of PyTorch, and the nodes that each op of the problem stands for. `extraction` makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from ...problem import Problem

Read = tuple[int, int]

ONTO = "isthmus_onto"
"""A key of a node's meta: the op may write its result into its first operand, if nothing reads that later."""
CHUNK = "isthmus_chunk"
"""A key of a node's meta: the node belongs to one chunk of a region, or puts chunks together."""
WITH_FORWARD = "isthmus_with_forward"
"""A key of a node's meta. True: the op belongs to the forward, although the forward's results do not need it."""
STEP = "isthmus_step"
"""A key of the meta of a module's node: the position in the schedule of the step that the node belongs to."""


def storage_in(problem: Problem, read: Read) -> Read:
    """Returns the output whose storage is read."""
    op = problem[read[0]]
    while op.view_of is not None:
        read = op.reads[op.view_of]
        op = problem[read[0]]
    return read


def cost_of(problem: Problem) -> float:
    """Returns the microseconds of a step without recomputation."""
    return sum(op.cost for op in problem if not op.is_optional)


@dataclass
class Step:
    """The nodes of the joint graph that a run of an op emits, in this order."""

    nodes: list[fx.Node]
    draws: bool = False
    stored: list[fx.Node] = field(default_factory=list)
    """The nodes whose results the plan expects in memory after the step, although inductor could fuse them into other kernels."""
    moves: fx.Node | None = None
    """The tensor that is copied to the host's memory or back; the op's kind tells which of the four ops of a copy it is."""


@dataclass
class Joint:
    """The problem of a joint graph, and the nodes that each op of the problem emits."""

    problem: Problem
    steps: list[Step]
    """The step of each op; that of a pinned op has no nodes."""
    reserved_bytes: int
    """The bytes of tangents, generator states and repeated batch norms' averages, which are always counted and never planned."""
    forward: list[Any]
    backward: list[Any]
    symbolic: bool
    """True: some sizes are symbolic, and their hints were taken."""
    unbounded: bool = False
    """True: some sizes depend on the data of a call, and it is not known how large they may be. They were taken for 1."""
    channels_last: bool = False
    """True: `layout` has chosen channels_last for pictures."""
    views: set[fx.Node] = field(default_factory=set)
    tangent_bytes: int = 0
    """The part of `reserved_bytes` that is for tangents."""
    where: dict[fx.Node, list[Read]] = field(default_factory=dict)
    """The reads that stand for each node in the problem; a tuple may have several."""
    onto: dict[int, Read] = field(default_factory=dict)
    """By op that may write its result into its first operand, the storage of that."""
    whole: tuple[Joint, fx.Graph] | None = None
    """The graph without chunks, if regions of it run chunk by chunk."""
    late_reads: dict[int, list[Read]] = field(default_factory=dict)
    """By op, its reads of tensors that a collective may still hold after its wait, or may have dropped already."""

    @property
    def cost(self) -> float:
        """The microseconds of a step without recomputation."""
        return cost_of(self.problem)

    @property
    def cost_of_chunks(self) -> float:
        """The cost as a multiple of that of the graph without chunks."""
        return 1.0 if self.whole is None or not self.whole[0].cost else self.cost / self.whole[0].cost

    def read_by(self, is_reader: Callable[[int], bool]) -> set[Read]:
        """Returns the storages that ops of the forward phase make and that the ops for which `is_reader` is True read, themselves or through a
        view."""
        readers = (op for i, op in enumerate(self.problem) if op.view_of is None and not op.is_optional and is_reader(i))
        found = {self.storage(r) for op in readers for r in op.reads}
        return {r for r in found if self.problem[r[0]].phase == "forward" and not self.problem[r[0]].pinned}

    def storage(self, read: Read) -> Read:
        """Returns the output whose storage is read: for a view, the output that it is a view of."""
        return storage_in(self.problem, read)

    def needed_by_forward(self) -> set[int]:
        """Returns the ops that the forward needs to compute its results. Other ops of the forward phase may run in the backward."""
        needed: set[int] = set()
        stack = list(self.problem.forward_outputs)
        while stack:
            i = stack.pop()
            if i not in needed:
                needed.add(i)
                stack += [r[0] for r in self.problem[i].reads]
        return needed
