"""A training step while it runs, and the calls of graphs in it."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import hooks
from . import outside
from .recording import Recorder
from .step_planner import CallSequence, Graph, StepPlan, Variant

OUTSIDE = -1
"""The position of a call that is not one of its step's."""
_MOST_OVERTAKEN = 16


@dataclass(eq=False)
class Call:
    """One run of a graph's forward, and later of its backward."""

    function: object
    """What the program called: a compiled function, or a pipeline."""
    graph: Graph
    position: int
    variant: Variant
    node: weakref.ref[Any] | None = None
    had_backward: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Its symbolic sizes."""

    @property
    def waits(self) -> bool:
        """True if its backward may still run."""
        return not self.had_backward and self.node is not None and self.node() is not None


@dataclass(eq=False)
class Step:
    """The step that runs now."""

    function: object
    """Stands for the compiled function with whose call it began."""
    number: int
    """The number of earlier steps, which all ranks count alike."""
    calls: list[Call] = field(default_factory=list)
    timeline: hooks.Timeline | hooks.TimelineOnGpu | None = None
    """It has ended when the step is over."""
    recorder: Recorder | None = None
    compiles: bool = False
    """A graph is compiled in this step. The step is neither measured nor recorded, because tracing keeps tensors alive."""
    to_watch: bool = False
    """It is to be measured from its first graph on, and, if `to_record`, to be recorded."""
    to_record: bool = False
    is_again: bool = False
    """It is measured because the step before it began with more than any before."""
    had_backward: bool = False
    has_only_effects: bool | None = None
    """The graphs that have run need no gradient and have no results; None: none has run."""
    has_listened: bool = False
    """What other ranks refuse has been looked up at the end of this step."""
    expected: CallSequence | None = None
    """The sequence that is foreseen; None: not known. It tells apart steps that begin with the same graphs."""
    is_certain: bool = True
    """False: the budget is in bytes, and the step may run another sequence than the expected one."""
    followed: StepPlan | None = None
    """The plan that the latest call that has one follows."""
    has_checkpoints: bool = False
    """A graph ran within a checkpoint of the program."""
    entries: int = 0
    """The calls of compiled functions."""
    places: outside.Places = field(default_factory=outside.Places)
    is_in_pipeline: bool = False
    """A pipeline runs it, which has not ended it."""

    def stop_watching(self) -> None:
        if self.timeline is not None:
            self.timeline.give_up()
        self.timeline = self.recorder = None
        self.to_watch = False

    @property
    def has_others(self) -> bool:
        """True if a forward waits for its backward, or if the pipeline may run another one. If many later calls of its graph have run their backward, the
        forward is assumed to have none: the program only keeps its results."""
        if self.is_in_pipeline:
            return True
        overtaken: Counter[Graph] = Counter()
        for call in reversed(self.calls):
            if call.had_backward:
                overtaken[call.graph] += 1
            elif call.waits and overtaken[call.graph] < _MOST_OVERTAKEN:
                return True
        return False

    @property
    def graphs(self) -> list[Graph]:
        return [c.graph for c in self.calls]

    @property
    def sequence(self) -> CallSequence:
        return tuple((weakref.ref(c.function), weakref.ref(c.graph)) for c in self.calls)

    @property
    def sizes(self) -> list[Mapping[str, int]]:
        return [c.sizes for c in self.calls]

    @property
    def is_over(self) -> bool:
        """True if the next call begins another step. Of a step without graphs it is not known whether a forward waits for its backward."""
        return not self.has_others and (self.had_backward or bool(self.calls))
