"""Compiles graphs with PyTorch's own kernels, one call for each op, or with inductor."""

from __future__ import annotations

import contextlib
import copy
import importlib.metadata
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import _COMPILER_FNS
from torch._functorch import config as functorch_config
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch.fx._lazy_graph_module import _LazyGraphModule

from ..graph import eager_ops
from .overlaps import gradients_without_overlaps, refuse_overlapping_writes
from .regions import hints_of
from .whole_ops import whole_ops

Boxed = Callable[[list[Any]], Any]
"""A compiled forward or backward. It empties its argument list, so that saved tensors are freed after their last use, not at the end."""
Watch = Callable[[Boxed], Boxed]
Attempt = TypeVar("Attempt", bound=CustomPartitionerFn)


def _unwatched(run: Boxed) -> Boxed:
    return run


def _boxed(run: Boxed) -> Boxed:
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _by_ops(gm: fx.GraphModule) -> Boxed:
    gm.graph.set_codegen(fx.graph._BoxedCodeGen())
    gm.recompile()
    _LazyGraphModule.force_recompile(gm)
    forward = gm.forward
    return lambda arguments: forward(arguments)


def _gradients_without_autocast() -> contextlib.AbstractContextManager[Any]:
    """Traces backwards as they run where `backward` is called outside of autocast, as PyTorch advises. By default PyTorch traces them with the autocast of
    the forward, and casts what eager does not cast. A program that has said otherwise is obeyed."""
    is_default = functorch_config.backward_pass_autocast == "same_as_forward"
    return functorch_config.patch(backward_pass_autocast="off") if is_default else contextlib.nullcontext()


def aot_eager(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    partition: Callable[..., Any],
    watch_forward: Watch = _unwatched,
    watch_backward: Watch = _unwatched,
) -> Callable[..., Any]:
    """Compiles a graph to calls of PyTorch's own kernels, one for each op."""

    def without_backward(gm: fx.GraphModule, inputs: Any) -> Boxed:
        refuse_overlapping_writes(gm.graph)
        return _boxed(_by_ops(gm))

    compile = aot_autograd(
        fw_compiler=lambda gm, _: _boxed(watch_forward(_by_ops(gm))),
        bw_compiler=lambda gm, _: _boxed(watch_backward(_by_ops(gm))),
        inference_compiler=without_backward,
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    with whole_ops(eager_ops.kernels(), has_symbolic_sizes=bool(hints_of(inputs))), gradients_without_overlaps(), _gradients_without_autocast():
        return compile(gm, inputs)


def compile_with_inductor(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    attempt: Attempt,
    config: dict[str, Any],
    watch_forward: Watch = _unwatched,
    watch_backward: Watch = _unwatched,
) -> tuple[Callable[..., Any], Attempt]:
    """Compiles a graph with inductor's kernels. Returns it, and the attempt whose plan it follows: the given one, or another one if its code took more
    than it may."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    from ..inductor import watch

    if all(i.device.type == "cpu" for i in inputs if isinstance(i, torch.Tensor)):
        # Inductor would choose the layout for each module separately, without regard to the plan. `layout` has chosen it for the joint
        # graph, and convolutions then take their operands in the strides that they have.
        config = {"layout_optimization": False, **config}

    def inner(attempt: Attempt, gm: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
        if options.get("is_inference"):
            return compile_fx_inner(gm, inputs, **options)
        is_backward = bool(options.get("is_backward"))
        made = watch.counted(attempt, is_backward, lambda: compile_fx_inner(gm, inputs, **options))
        return _boxed((watch_backward if is_backward else watch_forward)(made))

    def compile(attempt: Attempt, more: dict[str, Any]) -> Callable[..., Any]:
        graph = fx.GraphModule(gm, copy.deepcopy(gm.graph))  # compile_fx changes the graph, which may be compiled again
        graph.meta = dict(gm.meta)
        settings = {**config, "custom_partitioner_fn": attempt, **more}
        return compile_fx(graph, inputs, inner_compile=lambda *args, **options: inner(attempt, *args, **options), config_patches=settings)

    # The autograd cache is off: modules cached by an earlier process come without their plan, and the report would be empty. Inductor's
    # cache of kernels stays on. The backward is compiled together with the forward, because its code may show that another plan is needed.
    settings = functorch_config.patch(enable_autograd_cache=False, force_non_lazy_backward_lowering=True)
    with settings, gradients_without_overlaps(), _gradients_without_autocast():
        return watch.within_limits(attempt, compile)


def lays_out_convolutions() -> bool:
    """Returns inductor's setting `layout_optimization`, which a program may have changed for everything that it compiles."""
    from torch._inductor import config

    return bool(config.layout_optimization)


def register(name: str, backend: Callable[..., Any]) -> None:
    """Registers the backend with PyTorch, unless an entry point of an installed wheel does so already."""
    installed = {e.name for e in importlib.metadata.entry_points(group="torch_dynamo_backends")}
    if name not in installed and name not in _COMPILER_FNS:
        torch._dynamo.register_backend(backend, name=name)
