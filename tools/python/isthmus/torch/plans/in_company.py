"""Plans a graph that shares its step with others of which nothing is known.

By itself, a graph gains nothing by dropping what its backward needs first, because its backward begins when its forward ends. If other graphs run in
between, all that it keeps is live beside them. So an op that stands for these graphs is put between the forward and the backward. It works in as many
bytes as this graph needs by itself, as the others are probably like it, and the least peak of both is planned.
"""

from __future__ import annotations

from dataclasses import replace

from ...planning import Plan, live_bytes
from ...problem import Problem
from ..graph.joint import Read
from ..graph.modules import length_of_forward
from ..options import Options

_OTHERS = 2
"""How many other graphs a step is taken to run."""


def in_company(problem: Problem, options: Options, most_bytes: int | None) -> tuple[Plan, int]:
    """Returns a plan, and the number of steps of its forward. most_bytes: the budget; None: the least is wanted. If no other plan is better, it is the plan
    of the least peak of the graph by itself."""
    alone = options.plan(problem, "min", share=0.5)
    with_others, at = _with_others(problem, alone.figures.peak_bytes)
    schedule = options.plan(with_others, "min", share=0.5).schedule
    boundary = schedule.index(at)
    beside = Plan.from_schedule(problem, [op - (op > at) for op in schedule if op != at])
    found = [(alone, length_of_forward(problem, alone.schedule)), (beside, boundary)]
    if most_bytes is not None and beside.figures.peak_bytes > most_bytes:
        return found[0]
    return min(found, key=lambda each: each[0].figures.peak_bytes + _OTHERS * _kept(problem, *each))


def _kept(problem: Problem, plan: Plan, boundary: int) -> int:
    """Returns the bytes that are live when the forward ends."""
    return live_bytes(problem, plan.schedule)[boundary - 1] if boundary else 0


def _with_others(problem: Problem, bytes: int) -> tuple[Problem, int]:
    """Returns the problem with an op that runs after all results of the forward are there and before the backward, and the number of that op."""
    at = next((i for i, op in enumerate(problem) if op.phase != "forward" and not op.pinned), len(problem))
    made = Problem(problem.name, order=problem.order, alignment=problem.alignment)

    def moved(read: Read) -> Read:
        return read[0] + (read[0] >= at), read[1]

    for i, op in enumerate(problem):
        if i == at:
            made.add("others", problem.forward_outputs, recomputable=False, workspace=bytes)
        of = op.of if op.of is None else moved(op.of) if isinstance(op.of, tuple) else moved((op.of, 0))[0]
        made.append(replace(op, reads=tuple(map(moved, op.reads)), of=of))
    made.outputs = list(map(moved, problem.outputs))
    made.forward_outputs = [*(moved((op, 0))[0] for op in problem.forward_outputs), at]
    return made, at
