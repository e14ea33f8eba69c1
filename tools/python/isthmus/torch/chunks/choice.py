"""Chooses which regions of a joint graph run chunk by chunk, and in how many chunks, by planning the graph with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import fx

from ...errors import CannotBeMet
from ...planning import Plan, live_bytes
from ..graph.joint import Joint
from ..graph.places import module_of
from ..graph.preparation import after_tangents
from ..graph.sizes import bytes_of, tensors_in
from .chunking import Unfit, chunked
from .factors import shape_of
from .forms import in_forms
from .region import Region, grow
from .seeds import in_order, numbers_of

_MOST_REGIONS = 4
MOST_TENSORS = 3
"""Regions grow from so many tensors, the largest ones at the peak of a plan."""
_LEAST_SHARE = 0.04
"""Of the peak, of such a tensor."""
_MOST_CHUNKS = 256
_MOST_NODES = 4096
"""Of all chunks of a region together."""
_MOST_ADDED = 1.0
"""The least peak may add this share of the step's time, as in plans without chunks."""
_SHORT = 1 / 8
"""The share of the effort that is spent on a plan of a candidate."""
_FEWER_BYTES = 0.995
_BYTES_FOR_TIME = 0.1
"""A least peak is only lowered by some share if that adds at most ten times this share of the time."""
_LESS_TIME = 0.998


@dataclass(frozen=True)
class Chunks:
    """A region that runs chunk by chunk: it grows from a tensor along one of its axes."""

    tensor: str
    axis: int
    number: int
    has_seed: bool
    """True: its backward runs with its forward."""
    name: str = field(default="", compare=False)
    """The op that makes the tensor, and the modules of the region."""

    def __str__(self) -> str:
        return f"{self.name}, {self.number} along axis {self.axis}{', forward and backward together' if self.has_seed else ''}"


@dataclass(frozen=True)
class Tried:
    """A joint graph with some regions in chunks, and a plan of it."""

    gm: fx.GraphModule
    joint: Joint
    chunks: tuple[Chunks, ...]
    plan: Plan
    is_within: bool
    cost: float
    """Of a step, in microseconds."""
    bytes: int

    def is_better_than(self, other: Tried, *, smallest: bool) -> bool:
        if self.is_within != other.is_within:
            return self.is_within
        if not self.is_within or smallest:
            dearer = max(0.0, self.cost / other.cost - 1) if smallest and other.cost else 0.0
            return self.bytes * (1 + _BYTES_FOR_TIME * dearer) < _FEWER_BYTES * other.bytes
        return self.cost < _LESS_TIME * other.cost


def applied(gm: fx.GraphModule, chunks: Sequence[Chunks]) -> fx.GraphModule | None:
    """Returns a prepared joint graph with these regions in chunks; None if it has no such regions."""
    gm = in_forms(gm)
    for each in chunks:
        value = next((n for n in gm.graph.nodes if n.name == each.tensor), None)
        region = None if value is None else grow(value, each.axis)
        if region is None or not 2 <= each.number <= region.units:
            return None
        numbers = numbers_of(region, after_tangents(gm.graph)) if each.has_seed else []
        made = None if each.has_seed and not numbers else _cut(gm, region, each.number, numbers)
        if made is None:
            return None
        gm = made
    return gm


def _cut(gm: fx.GraphModule, region: Region, number: int, numbers: Sequence[fx.Node]) -> fx.GraphModule | None:
    try:
        return chunked(gm, region, number, numbers)
    except Unfit:
        return None


