"""Chooses which regions of a joint graph run chunk by chunk, and in how many chunks, by planning the graph with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import fx

from ...errors import CannotBeMet
from ...planning import Plan, live_bytes
from ...regions import ChunkSearch, Cut, Goal, Score
from ..graph.joint import CHUNK, Joint
from ..graph.places import module_of
from ..graph.preparation import after_tangents
from ..graph.sizes import bytes_of, tensors_in
from .chunking import Unfit, chunked
from .forms import in_forms
from .region import Region, Regions
from .seeds import numbers_of

MOST_TENSORS = 3
"""Regions grow from so many tensors, the largest ones at the peak of a plan."""
_LEAST_SHARE = 0.04
"""Of the peak, of such a tensor."""
_MOST_NODES = 4096
"""Of all chunks of a region together."""
_MOST_ADDED = 1.0
"""The least peak may add this share of the step's time, as in plans without chunks."""
_SHORT = 1 / 8
"""The share of the effort that is spent on a plan of a candidate."""
_BYTES_FOR_TIME = 0.1
"""A least peak is only lowered by some share if that adds at most ten times this share of the time."""
_LESS_TIME = 0.998
"""Without chunks, a plan of this share of the cost of the step as given leaves nothing to gain."""


@dataclass(frozen=True)
class Chunks:
    """A region that runs chunk by chunk: it grows from a tensor along one of its axes."""

    tensor: str
    cut: Cut
    number: int
    has_seed: bool
    """True: its backward runs with its forward."""
    name: str = field(default="", compare=False)
    """The op that makes the tensor, and the modules of the region."""

    def __str__(self) -> str:
        inside = f" within {self.cut.outer} parts of it" if self.cut.outer > 1 else ""
        return f"{self.name}, {self.number} along axis {self.cut.axis}{inside}{', forward and backward together' if self.has_seed else ''}"


@dataclass(frozen=True)
class Tried:
    """A joint graph with some regions in chunks, and a plan of it."""

    gm: fx.GraphModule
    joint: Joint
    chunks: tuple[Chunks, ...]
    plan: Plan
    score: Score


@dataclass(frozen=True)
class Candidate:
    """A region that may run in chunks."""

    value: fx.Node
    cut: Cut
    region: Region
    numbers: Sequence[fx.Node]
    """Of its seed (seeds.numbers_of)."""

    @property
    def most(self) -> int:
        return min(self.region.units, max(4, _MOST_NODES // len(self.region.ops)))

    def chunks(self, number: int) -> Chunks:
        return Chunks(self.value.name, self.cut, number, bool(self.numbers), _named(self.value, self.region))


def applied(gm: fx.GraphModule, chunks: Sequence[Chunks]) -> fx.GraphModule | None:
    """Returns a prepared joint graph with these regions in chunks; None if it has no such regions."""
    gm = in_forms(gm)
    for each in chunks:
        value = next((n for n in gm.graph.nodes if n.name == each.tensor), None)
        regions = Regions(gm.graph)
        region = regions.grow(value, each.cut) if value is not None and each.cut in regions.cuts_of(value) else None
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
        first = self._tried(gm, ())
        if first.score.is_within and not self.smallest and first.score.cost * _LESS_TIME <= first.joint.cost:
            return ()  # nothing is to be gained
        most = (1 + _MOST_ADDED) * first.joint.cost if self.smallest else math.inf
        best, now = first, replace(first, gm=in_forms(gm))
        goal = Goal(self.smallest, _BYTES_FOR_TIME)
        search = ChunkSearch(goal, first.score)
        while True:
            candidates = list(_candidates(now))
            if not search.begin([c.most for c in candidates]):
                break
            while (trial := search.next()) is not None:
                tried = self._in_chunks(now, candidates[trial[0]], trial[1], most)
                if search.tell(None if tried is None else tried.score) and tried is not None:
                    best = tried
            now = best
        if best is first:
            return ()
        in_chunks, whole = (self._tried(each.gm, each.chunks, 1.0) for each in (best, first))
        return in_chunks.chunks if goal.is_better(in_chunks.score, whole.score) else ()

    def _in_chunks(self, now: Tried, candidate: Candidate, number: int, most: float) -> Tried | None:
        gm = _cut(now.gm, candidate.region, number, candidate.numbers)
        return None if gm is None else self._tried(gm, (*now.chunks, candidate.chunks(number)), most=most)

    def _tried(self, gm: fx.GraphModule, chunks: tuple[Chunks, ...], effort: float = _SHORT, most: float = math.inf) -> Tried:
        joint = self.extracted(gm)
        try:
            plan, is_within = self.plan(joint, effort), True
        except CannotBeMet as error:
            if error.plan is None:
                raise
            plan, is_within = error.plan, False
        cost = sum(joint.problem[i].cost for i in plan.schedule)
        peak = plan.figures.peak_bytes if is_within else plan.figures.smallest_peak_bytes or plan.figures.peak_bytes
        return Tried(gm, joint, chunks, plan, Score(is_within, cost > most, cost, peak + joint.reserved_bytes))


def _candidates(now: Tried) -> Iterator[Candidate]:
    """Yields the regions that grow from the largest tensors at the peak of a plan, each once."""
    found: list[Region] = []
    regions, late = Regions(now.gm.graph), after_tangents(now.gm.graph)
    large = [n for n in largest_at_peak(now.gm, now.joint, now.plan.schedule) if CHUNK not in n.meta]
    for value in large[:MOST_TENSORS]:
        for cut in regions.cuts_of(value):
            region = regions.grow(value, cut)
            if region is not None and all(r.ops != region.ops or r.cuts != region.cuts for r in found):
                found.append(region)
                yield Candidate(value, cut, region, numbers_of(region, late))


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
    modules = [m for m in dict.fromkeys(map(module_of, region.ops)) if m]
    others = f" and {len(modules) - _MOST_MODULES} more" if len(modules) > _MOST_MODULES else ""
    within = f" in {', '.join(modules[:_MOST_MODULES])}{others}" if modules else ""
    return f"{str(value.target).removesuffix('.default')}{within}"


_MOST_MODULES = 4
