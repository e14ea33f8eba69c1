"""Joins the forward and the backward module into which PyTorch has split a joint graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from .graphs import storage_id, without_code


def joined(
    gm: fx.GraphModule, forward: fx.GraphModule, backward: fx.GraphModule, num_fwd_outputs: int, *, stays: Callable[[fx.Node], bool]
) -> tuple[fx.GraphModule, set[fx.Node]]:
    """Returns the joint graph that runs the forward and then the backward, and its nodes of the backward. Nodes that the backward recomputes
    occur twice, the second time with storages of their own. stays: returns True for nodes of the backward that must not run in the forward,
    whatever they read."""
    graph = fx.Graph()
    env: dict[fx.Node, fx.Node] = {}

    def copy(node: fx.Node) -> None:
        env[node] = graph.node_copy(node, lambda a: env[a])
        env[node].meta = dict(node.meta)

    outputs = next(n for n in forward.graph.nodes if n.op == "output").args[0]
    saved = {a.name: a for a in outputs[num_fwd_outputs:] if isinstance(a, fx.Node)}
    placeholders = [n for n in backward.graph.nodes if n.op == "placeholder"]
    for node in [*forward.graph.nodes, *backward.graph.nodes]:
        if node.op == "placeholder" and (node.graph is forward.graph or node.name not in saved):
            copy(node)
    for node in forward.graph.nodes:
        if node.op not in ("placeholder", "output"):
            copy(node)
    for node in placeholders:
        if node.name in saved:
            env[node] = env[saved[node.name]]
    storages = _Storages(placeholders)
    after: set[fx.Node] = set()
    computed = {n.name for n in forward.graph.nodes if n.op == "call_function"}
    for node in backward.graph.nodes:
        if node.op not in ("placeholder", "output"):
            copy(node)
            after.add(env[node])
            if "val" in node.meta:
                env[node].meta["val"] = storages.own(node.meta["val"], is_again=node.name in computed)
            if stays(node):
                env[node].meta["partitioner_tag"] = "must_be_in_backward"
    gradients = next(n for n in backward.graph.nodes if n.op == "output").args[0]
    old = next(n for n in gm.graph.nodes if n.op == "output")
    results = fx.node.map_arg((tuple(outputs[:num_fwd_outputs]) + tuple(gradients),), lambda a: env[a])
    graph.output(*results).meta = dict(old.meta)
    graph.lint()
    return without_code(gm, graph), after


class _Storages:
    """Gives the tensors that a backward recomputes storages of their own: traced, they share those of the forward."""

    def __init__(self, given: Sequence[fx.Node]) -> None:
        """given: the inputs of the backward, which keep their storages."""
        values = [t for n in given for t in pytree.tree_leaves(n.meta.get("val")) if isinstance(t, torch.Tensor)]
        self._given = set(map(storage_id, values))
        self._own: dict[int, torch.UntypedStorage] = {}

    def own(self, value: Any, *, is_again: bool) -> Any:
        """Returns the value with its tensors in the backward's storages. is_again: the forward has computed the value too."""
        return pytree.tree_map_only(torch.Tensor, lambda t: self._moved(t, is_again), value)

    def _moved(self, t: torch.Tensor, is_again: bool) -> torch.Tensor:
        key = storage_id(t)
        if key in self._given or not (is_again or key in self._own) or not isinstance(t, FakeTensor):
            return t
        with t.fake_mode:
            if key not in self._own:
                self._own[key] = torch.empty(t.untyped_storage().nbytes(), dtype=torch.uint8, device=t.device).untyped_storage()
            made = torch.empty(0, dtype=t.dtype, device=t.device)
            return made.set_(self._own[key], t.storage_offset(), t.size(), t.stride())  # type: ignore[call-overload]
