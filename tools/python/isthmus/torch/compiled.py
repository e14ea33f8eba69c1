"""Runs a graph that the backend has compiled in one or several variants: the same ops with different recomputations."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import fx

from ..errors import CannotBeMet
from ..planning import Plan
from . import hooks, reports
from .chunks.choice import Chunks
from .graph.joint import Joint
from .graph.sizes import STRIDES
from .inductor.limits import Limits
from .plans.attempt import Attempt, Origin, Role, add_report
from .plans.by_size import BySize, Entry, Sizes, with_room
from .plans.in_company import in_company
from .plans.learned import Learned, Made
from .plans.planner import Planner
from .plans.search import Search
from .ranks import agreement
from .steps.step_plan import Part, Retraced, Schedule
from .steps.registry import with_options
from .steps.steps import Steps

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


@dataclass(eq=False)
class _Planned:
    """A plan of a graph alone for some sizes."""

    variant: Variant
    report: reports.GraphReport
    part: Part
    sizes: Sizes


def _told(sizes: Sizes) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def is_of(part: Part | None, joint: Joint) -> bool:
    """Returns True if a graph, traced again, is the one that the part is of."""
    return part is not None and agreement.digest_of(joint.problem) == agreement.digest_of(part.problem)


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
        self._ranges, known = hooks.ranges_of(gm, inputs, planner.options.sizes)
        self._steps.note_names(known)
        self._planned_for = {name: max(hint, self._ranges.get(name, (0, hint))[1]) for name, hint in self._hints.values()}
        """By the name of its symbol, each size for which `first` is planned."""
        self.sizes: dict[str, int] = {}
        """The sizes of the latest call."""
        self._table: BySize[_Planned] = BySize()
        self._current: _Planned | None = None
        self._parts: dict[tuple[int, ...], Part] = {}  # by the sizes of a call
        self._joint: Made | None = None  # with the joint graph; None: no size is symbolic
        self._ends = hooks.break_after(gm)
        self._of_code: Mapping[str, int] = {}
        """What the first plan has learned of the code of ops."""
        self._chunks: tuple[Chunks, ...] | None = None
        """The regions that run chunk by chunk, in every variant; None: they are not chosen."""
        self.report: reports.GraphReport | None = None
        self._steps.look_at_device(only_first=True)  # other graphs of the step may have run
        self._left_bytes = self._steps.options.left_bytes
        self._steps.compiles()
        self._steps.is_under_ddp |= hooks.is_under_ddp()
        self._scheduled: dict[Schedule, Variant] = {}
        self._reports: dict[Schedule, reports.GraphReport] = {}
        self._excess: dict[Schedule, tuple[int, int]] = {}
        self._least: dict[bool, Variant] = {}  # by whether other graphs run between its forward and its backward
        self.unmet: CannotBeMet | None = None
        # The graph will share the budget with other graphs.
        self.has_others = bool(self._ends or hooks.buckets_follow() or self._steps.may_have_others)
        in_company = not hooks.is_in_checkpoint()
        self.first, made = self._made(_ByItself(self, True, self.has_others, in_company), gm, inputs)
        if self.part is None and hooks.takes_gradients(gm):
            self._steps.note_unplanned()
        self._of_code = made.learned.of_code
        self._chunks = None if made.made is None else made.made.chunks
        if self._hints and made.made is not None:
            self._joint = made.made
            self._remember()
        if self.has_others:
            self._least[in_company] = self.first

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
            results = self.first(*arguments)
            if self.part is None:
                self._steps.ran_by_itself(results)
            return results
        if self._steps.options.left_bytes != self._left_bytes:
            self._keep_within(self._steps.options.left_bytes or 0)
        if self._hints:
            self.sizes = {name: int(arguments[k]) for k, (name, _) in self._hints.items()}
            if not self.has_bytes:
                self._compare_sizes(self.part)
        steps = self._steps
        call = steps.begin(self, arguments)
        with steps.running(call):
            results = call.variant(*arguments)
        steps.follow(call, results)
        return results

    def _keep_within(self, left_bytes: int) -> None:
        """Plans the graph anew if its plan takes more than a total leaves by now."""
        assert self.report is not None
        if max(self.report.planned_peak_bytes, self.report.inductor_peak_bytes or 0) > left_bytes:
            self._steps.compiles()
            self._table, self._least = BySize(), {}
            self.first = self._again(_ByItself(self, True, self.has_others))[0]
        else:
            self.report = reports.budgeted(self.report, left_bytes)
            self._table = BySize()
        self._left_bytes = left_bytes
        if self._joint is not None:
            self._remember()

    def _compare_sizes(self, part: Part) -> None:
        """Warns about other sizes than those of the plan, and about each larger one, for which the share of the first sizes' peak is no promise."""
        other = {name: size for name, size in self.sizes.items() if size != self._planned_for[name] and name not in self._ranges}
        if other and reports.is_first_symbolic():
            warnings.warn(
                f"graph {part.name} has symbolic sizes: it was planned for {_told(self._planned_for)} and runs with {_told(other)}, and other sizes have "
                "another peak, here and in other such graphs",
                stacklevel=2,
            )
        larger = {name: size for name, size in self.sizes.items() if size > self._planned_for[name]}
        if larger and any(size > self._largest.get(name, 0) for name, size in larger.items()):
            self._largest.update(larger)
            self._steps.grows()
        if larger and reports.note_larger(part.name, larger):
            warnings.warn(
                f"graph {part.name} was planned for {_told(self._planned_for)} and runs with {_told(larger)}: its peak may be above the budget; a budget "
                f"in bytes is kept for every size, and so is one for the largest sizes, if they are given by torch._dynamo.mark_dynamic or the "
                f"option sizes",
                stacklevel=2,
            )

    # --- plans for the sizes of a call

    def by_itself(self) -> Variant:
        """Returns the variant of this graph alone for the sizes of the latest call. Raises CannotBeMet before anything runs."""
        if self._joint is not None and self.has_bytes:
            is_known = self._table.knows(self.sizes)
            entry = self._table.find(self.sizes)
            if entry is None:
                planned = self._planned_at(self.sizes)
            elif entry.cost and not is_known:  # a cheaper plan for smaller sizes may hold for these too
                planned = self._holding(self._with_room(self.sizes), entry.cost) or self._holding(self.sizes, entry.cost) or entry.planned
                self._table.find(self.sizes)
            else:
                planned = entry.planned
            if planned is not self._current:
                self._use(planned)
        return self.first

    def _planned_at(self, sizes: Sizes) -> _Planned:
        """Plans the graph for sizes for which no plan holds: with room for larger ones, if the budget can be met there."""
        roomy = self._with_room(sizes)
        for wanted in [roomy] * (roomy != sizes) + [dict(sizes)]:
            try:
                found = self._holding(wanted) or self._plan_for(wanted)
            except CannotBeMet as e:
                if wanted == sizes:
                    raise CannotBeMet(f"with sizes {_told(sizes)}, {e}") from None
                continue
            if self.unmet is None or wanted == sizes:
                return found
            self._table.drop(found)
        raise AssertionError("the last sizes are those of the call")

    def _with_room(self, sizes: Sizes) -> dict[str, int]:
        cheapest = min(self._table.entries, key=lambda e: e.cost, default=None)
        known = {} if cheapest is None else cheapest.sizes
        return with_room(sizes, known, self.most)

    @property
    def most(self) -> dict[str, int]:
        """The most that each symbolic size can be, where that is known."""
        return {name: limits[1] for name, limits in self._ranges.items()}

    def _holding(self, sizes: Sizes, below: float = math.inf) -> _Planned | None:
        """Returns the cheapest plan that keeps to the budget for these sizes too, though it was made for others, and that costs less than `below`."""
        budget = self._steps.options.parsed.bytes
        if self._planner.options.kernels == "inductor" or budget is None:  # what inductor's code takes is known for the sizes of its plan
            return None
        entries = sorted((e for e in self._table.entries if e.cost < below and e.may_hold(sizes)), key=lambda e: e.cost)
        if not entries:
            return None
        made, joint = self._joint, self._joint_at(sizes)
        for entry in entries:
            old = entry.planned
            schedule = old.variant.schedule
            if schedule is None or len(joint.problem) != len(old.part.problem):
                continue
            figures = Plan.from_schedule(joint.problem, schedule.forward + schedule.backward).figures
            peak = figures.peak_bytes + joint.reserved_bytes
            if peak <= budget:
                search = Search(self._steps.options, joint, Learned())
                report = replace(
                    old.report,
                    planned_peak_bytes=peak,
                    baseline_peak_bytes=search.baseline_bytes,
                    program_peak_bytes=search.program_bytes,
                    sizes=tuple(sizes.items()),
                    measured_peak_bytes=None,
                )
                new = _Planned(old.variant, report, Part.of(old.part.name, joint, made.gm.graph, self._ends), dict(sizes))
                self._table.add(Entry(sizes, report.added_cost, new, entry.fails))
                return new
            entry.fails.append(sizes)
        return None

    def _plan_for(self, sizes: Sizes) -> _Planned:
        """Plans the graph for these sizes, and makes that the plan of `first`. If it raises, all is as before."""
        before = self._planned_for, self.part, self.unmet
        self._planned_for, self.unmet = dict(sizes), None
        self._steps.compiles()
        try:
            self.first = self._again(_ByItself(self, True, self.has_others))[0]
        except BaseException as e:
            self._planned_for, self.part, self.unmet = before
            raise getattr(e, "inner_exception", e) from None
        return self._remember()

    def _remember(self) -> _Planned:
        """Adds the plan that `first` runs to the table."""
        assert self.report is not None and self.part is not None
        made = self._current = _Planned(self.first, self.report, self.part, self._planned_for)
        self._table.add(Entry(self._planned_for, self.report.added_cost, made))
        return made

    def _use(self, planned: _Planned) -> None:
        before = self.report
        if self._current is not None and before is not None:
            self._current.report = before  # it may have been measured since
        self._current = planned
        self.first, self.report, self.part, self._planned_for = planned.variant, planned.report, planned.part, dict(planned.sizes)
        reports.add(planned.report, before)

    def _joint_at(self, sizes: Sizes) -> Joint:
        """Returns the graph's problem for these sizes."""
        assert self._joint is not None
        with self._taking(sizes):
            graph = self._joint.gm.graph
            hooks.note_bounds(graph)
            for node in graph.nodes:
                node.meta.pop(STRIDES, None)  # those of the sizes before
            return self._bounded_planner.extracted(self._joint.gm, self._joint.num_fwd_outputs, self._of_code)[0]

    def part_at(self, sizes: Sizes) -> Part | None:
        """Returns the part of a step that the graph is in a call with these sizes."""
        if self._joint is None or sizes == self._planned_for or self.part is None:
            return self.part
        key = tuple(sizes.values())
        if key not in self._parts:
            self._parts[key] = Part.of(self.part.name, self._joint_at(sizes), self._joint.gm.graph, self._ends)
        return self._parts[key]

    def _taking(self, sizes: Sizes) -> contextlib.AbstractContextManager[None]:
        return hooks.taking_sizes(sizes, {name: self._ranges.get(name, (0, 0))[0] for name in sizes})

    def least(self, *, in_company: bool = True) -> Variant:
        """Returns the variant with which the graph takes and keeps least. in_company: other graphs run between its forward and its backward."""
        if in_company not in self._least:
            self._steps.compiles()
            variant, attempt = self._again(_ByItself(self, self.part is None, shares_budget=True, in_company=in_company))
            is_of_part = attempt.made is not None and is_of(self.part, attempt.made.joint)
            self._least[in_company] = variant if is_of_part else replace(variant, schedule=None)
        return self._least[in_company]

    def scheduled(self, schedule: Schedule, sizes: Sizes) -> Variant:
        """Returns the variant with this schedule. Raises Retraced if there is none; then `part` is new, and earlier schedules are not for it. sizes:
        those for which the schedule was planned."""
        if schedule not in self._scheduled:
            try:
                self._scheduled[schedule] = self._again(_Scheduled(self, schedule, self.part_at(sizes)), sizes)[0]
            except Retraced:
                self._scheduled.clear()
                self.first = replace(self.first, schedule=None)
                for entry in self._table.entries:
                    entry.planned.variant = replace(entry.planned.variant, schedule=None)
                if self._joint is not None:
                    self.part = Part.of(self.name(), self._joint_at(self._planned_for), self._joint.gm.graph, self._ends)
                self._least = {kind: replace(variant, schedule=None) for kind, variant in self._least.items()}
                raise
        return self._scheduled[schedule]

    def _again(self, role: Role, sizes: Sizes | None = None) -> tuple[Variant, Attempt]:
        with self._region.again():
            return self._made(role, self._region.gm, self._region.inputs, sizes)

    def _made(self, role: Role, gm: fx.GraphModule, inputs: Sequence[Any], sizes: Sizes | None = None) -> tuple[Variant, Attempt]:
        """sizes: those for which the graph is planned; None: those for which `first` is."""
        sizes = sizes or self._planned_for
        first = Attempt(self._bounded_planner, role, Origin(self._ends, tuple(sizes.items())), Learned(self._of_code, chunks=self._chunks))
        with self._taking(sizes):
            run, attempt = self._compile(gm, inputs, first, self._watch_forward, self._watch_backward)
        return Variant(run, None if attempt.made is None else Schedule(*attempt.made.divided)), attempt

    @property
    def _bounded_planner(self) -> Planner:
        """The planner with what a total leaves to the step."""
        return replace(self._planner, options=self._steps.options)

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

    def note(self, joint: Joint, graph: fx.Graph) -> None:
        """Notes the graph itself, which is the same in every variant."""
        self.part = Part.of(self.name(), joint, graph, self._ends)
        self.num_outputs = len(joint.forward)
        if self._joint is not None and graph.owning_module is not None:
            self._joint = replace(self._joint, gm=graph.owning_module)
            self._parts.clear()

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
    in_company: bool = True
    """If it shares the budget: other graphs run between its forward and its backward."""
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
        if search.options.sync:  # no other graph takes a part of the budget
            return search.agreed(lambda: self._plan(search)[0]), None
        return self._plan(search)

    def _plan(self, search: Search) -> tuple[Plan, int | None]:
        options = search.options
        if options.parsed.share is not None or not options.strict and not self.shares_budget:
            return search.plan(lambda error: self._unmet(search, error)), None
        if not self.shares_budget:
            return search.plan(), None
        most = search.budget if isinstance(search.budget, int) else None
        if options.sync or not self.in_company:
            least, boundary = options.plan(search.joint.problem, "min"), None
        else:
            least, boundary = in_company(search.joint.problem, options, most)
        is_above = most is not None and least.figures.peak_bytes > most
        return (search.plan(), None) if is_above and options.strict else (least, boundary)  # the former raises the error

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
            add_report(report, in_place_of or self.graph.report, tells_of_sizes=True)
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
    part: Part | None
    """The graph's part of the step, for the sizes for which it was planned."""
    is_bounded: bool = False
    """Its part of the budget is in its schedule."""
    may_learn: bool = False
    shares_budget: bool = False

    @property
    def key(self) -> str:
        return f" {hash(self.schedule)}"

    def name(self) -> str:
        return self.graph.name()

    def find(self, search: Search, graph: fx.Graph) -> tuple[Plan, int | None]:
        if not is_of(self.part, search.joint):
            self.graph.note(search.joint, graph)
            raise Retraced(self.graph)
        s = self.schedule
        return Plan.from_schedule(search.joint.problem, s.forward + s.backward), len(s.forward)

    def limited(self, limits: Limits) -> Limits:
        """Limits the forward and the backward to their own planned peaks. The step's plan frees a tangent after its last read, so the code must
        too."""
        part = self.part
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
