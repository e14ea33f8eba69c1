"""Recognizes training steps that run several graphs, and plans each step as a whole.

The first step that compiles nothing is recorded, and the step is planned as a whole before the next one. Until then each graph is planned
with the whole budget; if the budget is in bytes and other graphs are known to share it, the graph gets its least peak. A step ends when no
forward waits for its backward.
"""

from __future__ import annotations

import contextlib
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import CannotBeMet
from ..planning import Plan
from . import hooks, reports
from .limits import MOST_REPLANS
from .options import Options
from .recording import Record, Recorder
from .step_plan import Part, Schedule, StepProblem

_MOST_PLANS = 8
_MOST_OVERTAKEN = 16


class Graph(Protocol):
    """A compiled graph as `Steps` sees it, with its variants."""

    part: Part | None
    num_outputs: int
    has_others: bool
    first: Callable[..., Any]
    """The variant compiled before the step was known."""

    def least(self) -> Callable[..., Any]: ...

    def scheduled(self, schedule: Schedule) -> Callable[..., Any]: ...

    def excess_of(self, schedule: Schedule) -> tuple[int, int]: ...

    def report_of(self, schedule: Schedule) -> reports.GraphReport: ...


@dataclass(eq=False)
class Call:
    """One run of a graph's forward, and later of its backward."""

    graph: Graph
    position: int
    run: Callable[..., Any]
    node: weakref.ref[Any] | None = None
    had_backward: bool = False

    @property
    def waits(self) -> bool:
        """True if its backward may still run."""
        return not self.had_backward and self.node is not None and self.node() is not None


@dataclass(frozen=True)
class StepPlan:
    graphs: tuple[weakref.ref[Graph], ...]
    schedules: tuple[Schedule, ...]
    is_final: bool
    """It knows all that can be measured of the step. Otherwise there is another one when the program does not profile the step."""

    def is_of(self, graphs: Sequence[Graph]) -> bool:
        return [g() for g in self.graphs] == graphs


