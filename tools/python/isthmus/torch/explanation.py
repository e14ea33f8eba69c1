"""Explains a plan: what it does with each tensor that the backward reads, the cost of smaller peaks, and a drawing of the graph."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from ..budget import BudgetLike
from ..errors import BadInput, CannotBeMet, Error
from ..planning import Plan
from . import hooks, pages
from .device import ledger, total
from .drawing import dot_of
from .folding import folded, template
from .graph.joint import Joint
from .graph.places import module_of
from .options import Options
from .plans.attempt import Alone, Attempt, Origin
from .plans.learned import Made
from .plans.planner import Planner
from .plans.refusal import Peak, peak_of
from .reports import MIB, GraphReport

_SHARES = (90, 80, 70, 60, 50, 40, 30)


@dataclass(frozen=True)
class Tensor:
    """The tensors that an op of the forward makes and the backward reads, usually one."""

    name: str
    op: str
    module: str
    """The module of the model whose forward ran the op; "" if unknown."""
    bytes: int
    runs: int
    """How often the op runs in a step."""
    us: float
    """The estimated or measured time of all runs beyond the first, in microseconds."""
    fetched: int = 0
    """The number of copies back from the host's memory."""
    run_us: float = 0.0
    """The estimated or measured time of one run, in microseconds."""

    @property
    def is_kept(self) -> bool:
        """Returns True if it is neither recomputed nor fetched."""
        return self.runs == 1 and not self.fetched


@dataclass(frozen=True)
class Price:
    """The time that recomputation adds for a peak, as a share of the step's time."""

    peak_bytes: int
    added_cost: float


@dataclass(frozen=True)
class GraphExplanation:
    report: GraphReport
    tensors: tuple[Tensor, ...]
    """The tensors that the backward reads, the largest first."""
    prices: tuple[Price, ...]
    """The prices of plans for smaller and smaller budgets, down to the least."""
    peak: Peak | None = None
    """What is live at the peak of the plan."""
    _made: Made | None = field(repr=False, compare=False, default=None)

    def __str__(self) -> str:
        again = [t for t in self.tensors if t.runs > 1]
        fetched = [t for t in self.tensors if t.fetched]
        lines = [
            str(self.report),
            _total("kept", [t for t in self.tensors if t.is_kept]),
            f"{_total('recomputed', again)}  {sum(t.us for t in again) / 1e3:.2f} ms",
            *([_total("fetched", fetched)] if fetched else []),
            *([f"  the peak is at {self.peak.op}, {self.peak.bytes / MIB:.1f} MiB{self.peak}"] if self.peak is not None else []),
            "",
            f"  {'MiB':>9}  {'runs':>4}  {'ms a run':>8}  {'MiB a ms':>8}  tensor",
        ]
        rows = _rows(self.tensors)
        lines += map(str, rows[:_MOST_ROWS])
        if len(rows) > _MOST_ROWS:
            lines.append(f"  and {len(rows) - _MOST_ROWS} more lines")
        lines += ["", f"  {'peak MiB':>9}  {'of all':>6}  {'added':>6}"]
        for p in self.prices:
            least = "  the least" if p is self.prices[-1] else ""
            share = p.peak_bytes / max(1, self.report.baseline_peak_bytes)
            lines.append(f"  {p.peak_bytes / MIB:9.1f}  {share:6.0%}  {max(0.0, p.added_cost):6.1%}{least}")
        return "\n".join(lines)

    def to_dot(self, fold: int | None = None) -> str:
        """Returns a drawing for Graphviz, with a legend: the forward on the left, the backward beside it, a frame with what is recomputed or copied,
        and in green what is kept. fold: draws modules, by so many names of their paths, in place of ops; 0: draws each run of an op; by default
        modules if there are too many ops to read."""
        assert self._made is not None
        return dot_of(self._made.joint, self._made.plan.schedule, fold)

    def save(self, path: str | os.PathLike[str], title: str = "", snapshot: str | os.PathLike[str] | None = None) -> None:
        """Writes a page that shows the plan, and beside it the step as the program runs it. snapshot: the path of a snapshot of PyTorch's allocator
        (`torch.cuda.memory._dump_snapshot`), which is shown instead. Raises BadInput if that is no path of a page, or no snapshot."""
        assert self._made is not None
        prices = [(p.peak_bytes, p.added_cost) for p in self.prices]
        pages.write(pages.checked(path), pages.page_of(self._made, title or f"graph {self.report.name}", snapshot, prices))


