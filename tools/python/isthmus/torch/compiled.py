"""Runs a graph that the backend has compiled in one or several variants: the same ops with different recomputations."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import fx

from ..errors import CannotBeMet
from ..planning import Plan
from . import hooks, reports
from .graph.joint import Joint
from .inductor.limits import Limits
from .plans.attempt import Attempt, Origin, Role, add_report
from .plans.learned import Learned
from .plans.planner import Planner
from .plans.search import Search
from .ranks import agreement
from .steps.step_plan import Part, Retraced, Schedule
from .steps.steps import Steps, with_options

Compile = Callable[..., tuple[Callable[..., Any], Attempt]]
"""Compiles a graph for its inputs, with an attempt to plan it and two watches. Returns a callable, and the attempt whose plan it follows."""


@dataclass(frozen=True, eq=False)
class Variant:
    """One way to run a graph: its code, and the schedule that it follows."""

    run: Callable[..., Any]
    schedule: Schedule | None
    """None: nothing in the graph needs a gradient, or the schedule is not one of the graph's `part`."""

    def __call__(self, *arguments: Any) -> Any:
        return self.run(*arguments)


class Compiled:
    """The callable that torch.compile calls in place of a graph."""

    def __init__(self, gm: fx.GraphModule, inputs: Sequence[Any], planner: Planner, compile: Compile) -> None:
        self.part: Part | None = None
        """None: nothing in the graph needs a gradient."""
        self.num_outputs = 0
        self._region = hooks.Region(gm, inputs)
        self._compile = compile
        self._planner = planner
        self._hints = hooks.hints_of(self._region.inputs)
        self._largest: dict[str, int] = {}  # by name, the largest size that it has run with
        self._origin = Origin(hooks.break_after(gm), tuple(self._hints.values()))
        self._of_code: Mapping[str, int] = {}
        """What the first plan has learned of the code of ops."""
        self.report: reports.GraphReport | None = None
        self._steps.look_at_device()
        self._left_bytes = self._steps.options.left_bytes
        self._steps.compiles()
        self._steps.is_under_ddp |= hooks.is_under_ddp()
        self._scheduled: dict[Schedule, Variant] = {}
        self._reports: dict[Schedule, reports.GraphReport] = {}
        self._excess: dict[Schedule, tuple[int, int]] = {}
        self._least: Variant | None = None
        self.unmet: CannotBeMet | None = None
        # The graph will share the budget with other graphs.
        self.has_others = bool(self._origin.ends or hooks.buckets_follow() or self._steps.has_others)
        self.first, made = self._made(_ByItself(self, True, self.has_others), gm, inputs)
        self._of_code = made.learned.of_code
        if self.has_others:
            self._least = self.first

    @property
    def _steps(self) -> Steps:
        self._held = with_options(self._planner.options, self._planner.digest)  # nothing else may hold it
        return self._held

    @property
    def has_bytes(self) -> bool:
        """True: the budget is a number of bytes."""
        return self._planner.options.parsed.bytes is not None

    def __call__(self, *arguments: Any) -> Any:
        if self.part is None or hooks.is_tried_out(arguments):
            return self.first(*arguments)
        if self._steps.options.left_bytes != self._left_bytes:
            self._keep_within(self._steps.options.left_bytes or 0)
        if self._hints:
            self._compare_sizes(self.part, arguments)
        steps = self._steps
        call = steps.begin(self, arguments)
        with steps.running(call):
            results = call.variant(*arguments)
        steps.follow(call, results)
        return results

    def _keep_within(self, left_bytes: int) -> None:
        """Plans the graph anew if its plan takes more than a total leaves by now."""
        assert self.report is not None
        self._left_bytes = left_bytes
        if max(self.report.planned_peak_bytes, self.report.inductor_peak_bytes or 0) > left_bytes:
            self._steps.compiles()
            self.first, self._least = self._again(_ByItself(self, True, self.has_others))[0], None
        else:
            self.report = reports.budgeted(self.report, left_bytes)

    def _compare_sizes(self, part: Part, arguments: Sequence[Any]) -> None:
        """Warns about larger sizes. A plan is made for the sizes of one call: for other sizes it is correct, but its promised peak is
        not."""
        larger = {name: int(arguments[k]) for k, (name, hint) in self._hints.items() if int(arguments[k]) > hint}
        if larger and any(size > self._largest.get(name, 0) for name, size in larger.items()):
            self._largest.update(larger)
            self._steps.grows()
        if larger and reports.note_larger(part.name, larger):
            planned = ", ".join(f"{name}={hint}" for name, hint in self._hints.values())
            found = ", ".join(f"{name}={size}" for name, size in larger.items())
            warnings.warn(
                f"graph {part.name} was planned for {planned} and runs with {found}: its peak may be above the budget; to have a "
                f"plan for each size, compile with dynamic=False, or call it with the largest first",
                stacklevel=2,
            )

    def least(self) -> Variant:
        """Returns the variant with the least peak of this graph alone."""
        if self._least is None:
            self._steps.compiles()
            variant, attempt = self._again(_ByItself(self, self.part is None, shares_budget=True))
            is_of_part = attempt.made is not None and self.is_of(attempt.made.joint)
            self._least = variant if is_of_part else replace(variant, schedule=None)
        return self._least

    def scheduled(self, schedule: Schedule) -> Variant:
        """Returns the variant with this schedule. Raises Retraced if there is none; then `part` is new, and earlier schedules are not for it."""
        if schedule not in self._scheduled:
            try:
                self._scheduled[schedule] = self._again(_Scheduled(self, schedule))[0]
            except Retraced:
                self._scheduled.clear()
                self.first = replace(self.first, schedule=None)
                self._least = None if self._least is None else replace(self._least, schedule=None)
                raise
        return self._scheduled[schedule]

    def _again(self, role: Role) -> tuple[Variant, Attempt]:
        with self._region.again():
            return self._made(role, self._region.gm, self._region.inputs)

    def _made(self, role: Role, gm: fx.GraphModule, inputs: Sequence[Any]) -> tuple[Variant, Attempt]:
        planner = replace(self._planner, options=self._steps.options)
        first = Attempt(planner, role, self._origin, Learned(self._of_code))
        run, attempt = self._compile(gm, inputs, first, self._watch_forward, self._watch_backward)
        return Variant(run, None if attempt.made is None else Schedule(*attempt.made.divided)), attempt

    def _watch_forward(self, run: hooks.Boxed) -> hooks.Boxed:
        def watched(arguments: list[Any]) -> Any:
            with self._steps.forward(self, arguments) as noted:
                results = run(arguments)
                noted.extend(results)
            return results

        return watched

    def _watch_backward(self, run: hooks.Boxed) -> hooks.Boxed:
        def watched(arguments: list[Any]) -> Any:
            with self._steps.backward(arguments) as noted:
                results = run(arguments)
                noted.extend(results)
            return results

        return watched

    def name(self) -> str:
        """Returns the name of the graph in reports."""
        return reports.next_name() if self.part is None else self.part.name

    def is_of(self, joint: Joint) -> bool:
        """Returns True if the graph, traced again, is the one that `part` is of."""
        return self.part is not None and agreement.digest_of(joint.problem) == agreement.digest_of(self.part.problem)

    def note(self, joint: Joint, graph: fx.Graph) -> None:
        """Notes the graph itself, which is the same in every variant."""
        self.part = Part.of(self.name(), joint, graph, self._origin.ends)
        self.num_outputs = len(joint.forward)

    def note_report(self, schedule: Schedule, report: reports.GraphReport) -> None:
        self._reports[schedule] = report

    def report_of(self, schedule: Schedule) -> reports.GraphReport:
        """Returns the report of a schedule that `scheduled` was called with."""
        return self._reports[schedule]

    def note_excess(self, schedule: Schedule, forward: int, backward: int) -> None:
        self._excess[schedule] = (forward, backward)

    def excess_of(self, schedule: Schedule) -> tuple[int, int]:
        """Returns the bytes that the code of the forward and of the backward takes above the plan, for a schedule that `scheduled` was called
        with."""
        return self._excess.get(schedule, (0, 0))


