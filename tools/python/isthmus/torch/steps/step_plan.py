"""Makes one plan for a step that runs several graphs.

The problem of the step is the concatenation of the forwards and backwards of its graphs, in the order in which the step ran them. Each
forward or backward stands between two ops, "begin" and "end"; its ops that read no other op of the same part read the "begin". So the values
that a graph saves for its backward live while other graphs run. A result of a graph lives as long as was recorded; if another graph takes
it, both refer to the same storage. Gradients, and values that ops between the graphs save for their own backwards, also live as long as was
recorded. What else was live in the recorded step, because ops outside of the graphs made it, is measured: `Outside` is what the
measured live bytes are above those of this problem under the recorded step's own schedules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import fx

from ...errors import CannotBeMet
from ...planning import Plan, live_bytes
from ...problem import Problem
from .. import hooks
from ..graph.joint import Joint, Read, cost_of, storage_in
from ..graph.places import named, why_once
from ..graph.program import as_it_runs
from ..plans.refusal import Peak, peak_at
from .recording import Record, Value

_TRIES = 3
_SCALARS = 256
"""Bytes of numbers that PyTorch makes by itself, which differ from step to step."""


@dataclass(frozen=True)
class Part:
    """A graph's problem, and the ops and reads that stand for its arguments, results and tangents."""

    name: str
    problem: Problem
    arguments: tuple[Read, ...]
    """The read that stands for each argument of the forward in the problem."""
    results: tuple[Read | None, ...]
    """The read that stands for each result of the forward; None for a constant."""
    tangents: tuple[int, ...]
    """The ops that stand for the tangents."""
    states_bytes: int
    """The bytes reserved for generator states, from the begin of the forward to the end of the backward."""
    tangents_bytes: int
    ends: str = ""
    """Where and why the graph ends before its function does."""
    late_reads: Mapping[int, Sequence[Read]] = field(default_factory=dict)
    """Those of its `Joint`."""
    names: tuple[str, ...] = ()
    """For each op, its name and module."""
    why_once: tuple[str, ...] = ()
    """For each op, why it may not run again; "": it may."""
    as_it_runs: Schedule = field(default_factory=lambda: Schedule((), ()))
    """The schedule of the program by itself."""
    whole: Part | None = None
    """The part without chunks, if regions of the graph run chunk by chunk."""

    @classmethod
    def of(cls, name: str, joint: Joint, graph: fx.Graph, ends: str = "") -> Part:
        return cls(
            name,
            joint.problem,
            tuple(joint.where[n][0] for n in hooks.inputs_of(graph)),
            tuple(joint.where[o][0] if isinstance(o, fx.Node) else None for o in joint.forward),
            tuple(joint.where[n][0][0] for n in hooks.tangents(graph)),
            joint.reserved_bytes - joint.tangent_bytes,
            joint.tangent_bytes,
            ends,
            joint.late_reads,
            tuple(named(joint, i) for i in range(len(joint.problem))),
            tuple(why_once(joint, i) for i in range(len(joint.problem))),
            Schedule.of_program(joint),
            None if joint.whole is None else cls.of(name, *joint.whole, ends),
        )

    @property
    def late_bytes(self) -> int:
        """The most bytes that a collective may hold after its wait: how long depends on the threads of its process group."""

        def size(read: Read) -> int:
            op, output = storage_in(self.problem, read)
            return 0 if self.problem[op].pinned else self.problem[op].bytes[output]

        return max((sum(map(size, reads)) for reads in self.late_reads.values()), default=0)

    def dropping_early(self) -> Part:
        """Returns the same part, in which collectives drop tensors when their wait ends. It needs the least bytes that a step can have needed."""
        if not any(self.late_reads.values()):
            return self
        problem = Problem(self.problem.name, order=self.problem.order, alignment=self.problem.alignment)
        for i, op in enumerate(self.problem):
            problem.append(replace(op, reads=tuple(r for r in op.reads if r not in self.late_reads.get(i, ()))))
        problem.outputs, problem.forward_outputs = self.problem.outputs, self.problem.forward_outputs
        return replace(self, problem=problem, late_reads={})

    def peaks(self, schedule: Schedule) -> tuple[int, int]:
        """Returns the peaks of the forward and of the backward, without generator states. Tangents die after their last read."""
        forward = self._peak((), schedule.forward, (*self.tangents, *schedule.backward))
        return forward, self._peak(schedule.forward, (*self.tangents, *schedule.backward), ())

    def _peak(self, before: Sequence[int], within: Sequence[int], after: Sequence[int]) -> int:
        """Returns the peak of the steps `within`."""
        problem = Problem(self.problem.name, order="free", alignment=self.problem.alignment)
        for i, op in enumerate(self.problem):
            problem.append(replace(op, pinned=False, recomputable=False, phase="backward") if i in self.tangents else op)
        problem.outputs = self.problem.outputs
        live = live_bytes(problem, [*before, *within, *after])
        return max(live[len(before) : len(before) + len(within)], default=0)