_MOST_ROWS = 20


@dataclass(frozen=True)
class _Row:
    """Tensors that equal layers make by the same op, and that the plan treats alike."""

    tensors: tuple[Tensor, ...]

    @property
    def bytes_per_us(self) -> float:
        """What a recomputation saves for its time."""
        return sum(t.bytes for t in self.tensors) / max(1e-3, sum(t.run_us for t in self.tensors))

    def __str__(self) -> str:
        first, count = self.tensors[0], len(self.tensors)
        size, run = sum(t.bytes for t in self.tensors), sum(t.run_us for t in self.tensors)
        way = f", fetched{f' {first.fetched} times' if first.fetched > 1 else ''}" if first.fetched else ""
        where = folded([t.module for t in self.tensors]) if first.module else f"x {count}" if count > 1 else ""
        what = f"{first.op.removesuffix('.default')}{f', {where}' if where else ''}{way}"
        return f"  {size / MIB:9.2f}  {first.runs:4}  {run / 1e3:8.3f}  {self.bytes_per_us * 1e3 / MIB:8.1f}  {what}"


def _rows(tensors: Sequence[Tensor]) -> list[_Row]:
    """Returns the tensors, equal layers folded, those first that save most for the time of a recomputation."""
    found: dict[Any, list[Tensor]] = {}
    for t in tensors:
        found.setdefault((t.op, template(t.module), t.bytes, t.runs, t.fetched), []).append(t)
    rows = []
    for alike in found.values():
        paths = [t.module for t in alike]
        several = len(set(paths)) < len(paths) and any(paths)  # an op that a module runs twice: one line for each
        rows += [_Row((t,)) for t in alike] if several else [_Row(tuple(alike))]
    return sorted(rows, key=lambda row: -row.bytes_per_us)


def _total(way: str, tensors: Sequence[Tensor]) -> str:
    return f"  {way:<10}  {len(tensors):5}  {sum(t.bytes for t in tensors) / MIB:9.1f} MiB"


