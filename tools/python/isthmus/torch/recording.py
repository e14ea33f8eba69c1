"""One step of training as its compiled graphs see it: which of them run, in which order, and which storages live in between."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from . import hooks
from .costs import tensors_in


class Graph(Protocol):
    """A compiled graph, which a step may call more than once."""

    num_outputs: int
    device: torch.device


@dataclass(frozen=True)
class Segment:
    """The forward or the backward of one call of a graph."""

    call: int
    is_forward: bool


@dataclass(eq=False)
class Value:
    """A storage that a forward takes, returns or saves, and that dies within the step or was made in it."""

    ref: hooks.StorageWeakRef
    bytes: int
    segment: int
    """The first that has it."""
    outputs: list[int] = field(default_factory=list)
    """Positions among what its forward returns; none: it is only saved, or it comes from outside."""
    given: bool = False
    """It was made outside of the graphs."""
    arguments: list[tuple[int, int]] = field(default_factory=list)
    """Calls that take it, and in which position."""
    savers: set[int] = field(default_factory=set)
    """Calls that keep it for their backward."""
    died: int | None = None
    """The segment at whose begin it was gone; None: it outlived the step."""


@dataclass
class Record:
    """What happened in a step."""

    graphs: list[Graph] = field(default_factory=list)
    """Of each call."""
    segments: list[Segment] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    around: list[int] = field(default_factory=list)
    """Of each segment, bytes at its begin that the graphs do not decide about: what the backwards have made, what ops between the graphs
    keep for theirs."""
    between: list[int] = field(default_factory=list)
    """Of each segment, bytes that were live before it, since the one before, and no longer."""

    def segment_of(self, call: int, is_forward: bool) -> int | None:
        segment = Segment(call, is_forward)
        return self.segments.index(segment) if segment in self.segments else None


class Recorder:
    """Fills a record while a step runs. forwards: how many calls are expected; bytes are counted until the last of them has ended."""

    def __init__(self, forwards: int, device: torch.device) -> None:
        self.record = Record()
        self._forwards = forwards
        self._live = _Profiled() if device.type == "cpu" else _Counted(device)
        self._known: dict[int, Value] = {}  # by the address of the storage, which no other has as long as it is watched
        self._gradients: dict[int, tuple[hooks.StorageWeakRef, int]] = {}
        self._taken: list[tuple[int, int]] = []  # of the forward that runs: addresses and positions of arguments
        self._known_bytes: list[int] = []  # of each forward: of the values that are live as it begins
        self._saved: list[int] = []  # of each call, how much it keeps for its backward
        self._ended = 0
        self._live.start()

    @contextlib.contextmanager
    def forward(self, graph: Graph, arguments: list[Any]) -> Iterator[list[Any]]:
        """What the forward gives is to be put into the list that the block is given."""
        record = self.record
        call = len(record.graphs)
        record.graphs.append(graph)
        segment = self._begin(Segment(call, True))
        for position, (address, tensor) in enumerate(_storages(arguments)):
            if tensor is None:
                continue
            value = self._known.get(address)
            if value is None and segment > 0:  # what the first takes was there before the step
                value = self._add(Value(hooks.StorageWeakRef(tensor.untyped_storage()), _bytes(tensor), segment, given=True), address)
            if value is not None:
                value.arguments.append((call, position))
            self._taken.append((address, position))
        self._known_bytes.append(sum(v.bytes for v in record.values if v.died is None))
        record.around.append(0)
        results: list[Any] = []
        with self._live.part():
            yield results
        self._note_results(call, segment, graph, results)
        self._taken = []
        self._saved.append(len(results) - graph.num_outputs)
        self._ended += 1
        if self._ended == self._forwards:
            self._live.stop()

    def _note_results(self, call: int, segment: int, graph: Graph, results: list[Any]) -> None:
        taken = {address for address, _ in self._taken}
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

    def backward(self, call: int, arguments: list[Any]) -> None:
        """arguments: what was saved, and then the tangents."""
        self._begin(Segment(call, False))
        tangents = arguments[self._saved[call] :]
        there = {address: size for address, (ref, size) in self._gradients.items() if not ref.expired()}
        for address, tensor in _storages(tangents):
            if tensor is not None and address not in self._known:
                there[address] = _bytes(tensor)
        self.record.around.append(sum(there.values()))

    def backward_ended(self, gradients: Iterable[Any]) -> None:
        for address, tensor in _storages(gradients):
            if tensor is not None and address not in self._known:
                self._gradients[address] = (hooks.StorageWeakRef(tensor.untyped_storage()), _bytes(tensor))

    def _begin(self, segment: Segment) -> int:
        number = len(self.record.segments)
        self._look(number)
        self.record.segments.append(segment)
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

    def end(self) -> Record:
        """After the step."""
        self._live.stop()
        record = self.record
        self._look(len(record.segments))
        record.between = [0] * len(record.segments)
        forwards = [k for k, s in enumerate(record.segments) if s.is_forward]
        outside: dict[int, int] = {}
        for k, known, (live, before) in zip(forwards, self._known_bytes, self._live.found(), strict=True):
            call = record.segments[k].call
            outside[call] = max(0, live - known)
            record.between[k] = max(0, before - live)
        for k, segment in enumerate(record.segments):
            # What ops before this call keep for their backward is there until its own has run.
            record.around[k] += outside[segment.call]
        return record

    def drop(self) -> None:
        self._live.stop()


def _storages(values: Iterable[Any]) -> Iterator[tuple[int, torch.Tensor | None]]:
    """The address of the storage of each; 0 and None for what has none."""
    for value in values:
        try:
            yield (hooks.storage_id(value), value) if isinstance(value, torch.Tensor) else (0, None)
        except NotImplementedError:
            yield 0, None


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def device_of(values: Iterable[Any]) -> torch.device:
    """That of the first tensor which is not on the CPU, if there is one."""
    devices = [t.device for t in tensors_in(list(values))]
    return next((d for d in devices if d.type != "cpu"), torch.device("cpu"))


class _Profiled:
    """Live bytes by the profiler. It is on from the first forward's begin to the last one's end."""

    def __init__(self) -> None:
        self._open = contextlib.ExitStack()
        self._allocations: hooks.Allocations | None = None

    def start(self) -> None:
        self._allocations = self._open.enter_context(hooks.allocations_on_cpu())

    def part(self) -> contextlib.AbstractContextManager[None]:
        assert self._allocations is not None
        return self._allocations.part()

    def stop(self) -> None:
        self._open.close()

    def found(self) -> list[tuple[int, int]]:
        assert self._allocations is not None
        return self._allocations.live


class _Counted:
    """Live bytes by the counter of the device's allocator."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._live: list[tuple[int, int]] = []

    def start(self) -> None:
        self._start = self._now()

    def _now(self) -> int:
        return int(torch.cuda.memory_stats(self._device)["requested_bytes.all.current"])

    def part(self) -> contextlib.AbstractContextManager[None]:
        live = self._now() - self._start
        self._live.append((live, live))
        return contextlib.nullcontext()

    def stop(self) -> None:
        pass

    def found(self) -> list[tuple[int, int]]:
        return self._live
