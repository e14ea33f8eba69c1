"""Plans the steps that run several graphs, or more than the plan of their only graph says."""

from __future__ import annotations

import contextlib
import math
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ...errors import CannotBeMet
from ...planning import Plan
from .. import reports
from ..inductor.limits import MOST_REPLANS
from ..least import Least
from ..options import Options
from ..plans.by_size import with_room
from . import few_schedules, outside
from .recording import Record
from .step_plan import Outside, Part, Schedule, StepProblem


class Variant(Protocol):
    """One way to run a graph."""

    schedule: Schedule | None

    def __call__(self, *arguments: Any) -> Any: ...


class Graph(Protocol):
    """A compiled graph as `Steps` sees it, with its variants."""

    part: Part | None
    num_outputs: int
    has_others: bool
    sizes: Mapping[str, int]
    """The symbolic sizes of the latest call."""
    report: reports.GraphReport | None
    """The report of the first variant."""
    unmet: CannotBeMet | None
    """Why the first variant does not keep to a budget that is a share."""

    @property
    def most(self) -> Mapping[str, int]:
        """The most that each symbolic size can be, where that is known."""
        ...

    def by_itself(self) -> Variant: ...

    def least(self, *, in_company: bool = True) -> Variant: ...

    def scheduled(self, schedule: Schedule, sizes: Mapping[str, int]) -> Variant: ...

    def part_at(self, sizes: Mapping[str, int]) -> Part | None: ...

    def excess_of(self, schedule: Schedule) -> tuple[int, int]: ...

    def report_of(self, schedule: Schedule) -> reports.GraphReport: ...


CallSequence = tuple[tuple[weakref.ref[Any], weakref.ref[Graph]], ...]
"""For each call of a step, the function that the program called, and the graph that it ran."""


@dataclass(eq=False)
class StepPlan:
    """How the steps of one sequence of graphs run."""

    graphs: tuple[weakref.ref[Graph], ...]
    schedules: tuple[Schedule, ...]
    report: reports.StepReport
    sizes: tuple[Mapping[str, int], ...]
    """For each call, the largest symbolic sizes for which the plan holds."""
    record: Record
    ran: tuple[Schedule | None, ...]
    """The schedules that the recorded step ran."""
    outside: Outside
    is_final: bool = False
    """A step was measured, and was within the plan."""
    corrections: int = 0
    function: weakref.ref[Any] | None = None
    """The function with whose call its steps begin."""
    calls: CallSequence = ()
    seen: Mapping[str, int] = field(default_factory=dict)
    """Of a step of one graph, the sizes of which the record and what lies outside are."""

    def is_of(self, graphs: Sequence[Graph | None]) -> bool:
        return [g() for g in self.graphs] == graphs

    def position_of(self, so_far: Sequence[Graph]) -> int | None:
        """Returns the position of the last of these graphs, if all of them are called by the step in this order; None: they are not."""
        rest = enumerate(g() for g in self.graphs)
        last = None
        for graph in so_far:
            last = next((position for position, known in rest if known is graph), None)
            if last is None:
                return None
        return last


def planned(
    record: Record,
    ran: Sequence[Schedule | None],
    sizes: Sequence[Mapping[str, int]],
    options: Options,
    places: outside.Places,
    earlier: StepPlan | None,
    warn: Callable[[str], None],
) -> StepPlan:
    """Plans a recorded step, and compiles its graphs by that plan. Raises CannotBeMet. ran: the schedules that the recorded step ran. sizes: for each
    call, its symbolic sizes. earlier: the
    plan that the step had, if its measured peak was above it. warn: tells the user what is not kept, if not strict."""
    plan = _Planning(record, ran, sizes, options, places, warn)
    # Gradients of earlier backwards are counted where that can be: they are older than the step. A total has them off already.
    lefts = (True, False) if any(record.left) and options.total is None else (False,)
    for left in lefts:
        try:
            made = plan.run(with_left=left)
            break
        except CannotBeMet:
            if left is lefts[-1]:
                raise
    if earlier is not None:
        made.corrections = earlier.corrections + (not earlier.report.is_profiled and not earlier.report.is_foreseen)
    return made


