"""The steps of the program, by the options with which their graphs were compiled. Each is told of backwards and of pipelines."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from .. import hooks, reports
from ..options import Options
from .steps import Steps

_of_options: weakref.WeakValueDictionary[str, Steps] = weakref.WeakValueDictionary()


def with_options(options: Options, digest: str) -> Steps:
    """Returns the `Steps` of all graphs with equal options. digest: equal for equal options and equal tables of costs."""
    key = f"{digest} {options.strict}"
    found = _of_options.get(key)
    if found is None:
        found = _of_options[key] = Steps(options)
    return found


@contextlib.contextmanager
def _around_backward(roots: Sequence[Any], keeps_graph: bool) -> Iterator[None]:
    watched = list(_of_options.values())
    for steps in watched:
        steps.begin_backward(roots)
    try:
        yield
    except BaseException:
        for steps in watched:
            steps.forget()
        raise
    for steps in watched:
        steps.end_backward(keeps_graph=keeps_graph)


hooks.around_backwards(_around_backward)


def _after_optimizer() -> None:
    for steps in list(_of_options.values()):
        steps.end_optimizer()


hooks.after_optimizers(_after_optimizer)


@contextlib.contextmanager
def _around_pipeline(pipeline: Any) -> Iterator[None]:
    try:
        for steps in list(_of_options.values()):
            steps.begin_pipeline(pipeline)
        yield
    except BaseException:
        for steps in list(_of_options.values()):
            steps.forget()
        raise
    for steps in list(_of_options.values()):
        steps.end_pipeline()


hooks.around_pipelines(_around_pipeline)


@contextlib.contextmanager
def most_allowed() -> Iterator[list[int]]:
    """Yields a list that at the end of the block has the bytes that each of the steps may take that have run in it, as far as they are limited."""
    most: list[int] = []
    before = {id(steps): steps.last for steps in _of_options.values()}
    yield most
    for steps in list(_of_options.values()):
        if steps.last is not None and steps.last is not before.get(id(steps)):
            allowed = steps.allowed_bytes
            if allowed is None:
                most[:] = []
                return
            most.append(allowed)


def reset() -> None:
    """Forgets all plans and reports, and ends what is being measured. To compile the graphs again, also call `torch.compiler.reset()`."""
    reports.reset()
    for steps in list(_of_options.values()):
        steps.forget()
    _of_options.clear()
