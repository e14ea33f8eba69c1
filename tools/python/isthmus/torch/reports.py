"""Reports of the plans of graphs and steps."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from . import hooks

MIB = 1 << 20


@dataclass(frozen=True)
class GraphReport:
    """A graph's plan. Its name is PyTorch's: the number of the frame and of its compilation. Bytes are those of storages, with tangents and
    states of generators; parameters and inputs are not counted."""

    name: str
    ops: int
    budget_bytes: int | None
    """None: the least that was found."""
    baseline_peak_bytes: int
    """Without recomputation, in the order of the joint graph."""
    planned_peak_bytes: int
    lower_bound_bytes: int | None
    added_cost: float
    """The share of the step's estimated time that recomputation adds."""
    recomputed: int
    """Runs beyond the first of an op, without views."""
    saved_bytes: int
    """What the forward leaves for the backward, without parameters and inputs."""
    plan_seconds: float
    """With those of plans of which inductor's code took more than the budget."""
    symbolic: bool
    """Sizes are hints: for other ones the plan is right, and its peak another."""
    ends: str = ""
    """Where and why PyTorch ended the graph before the function that is compiled; "" where it did not."""
    sizes: tuple[tuple[str, int], ...] = ()
    """What symbolic sizes were in the call that was planned."""
    inductor_peak_bytes: int | None = None
    """What inductor's code takes, as counted in it; None: it came from a cache, or other kernels are used."""
    channels_last: bool = False
    """Convolutions were given their pictures with the channels last."""
    replans: int = 0
    """How often the graph was planned again because inductor's code took more than the budget."""

    def __str__(self) -> str:
        budget = "min" if self.budget_bytes is None else f"{self.budget_bytes / MIB:.1f} MiB"
        by_inductor = "" if self.inductor_peak_bytes is None else f", {self.inductor_peak_bytes / MIB:.1f} MiB by inductor"
        return (
            f"graph {self.name}: {self.ops} ops, budget {budget}, planned {self.planned_peak_bytes / MIB:.1f} MiB of "
            f"{self.baseline_peak_bytes / MIB:.1f} MiB{by_inductor}, {self.recomputed} recomputed, +{self.added_cost:.1%} time, "
            f"planned in {self.plan_seconds:.1f} s{', channels last' if self.channels_last else ''}{self._planned_for()}{self._break()}"
        )

    def _planned_for(self) -> str:
        if not self.symbolic:
            return ""
        return f", for {', '.join(f'{name}={size}' for name, size in self.sizes) or 'the sizes of its first call'}"

    def as_part(self) -> str:
        """Text for the graph's part of the plan of a step."""
        return (
            f"graph {self.name}: {self.ops} ops, keeps {self.saved_bytes / MIB:.1f} MiB for its backward, {self.recomputed} recomputed, "
            f"+{self.added_cost:.1%} time{self._planned_for()}{self._break()}"
        )

    def _break(self) -> str:
        return f"\n  ends early: {self.ends}" if self.ends else ""


