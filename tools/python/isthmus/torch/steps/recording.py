"""Records one training step of compiled graphs: which graphs run, in which order, and which storages live between them."""

from __future__ import annotations

import contextlib
import itertools
import math
import weakref
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from .. import hooks


class Graph(Protocol):
    """A compiled graph, which a step may call more than once."""

    num_outputs: int


@dataclass(frozen=True)
class Segment:
    """The forward or the backward of one call of a graph."""

    call: int
    is_forward: bool


@dataclass(eq=False)
class Value:
    """A storage of the step that a forward returns or saves, or takes from outside."""

    ref: hooks.StorageWeakRef
    bytes: int
    segment: int
    """The segment in which it was first seen."""
    outputs: list[int] = field(default_factory=list)
    """Its positions among the results of its forward; empty: it is only saved, or comes from outside."""
    given: bool = False
    """True: it was made outside of the graphs."""
    arguments: list[tuple[int, int]] = field(default_factory=list)
    """Pairs of a call that takes it and its position among the arguments."""
    savers: set[int] = field(default_factory=set)
    """The calls that save it for their backward."""
    kept_between: bool = False
    """True: an op outside of the graphs saves it for its backward."""
    died: int | None = None
    """The segment at whose begin it was found freed; None: it outlived the step."""


@dataclass(frozen=True)
class Tangent:
    """A gradient that a backward takes, and that is freed once the backward has read it."""

    bytes: int
    positions: tuple[int, ...]
    """Its positions among the tangents of the backward; several tangents may share a storage."""


@dataclass
class Record:
    """The events of a step."""

    graphs: list[Graph] = field(default_factory=list)
    """The graph of each call."""
    segments: list[Segment] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    gradients: list[int] = field(default_factory=list)
    """For each segment, the bytes of gradients that live from its begin to its end."""
    tangents: list[list[Tangent]] = field(default_factory=list)
    """For each segment, the tangents that nothing else keeps alive."""
    timeline: hooks.Timeline | hooks.TimelineOnGpu | None = None
    """The live bytes of the step: a mark at the begin and at the end of each segment. None: the program profiled the step itself."""
    left: list[int] = field(default_factory=list)
    """For each segment, the bytes of gradients that are live at its begin and that were there before the step: those of the parameters of its
    graphs."""

    @property
    def is_measured(self) -> bool:
        return self.timeline is not None and self.timeline.is_whole and len(self.timeline.levels) == 2 * self.measured_segments

    def scaled(self, factor: float) -> Record:
        """Returns the record of a step whose values and tangents are larger by a factor, and which was not measured."""

        def grown(size: int) -> int:
            return math.ceil(size * factor)

        values = [replace(v, bytes=grown(v.bytes)) for v in self.values]
        tangents = [[replace(t, bytes=grown(t.bytes)) for t in of_segment] for of_segment in self.tangents]
        return replace(self, values=values, tangents=tangents, timeline=None)

    measured_segments: int = 0
    """The segments that ran; those after them are of backwards that did not."""

    def most_waiting(self, calls: Container[int]) -> int:
        """Returns how many of the calls wait for their backwards at the same time, at most."""
        waiting = itertools.accumulate(1 if s.is_forward else -1 for s in self.segments if s.call in calls)
        return max(waiting, default=0)

    def segment_of(self, call: int, is_forward: bool) -> int | None:
        segment = Segment(call, is_forward)
        return self.segments.index(segment) if segment in self.segments else None


_Watched = tuple[hooks.StorageWeakRef, int]  # the storage, and its bytes


