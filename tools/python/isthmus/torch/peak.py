"""Measures the peak of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from . import hooks

Result = TypeVar("Result")


def measured_peak(step: Callable[[], Any], device: str | torch.device = "cpu") -> int:
    """Runs the step once and returns its peak: the largest number of live bytes of tensors, minus those at its start.

    On the CPU it counts the allocations that PyTorch's profiler records; on a GPU it reads the allocator's counter of requested bytes.
    Run one or two steps before this one, so that nothing is compiled during it.
    """
    if torch.device(device).type == "cpu":
        timeline = hooks.Timeline.begun(will_end=True)
        if timeline is not None:
            try:
                step()
            finally:
                timeline.end()
            if timeline.is_whole:
                return timeline.peak
            raise RuntimeError("the peak of the step is not known: the step began a profile of its own")
        with hooks.allocations_on_cpu() as allocations:
            step()
        return allocations.peak
    return on_gpu(step, device)[0]


def on_gpu(step: Callable[[], Result], device: str | torch.device) -> tuple[int, Result]:
    """Runs the step and returns its peak, minus the live bytes at its start, and its result."""
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_stats(device)["requested_bytes.all.current"]
    result = step()
    torch.cuda.synchronize(device)
    return int(torch.cuda.memory_stats(device)["requested_bytes.all.peak"]) - before, result
