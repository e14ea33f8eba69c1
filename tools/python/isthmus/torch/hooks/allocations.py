"""What PyTorch's allocators give out while a block runs."""

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
    """The program profiles itself, and a second profiler of its thread would be an error."""
    return bool(torch.autograd._profiler_enabled())


@contextlib.contextmanager
def outside_of_tracing() -> Iterator[None]:
    """Ops in the block run for real, also while PyTorch traces."""
    with unset_fake_temporarily(), _disable_current_modes():
        yield


class Allocations:
    """What was allocated while a block ran. Results are there once it has ended."""

    _MARK = "isthmus::part"

    def __init__(self) -> None:
        self.peak = 0
        """The most bytes above those at the start."""
        self.peaks: list[int] = []
        """The same of each `part`, above those at its start."""
        self.left = 0
        """Bytes at the end above those at the start."""

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
    """PyTorch's profiler writes to stderr when it starts, when it ends, and when it finds no GPU, unless this variable says otherwise. It
    reads the variable once, when it first starts."""
    name = "KINETO_LOG_LEVEL"
    if name in os.environ:
        yield
        return
    os.environ[name] = "6"  # above the levels of all of these messages
    try:
        yield
    finally:
        os.environ.pop(name, None)


@contextlib.contextmanager
def allocations_on_cpu() -> Iterator[Allocations]:
    """By PyTorch's own allocator of the CPU, as its profiler sees it; what libraries allocate for themselves is not seen."""
    allocations = Allocations()
    with _silent_profiler(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        yield allocations
    allocations._read(profiler.profiler.kineto_results.events())  # type: ignore[union-attr]
