"""Measures the live bytes of tensors over the time of a step.

`Allocations` tells the peak of a block; a timeline also tells the level at marks within it, which ops made what, and may overlap others.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import ProfilerState
from torch._C._profiler import _EventType

from .allocations import allocator_of_all_threads, is_profiling, settings_for_memory, silent_profiler, without_garbage_collection


@dataclass(frozen=True)
class Older:
    """A storage that was there when a timeline began, and that counts as if it had been made within it."""

    address: int
    bytes: int
    holder: str = ""
    """The variable of the program that holds it; "": none is known."""


class Timeline:
    """The live bytes of tensors on a CPU while a step runs, from its begin to its end. Bytes that were live at its begin are not counted, except
    those of the older storages that it is told of.

    Timelines may overlap; what each has seen is known when the first one ends. They need PyTorch's profiler, of which there is one, so if the
    program begins to profile, timelines give up.
    """

    def __init__(self) -> None:
        self.levels: list[int] = []
        """The live bytes at each mark. This and what follows is known when `is_whole` is True."""
        self.peaks: list[int] = []
        """For each mark the largest number of live bytes from it to the next mark, or to the end."""
        self.first_peak = 0
        """The largest number of live bytes before the first mark."""
        self.largest: list[tuple[str, int]] = []
        """The outermost op that had made most of what was live at the peak before the first mark, and the bytes; then the same for each mark."""
        self.older: Sequence[Older] = ()
        self.older_levels: list[int] = []
        """The live bytes of older storages at each mark."""
        self.is_whole = False
        """True: it has ended, and has seen all from its begin to its end."""
        self._session: _Session | None = None
        self._marks = 0
        self._then: Callable[[], None] = lambda: None
        self._has_ended = self._will_end = self.is_given_up = False

    @classmethod
    def begun(cls, older: Sequence[Older] = (), *, will_end: bool = False) -> Timeline | None:
        """Returns a timeline that begins now; None: the program profiles itself. will_end: somebody ends it for certain, which is not known of steps."""
        session = _Session.opened()
        if session is None:
            return None
        made = cls()
        made._session, made._will_end, made.older = session, will_end, older
        session.timelines.append(made)
        made.mark()
        return made

    @property
    def peak(self) -> int:
        """The largest number of live bytes."""
        return max([self.first_peak, *self.peaks])

    @property
    def is_of_another_thread(self) -> bool:
        """True: the profiler sees nothing of what this thread does."""
        return self._session is not None and not self._session.is_of_this_thread

    def mark(self) -> None:
        self._marks += 1
        if self._session is not None:
            self._session.mark(self)

    def give_up(self) -> None:
        """Ends the timeline early, or forgets what was to be called after its end: it tells nothing then."""
        self._then, self._has_ended, self.is_given_up = lambda: None, True, True
        if self._session is not None:
            self._session.leave(self)

    def end(self, then: Callable[[], None] = lambda: None) -> None:
        """Ends the timeline. then: is called as soon as it is known what the timeline has seen, at once if no other timeline began before it."""
        if self._session is None or self._has_ended:
            return
        self._then, self._has_ended = then, True
        self.mark()
        self._session.leave(self)

    def read(self, events: Sequence[_Event]) -> None:
        """Reads the events of a session, in their order."""
        self._session = None
        reader = _Reader(self.older)
        marks = 0
        for event in events:
            if event.timeline == id(self):
                marks += 1
                if 1 < marks < self._marks:
                    reader.mark()
            elif 0 < marks < self._marks and event.timeline is None:
                reader.allocate(event)
        if self._has_ended and marks == self._marks:
            self.levels, self.is_whole, self.largest = reader.levels, True, reader.largest
            self.first_peak, *self.peaks = reader.peaks
            self.older_levels = reader.older_levels
            self._then()


@dataclass(frozen=True)
class _Event:
    """A tensor's memory is allocated or freed, or a timeline is marked."""

    ns: int
    timeline: int | None = None
    """The id of the timeline that is marked."""
    address: int = 0
    bytes: int = 0
    """Below 0: it is freed."""
    allocated: int = 0
    """The allocator's number of live bytes after the event. It also knows of what threads do that the profiler does not see."""
    op: str = ""
    """The outermost op in which that happens."""


