"""Tells when a step of a pipeline runs, as torch.distributed.pipelining has them: the forwards and the backwards of several micro-batches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch


_running: list[Any] = []


def running_pipeline() -> Any:
    """Returns the object that runs the schedule of the pipeline whose training step runs; None: there is none."""
    return _running[-1] if _running else None


def around_pipelines(around: Callable[[Any], AbstractContextManager[Any]]) -> None:
    """Enters a context around each training step of a pipeline. around: is given the object that runs the schedule."""
    if not torch.distributed.is_available():
        return
    from torch.distributed.pipelining import schedules

    for kind in (schedules.PipelineScheduleSingle, schedules.PipelineScheduleMulti):
        kind.step = _watched(kind.step, around)  # type: ignore[method-assign]


def _watched(step: Callable[..., Any], around: Callable[[Any], AbstractContextManager[Any]]) -> Callable[..., Any]:
    @functools.wraps(step)
    def watched(schedule: Any, *args: Any, **kwargs: Any) -> Any:
        if not schedule._has_backward:  # it evaluates
            return step(schedule, *args, **kwargs)
        _running.append(schedule)
        try:
            with around(schedule):
                return step(schedule, *args, **kwargs)
        finally:
            _running.pop()

    return watched
