"""Runs a graph that the backend has compiled in one or several variants: the same ops with different recomputations."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import fx

from ..errors import CannotBeMet
from ..planning import Plan
from . import agreement, hooks, reports
from .joint import Joint
from .limits import Limits
from .partitioner import Partitioner
from .step_plan import Part, Retraced, Schedule
from .steps import Steps, with_options

Compile = Callable[[Partitioner, hooks.Watch, hooks.Watch], Callable[..., Any]]


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

    def __init__(self, gm: fx.GraphModule, inputs: Sequence[Any], partitioner: Partitioner, compile: Callable[..., Any]) -> None:
        """compile: a function of a graph, its inputs, a partitioner and two watches, which returns a callable."""
        self.part: Part | None = None
        """None: nothing in the graph needs a gradient."""
        self.num_outputs = 0
        self._region = hooks.Region(gm, inputs)
        self._compile = compile
        self._partitioner = partitioner
        self._hints = hooks.hints_of(self._region.inputs)
        self._largest: dict[str, int] = {}  # by name, the largest size that it has run with
        partitioner.ends, partitioner.sizes = hooks.break_after(gm), tuple(self._hints.values())
        self._digest = partitioner.uuid()
        self._steps.compiles()
        self._steps.is_under_ddp |= hooks.is_under_ddp()
        self._scheduled: dict[Schedule, Variant] = {}
        self._reports: dict[Schedule, reports.GraphReport] = {}
        self._excess: dict[Schedule, tuple[int, int]] = {}
        self._least: Variant | None = None
        self.unmet: CannotBeMet | None = None
        # The graph will share the budget with other graphs.
        self.has_others = bool(partitioner.ends or hooks.buckets_follow() or self._steps.has_others)
        self._first = (_Least if self.has_others else _OfGraph)(self, partitioner)
        self.first = self._made(self._first, gm, inputs)
        if self.has_others:
            self._least = self.first

    @property
    def _steps(self) -> Steps:
        self._held = with_options(self._partitioner.options, self._digest)  # nothing else may hold it
        return self._held

    @property
    def report(self) -> reports.GraphReport | None:
        return self._first.reported

    @report.setter
    def report(self, report: reports.GraphReport) -> None:
        self._first.reported = report

    def __call__(self, *arguments: Any) -> Any:
        if self.part is None or hooks.is_tried_out(arguments):
            return self.first(*arguments)
        if self._hints:
            self._compare_sizes(self.part, arguments)
        steps = self._steps
        call = steps.begin(self, arguments)
        with steps.running(call):
            results = call.variant(*arguments)
        steps.follow(call, results)
        return results

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
            partitioner = _Least(self, self._partitioner)
            made = self._again(partitioner)
            self._least = made if partitioner.is_of_part else replace(made, schedule=None)
        return self._least

    def scheduled(self, schedule: Schedule) -> Variant:
        """Returns the variant with this schedule. Raises Retraced if there is none; then `part` is new, and earlier schedules are not for it."""
        if schedule not in self._scheduled:
            try:
                self._scheduled[schedule] = self._again(_Scheduled(self, self._partitioner, schedule))
            except Retraced:
                self._scheduled.clear()
                self.first = replace(self.first, schedule=None)
                self._least = None if self._least is None else replace(self._least, schedule=None)
                raise
        return self._scheduled[schedule]

    def _again(self, partitioner: Partitioner) -> Variant:
        with self._region.again():
            return self._made(partitioner, self._region.gm, self._region.inputs)

    def _made(self, partitioner: Partitioner, gm: fx.GraphModule, inputs: Sequence[Any]) -> Variant:
        run = self._compile(gm, inputs, partitioner, self._watch_forward, self._watch_backward)
        return Variant(run, None if partitioner.divided is None else Schedule(*partitioner.divided))

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

    def note(self, joint: Joint, graph: fx.Graph, name: str) -> None:
        """Notes the graph itself, which is the same in every variant."""
        self.part = Part.of(name, joint, graph, self._partitioner.ends)
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


class _OfGraph(Partitioner):
    """Plans the graph by itself. The first time, it notes the facts that a plan of the whole step needs."""

    def __init__(self, graph: Compiled, like: Partitioner) -> None:
        self.__dict__.update(like.__dict__)
        self._begin_plans()
        self._graph = graph
        self._is_first = graph.part is None
        self.is_of_part = True
        """False: traced again, the graph is another one than the graph's `part`."""

    def __getstate__(self) -> dict[str, Any]:
        """Inductor pickles the partitioner only to identify it; it is never unpickled."""
        return {"uuid": self.uuid()}

    def _find(self, joint: Joint, graph: fx.Graph) -> tuple[Plan, int | None]:
        if self._is_first:
            self._graph.note(joint, graph, self._name())
        part = self._graph.part
        self.is_of_part = part is not None and agreement.digest_of(joint.problem) == agreement.digest_of(part.problem)
        return super()._find(joint, graph)

    def _learn(self, limits: Limits) -> bool:
        """Learns only from the code of the first variant, because all variants must have the same problem."""
        return self._is_first and super()._learn(limits)

    def _unmet(self, joint: Joint, error: CannotBeMet) -> Plan:
        """Of a step's first run it is not known which graphs it has, so a share is not demanded of one of them."""
        if self.options.parsed.share is None:
            return super()._unmet(joint, error)
        assert error.plan is not None
        self._graph.unmet = self._refusal(self._why_unmet(joint, error), error.plan)
        return error.plan

    def _name(self) -> str:
        return super()._name() if self._graph.part is None else self._graph.part.name

    def _report(self, joint: Joint, found: Plan, *others: Any) -> reports.GraphReport:
        return super()._report(joint, found, *others) if self._is_first else self._figures(joint, found, *others)


