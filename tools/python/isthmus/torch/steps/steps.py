"""Recognizes training steps, keeps each within its budget, and plans those that are more than one graph as a whole.

A step begins when a function that torch.compile returned is called, and ends with the last backward before the next such call, when no forward
waits for its backward. The second and the third step, and from then on fewer and fewer, are measured: all bytes of tensors from the begin to
the end, also those that no graph of ours makes, and those that the program has made since the last backward or optimizer's step. The second one is
recorded too. If it runs several graphs, or if there is more in it than the plan of its only graph says, it gets a plan of its own before the third. Until
then each graph is planned by itself; if the budget is in bytes and other graphs may share it, the graph gets its least peak. So does each graph of
a step of which it is not known which other graphs it will run: see `forecast`.

A step of a pipeline of torch.distributed is one step, with the forwards and the backwards of all its micro-batches: from the begin of the
schedule's step to its end.
"""

from __future__ import annotations

import contextlib
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from ...errors import CannotBeMet, Internal
from .. import hooks, reports
from ..device import ledger, live, total
from ..options import Options
from ..plans.by_size import holds
from . import excess, outside, step_planner
from .forecast import Forecast
from .made import Iteration
from .notices import Notices
from .plan_table import MOST_PLANS, PlanTable
from .recording import Record, Recorder
from .step import OUTSIDE, Call, Step
from .step_plan import Retraced
from .step_planner import CallSequence, Graph, StepPlan, Variant

_MOST_RETRACINGS = 4
_MOST_CORRECTIONS = 1
"""How often a step whose measured peak is above its plan is planned again."""
_MOST_COMPILING = 4
"""How many steps in a row may compile graphs before it is told that none of them was measured."""
_MOST_AWAITED = 64
"""So many steps, and a function that was not called in them is no part of a step."""
_MOST_RECORDED = 16
"""So many steps that run other graphs than was foreseen are recorded, before fewer and fewer of them are."""
_MOST_ENTRIES = 64
"""A step with more calls than these, of which none has a backward, is no training step."""


