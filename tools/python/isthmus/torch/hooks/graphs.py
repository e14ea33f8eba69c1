"""Joint graphs, as PyTorch's tracing makes them and its own partitioners cut them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch._inductor.pattern_matcher  # noqa: F401  (fx_graph_cse reads it, which would otherwise load it within the first planning)
from torch import fx
from torch._functorch import config as functorch_config
from torch._functorch.compile_utils import fx_graph_cse
from torch._functorch.partitioners import (
    _extract_fwd_bwd_modules,
    _extract_fwd_bwd_outputs,
    _is_primal,
    _is_tangent,
    is_sym_node,
)
from torch._higher_order_ops.flex_gemm import _PRESERVE_FLEX_GEMM_GEMM_OP
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module
from torch.utils import _pytree as pytree
from torch.utils._ordered_set import OrderedSet


def outputs_of(gm: fx.GraphModule, num_fwd_outputs: int) -> tuple[list[Any], list[Any]]:
    """What the forward and the backward of a joint graph return: nodes, or constants such as None."""
    forward, backward, _, _ = _extract_fwd_bwd_outputs(gm, num_fwd_outputs=num_fwd_outputs)
    return list(forward), list(backward)


def inputs_of(graph: fx.Graph) -> list[fx.Node]:
    """What the forward of a joint graph is called with, in this order."""
    return [n for n in graph.nodes if _is_primal(n)]


def tangents(graph: fx.Graph) -> list[fx.Node]:
    return [n for n in graph.nodes if _is_tangent(n)]


def storage_id(value: torch.Tensor) -> int:
    """Equal for tensors that share a storage, as long as both live."""
    return value.untyped_storage()._cdata


def simplified(gm: fx.GraphModule, num_fwd_outputs: int) -> fx.GraphModule:
    """The joint graph without what is dead and what is computed twice, as PyTorch's own partitioner makes it before it begins."""
    gm.graph.eliminate_dead_code()
    if not functorch_config.cse:
        return without_code(gm, gm.graph)
    # A value that the backward needs is never merged with one that only the forward does, so that it is not saved for nothing.
    _, outputs = outputs_of(gm, num_fwd_outputs)
    needed: set[fx.Node] = set()
    stack = [o for o in outputs if isinstance(o, fx.Node)]
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack.extend(node.all_input_nodes)
    return without_code(gm, fx_graph_cse(gm.graph, extra_node_key=lambda n: n in needed))


def without_code(gm: fx.GraphModule, graph: fx.Graph) -> fx.GraphModule:
    """A module of a joint graph, which is cut and never run: making its code takes as long as planning a small one. Who asks for the code
    gets it."""
    return _LazyGraphModule(gm, graph)


def split(
    gm: fx.GraphModule,
    graph: fx.Graph,
    saved: Sequence[fx.Node],
    *,
    num_fwd_outputs: int,
    static_lifetime_input_indices: Sequence[int] | None,
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Forward and backward of a joint graph whose nodes are tagged with the module that they belong to."""
    static = set(static_lifetime_input_indices or ())
    primals = [n for n in graph.nodes if _is_primal(n)]
    with _use_lazy_graph_module(True):  # who compiles the two makes their code, if there is to be any
        return _extract_fwd_bwd_modules(
            without_code(gm, graph),
            [n for n in saved if not is_sym_node(n)],
            saved_sym_nodes=[n for n in saved if is_sym_node(n)],
            saved_opaque_nodes=[],
            num_fwd_outputs=num_fwd_outputs,
            static_lifetime_input_nodes=OrderedSet(p for i, p in enumerate(primals) if i in static),
        )


def keep_in_memory(node: fx.Node) -> None:
    """Inductor, which would make a node part of whatever reads it and keep its operands until then, writes its result where it stands."""
    node.meta["inductor_realize_to_strides"] = True


def keep_apart(node: fx.Node) -> None:
    """Inductor does not make one op of a product and of a sum that reads it."""
    if node.target is torch.ops.aten.mm.default:
        node.meta[_PRESERVE_FLEX_GEMM_GEMM_OP] = True


def traced(node: fx.Node) -> Any:
    """What a node gives, of what its operands give: fake tensors, in storages of their own where it is no view."""
    values = [t for a in node.all_input_nodes for t in pytree.tree_leaves(a.meta["val"]) if isinstance(t, FakeTensor)]
    args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), lambda a: a.meta["val"])
    with values[0].fake_mode:
        return node.target(*args, **kwargs)  # type: ignore[operator]


def state_like(value: torch.Tensor) -> torch.Tensor:
    """A fake tensor of the size of the generator's state of the device on which `value` lies."""
    with value.fake_mode:  # type: ignore[attr-defined]
        if value.device.type == "cpu":
            return torch.empty(torch.get_rng_state().shape, dtype=torch.uint8)
        return torch.empty(torch.get_device_module(value.device).get_rng_state().shape, dtype=torch.uint8)
