"""Plans: when each op of a problem runs, and which ops run again, within a byte budget."""

from __future__ import annotations

import ctypes
import math
import operator
import os
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, SupportsIndex, Union

from . import _library
from ._shared_library import Handle
from ._watched import ProgressFunction
from .budget import BudgetLike, parse_budget
from .compiling import search_options, watched
from .errors import BadInput, CannotBeMet
from .problem import Problem

ProblemLike = Union[Problem, Mapping[str, Any], str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Figures:
    """The promises of a plan. Costs are microseconds; None means unknown."""

    baseline_peak_bytes: int
    """The peak of the order given, without recomputation."""
    peak_bytes: int
    output_bytes: int
    """The bytes that are live at the end."""
    lower_bound_bytes: int | None
    """No schedule has a lower peak."""
    smallest_peak_bytes: int | None
    """The least peak that was found."""
    baseline_cost: float
    cost: float
    lower_bound_cost: float | None
    """No schedule whose first runs are in this order costs less."""
    recomputed: int
    """Runs beyond the first of an op, without views."""
    transfers: int
    """Copies to the host's memory and back."""

    @property
    def recompute_overhead(self) -> float:
        """The added cost, as a share of the baseline's cost."""
        return self.cost / self.baseline_cost - 1 if self.baseline_cost > 0 else 0.0


class Plan:
    """A schedule of a problem's ops, and its figures. It does not refer to the problem, and can be pickled."""

    def __init__(self, handle: Handle) -> None:
        """Use `plan` or `Plan.from_schedule`."""
        if not isinstance(handle, Handle):
            raise TypeError(f"isthmus.plan and Plan.from_schedule make plans; got {type(handle).__name__}")
        self._handle: Handle | None = handle
        self._figures = _figures(handle)
        self._schedule: list[int] = []  # without a handle

    @classmethod
    def from_schedule(cls, problem: Problem, schedule: Iterable[SupportsIndex]) -> Plan:
        """Makes a plan of the caller's own schedule. BadInput, unless every op runs after the ops that it reads, and the outputs are live
        at the end."""
        if not isinstance(problem, Problem):
            raise TypeError(f"expected an isthmus.Problem, got {type(problem).__name__}")
        steps = _steps(problem, schedule)
        return cls(_library.make("plan", "plan_from_schedule", problem._handle(), steps, len(steps)))

    @property
    def schedule(self) -> list[int]:
        """The ops' numbers as they run. An op that occurs again is a recomputation; pinned ops do not occur."""
        return list(self._schedule) if self._handle is None else _library.schedule_of(self._handle)

    @property
    def figures(self) -> Figures:
        return self._figures

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.schedule, self._figures)

    def __repr__(self) -> str:
        f = self._figures
        return f"<isthmus.Plan: peak {f.peak_bytes} of {f.baseline_peak_bytes} bytes, cost {f.recompute_overhead:+.1%}>"


def live_bytes(problem: Problem, schedule: Iterable[SupportsIndex]) -> list[int]:
    """Returns the live bytes of each step of a valid schedule, including its workspace. The largest is the peak."""
    steps = _steps(problem, schedule)
    found = (ctypes.c_int64 * len(steps))()
    _library.call("problem_live_bytes", problem._handle(), steps, len(steps), found)
    return list(found)


def _steps(problem: Problem, schedule: Iterable[SupportsIndex]) -> ctypes.Array[ctypes.c_uint32]:
    steps = [operator.index(step) for step in schedule]
    for position, step in enumerate(steps):
        if not 0 <= step < len(problem):
            raise BadInput(f"step {position} of the schedule is op {step}, and the problem has {len(problem)}")
    return (ctypes.c_uint32 * len(steps))(*steps)


def _restored(schedule: list[int], figures: Figures) -> Plan:
    """A plan that was pickled: its library's object stayed where it was made."""
    plan = Plan.__new__(Plan)
    plan._handle, plan._figures, plan._schedule = None, figures, schedule
    return plan


def plan(problem: ProblemLike, budget: BudgetLike, effort: float = 0.0, seed: int = 0, progress: ProgressFunction | None = None) -> Plan:
    """Returns the fastest plan found whose peak is within the budget.

    problem: a Problem, or the path or the content of a file in the joint-graph format.
    budget: bytes as a number or as "2GiB" or "500MB"; "60%" of the peak without recomputation; or "min",
        the least peak found that adds no more than 100 % of the cost.
    effort: about seconds of one common core, with the same plan on every machine; 0: by the number of ops.
    seed: of the search. The same problem, budget, effort and seed give the same plan.
    progress: called from time to time on this thread with the share of the search that is done and the cost of the best plan so far (0:
        none yet). If it returns False, the search ends with the best plan so far; an exception that it raises is raised here.

    Raises CannotBeMet, whose `plan` is that of the least peak found, and Cancelled, if `progress` ended the search before a plan within the
    budget was found. Other threads run during the search, and Ctrl-C ends it.
    """
    return search(_problem_of(problem)._handle(), budget, effort, seed, progress)


def search(problem: Handle, budget: BudgetLike, effort: float, seed: int, progress: ProgressFunction | None) -> Plan:
    """Does the work of `plan`, for a problem of the library."""
    options = _options(budget, effort, seed)
    try:
        return Plan(watched(progress, options, "plan", "plan_make", problem, options))
    except CannotBeMet as error:
        made = error.__dict__.pop("made", None)
        error.plan = Plan(made) if made else None
        raise


def _options(budget: BudgetLike, effort: float, seed: int) -> _library.PlanOptions:
    wanted = parse_budget(budget)
    options = _library.default_plan_options()
    search_options(options, effort, seed)
    options.budget_bytes = -1 if wanted.bytes is None else wanted.bytes
    options.budget_share = wanted.share or 0.0
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
