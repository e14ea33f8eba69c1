"""One plan of a step that runs several graphs.

The problem of the step is the concatenation of the graphs' problems, in the order in which the step runs them: forwards, then backwards. An
op of a graph runs within the graph's own forward or backward, between two marks: ops with empty outputs. The first ops of each part read
the mark before it. So the values that a graph keeps for its backward live while the other graphs run. A result of a graph lives as long as
was recorded; if another graph takes it, both refer to the same storage. Gradients that backwards have made, and values that ops between the
graphs keep for their own backward, also live as long as was recorded. The workspaces of these ops are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import fx

from ..errors import CannotBeMet
from ..planning import Plan
from ..problem import Problem
from . import hooks
from .joint import Joint, Read
from .recording import Record, Value

_TRIES = 3


@dataclass(frozen=True)
class Part:
    """The facts known of one graph."""

    name: str
    problem: Problem
    arguments: tuple[Read, ...]
    """What stands for each in the problem."""
    results: tuple[Read | None, ...]
    """Of the forward."""
    tangents: tuple[int, ...]
    """Their ops."""
    states_bytes: int
    """Reserved for states of generators."""
    tangents_bytes: int

    @classmethod
    def of(cls, name: str, joint: Joint, graph: fx.Graph) -> Part:
        return cls(
            name,
            joint.problem,
            tuple(joint.where[n][0] for n in hooks.inputs_of(graph)),
            tuple(joint.where[o][0] if isinstance(o, fx.Node) else None for o in joint.forward),
            tuple(joint.where[n][0][0] for n in hooks.tangents(graph)),
            joint.reserved_bytes - joint.tangent_bytes,
            joint.tangent_bytes,
        )

    def peaks(self, schedule: Schedule) -> tuple[int, int]:
        """The peaks of the forward and of the backward, counting ops alone; tangents die after their last read."""
        forward = self._peak((), schedule.forward, (*self.tangents, *schedule.backward))
        return forward, self._peak(schedule.forward, (*self.tangents, *schedule.backward), ())

    def _peak(self, before: Sequence[int], within: Sequence[int], after: Sequence[int]) -> int:
        """The peak within some steps. A load live during these steps that exceeds everything else makes the peak fall among them."""
        loaded = Problem(self.problem.name, order="free", alignment=self.problem.alignment)
        for i, op in enumerate(self.problem):
            loaded.append(replace(op, pinned=False, recomputable=False, phase="backward") if i in self.tangents else op)
        loaded.outputs = self.problem.outputs
        made = [loaded[step] for step in (*before, *within, *after)]
        load = sum(sum(op.bytes) + op.workspace + loaded.alignment * (len(op.bytes) + 1) for op in made)
        load += -load % loaded.alignment
        begins = loaded.add("load", bytes=load)
        ends = loaded.add("end of load", [begins])
        return Plan.from_schedule(loaded, [*before, begins, *within, ends, *after]).figures.peak_bytes - load


@dataclass(frozen=True)
class Schedule:
    """The steps of one call: those of its forward and those of its backward."""

    forward: tuple[int, ...]
    backward: tuple[int, ...]


class StepProblem:
    def __init__(self, record: Record, parts: list[Part], excess: Sequence[int] = ()) -> None:
        """parts: of each call of the record. excess: for each segment, the bytes that its code takes above the plan; empty: 0."""
        self.record, self.parts = record, parts
        self.excess = list(excess) or [0] * len(record.segments)
        self.reserved_bytes = sum(p.states_bytes for p in parts)
        forwards = [k for k, s in enumerate(record.segments) if s.is_forward]
        phased = forwards == list(range(len(forwards)))
        self.problem = Problem("step", order="phases" if phased else "free", alignment=max(p.problem.alignment for p in parts))
        self._phased = phased
        self._last_forward = forwards[-1]
        self._number: list[dict[int, int]] = [{} for _ in parts]  # by op of a part: its op here
        self._local: dict[int, tuple[int, int]] = {}  # by op here: the call, and its op there
        self._begins: list[list[int]] = []  # by segment: the ops before the graph's ops
        self._ends: list[int] = []
        self._pinned_as: dict[tuple[int, int], Read] = {}  # by input of a call: the read here that makes it
        self._holds: dict[int, list[Value]] = {}
        self._values: dict[Value, Read] = {}
        for value in record.values:
            if value.outputs or (value.given and value.died is not None):
                self._holds.setdefault(self._held_until(value), []).append(value)
        for segment in range(len(record.segments)):
            self._add_segment(segment)
        for call in range(len(parts)):
            self._add_offloads(call)
        self.problem.outputs = [self._ends[-1]]
        self.problem.forward_outputs = [end for end, s in zip(self._ends, record.segments) if s.is_forward] if phased else []

    # --- building

    def _held_until(self, value: Value) -> int:
        """The last segment in which a holder other than the graphs' backwards keeps the value. If its death does not tell, it counts as
        held during all forwards: a caller's variables live until it returns."""
        record = self.record
        last_seen = (len(record.segments) if value.died is None else value.died) - 1
        backwards = [record.segment_of(call, False) for call in value.savers]
        read_until = max((b for b in backwards if b is not None), default=-1)
        taken = [record.segment_of(call, True) or 0 for call, _ in value.arguments]
        if value.kept_between or last_seen > read_until:
            return max(last_seen, value.segment)
        return max(min(last_seen, self._last_forward), value.segment, *taken)

    def _add_segment(self, segment: int) -> None:
        call, is_forward = self.record.segments[segment].call, self.record.segments[segment].is_forward
        part, number = self.parts[call], self._number[call]
        phase = self._phase(is_forward)
        begin = self.problem.add(
            f"begin {segment}",
            [self._ends[-1]] if self._ends else [],
            bytes=[self.record.gradients[segment] + self.excess[segment], 0],
            phase=phase,
            recomputable=False,
        )
        self._begins.append([begin])
        if is_forward:
            self._add_inputs(segment, call, begin)
        else:
            self._add_tangents(segment, call, begin)
        for i, op in enumerate(part.problem):
            if op.pinned or op.is_optional or (op.phase == "forward") != is_forward:
                continue
            reads = [self._read(call, r) for r in op.reads]
            if not any(r[0] > begin for r in reads):  # it reads no op of this part, as those come after its begin
                reads.append((begin, 1))
            number[i] = self.problem.add(
                f"{op.name} of call {call}", reads, op.cost, op.bytes, phase=phase, recomputable=op.recomputable, workspace=op.workspace,
                view_of=op.view_of, may_reuse=op.may_reuse,
            )  # fmt: skip
            self._local[number[i]] = (call, i)
        if is_forward:
            for value in self.record.values:
                if value.segment == segment and value.outputs:
                    read = part.results[value.outputs[0]]
                    if read is not None and read[0] in number:
                        self._values[value] = (number[read[0]], read[1])
        wanted = self._made(call, is_forward)
        wanted += [self._values[v] for v in self._holds.get(segment, []) if v in self._values]
        self._ends.append(
            self.problem.add(
                f"end {segment}", [*dict.fromkeys(wanted), (begin, 0)], phase=phase, recomputable=False, workspace=self.record.between[segment]
            )
        )

    def _add_offloads(self, call: int) -> None:
        """Adds the alternatives of a graph: copies of its tensors to the host's memory and back."""
        number = self._number[call]
        for i, op in enumerate(self.parts[call].problem):
            if op.is_optional:
                of = op.of if op.of is None else number[op.of] if isinstance(op.of, int) else (number[op.of[0]], op.of[1])
                number[i] = self.problem.add(
                    f"{op.name} of call {call}", [self._read(call, r) for r in op.reads], bytes=op.bytes,
                    phase=self._phase(op.phase == "forward"), kind=op.kind, of=of, transfer_time=op.transfer_time,
                )  # fmt: skip
                self._local[number[i]] = (call, i)

    def _add_inputs(self, segment: int, call: int, begin: int) -> None:
        """Adds the inputs of a graph: each is a storage that the step has made, or one that is live throughout."""
        part, number = self.parts[call], self._number[call]
        given: dict[int, Value] = {}
        for value in self.record.values:
            for taker, position in value.arguments:
                if taker == call and position < len(part.arguments):
                    given[part.arguments[position][0]] = value
            if value.segment == segment and value.given and value.died is not None:
                made = self.problem.add(f"given {len(self.problem)}", [(begin, 1)], bytes=value.bytes, recomputable=False)
                self._begins[segment].append(made)
                self._values[value] = (made, 0)
        for i, op in enumerate(part.problem):
            if op.pinned:
                value = given.get(i)
                if value in self._values:
                    self._pinned_as[call, i] = self._values[value]
                else:
                    number[i] = self.problem.add(f"{op.name} of call {call}", bytes=op.bytes, pinned=True)

    def _add_tangents(self, segment: int, call: int, begin: int) -> None:
        """Adds the tangents that only this backward holds: they live until their last read."""
        ops = self.parts[call].tangents
        for tangent in self.record.tangents[segment]:
            made = self.problem.add(
                f"tangent {len(self.problem)}", [(begin, 1)], bytes=tangent.bytes, phase=self._phase(False), recomputable=False
            )
            self._begins[segment].append(made)
            for position in tangent.positions:
                if position < len(ops):
                    self._pinned_as[call, ops[position]] = (made, 0)

    def _phase(self, is_forward: bool) -> str:
        return "forward" if is_forward or not self._phased else "backward"

    def _read(self, call: int, read: Read) -> Read:
        known = self._pinned_as.get((call, read[0]))
        return known if known is not None else (self._number[call][read[0]], read[1])

    def _made(self, call: int, is_forward: bool) -> list[Read]:
        """The values that the forward must have computed, or those that the rest of the call must compute."""
        part = self.parts[call]
        number = self._number[call]
        results = {r for r in part.results if r is not None and not part.problem[r[0]].pinned}
        forward = results | {(i, len(part.problem[i].bytes) - 1) for i in part.problem.forward_outputs if i not in {r[0] for r in results}}
        wanted = forward if is_forward else set(part.problem.outputs) - forward
        return [(number[i], k) for i, k in sorted(wanted) if i in number]

    # --- planning

    def plan(self, budget: int | str, planned: Callable[[Problem, int | str], Plan]) -> Plan:
        """The plan made of the calls' schedules together. budget: bytes without the reserved ones, or "min"."""
        wanted = budget
        for _ in range(_TRIES):
            found = planned(self.problem, wanted)
            whole = self.joined(self.divide(found.schedule))
            # `joined` moves an op that the plan runs during other graphs to the begin of its own graph's backward, which may raise the
            # peak.
            excess = 0 if isinstance(budget, str) else whole.figures.peak_bytes - budget
            if excess <= 0:
                return whole
            wanted = max(0, int(wanted) - excess)
        error = CannotBeMet("the plan of the whole step could not be divided between its graphs within the budget")
        error.plan = whole
        raise error

    def divide(self, schedule: Sequence[int]) -> list[Schedule]:
        forward: list[list[int]] = [[] for _ in self.parts]
        backward: list[list[int]] = [[] for _ in self.parts]
        ends = {self._ends[k]: s for k, s in enumerate(self.record.segments)}
        into = forward.copy()
        segment = 0
        for step in schedule:
            if step in self._local:
                call, op = self._local[step]
                # If the wait for an offload comes while another graph runs, it moves to the end of its own forward, which frees the tensor
                # earlier.
                is_wait = self.parts[call].problem[op].kind == "waits_offload"
                is_late = is_wait and self.record.segments[segment].call != call
                (forward if is_late else into)[call].append(op)
            elif step in ends:
                segment += 1
                into[ends[step].call] = backward[ends[step].call] if ends[step].is_forward else []
        return [Schedule(tuple(f), tuple(b)) for f, b in zip(forward, backward)]

    def joined(self, schedules: list[Schedule]) -> Plan:
        """The plan of the step if each call follows its own schedule."""
        steps: list[int] = []
        for k, segment in enumerate(self.record.segments):
            own = schedules[segment.call].forward if segment.is_forward else schedules[segment.call].backward
            steps += [*self._begins[k], *(self._number[segment.call][op] for op in own), self._ends[k]]
        return Plan.from_schedule(self.problem, steps)

    def peak_with(self, excess: Sequence[int], schedules: list[Schedule]) -> int:
        """The peak if each call follows its own schedule and the code of each segment takes `excess` bytes above the plan."""
        return StepProblem(self.record, self.parts, excess).joined(schedules).figures.peak_bytes + self.reserved_bytes

    def in_order(self) -> Plan:
        """The plan without recomputation."""
        return Plan.from_schedule(self.problem, [i for i, op in enumerate(self.problem) if not op.pinned])
