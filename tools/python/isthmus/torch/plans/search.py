"""Finds a plan of a graph within its budget."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...errors import CannotBeMet
from ...planning import Plan, live_bytes
from .. import reports
from ..graph.joint import Joint
from ..graph.places import named
from ..graph.program import as_it_runs, order_of
from ..inductor.limits import MOST_REPLANS
from ..least import Least
from ..options import Options
from ..ranks import agreement
from .learned import Learned
from .refusal import peak_of, too_large

_ABOVE_LEAST = 0.01  # inductor's code may take this share above the planned least peak before another plan is tried


@dataclass(frozen=True)
class Search:
    options: Options
    joint: Joint
    learned: Learned
    ends: str = ""
    """Where and why the graph ends before its function does."""

    @functools.cached_property
    def baseline_bytes(self) -> int:
        """The peak of the graph without recomputation."""
        if self.learned.baseline_bytes is not None:
            return self.learned.baseline_bytes
        return self._peak_of(order_of(self.joint))

    @functools.cached_property
    def program_bytes(self) -> int:
        """The peak of the graph as the program runs it: with what it checkpoints itself."""
        return self.learned.program_bytes if self.learned.program_bytes is not None else self._peak_of(as_it_runs(self.joint))

    def _peak_of(self, schedule: Sequence[int]) -> int:
        return max(live_bytes(self.joint.problem, schedule), default=0) + self.joint.reserved_bytes

    @property
    def whole_bytes(self) -> int:
        """What a share is of."""
        return self.baseline_bytes if self.options.is_of_graph else self.program_bytes

    @property
    def asked_bytes(self) -> int | None:
        """The budget that the user gave; None: the least peak that is found."""
        wanted = self.options.parsed
        return wanted.bytes if wanted.share is None else int(wanted.share * self.whole_bytes)

    @property
    def budget(self) -> int | str:
        """The budget of the plan: the user's, without the reserved bytes and the excess of inductor's code; or "min"."""
        asked = self.asked_bytes
        return "min" if asked is None else max(0, asked - self.learned.excess_bytes - self.joint.reserved_bytes)

    @property
    def least(self) -> Least:
        """The least peak of the graph, which is planned when it is asked for."""
        options, problem, reserved, chunks = self.options, self.joint.problem, self.joint.reserved_bytes, self.joint.cost_of_chunks

        def planned() -> tuple[int, float]:
            figures = options.plan(problem, "min").figures
            return figures.peak_bytes + reserved, (1 + figures.recompute_overhead) * chunks - 1

        return Least(planned)

    def agreed(self, planned: Callable[[], Plan]) -> Plan:
        """Returns what `planned` returns; if ranks are in sync, on rank 0."""
        return agreement.agreed(self.joint.problem, self.options.budget, planned) if self.options.sync else planned()

    def plan(self, unmet: Callable[[CannotBeMet], Plan] | None = None) -> Plan:
        """Returns a plan within the budget. unmet: is called if there is none, and returns a plan or raises; by default `refuse`."""
        problem, replans, least = self.joint.problem, len(self.learned.found_peaks), self.learned.least
        if replans == MOST_REPLANS and least is not None and self.budget == "min":
            return Plan.from_schedule(problem, least[1])
        try:
            return self.options.plan(problem, self.budget if replans < MOST_REPLANS else "min")
        except CannotBeMet as e:
            assert e.plan is not None and e.plan.figures.smallest_peak_bytes is not None
            if not replans and isinstance(self.budget, int):
                own = Plan.from_schedule(problem, as_it_runs(self.joint))
                if own.figures.peak_bytes <= self.budget:  # the program's own checkpoints keep to the budget
                    return own
            if replans:
                return e.plan  # as far as is known, inductor's code takes least with this plan
            return (unmet or self.refuse)(e)

    def refuse(self, error: CannotBeMet) -> Plan:
        """Raises CannotBeMet for a budget that the graph cannot meet; if not strict, warns and returns the least plan."""
        if self.options.strict:
            raise self.refusal(error) from None
        warnings.warn(str(self.refusal(error)), stacklevel=2)
        return error.plan

    def refusal(self, error: CannotBeMet) -> CannotBeMet:
        plan = error.plan
        least, whole = self._least(plan), self.whole_bytes
        why = f"{self._why_unmet(error)}; {self.options.next_to_ask(least, whole, plan.figures.recompute_overhead)}"
        return CannotBeMet.having(why, plan)

    def _least(self, plan: Plan) -> int:
        assert plan.figures.smallest_peak_bytes is not None
        return plan.figures.smallest_peak_bytes + self.joint.reserved_bytes

    def _why_unmet(self, error: CannotBeMet) -> str:
        plan, problem = error.plan, self.joint.problem
        least = self._least(plan)
        op = "" if self.asked_bytes is None else too_large(problem, self.asked_bytes, lambda i: named(self.joint, i))
        return (
            f"a {self.options.asked} cannot be met: the least peak that was found for this graph is {least} bytes ({reports.in_mib(least)}), "
            f"{reports.share(least, self.whole_bytes)} of its own"
            f"{op or peak_of(self.joint, plan.schedule)}"
            f"{f'; PyTorch ends the graph early: {self.ends}' if self.ends else ''}"
        )

    def most_bytes(self, planned_peak_bytes: int) -> int | None:
        """Returns the bytes that inductor's code may take; None: all that it needs. For the least peak, a plan whose code takes more than planned
        is replaced by another one, up to twice, and in the end by the plan whose code took least."""
        if self.asked_bytes is not None:
            return self.asked_bytes
        replans = len(self.learned.found_peaks)
        if replans < MOST_REPLANS - 1:
            return int(planned_peak_bytes * (1 + _ABOVE_LEAST))
        return self.learned.least[0] if self.learned.least is not None and replans < MOST_REPLANS else None