def foreseen(
    earlier: StepPlan, sizes: Mapping[str, int], most: Mapping[str, int], options: Options, places: outside.Places, warn: Callable[[str], None]
) -> StepPlan:
    """Plans a step of one graph for larger sizes than any that was recorded, before it runs: with room for larger ones (see `with_room`) if the
    budget can be met there. The earlier schedule is kept where it holds. What lies outside of the graph is assumed to grow in proportion to each size.
    most: the most that a size can be, where that is known. Raises CannotBeMet."""

    def plan_for(wanted: Mapping[str, int], options: Options) -> StepPlan:
        factor = math.prod(max(1.0, size / max(1, earlier.seen.get(name, size))) for name, size in wanted.items())
        record = replace(earlier.record.scaled(factor), graphs=[g() for g in earlier.graphs])
        plan = _Planning(record, earlier.ran, [wanted], options, places, warn)
        plan.outside, plan.known = earlier.outside.scaled(factor), earlier.schedules
        return plan.run(with_left=False)

    roomy = with_room(sizes, earlier.sizes[0], most)
    if roomy != sizes:
        with contextlib.suppress(CannotBeMet):
            return plan_for(roomy, replace(options, strict=True))
    return plan_for(sizes, options)


def note_seen(plan: StepPlan, record: Record, ran: Sequence[Schedule | None], sizes: Sequence[Mapping[str, int]]) -> None:
    """Notes what lies outside of the graph in a step that was foreseen, and that has run: what larger sizes need is foreseen from it."""
    (schedule,) = ran
    if schedule is not None:
        step = StepProblem(record, [g.part_at(s) for g, s in zip(record.graphs, sizes)])
        step = step.with_outside([schedule], _excess(step, record.graphs, [schedule]), with_left=False)
        plan.record, plan.ran, plan.outside, plan.seen = replace(record, graphs=[]), (schedule,), step.outside, sizes[0]


def _excess(step: StepProblem, graphs: Sequence[Graph], schedules: Sequence[Schedule]) -> list[int]:
    """Returns, for each segment, the bytes that inductor's code takes above the plan."""
    of_calls = [g.excess_of(s) for g, s in zip(graphs, schedules)]
    return [of_calls[s.call][0 if s.is_forward else 1] for s in step.record.segments]


