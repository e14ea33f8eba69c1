"""Defines the backend that torch.compile calls."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from ..errors import BadInput, Error
from . import hooks
from .compiled import Compiled
from .options import Options
from .plans.attempt import Attempt
from .plans.planner import Planner
from .steps.registry import with_options
from .steps.steps import Steps

# Inductor may fuse kernels only if that does not raise the peak, because a fused kernel keeps the operands of all its parts live. It may not
# reuse buffers, which it would keep live until one of the same size is needed; PyTorch's allocator reuses their memory anyway. It may not
# reorder ops, because their order is that of the plan. Nor may it begin collectives earlier and wait for them later: it would do so up to its
# own count of the peak, which is above the plan's, because it does not count what is computed in place.
_INDUCTOR = {
    "fusion_memory_timeline_peak_memory_increase_gb": 0.0,
    "allow_buffer_reuse": False,
    "reorder_for_peak_memory": False,
    "aten_distributed_optimizations.enable_simple_overlap": False,
}


def backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Callable[..., Any]:
    """Compiles a graph for `torch.compile(model, backend="isthmus", options={"budget": "2GiB"})`. options: those of `Options`."""
    if mode not in (None, "default"):
        raise BadInput(f"the backend 'isthmus' has no modes, got '{mode}': use options, or isthmus.torch.Partitioner with stock inductor")
    planner = Planner.of(Options(**Options.named(options)))
    return Compiled(gm, example_inputs, planner, _by_ops if planner.options.kernels == "aot_eager" else _by_inductor)


def _by_ops(gm: fx.GraphModule, inputs: Sequence[Any], attempt: Attempt, *watches: hooks.Watch) -> tuple[Callable[..., Any], Attempt]:
    return hooks.aot_eager(gm, inputs, attempt, *watches), attempt


def _by_inductor(gm: fx.GraphModule, inputs: Sequence[Any], attempt: Attempt, *watches: hooks.Watch) -> tuple[Callable[..., Any], Attempt]:
    """Returns the compiled graph, and the attempt whose plan it follows."""
    o = attempt.planner.options
    # A rank that finds its code in a cache would not take part when the others agree on a plan.
    caches = {"force_disable_caches": True} if o.sync else {}
    return hooks.compile_with_inductor(gm, inputs, attempt, {**_INDUCTOR, **caches, **o.inductor}, *watches)


class _AroundCalls:
    """Makes the context that surrounds each call of a function that is compiled with these options. A compiled module is copied and pickled with it."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._held: Steps | None = None  # nothing else may hold it
        _compiled.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _AroundCalls, (self._options,)

    def __call__(self) -> contextlib.AbstractContextManager[None]:
        _expect_all()
        found = self.steps()
        return contextlib.nullcontext() if found is None else found.calling(self)

    def steps(self) -> Steps | None:
        """Returns the steps of functions with these options; None: the options are wrong, which the backend raises when it is called."""
        self._held = None if self._known is None else with_options(*self._known)
        return self._held

    @functools.cached_property
    def _known(self) -> tuple[Options, str] | None:
        try:
            planner = Planner.of(Options(**Options.named(self._options)))
        except Error:
            return None
        return planner.options, planner.digest


_compiled: weakref.WeakSet[_AroundCalls] = weakref.WeakSet()
"""The functions that were compiled since any was called."""


def _expect_all() -> None:
    """Tells the steps which functions were compiled that they may call. The options of a function are read when one is called, and not when it is compiled."""
    while _compiled:
        function = _compiled.pop()
        found = function.steps()
        if found is not None:
            found.expect(function)


hooks.around_calls(backend, _AroundCalls)
