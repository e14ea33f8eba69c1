"""Says which bytes of a least peak no plan saves: gradients, what may not be recomputed, and what one op needs by itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...planning import live_bytes
from ...problem import Problem
from ..amounts import in_mib
from ..graph.joint import Joint, Read, storage_in
from ..graph.places import named, why_once

_LEAST_SHARE = 0.1
"""A part of a peak below this share is not told."""


@dataclass(frozen=True)
class Peak:
    """What is live at the peak of a plan."""

    bytes: int
    gradients: int
    """The gradients that exist by then. They live until the optimizer has read them."""
    own: int
    """What the op that runs then reads, makes and works on, without gradients."""
    op: str
    """The name of the op that runs then; "" for one that stands for ops outside of the graphs."""
    fixed: int = 0
    """What of the forward waits for a later reader and may not be recomputed."""
    fixed_op: str = ""
    """The name of the op with the largest of these results; "" for one that stands for ops outside of the graphs."""
    fixed_why: str = ""
    """Why that op may not run again."""

    def __str__(self) -> str:
        parts = []
        if self.gradients >= _LEAST_SHARE * self.bytes:
            parts.append(f"{in_mib(self.gradients)} are gradients, which no plan saves")
        if self.fixed >= _LEAST_SHARE * self.bytes and not self.fixed_op:
            parts.append(f"{in_mib(self.fixed)} are what ops outside of its graphs keep for the backward")
        elif self.fixed >= _LEAST_SHARE * self.bytes:
            parts.append(
                f"{in_mib(self.fixed)} are results of {self.fixed_op} and its like, which may not run again{f': {self.fixed_why}' if self.fixed_why else ''}"
            )
        if self.op and self.own >= _LEAST_SHARE * self.bytes:
            parts.append(f"{in_mib(self.own)} is what {self.op} needs by itself")
        return f"; of it {', and '.join(parts)}" if parts else ""


def needed_alone(problem: Problem, op: int, beside: Sequence[Read] = ()) -> int:
    """Returns the bytes that an op needs when nothing else is live: the storages that it reads and makes, and its workspace. beside: storages that are
    not counted."""
    read = {storage_in(problem, r) for r in problem[op].reads}
    read = {r for r in read if not problem[r[0]].pinned and r[0] != op} - set(beside)
    made = 0 if problem[op].view_of is not None else sum(n for k, n in enumerate(problem[op].bytes) if (op, k) not in beside)
    return sum(problem[i].bytes[k] for i, k in read) + made + problem[op].workspace


def peak_of(joint: Joint, schedule: Sequence[int]) -> Peak:
    """Returns what is live at the peak of a graph's schedule."""
    problem = joint.problem
    live = live_bytes(problem, schedule)
    at = max(range(len(live)), key=live.__getitem__)
    return peak_at(problem, schedule, at, live[at] + joint.reserved_bytes, gradients_of(problem), lambda i: (named(joint, i), why_once(joint, i)))


def gradients_of(problem: Problem) -> set[Read]:
    """Returns the storages of the gradients that a step hands out."""
    return {r for r in map(functools.partial(storage_in, problem), problem.outputs) if problem[r[0]].phase == "backward"}


def peak_at(
    problem: Problem, schedule: Sequence[int], at: int, live: int, gradients: Iterable[Read], told: Callable[[int], tuple[str, str]], before: int = 0
) -> Peak:
    """Returns what is live at a position of a schedule. live: the live bytes there. gradients: those that the schedule makes; `before` of them are
    older than it. told: returns the name of an op, and why it may not run again."""
    ran = set(schedule[: at + 1])
    made = [r for r in gradients if r[0] in ran]
    size = sum(problem[i].bytes[k] for i, k in made)
    later = {storage_in(problem, r) for op in schedule[at + 1 :] for r in problem[op].reads}
    fixed = [(problem[i].bytes[k], i) for i, k in later if i in ran and problem[i].phase == "forward" and not (problem[i].recomputable or problem[i].pinned)]
    largest = max(fixed, default=(0, 0))
    own = needed_alone(problem, schedule[at], made)
    return Peak(live, size + before, own, told(schedule[at])[0], sum(n for n, _ in fixed), *(told(largest[1]) if largest[0] else ("", "")))


def too_large(problem: Problem, budget: int, name: Callable[[int], str]) -> str:
    """Returns a clause that names the op that needs more than the budget by itself; "" if there is none."""
    needs = [(needed_alone(problem, i), i) for i, op in enumerate(problem) if not op.pinned and not op.is_optional]
    size, op = max(needs, default=(0, 0))
    return f"; {name(op)} needs {in_mib(size)} by itself, which is more than the budget, whatever is planned" if size > budget else ""
