"""Defines and checks the options of the backend."""

from __future__ import annotations

import contextlib
import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..budget import Budget, BudgetLike, parse_budget
from ..errors import BadInput, CannotBeMet
from ..planning import Plan, plan
from ..problem import Problem
from .amounts import OF_GRAPH, at_least, in_mib, share, understood
from .device.total import Total

KERNELS = ("aot_eager", "inductor")
# The default effort. Plans of nine networks within six budgets each add as much time as at twice this effort, but for 0.0 to 0.9 % of the step.
_EFFORT = 1.0
_OPS_PER_EFFORT = 4000
# With PyTorch's own kernels, a first search is shorter: to compile a step then takes a few seconds, of which planning is to be a small part. Its plan is
# taken if it costs at most this share of the step above the bound on all plans; near the least peak a short search may find one that costs twice as much.
_FIRST_EFFORT = 0.15
_OPS_PER_FIRST_EFFORT = 12000
_NEAR_BOUND = 0.01
_WAYS = {"recompute", "fetch", "chunk"}


@dataclass(frozen=True)
class Options:
    """The options of the backend. Making them raises BadInput for values that are not allowed.

    budget: bytes as a number or as "2GiB"; a share such as "50%" or 0.5 of the peak of the step as the program runs it, with its own checkpoints;
        "50% of graph", of the step without any recomputation; or "min", the least peak found that adds no more than 100 % of the step's cost.
    total: in place of a budget, what the training may hold of its device: bytes as a number or as "24GB"; "gpu" for all of it, or a share such as
        0.9. What is live before a step, and what optimizers will need, is taken off; what is left is the step's budget.
    reserve: of a total, what the gaps between the blocks of the allocator may take: bytes, or a share of the total. By default 5 % on a GPU.
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
    allow: how a plan does without tensors: "recompute"; with ",fetch" it also copies tensors to the host's memory and back while other ops run;
        with ",chunk" it also runs parts of the step chunk by chunk, which changes the rounding of sums. On the CPU, whose memory is the host's,
        copies save nothing and only try out a plan.
    link: the rate of such a copy in each direction, in bytes a second as a number or as "25GB"; by default that of a common GPU. The CPU
        has no default.
    inductor: settings for inductor, with kernels "inductor" only.
    sizes: the least and the most that sizes of arguments can be: {"input_ids": {1: (1, 4096)}}, by the name of the argument and the axis. Graphs in
        which these sizes are symbolic are planned for the most.
    """

    budget: BudgetLike | None = None
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
    total: Any = None
    reserve: BudgetLike | None = None
    sizes: Mapping[str, Mapping[int, tuple[int, int]]] = field(default_factory=dict)
    left_bytes: int | None = None
    """What a total leaves to the step; None: there is no total, or no step has begun. It is no option of the user's."""

    def __post_init__(self) -> None:
        self._check_budget()
        if self.kernels not in KERNELS:
            raise BadInput(f"kernels are {' or '.join(map(repr, KERNELS))}; got {self.kernels!r}")
        if not isinstance(self.effort, (int, float)) or not 0 <= self.effort < math.inf:
            raise BadInput(f"effort is a number from 0 on, got {self.effort!r}")
        if "recompute" not in self.ways or not self.ways <= _WAYS:
            raise BadInput(f"allow is 'recompute', and may have ',fetch' and ',chunk' besides; got {self.allow!r}")
        if self.link is not None and not self.link_bytes:
            raise BadInput(f"link is a rate in bytes a second, such as '25GB'; got {self.link!r}")
        self._check_sizes()
        if self.inductor and self.kernels != "inductor":
            raise BadInput("settings of inductor were given, and kernels are 'aot_eager'")

    def _check_budget(self) -> None:
        if self.total is None:
            if self.budget is None:
                raise BadInput(_NO_BUDGET)
            if self.reserve is not None:
                raise BadInput("reserve is a part of a total, and there is no total")
            object.__setattr__(self, "budget", understood(self.budget))
            return
        if self.budget is not None:
            raise BadInput(f"give a budget of the step or a total of the device, not both; got {self.budget!r} and {self.total!r}")
        if self.sync:
            raise BadInput("a total leaves each rank another budget, and sync=True makes ranks run equal plans: give a budget in bytes")
        object.__setattr__(self, "total", Total.of(self.total, self.reserve))

    def _check_sizes(self) -> None:
        is_mapping = isinstance(self.sizes, Mapping) and all(isinstance(axes, Mapping) for axes in self.sizes.values())
        for limits in (limits for axes in self.sizes.values() for limits in axes.values()) if is_mapping else (None,):
            is_range = isinstance(limits, (tuple, list)) and len(limits) == 2 and all(isinstance(n, int) for n in limits)
            if not is_range or not 0 <= limits[0] <= limits[1]:  # type: ignore[index]
                found = self.sizes if limits is None else limits
                raise BadInput(f"""sizes are the least and the most by argument and axis, such as {{"input_ids": {{1: (1, 4096)}}}}; got {found!r}""")

    @property
    def asked(self) -> str:
        """What the user asked for, for messages: it follows "a"."""
        if self.total is None:
            return f"budget of {in_mib(self.budget) if isinstance(self.budget, int) else self.budget}"
        return f"budget of {in_mib(self.left_bytes or 0)}, which a total of {self.total.asked} leaves to the step,"

    def next_to_ask(self, least: int, whole: int, added: float) -> str:
        """Returns what to ask for where a budget cannot be met. least: the least peak that was found. whole: what a share
        is of. added: the time that recomputation then adds, as a share of the step's."""
        if self.total is not None:
            more = least - (self.left_bytes or 0)
            wanted = f'"{at_least(self.total.bytes + more)}"' if self.total.bytes is not None else f"{in_mib(more)} more"
            ask = f"ask for a total of {wanted}"
        else:
            wanted = at_least(least) if self.parsed.bytes is not None else share(least, whole) + OF_GRAPH * self.is_of_graph
            ask = f"""ask for "{wanted}\" or more"""
        if not self.strict:
            return f"that is taken, which adds {added:.1%} to the step's time; to have a budget that is kept, {ask}"
        least_of_all = "" if self.total is not None else """, for options={"budget": "min"}"""
        return f"""{ask}, which adds {added:.1%} to the step's time{least_of_all}, or for "strict": False, which takes the least"""

    @classmethod
    def named(cls, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Returns the options passed to torch.compile as a dictionary. Raises BadInput if there is no budget or a name is unknown."""
        given = dict(options or {})
        names = [f.name for f in fields(cls) if f.name != "left_bytes"]
        for name in given:
            if name not in names:
                near = difflib.get_close_matches(str(name), names, n=1)
                meant = f" (did you mean '{near[0]}'?)" if near else ""
                raise BadInput(f"'{name}' is no option of the backend 'isthmus'{meant}: those are {', '.join(names)}")
        if given.get("budget") is None and given.get("total") is None:
            raise BadInput(_NO_BUDGET)
        return given

    def plan(self, problem: Problem, budget: BudgetLike, share: float = 1.0) -> Plan:
        """Returns a plan that is searched with these options, and a share of their effort. Raises CannotBeMet."""

        def planned(effort: float) -> Plan:
            return plan(problem, budget, effort=share * effort, seed=self.seed)

        if not self.effort and self.kernels == "aot_eager" and share == 1 and budget != "min":
            with contextlib.suppress(CannotBeMet):  # a longer search may find a lower peak
                first = planned(_FIRST_EFFORT + len(problem) / _OPS_PER_FIRST_EFFORT)
                least = first.figures.lower_bound_cost or first.figures.baseline_cost
                if first.figures.cost - least <= _NEAR_BOUND * first.figures.baseline_cost:
                    return first
        return planned(self.effort or _EFFORT + len(problem) / _OPS_PER_EFFORT)

    @property
    def ways(self) -> set[str]:
        return set(self.allow.split(",")) if isinstance(self.allow, str) else set()

    @property
    def link_bytes(self) -> int | None:
        """The rate of the link in bytes a second; None: the default of the device."""
        return None if self.link is None else parse_budget(self.link).bytes

    @property
    def parsed(self) -> Budget:
        if self.total is not None:
            return Budget(bytes=max(0, self.left_bytes or 0))
        assert self.budget is not None
        return parse_budget(str(self.budget).removesuffix(OF_GRAPH) if self.is_of_graph else self.budget)

    @property
    def is_of_graph(self) -> bool:
        """True: a share is one of the step without any recomputation, and not of the step as the program runs it."""
        return isinstance(self.budget, str) and self.budget.endswith(OF_GRAPH)


_NO_BUDGET = """the backend 'isthmus' needs a budget, such as options={"budget": "2GiB"}, {"budget": "50%"} or {"budget": "min"}; or a total of the device, \
such as {"total": "24GB"}"""