@dataclass(frozen=True)
class Explanation:
    """The explanations of the graphs into which PyTorch breaks the model."""

    graphs: tuple[GraphExplanation, ...]
    uncompiled: tuple[str, ...] = ()
    """The functions that PyTorch could not compile, with where and why: it runs them op by op, and nothing of them is planned."""
    name: str = ""
    """The name of the function or of the model's class."""

    def save(self, path: str | os.PathLike[str], snapshot: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
        """Writes a page for each graph, in the order of the step, and returns their paths: `path` for a single graph; for several,
        "step-1.html", "step-2.html" and so on in place of "step.html". snapshot: as for a graph. Raises BadInput if there is no graph, or if that
        is no path of a page."""
        stem, count = pages.checked(path).removesuffix(".html"), len(self.graphs)
        if not count:
            raise BadInput(f"there is nothing to show: {self}")
        paths = tuple(f"{stem}-{k + 1}.html" if count > 1 else f"{stem}.html" for k in range(count))
        for k, graph in enumerate(self.graphs):
            graph.save(paths[k], f"{self.name}, graph {k + 1} of {count}" if count > 1 else self.name, snapshot)
        return paths

    def __str__(self) -> str:
        failed = f"PyTorch could not compile {'; '.join(self.uncompiled)}" if self.uncompiled else ""
        if not self.graphs:
            return f"no graph with a backward was compiled: {failed or 'nothing that was called needs a gradient'}"
        return "\n\n".join([*map(str, self.graphs), *([failed] if failed else [])])


def explain(model: Callable[..., Any], *inputs: Any, budget: BudgetLike = "min", prices: bool = True, **options: Any) -> Explanation:
    """Traces and plans model(*inputs), and returns an explanation of each graph. The model runs one forward, which changes only the
    state that a forward changes. Everything that PyTorch has compiled before this call is compiled again.

    budget and options are those of the backend. prices: also plan for shares of the peak, which takes several times as long.
    Raises BadInput, and CannotBeMet as the backend does.
    """
    if not callable(model):
        raise BadInput(f"explain takes a model or a function and its inputs, got {type(model).__name__}")
    made = Options(None if options.get("total") is not None else budget, **options)
    if made.total is not None:
        found = ledger.taken(made.total, total.device_in_use())
        found.check()
        made = replace(made, left_bytes=found.left_bytes)
    planner = Planner.of(made)
    attempts: list[Attempt] = []

    def attempt(ends: str) -> Attempt:
        attempts.append(Attempt(planner, Alone(is_reported=False), Origin(ends)))
        return attempts[-1]

    uncompiled = traced(model, inputs, attempt)
    graphs = tuple(_explained(a.made, prices, planner.options) for a in attempts if a.made is not None)
    return Explanation(graphs, tuple(uncompiled), getattr(model, "__name__", type(model).__name__))


def view(
    model: Callable[..., Any], *inputs: Any, budget: BudgetLike = "min", path: str | os.PathLike[str] = "step.html",
    snapshot: str | os.PathLike[str] | None = None, **options: Any
) -> tuple[str, ...]:
    """Plans model(*inputs) as `explain` does, and writes a page that shows the plan, as `Explanation.save` does. Returns the paths of the pages."""
    pages.checked(path)
    return explain(model, *inputs, budget=budget, prices=False, **options).save(path, snapshot)


def traced(model: Callable[..., Any], inputs: tuple[Any, ...], partition: Callable[[str], Callable[..., Any]]) -> list[str]:
    """Passes each of the model's graphs to what `partition` returns, which is given where and why the graph ends early: compiles the model, runs one forward and discards the compiled code. Returns which
    functions PyTorch could not compile."""
    torch._dynamo.reset()
    begin = time.time_ns() // 1000
    try:

        def compile(gm: fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
            return hooks.aot_eager(gm, examples, partition(hooks.break_after(gm)))

        compiled = torch.compile(model, backend=compile)
        with torch.enable_grad():
            compiled(*inputs)
        return hooks.uncompiled(begin)
    except Exception as e:
        error = getattr(e, "inner_exception", e)
    finally:
        torch._dynamo.reset()
    try:
        raise error.with_traceback(None) if isinstance(error, Error) else error from None
    finally:
        del error  # which holds this frame


def _explained(made: Made, prices: bool, options: Options) -> GraphExplanation:
    joint, runs = made.joint, Counter(made.plan.schedule)
    problem = joint.problem
    saved: Counter[int] = Counter()
    for i, output in joint.read_by(lambda i: problem[i].phase == "backward"):
        saved[i] += problem[i].bytes[output]
    fetched: Counter[int] = Counter()
    for i, count in runs.items():
        if problem[i].kind == "waits_prefetch":
            of = problem[i].of
            fetched[of if isinstance(of, int) else of[0]] += count  # type: ignore[index]
    tensors = []
    for i, op in enumerate(problem):
        if not saved[i]:
            continue
        node = joint.steps[i].nodes[0]
        tensors.append(Tensor(op.name, str(node.target), module_of(node), saved[i], runs[i], (runs[i] - 1) * op.cost, fetched[i], op.cost))
    tensors.sort(key=lambda t: (-t.bytes, t.name))
    peak = peak_of(joint, made.plan.schedule)
    return GraphExplanation(made.report, tuple(tensors), _prices(joint, options) if prices else (), peak, made)


def _prices(joint: Joint, options: Options) -> tuple[Price, ...]:
    found: list[Price] = []

    def add(p: Plan) -> None:
        price = Price(p.figures.peak_bytes + joint.reserved_bytes, p.figures.recompute_overhead)
        if price not in found:
            found.append(price)

    for share in _SHARES:
        try:
            add(options.plan(joint.problem, f"{share}%"))
        except CannotBeMet:
            break
    add(options.plan(joint.problem, "min"))
    return tuple(found)
