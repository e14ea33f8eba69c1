"""Gives ops of a joint graph forms that can run chunk by chunk. Results are equal but for rounding."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from .. import hooks
from ..graph import rules
from ..graph.joint import ONTO
from . import rows
from .editing import Before, replace
from .factors import RESHAPES, SUM, are_alike, shape_of

aten = torch.ops.aten
prims = torch.ops.prims

_MEAN = 1


def in_forms(gm: fx.GraphModule) -> fx.GraphModule:
    """Returns a copy of a prepared joint graph with its ops in such forms."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in gm.graph.nodes:
        copies[node] = graph.node_copy(node, lambda a: copies[a])
        copies[node].meta = dict(node.meta)
    idle = (_without_idle_views, _without_double_transposes)
    for change in (_made_alone, _sums_of_losses, *idle, rows.taken_first, rows.put_last, *idle, _transposed_products, _gradients_onto):
        for node in list(graph.nodes):
            if node.op == "call_function":
                change(graph, node)
    graph.eliminate_dead_code(is_impure_node=lambda n: n.op in ("placeholder", "output") or rules.acts(n))
    graph.lint()
    return hooks.without_code(gm, graph)


def _made_alone(graph: fx.Graph, node: fx.Node) -> None:
    """A constant that is made in the form of another tensor is made without it."""
    if node.target not in _CONSTANTS:
        return
    value = node.meta["val"]
    given = _CONSTANTS[node.target]
    number = node.args[-1] if given is None else given
    if isinstance(number, (int, float)) and value.is_contiguous():
        how = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
        replace(node, Before(graph, node)(aten.full.default, list(shape_of(node)), number, **how))


# By op, the number that it makes; None: its last argument.
_CONSTANTS = {
    aten.new_zeros.default: 0,
    aten.zeros_like.default: 0,
    aten.new_ones.default: 1,
    aten.ones_like.default: 1,
    aten.new_full.default: None,
    aten.full_like.default: None,
}


# --- losses


def _sums_of_losses(graph: fx.Graph, node: fx.Node) -> None:
    """A mean over the batch becomes a sum, divided by a count that does not depend on the predictions."""
    rewrite = {
        aten.nll_loss_forward.default: _nll,
        aten.nll_loss2d_forward.default: _nll,
        aten.mse_loss.default: _distance,
        aten.smooth_l1_loss.default: _distance,
        aten.huber_loss.default: _distance,
        aten.mse_loss_backward.default: _distance_backward,
        aten.smooth_l1_loss_backward.default: _distance_backward,
        aten.huber_loss_backward.default: _distance_backward,
        aten.binary_cross_entropy_with_logits.default: _cross_entropy_of_two,
        aten.mean.default: _mean,
    }.get(node.target)
    if rewrite is not None:
        rewrite(node, Before(graph, node))


def _nll(node: fx.Node, add: Before) -> None:
    x, target, weight, reduction, ignored = node.args
    results = {user.args[1]: user for user in node.users}
    if reduction not in (_MEAN, SUM) or len(shape_of(x)) < 2:  # type: ignore[arg-type]
        return
    counts = add(aten.ne.Scalar, target, ignored)
    dtype = x.meta["val"].dtype  # type: ignore[union-attr]
    if weight is None:
        count = add(prims.convert_element_type.default, add(aten.sum.default, counts), dtype)
    else:
        known = add(aten.mul.Tensor, target, counts)  # 0 for an ignored one
        count = add(aten.sum.default, add(aten.mul.Tensor, add(aten.index.Tensor, weight, [known]), counts))
    total = add(node.target, x, target, weight, SUM, ignored)
    if 0 in results:
        loss = add(operator.getitem, total, 0)
        replace(results[0], add(aten.div.Tensor, loss, count) if reduction == _MEAN else loss)
    if 1 in results:
        replace(results[1], count)


def _distance(node: fx.Node, add: Before) -> None:
    x, target, *others = node.args
    reduction = others[0] if others else _MEAN
    if reduction == _MEAN:
        replace(node, add(aten.div.Scalar, add(node.target, x, target, SUM, *others[1:]), _elements(x)))


