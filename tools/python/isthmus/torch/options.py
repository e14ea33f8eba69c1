"""The options of the backend, checked before anything else is done."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..budget import Budget, BudgetLike, parse_budget
from ..errors import BadInput

KERNELS = ("aot_eager", "inductor")


@dataclass(frozen=True)
class Options:
    """budget: bytes as a number or as "2GiB", a share of the graph's own peak such as "50%", or "min", the least peak that is found.
    kernels: "aot_eager", PyTorch's own, with the same bits as without `torch.compile`; or "inductor".
    effort: about seconds of planning on one core; 0: by the number of ops.
    seed: of the search.
    costs: a file of `isthmus.torch.measure`, or "measured": each op is timed here when its graph is compiled. Otherwise costs are
        estimated.
    allow_recompute: custom ops that give the same bits in every run, as ops or as names such as "mylib::gelu".
    strict: a graph that cannot run within the budget is an error; otherwise it gets the least peak that is found, with a warning.
    sync: ranks of torch.distributed take rank 0's plans, and keep them if inductor's code of one exceeds the budget; if their graphs or
        budgets differ, all of them raise, and a rank that waits for another longer than the process group's timeout raises. Without it
        each rank plans for itself, which is safe; plans are then equal if graphs, budgets and costs are.
    inductor: settings of inductor, if it is used.
    """

    budget: BudgetLike
    kernels: str = "aot_eager"
    effort: float = 0.0
    seed: int = 0
    costs: str | Path | None = None
    allow_recompute: Iterable[Any] = ()
    strict: bool = True
    sync: bool = False
    inductor: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parse_budget(self.budget)
        if self.kernels not in KERNELS:
            raise BadInput(f"kernels are {' or '.join(map(repr, KERNELS))}; got {self.kernels!r}")
        if not isinstance(self.effort, (int, float)) or not 0 <= self.effort < math.inf:
            raise BadInput(f"effort is a number from 0 on, got {self.effort!r}")
        if self.inductor and self.kernels != "inductor":
            raise BadInput("settings of inductor were given, and kernels are 'aot_eager'")

    @classmethod
    def named(cls, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Checks the dictionary passed to torch.compile: it has a budget and no unknown name."""
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

    @property
    def parsed(self) -> Budget:
        return parse_budget(self.budget)
