"""The backend that torch.compile calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from ..errors import BadInput
from . import hooks
from .compiled import Compiled
from .options import Options
from .partitioner import Partitioner

# Kernels of several layers that inductor merges into one would hold what all of them read: it may do so only where that costs no memory.
# It also holds dead buffers until it needs others of their size; PyTorch's allocator does that too, without holding them.
# It would begin collectives earlier and wait for them later, up to its own count of the peak, which is above the plan's: it does not count
# what is computed in place.
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
    """torch.compile(model, backend="isthmus", options={"budget": "2GiB"}); options are those of `Options`."""
    if mode not in (None, "default"):
        raise BadInput(f"the backend 'isthmus' has no modes, got '{mode}': use options, or isthmus.torch.Partitioner with stock inductor")
    partitioner = Partitioner(**Options.named(options))
    return Compiled(gm, example_inputs, partitioner, hooks.aot_eager if partitioner.options.kernels == "aot_eager" else _by_inductor)


def _by_inductor(gm: fx.GraphModule, inputs: Sequence[Any], partitioner: Partitioner, *watches: hooks.Watch) -> Callable[..., Any]:
    o = partitioner.options
    # A rank that found its code in a cache would not come to where the others agree on a plan.
    caches = {"force_disable_caches": True} if o.sync else {}
    return hooks.compile_with_inductor(gm, inputs, partitioner, {**_INDUCTOR, **caches, **o.inductor}, *watches)
