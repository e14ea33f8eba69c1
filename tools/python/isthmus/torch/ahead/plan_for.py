"""Tells, by planning alone, the largest batch or length with which a model can be trained on a device."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...errors import BadInput, CannotBeMet
from ..amounts import in_gib
from ..device.ledger import Ledger
from ..device.live import Live
from ..device.optimizers import allocated, need_for, optimizers_in
from ..device.total import Total, ahead
from ..graph import costs
from ..options import Options
from ..plans.planner import Planner
from .largest import largest
from .program import Inputs, Loss, Program, Step, loss_in

_GPU = torch.device("cuda")


OWN = "its own checkpoints"
"""The name of the way of a program that checkpoints parts of itself."""


@dataclass(frozen=True)
class Way:
    """A way to run the step, with the largest size that fits."""

    name: str
    size: int
    """0: not even a step of size 1 fits."""
    peak_bytes: int
    """What the step adds to what is live before it; for size 0, that of a step of size 1."""
    added_cost: float
    """The time that recomputation adds, as a share of the step's estimated time."""
    held_bytes: int
    """What the device holds at the peak, with parameters and all else, and without the reserve."""

    def cells(self) -> tuple[str, ...]:
        size = str(self.size) if self.size else "none"
        return self.name, size, in_gib(self.peak_bytes), in_gib(self.held_bytes), f"{max(0.0, self.added_cost):.1%}"


@dataclass(frozen=True)
class Forecast:
    """What a device can train, as planned."""

    ways: tuple[Way, ...]
    """Plain; with the program's own checkpoints, if it has any; within a budget; and within a budget with the size that the program's own way has."""
    ledger: Ledger
    """What takes the bytes of the device, for the largest size of all."""
    unit: str
    """What a size is of, such as "batch"."""

    def __getitem__(self, name: str) -> Way:
        return next(way for way in self.ways if way.name == name)

    def __str__(self) -> str:
        rows = [("", self.unit, "step", "held", "added time"), *(way.cells() for way in self.ways)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]) for row in rows]
        return "\n".join([f"the largest {self.unit} within {self.ledger.total.asked}, by planning alone:", *lines, str(self.ledger)])


def plan_for(
    total: Any, model: torch.nn.Module, inputs: Inputs | Any, *, optimizer: Any = None, loss: Loss = loss_in, reserve: Any = None, **options: Any
) -> Forecast | list[Forecast]:
    """Plans training steps of a model for a GPU that need not be here, and returns the largest size that fits: plain, with the program's own checkpoints,
    and within a budget. Nothing is allocated or run, so a model on the device "meta" may be larger than any memory.

    total: the bytes of the GPU, such as "24GB". Or a list of such, for which a list is returned, since the step is traced once for all.
    inputs: returns the model's inputs for a size, such as `lambda batch: torch.zeros(batch, 1024, dtype=torch.long)`: one, a tuple, or a dictionary by
        name. Its argument's name says what is counted. Or inputs of one size; then it is only told whether they fit.
    optimizer: a class of PyTorch's, a function of the parameters, or an optimizer of the model's own parameters; by default its state is left out.
    loss: takes the model and its inputs, and returns the loss; by default the model returns it, alone or as "loss".
    reserve: as for `fit`. options: those of the backend that planning reads, such as effort, seed, allow and link.
    Raises BadInput.
    """
    if not isinstance(model, torch.nn.Module):
        raise BadInput(f"plan_for takes a model, got {type(model).__name__}")
    totals = [Total.of(each, reserve) for each in (total if isinstance(total, (list, tuple)) else [total])]
    if not totals or any(each.bytes is None for each in totals):
        raise BadInput(f"plan_for is given the bytes of a GPU that need not be here, such as '24GB'; got {total!r}")
    made = Options(**Options.named({"budget": "min", **options}))
    if made.budget != "min" or made.kernels != "aot_eager" or made.costs is not None:
        raise BadInput("plan_for plans PyTorch's own kernels by estimated costs for a total: leave out budget, kernels and costs")
    planner = replace(Planner.of(made), costs=costs.Costs(ahead_on=costs.GPU))
    varies = callable(inputs)
    unit = next(iter(inspect.signature(inputs).parameters)) if varies else "size"
    program = Program(model, inputs if varies else lambda size: inputs, loss, planner)
    forecasts = [_Forecasting(program, _ledger(each, model, optimizer), unit, varies).run() for each in totals]
    return forecasts if isinstance(total, (list, tuple)) else forecasts[0]