class Recorder:
    """Fills a record while a step runs. It watches storages without keeping them alive."""

    def __init__(self, timeline: hooks.Timeline | hooks.TimelineOnGpu | None) -> None:
        self.record = Record(timeline=timeline)
        self._known: dict[int, Value] = {}  # by the storage's address, which is unique as long as the storage is watched
        self._gradients: dict[int, _Watched] = {}
        self._saved: list[int] = []  # for each call, the number of values that it saves for its backward
        self._left: dict[int, _Watched] = {}  # gradients that were there before the step
        self._leaves: list[weakref.ref[torch.Tensor]] = []  # leaves that ops outside the graphs read, and that have no gradient at that time

    @contextlib.contextmanager
    def forward(self, graph: Graph, arguments: list[Any], between: Iterable[Any]) -> Iterator[list[Any]]:
        """Records a forward. The block must put the forward's results into the list that it receives. between: the autograd nodes of earlier
        ops outside the graphs."""
        record = self.record
        call = len(record.graphs)
        record.graphs.append(graph)
        segment = self._begin(Segment(call, True))
        taken: set[int] = set()
        for position, (address, tensor) in enumerate(_storages(arguments)):
            if tensor is not None:
                taken.add(address)
                value = self._given(segment, address, tensor)
                if value is not None:
                    value.arguments.append((call, position))
        for node in between:
            for address, tensor in _storages(hooks.kept_by(node)):
                value = self._given(segment, address, tensor) if tensor is not None else None
                if value is not None:
                    value.kept_between = True
            leaf = hooks.leaf_of(node)
            if leaf is not None and leaf.grad is None:
                self._leaves.append(weakref.ref(leaf))
        self._note_left(arguments)
        record.left[segment] = self._left_bytes()
        record.gradients[segment] = sum(size for ref, size in self._gradients.values() if not ref.expired())
        results: list[Any] = []
        self._mark()
        yield results
        self._mark()
        self._note_results(call, segment, graph, results, taken)
        self._saved.append(len(results) - graph.num_outputs)

    def _mark(self) -> None:
        if self.record.timeline is not None:
            self.record.timeline.mark()

    def _left_bytes(self) -> int:
        return sum(size for ref, size in self._left.values() if not ref.expired())

    def _note_left(self, arguments: list[Any]) -> None:
        """Notes the gradients that the parameters among the arguments have before the first backward."""
        if all(s.is_forward for s in self.record.segments):
            for address, watched in _watched(a.grad for a in arguments if _is_parameter(a)).items():
                self._left.setdefault(address, watched)

    def _given(self, segment: int, address: int, tensor: torch.Tensor) -> Value | None:
        if address in self._known:
            return self._known[address]
        if segment == 0:  # the arguments of the first segment are older than the step
            return None
        return self._add(Value(hooks.StorageWeakRef(tensor.untyped_storage()), _bytes(tensor), segment, given=True), address)

    def _note_results(self, call: int, segment: int, graph: Graph, results: list[Any], taken: set[int]) -> None:
        for position, (address, tensor) in enumerate(_storages(results)):
            if tensor is None:
                continue
            value = self._known.get(address)
            if value is None and address not in taken:
                value = self._add(Value(hooks.StorageWeakRef(tensor.untyped_storage()), _bytes(tensor), segment), address)
            if value is None:
                continue
            if position >= graph.num_outputs:
                value.savers.add(call)
            elif value.segment == segment and not value.given:
                value.outputs.append(position)

    @contextlib.contextmanager
    def backward(self, call: int, arguments: list[Any]) -> Iterator[list[Any]]:
        """Records a backward. arguments: the saved values, then the tangents. The block must put the backward's results into the list that
        it receives."""
        segment = self._begin(Segment(call, False))
        self._note_gradients_of_leaves()
        earlier = {address: watched for address, watched in self._gradients.items() if not watched[0].expired()}
        tangents = self._tangents(call, arguments, earlier)
        results: list[Any] = []
        self._mark()
        yield results
        self._mark()
        for address, tensor in _storages(results):
            if tensor is not None and self._is_gradient(address, segment):
                self._gradients[address] = (hooks.StorageWeakRef(tensor.untyped_storage()), _bytes(tensor))
        let_go = [address for address in tangents if earlier[address][0].expired()]
        self.record.tangents[segment] = [Tangent(earlier[address][1], tuple(tangents[address])) for address in let_go]
        self.record.gradients[segment] = sum(size for address, (_, size) in earlier.items() if address not in let_go)

    def _note_gradients_of_leaves(self) -> None:
        """Notes the gradients of leaves that ops outside of the graphs have read, such as the weights of an LSTM."""
        gradients = [leaf.grad for leaf in (ref() for ref in self._leaves) if leaf is not None]
        for address, tensor in _storages(gradients):
            if tensor is not None and address not in self._known:
                self._gradients.setdefault(address, (hooks.StorageWeakRef(tensor.untyped_storage()), _bytes(tensor)))

    def _is_gradient(self, address: int, segment: int) -> bool:
        """Returns True if a storage that a backward returns is a new gradient. Inductor may have written it into a storage that the forward
        only saved, whose value then ends."""
        value = self._known.get(address)
        if value is None:
            return True
        if value.given or value.outputs or value.arguments:
            return False
        value.died = segment + 1
        del self._known[address]
        return True

    def _tangents(self, call: int, arguments: list[Any], watched: dict[int, _Watched]) -> dict[int, list[int]]:
        """Returns the positions of the tangents by the address of their storage, and adds these storages to `watched`. Keeps no tensor alive."""
        found: dict[int, list[int]] = {}
        for position, (address, tensor) in enumerate(_storages(arguments[self._saved[call] :])):
            if tensor is not None and address not in self._known:
                found.setdefault(address, []).append(position)
                watched.setdefault(address, (hooks.StorageWeakRef(tensor.untyped_storage()), _bytes(tensor)))
        return found

    def end(self) -> Record:
        """Ends the recording, after the step. Backwards that did not run are appended as the last segments: they may run in the next step."""
        record = self.record
        record.measured_segments = len(record.segments)
        self._look(len(record.segments))
        for call in range(len(record.graphs)):
            if record.segment_of(call, False) is None:
                record.segments.append(Segment(call, False))
                record.gradients.append(record.gradients[-1])
                record.tangents.append([])
                record.left.append(record.left[-1])
        return record

    def _begin(self, segment: Segment) -> int:
        number = len(self.record.segments)
        self._look(number)
        self.record.segments.append(segment)
        self.record.gradients.append(0)
        self.record.tangents.append([])
        self.record.left.append(self._left_bytes())
        return number

    def _look(self, segment: int) -> None:
        for address, value in list(self._known.items()):
            if value.ref.expired():
                value.died = segment
                del self._known[address]

    def _add(self, value: Value, address: int) -> Value:
        self._known[address] = value
        self.record.values.append(value)
        return value


def _storages(values: Iterable[Any]) -> Iterator[tuple[int, torch.Tensor | None]]:
    """Yields the address of each value's storage and its tensor; 0 and None for values without a storage."""
    for value in values:
        try:
            yield (hooks.storage_id(value), value) if isinstance(value, torch.Tensor) else (0, None)
        except NotImplementedError:
            yield 0, None


def _watched(tensors: Iterable[Any]) -> dict[int, _Watched]:
    """Returns a weak reference to each tensor's storage and its bytes, by the storage's address."""
    return {address: (hooks.StorageWeakRef(t.untyped_storage()), _bytes(t)) for address, t in _storages(tensors) if t is not None}


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def _is_parameter(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad
