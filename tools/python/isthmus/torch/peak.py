"""Measures the peak of a step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from . import hooks
from .amounts import in_mib
from .steps import registry

Result = TypeVar("Result")


def measured_peak(step: Callable[[], Any], device: str | torch.device = "cpu") -> int:
    """Runs an iteration once and returns its peak.

    The peak of an iteration is the largest number of live bytes of the tensors that it has made: all since its begin, without what was there at that
    time (parameters, inputs, the optimizer's state). `report()` has the same. A warning tells if it is above the budget that the iteration ran with.

    step: the iteration, from the end of the backward before it, or of the optimizer's step, to the end of its own backward. An optimizer's step in it counts too, and is in no plan.
    On the CPU it counts the allocations that PyTorch's profiler records; on a GPU it reads the allocator's counter of requested bytes.
    Run one or two steps before this one, so that nothing is compiled during it.
    """
    with registry.most_allowed() as most:
        peak = _peak(step, device)
    if most and peak > max(most):
        warnings.warn(
            f"the iteration is above its budget: it takes {peak} bytes ({in_mib(peak)}) where {max(most)} bytes ({in_mib(max(most))}) are allowed. What no "
            "measured step had is outside of the compiled calls: before the first, where tensors come and go, or after the last backward",
            stacklevel=2,
        )
    return peak


def _peak(step: Callable[[], Any], device: str | torch.device) -> int:
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