class _Reader:
    """Follows the live bytes of tensors that are younger than the timeline, and of the older ones that count.

    The profiler does not see every thread. A thread of Gloo drops a tensor some time after the wait for its collective, and if its reference is
    the last one, no event tells of it. Then the allocator's own number falls by more than the events say. If that number rises by more, other
    threads make tensors of their own, which are not the step's.
    """

    def __init__(self, older: Sequence[Older]) -> None:
        self._older = {each.address: each.bytes for each in older}
        self._level = self._younger = sum(self._older.values())  # the live bytes, and as far as events tell
        self.levels: list[int] = []
        self.older_levels: list[int] = []
        self.peaks = [self._level]
        self.largest = [("", 0)]
        self._allocated: int | None = None  # what the allocator's number would be if events told everything; None: no event yet
        self._made_by = {address: ("", size) for address, size in self._older.items()}  # by address, the outermost op that made it, and the bytes
        self._made: dict[str, int] = {}  # by outermost op, the live bytes that it has made since the last mark

    def mark(self) -> None:
        self.levels.append(self._level)
        self.older_levels.append(sum(self._older.values()))
        self.peaks.append(self._level)
        self.largest.append(("", 0))
        self._made = {}

    def allocate(self, event: _Event) -> None:
        self._allocated = event.allocated if self._allocated is None else self._allocated + event.bytes
        known = self._made_by.pop(event.address, None)  # it is made anew if it was freed unseen
        self._older.pop(event.address, None)
        if known is not None and known[0] in self._made:
            self._made[known[0]] -= known[1]
        if event.bytes > 0:
            self._made_by[event.address] = event.op, event.bytes
            self._made[event.op] = self._made.get(event.op, 0) + event.bytes
        elif known is None:
            return  # it is older than the timeline
        self._younger += event.bytes
        self._level = self._younger + min(0, event.allocated - self._allocated)
        if self._level > self.peaks[-1]:
            self.peaks[-1], self.largest[-1] = self._level, max(self._made.items(), key=lambda each: each[1], default=("", 0))


class _Session:
    """One run of the profiler, for the timelines that overlap."""

    _open: _Session | None = None

    def __init__(self) -> None:
        self.timelines: list[Timeline] = []
        self._thread = threading.get_ident()
        self._patches = contextlib.ExitStack()
        self._patches.enter_context(without_garbage_collection())
        self._patches.enter_context(_before(torch.autograd.profiler, "_prepare_profiler", self.give_up))
        self._patches.enter_context(allocator_of_all_threads())
        with silent_profiler():
            settings = settings_for_memory(ProfilerState.KINETO), {torch.profiler.ProfilerActivity.CPU}
            torch.autograd._prepare_profiler(*settings)  # type: ignore[attr-defined]
            torch.autograd._enable_profiler(*settings)  # type: ignore[attr-defined]
        torch.autograd.profiler._is_profiler_enabled = True

    @property
    def is_of_this_thread(self) -> bool:
        return self._thread == threading.get_ident()

    @classmethod
    def end_if_over(cls) -> None:
        """Ends a session of this thread whose timelines other threads have given up."""
        if cls._open is not None and cls._open.is_of_this_thread and all(t._has_ended for t in cls._open.timelines):
            cls._open._end()

    @classmethod
    def opened(cls) -> _Session | None:
        """Returns the session of this thread; None: another profiler runs."""
        cls.end_if_over()
        if cls._open is None and not is_profiling():
            cls._open = cls()
        return cls._open if cls._open is not None and cls._open.is_of_this_thread else None

    def mark(self, timeline: Timeline) -> None:
        with torch.profiler.record_function(f"{_MARK}{id(timeline)}"):
            pass

    def leave(self, timeline: Timeline) -> None:
        """Ends the session if the timeline is the first one, or if so many later ones have ended that the first one is taken for one that nobody will
        end, as that of a step without a backward, of a function that the program has dropped."""
        first = self.timelines[0]
        if timeline is first or not first._will_end and sum(t._has_ended for t in self.timelines) >= _MOST_WITHIN:
            self._end()

    def give_up(self) -> None:
        self.timelines[0]._has_ended = False
        self._end()

    def _end(self) -> None:
        if _Session._open is not self or not self.is_of_this_thread:
            return
        _Session._open = None
        self._patches.close()
        torch.autograd.profiler._is_profiler_enabled = False
        with silent_profiler():
            found = torch.autograd._disable_profiler()  # type: ignore[attr-defined]
            # Reading takes a minute where much else ran meanwhile.
            is_wanted = not all(t.is_given_up for t in self.timelines)
            events = _events(found.experimental_event_tree()) if is_wanted else []
        for timeline in self.timelines:
            timeline.read(events)