def _distance_backward(node: fx.Node, add: Before) -> None:
    gradient, x, target, reduction, *others = node.args
    if reduction == _MEAN:
        replace(node, add(node.target, add(aten.div.Scalar, gradient, _elements(x)), x, target, SUM, *others))


def _cross_entropy_of_two(node: fx.Node, add: Before) -> None:
    x, target, *others = node.args
    weights, reduction = [*others, None, None][:2], others[2] if len(others) > 2 else _MEAN
    if weights == [None, None] and reduction == _MEAN and not node.kwargs:
        replace(node, add(aten.div.Scalar, add(node.target, x, target, None, None, SUM), _elements(x)))


def _mean(node: fx.Node, add: Before) -> None:
    if node.args[0].meta["val"].dtype.itemsize >= 4:  # type: ignore[union-attr]
        replace(node, add(aten.div.Scalar, add(aten.sum.default, node.args[0]), _elements(node.args[0])))


def _elements(node: Any) -> int:
    return int(node.meta["val"].numel())


# --- others


def _without_idle_views(graph: fx.Graph, node: fx.Node) -> None:
    """A view of a view is one of what that is a view of, or that itself."""
    while node.target in RESHAPES and node.args[0].target in RESHAPES:  # type: ignore[union-attr]
        node.update_arg(0, node.args[0].args[0])  # type: ignore[union-attr]
    if node.target in RESHAPES:
        before, now = node.args[0].meta["val"], node.meta["val"]  # type: ignore[union-attr]
        if before.shape == now.shape and before.stride() == now.stride() and any(u.op != "output" for u in node.users):
            for user in list(node.users):
                if user.op != "output":
                    user.replace_input_with(node, node.args[0])  # type: ignore[arg-type]


def _without_double_transposes(graph: fx.Graph, node: fx.Node) -> None:
    if node.target is aten.t.default and node.args[0].target is aten.t.default:  # type: ignore[union-attr]
        node.replace_all_uses_with(node.args[0].args[0])  # type: ignore[union-attr, arg-type]


def _transposed_products(graph: fx.Graph, node: fx.Node) -> None:
    """The transpose of a product is the product of the transposes: a gradient is summed in the layout in which it goes out."""
    product = node.args[0] if node.target is aten.t.default else None
    if isinstance(product, fx.Node) and product.target is aten.mm.default and len(product.users) == 1 and len(shape_of(node)) == 2:
        add = Before(graph, node)
        a, b = product.args
        made = add(aten.mm.default, _transpose(add, b), _transpose(add, a))
        for user in list(node.users):
            if user.op == "output":
                return  # the strides of a result stay as they are
        replace(node, made)


def _transpose(add: Before, node: Any) -> fx.Node:
    return node.args[0] if node.target is aten.t.default and len(shape_of(node.args[0])) == 2 else add(aten.t.default, node)


def _gradients_onto(graph: fx.Graph, node: fx.Node) -> None:
    """The gradient of an embedding is added to another gradient in place, row by row."""
    if node.target is not aten.add.Tensor or node.kwargs or not all(isinstance(a, fx.Node) for a in node.args):
        return
    for one, other in (node.args, node.args[::-1]):
        found = one.args if one.target is aten.embedding_dense_backward.default and len(one.users) == 1 else None  # type: ignore[union-attr]
        if found is None or found[4] or not are_alike(other, node):
            continue
        gradient, index, _, padding = found[:4]
        add = Before(graph, node)
        words, of_words = add(aten.reshape.default, index, [-1]), add(aten.reshape.default, gradient, [-1, shape_of(node)[-1]])
        if padding >= 0:  # its row has no gradient
            of_words = add(aten.mul.Tensor, of_words, add(aten.unsqueeze.default, add(aten.ne.Scalar, words, padding), 1))
        made = add(aten.index_add.default, other, 0, words, of_words)
        made.meta[ONTO] = True
        replace(node, made)
        return
