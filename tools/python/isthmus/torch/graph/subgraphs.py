"""Gives each call of a subgraph the storages that it makes and takes.

PyTorch traces a region that is compiled once (`torch.compiler.nested_compile_region`) once, and notes the traced results at each of its calls. By
their storages the results of two calls seem to be the same tensors, and a result that is a view of an operand seems to be a tensor of its own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from .. import hooks
from .bodies import body_of
from .sizes import tensors_in

_CALL = torch.ops.higher_order.invoke_subgraph


def note_storages(graph: fx.Graph) -> None:
    """Replaces the traced results of calls of subgraphs, and of what views them, by ones whose storages are those of the call."""
    before: dict[fx.Node, set[int]] = {}  # the storages that a node had whose value has been replaced
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        body = body_of(node.args[0]) if node.target is _CALL else None  # type: ignore[arg-type]
        own = _storages(node)
        if body is not None:
            node.meta["val"] = _results(body, [a.meta.get("val") if isinstance(a, fx.Node) else a for a in node.args[2:]])
        elif any(own & before[a] for a in node.all_input_nodes if a in before):
            node.meta["val"] = hooks.traced(node)
        else:
            continue
        before[node] = own


def _storages(node: fx.Node) -> set[int]:
    return {hooks.storage_id(t) for t in tensors_in(node.meta.get("val"))}


def _results(body: fx.GraphModule, operands: list[Any]) -> Any:
    """Returns what a call of the body gives: views of the operands, and new tensors."""
    inputs = [n for n in body.graph.nodes if n.op == "placeholder"]
    (output,) = (n for n in body.graph.nodes if n.op == "output")
    bases: dict[int, torch.Tensor] = {}  # by a storage of the traced body, a tensor in the storage of this call
    for traced, given in zip(inputs, operands):
        if isinstance(given, torch.Tensor) and isinstance(traced.meta.get("val"), torch.Tensor):
            bases[hooks.storage_id(traced.meta["val"])] = given

    def of_call(result: Any) -> Any:
        value = result.meta["val"] if isinstance(result, fx.Node) else result
        if not isinstance(value, torch.Tensor):
            return value
        with value.fake_mode:  # type: ignore[attr-defined]
            base = bases.setdefault(hooks.storage_id(value), _new(value))
            return base.view(value.dtype).as_strided(value.shape, value.stride(), value.storage_offset())

    return pytree.tree_map(of_call, tuple(output.args[0]), is_leaf=lambda r: isinstance(r, fx.Node))  # type: ignore[arg-type]


def _new(value: torch.Tensor) -> torch.Tensor:
    """Returns all of a new storage that is as large as that of `value`."""
    return value.new_empty(value.untyped_storage().nbytes() // value.element_size())