@dataclass(frozen=True, eq=False)
class _ByItself:
    """Plans the graph by itself. The first plan also notes what a plan of the whole step needs.

    If other graphs share a budget in bytes, it is not known what they leave of it, so this graph gets its least peak. A budget that is a share
    refers to the peak of the whole step, so a graph that cannot meet it by itself is not an error: another graph may have room.
    """

    graph: Compiled
    is_first: bool
    shares_budget: bool
    key: str = ""

    @property
    def is_bounded(self) -> bool:
        return not self.shares_budget or self.graph.has_bytes

    @property
    def may_learn(self) -> bool:
        """All variants must have the same problem, so only the first plan learns what the code of ops takes."""
        return self.is_first

    def name(self) -> str:
        return self.graph.name()

    def find(self, search: Search, graph: fx.Graph) -> tuple[Plan, int | None]:
        if self.is_first:
            self.graph.note(search.joint, graph)
        return search.agreed(lambda: self._plan(search)), None

    def _plan(self, search: Search) -> Plan:
        strict = search.options.strict
        if search.options.parsed.share is not None or not strict and not self.shares_budget:
            return search.plan(lambda error: self._unmet(search, error))
        if not self.shares_budget:
            return search.plan()
        least = search.options.plan(search.joint.problem, "min")
        is_above = isinstance(search.budget, int) and least.figures.peak_bytes > search.budget
        return search.plan() if is_above and strict else least  # the former raises the error

    def _unmet(self, search: Search, error: CannotBeMet) -> Plan:
        """Of a step's first run it is not known which graphs it has, so a share is not demanded of one of them, and what is not kept is told once, of
        the whole step."""
        self.graph.unmet = search.refusal(error)
        assert error.plan is not None
        return error.plan

    def limited(self, limits: Limits) -> Limits:
        return limits

    def planned(self, report: reports.GraphReport, in_place_of: reports.GraphReport | None) -> None:
        if self.is_first:
            add_report(report, in_place_of or self.graph.report)
            self.graph.report = report

    def compiled(self, report: reports.GraphReport, in_place_of: reports.GraphReport, limits: Limits) -> None:
        if self.is_first:
            reports.add(report, in_place_of)
            self.graph.report = report