_MARK = "isthmus::mark of "
_MOST_WITHIN = 4
"""How many timelines may begin and end while the first one of their session lasts."""


def _name_of(event: str) -> str | None:
    """Returns the name of an op; None for what surrounds ops."""
    return None if event.startswith("Torch-Compiled Region") else event.removeprefix("autograd::engine::evaluate_function: ")


def _events(roots: Sequence[Any]) -> list[_Event]:
    found = []
    stack = [(root, None) for root in roots]
    while stack:
        event, op = stack.pop()
        if event.tag == _EventType.Allocation:
            if event.extra_fields.device.type == "cpu":
                of = event.extra_fields
                found.append(_Event(event.start_time_ns, None, of.ptr, of.alloc_size, of.total_allocated, op or ""))
        elif event.tag == _EventType.TorchOp and event.name.startswith(_MARK):
            found.append(_Event(event.start_time_ns, int(event.name.removeprefix(_MARK))))
        else:
            stack += [(child, op or _name_of(event.name)) for child in event.children]
    return sorted(found, key=lambda each: each.ns)


@contextlib.contextmanager
def _before(module: Any, name: str, call: Callable[[], None]) -> Iterator[None]:
    """Calls `call` before each call of a function of a module."""
    function = getattr(module, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        call()
        return function(*args, **kwargs)

    setattr(module, name, called)
    try:
        yield
    finally:
        setattr(module, name, function)


class TimelineOnGpu:
    """The same on the current GPU, from the allocator's counters. Which ops made what is not known there."""

    is_of_another_thread = False

    def __init__(self, older: Sequence[Older] = ()) -> None:
        self.levels: list[int] = []
        self.peaks: list[int] = []
        self.first_peak = 0
        self.largest: list[tuple[str, int]] = [("", 0)]
        self.older = older
        self.older_levels: list[int] = []
        self.is_whole = self._has_ended = False
        self._begin = self._current() - sum(each.bytes for each in older)
        torch.cuda.reset_peak_memory_stats()

    @property
    def peak(self) -> int:
        return max([self.first_peak, *self.peaks])

    def mark(self) -> None:
        self._note_peak()
        self.levels.append(self._current() - self._begin)
        self.largest.append(("", 0))
        torch.cuda.reset_peak_memory_stats()

    def give_up(self) -> None:
        self._has_ended = True

    def end(self, then: Callable[[], None] = lambda: None) -> None:
        if not self._has_ended:
            self._note_peak()
            self._has_ended = self.is_whole = True
            then()

    def _note_peak(self) -> None:
        peak = int(torch.cuda.memory_stats()["requested_bytes.all.peak"]) - self._begin
        if self.levels:
            self.peaks.append(peak)
        else:
            self.first_peak = peak

    @staticmethod
    def _current() -> int:
        return int(torch.cuda.memory_stats()["requested_bytes.all.current"])


def end_profile_if_over() -> None:
    """Ends the profile of steps that other threads have given up."""
    _Session.end_if_over()


def timeline(older: Sequence[Older] = ()) -> Timeline | TimelineOnGpu | None:
    """Begins a timeline of the device that the program uses. Returns None if the program profiles itself on a CPU."""
    if torch.cuda.is_initialized() and torch.cuda.memory_allocated():
        return TimelineOnGpu(older)
    return Timeline.begun(older)