class Steps:
    """The steps of the graphs that share a budget: those compiled with equal options."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.current: Call | None = None
        """The call whose forward runs."""
        self._in_backward: Call | None = None
        self._calls: list[Call] = []
        self._plans: list[StepPlan] = []
        self._recorder: Recorder | None = None
        self._settled = False
        """True: the sequence of graphs that ran last has a plan."""
        self._varies = False
        """True: steps have run other sequences of graphs than those planned before."""
        self._compiles = False
        """True: a graph is compiled in this step. The step is not recorded, because tracing keeps tensors alive."""
        self._arguments: Sequence[Any] = ()  # arguments of the graph whose forward begins
        self._refused: CannotBeMet | None = None
        self._has_warned = False

    @property
    def has_bytes(self) -> bool:
        return self.options.parsed.bytes is not None

    @property
    def has_others(self) -> bool:
        """True if a forward waits for its backward. If many later calls of its graph have run their backward, the forward is assumed to
        have none: the program only keeps its results."""
        overtaken: Counter[Graph] = Counter()
        for call in reversed(self._calls):
            if call.had_backward:
                overtaken[call.graph] += 1
            elif call.waits and overtaken[call.graph] < _MOST_OVERTAKEN:
                return True
        return False

    def compiles(self) -> None:
        self._compiles, self._recorder, self._refused = True, None, None

    # --- forwards

    def begin(self, graph: Graph, arguments: Sequence[Any]) -> Call:
        if self._calls and not self.has_others:
            self._end()
        if self._refused is not None:
            raise self._refused
        run = self._variant(graph)
        # With `sync` ranks would have to agree on when a step ends, so there each graph has the whole budget and no step is recorded.
        if not self._calls and not self._compiles and not self.options.sync and (self._varies or not self._settled):
            self._recorder = Recorder()
        call = Call(graph, len(self._calls), run)
        self._calls.append(call)
        self._arguments = arguments if self._recorder is not None else ()
        return call

    def _variant(self, graph: Graph) -> Callable[..., Any]:
        position = len(self._calls)
        for found in reversed(self._plans):
            graphs = [g() for g in found.graphs[: position + 1]]
            if len(graphs) > position and graphs[position] is graph and all(c.graph is g for c, g in zip(self._calls, graphs)):
                return graph.scheduled(found.schedules[position])
        return graph.least() if self.has_bytes and self.has_others and not self.options.sync else graph.first

    @contextlib.contextmanager
    def running(self, call: Call) -> Iterator[None]:
        self.current = call
        try:
            yield
        finally:
            self.current, self._arguments = None, ()

    def follow(self, call: Call, results: Any) -> None:
        """Registers an autograd hook that notes when the backward of a call begins."""
        node = hooks.node_of_call(results)
        if node is None:
            return
        call.node = weakref.ref(node)

        def begins(gradients: Any) -> None:
            self._in_backward = call

        node.register_prehook(begins)

    @contextlib.contextmanager
    def forward(self, graph: Graph, arguments: list[Any]) -> Iterator[list[Any]]:
        recorder = self._recorder
        if recorder is None or self.current is None or self.current.graph is not graph:
            yield []
            return
        between, self._arguments = hooks.nodes_between(self._arguments), ()
        with recorder.forward(graph, arguments, between) as results:
            yield results

    # --- backwards

    @contextlib.contextmanager
    def backward(self, arguments: list[Any]) -> Iterator[list[Any]]:
        """Records a backward. The block must put the backward's results into the list that it receives."""
        call, self._in_backward = self._in_backward, None
        is_first = call is not None and not call.had_backward and call in self._calls[call.position : call.position + 1]
        if call is not None:
            call.had_backward = True
        recorder = self._recorder
        if recorder is None or call is None or not is_first:
            yield []
            return
        with recorder.backward(call.position, arguments) as results:
            yield results

    # --- steps

    def _end(self) -> None:
        """Ends the step: plans it if it was recorded and needs a plan."""
        calls, self._calls, self._compiles = self._calls, [], False
        recorder, self._recorder = self._recorder, None
        record = recorder.end() if recorder is not None else None
        if not any(c.had_backward for c in calls) or any(c.waits for c in calls):
            return
        graphs = [c.graph for c in calls]
        planned = any(p.is_of(graphs) and p.is_final for p in self._plans)
        alone = len(calls) == 1 and not calls[0].graph.has_others
        self._varies = (self._varies or self._settled and not (planned or alone)) and len(self._plans) < _MOST_PLANS
        self._settled = planned or alone
        if self._settled or record is None or record.graphs != graphs:
            return
        if record.is_profiled and any(p.is_of(graphs) for p in self._plans):
            return  # as little is known as before
        if len(self._plans) < _MOST_PLANS:
            self._make_plan(record)
            self._settled = not record.is_profiled
        elif not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"the steps differ: {_MOST_PLANS} sequences of graphs have been planned, and now another one runs, whose peak may be above "
                f"the budget",
                stacklevel=2,
            )

    def _make_plan(self, record: Record) -> None:
        start = time.perf_counter()
        graphs: list[Any] = record.graphs
        step = StepProblem(record, [g.part for g in graphs])
        baseline = step.in_order().figures.peak_bytes + step.reserved_bytes
        wanted = self.options.parsed
        asked = wanted.bytes if wanted.share is None else int(wanted.share * baseline)
        planning = 0.0
        found_peaks: list[int] = []
        while True:
            budget = "min" if asked is None or len(found_peaks) == MOST_REPLANS else max(0, asked - step.reserved_bytes)
            whole = self._planned(step, budget, baseline)
            schedules = step.divide(whole.schedule)
            planning += time.perf_counter() - start
            for graph, schedule in zip(graphs, schedules):
                graph.scheduled(schedule)
            start = time.perf_counter()
            excess = self._excess(step, graphs, schedules)
            peak = step.peak_with(excess, schedules)
            if asked is None or peak <= asked:
                break
            found_peaks.append(peak)
            if len(found_peaks) > MOST_REPLANS:
                self._refuse_code(found_peaks)
                break
            step = StepProblem(record, step.parts, [max(pair) for pair in zip(step.excess, excess)])
        self._plans.append(StepPlan(tuple(weakref.ref(g) for g in graphs), tuple(schedules), not record.is_profiled))
        reports.add_step(
            reports.StepReport(
                parts=tuple(g.report_of(s) for g, s in zip(graphs, schedules)),
                budget_bytes=asked,
                baseline_peak_bytes=baseline,
                planned_peak_bytes=peak if asked is None else step.peak_with((), schedules),
                added_cost=whole.figures.recompute_overhead,
                recomputed=whole.figures.recomputed,
                plan_seconds=planning,
                inductor_peak_bytes=peak if self.options.kernels == "inductor" else None,
                replans=len(found_peaks),
                is_profiled=record.is_profiled,
            )
        )

    def _excess(self, step: StepProblem, graphs: Sequence[Graph], schedules: Sequence[Schedule]) -> list[int]:
        """Returns, for each segment, the bytes that inductor's code takes above the plan."""
        of_calls = [g.excess_of(s) for g, s in zip(graphs, schedules)]
        return [of_calls[s.call][0 if s.is_forward else 1] for s in step.record.segments]

    def _refuse_code(self, found_peaks: Sequence[int]) -> None:
        """Raises CannotBeMet or warns that inductor's code exceeds the budget with every plan."""
        least = min(found_peaks)
        why = (
            f"a budget of {self.options.budget} cannot be met: with what inductor makes of {len(found_peaks)} plans of the step the least "
            f"peak is {least} bytes ({least / reports.MIB:.1f} MiB)"
        )
        if not self.options.strict:
            warnings.warn(f"{why}; the last one is taken", stacklevel=2)
            return
        self._refused = CannotBeMet(f"""{why}; ask for that or more, or for options={{"budget": "min"}}, or for "kernels": "aot_eager\"""")
        raise self._refused

    def _planned(self, step: StepProblem, budget: int | str, baseline: int) -> Plan:
        try:
            return step.plan(budget, self.options.plan)
        except CannotBeMet as e:
            if e.plan is None:
                raise
            if any(step.excess):  # the plan with which inductor's code is expected to take the least memory
                return step.joined(step.divide(e.plan.schedule))
            least = (e.plan.figures.smallest_peak_bytes or e.plan.figures.peak_bytes) + step.reserved_bytes
            why = (
                f"a budget of {self.options.budget} cannot be met: the step runs {len(step.parts)} graphs, and the least peak that was "
                f"found for all of it is {least} bytes ({least / reports.MIB:.1f} MiB), {least / baseline:.1%} of its own"
            )
            if not self.options.strict:
                warnings.warn(f"{why}; that is taken", stacklevel=2)
                return step.joined(step.divide(e.plan.schedule))
            self._refused = CannotBeMet(
                f"""{why}; ask for that or more, for options={{"budget": "min"}}, or for "strict": False, which takes the least"""
            )
            self._refused.plan = e.plan
            raise self._refused from None


_of_options: weakref.WeakValueDictionary[str, Steps] = weakref.WeakValueDictionary()


def with_options(options: Options, digest: str) -> Steps:
    """Returns the `Steps` of all graphs with equal options. digest: equal for equal options and equal tables of costs."""
    key = f"{digest} {options.strict}"
    found = _of_options.get(key)
    if found is None:
        found = _of_options[key] = Steps(options)
    return found


def reset() -> None:
    """Forgets all plans and reports. To compile the graphs again, also call `torch.compiler.reset()`."""
    reports.reset()
    _of_options.clear()