class Steps:
    """The steps of the graphs that share a budget: those compiled with equal options."""

    def __init__(self, options: Options) -> None:
        self.options = options
        """Those of the user, with what a total leaves to the step."""
        self._ledger: ledger.Ledger | None = None
        self._counted_bytes = 0
        """The most that was live on the device before a step."""
        self.current: Call | None = None
        """The call whose forward runs."""
        self._in_backward: Call | None = None
        self._step: Step | None = None
        self._depth = 0  # of calls of compiled functions within one another
        self._count = 0  # of steps since something was compiled
        self._ended = 0  # steps in all
        self._notices = Notices(options)
        self._plans = PlanTable(has_bytes=self.has_bytes)
        self._iteration: Iteration | None = None
        """The begin of the iteration that runs, if its step is to be measured."""
        self._again = False  # the next step is measured and recorded, because the last one began with more than any before
        self._arguments: Sequence[Any] = ()  # arguments of the graph whose forward begins
        self._grown = False
        self._names: set[str] = set()
        self.is_under_ddp = False
        """True: DistributedDataParallel may make its buckets anew before the first graph of a step, which is no need of every step."""
        self._forecast = Forecast()
        self._called: weakref.ref[Any] | None = None  # the function that the program called last
        self._awaited: weakref.WeakSet[Any] = weakref.WeakSet()  # functions compiled with these options that were never called
        self._awaited_until = 0  # the number of the step in which they are no longer awaited
        self._sharing: weakref.WeakSet[Any] = weakref.WeakSet()  # functions that have run in steps of several graphs
        self._is_in_threads = False  # a backward ended in another thread than its forward began: steps cannot be measured
        self._compiling = 0  # the last steps that compiled graphs and that nothing promises to keep the budget
        self._runs_without_graphs = False  # a step without graphs was measured, and may go on
        self._pipelines: weakref.WeakSet[Any] = weakref.WeakSet()  # those that run graphs
        self._functions: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # those called; when first, in microseconds since the epoch

    @property
    def has_bytes(self) -> bool:
        return self.options.parsed.bytes is not None

    @property
    def is_bounded(self) -> bool:
        """True: each step must keep to a number of bytes, also one that was never seen. With `sync` each graph has them to itself."""
        return self.has_bytes and not self.options.sync

    @property
    def may_have_others(self) -> bool:
        """True if a graph that runs now will probably share its step with others."""
        return self._step is not None and self._step.has_others or self._may_share(self._caller)

    @property
    def _caller(self) -> object:
        function = None if self._called is None else self._called()
        return self if function is None else function

    def _may_share(self, function: object) -> bool:
        """Returns True if a step that calls this function may run other graphs beside it that take a part of a number of bytes."""
        return self.is_bounded and (self._awaits or function in self._sharing)

    @property
    def _awaits(self) -> bool:
        return bool(self._awaited) and self._ended < self._awaited_until

    def expect(self, function: object) -> None:
        """Notes a function that was compiled, which a step may call."""
        if function not in self._functions:
            self._awaited.add(function)
            self._awaited_until = self._ended + _MOST_AWAITED

    @property
    def last(self) -> Step | None:
        """The step that runs, or that ran last."""
        return self._step

    @property
    def allowed_bytes(self) -> int | None:
        """The most that the last step, or another one of its iteration, may take; None: it is not limited, or not known, as in a step that compiles graphs."""
        step = self._step
        if step is None or not step.calls or step.compiles or self.options.total is not None:
            return None
        if self.has_bytes:
            return self.options.parsed.bytes
        told = reports.report()
        if (self.options.parsed.share or 1) >= 1:  # all that the step takes, which may differ a little from step to step
            return None
        return max((r.budget_bytes for r in (*told.steps, *told.graphs) if r.budget_bytes is not None), default=None)

    def compiles(self) -> None:
        self._notices.forget()
        self._plans.drop_dead()
        self._count = 0
        if self._step is not None:
            self._step.compiles = True
            self._step.stop_watching()

    def note_names(self, names: set[str]) -> None:
        """Notes which arguments named by the option sizes a graph has."""
        self._names |= names

    def note_unplanned(self) -> None:
        """Tells of a graph that takes its gradients within, so that it is a single forward to PyTorch."""
        self._notices.warn_once(
            "a compiled function takes gradients by torch.func.grad and returns them, so no part of it is a backward: nothing of it is planned, and it may "
            f"be that a {self.options.asked} is not kept; call loss.backward() outside of it, where a plan is to keep the budget"
        )

    def grows(self) -> None:
        """Notes that a graph is about to run with larger sizes than any that were measured."""
        self._grown = True
        step = self._step
        if step is not None and step.timeline is None and not step.compiles and not step.calls:
            step.to_watch = True
            step.to_record = self._may_plan(step.function)
            self._watch(step)

    def _may_plan(self, function: object) -> bool:
        """Returns True if another step that begins with a call of this function may be planned."""
        # With `sync` ranks would have to agree on when a step ends, so there each graph has the whole budget and no step is recorded.
        return self._count > 0 and self._plans.has_room(function) and not self.options.sync and not self._notices.has_told

    # --- forwards

    @contextlib.contextmanager
    def calling(self, function: object) -> Iterator[None]:
        """Surrounds each call of a compiled function, for which any object may stand."""
        self._meet(function)
        if self._depth == 0 and torch.is_grad_enabled():
            self._enter(function)
        self._depth += 1
        before, over = sys.exc_info()[1], self._step if self._step is not None and self._step.had_backward else None
        try:
            yield
        finally:
            self._depth -= 1
        raised = sys.exc_info()[1]  # PyTorch tells a context nothing of an exception
        if self._step is not None and raised is not before and not isinstance(raised, hooks.EndOfRecomputation):
            self._step.stop_watching()
        if self._depth == 0 and self._step is not None and self._step.had_backward and self._step is not over:
            self._stop(self._step)  # the function has run the backward itself
        elif self._depth == 0 and self._step is not None and self._step.has_only_effects and not self._step.calls:
            self._abandon(self._step)  # the function was an optimizer's step, which is part of no step

    def _meet(self, function: object) -> None:
        """Notes the first call of a function, which may be another program's, as in a notebook: what was found of earlier ones does not hold for it."""
        self._awaited.discard(function)
        if function not in self._functions:
            self._functions[function] = time.time_ns() // 1000
            self._is_in_threads = False
            self._notices.begin_anew()

    def _enter(self, function: object) -> None:
        self._called = weakref.ref(function)
        pipeline = hooks.running_pipeline()
        if pipeline is not None:
            function = pipeline
            self._pipelines.add(pipeline)
        # No step begins or ends to be measured within a backward: PyTorch gives each node of it a profiler's state of its own.
        if self._step is not None and self._step.is_over and not hooks.is_in_backward():
            self._end(self._step)
        self._notices.raise_again(function)
        if self._step is None:
            if hooks.is_in_backward():
                self._notices.warn_once(
                    "the first graph of a step with gradients runs in the backward, as within a reentrant checkpoint: what the forward keeps is not known, "
                    f"so it may be that a {self.options.asked} is not kept; checkpoint(..., use_reentrant=False) has no such limit"
                )
            self._step = self._begun(function)
        self._step.is_in_pipeline = pipeline is not None
        self._step.entries += 1
        if self._step.entries > _MOST_ENTRIES and not self._step.calls:
            self._step.stop_watching()

    def look_at_device(self, *, only_first: bool = False) -> None:
        """Counts what the device holds beside a step, if the user gave a total: what is left is the budget. It is counted before the first step, before
        those that are measured, and before any that begins with more on a GPU than was ever counted. If less is left than before, what no longer fits is planned
        anew. Raises CannotBeMet."""
        if self.options.total is None:
            return
        device, before = total.device_in_use(), self._ledger
        if before is not None:
            has_more = device.type == "cuda" and hooks.live_on_gpu(device) > self._counted_bytes
            if only_first or not has_more and not self._is_measured(self._count):
                return
        found = ledger.taken(self.options.total, device)
        self._counted_bytes = max(self._counted_bytes, found.live.bytes)
        if before is not None and found.left_bytes >= before.left_bytes:
            return
        try:
            found.check()
        except CannotBeMet as e:
            if self.options.strict:
                raise
            self._notices.warn_once(str(e))
        self._ledger = found
        self.options = replace(self.options, left_bytes=max(0, found.left_bytes))
        reports.note_total(id(self), found)
        self._plans.shrink(found.left_bytes)

    def _note_inputs(self, arguments: Sequence[Any]) -> None:
        """Tells the inputs of the step from the other tensors that are live."""
        if self._ledger is not None and not self._ledger.input_bytes:
            self._ledger = self._ledger.with_inputs(live.inputs_among(arguments, self._ledger.room.device))
            reports.note_total(id(self), self._ledger)

    def _begun(self, function: object) -> Step:
        self._meet(function)
        self.look_at_device()
        step = Step(function, self._ended, expected=self._forecast.next, places=outside.Places(self._functions[function]))
        step.is_certain = not self.is_bounded or not self._awaits and self._forecast.is_certain
        step.is_again, self._again = self._again, False
        is_measured = self._is_measured(self._count)
        is_open = not self._is_final(step.expected) and (step.is_certain or self._count < _MOST_RECORDED) or not step.is_certain and is_measured
        is_recorded = self._may_plan(function) and (self._grown or step.is_again or is_open)
        step.to_watch = not self._is_in_threads and (is_recorded or step.is_again or is_measured)
        step.to_record = is_recorded
        if not self.is_under_ddp and not hooks.is_in_backward():
            self._watch(step)
        return step

    def _watch(self, step: Step) -> None:
        """Begins to measure and record a step, if it is one that is to be."""
        if step.to_watch:
            step.to_watch = False
            step.timeline = hooks.timeline(self._iteration.made() if self._iteration is not None else ())
            step.places.begin()
            step.recorder = Recorder(step.timeline) if step.to_record else None

    def _is_measured(self, number: int) -> bool:
        """Returns True for the second and the third step, and for every step whose number is a power of two. number: of earlier steps since something
        was compiled."""
        return self._grown or number in (1, 2) or number >= 4 and number & (number - 1) == 0

    def _begin_iteration(self, last: Step) -> None:
        """Notes what is there at the end of a step, if the next one is to be measured. A total has it off already."""
        is_recorded = self._may_plan(last.function) and not self._is_final(self._forecast.after(last.sequence))
        is_due = self._again or is_recorded or self._is_measured(self._count + 1)
        self._iteration = Iteration() if is_due and self.options.total is None and not self._is_in_threads else None

    def begin(self, graph: Graph, arguments: Sequence[Any]) -> Call:
        if self._depth == 0:  # the graph was not compiled by torch.compile
            self._enter(self)
        step = self._step = self._step or self._begun(self)
        if hooks.is_in_checkpoint():
            step.has_checkpoints = True
            return self._outside(graph)
        if not step.calls:
            self._note_inputs(arguments)
        self._watch(step)
        call = Call(self._caller, graph, len(step.calls), self._variant(graph, step), sizes=dict(graph.sizes))
        step.calls.append(call)
        self._arguments = arguments if step.recorder is not None else ()
        return call

    def _outside(self, graph: Graph) -> Call:
        """Returns a call within a checkpoint of the program, which is no part of the step's plan: it counts as ops between graphs do. Both runs of such a
        function must save the same tensors, so they take the same variant."""
        variant = graph.least(in_company=False) if self.has_bytes else graph.by_itself()
        return Call(self._caller, graph, OUTSIDE, variant, sizes=dict(graph.sizes))

    def _variant(self, graph: Graph, step: Step) -> Variant:
        so_far = [*step.graphs, graph]
        expected = [g() for _, g in step.expected or ()]
        is_alone = step.is_certain and expected == so_far == [graph]
        if is_alone and not graph.has_others and self._plans.find(expected) is None:
            return graph.by_itself()
        matching = [(p, position) for p, position in self._plans.matching(so_far, expected) if self._may_follow(p, step, expected)]
        for found, position in matching:
            step.followed = found
            if not self.has_bytes or holds(found.sizes[position], graph.sizes):
                return graph.scheduled(found.schedules[position], found.sizes[position])
        if matching and len(matching[0][0].graphs) == 1:
            return self._foreseen(matching[0][0], graph, step)
        if matching:  # for larger sizes than these, the step is recorded with the least peaks of its graphs, and then planned
            self.grows()
            return graph.least()
        may_share = graph.has_others or step.has_others or self._may_share(self._caller)
        return graph.least() if self.is_bounded and may_share else graph.by_itself()

    def _may_follow(self, found: StepPlan, step: Step, expected: Sequence[Graph | None]) -> bool:
        """Returns True if a step may spend the budget as a plan says: it will run no other calls than those of the plan."""
        if not self.is_bounded:
            return True
        if step.followed is not None:
            return found.graphs == step.followed.graphs
        return step.is_certain and found.is_of(expected) or not self._awaits and self._forecast.covers(found.calls)

    def _foreseen(self, earlier: StepPlan, graph: Graph, step: Step) -> Variant:
        """Plans a step of one graph for larger sizes than those that were recorded. Raises CannotBeMet."""
        step.compiles = True
        step.stop_watching()
        try:
            made = step_planner.foreseen(earlier, dict(graph.sizes), graph.most, self.options, step.places, self._notices.warn_once)
        except Retraced:
            return graph.least()
        except CannotBeMet as e:
            raise CannotBeMet(f"with sizes {', '.join(f'{name}={size}' for name, size in graph.sizes.items())}, {e}") from None
        self._plans.add(made, None, step.function, earlier.calls)
        step.followed = made
        return graph.scheduled(made.schedules[0], graph.sizes)

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
        call.node = weakref.ref(node, lambda _: self._drop())

        def begins(gradients: Any) -> None:
            self._in_backward = call

        node.register_prehook(begins)

    def _drop(self) -> None:
        """Ends a step whose forward will have no backward, because the program has dropped its results, as of a validation."""
        step = self._step
        if step is not None and self._depth == 0 and not step.had_backward and step.is_over and not hooks.is_in_backward():
            self._abandon(step)

    def _abandon(self, step: Step) -> None:
        """Ends what turned out to be no step."""
        step.stop_watching()
        self._step = None

    def ran_by_itself(self, results: Sequence[Any]) -> None:
        """Notes that a graph has run that needs no gradient."""
        if self._step is not None:
            self._step.has_only_effects = not any(isinstance(r, torch.Tensor) for r in results) and self._step.has_only_effects is not False

    @contextlib.contextmanager
    def forward(self, graph: Graph, arguments: list[Any]) -> Iterator[list[Any]]:
        recorder = self._step.recorder if self._step is not None else None
        if recorder is None or self.current is None or self.current.graph is not graph or self.current.position == OUTSIDE:
            yield []
            return
        between, self._arguments = hooks.nodes_between(self._arguments), ()
        with recorder.forward(graph, arguments, between) as results:
            yield results

    # --- backwards

    @contextlib.contextmanager
    def backward(self, arguments: list[Any]) -> Iterator[list[Any]]:
        """Records the backward of a graph. The block must put the backward's results into the list that it receives."""
        call, self._in_backward = self._in_backward, None
        step = self._step
        is_first = step is not None and call is not None and not call.had_backward and call in step.calls[call.position : call.position + 1]
        if call is not None:
            call.had_backward = True
        if step is None or step.recorder is None or call is None or not is_first:
            yield []
            return
        with step.recorder.backward(call.position, arguments) as results:
            yield results

    def begin_backward(self, roots: Sequence[Any]) -> None:
        """Is called before each backward of the program. Raises CannotBeMet if the step is one graph that cannot keep to its share."""
        step = self._step
        if step is None or step.had_backward:
            return
        if step.timeline is not None:
            step.places.backward()
        if len(step.calls) != 1:
            return
        call = step.calls[0]
        is_whole = not step.is_in_pipeline and call.node is not None and all(getattr(root, "grad_fn", None) is call.node() for root in roots)
        if is_whole and call.graph.unmet is not None and not call.graph.has_others:
            self._notices.refuse(step, call.graph.unmet)

    def end_backward(self, *, keeps_graph: bool) -> None:
        """Is called after each backward of the program. Raises CannotBeMet if the step was measured and no plan helps. keeps_graph: there may be
        another backward of the same forward."""
        step = self._step
        if step is not None:
            is_first, step.had_backward = not step.had_backward, True
            if self._depth == 0 and not keeps_graph:
                self._stop(step)
            elif self._depth == 0 and is_first and not step.has_others:
                self._begin_iteration(step)

    def end_optimizer(self) -> None:
        """Is called after each step of an optimizer. What was made before it, as its state, is not of the next iteration."""
        if self._iteration is not None and self._step is not None and self._step.had_backward and not self._step.has_others:
            self._iteration = Iteration()

    def begin_pipeline(self, pipeline: object) -> None:
        """Is called before each step of a pipeline. Raises CannotBeMet if an earlier one was refused."""
        if pipeline in self._pipelines:
            self._enter(pipeline)

    def end_pipeline(self) -> None:
        """Is called after each step of a pipeline. Raises CannotBeMet if the step was measured and no plan helps."""
        step = self._step
        if step is not None and step.is_in_pipeline:
            step.is_in_pipeline = False
            self._stop(step)

    def _stop(self, step: Step) -> None:
        """Ends the measurement of a step, and raises what ranks refuse, unless a backward is to come."""
        if not step.has_others:
            if step.timeline is not None and step.timeline.is_of_another_thread:
                step.stop_watching()
                self._is_in_threads = True
                self._notices.warn_once(
                    f"the backward of a step ends in another thread than its forward began, so it is not measured: it may be that a {self.options.asked} is not kept"
                )
            elif step.timeline is not None:
                step.timeline.end(lambda: self._judge(step))
            self._notices.listen(step)
            self._begin_iteration(step)

    def _judge(self, step: Step) -> None:
        """Compares the measured peak of a step with its budget, if no other plan is tried first."""
        assert step.timeline is not None
        found = self._plans.find(step.graphs, step.sizes)
        if not step.calls:
            self._check_without_graphs(step, step.timeline)
        elif found is not None and found.corrections >= _MOST_CORRECTIONS or step.recorder is None:
            self._check(step, step.timeline)

    def forget(self) -> None:
        """Ends the measuring of the step that runs: it is not looked at any more, because it has failed or will not be waited for."""
        if self._step is not None:
            self._step.stop_watching()
            self._step.is_in_pipeline = False

    # --- steps

    def _end(self, step: Step) -> None:
        """Ends the step: plans it if it was recorded and needs a plan."""
        self._step = None
        hooks.end_profile_if_over()
        if step.timeline is not None:
            step.timeline.end(lambda: self._judge(step))
        record = step.recorder.end() if step.recorder is not None else None
        if not step.had_backward or any(c.waits for c in step.calls) or step.calls and not any(c.had_backward for c in step.calls):
            return
        self._count += 1
        self._ended += 1
        self._note_compiling(step)
        unknown = self.options.sizes.keys() - self._names
        if unknown and step.calls:
            self._notices.warn_once(f"no graph has an argument '{sorted(unknown)[0]}', which the option sizes names: give the names that the compiled function has")
        self._notices.listen(step)
        graphs, sequence = step.graphs, step.sequence
        self._forecast.note(sequence, compiled=step.compiles)
        if len(graphs) > 1:
            self._sharing.update(c.function for c in step.calls)
        grown, self._grown = self._grown or step.is_again, self._grown and record is None
        if not graphs or record is None or record.graphs != graphs or not grown and self._is_final(sequence):
            return
        found = self._plans.find(graphs, step.sizes)
        is_outgrown = found is None and self._plans.find(graphs) is not None
        is_alone = len(graphs) == 1 and not graphs[0].has_others and not self._may_share(step.calls[0].function)
        if found is None and is_alone and not is_outgrown:
            if record.is_measured and not self._is_kept_by(graphs[0], record):
                self._make_plan(record, step, None)
        elif found is None:
            self._plan_new(record, step)
        elif not self._follows(step, found):
            self._note_least(record, step)
        elif record.is_measured and (found.report.is_profiled or not self._is_kept(found, record)):
            if found.corrections < _MOST_CORRECTIONS:
                self._make_plan(record, step, found)
            found.is_final = True
        elif record.is_measured and found.report.is_foreseen:
            step_planner.note_seen(found, record, [c.variant.schedule for c in step.calls], step.sizes)

    def _follows(self, step: Step, found: StepPlan) -> bool:
        return not self.is_bounded or step.followed is not None and step.followed.graphs == found.graphs

    def _plan_new(self, record: Record, step: Step) -> None:
        """Plans the step if it has taken too much, or if steps may follow the plan."""
        recurs = self._forecast.next == step.sequence and self._forecast.is_certain
        if not self.is_bounded or self._exceeds(record) or not self._awaits and (recurs or self._forecast.covers(step.sequence)):
            self._make_plan(record, step, None)
            made = self._plans.find(step.graphs, step.sizes)
            if made is not None and made.report.planned_peak_bytes <= (made.report.budget_bytes or 0):  # otherwise that is told
                self._note_least(record, step)

    def _exceeds(self, record: Record) -> bool:
        assert record.timeline is not None or not record.is_measured
        return self.is_bounded and record.is_measured and record.timeline.peak > self.options.parsed.bytes

    def _note_least(self, record: Record, step: Step) -> None:
        """Tells of a step that took too much because it ran without a plan of its own, and that has one by now."""
        if self._exceeds(record):
            assert record.timeline is not None
            why = excess.of_graphs(step, record.timeline, None, self.options)
            self._notices.warn_once(f"{why}; until then the step had no plan of its own, and it has one from now on")

    def _note_compiling(self, step: Step) -> None:
        """Tells of steps that compile graphs again and again: such a step is not measured, and it is not planned as one."""
        by_itself = len(step.calls) == 1 and step.calls[0].graph.unmet is None
        is_bounded = self.has_bytes or 0 < (self.options.parsed.share or 0) < 1
        self._compiling = self._compiling + 1 if is_bounded and step.compiles and not by_itself else 0
        if self._compiling == _MOST_COMPILING:
            self._notices.warn_once(
                f"{_MOST_COMPILING} steps in a row have compiled graphs, so it is not known yet whether a {self.options.asked} is kept: "
                "a step is measured when it compiles nothing; TORCH_LOGS=recompiles shows why"
            )

    def _is_final(self, sequence: CallSequence | None) -> bool:
        """Returns True if a step of this sequence was measured within its plan, or nothing else can be tried."""
        if not sequence:
            return sequence is not None and self._runs_without_graphs
        graphs = [g() for _, g in sequence]
        found = self._plans.find(graphs)
        if found is not None:
            return found.is_final
        (graph, *others) = graphs
        return (
            not others and graph is not None and not graph.has_others and graph.report is not None and graph.report.measured_peak_bytes is not None
        )

    def _is_kept_by(self, graph: Graph, record: Record) -> bool:
        """Returns True if a step is the one graph that it runs: its measured peak is that of the graph's own plan."""
        report, timeline = graph.report, record.timeline
        if report is None or timeline is None or graph.unmet is not None:
            return False
        if not reports.is_as_planned(report, timeline.peak + max(record.left, default=0)):
            return False
        graph.report = reports.measured(report, timeline.peak)
        return True

    def _is_kept(self, found: StepPlan, record: Record) -> bool:
        assert record.timeline is not None
        found.report = reports.measured(found.report, record.timeline.peak)
        budget = found.report.budget_bytes
        most = found.report.planned_peak_bytes * (1 + reports.NOTED) if budget is None else budget
        found.is_final = record.timeline.peak <= most
        return found.is_final

    def _make_plan(self, record: Record, step: Step, earlier: StepPlan | None) -> None:
        try:
            made = self._planned(record, step, earlier)
        except CannotBeMet as e:
            self._notices.refuse(step, e)
            return
        self._plans.add(made, earlier, step.function, step.sequence)
        if not self._plans.has_room(step.function):
            self._notices.warn_once(
                f"the steps differ: {MOST_PLANS} sequences of graphs have been planned; the peak of another one may be above the budget"
            )

    def _planned(self, record: Record, step: Step, earlier: StepPlan | None) -> StepPlan:
        """Plans a step, and plans it again if a graph that is compiled by the plan turns out to be another one."""
        ran = [c.variant.schedule for c in step.calls]
        for _ in range(_MOST_RETRACINGS):
            try:
                return step_planner.planned(record, ran, step.sizes, self.options, step.places, earlier, self._notices.warn_once)
            except Retraced as e:
                self._plans.drop_those_of(e.graph, but=earlier)
                ran = [None if c.graph is e.graph else schedule for c, schedule in zip(step.calls, ran)]
        raise Internal("PyTorch has traced a graph again and again and come to another one each time")

    # --- budgets that are not kept

    def _check(self, step: Step, timeline: hooks.Timeline | hooks.TimelineOnGpu) -> None:
        """Refuses the step if it was measured above its budget."""
        self._grown = False
        found = self._plans.find(step.graphs, step.sizes)
        if found is None and len(step.calls) > 1 and not self.has_bytes:
            return  # what a share of such a step is, its plan tells
        report = step.calls[0].graph.report if found is None else found.report
        why = excess.of_graphs(step, timeline, report, self.options)
        if why is None:
            return
        if self.is_bounded and len(step.calls) > 1 and not (found is not None and self._follows(step, found)) and self._may_plan(step.function):
            self._count = 0  # the next steps are recorded
            self._notices.warn_once(f"{why}; the step had no plan of its own, and is planned when it runs again")
            return
        known = found.record.timeline.older if found is not None and found.record.timeline is not None else ()
        if not step.is_again and excess.is_of_older(timeline, known, report, self.options):
            self._again = True
            self._notices.warn_once(f"{why}; earlier steps began with less: if the next one does not, it is planned anew, or refused")
            return
        budget = excess.budget_of(report, self.options)
        late = sum(c.graph.part.late_bytes for c in step.calls if c.graph.part is not None)
        if budget is not None and timeline.peak <= budget + late:  # it differs from step to step, so that no plan keeps it
            self._notices.warn_once(f"{why}; collectives may hold {reports.in_mib(late)} after their waits, for as long as their threads take")
        else:
            self._notices.refuse(step, CannotBeMet(why))

    def _check_without_graphs(self, step: Step, timeline: hooks.Timeline | hooks.TimelineOnGpu) -> None:
        """Refuses a step that runs no graph of ours, unless it keeps to its budget anyway."""
        self._runs_without_graphs = True
        why = excess.without_graphs(step, timeline, self.options)
        if why is None:
            return
        if self.options.parsed.bytes is not None or self.options.parsed.share is not None:
            self._notices.refuse(step, CannotBeMet(why))
        elif not step.has_checkpoints:  # the least peak that can be had is wanted
            self._notices.warn_once(why.replace("cannot be met", "changes nothing"))
