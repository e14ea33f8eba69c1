"""Chooses the layout of pictures: convolutions on a CPU get the channels last if no other op of the graph is slower with them.

The layout is chosen once for each joint graph, before planning, and written into the graph: copies into the other layout are nodes, and
the tensors in `meta["val"]` have their new strides. So the plan counts the copies, costs are those of the layout that will run, and the
forward and the backward, which inductor compiles separately, convolve in the same layout.

Inductor's own layout pass, which works on each module that it compiles, is switched off.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from .. import hooks
from . import rules
from .preparation import after_tangents
from .sizes import tensors_in

aten = torch.ops.aten

_CONVOLUTIONS = (aten.convolution.default, aten.convolution_backward.default)
_NODES_PER_CONVOLUTION = 300
"""From this number of nodes for each convolution on, convolutions take a small part of the time. Inductor uses the same bound."""

# Ops that accept channels-last tensors, besides elementwise ops and reductions. Views of such tensors are made where the strides permit it.
# Left out are ops that gather and scatter, such as interpolation, because they are slower with channels last; random ops, which draw numbers
# in memory order; ops that take strides as arguments; and concatenations, because inductor then keeps their parts live beside the result.
_TAKES_ANY_LAYOUT = {
    operator.getitem,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default,
    aten._unsafe_view.default,
    aten.avg_pool2d.default,
    aten.avg_pool2d_backward.default,
    aten.constant_pad_nd.default,
    aten.detach.default,
    aten.expand.default,
    aten.hardswish.default,
    aten.hardswish_backward.default,
    aten.hardtanh.default,
    aten.hardtanh_backward.default,
    aten.max_pool2d_with_indices.default,
    aten.max_pool2d_with_indices_backward.default,
    aten.native_batch_norm_backward.default,
    aten.permute.default,
    aten.select.int,
    aten.slice.Tensor,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
    aten.view.default,
    torch.ops.prims._low_memory_max_pool_offsets_to_indices.default,
    torch.ops.prims._low_memory_max_pool_with_offsets.default,
}


def with_channels_last(gm: fx.GraphModule) -> fx.GraphModule | None:
    """Returns the joint graph with the channels of pictures last; None if the graph must stay as it is."""
    convolutions = [n for n in gm.graph.nodes if n.target in _CONVOLUTIONS]
    if not convolutions or len(gm.graph.nodes) >= _NODES_PER_CONVOLUTION * len(convolutions):
        return None
    if not torch.backends.mkldnn.is_available() or not torch.backends.mkldnn.enabled:
        return None
    if not all(_is_of_pictures(n) for n in convolutions):
        return None
    try:
        return hooks.without_code(gm, _Relaid(gm.graph).run())
    except _StaysAsItIs:
        return None


def convolutions_with_channels_last(graph: fx.Graph) -> list[fx.Node]:
    """Returns each convolution of pictures with the channels last, and the copies into that layout. Their costs are measured before the
    layout is chosen."""
    return _Relaid(graph).convolutions_alone()


def _is_of_pictures(convolution: fx.Node) -> bool:
    """Returns True for a 2-D convolution on a CPU that is not transposed and has known sizes. If the channels, height or width of an operand
    are 1, it returns False: inductor requires the stride order of the gradients, which is then ambiguous, and would copy the operand."""
    values = list(tensors_in([a.meta.get("val") for a in (convolution, *convolution.all_input_nodes)]))
    is_transposed = convolution.args[6 if convolution.target is aten.convolution.default else 7]
    pictures = [v for v in values if v.dim() != 1]
    return (
        not is_transposed
        and all(v.device.type == "cpu" for v in values)
        and all(v.dim() == 4 and all(isinstance(s, int) for s in (*v.shape, *v.stride())) and min(v.shape[1:]) > 1 for v in pictures)
    )


class _StaysAsItIs(Exception):
    """Raised if a node cannot take channels-last operands, or would be slower with them."""


class _Relaid:
    """Copies a graph into the new layout. A tensor "has moved" if its strides differ from those in the old graph."""

    def __init__(self, graph: fx.Graph) -> None:
        self.old, self.new = graph, fx.Graph()
        self.env: dict[fx.Node, fx.Node] = {}
        self.after = after_tangents(graph)
        self.copies: dict[tuple[fx.Node, torch.memory_format, bool], fx.Node] = {}

    def run(self) -> fx.Graph:
        for node in self.old.nodes:
            if node.op == "output":
                self._return(node)
            elif node.target in _CONVOLUTIONS:
                self._convolve(node)
                if not all(_is_in_format(t, torch.channels_last) for t in tensors_in(self.env[node].meta["val"]) if t.dim() == 4):
                    raise _StaysAsItIs  # for some dtypes, kernels return contiguous tensors for any input
            else:
                self._emit_any(node)
        self.new.lint()
        return self.new

    def convolutions_alone(self) -> list[fx.Node]:
        for node in self.old.nodes:
            if node.target in _CONVOLUTIONS and _is_of_pictures(node):
                for operand in node.all_input_nodes:
                    if operand not in self.env:
                        self.env[operand] = self.new.placeholder(operand.name)
                        self.env[operand].meta = dict(operand.meta)
                self._convolve(node)
        return list(self.new.nodes)

    def _convolve(self, node: fx.Node) -> None:
        self._emit(node, {a: self._in_format(self.env[a], torch.channels_last, node) for a in node.all_input_nodes})

    def _emit_any(self, node: fx.Node) -> None:
        operands = {a: self.env[a] for a in node.all_input_nodes}
        if any(_has_moved(old, new) for old, new in operands.items()):
            if not _takes_any_layout(node):
                raise _StaysAsItIs
            if rules.is_view(node):
                operands = {a: self._seen_as(node, a, new) for a, new in operands.items()}
        self._emit(node, operands)

    def _emit(self, node: fx.Node, operands: dict[fx.Node, fx.Node]) -> None:
        made = self.new.node_copy(node, lambda a: operands[a])
        made.meta = dict(node.meta)
        if any(old.meta.get("val") is not new.meta.get("val") for old, new in operands.items()):
            made.meta["val"] = _value(made)
        self.env[node] = made

    def _seen_as(self, view: fx.Node, old: fx.Node, new: fx.Node) -> fx.Node:
        """Returns an operand of a view, copied into the old layout if its new strides do not permit the view."""
        try:
            _value(view, {old: new})
        except (RuntimeError, ValueError):
            return self._as_before(old, new, view)
        return new

    def _return(self, output: fx.Node) -> None:
        """Emits the output. Results keep their old layout, because the caller sees their strides."""
        made = self.new.node_copy(output, lambda a: self._as_before(a, self.env[a], output))
        made.meta = dict(output.meta)

    def _as_before(self, old: fx.Node, new: fx.Node, reader: fx.Node) -> fx.Node:
        if not _has_moved(old, new):
            return new
        before = old.meta["val"]
        for memory_format in (torch.contiguous_format, torch.channels_last):
            if _is_in_format(before, memory_format):
                return self._in_format(new, memory_format, reader)
        raise _StaysAsItIs

    def _in_format(self, node: fx.Node, memory_format: torch.memory_format, reader: fx.Node) -> fx.Node:
        """Returns the node, or a copy of it in the format. The forward and the backward get separate copies: the source of the copy is live or
        saved anyway, and a shared copy would have to be saved too."""
        value = node.meta["val"]
        if _is_in_format(value, memory_format) or (memory_format is torch.channels_last and value.dim() != 4):
            return node
        key = (node, memory_format, reader in self.after)
        if key not in self.copies:
            copy = self.new.call_function(aten.clone.default, (node,), {"memory_format": memory_format})
            copy.meta = {k: v for k, v in (node if reader.op == "output" else reader).meta.items() if k != "recompute"}
            copy.meta["val"] = _value(copy)
            self.copies[key] = copy
        return self.copies[key]


def _takes_any_layout(node: fx.Node) -> bool:
    if node.target in _TAKES_ANY_LAYOUT:
        return True
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
        return False
    return torch.Tag.pointwise in node.target.tags or torch.Tag.reduction in node.target.tags


def _is_in_format(value: torch.Tensor, memory_format: torch.memory_format) -> bool:
    return (value.dim() == 4 or memory_format is torch.contiguous_format) and value.is_contiguous(memory_format=memory_format)


def _has_moved(old: fx.Node, new: fx.Node) -> bool:
    """Returns True if the strides differ; strides of dimensions of size 1 are ignored."""
    if old.meta.get("val") is new.meta.get("val"):  # no convolution affects this node, whose sizes may be symbolic
        return False
    pairs = zip(tensors_in(old.meta.get("val")), tensors_in(new.meta.get("val")), strict=True)
    return any(_strides_that_count(a) != _strides_that_count(b) for a, b in pairs)


def _strides_that_count(t: torch.Tensor) -> list[Any]:
    return [stride for size, stride in zip(t.shape, t.stride(), strict=True) if size != 1]


def _value(node: fx.Node, instead: dict[fx.Node, fx.Node] | None = None) -> Any:
    """Returns the traced value of a node, computed from the traced values of its operands. instead: replacements for operands."""

    def value(a: fx.Node) -> Any:
        return (instead or {}).get(a, a).meta.get("val")

    args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), value)
    if node.target is operator.getitem:
        return args[0][args[1]]
    with next(tensors_in(list(map(value, node.all_input_nodes)))).fake_mode:  # type: ignore[attr-defined]
        return node.target(*args, **kwargs)  # type: ignore[operator]