@dataclass(frozen=True)
class Schedule:
    """The schedule of one call: the ops that its forward runs, and those that its backward runs."""

    forward: tuple[int, ...]
    backward: tuple[int, ...]

    @classmethod
    def of_program(cls, joint: Joint) -> Schedule:
        """Returns the schedule of the program by itself. The forward ends before the first op that only the backward can run, or that runs again."""
        schedule, missing, ran = as_it_runs(joint), set(joint.problem.forward_outputs), set()
        for position, op in enumerate(schedule):
            if not missing and (op in ran or joint.problem[op].phase == "backward"):
                return cls(tuple(schedule[:position]), tuple(schedule[position:]))
            ran.add(op)
            missing.discard(op)
        return cls(tuple(schedule), ())


class Retraced(BaseException):
    """A graph that PyTorch has traced again is another one than was planned, because PyTorch knows more by now, such as that two symbolic sizes
    are equal. It is no Exception, because PyTorch would wrap one."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph


@dataclass(frozen=True)
class Outside:
    """Bytes of a step that no graph's problem explains, by segment."""

    beside: tuple[int, ...]
    """The bytes that are live from the begin of a segment to its end."""
    after: tuple[int, ...]
    """The bytes that ops need between a segment and the next one, or the end of the step, beyond what is live at the segment's end."""
    first: int = 0
    """The peak before the first segment."""

    def scaled(self, factor: float) -> Outside:
        def grown(sizes: Sequence[int]) -> tuple[int, ...]:
            return tuple(math.ceil(size * factor) for size in sizes)

        return Outside(grown(self.beside), grown(self.after), *grown([self.first]))

    @classmethod
    def none(cls, record: Record) -> Outside:
        zeros = (0,) * len(record.segments)
        return cls(zeros, zeros)


@dataclass(frozen=True)
class _Explained:
    """The live bytes of a segment: at its begin, their peak, and at its end."""

    begin: int
    peak: int
    end: int


