"""Reads, changes and splits joint graphs with the functions of PyTorch's own partitioners."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import torch
import torch._inductor.pattern_matcher  # noqa: F401  (fx_graph_cse would otherwise import it during the first planning)
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

from ..graph.walks import needed_for


def outputs_of(gm: fx.GraphModule, num_fwd_outputs: int) -> tuple[list[Any], list[Any]]:
    """Returns the outputs of the forward and of the backward of a joint graph: nodes, or constants such as None."""
    forward, backward, _, _ = _extract_fwd_bwd_outputs(gm, num_fwd_outputs=num_fwd_outputs)
    return list(forward), list(backward)


def inputs_of(graph: fx.Graph) -> list[fx.Node]:
    """Returns the inputs of the forward of a joint graph, in their order."""
    return [n for n in graph.nodes if _is_primal(n)]


def tangents(graph: fx.Graph) -> list[fx.Node]:
    return [n for n in graph.nodes if _is_tangent(n)]


def storage_id(value: torch.Tensor) -> int:
    """Returns a number that is equal for tensors that share a storage, as long as both tensors live."""
    return value.untyped_storage()._cdata


def is_held_by_others(value: torch.Tensor) -> bool:
    """Returns True if other tensors share the storage."""
    of_this = 2  # the tensor, and the storage that Python is given of it
    return int(torch._C._storage_Use_Count(value.untyped_storage()._cdata)) > of_this


def simplified(gm: fx.GraphModule, num_fwd_outputs: int, apart: Set[int] = frozenset()) -> fx.GraphModule:
    """Returns the joint graph without dead and duplicate nodes, as PyTorch's own partitioner simplifies it before it begins. apart: storages of which each
    tensor is one of its own, although another has equal elements."""
    gm.graph.eliminate_dead_code()
    if not functorch_config.cse:
        return without_code(gm, gm.graph)
    # A node that the backward needs is not merged with one that only the forward needs, because the merged one might have to be saved.
    _, outputs = outputs_of(gm, num_fwd_outputs)
    needed = needed_for(outputs)
    graph = fx_graph_cse(gm.graph, extra_node_key=lambda n: (n in needed, n if _storages(n) & apart else None))
    _move_views(gm.graph, graph)
    return without_code(gm, graph)


def _move_views(before: fx.Graph, merged: fx.Graph) -> None:
    """Moves views of tensors that were merged with others into the storages of those, by which views are recognized."""
    old = {n.name: n for n in before.nodes}
    for node in merged.nodes:
        if node.op != "call_function" or node.name not in old:
            continue
        own = _storages(node)
        pairs = zip(_operands(old[node.name]), _operands(node), strict=True)
        if own and any(a.name != b.name and own & _storages(a) and not own & _storages(b) for a, b in pairs):
            node.meta["val"] = traced(node)


def _operands(node: fx.Node) -> list[fx.Node]:
    return [a for a in pytree.arg_tree_leaves(*node.args, **node.kwargs) if isinstance(a, fx.Node)]


def _storages(node: fx.Node) -> set[int]:
    values = pytree.tree_leaves(node.meta.get("val"))
    return {storage_id(t) for t in values if isinstance(t, torch.Tensor) and t.layout is torch.strided}


def without_code(gm: fx.GraphModule, graph: fx.Graph) -> fx.GraphModule:
    """Returns a module of a joint graph, whose Python code is generated when it is first needed. Joint graphs are split and never run,
    and generating the code takes as long as planning a small graph."""
    return _LazyGraphModule(gm, graph)


def split(
    gm: fx.GraphModule,
    graph: fx.Graph,
    saved: Sequence[fx.Node],
    *,
    num_fwd_outputs: int,
    static_lifetime_input_indices: Sequence[int] | None,
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Returns the forward and the backward of a joint graph whose nodes are tagged with the module that they belong to."""
    static = set(static_lifetime_input_indices or ())
    primals = [n for n in graph.nodes if _is_primal(n)]
    with _use_lazy_graph_module(True):  # the compiler generates the code of the two modules if it needs it
        return _extract_fwd_bwd_modules(
            without_code(gm, graph),
            [n for n in saved if not is_sym_node(n)],
            saved_sym_nodes=[n for n in saved if is_sym_node(n)],
            saved_opaque_nodes=[],
            num_fwd_outputs=num_fwd_outputs,
            static_lifetime_input_nodes=OrderedSet(p for i, p in enumerate(primals) if i in static),
        )


def keep_in_memory(node: fx.Node) -> None:
    """Makes inductor compute the node's result where the node stands. Fused into a later reader, it would keep its operands live until then."""
    node.meta["inductor_realize_to_strides"] = True


def keep_apart(node: fx.Node) -> None:
    """Keeps inductor from fusing a matrix product and a sum that reads it into one op."""
    if node.target is torch.ops.aten.mm.default:
        node.meta[_PRESERVE_FLEX_GEMM_GEMM_OP] = True


def makes_sparse(node: fx.Node) -> bool:
    """Returns True if the node makes a sparse tensor of given indices and values, of which it copies neither."""
    return node.op == "call_function" and node.target is torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors.default


def traced(node: fx.Node) -> Any:
    """Returns a node's traced value, computed from those of its operands: fake tensors, with new storages unless the node is a view. A sparse tensor,
    which has no storage of its own, is taken for a view of its values."""
    if makes_sparse(node):
        return node.args[4].meta["val"]  # type: ignore[union-attr]
    args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), lambda a: a.meta["val"])
    nodes = node.all_input_nodes or node.graph.nodes  # an op that makes a constant reads no tensor
    values = (t for n in nodes for t in pytree.tree_leaves(n.meta.get("val")) if isinstance(t, FakeTensor))
    with next(values).fake_mode:
        return node.target(*args, **kwargs)  # type: ignore[operator]


def state_like(value: torch.Tensor) -> torch.Tensor:
    """Returns a fake tensor of the size of the state of the random generator of `value`'s device."""
    with value.fake_mode:  # type: ignore[attr-defined]
        if value.device.type == "cpu":
            return torch.empty(torch.get_rng_state().shape, dtype=torch.uint8)
        return torch.empty(torch.get_device_module(value.device).get_rng_state().shape, dtype=torch.uint8)
