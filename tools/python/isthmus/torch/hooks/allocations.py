"""Measures what PyTorch's CPU allocator allocates while a block runs."""

from __future__ import annotations

import bisect
import concurrent.futures
import contextlib
import ctypes
import gc
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch.autograd import ProfilerConfig, ProfilerState, _disable_profiler_legacy, _enable_profiler_legacy
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes

Result = TypeVar("Result")


def is_profiling() -> bool:
    """Returns True if the program profiles itself: a second profiler would end the first one, and the program would see nothing."""
    return bool(torch.autograd._profiler_enabled()) or torch.autograd.profiler._is_profiler_enabled


def unprofiled(run: Callable[[], Result]) -> Result:
    """Runs a function where no profiler of the program sees it: in another thread, because a profiler sees its own thread."""
    if not is_profiling():
        return run()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


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

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        with torch.profiler.record_function(self._MARK):
            yield

    def _read(self, events: Sequence[Any]) -> None:
        cpu = torch._C._autograd.DeviceType.CPU
        memory = [e for e in events if e.name() == "[memory]" and e.device_type() == cpu]
        memory.sort(key=lambda e: e.start_ns())
        parts = sorted((e.start_ns(), e.end_ns()) for e in events if e.name() == self._MARK)
        sizes = [e.nbytes() for e in memory]
        self.peak = self._peak(sizes)
        times = [e.start_ns() for e in memory]
        for begin, end in parts:
            self.peaks.append(self._peak(sizes[bisect.bisect_left(times, begin) : bisect.bisect_right(times, end)]))

    def _read_by_legacy(self, events: Sequence[Any]) -> None:
        """Reads the events of one thread, in their order."""
        sizes: list[int] = []
        begins: list[int | None] = []  # for each open event that is a part, the number of sizes at its begin
        for e in events:
            if e.kind() == "push":
                begins.append(len(sizes) if e.name() == self._MARK else None)
            elif e.kind() == "pop" and begins:
                begin = begins.pop()
                if begin is not None:
                    self.peaks.append(self._peak(sizes[begin:]))
            elif e.kind() == "memory_alloc":
                sizes.append(e.cpu_memory_usage())
        self.peak = self._peak(sizes)

    @staticmethod
    def _peak(sizes: Sequence[int]) -> int:
        return max(itertools.accumulate(sizes, initial=0))


@contextlib.contextmanager
def silent_profiler() -> Iterator[None]:
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
def without_garbage_collection() -> Iterator[None]:
    """Python frees objects that refer to one another at an arbitrary allocation. Among them may be tensors that are older than the block,
    whose bytes would be subtracted from those of the block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def allocations_on_cpu() -> Iterator[Allocations]:
    """Counts what PyTorch's CPU allocator allocates, from the profiler's events. Memory that libraries allocate themselves is not counted."""
    with without_garbage_collection(), _allocations() as allocations:
        yield allocations


@contextlib.contextmanager
def _allocations() -> Iterator[Allocations]:
    allocations = Allocations()
    if is_profiling():
        # This profiler would end that of another thread. PyTorch's older profiler does not, in a thread that is not profiled itself.
        _enable_profiler_legacy(settings_for_memory())
        try:
            yield allocations
        finally:
            threads = _disable_profiler_legacy()
        allocations._read_by_legacy([e for events in threads for e in events])
        return
    activities = [torch.profiler.ProfilerActivity.CPU]
    with silent_profiler(), quiet_allocator(), torch.profiler.profile(activities=activities, profile_memory=True) as profiler:
        yield allocations
    allocations._read(profiler.profiler.kineto_results.events())  # type: ignore[union-attr]


def settings_for_memory(state: ProfilerState = ProfilerState.CPU) -> ProfilerConfig:
    """Returns settings of a profiler, by default of the older one: no shapes, the memory, no stacks, flops or modules."""
    return ProfilerConfig(state, False, True, False, False, False, torch._C._profiler._ExperimentalConfig())


def quiet_allocator() -> contextlib.AbstractContextManager[None]:
    """Keeps the allocator from writing to stderr that a tensor was freed which is older than the profile."""
    return _allocator_setting("log_level", ctypes.c_int, 2)  # 2: errors only


@contextlib.contextmanager
def allocator_of_all_threads() -> Iterator[None]:
    """Makes the allocator's number of live bytes, which is part of each event, include what threads do that the profiler does not see. The
    allocator then also writes each allocation to stderr, unless it is quiet."""
    with quiet_allocator(), _allocator_setting("report_cpu_memory_usage", ctypes.c_bool, True):
        yield


@contextlib.contextmanager
def _allocator_setting(name: str, kind: type[ctypes.c_int] | type[ctypes.c_bool], least: int) -> Iterator[None]:
    """Raises a setting of PyTorch's CPU allocator to `least`, where PyTorch lets us."""
    try:
        library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
        setting = kind.in_dll(library, f"FLAGS_caffe2_{name}")
    except (OSError, ValueError):
        yield
        return
    before, setting.value = setting.value, max(setting.value, least)
    try:
        yield
    finally:
        setting.value = before