@dataclass(frozen=True, eq=False)
class _Scheduled:
    """Cuts the graph by its part of the step's plan."""

    graph: Compiled
    schedule: Schedule
    is_bounded: bool = False
    """Its part of the budget is in its schedule."""
    may_learn: bool = False

    @property
    def key(self) -> str:
        return f" {hash(self.schedule)}"

    def name(self) -> str:
        return self.graph.name()

    def find(self, search: Search, graph: fx.Graph) -> tuple[Plan, int | None]:
        if not self.graph.is_of(search.joint):
            self.graph.note(search.joint, graph)
            raise Retraced(self.graph)
        s = self.schedule
        return Plan.from_schedule(search.joint.problem, s.forward + s.backward), len(s.forward)

    def limited(self, limits: Limits) -> Limits:
        """Limits the forward and the backward to their own planned peaks. The step's plan frees a tangent after its last read, so the code must
        too."""
        part = self.graph.part
        assert part is not None
        peaks = part.peaks(self.schedule)
        return replace(
            limits,
            frees_tangents=True,
            planned_bytes={is_backward: peaks[is_backward] + part.states_bytes for is_backward in (False, True)},
            beside_bytes={is_backward: size - part.tangents_bytes for is_backward, size in limits.beside_bytes.items()},
        )

    def planned(self, report: reports.GraphReport, in_place_of: reports.GraphReport | None) -> None:
        """Keeps the report, which is printed as part of the step's report."""
        self.graph.note_report(self.schedule, report)

    def compiled(self, report: reports.GraphReport, in_place_of: reports.GraphReport, limits: Limits) -> None:
        self.graph.note_report(self.schedule, report)
        if len(limits.taken_bytes) == 2:
            self.graph.note_excess(self.schedule, *(max(0, limits.taken_bytes[k] - limits.planned_bytes[k]) for k in (False, True)))
