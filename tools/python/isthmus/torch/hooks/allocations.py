"""Measures what PyTorch's CPU allocator allocates while a block runs."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes


def is_profiling() -> bool:
    """Returns True if the program profiles itself: a second profiler on its thread would be an error."""
    return bool(torch.autograd._profiler_enabled())


@contextlib.contextmanager
def outside_of_tracing() -> Iterator[None]:
    """Runs the ops in the block on real tensors, even while PyTorch traces."""
    with unset_fake_temporarily(), _disable_current_modes():
        yield


class Allocations:
    """The allocations made while a block ran. The attributes are set when the block ends."""

    _MARK = "isthmus::part"

    def __init__(self) -> None:
        self.peak = 0
        """The largest number of live bytes, minus the live bytes at the start of the block."""
        self.peaks: list[int] = []
        """The same for each `part`, minus the live bytes at the start of the part."""
        self.left = 0
        """The live bytes at the end of the block, minus those at its start."""

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        with torch.profiler.record_function(self._MARK):
            yield

    def _read(self, events: Sequence[Any]) -> None:
        cpu = torch._C._autograd.DeviceType.CPU
        memory = [e for e in events if e.name() == "[memory]" and e.device_type() == cpu]
        memory.sort(key=lambda e: e.start_ns())
        parts = sorted((e.start_ns(), e.end_ns()) for e in events if e.name() == self._MARK)
        self.peak = self._peak(memory)
        self.left = sum(e.nbytes() for e in memory)
        times = [e.start_ns() for e in memory]
        for begin, end in parts:
            self.peaks.append(self._peak(memory[bisect.bisect_left(times, begin) : bisect.bisect_right(times, end)]))

    @staticmethod
    def _peak(memory: Sequence[Any]) -> int:
        return max(itertools.accumulate((e.nbytes() for e in memory), initial=0))


@contextlib.contextmanager
def _silent_profiler() -> Iterator[None]:
    """Keeps PyTorch's profiler from writing to stderr when it starts, when it ends, and when it finds no GPU. The profiler reads the
    variable once, when it first starts; a value that the user has set is left alone."""
    name = "KINETO_LOG_LEVEL"
    if name in os.environ:
        yield
        return
    os.environ[name] = "6"  # the profiler's messages have lower levels
    try:
        yield
    finally:
        os.environ.pop(name, None)


@contextlib.contextmanager
def allocations_on_cpu() -> Iterator[Allocations]:
    """Counts what PyTorch's CPU allocator allocates, from the profiler's events. Memory that libraries allocate themselves is not counted."""
    allocations = Allocations()
    with _silent_profiler(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        yield allocations
    allocations._read(profiler.profiler.kineto_results.events())  # type: ignore[union-attr]
