"""Collects the reports of the plans of graphs and steps."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from . import hooks
from .amounts import MIB, in_mib, share
from .device.ledger import Ledger
from .least import Least

NOTED = 0.01
"""A measured peak that is within the budget, and up to this share above the plan, counts as planned."""
UNBOUNDED = (
    "has sizes that depend on the data and of which it is not known how large they may be: its peak may be above the budget; "
    "torch._check(size <= most) tells it"
)


@dataclass(frozen=True)
class GraphReport:
    """The plan of a graph. Its name consists of PyTorch's numbers of the frame and of the compilation. Bytes are those of storages, with
    tangents and generator states, without parameters and inputs."""

    name: str
    ops: int
    budget_bytes: int | None
    """None: the least peak that was found."""
    baseline_peak_bytes: int
    """The peak without recomputation, in the order of the joint graph."""
    program_peak_bytes: int
    """The peak as the program runs by itself: with what it checkpoints. A share is one of this."""
    planned_peak_bytes: int
    lower_bound_bytes: int | None
    added_cost: float
    """The time that recomputation adds, as a share of the step's estimated time."""
    recomputed: int
    """The number of runs of ops beyond their first; views are not counted."""
    saved_bytes: int
    """The bytes that the forward saves for the backward, without parameters and inputs."""
    plan_seconds: float
    """The time to plan, including plans with which inductor's code exceeded the budget."""
    symbolic: bool
    """True: sizes are hints. For other sizes the results are correct, but the peak differs."""
    unbounded: bool = False
    """True: some sizes depend on the data, such as a number that `item` returns, and it is not known how large they may be. They were planned as
    1, so the planned peak is no promise."""
    ends: str = ""
    """Where and why the graph ends before the compiled function does; "" if it reaches the function's end."""
    sizes: tuple[tuple[str, int], ...] = ()
    """The names of symbolic sizes, and their values in the call that was planned."""
    largest_below: tuple[str, ...] = ()
    """The ops whose tensors may be larger for smaller sizes than those that were planned. They are counted with the most that they can be."""
    inductor_peak_bytes: int | None = None
    """The peak of inductor's code; None: other kernels are used, or the backward is not compiled yet."""
    channels_last: bool = False
    """True: convolutions get their pictures with the channels last."""
    replans: int = 0
    """How often the graph was planned again because inductor's code exceeded the budget."""
    transfers: int = 0
    """The number of copies to the host's memory plus the number of copies back."""
    host_bytes: int = 0
    """The bytes of the host's memory that these copies take."""
    chunks: tuple[str, ...] = ()
    """What runs chunk by chunk."""
    left_whole: tuple[str, ...] = ()
    """Large results of the forward, which must exist whole although chunks are allowed."""
    chunks_end: tuple[str, ...] = ()
    """The ops at which the parts end that could run chunk by chunk, with their lines and why, if chunks are allowed."""
    measured_peak_bytes: int | None = None
    """The measured peak of a step that is this graph alone; None: not measured, or the graph is one of several."""
    step_us: float = 0.0
    """The estimated or measured time of the step without recomputation, in microseconds."""
    parameter_bytes: int = 0
    """The bytes of parameters and buffers that the graph reads. No peak has them, since they are there before the step."""
    gradient_bytes: int = 0
    """The bytes of the gradients that the graph hands out. They are part of the peak, and no plan saves them."""
    least: Least | None = field(default=None, compare=False, repr=False)
    """The least peak that a plan of this graph has."""

    @property
    def recompute_overhead(self) -> float:
        """The same as `added_cost`, by the name that it has in the reports of the command line."""
        return self.added_cost

    @property
    def graph_breaks(self) -> list[str]:
        return [self.ends] if self.ends else []

    def __str__(self) -> str:
        budget = "min" if self.budget_bytes is None else f"{self.budget_bytes / MIB:.1f} MiB"
        by_inductor = "" if self.inductor_peak_bytes is None else f", {self.inductor_peak_bytes / MIB:.1f} MiB by inductor"
        return (
            f"graph {self.name}: {self.ops} ops, budget {budget}, planned {self.planned_peak_bytes / MIB:.1f} MiB of "
            f"{_whole(self)}{by_inductor}{_measured(self.measured_peak_bytes)}, {self.recomputed} recomputed"
            f"{self._copies()}, "
            f"{_time(self)}, planned in {self.plan_seconds:.1f} s{', channels last' if self.channels_last else ''}"
            f"{self._planned_for()}{_least(self)}{self._held()}{self._in_chunks()}{self._break()}"
        )

    def _planned_for(self) -> str:
        if self.unbounded:
            return ", without sizes that depend on the data"
        if not self.symbolic:
            return ""
        return f", for {', '.join(f'{name}={size}' for name, size in self.sizes) or 'the sizes of its first call'}"

    def as_part(self) -> str:
        """Returns the text for this graph in the report of a step."""
        return (
            f"graph {self.name}: {self.ops} ops, keeps {self.saved_bytes / MIB:.1f} MiB for its backward, {self.recomputed} recomputed"
            f"{self._copies()}, {_time(self)}{self._planned_for()}{self._held()}{self._in_chunks()}{self._break()}"
        )

    def _held(self) -> str:
        return f"\n  gradients take {in_mib(self.gradient_bytes)} of the peak, and parameters and buffers {in_mib(self.parameter_bytes)} beside it"

    def _in_chunks(self) -> str:
        lines = [f"\n  in chunks: {each}" for each in self.chunks]
        if self.left_whole:
            lines.append(f"\n  not in chunks, as the caller gets it whole: {', '.join(self.left_whole)}; if that is for a loss, compile the loss with it")
        lines += [f"\n  chunks end at {each}" for each in self.chunks_end]
        return "".join(lines)

    def _copies(self) -> str:
        return f", {self.transfers} copies to the host and back ({self.host_bytes / MIB:.1f} MiB)" if self.transfers else ""

    def _break(self) -> str:
        return f"\n  ends early: {self.ends}" if self.ends else ""