class _Forecasting:
    """Works out a forecast for one total. varies: a step may have any size, and otherwise has the size 1."""

    def __init__(self, program: Program, ledger: Ledger, unit: str, varies: bool) -> None:
        self.program, self.ledger, self.unit, self.varies = program, ledger, unit, varies

    def run(self) -> Forecast:
        ways = [self._as_written("plain", checkpoints=False)]
        has_own = self.program.has_checkpoints()
        if has_own:
            ways.append(self._as_written(OWN, checkpoints=True))
        written = max(way.size for way in ways)
        most = max(self._largest(lambda size: self.program.within(size, None)), written)
        ways.append(self._within("isthmus", most))
        if has_own and 0 < written < most:
            ways.append(self._within(f"isthmus at {written}", written))
        return Forecast(tuple(ways), self._ledger_at(most), self.unit)

    def _as_written(self, name: str, *, checkpoints: bool) -> Way:
        size = self._largest(lambda size: self.program.as_written(size, checkpoints=checkpoints))
        return self._way(name, size, self.program.as_written(size or 1, checkpoints=checkpoints))

    def _within(self, name: str, size: int) -> Way:
        budget = max(0, self._ledger_at(size or 1).left_bytes)
        try:
            step = self.program.within(size or 1, budget)
        except CannotBeMet:  # the search for the least peak is another one, and may find less; so may the program itself
            own = self.program.as_written(size or 1, checkpoints=True)
            step = own if own.peak_bytes <= budget else self.program.within(size or 1, None)
        return self._way(name, size, step)

    def _way(self, name: str, size: int, step: Step) -> Way:
        ledger = self._ledger_at(size or 1)
        held = ledger.room.context_bytes + ledger.live.bytes + ledger.state_to_come + max(step.peak_bytes, ledger.optimizer_bytes)
        return Way(name, size, step.peak_bytes, step.added_cost, held)

    def _largest(self, step_of: Callable[[int], Step]) -> int:
        def excess(size: int) -> int:
            ledger = self._ledger_at(size)
            return max(step_of(size).peak_bytes, ledger.optimizer_bytes) - ledger.left_bytes

        return largest(excess) if self.varies else int(excess(1) <= 0)

    def _ledger_at(self, size: int) -> Ledger:
        live, given = self.ledger.live, allocated(self.program.input_bytes(max(1, size)), _GPU)
        return replace(self.ledger, live=replace(live, other_bytes=live.other_bytes + given), input_bytes=given)


def _ledger(total: Total, model: torch.nn.Module, optimizer: Any) -> Ledger:
    """Returns what a total leaves to the step, without its inputs."""
    parameters, buffers = list(model.parameters()), list(model.buffers())
    trained = [p for p in parameters if p.requires_grad]
    of_kind = {"parameters": _bytes(parameters), "buffers": _bytes(buffers), "gradients": 0, "state": 0}
    each = [] if optimizer is None else _optimizers(optimizer, trained)
    known = {id(p) for p in trained}
    needs = []
    for o in each:
        own = [p for group in o.param_groups for p in group["params"] if p.requires_grad]
        if not known.issuperset(map(id, own)):
            raise BadInput("the optimizer has parameters that are not the model's: make it of model.parameters(), or give its class")
        needs.append(need_for(o, own, _GPU))
    gradients = _bytes(trained)
    return Ledger(total, ahead(total, _GPU), Live(of_kind, 0), tuple(needs), gradients, gradients)


def _optimizers(given: Any, trained: list[torch.nn.Parameter]) -> list[torch.optim.Optimizer]:
    is_made = isinstance(given, (torch.optim.Optimizer, list, tuple, Mapping)) or not callable(given)
    return optimizers_in(given if is_made else given(trained))


def _bytes(tensors: list[Any]) -> int:
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}
    return sum(allocated(size, _GPU) for size in storages.values())
