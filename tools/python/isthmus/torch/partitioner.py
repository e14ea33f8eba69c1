"""The partitioner that a program gives to PyTorch's own compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from ..errors import BadInput
from . import hooks
from .options import Options
from .plans.attempt import Alone, Attempt
from .plans.planner import Planner


class Partitioner(hooks.CustomPartitionerFn):
    """Plans and cuts the joint graphs of `torch.compile(model, options={"custom_partitioner_fn": isthmus.torch.Partitioner(budget="2GiB",
    kernels="inductor")})`, each by itself. It is plain data and may be pickled."""

    def __init__(self, budget: Any, **options: Any) -> None:
        """The options are those of the backend."""
        if options.get("total") is not None:
            raise BadInput("a total is one of a step, and a partitioner sees one graph: use the backend 'isthmus', or give a budget")
        self._planner = Planner.of(Options(budget=budget, **options))

    def __deepcopy__(self, memo: Any) -> Partitioner:
        return self  # inductor copies its settings

    def uuid(self) -> str:
        return self._planner.digest

    def __call__(self, gm: fx.GraphModule, joint_inputs: Sequence[object], **named: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        return Attempt(self._planner, Alone())(gm, joint_inputs, **named)