@dataclass
class Choice:
    """The search for chunks. Planning is left to the caller.

    extracted: returns the problem of a joint graph. plan: plans a problem, with a share of the effort; raises CannotBeMet. smallest: the least
    peak is wanted.
    """

    extracted: Callable[[fx.GraphModule], Joint]
    plan: Callable[[Joint, float], Plan]
    smallest: bool

    def run(self, gm: fx.GraphModule) -> tuple[Chunks, ...]:
        """Returns the chunks with which a prepared joint graph is best; none if it is best without."""
        if has_symbols(gm):
            return ()
        best = first = self._tried(gm, ())
        if first.is_within and not self.smallest and first.cost * _LESS_TIME <= first.joint.cost:
            return ()  # nothing is to be gained
        now = replace(first, gm=in_forms(gm))
        most = (1 + _MOST_ADDED) * first.joint.cost if self.smallest else math.inf
        for _ in range(_MOST_REGIONS):
            better = None
            for candidate in self._candidates(now):
                for tried in self._numbers(now, *candidate):
                    if tried.cost <= most and tried.is_better_than(better or best, smallest=self.smallest):
                        better = tried
            if better is None:
                break
            best = now = better
        if best is first:
            return ()
        in_chunks, whole = (self._tried(each.gm, each.chunks, 1.0) for each in (best, first))
        return in_chunks.chunks if in_chunks.is_better_than(whole, smallest=self.smallest) else ()

    def _tried(self, gm: fx.GraphModule, chunks: tuple[Chunks, ...], effort: float = _SHORT) -> Tried:
        joint = self.extracted(gm)
        try:
            plan, is_within = self.plan(joint, effort), True
        except CannotBeMet as error:
            if error.plan is None:
                raise
            plan, is_within = error.plan, False
        cost = sum(joint.problem[i].cost for i in plan.schedule)
        peak = plan.figures.peak_bytes if is_within else plan.figures.smallest_peak_bytes or plan.figures.peak_bytes
        return Tried(gm, joint, chunks, plan, is_within, cost, peak + joint.reserved_bytes)

    def _candidates(self, now: Tried) -> Iterator[tuple[fx.Node, int, Region]]:
        """Yields the regions that grow from the largest tensors at the peak of a plan, each once."""
        found: list[frozenset[fx.Node]] = []
        for value in largest_at_peak(now.gm, now.joint, now.plan.schedule)[:MOST_TENSORS]:
            for axis, size in enumerate(shape_of(value)):
                region = grow(value, axis) if size > 1 else None
                if region is not None and frozenset(region.factors) not in found:
                    found.append(frozenset(region.factors))
                    yield value, axis, region

    def _numbers(self, now: Tried, value: fx.Node, axis: int, region: Region) -> Iterator[Tried]:
        """Yields plans with 2, 8, 32, ... chunks, while more of them are better, and with half and twice the best of these numbers."""
        numbers = numbers_of(region, after_tangents(now.gm.graph))
        name = _named(value, region)

        def tried(number: int) -> Tried | None:
            gm = _cut(now.gm, region, number, numbers)
            return None if gm is None else self._tried(gm, (*now.chunks, Chunks(value.name, axis, number, bool(numbers), name)))

        most = min(region.units, _MOST_CHUNKS, max(4, _MOST_NODES // len(region.factors)))
        best: tuple[int, Tried] | None = None
        for number in (*(n for n in (2, 8, 32, 128) if n < most), most):
            made = tried(number)
            if made is None:
                return
            yield made
            if best is not None and not made.is_better_than(best[1], smallest=self.smallest):
                break
            best = number, made
        for number in (best[0] // 2, best[0] * 2) if best is not None else ():
            made = tried(number) if 2 < number < most else None
            if made is not None:
                yield made


def has_symbols(gm: fx.GraphModule) -> bool:
    """Returns True if a size of the graph is a symbol, so that no number of chunks divides it for certain."""
    return any(map(is_symbolic, gm.graph.nodes))


def is_symbolic(node: fx.Node) -> bool:
    return any(isinstance(n, torch.SymInt) for t in tensors_in(node.meta.get("val")) for n in t.shape)


def largest_at_peak(gm: fx.GraphModule, joint: Joint, schedule: Sequence[int]) -> list[fx.Node]:
    """Returns the nodes whose tensors are large at the peak of a plan, the largest first; of those that share a storage, the first."""
    problem = joint.problem
    live = live_bytes(problem, schedule)
    peak = max(range(len(live)), key=live.__getitem__)
    last: dict[int, int] = {}
    for position, op in enumerate(schedule):
        for read in problem[op].reads:
            last[joint.storage(read)[0]] = position
    there = {op for op in schedule[: peak + 1] if last.get(op, -1) >= peak or op == schedule[peak]}
    names = {n.name for op in there for n in joint.steps[op].nodes}
    nodes = [n for n in gm.graph.nodes if n.name in names and isinstance(n.meta.get("val"), torch.Tensor)]
    least = _LEAST_SHARE * live[peak]
    large = [n for n in nodes if bytes_of(n.meta["val"]) >= least and n.op == "call_function"]
    return sorted(large, key=lambda n: -bytes_of(n.meta["val"]))


def _named(value: fx.Node, region: Region) -> str:
    """Returns the name of the op that makes a tensor, and of the modules whose ops are in the region."""
    modules = [m for m in dict.fromkeys(map(module_of, in_order(region))) if m]
    others = f" and {len(modules) - _MOST_MODULES} more" if len(modules) > _MOST_MODULES else ""
    within = f" in {', '.join(modules[:_MOST_MODULES])}{others}" if modules else ""
    return f"{str(value.target).removesuffix('.default')}{within}"


_MOST_MODULES = 4