@dataclass(frozen=True)
class StepReport:
    """The plan of a step that runs several graphs. Bytes are those of `GraphReport`, with the values that ops between the graphs keep."""

    parts: tuple[GraphReport, ...]
    """Of each call of a graph, in the order of the forwards; planned peaks are those of the graphs by themselves."""
    budget_bytes: int | None
    """None: the least that was found."""
    baseline_peak_bytes: int
    planned_peak_bytes: int
    added_cost: float
    recomputed: int
    plan_seconds: float
    inductor_peak_bytes: int | None = None
    """With what inductor's code takes above the plans of its graphs, as far as it was counted; None: other kernels are used."""
    replans: int = 0
    """How often the step was planned again because inductor's code took more than the budget."""
    is_profiled: bool = False
    """The program profiled the step, so that what ops between the graphs need was not measured, and is not in the plan. It is measured in
    the next step that is not profiled."""

    def __str__(self) -> str:
        budget = "min" if self.budget_bytes is None else f"{self.budget_bytes / MIB:.1f} MiB"
        by_inductor = "" if self.inductor_peak_bytes is None else f", {self.inductor_peak_bytes / MIB:.1f} MiB by inductor"
        lines = [
            f"step of {len(self.parts)} graphs: budget {budget}, planned {self.planned_peak_bytes / MIB:.1f} MiB of "
            f"{self.baseline_peak_bytes / MIB:.1f} MiB{by_inductor}, {self.recomputed} recomputed, "
            f"+{self.added_cost:.1%} time, planned in {self.plan_seconds:.1f} s"
        ]
        for part in self.parts:
            lines += [f"  {line}" for line in part.as_part().splitlines()]
        if self.is_profiled:
            lines.append("  what the ops between the graphs need was not measured, as the program profiled the step: it is in no plan yet")
        return "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """Everything planned since the last `reset`."""

    graphs: tuple[GraphReport, ...]
    """Each by itself, in their order. Where a step runs several, that is the plan of its first two runs."""
    steps: tuple[StepReport, ...] = ()
    larger: tuple[tuple[str, str], ...] = ()
    """Graphs that have run with larger sizes than were planned, and those sizes: their peak is not the planned one."""

    @property
    def planned_peak_bytes(self) -> int:
        """The peak of the newest plan of a whole step; without one, of the largest graph."""
        return self.steps[-1].planned_peak_bytes if self.steps else max((g.planned_peak_bytes for g in self.graphs), default=0)

    def __str__(self) -> str:
        if not self.graphs:
            return "nothing has been planned: no graph with a backward was compiled"
        in_steps = {part.name for step in self.steps for part in step.parts}
        alone = [str(g) for g in self.graphs if g.name not in in_steps]
        frames = {g.name.partition("/")[0] for g in self.graphs}
        lines = [*map(str, self.steps), *alone]
        for name, sizes in self.larger:
            lines.append(f"graph {name} has run with larger sizes than was planned, {sizes}: its peak may be above the budget")
        if alone and len(frames) > 1:
            lines.append("a step that runs several graphs is planned as one when it has run twice")
        return "\n".join(lines)


_lock = threading.Lock()
_graphs: list[GraphReport] = []
_steps: list[StepReport] = []
_larger: dict[str, dict[str, int]] = {}
_symbolic = False


def add(graph: GraphReport, in_place_of: GraphReport | None = None) -> None:
    """in_place_of: the earlier report of a graph that was planned again."""
    with _lock:
        for k, other in enumerate(_graphs):
            if other is in_place_of:
                _graphs[k] = graph
                return
        _graphs.append(graph)


def add_step(step: StepReport) -> None:
    """In place of an earlier one of the same graphs that is not all that can be known."""
    names = [part.name for part in step.parts]
    with _lock:
        for k, other in enumerate(_steps):
            if other.is_profiled and [part.name for part in other.parts] == names:
                _steps[k] = step
                return
        _steps.append(step)


def note_larger(graph: str, sizes: dict[str, int]) -> bool:
    """Notes a call of a graph with larger sizes than it was planned for. Returns True for the first such call."""
    with _lock:
        known = _larger.setdefault(graph, {})
        is_first = not known
        known.update({name: max(size, known.get(name, 0)) for name, size in sizes.items()})
        return is_first


def is_first_symbolic() -> bool:
    """True for the first call since the last `reset`."""
    global _symbolic
    with _lock:
        was, _symbolic = _symbolic, True
        return not was


def next_name() -> str:
    """The name of a graph that is being compiled: PyTorch's, with a number if PyTorch cuts one graph into several."""
    name = hooks.compilation() or "stock"
    with _lock:
        others = sum(g.name == name or g.name.startswith(f"{name}.") for g in _graphs)
    return f"{name}.{others}" if others else name


def report() -> Report:
    """Everything planned since the last `reset`. Graphs are compiled at the first step, so ask after it."""
    with _lock:
        larger = tuple((name, ", ".join(f"{n}={size}" for n, size in sizes.items())) for name, sizes in _larger.items())
        return Report(tuple(_graphs), tuple(_steps), larger)


def reset() -> None:
    global _symbolic
    with _lock:
        _graphs.clear()
        _steps.clear()
        _larger.clear()
        _symbolic = False