@dataclass(frozen=True)
class StepReport:
    """The plan of a step that runs several graphs, or more than its only graph. Bytes are counted as in `GraphReport`, plus all that ops outside of the
    graphs make from the end of the last backward on."""

    parts: tuple[GraphReport, ...]
    """A report for each call of a graph, in the order of the forwards; its planned peak is that of the graph alone."""
    budget_bytes: int | None
    """None: the least peak that was found."""
    baseline_peak_bytes: int
    program_peak_bytes: int
    """The peak as the program runs by itself: with what it checkpoints. A share is one of this."""
    planned_peak_bytes: int
    added_cost: float
    recomputed: int
    plan_seconds: float
    inductor_peak_bytes: int | None = None
    """The peak with the bytes that inductor's code takes above the plans of the graphs, as far as known; None: other kernels are used."""
    replans: int = 0
    """How often the step was planned again because inductor's code exceeded the budget."""
    is_profiled: bool = False
    """The program profiled the step, so that what ops between the graphs need was not measured, and is not in the plan. It is measured in
    the next step that is not profiled."""
    is_foreseen: bool = False
    """The step runs with larger sizes than were recorded. What ops between the graphs need was assumed to grow in proportion, until it is measured."""
    measured_peak_bytes: int | None = None
    """The measured peak of a step that ran this plan; None: not measured yet."""
    outside: tuple[str, ...] = ()
    """What ops outside of the graphs need, and where; it is part of the planned peak."""
    step_us: float = 0.0
    """The estimated or measured time of the step without recomputation, in microseconds."""
    most_waiting: int = 0
    """The most forwards that wait for their backwards at the same time."""
    least: Least | None = field(default=None, compare=False, repr=False)
    """The least peak that a plan of this step has."""

    def __str__(self) -> str:
        budget = "min" if self.budget_bytes is None else f"{self.budget_bytes / MIB:.1f} MiB"
        by_inductor = "" if self.inductor_peak_bytes is None else f", {self.inductor_peak_bytes / MIB:.1f} MiB by inductor"
        lines = [
            f"step of {len(self.parts)} graph{'s' if len(self.parts) > 1 else ''}{self._waiting()}: budget {budget}, planned {self.planned_peak_bytes / MIB:.1f} MiB of "
            f"{_whole(self)}{by_inductor}{_measured(self.measured_peak_bytes)}, {self.recomputed} recomputed, "
            f"{_time(self)}, planned in {self.plan_seconds:.1f} s{_least(self)}"
        ]
        for text, calls in Counter(part.as_part() for part in self.parts).items():
            lines += [f"  {line}" for line in f"{f'{calls} times ' if calls > 1 else ''}{text}".splitlines()]
        lines += [f"  outside of the graphs: {each}" for each in self.outside]
        if self.is_profiled:
            lines.append("  what the ops between the graphs need was not measured, as the program profiled the step: it is in no plan yet")
        if self.is_foreseen:
            lines.append("  what the ops between the graphs need is foreseen from smaller sizes, until it is measured")
        return "\n".join(lines)

    def _waiting(self) -> str:
        """Says how many micro-batches are in flight, if the step is more than all forwards and then all backwards."""
        return f", of which up to {self.most_waiting} wait for their backwards" if 0 < self.most_waiting < len(self.parts) else ""