class _Least(_OfGraph):
    """Plans one of several graphs that share a budget. The bytes that the others leave of a budget in bytes are not known, so this graph
    gets its least peak. A budget that is a share refers to the peak of the whole step, so a graph that cannot meet it alone is not an
    error: another graph may have room."""

    def __init__(self, graph: Compiled, like: Partitioner) -> None:
        super().__init__(graph, like)
        self._is_bounded = self._is_bounded and self.options.parsed.bytes is not None

    def _plan(self, joint: Joint) -> Plan:
        if self.options.parsed.share is not None:
            return super()._plan(joint)
        least = self.options.plan(joint.problem, "min")
        budget = self._budget(joint)
        if isinstance(budget, int) and least.figures.peak_bytes > budget and self.options.strict:
            return super()._plan(joint)  # raises the error
        return least


class _Scheduled(_OfGraph):
    """Compiles a graph again and cuts it by its part of the step's plan."""

    def __init__(self, graph: Compiled, like: Partitioner, schedule: Schedule) -> None:
        super().__init__(graph, like)
        self._schedule = schedule
        self._is_bounded = False  # its schedule already accounts for its part of the budget

    def uuid(self) -> str:
        return f"{super().uuid()} {hash(self._schedule)}"

    def _find(self, joint: Joint, graph: fx.Graph) -> tuple[Plan, int | None]:
        part = self._graph.part
        if part is None or agreement.digest_of(joint.problem) != agreement.digest_of(part.problem):
            self._graph.note(joint, graph, self._name())
            raise Retraced(self._graph)
        s = self._schedule
        return Plan.from_schedule(joint.problem, s.forward + s.backward), len(s.forward)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Limits the forward and the backward to their own planned peaks. The step's plan frees a tangent after its last read, so the code must
        too."""
        made = super().__call__(*args, **kwargs)
        part = self._graph.part
        if self.limits is not None and part is not None and self.options.kernels == "inductor":
            self.limits.frees_tangents = True
            for is_backward, peak in enumerate(part.peaks(self._schedule)):
                self.limits.planned_bytes[bool(is_backward)] = peak + part.states_bytes
                self.limits.beside_bytes[bool(is_backward)] -= part.tangents_bytes
        return made

    def _report(self, joint: Joint, found: Plan, *others: Any) -> reports.GraphReport:
        report = self._figures(joint, found, *others)
        self._note(report)
        return report

    def compiled(self) -> None:
        super().compiled()
        limits = self.limits
        if limits is not None and len(limits.taken_bytes) == 2:
            self._graph.note_excess(self._schedule, *(max(0, limits.taken_bytes[k] - limits.planned_bytes[k]) for k in (False, True)))

    def _note(self, graph: reports.GraphReport, in_place_of: reports.GraphReport | None = None) -> None:
        """Keeps the report, which is printed as part of the step's report."""
        self._graph.note_report(self._schedule, graph)
        self.reported = graph
