"""Says in words where in a step bytes are that no graph of ours makes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from .. import hooks
from ..reports import in_mib
from . import program
from .made import by_holder
from .step_plan import StepProblem

_MOST_PLACES = 3
_LEAST_SHARE = 0.02
_LEAST_BYTES = 4096
"""Bytes below this share of the largest, or below that number, are not told."""


class Places:
    """Where the program calls its functions and its backwards, as "file:line"."""

    def __init__(self, since_us: int = 0) -> None:
        """since_us: when the program first called the function with which its steps begin, in microseconds since the epoch."""
        self.since_us = since_us
        self.called_at = ""
        self.backward_at = ""

    def begin(self) -> None:
        self.called_at = program.place()

    def backward(self) -> None:
        self.backward_at = program.place()


def described(step: StepProblem, places: Places) -> Iterator[str]:
    """Yields what ops outside of the graphs need, the most first."""
    timeline, record = step.record.timeline, step.record
    if timeline is None or not record.is_measured:
        return
    outside, found = step.outside, Counter[str]()  # the most bytes of each place, where a graph is called several times
    earlier = by_holder(timeline.older)
    for holder, size in earlier.items():
        found[_made_before(holder, places)] = size
    if outside.first > sum(earlier.values()):
        found[f"within the compiled function before its first graph{_at(places.called_at)}{_by(timeline.largest[0])}"] = outside.first - sum(earlier.values())
    for k in range(record.measured_segments):
        size = max(0, outside.beside[k] - timeline.older_levels[2 * k]) + outside.after[k]
        found |= Counter({f"{_where(step, k, places)}{_by(timeline.largest[2 * k + 2])}": size})
    least = max(_LEAST_SHARE * max(found.values(), default=0), _LEAST_BYTES)
    for text, size in found.most_common(_MOST_PLACES):
        if size >= least:
            yield f"{in_mib(size)} {text}"


def _made_before(holder: str, places: Places) -> str:
    held = f", held by {holder}" if holder else ""
    return f"made before the first compiled call{_at(places.called_at)}{held}"


def _where(step: StepProblem, segment: int, places: Places) -> str:
    record = step.record
    of = record.segments[segment]
    part = step.parts[of.call]
    name, ends = part.name, part.ends
    if not of.is_forward:
        return f"beside and after the backward of graph {name}"
    following = next((s for s in record.segments[segment + 1 :]), None)
    if following is not None and following.is_forward:
        return f"between graph {name} and the next one{f', which begins where it ends: {ends}' if ends else ''}"
    return f"between the forward of graph {name} and the first backward of a graph{_at(places.backward_at)}{f'; it ends early: {ends}' if ends else ''}"


def within(step: StepProblem, places: Places) -> str:
    """Returns a clause of an error that names the bytes outside of the graphs; "" if there are few."""
    told = list(described(step, places))
    return f"; outside of the graphs, where nothing is planned, it needs {', '.join(told)}{_remedy(told)}{uncompiled(places)}" if told else ""


def _remedy(told: Sequence[str]) -> str:
    """Returns what brings the ops outside into a graph, where that is known."""
    recurrent = any(re.search(r"aten::(lstm|gru|rnn_)|RnnLayer", text) for text in told)
    return "; torch._dynamo.config.allow_rnn = True lets PyTorch take recurrent layers apart, so that they are planned" if recurrent else ""


def of_timeline(timeline: hooks.Timeline | hooks.TimelineOnGpu, places: Places) -> str:
    """Returns where the step was called, the op that made most of its peak, and what was made before."""
    peaks = [timeline.first_peak, *timeline.peaks]
    earlier = (f"; {in_mib(size)} were {_made_before(holder, places)}" for holder, size in by_holder(timeline.older).most_common(_MOST_PLACES))
    return f"in the step{_at(places.called_at)}{_by(timeline.largest[peaks.index(max(peaks))])}{''.join(earlier)}".strip()


def uncompiled(places: Places) -> str:
    """Returns a clause that names the functions that PyTorch could not compile."""
    found = hooks.uncompiled(places.since_us)
    return f"; PyTorch could not compile {'; '.join(found[-_MOST_PLACES:])}" if found else ""


def _at(place: str) -> str:
    return f" ({place})" if place else ""


def _by(largest: tuple[str, int]) -> str:
    op, size = largest
    return f", {in_mib(size)} of it by {op}" if op and size >= _LEAST_BYTES else ""