def _whole(report: GraphReport | StepReport) -> str:
    """Returns what the planned peak is a part of."""
    text = f"{report.baseline_peak_bytes / MIB:.1f} MiB"
    if report.program_peak_bytes == report.baseline_peak_bytes:
        return text
    return f"{report.program_peak_bytes / MIB:.1f} MiB as the program runs it ({text} without its checkpoints)"


def _time(report: GraphReport | StepReport) -> str:
    added = max(0.0, report.added_cost)
    return f"+{added:.1%} time ({added * report.step_us / 1e3:.2f} ms of {report.step_us / 1e3:.2f} ms)"


def _least(report: GraphReport | StepReport) -> str:
    return "" if report.least is None or report.budget_bytes is None else f"\n  {report.least}"


def _measured(peak: int | None) -> str:
    return "" if peak is None else f", measured {peak / MIB:.1f} MiB"


@dataclass(frozen=True)
class Report:
    """All plans since the last `reset`."""

    graphs: tuple[GraphReport, ...]
    """The plan of each graph alone, in the order of compilation. A step that runs several graphs uses these plans in its first two runs."""
    steps: tuple[StepReport, ...] = ()
    larger: tuple[tuple[str, str], ...] = ()
    """The names of graphs that have run with larger sizes than planned, and those sizes. Their peaks may exceed the planned ones."""
    totals: tuple[Ledger, ...] = ()
    """For each total that was given: what of it is left to a step, and what takes the rest."""

    @property
    def planned_peak_bytes(self) -> int:
        """The peak of the newest plan of a whole step; without such a plan, the largest peak of a graph."""
        return self.steps[-1].planned_peak_bytes if self.steps else max((g.planned_peak_bytes for g in self.graphs), default=0)

    def __iter__(self) -> Iterator[GraphReport]:
        """Yields the graphs of the newest plan of a step, with its budget, and planned and measured peak; without such a plan, all graphs."""
        if not self.steps:
            yield from self.graphs
            return
        step = self.steps[-1]
        for part in step.parts:
            yield replace(
                part, budget_bytes=step.budget_bytes, planned_peak_bytes=step.planned_peak_bytes, measured_peak_bytes=step.measured_peak_bytes
            )

    def __len__(self) -> int:
        return len(self.steps[-1].parts if self.steps else self.graphs)

    def __getitem__(self, k: int) -> GraphReport:
        return list(self)[k]

    def __str__(self) -> str:
        if not self.graphs:
            failed = hooks.uncompiled()
            why = f"; PyTorch could not compile {'; '.join(failed)}" if failed else ""
            return f"nothing has been planned: no graph with a backward was compiled{why}"
        in_steps = {part.name for step in self.steps for part in step.parts}
        alone = [str(g) for g in self.graphs if g.name not in in_steps]
        frames = {g.name.partition("/")[0] for g in self.graphs}
        lines = [*map(str, self.totals), *map(str, self.steps), *alone]
        for name, sizes in self.larger:
            lines.append(f"graph {name} has run with larger sizes than was planned, {sizes}: its peak may be above the budget")
        if alone and len(frames) > 1:
            lines.append("a step that runs several graphs is planned as one when it has run twice")
        return "\n".join(lines)


