"""What was planned for each graph."""

from __future__ import annotations

import threading
from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class GraphReport:
    """A graph's plan. Its name is PyTorch's: which frame, and which of its compilations. Bytes are those of storages, with tangents and states of generators; parameters and inputs are not counted."""

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
    symbolic: bool
    """Sizes are hints: for other ones the plan is right, and its peak another."""
    inductor_peak_bytes: int | None = None
    """What inductor's code takes, as counted in it; None: it came from a cache, or other kernels are used."""

    def __str__(self) -> str:
        budget = "min" if self.budget_bytes is None else f"{self.budget_bytes / MIB:.1f} MiB"
        by_inductor = "" if self.inductor_peak_bytes is None else f", {self.inductor_peak_bytes / MIB:.1f} MiB by inductor"
        return (
            f"graph {self.name}: {self.ops} ops, budget {budget}, planned {self.planned_peak_bytes / MIB:.1f} MiB of "
            f"{self.baseline_peak_bytes / MIB:.1f} MiB{by_inductor}, {self.recomputed} recomputed, +{self.added_cost:.1%} time, "
            f"planned in {self.plan_seconds:.1f} s{', sizes are hints' if self.symbolic else ''}"
        )


@dataclass(frozen=True)
class Report:
    """Of all graphs that were planned since the last `reset`, in their order."""

    graphs: tuple[GraphReport, ...]

    @property
    def planned_peak_bytes(self) -> int:
        """Of the largest. Where a step breaks into several graphs, what one leaves for its backward lives while the next ones run,
        so a step may need as much as their sum."""
        return max((g.planned_peak_bytes for g in self.graphs), default=0)

    def __str__(self) -> str:
        if not self.graphs:
            return "nothing has been planned: no graph with a backward was compiled"
        lines = [str(g) for g in self.graphs]
        frames = {g.name.partition("/")[0] for g in self.graphs}
        if len(frames) > 1:
            lines.append(f"the step breaks into {len(frames)} graphs, each with the budget to itself (fullgraph=True names the breaks)")
        return "\n".join(lines)


_lock = threading.Lock()
_graphs: list[GraphReport] = []


def add(graph: GraphReport, in_place_of: GraphReport | None = None) -> None:
    """in_place_of: one of a graph that was planned again."""
    with _lock:
        for k, other in enumerate(_graphs):
            if other is in_place_of:
                _graphs[k] = graph
                return
        _graphs.append(graph)


def count() -> int:
    return len(_graphs)


def report() -> Report:
    """What was planned since the last `reset`. Graphs are compiled at the first step, so ask after it."""
    with _lock:
        return Report(tuple(_graphs))


def reset() -> None:
    """Forgets the graphs so far. Beside it, `torch.compiler.reset()` makes PyTorch compile again."""
    with _lock:
        _graphs.clear()
