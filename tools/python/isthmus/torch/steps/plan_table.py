"""The plans of steps that share a budget, by the graphs that they run and by sizes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence

from .. import reports
from ..plans.by_size import holds
from .step_planner import CallSequence, Graph, StepPlan

MOST_PLANS = 8
"""Of steps that begin with calls of one function."""


class PlanTable:
    """The plans of one budget.

    has_bytes: the budget is in bytes, so that a plan is only for sizes that are not above those that it was made for.
    """

    def __init__(self, *, has_bytes: bool) -> None:
        self._has_bytes = has_bytes
        self._plans: list[StepPlan] = []

    def _newest_first(self) -> Iterator[StepPlan]:
        return reversed(self._plans)

    def has_room(self, function: object) -> bool:
        """Returns True if another step that begins with a call of this function may be planned."""
        return sum(p.function is not None and p.function() is function for p in self._plans) < MOST_PLANS

    def find(self, graphs: Sequence[Graph | None], sizes: Sequence[Mapping[str, int]] | None = None) -> StepPlan | None:
        """Returns the newest plan of these graphs. sizes: those of their calls, for which it must hold."""
        found = (p for p in self._newest_first() if p.is_of(graphs))
        return next((p for p in found if sizes is None or not self._has_bytes or all(map(holds, p.sizes, sizes))), None)

    def matching(self, so_far: Sequence[Graph], expected: Sequence[Graph | None]) -> list[tuple[StepPlan, int]]:
        """Returns the plans of steps of which these graphs are a part, and the position of the last of them there: first the plan of the expected
        step, then those of steps that begin with these graphs, the newest first. expected: the graphs of the whole step, if it is like an earlier one."""
        found = [(p, position) for p in self._newest_first() if (position := p.position_of(so_far)) is not None]
        is_as_expected = expected[: len(so_far)] == so_far
        return sorted(found, key=lambda each: (not (is_as_expected and each[0].is_of(expected)), each[1] >= len(so_far)))

    def add(self, made: StepPlan, earlier: StepPlan | None, function: object, calls: CallSequence) -> None:
        """Adds a plan of a step with these calls that begins with a call of this function, in place of an earlier one, or of that for the smallest of
        several sizes. Where the plan for the last sizes holds, it costs less than a new one."""
        smaller = [p for p in self._plans if p is not earlier and p.is_of([g() for g in made.graphs])]
        dropped = earlier or (smaller[0] if len(smaller) > 1 else None)
        if dropped is not None:
            self._plans.remove(dropped)
        made.function, made.calls = weakref.ref(function), calls
        self._plans.append(made)
        reports.add_step(made.report, in_place_of=None if dropped is None else dropped.report)

    def drop_dead(self) -> None:
        """Drops plans of graphs that are no more."""
        self._keep(lambda p: all(g() is not None for g in p.graphs))

    def drop_those_of(self, graph: Graph, *, but: StepPlan | None) -> None:
        self._keep(lambda p: p is but or not any(g() is graph for g in p.graphs))

    def shrink(self, left_bytes: int) -> None:
        """Drops plans of more than these bytes, which are the budget now."""
        self._keep(lambda p: p.report.planned_peak_bytes <= left_bytes)
        for plan in self._plans:
            plan.report = reports.budgeted(plan.report, left_bytes)

    def _keep(self, is_kept: Callable[[StepPlan], bool]) -> None:
        self._plans = [p for p in self._plans if is_kept(p)]