_lock = threading.Lock()
_graphs: list[GraphReport] = []
_steps: list[StepReport] = []
_larger: dict[str, dict[str, int]] = {}
_totals: dict[int, Ledger] = {}
_symbolic = False


def add(graph: GraphReport, in_place_of: GraphReport | None = None) -> None:
    """Adds a report. in_place_of: the earlier report to replace, if the graph was planned again."""
    with _lock:
        for k, other in enumerate(_graphs):
            if other is in_place_of:
                _graphs[k] = graph
                return
        _graphs.append(graph)


def add_step(step: StepReport, in_place_of: StepReport | None = None) -> None:
    """Adds a report. in_place_of: the earlier report to replace, if the step was planned again."""
    with _lock:
        if in_place_of is not None and in_place_of in _steps:
            _steps.remove(in_place_of)
        _steps.append(step)


Reported = TypeVar("Reported", GraphReport, StepReport)


def is_as_planned(report: Reported, peak: int) -> bool:
    """Returns True if a measured peak is not above the planned one, or so little that it counts as planned."""
    planned, budget = report.planned_peak_bytes, report.budget_bytes
    return peak <= planned or peak <= planned * (1 + NOTED) and (budget is None or peak <= budget)


def measured(report: Reported, peak: int) -> Reported:
    """Notes the measured peak of a step in its report, or in that of its only graph. Returns the new report."""
    planned = report.planned_peak_bytes
    return _replaced(report, replace(report, measured_peak_bytes=peak, planned_peak_bytes=max(planned, peak) if is_as_planned(report, peak) else planned))


def budgeted(report: Reported, budget_bytes: int) -> Reported:
    """Notes another budget, which the plan keeps too. Returns the new report."""
    return _replaced(report, replace(report, budget_bytes=budget_bytes))


def _replaced(report: Reported, new: Reported) -> Reported:
    with _lock:
        for reported in (_graphs, _steps):
            for k, other in enumerate(reported):
                if other is report:
                    reported[k] = new  # type: ignore[assignment]
    return new


def note_total(key: int, ledger: Ledger) -> None:
    """Notes what a total leaves to a step, in place of what was noted with this key."""
    with _lock:
        _totals[key] = ledger


def note_larger(graph: str, sizes: dict[str, int]) -> bool:
    """Notes a call of a graph with larger sizes than it was planned for. Returns True for the first such call."""
    with _lock:
        known = _larger.setdefault(graph, {})
        is_first = not known
        known.update({name: max(size, known.get(name, 0)) for name, size in sizes.items()})
        return is_first


def is_first_symbolic() -> bool:
    """Returns True for the first call since the last `reset`."""
    global _symbolic
    with _lock:
        was, _symbolic = _symbolic, True
        return not was


def next_name() -> str:
    """Returns the name of the graph that is being compiled: PyTorch's, with a number if PyTorch splits one graph into several."""
    name = hooks.compilation() or "stock"
    with _lock:
        others = sum(g.name == name or g.name.startswith(f"{name}.") for g in _graphs)
    return f"{name}.{others}" if others else name


def report() -> Report:
    """Returns all plans since the last `reset`, with planned and measured peaks. Call it after the first step, in which graphs are compiled.

    The peak of an iteration is the largest number of live bytes of the tensors that it has made: all since the backward before it and the optimizer's step, without
    what was there at that time (parameters, inputs, the optimizer's state). `measured_peak` measures the same.
    """
    with _lock:
        larger = tuple((name, ", ".join(f"{n}={size}" for n, size in sizes.items())) for name, sizes in _larger.items())
        return Report(tuple(_graphs), tuple(_steps), larger, tuple(_totals.values()))


def reset() -> None:
    global _symbolic
    with _lock:
        _graphs.clear()
        _steps.clear()
        _larger.clear()
        _totals.clear()
        _symbolic = False