class _Planning:
    outside: Outside | None = None
    """What is known to lie outside of the graphs; None: the record tells it."""
    known: Sequence[Schedule] = ()
    """Schedules that are followed if they keep to the budget."""

    def __init__(
        self,
        record: Record,
        ran: Sequence[Schedule | None],
        sizes: Sequence[Mapping[str, int]],
        options: Options,
        places: outside.Places,
        warn: Callable[[str], None],
    ) -> None:
        self.record, self.ran, self.sizes, self.options = record, ran, sizes, options
        self.places, self.warn = places, warn
        self.graphs: list[Any] = record.graphs

    def run(self, *, with_left: bool) -> StepPlan:
        start = time.perf_counter()
        step = StepProblem(self.record, [g.part_at(sizes) for g, sizes in zip(self.graphs, self.sizes)])
        schedules = [s for s in self.ran if s is not None]
        if self.outside is not None:
            step = StepProblem(self.record, step.parts, self.outside)
        elif len(schedules) == len(self.ran):
            step = step.with_outside(schedules, _excess(step, self.graphs, schedules), with_left=with_left)
        whole = StepProblem(self.record, [p.whole or p for p in step.parts], step.outside) if any(p.whole for p in step.parts) else step
        baseline = whole.in_order().figures.peak_bytes
        program = whole.joined([p.as_it_runs for p in whole.parts]).figures.peak_bytes
        cost_of_chunks = step.cost / whole.cost if whole.cost else 1.0
        wanted, share_of = self.options.parsed, baseline if self.options.is_of_graph else program
        asked = wanted.bytes if wanted.share is None else int(wanted.share * share_of)
        planning = 0.0
        found_peaks: list[int] = []
        while True:
            is_last = len(found_peaks) == MOST_REPLANS
            budget = "min" if asked is None or is_last else asked
            plan = self._planned(step, budget, share_of, may_refuse=not with_left)
            schedules = step.divide(plan.schedule)
            planning += time.perf_counter() - start
            for graph, schedule, sizes in zip(self.graphs, schedules, self.sizes):
                graph.scheduled(schedule, sizes)
            start = time.perf_counter()
            excess = _excess(step, self.graphs, schedules)
            peak = step.peak_with(excess, schedules)
            if asked is None or peak <= asked or not any(excess):
                break
            found_peaks.append(peak)
            if len(found_peaks) > MOST_REPLANS:
                self._refuse_code(found_peaks)
                break
            step = step.with_excess([max(pair) for pair in zip(step.excess, excess)])
        report = reports.StepReport(
            parts=tuple(g.report_of(s) for g, s in zip(self.graphs, schedules)),
            budget_bytes=asked,
            baseline_peak_bytes=baseline,
            program_peak_bytes=program,
            planned_peak_bytes=peak if asked is None else step.peak_with((), schedules),
            added_cost=(1 + plan.figures.recompute_overhead) * cost_of_chunks - 1,
            recomputed=plan.figures.recomputed,
            plan_seconds=planning,
            inductor_peak_bytes=peak if self.options.kernels == "inductor" else None,
            replans=len(found_peaks),
            is_profiled=not self.record.is_measured and self.outside is None,
            is_foreseen=self.outside is not None,
            outside=tuple(outside.described(step, self.places)),
            step_us=whole.cost,
            most_waiting=self.record.most_waiting(range(len(self.graphs))),
            least=self._least(step, cost_of_chunks),
        )
        graphs = tuple(weakref.ref(g) for g in self.graphs)
        # Graphs that are alive keep the record's; a plan must not.
        record = replace(self.record, graphs=[])
        return StepPlan(graphs, tuple(schedules), report, tuple(self.sizes), record, tuple(self.ran), step.outside, seen=self.sizes[0])

    def _least(self, step: StepProblem, cost_of_chunks: float) -> Least:
        step = StepProblem(replace(self.record, graphs=[]), step.parts, step.outside)
        options = self.options

        def planned() -> tuple[int, float]:
            figures = step.plan("min", options.plan).figures
            return figures.peak_bytes, (1 + figures.recompute_overhead) * cost_of_chunks - 1

        return Least(planned)

    def _refuse_code(self, found_peaks: Sequence[int]) -> None:
        """Raises CannotBeMet or warns that the code of all plans exceeds the budget."""
        least = min(found_peaks)
        why = (
            f"a {self.options.asked} cannot be met: with what inductor makes of {len(found_peaks)} plans of the step the least "
            f"peak is {least} bytes ({reports.in_mib(least)})"
        )
        if self.options.strict:
            raise CannotBeMet(f"""{why}; ask for that or more, or for options={{"budget": "min"}}, or for "kernels": "aot_eager\"""")
        self.warn(f"{why}; the last one is taken")

    def _kept(self, step: StepProblem, budget: int | str) -> Plan | None:
        """Returns the plan of the known schedules, if they keep to the budget. What inductor's code takes is known for the sizes of its plan alone."""
        if not self.known or self.options.kernels == "inductor" or isinstance(budget, str):
            return None
        ops = [{*schedule.forward, *schedule.backward} for schedule in self.known]
        if any(own and max(own) >= len(part.problem) for own, part in zip(ops, step.parts)):
            return None
        kept = step.joined(list(self.known))
        return kept if kept.figures.peak_bytes <= budget else None

    def _planned(self, step: StepProblem, budget: int | str, share_of: int, *, may_refuse: bool) -> Plan:
        """Returns the plan of the step. share_of: what a share is of. may_refuse: a budget that cannot be met is told to the user."""
        kept = self._kept(step, budget)
        if kept is not None:
            return kept
        try:
            found = step.plan(budget, self.options.plan)
            return step.joined(few_schedules.shared(step, step.divide(found.schedule), budget if isinstance(budget, int) else None))
        except CannotBeMet as e:
            own = step.joined([p.as_it_runs for p in step.parts])
            if isinstance(budget, int) and own.figures.peak_bytes <= budget:  # the program's own checkpoints keep to the budget
                return own
            if e.plan is None or not may_refuse:
                raise
            if any(step.excess):  # the plan with which inductor's code is expected to take the least memory
                return step.joined(step.divide(e.plan.schedule))
            least = min(e.plan.figures.smallest_peak_bytes or e.plan.figures.peak_bytes, own.figures.peak_bytes)
            graphs = f"{len(step.parts)} graphs" if len(step.parts) > 1 else "one graph"
            why = (
                f"a {self.options.asked} cannot be met: the step runs {graphs}, and the least peak that was found for all of it "
                f"is {least} bytes ({reports.in_mib(least)}), {reports.share(least, share_of)} of its own"
                f"{step.peak(e.plan.schedule)}{outside.within(step, self.places)}"
            )
            why = f"{why}; {self.options.next_to_ask(least, share_of, e.plan.figures.recompute_overhead)}"
            if not self.options.strict:
                self.warn(why)
                return step.joined(step.divide(e.plan.schedule))
            raise CannotBeMet.having(why, e.plan) from None