class StepProblem:
    def __init__(self, record: Record, parts: list[Part], outside: Outside | None = None, excess: Sequence[int] = ()) -> None:
        """parts: one for each call of the record. excess: for each segment, the bytes that its code takes above the plan; empty: 0."""
        self.record, self.parts = record, parts
        self.outside = outside or Outside.none(record)
        self.excess = list(excess) or [0] * len(record.segments)
        forwards = [k for k, s in enumerate(record.segments) if s.is_forward]
        phased = forwards == list(range(len(forwards)))
        self.problem = Problem("step", order="phases" if phased else "free", alignment=max(p.problem.alignment for p in parts))
        self._phased = phased
        self._last_forward = forwards[-1]
        self._number: list[dict[int, int]] = [{} for _ in parts]  # for each call, by op of its part: the op here
        self._local: dict[int, tuple[int, int]] = {}  # by op here: the call, and the op of its part
        self._begins: list[list[int]] = []  # for each segment, the ops before the graph's ops
        self._ends: list[int] = []
        self._pinned_as: dict[tuple[int, int], Read] = {}  # by call and input: the read that stands for it here
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

    @property
    def cost(self) -> float:
        """The microseconds of the graphs' ops without recomputation."""
        return sum(cost_of(part.problem) for part in self.parts)

    # --- building

    def _held_until(self, value: Value) -> int:
        """Returns the last segment in which anything but the graphs' backwards keeps the value alive. If only a backward is known to keep
        it, it counts as kept until the last forward at most, because the caller's variables live until the caller returns."""
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
            bytes=[self.record.gradients[segment] + self.excess[segment] + self.outside.beside[segment], 0, part.states_bytes if is_forward else 0],
            phase=phase,
            recomputable=False,
            workspace=0 if segment else max(0, self.outside.first - self.outside.beside[0]),
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
            if not any(r[0] > begin for r in reads):  # it reads no op of this part
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
        if not is_forward:
            wanted.append((self._begins[self.record.segment_of(call, True) or 0][0], 2))
        self._ends.append(
            self.problem.add(
                f"end {segment}", [*dict.fromkeys(wanted), (begin, 0)], phase=phase, recomputable=False, workspace=self.outside.after[segment]
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
        """Adds the inputs of a graph. Each is a storage that was made during the step, or one that is pinned."""
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
        """Adds the tangents that only this backward keeps alive: they live until their last read."""
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
        """Returns the reads of the values that the forward must compute, or of those that the backward must compute."""
        part = self.parts[call]
        number = self._number[call]
        results = {r for r in part.results if r is not None and not part.problem[r[0]].pinned}
        forward = results | {(i, len(part.problem[i].bytes) - 1) for i in part.problem.forward_outputs if i not in {r[0] for r in results}}
        wanted = forward if is_forward else set(part.problem.outputs) - forward
        return [(number[i], k) for i, k in sorted(wanted) if i in number]

    # --- planning

    def peak(self, schedule: Sequence[int]) -> Peak:
        """Returns what is live at the peak of a schedule of the step."""
        live = live_bytes(self.problem, schedule)
        at = max(range(len(live)), key=live.__getitem__)
        ends = set(self._ends)
        segment = sum(step in ends for step in schedule[:at])
        of = self.record.segments[segment]
        made = () if of.is_forward else self._made(of.call, False)
        return peak_at(self.problem, schedule, at, live[at], made, self._told, self.record.gradients[segment])

    def _told(self, step: int) -> tuple[str, str]:
        """Returns the name of an op and its module, and why it may not run again; "" for one that stands for something outside of the graphs."""
        call, op = self._local.get(step, (0, -1))
        return ("", "") if op < 0 else (self.parts[call].names[op], self.parts[call].why_once[op])

    def plan(self, budget: int | str, planned: Callable[[Problem, int | str], Plan]) -> Plan:
        """Plans the step and returns the plan of its calls' schedules. budget: bytes, or "min". Raises CannotBeMet."""
        wanted = budget
        for _ in range(_TRIES):
            found = planned(self.problem, wanted)
            whole = self.joined(self.divide(found.schedule))
            # An op that the plan runs during other graphs is moved to the begin of its own graph's backward, which may raise the peak.
            excess = 0 if isinstance(budget, str) else whole.figures.peak_bytes - budget
            if excess <= 0:
                return whole
            wanted = max(0, int(wanted) - excess)
        raise CannotBeMet.having("the plan of the whole step could not be divided between its graphs within the budget", whole)

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
        """Returns the plan of the step in which each call follows its own schedule."""
        return Plan.from_schedule(self.problem, self.steps(schedules))

    def steps(self, schedules: list[Schedule]) -> list[int]:
        """Returns the schedule of the step in which each call follows its own schedule."""
        return self._steps(schedules)[0]

    def _steps(self, schedules: list[Schedule]) -> tuple[list[int], list[int]]:
        """Returns the schedule of the step, and the position of the end of each segment in it."""
        steps: list[int] = []
        ends = []
        for k, segment in enumerate(self.record.segments):
            own = schedules[segment.call].forward if segment.is_forward else schedules[segment.call].backward
            steps += [*self._begins[k], *(self._number[segment.call][op] for op in own), self._ends[k]]
            ends.append(len(steps) - 1)
        return steps, ends

    def with_excess(self, excess: Sequence[int]) -> StepProblem:
        """Returns the same problem, in which the code of each segment takes `excess` bytes above the plan."""
        return StepProblem(self.record, self.parts, self.outside, excess)

    def peak_with(self, excess: Sequence[int], schedules: list[Schedule]) -> int:
        """Returns the peak if each call follows its own schedule and the code of each segment takes `excess` bytes above the plan."""
        return self.with_excess(excess).joined(schedules).figures.peak_bytes

    def with_outside(self, schedules: list[Schedule], excess: Sequence[int], *, with_left: bool) -> StepProblem:
        """Returns the same problem with what was measured outside of the graphs. schedules: those that the recorded step ran. excess: for each segment,
        the bytes that their code takes above the plan. with_left: also count the gradients of earlier backwards."""
        timeline, measured = self.record.timeline, self.record.measured_segments
        if timeline is None or not self.record.is_measured:
            return self
        # What collectives may hold is in the plan already. The recorded step may not have held it, so it must not hide what is outside.
        early = StepProblem(self.record, [p.dropping_early() for p in self.parts])
        own, last = early._explained(schedules), len(self.record.segments) - measured
        with_code = early.with_excess(excess)._explained(schedules) if any(excess) else own
        peaks = [segment.peak for segment in with_code]
        beside, after = [], []
        for k in range(measured):
            begin = timeline.levels[2 * k]
            inner, gap = timeline.peaks[2 * k : 2 * k + 2]
            beside.append(max(0, begin - own[k].begin, inner - peaks[k]) + _SCALARS)
            after.append(max(0, gap - own[k].end - beside[k]))
            beside[k] += self.record.left[k] if with_left else 0
        return StepProblem(
            self.record, self.parts, Outside((*beside, *[beside[-1]] * last), (*after, *[0] * last), timeline.first_peak), self.excess
        )

    def _explained(self, schedules: list[Schedule]) -> list[_Explained]:
        """Returns what this problem says of each segment, if the calls follow these schedules."""
        steps, ends = self._steps(schedules)
        live = live_bytes(self.problem, steps)
        found, begin = [], 0
        for segment, end in enumerate(ends):
            begin += len(self._begins[segment]) - 1
            inner = live[begin : end + 1]
            found.append(_Explained(inner[0], max(inner), inner[-1]))
            begin = end + 1
        return found

    def in_order(self) -> Plan:
        """Returns the plan without recomputation."""
        return Plan.from_schedule(self.problem, [i for i, op in enumerate(self.problem) if not op.pinned])
