"""Plans: which ops of a problem run when, and which of them again, within a byte budget."""

from __future__ import annotations

import ctypes
import math
import numbers
import operator
import os
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, SupportsIndex, Union

from . import _library
from ._shared_library import Handle
from ._watched import ProgressFunction, Watched
from .budget import BudgetLike, parse_budget
from .errors import BadInput, CannotBeMet
from .problem import Problem

# Between two calls of the progress function, for which the search waits until other threads of Python let go of the interpreter.
# Short enough for Ctrl-C.
_PROGRESS_SECONDS = 0.05

ProblemLike = Union[Problem, Mapping[str, Any], str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Figures:
    """What a plan promises. Costs are microseconds; None is what is not known."""

    baseline_peak_bytes: int
    """The peak of the order given, without recomputation."""
    peak_bytes: int
    output_bytes: int
    """What is live at the end."""
    lower_bound_bytes: int | None
    """No schedule has a lower peak."""
    smallest_peak_bytes: int | None
    """The least that was found."""
    baseline_cost: float
    cost: float
    lower_bound_cost: float | None
    """Of schedules whose first runs are in this one's order."""
    recomputed: int
    """Runs beyond the first of an op, without views."""
    transfers: int
    """To the host's memory and back."""

    @property
    def recompute_overhead(self) -> float:
        """The share of the baseline's cost that is added to it."""
        return self.cost / self.baseline_cost - 1 if self.baseline_cost > 0 else 0.0


class Plan:
    """A schedule of a problem's ops, and what it promises. It does not refer to the problem."""

    def __init__(self, handle: Handle) -> None:
        """Use `plan` or `Plan.from_schedule`."""
        if not isinstance(handle, Handle):
            raise TypeError(f"isthmus.plan and Plan.from_schedule make plans; got {type(handle).__name__}")
        self._handle = handle
        self._figures = _figures(handle)

    @classmethod
    def from_schedule(cls, problem: Problem, schedule: Iterable[SupportsIndex]) -> Plan:
        """The plan that a schedule of one's own is, if it is one: all that an op reads has run before, and the outputs are there."""
        if not isinstance(problem, Problem):
            raise TypeError(f"expected an isthmus.Problem, got {type(problem).__name__}")
        steps = [operator.index(step) for step in schedule]
        for position, step in enumerate(steps):
            if not 0 <= step < len(problem):
                raise BadInput(f"step {position} of the schedule is op {step}, and the problem has {len(problem)}")
        array = (ctypes.c_uint32 * len(steps))(*steps)
        return cls(_library.make("plan", "plan_from_schedule", problem._handle(), array, len(steps)))

    @property
    def schedule(self) -> list[int]:
        """The ops' numbers as they run. One that comes again is a recomputation; inputs do not come."""
        return _library.schedule_of(self._handle)

    @property
    def figures(self) -> Figures:
        return self._figures

    def __repr__(self) -> str:
        f = self._figures
        return f"<isthmus.Plan: peak {f.peak_bytes} of {f.baseline_peak_bytes} bytes, cost {f.recompute_overhead:+.1%}>"


def plan(problem: ProblemLike, budget: BudgetLike, effort: float = 0.0, seed: int = 0, progress: ProgressFunction | None = None) -> Plan:
    """The fastest plan found whose peak is within the budget.

    problem: a Problem, or the path or the content of a file in the joint-graph format.
    budget: bytes as a number or as "2GiB" or "500MB"; "60%" of the peak without recomputation; or "min", the least that is found.
    effort: about seconds of one common core, the same plan on every machine; 0: by the number of ops.
    seed: of the search. The same problem, budget, effort and seed give the same plan.
    progress: called now and then on this thread with the share of the work that is done and the cost of the best plan so far (0:
        there is none yet). If it returns False, the search ends with the best plan so far; what it raises is raised here.

    Raises CannotBeMet, whose `plan` is that of the least peak found; Cancelled, where `progress` ended the search before there was
    a plan. Other threads run meanwhile, and Ctrl-C ends the search.
    """
    return search(_problem_of(problem)._handle(), budget, effort, seed, progress)


def search(problem: Handle, budget: BudgetLike, effort: float, seed: int, progress: ProgressFunction | None) -> Plan:
    """`plan` of a problem that the library has."""
    options = _options(budget, effort, seed)
    if progress is not None and not callable(progress):
        raise TypeError(f"progress is a function of two numbers, got {type(progress).__name__}")

    def body(callback: Any) -> Handle:
        options.progress = callback
        return _library.make("plan", "plan_make", problem, options)

    try:
        return Plan(Watched(body, progress).run())
    except CannotBeMet as error:
        made = error.__dict__.pop("made", None)
        error.plan = Plan(made) if made else None
        raise


def _options(budget: BudgetLike, effort: float, seed: int) -> _library.PlanOptions:
    wanted = parse_budget(budget)
    if not isinstance(effort, numbers.Real) or isinstance(effort, bool):
        raise TypeError(f"effort is a number, got {type(effort).__name__}")
    if not 0 <= effort < math.inf:
        raise BadInput(f"effort is a number from 0 on, got {effort}")
    seed = operator.index(seed)
    if not 0 <= seed < 2**64:
        raise BadInput(f"a seed is a whole number from 0 to 2^64 - 1, got {seed}")
    options = _library.default_plan_options()
    options.budget_bytes = -1 if wanted.bytes is None else wanted.bytes
    options.budget_share = wanted.share or 0.0
    options.effort, options.seed = float(effort), seed
    options.progress_seconds = _PROGRESS_SECONDS
    return options


def _problem_of(problem: ProblemLike) -> Problem:
    if isinstance(problem, Problem):
        return problem
    if isinstance(problem, Mapping):
        return Problem.from_dict(problem)
    if isinstance(problem, (str, os.PathLike)):
        return Problem.load(problem)
    raise TypeError(f"a problem is an isthmus.Problem, or the path or content of a joint-graph file; got {type(problem).__name__}")


def _figures(handle: Handle) -> Figures:
    f = _library.PlanFigures(size=ctypes.sizeof(_library.PlanFigures))
    _library.call("plan_figures", handle, f)
    known = {name: getattr(f, name) for name, *_ in f._fields_ if name != "size"}
    for name in ("lower_bound_bytes", "smallest_peak_bytes"):
        known[name] = None if known[name] < 0 else known[name]
    if math.isnan(known["lower_bound_cost"]):
        known["lower_bound_cost"] = None
    return Figures(**known)
