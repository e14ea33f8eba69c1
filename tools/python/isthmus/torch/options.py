"""Defines and checks the options of the backend."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..budget import Budget, BudgetLike, parse_budget
from ..errors import BadInput
from ..planning import Plan, plan
from ..problem import Problem

KERNELS = ("aot_eager", "inductor")
# The default effort. Plans of nine networks within six budgets each add as much time as at twice this effort, but for 0.0 to 0.9 % of the step.
_EFFORT = 1.0
_OPS_PER_EFFORT = 4000


@dataclass(frozen=True)
class Options:
    """The options of the backend. Making them raises BadInput for values that are not allowed.

    budget: bytes as a number or as "2GiB", a share of the step's own peak such as "50%", or "min",
        the least peak found that adds no more than 100 % of the step's cost.
    kernels: "aot_eager", PyTorch's own kernels, with the same bits as without `torch.compile`; or "inductor".
    effort: about seconds of planning on one core; 0: by the number of ops, about half of what `isthmus.plan` takes.
    seed: the seed of the search for a plan.
    costs: a file that `isthmus.torch.measure` wrote, or "measured": each op is timed when its graph is compiled. By default costs are
        estimated.
    allow_recompute: custom ops that compute the same bits in every run, as ops or as names such as "mylib::gelu".
    strict: a step that cannot run within the budget, or that was measured above it, is an error; otherwise it gets the least peak that is
        found, with a warning.
    sync: all ranks of torch.distributed use rank 0's plans, even if inductor's code then exceeds the budget; they all raise if their
        graphs or budgets differ, and a rank raises that waits for another longer than the process group's timeout. Otherwise each rank
        plans alone, which is safe; the plans are equal if graphs, budgets and costs are.
    allow: how a plan restores tensors that it does not keep: "recompute"; or "recompute,fetch", which also copies tensors to the host's
        memory and back while other ops run. On the CPU, whose memory is the host's, such copies save nothing and only try out a plan.
    link: the rate of such a copy in each direction, in bytes a second as a number or as "25GB"; by default that of a common GPU. The CPU
        has no default.
    inductor: settings for inductor, with kernels "inductor" only.
    """

    budget: BudgetLike
    kernels: str = "aot_eager"
    effort: float = 0.0
    seed: int = 0
    costs: str | Path | None = None
    allow_recompute: Iterable[Any] = ()
    strict: bool = True
    sync: bool = False
    allow: str = "recompute"
    link: BudgetLike | None = None
    inductor: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parse_budget(self.budget)
        if self.kernels not in KERNELS:
            raise BadInput(f"kernels are {' or '.join(map(repr, KERNELS))}; got {self.kernels!r}")
        if not isinstance(self.effort, (int, float)) or not 0 <= self.effort < math.inf:
            raise BadInput(f"effort is a number from 0 on, got {self.effort!r}")
        if self.ways not in ({"recompute"}, {"recompute", "fetch"}):
            raise BadInput(f"allow is 'recompute' or 'recompute,fetch'; got {self.allow!r}")
        if self.link is not None and not self.link_bytes:
            raise BadInput(f"link is a rate in bytes a second, such as '25GB'; got {self.link!r}")
        if self.inductor and self.kernels != "inductor":
            raise BadInput("settings of inductor were given, and kernels are 'aot_eager'")

    @classmethod
    def named(cls, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Returns the options passed to torch.compile as a dictionary. Raises BadInput if there is no budget or a name is unknown."""
        given = dict(options or {})
        names = [f.name for f in fields(cls)]
        for name in given:
            if name not in names:
                raise BadInput(f"'{name}' is no option of the backend 'isthmus': those are {', '.join(names)}")
        if "budget" not in given:
            raise BadInput(
                """the backend 'isthmus' needs a budget, such as options={"budget": "2GiB"}, {"budget": "50%"} or {"budget": "min"}"""
            )
        return given

    def plan(self, problem: Problem, budget: BudgetLike) -> Plan:
        """Returns a plan that is searched with these options. Raises CannotBeMet."""
        return plan(problem, budget, effort=self.effort or _EFFORT + len(problem) / _OPS_PER_EFFORT, seed=self.seed)

    @property
    def ways(self) -> set[str]:
        return set(self.allow.split(",")) if isinstance(self.allow, str) else set()

    @property
    def link_bytes(self) -> int | None:
        """The rate of the link in bytes a second; None: the default of the device."""
        return None if self.link is None else parse_budget(self.link).bytes

    @property
    def parsed(self) -> Budget:
        return parse_budget(self.budget)
