"""Takes rows before a product instead of after it.

A language model's loss often leaves out the last token of each text: logits[:, :-1]. The product that makes the logits then has rows that nothing
reads, and its gradient rows of zeros. Without them, the logits and the loss have the same rows, and run chunk by chunk together.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from .editing import Before, replace
from .factors import RESHAPES, shape_of
from .seeds import is_zero

aten = torch.ops.aten


def taken_first(graph: fx.Graph, node: fx.Node) -> None:
    """A slice of the rows of a product becomes the product of the rows."""
    if node.target is not aten.slice.Tensor or len(node.args) > 4:
        return
    view, dim, *ends = node.args
    product = view.args[0] if view.target in RESHAPES else None  # type: ignore[union-attr]
    if product is None or product.target not in (aten.mm.default, aten.addmm.default) or len(product.users) != 1 or len(view.users) != 1:
        return
    shape = shape_of(view)  # type: ignore[arg-type]
    if not 0 <= dim < len(shape) - 1 or shape[-1] != shape_of(product)[-1]:  # type: ignore[operator]
        return
    add = Before(graph, node)
    *addend, rows, weight = product.args
    if addend and len(shape_of(addend[0])) != 1:  # type: ignore[arg-type]
        return
    fewer = _slice_of_rows(add, rows, shape[:-1], (dim, *ends))
    made = add(aten.view.default, add(product.target, *addend, fewer, weight), list(shape_of(node)))
    copies = [u for u in node.users if u.target is aten.clone.default]  # what is in rows needs no copy in rows
    replace(node, made)
    for copy in copies:
        if copy.meta["val"].stride() == made.meta["val"].stride():
            replace(copy, made)


def put_last(graph: fx.Graph, node: fx.Node) -> None:
    """A product of rows among rows of zeros becomes the product of the rows; the zeros are put among its results."""
    found = _among_zeros(node)
    if found is None:
        return
    gradient, shape, place = found
    if len(node.users) != 1 or not 0 <= place[0] < len(shape) - 1:
        return
    (whole,) = node.users
    if whole.target not in RESHAPES or shape_of(whole)[-1:] != shape[-1:] or len(shape_of(whole)) != 2:
        return
    readers = [r for u in whole.users for r in (u.users if u.target is aten.t.default else (u,))]
    if not all(_may_have_fewer_rows(r, whole) for r in readers):
        return
    rows = Before(graph, node)(aten.reshape.default, gradient, [-1, shape[-1]])
    for reader in readers:
        _with_rows(graph, reader, whole, rows, node, found)


_Place = tuple[Any, ...]
"""The axis of a slice, where it begins and where it ends."""
_Found = tuple[fx.Node, tuple[int, ...], _Place]
"""A tensor that is put among zeros, the shape of the result, and the place."""


def _among_zeros(node: fx.Node) -> _Found | None:
    """Returns the tensor that a node puts among zeros, the shape of the result, and the place."""
    if node.target is aten.slice_backward.default and node.args[5] == 1:
        return node.args[0], tuple(node.args[1]), node.args[2:5]  # type: ignore[return-value, arg-type]
    if node.target is aten.slice_scatter.default and len(node.args) == 5 and is_zero(node.args[0]):
        return node.args[1], shape_of(node), node.args[2:5]  # type: ignore[return-value]
    return None


def _may_have_fewer_rows(reader: fx.Node, whole: fx.Node) -> bool:
    """Returns True for products by all rows, products over the rows, and their sum."""
    if reader.target is aten.mm.default:
        a, b = reader.args
        return a is whole or (a is not b and (_is_transpose_of(a, whole) or b is whole and a.target is aten.t.default))  # type: ignore[union-attr]
    return reader.target is aten.sum.dim_IntList and list(reader.args[1]) == [0]  # type: ignore[arg-type]


def _with_rows(graph: fx.Graph, reader: fx.Node, whole: fx.Node, rows: fx.Node, zeros: fx.Node, found: _Found) -> None:
    add = Before(graph, reader)
    gradient, shape, place = found
    if reader.target is not aten.mm.default:
        replace(reader, add(reader.target, rows, *reader.args[1:]))
        return
    a, b = reader.args
    if a is whole:
        width = shape_of(reader)[1]
        product = add(aten.view.default, add(aten.mm.default, rows, b), [*shape_of(gradient)[:-1], width])
        outer = [*shape[:-1], width]
        if zeros.target is aten.slice_backward.default:
            put = add(zeros.target, product, outer, *place, 1)
        else:
            value = product.meta["val"]
            put = add(zeros.target, add(aten.full.default, outer, 0, dtype=value.dtype, device=value.device, pin_memory=False), product, *place)
        replace(reader, add(aten.view.default, put, list(shape_of(reader))))
    elif _is_transpose_of(a, whole):
        replace(reader, add(aten.mm.default, add(aten.t.default, rows), _slice_of_rows(add, b, shape[:-1], place)))
    else:
        other = _slice_of_rows(add, a.args[0], shape[:-1], place)  # type: ignore[union-attr]
        replace(reader, add(aten.mm.default, add(aten.t.default, other), rows))


def _slice_of_rows(add: Before, rows: Any, outer: tuple[int, ...], place: _Place) -> fx.Node:
    """Returns a slice along one of the axes that the rows of a matrix stand for, as a matrix."""
    width = shape_of(rows)[-1]
    part = add(aten.slice.Tensor, add(aten.reshape.default, rows, [*outer, width]), *place)
    return add(aten.reshape.default, part, [-1, width])


def _is_transpose_of(node: Any, other: fx.Node) -> bool:
    return node.target is aten.t.default and node.args[0] is other
