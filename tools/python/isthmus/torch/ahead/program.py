"""The graph of a training step that was traced without memory, as a problem for any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...errors import BadInput
from ...planning import Plan
from .. import hooks
from ..chunks.choice import applied
from ..graph.joint import Joint
from ..graph.preparation import prepare
from ..graph.program import as_it_runs, order_of
from ..plans.in_chunks import chosen, planned
from ..plans.planner import Planner
from .fakes import Fakes

_TRACED_AT = (6, 10)
"""The sizes with which a step is traced. They differ, which shows the axes that vary, and are not 0 or 1, which PyTorch takes for constants."""

Inputs = Callable[[int], Any]
"""Returns a model's inputs of a size, such as that of a batch: a tuple, a dictionary by name, or one input."""
Loss = Callable[..., Any]
"""Takes a model and its inputs, and returns the loss."""


def loss_in(model: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
    """Returns the loss of a model that returns it, alone or in what models of transformers return."""
    results = model(*inputs, **named)
    return results["loss"] if isinstance(results, Mapping) and "loss" in results else results


@dataclass(frozen=True)
class Step:
    """What a step takes."""

    peak_bytes: int
    """What it adds to what is live before it."""
    added_cost: float
    """The time that recomputation and chunks add, as a share of the step's estimated time."""

    @classmethod
    def of(cls, joint: Joint, plan: Plan) -> Step:
        figures = plan.figures
        return cls(figures.peak_bytes + joint.reserved_bytes, (1 + figures.recompute_overhead) * joint.cost_of_chunks - 1)


class Program:
    """A training step of a model for inputs of any size."""

    def __init__(self, model: Callable[..., Any], inputs: Inputs, loss: Loss, planner: Planner) -> None:
        """planner: one for a device that is not here."""
        self._fakes, self._inputs, self._loss, self._planner = Fakes(), inputs, loss, planner
        self._model = self._fakes.of_model(model) if isinstance(model, torch.nn.Module) else model
        self._symbolic: hooks.Traced | None = None
        self._joints: dict[int, Joint] = {}
        self._steps: dict[tuple[int, int | None], Step] = {}
        first, second = (self._leaves(size) for size in _TRACED_AT)
        self._traced_leaves: list[torch.Tensor] = []  # of the inputs with which the symbolic graph was traced
        self._varying = [(k, axis) for k, t in enumerate(first) for axis in range(t.dim()) if t.shape[axis] != second[k].shape[axis]]

    def has_checkpoints(self) -> bool:
        """Returns True if the program runs parts of itself again in its backward. Raises BadInput if PyTorch cannot trace the step as one graph."""
        return as_it_runs(self._at(1)) != order_of(self._at(1))

    def as_written(self, size: int, *, checkpoints: bool) -> Step:
        """Returns the step for inputs of a size in the program's own order, with its own checkpoints or without."""
        joint = self._at(size)
        return Step.of(joint, Plan.from_schedule(joint.problem, (as_it_runs if checkpoints else order_of)(joint)))

    def within(self, size: int, budget: int | None) -> Step:
        """Returns the step that is planned within a budget for inputs of a size; None: with the least peak. Raises CannotBeMet."""
        if (size, budget) not in self._steps:
            joint = self._in_chunks(size, budget) if "chunk" in self._planner.options.ways else self._at(size)
            self._steps[size, budget] = Step.of(joint, planned(self._planner, joint, budget))
        return self._steps[size, budget]

    def _in_chunks(self, size: int, budget: int | None) -> Joint:
        """Returns the step's problem with parts in chunks, where that is better. Chunks need sizes that are numbers."""
        traced = self._trace(size, symbolic=False)
        joint = whole = self._problem(traced)
        chunks = chosen(self._planner, traced.gm, traced.num_fwd_outputs, budget)
        changed = applied(traced.gm, chunks) if chunks else None
        if changed is not None:
            joint = self._problem(replace(traced, gm=changed))
            joint.whole = whole, traced.gm.graph
        return joint

    def _at(self, size: int) -> Joint:
        if size not in self._joints:
            self._joints[size] = self._traced_at(size)
        return self._joints[size]

    def input_bytes(self, size: int) -> int:
        return sum(t.untyped_storage().nbytes() for t in self._leaves(size))

    def _traced_at(self, size: int) -> Joint:
        leaves = self._leaves(size)
        if self._varying and self._symbolic is None:
            self._symbolic = self._trace(_TRACED_AT[0], symbolic=True)
        sizes = None if self._symbolic is None else self._sizes(self._symbolic, leaves)
        if sizes is None or self._symbolic is None or not self._symbolic.holds_for(sizes):
            return self._problem(self._trace(size, symbolic=False))
        with hooks.taking_sizes(sizes):
            return self._problem(self._symbolic)

    def _problem(self, traced: hooks.Traced) -> Joint:
        hooks.note_bounds(traced.gm.graph)
        return self._planner.extracted(traced.gm, traced.num_fwd_outputs, {})[0]

    def _sizes(self, traced: hooks.Traced, leaves: list[torch.Tensor]) -> dict[str, int] | None:
        """Returns the values of the symbols of a graph for inputs of another size; None if PyTorch took a size that varies for a constant."""
        number = {id(t): k for k, t in enumerate(self._traced_leaves)}
        sizes: dict[str, int] = {}
        for t, axis, symbol in traced.symbols():
            k = number.get(id(t))
            if symbol is not None and k is not None:
                sizes[symbol] = leaves[k].shape[axis]
            elif (k, axis) in self._varying:
                return None
        return sizes

    def _leaves(self, size: int) -> list[torch.Tensor]:
        return [t for t in pytree.tree_leaves(self._given(size)) if isinstance(t, torch.Tensor)]

    def _given(self, size: int) -> Any:
        return self._fakes.made(lambda: self._inputs(size))

    def _trace(self, size: int, *, symbolic: bool) -> hooks.Traced:
        given = self._given(size)
        if symbolic:
            self._traced_leaves = [t for t in pytree.tree_leaves(given) if isinstance(t, torch.Tensor)]
            for k, axis in self._varying:
                torch._dynamo.mark_dynamic(self._traced_leaves[k], axis)
        args, named = ((), given) if isinstance(given, Mapping) else (given if isinstance(given, tuple) else (given,), {})
        with self._fakes.mode:
            traced = hooks.joint_graph(lambda: self._loss(self._model, *args, **named))
        if traced is None:
            raise BadInput("plan_for plans a training step, and nothing in the loss of this one needs a gradient: does a parameter require one?")
        return replace(traced, gm=prepare(traced.gm, traced.num_fwd_outputs, fuses=False))
