"""Which part of a framework's graph may run chunk by chunk along an axis, so that its inner values never exist whole, and in how many chunks.

The framework tells how its ops may be cut, and it rewrites and plans its graph itself. It is section "Chunks" of isthmus.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from ctypes import byref, c_int32, c_int64, c_size_t
from dataclasses import dataclass

from . import _library
from ._shared_library import Handle


@dataclass(frozen=True)
class Cut:
    """A cut along an axis of [outer, inner] elements, in the inner ones."""

    axis: int
    outer: int = 1


@dataclass(frozen=True)
class Factor:
    """Axes of an op's operands and results, by their positions, that belong together, in the notation of einsum: where one is cut, all are. Results
    without one are then sums over the chunks, and operands without one are read whole."""

    operands: Mapping[int, int]
    results: Mapping[int, int]


@dataclass(frozen=True)
class Region:
    """What grows from a value that is cut. Ops and values are numbers."""

    units: int
    """The most chunks: each is one or more of so many equal shares of all cut axes. 0: the value has to exist whole, and the ops are those to which
    the region grew."""
    ops: Sequence[int]
    stops: Sequence[int]
    """The ops that could not be cut, at which the region ends."""
    cuts: Mapping[int, Cut]
    """How each value is cut that the ops read or make in chunks. Values that they read and that are not here are read whole; results that are not
    here are sums over the chunks."""
    totals: Mapping[int, int]
    """By sums that are only added to each other, and by the results of the ops that add them: the last such result, the total of all."""


class RegionGraph:
    """Ops, in an order in which they may run, and their values, each numbered from 0 on."""

    def __init__(self) -> None:
        self._handle = _library.make("region_graph", "region_graph_new")
        self._values = self._ops = 0

    def value(self, dims: Sequence[int], bytes: int, *, is_float: bool = True, is_kept: bool = False, is_late: bool = False) -> int:
        """Adds a value, and returns its number. is_float: sums of it can be added up. is_kept: it has to exist whole, as an output. is_late: it is a
        gradient of an output, or follows from one."""
        flags = is_float * _library.IS_FLOAT | is_kept * _library.IS_KEPT | is_late * _library.IS_LATE
        _library.call("region_graph_add_value", self._handle, (c_int64 * len(dims))(*dims), len(dims), bytes, flags)
        self._values += 1
        return self._values - 1

    def op(
        self,
        operands: Sequence[int],
        results: Sequence[int],
        factors: Iterable[Factor] = (),
        *,
        is_whole: bool = False,
        is_reshape: bool = False,
        is_addition: bool = False,
    ) -> int:
        """Adds an op after those whose results it reads, and returns its number. is_whole: it cannot be cut. is_reshape: its operand and its result
        have the same elements in one order; it has no factors. is_addition: of two values of the result's type."""
        listed = [
            _library.Factor(place, axis, number, 1)
            for number, factor in enumerate(factors)
            for places in (factor.operands, {-1 - r: axis for r, axis in factor.results.items()})
            for place, axis in places.items()
        ]
        flags = is_whole * _library.IS_WHOLE | is_reshape * _library.IS_RESHAPE | is_addition * _library.IS_ADDITION
        numbers = [(ctypes.c_uint32 * len(each))(*each) for each in (operands, results)]
        array = (_library.Factor * len(listed))(*listed)
        _library.call("region_graph_add_op", self._handle, numbers[0], len(operands), numbers[1], len(results), array, len(listed), flags)
        self._ops += 1
        return self._ops - 1

    def cuts_of(self, value: int) -> list[Cut]:
        """Returns the cuts of a value from which a region may grow: along each of its axes, and along the parts of it that a neighbour has as axes."""
        count = c_size_t()
        _library.call("region_graph_cuts", self._handle, value, None, 0, byref(count))
        found = (_library.Cut * count.value)()
        _library.call("region_graph_cuts", self._handle, value, found, count.value, byref(count))
        return [Cut(c.axis, c.outer) for c in found]

    def grow(self, value: int, cut: Cut) -> Region:
        """Returns the region that grows from a value, a result of an op."""
        made = _library.make("region", "region_grow", self._handle, _library.Cut(value, cut.axis, cut.outer))
        parts = _library.RegionParts(size=ctypes.sizeof(_library.RegionParts))
        _library.call("region_get_parts", made, byref(parts))
        return Region(
            units=parts.units,
            ops=parts.ops[: parts.num_ops],
            stops=parts.stops[: parts.num_stops],
            cuts={c.value: Cut(c.axis, c.outer) for c in parts.cuts[: parts.num_cuts]},
            totals={t.sum: t.total for t in parts.totals[: parts.num_totals]},
        )


@dataclass(frozen=True)
class Score:
    """What a plan is worth."""

    is_within: bool
    is_too_dear: bool
    """It adds more to the step's time than is allowed."""
    cost: float
    """Microseconds."""
    bytes: int
    """The peak; above a budget, the least that was found."""

    def _made(self) -> _library.ChunkScore:
        return _library.ChunkScore(self.is_within, self.is_too_dear, self.cost, self.bytes)


@dataclass(frozen=True)
class Goal:
    is_smallest: bool
    """The fewest bytes are wanted; else the least cost within the budget."""
    bytes_for_time: float = 0.0
    """With 0.1, one percent fewer bytes may cost ten percent; 0: anything."""

    def is_better(self, a: Score, b: Score) -> bool:
        """Returns True if `a` is better by so much that it is worth other chunks."""
        return bool(_library.plain("chunk_score_is_better", byref(self._made()), byref(a._made()), byref(b._made())))

    def _made(self) -> _library.ChunkGoal:
        return _library.ChunkGoal(self.is_smallest, self.bytes_for_time)


class ChunkSearch:
    """The search for the regions, and their numbers of chunks, with which a plan is best:

    while search.begin(most_chunks_of_each_region):
        while (trial := search.next()) is not None:
            if search.tell(score_of(*trial)):
                ...  # the best graph so far

    """

    def __init__(self, goal: Goal, whole: Score) -> None:
        """whole: of the plan without chunks."""
        self._handle: Handle = _library.make("chunk_search", "chunk_search_new", byref(goal._made()), byref(whole._made()))

    def begin(self, most: Sequence[int]) -> bool:
        """Begins a round, with the regions that grow in the best graph so far. Returns False if the search has ended."""
        begins = c_int32()
        _library.call("chunk_search_begin", self._handle, (c_int64 * len(most))(*most), len(most), byref(begins))
        return bool(begins.value)

    def next(self) -> tuple[int, int] | None:
        """Returns the next trial of the round: a region and a number of chunks."""
        region, chunks = c_size_t(), c_int64()
        _library.call("chunk_search_next", self._handle, byref(region), byref(chunks))
        return (region.value, chunks.value) if chunks.value else None

    def tell(self, score: Score | None) -> bool:
        """Tells what the plan of the trial is worth; None if there is no such graph. Returns True if it is the best so far."""
        is_best = c_int32()
        _library.call("chunk_search_tell", self._handle, None if score is None else byref(score._made()), byref(is_best))
        return bool(is_best.value)
