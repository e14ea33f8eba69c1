"""Along which axes PyTorch's ops may run chunk by chunk.

A factor of an op names one axis of some of its operands and results, as in the notation of einsum. Cut along a factor, the op's results are the
same chunks of the whole results. Results without the factor are sums over it: the sum of what the chunks give is the whole result. Operands
without the factor are read whole by every chunk.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ..graph import rules
from ..graph.joint import CHUNK

aten = torch.ops.aten

Target = Any


@dataclass(frozen=True)
class Factor:
    operands: dict[fx.Node, int]
    """By operand: its axis."""
    results: dict[int, int]
    """By the index of a result: its axis; 0 if there is only one."""


_Rule = Callable[[fx.Node], Iterator[Factor]]
_rules: dict[Target, _Rule] = {}


def factors_of(node: fx.Node) -> list[Factor]:
    """Returns the factors of an op; none for a reshape, and for an op that is not known, has an effect, or whose result depends on how often it runs."""
    if not _may_be_cut(node):
        return []
    rule = _rules.get(node.target)
    if rule is None and torch.Tag.pointwise in node.target.tags:
        rule = _elementwise
    return [] if rule is None else list(rule(node))


def is_reshape(node: fx.Node) -> bool:
    """Returns True for an op whose operand and result have the same elements in the same order, as far as it may be cut."""
    return node.target in RESHAPES and _may_be_cut(node)


def _may_be_cut(node: fx.Node) -> bool:
    return node.op == "call_function" and CHUNK not in node.meta and not rules.acts(node) and isinstance(node.target, torch._ops.OpOverload)


def known() -> set[Target]:
    """Returns the ops with rules of their own. Elementwise ops need none."""
    return set(_rules)


def results_of(node: fx.Node) -> dict[int, fx.Node]:
    """Returns the nodes that stand for the results of an op, by their index. Those of a tuple that nothing reads are left out."""
    if isinstance(node.meta.get("val"), (tuple, list)):
        return {user.args[1]: user for user in node.users if user.target is operator.getitem}  # type: ignore[misc]
    return {0: node}


def maker_of(value: fx.Node) -> fx.Node:
    """Returns the op that makes a value."""
    return value.args[0] if value.target is operator.getitem else value  # type: ignore[return-value]


def shape_of(value: fx.Node) -> tuple[Any, ...]:
    return tuple(value.meta["val"].shape)


def are_alike(a: fx.Node, b: fx.Node) -> bool:
    """Returns True if two tensors lie alike in memory."""
    one, other = a.meta["val"], b.meta["val"]
    return bool((one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype))


# --- Rules

def _rule(*targets: Target) -> Callable[[_Rule], _Rule]:
    def add(function: _Rule) -> _Rule:
        _rules.update(dict.fromkeys(targets, function))
        return function

    return add


def _factor(operands: Sequence[tuple[Any, int]], results: dict[int, int]) -> Iterator[Factor]:
    """Yields the factor, unless an operand would have two of its axes in it. Operands that are not nodes are left out."""
    found: dict[fx.Node, int] = {}
    for value, axis in operands:
        if isinstance(value, fx.Node) and found.setdefault(value, axis) != axis:
            return
    yield Factor(found, results)


def _tensors(node: fx.Node) -> list[fx.Node]:
    return [a for a in node.all_input_nodes if isinstance(a.meta.get("val"), torch.Tensor)]


@_rule(
    aten._to_copy.default,
    aten.detach.default,
    aten.alias.default,
    aten.zeros_like.default,
    aten.ones_like.default,
    aten.full_like.default,
    aten.empty_like.default,
    torch.ops.prims.convert_element_type.default,
)
def _elementwise(node: fx.Node) -> Iterator[Factor]:
    val = node.meta.get("val")
    if not isinstance(val, torch.Tensor):
        return
    for axis, size in enumerate(val.shape):
        operands = []
        for a in _tensors(node):
            own = axis - (val.dim() - len(shape_of(a)))
            if own >= 0 and shape_of(a)[own] == size:
                operands.append((a, own))
        yield from _factor(operands, {0: axis})


@_rule(aten.mm.default)
def _product(node: fx.Node) -> Iterator[Factor]:
    a, b = node.args
    if a is not b:
        yield from _factor([(a, 0)], {0: 0})
        yield from _factor([(b, 1)], {0: 1})
        yield from _factor([(a, 1), (b, 0)], {})


@_rule(aten.addmm.default)
def _product_with_addend(node: fx.Node) -> Iterator[Factor]:
    c, a, b = node.args[:3]
    if len({c, a, b}) < 3:
        return
    rank = len(shape_of(c))  # type: ignore[arg-type]
    rows = [(c, 0)] if rank == 2 and shape_of(c)[0] != 1 else []  # type: ignore[arg-type]
    columns = [(c, rank - 1)] if rank and shape_of(c)[-1] != 1 else []  # type: ignore[arg-type]
    yield from _factor([(a, 0), *rows], {0: 0})
    yield from _factor([(b, 1), *columns], {0: 1})


@_rule(aten.bmm.default, aten.baddbmm.default)
def _products(node: fx.Node) -> Iterator[Factor]:
    *addend, a, b = node.args[:3]
    if addend:
        if len({*addend, a, b}) == 3 and shape_of(addend[0]) == shape_of(node):  # type: ignore[arg-type]
            yield from _factor([(o, 0) for o in (*addend, a, b)], {0: 0})
        return
    yield from _factor([(a, 0), (b, 0)], {0: 0})
    if a is not b:
        yield from _factor([(a, 1)], {0: 1})
        yield from _factor([(b, 2)], {0: 2})
        yield from _factor([(a, 2), (b, 1)], {})


RESHAPES = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)


def _moved(node: fx.Node, order: Sequence[int]) -> Iterator[Factor]:
    """order: for each axis of the result, the operand's axis."""
    for after, before in enumerate(order):
        yield from _factor([(node.args[0], before)], {0: after})


def _rank(node: Any) -> int:
    return len(shape_of(node))


@_rule(aten.t.default)
def _transposed(node: fx.Node) -> Iterator[Factor]:
    yield from _moved(node, list(range(_rank(node)))[::-1])


@_rule(aten.transpose.int)
def _swapped(node: fx.Node) -> Iterator[Factor]:
    order = list(range(_rank(node)))
    a, b = node.args[1], node.args[2]
    order[a], order[b] = order[b], order[a]  # type: ignore[index]
    yield from _moved(node, order)


@_rule(aten.permute.default)
def _permuted(node: fx.Node) -> Iterator[Factor]:
    yield from _moved(node, [d % _rank(node) for d in node.args[1]])  # type: ignore[union-attr, operator]


@_rule(aten.unsqueeze.default)
def _unsqueezed(node: fx.Node) -> Iterator[Factor]:
    new = node.args[1] % _rank(node)  # type: ignore[operator]
    for axis in range(_rank(node)):
        if axis != new:
            yield from _factor([(node.args[0], axis - (axis > new))], {0: axis})


@_rule(aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default)
def _squeezed(node: fx.Node) -> Iterator[Factor]:
    before = shape_of(node.args[0])  # type: ignore[arg-type]
    dims = range(len(before)) if len(node.args) < 2 else node.args[1] if isinstance(node.args[1], (list, tuple)) else [node.args[1]]
    gone = {d % len(before) for d in dims if before[d] == 1} if before else set()  # type: ignore[union-attr, operator, index]
    yield from _moved(node, [axis for axis in range(len(before)) if axis not in gone])


@_rule(aten.expand.default)
def _expanded(node: fx.Node) -> Iterator[Factor]:
    a, after = node.args[0], shape_of(node)
    before = shape_of(a)  # type: ignore[arg-type]
    for axis, size in enumerate(after):
        own = axis - (len(after) - len(before))
        yield from _factor([(a, own)] if own >= 0 and before[own] == size else [], {0: axis})


@_rule(aten.full.default, aten.zeros.default, aten.ones.default, aten.empty.memory_format, aten.new_zeros.default, aten.new_full.default)
def _made(node: fx.Node) -> Iterator[Factor]:
    for axis in range(_rank(node)):
        yield from _factor([], {0: axis})


def _except(operands: Sequence[Any], axes: Sequence[int], results: Sequence[int] = (0,)) -> Iterator[Factor]:
    """Yields the axes that the operands share, and the results have, except for some."""
    rank = _rank(operands[0])
    for axis in range(rank):
        if axis not in {a % rank for a in axes}:
            yield from _factor([(o, axis) for o in operands], dict.fromkeys(results, axis))


@_rule(aten.slice.Tensor, aten.slice_backward.default, aten.select_backward.default)
def _sliced(node: fx.Node) -> Iterator[Factor]:
    at = 1 if node.target is aten.slice.Tensor else 2
    dim = node.args[at] if len(node.args) > at else 0
    if node.target is not aten.select_backward.default:
        yield from _except([node.args[0]], [dim])  # type: ignore[list-item]
        return
    dim = dim % _rank(node)  # type: ignore[operator]
    for axis in range(_rank(node)):
        if axis != dim:
            yield from _factor([(node.args[0], axis - (axis > dim))], {0: axis})


@_rule(aten.slice_scatter.default)
def _written(node: fx.Node) -> Iterator[Factor]:
    yield from _except(node.args[:2], [node.args[2] if len(node.args) > 2 else 0])  # type: ignore[list-item]


@_rule(aten.select.int)
def _selected(node: fx.Node) -> Iterator[Factor]:
    rank = _rank(node.args[0])
    dim = node.args[1] % rank  # type: ignore[operator]
    yield from _moved(node, [axis for axis in range(rank) if axis != dim])


@_rule(aten.cat.default)
def _joined(node: fx.Node) -> Iterator[Factor]:
    parts = list(node.args[0])  # type: ignore[arg-type]
    if all(_rank(p) == _rank(node) for p in parts):
        yield from _except(parts, [node.args[1] if len(node.args) > 1 else 0])  # type: ignore[list-item]


@_rule(aten.stack.default)
def _stacked(node: fx.Node) -> Iterator[Factor]:
    parts = list(node.args[0])  # type: ignore[arg-type]
    new = (node.args[1] if len(node.args) > 1 else 0) % _rank(node)  # type: ignore[operator]
    for axis in range(_rank(node)):
        if axis != new:
            yield from _factor([(p, axis - (axis > new)) for p in parts], {0: axis})


@_rule(aten.unbind.int)
def _unbound(node: fx.Node) -> Iterator[Factor]:
    rank = _rank(node.args[0])
    dim = (node.args[1] if len(node.args) > 1 else 0) % rank  # type: ignore[operator]
    kept = [axis for axis in range(rank) if axis != dim]
    for after, axis in enumerate(kept):
        yield from _factor([(node.args[0], axis)], dict.fromkeys(range(len(node.meta["val"])), after))


@_rule(aten.split.Tensor, aten.split_with_sizes.default, aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default)
def _split(node: fx.Node) -> Iterator[Factor]:
    yield from _except([node.args[0]], [node.args[2] if len(node.args) > 2 else 0], range(len(node.meta["val"])))  # type: ignore[list-item]


@_rule(aten.constant_pad_nd.default)
def _padded(node: fx.Node) -> Iterator[Factor]:
    pads = list(node.args[1])  # type: ignore[arg-type]
    padded = [_rank(node) - 1 - k // 2 for k, n in enumerate(pads) if n != 0]
    yield from _except([node.args[0]], padded)


@_rule(aten.roll.default)
def _rolled(node: fx.Node) -> Iterator[Factor]:
    dims = list(node.args[2]) if len(node.args) > 2 else []  # type: ignore[arg-type]
    if dims:
        yield from _except([node.args[0]], dims)


@_rule(aten.repeat.default)
def _repeated(node: fx.Node) -> Iterator[Factor]:
    new = _rank(node) - _rank(node.args[0])
    for axis, times in enumerate(node.args[1]):  # type: ignore[arg-type]
        if axis >= new and times == 1:
            yield from _factor([(node.args[0], axis - new)], {0: axis})


@_rule(aten.tril.default, aten.triu.default)
def _of_matrices(node: fx.Node) -> Iterator[Factor]:
    yield from _except([node.args[0]], [-2, -1])


@_rule(aten.glu.default)
def _gated(node: fx.Node) -> Iterator[Factor]:
    yield from _except([node.args[0]], [node.args[1] if len(node.args) > 1 else -1])  # type: ignore[list-item]


@_rule(aten.glu_backward.default)
def _gated_backward(node: fx.Node) -> Iterator[Factor]:
    yield from _except(node.args[:2], [node.args[2]])  # type: ignore[list-item]


@_rule(aten.cumsum.default, aten.cumprod.default, aten.logcumsumexp.default, aten.flip.default)
def _scanned(node: fx.Node) -> Iterator[Factor]:
    dims = node.args[1] if isinstance(node.args[1], (list, tuple)) else [node.args[1]]
    yield from _except([node.args[0]], dims)  # type: ignore[arg-type]


@_rule(aten._softmax.default, aten._log_softmax.default)
def _softmax(node: fx.Node) -> Iterator[Factor]:
    yield from _except([node.args[0]], [node.args[1]])  # type: ignore[list-item]


@_rule(aten._softmax_backward_data.default, aten._log_softmax_backward_data.default)
def _softmax_backward(node: fx.Node) -> Iterator[Factor]:
    yield from _except(node.args[:2], [node.args[2]])  # type: ignore[list-item]


@_rule(aten.gather.default)
def _gathered(node: fx.Node) -> Iterator[Factor]:
    x, dim, index = node.args[:3]
    for axis in range(_rank(node)):
        if axis != dim % _rank(node) and shape_of(x)[axis] == shape_of(index)[axis]:  # type: ignore[operator, arg-type]
            yield from _factor([(x, axis), (index, axis)], {0: axis})


@_rule(aten.index_select.default)
def _selected_many(node: fx.Node) -> Iterator[Factor]:
    x, dim, index = node.args[:3]
    yield from _except([x], [dim])  # type: ignore[list-item]
    if _rank(index) == 1:
        yield from _factor([(index, 0)], {0: dim % _rank(x)})  # type: ignore[operator]


@_rule(aten.index.Tensor, aten._unsafe_index.Tensor)
def _indexed(node: fx.Node) -> Iterator[Factor]:
    """The axes of x that have no index; and those of the indices, if these stand side by side and have one shape."""
    x, indices = node.args[:2]
    places = _places_of(indices)
    if places is None:
        return
    first, count, rank = places
    for axis in range(_rank(x)):
        if not first <= axis < first + count:
            yield from _factor([(x, axis)], {0: axis if axis < first else axis - count + rank})
    for axis in range(rank):
        yield from _factor([(i, axis) for i in indices if i is not None], {0: first + axis})  # type: ignore[union-attr]


@_rule(aten.index_put.default)
def _put(node: fx.Node) -> Iterator[Factor]:
    x, indices, values = node.args[:3]
    places = _places_of(indices)
    if places is None:
        return
    first, count, rank = places
    if _rank(values) != _rank(x) - count + rank or x is values:
        return
    for axis in range(_rank(x)):
        at = axis if axis < first else axis - count + rank
        if not first <= axis < first + count and shape_of(values)[at] == shape_of(x)[axis]:  # type: ignore[arg-type]
            yield from _factor([(x, axis), (values, at)], {0: axis})


def _places_of(indices: Any) -> tuple[int, int, int] | None:
    """Returns the first axis that has an index, the number of those that have, and the rank of the indices; None for indices of several shapes, of
    truth values or that do not stand side by side."""
    given = [k for k, i in enumerate(indices) if i is not None]
    shapes = {shape_of(indices[k]) for k in given}
    if not given or given != list(range(given[0], given[-1] + 1)) or len(shapes) != 1:
        return None
    if any(indices[k].meta["val"].dtype in (torch.bool, torch.uint8) for k in given):
        return None
    return given[0], len(given), len(shapes.pop())


@_rule(aten.index_add.default)
def _added_at(node: fx.Node) -> Iterator[Factor]:
    x, dim, _, source = node.args[:4]
    if x is not source:
        yield from _except([x, source], [dim])  # type: ignore[list-item]


@_rule(aten.select_scatter.default)
def _written_one(node: fx.Node) -> Iterator[Factor]:
    x, source, dim = node.args[:3]
    dim = dim % _rank(x)  # type: ignore[operator]
    for axis in range(_rank(x)):
        if axis != dim:
            yield from _factor([(x, axis), (source, axis - (axis > dim))], {0: axis})


@_rule(aten.scatter.src, aten.scatter.value, aten.scatter_add.default, aten.scatter_reduce.two)
def _scattered(node: fx.Node) -> Iterator[Factor]:
    x, dim, index, source = node.args[:4]
    own = [x, index, *([source] if isinstance(source, fx.Node) else [])]
    for axis in range(_rank(node)):
        if axis != dim % _rank(node) and len({shape_of(o)[axis] for o in own}) == 1:  # type: ignore[operator, arg-type]
            yield from _factor([(o, axis) for o in own], {0: axis})


_SUMS = (aten.sum.default, aten.sum.dim_IntList)
_WITH_INDICES = (aten.max.dim, aten.min.dim)


@_rule(
    *_SUMS,
    *_WITH_INDICES,
    aten.mean.dim,
    aten.amax.default,
    aten.amin.default,
    aten.logsumexp.default,
    aten.any.dim,
    aten.argmax.default,
    aten.argmin.default,
    aten.prod.dim_int,
    aten.var.correction,
    aten.std.correction,
)
def _reduced(node: fx.Node) -> Iterator[Factor]:
    yield from _over(node, node.args[1] if len(node.args) > 1 else None, 2, range(2) if node.target in _WITH_INDICES else (0,))


@_rule(aten.var_mean.correction)
def _reduced_to_two(node: fx.Node) -> Iterator[Factor]:
    yield from _over(node, node.args[1] if len(node.args) > 1 else None, 3, (0, 1))


@_rule(aten.linalg_vector_norm.default)
def _norm(node: fx.Node) -> Iterator[Factor]:
    yield from _over(node, node.args[2] if len(node.args) > 2 else None, 3, (0,))


def _over(node: fx.Node, given: Any, keepdim: int, results: Sequence[int]) -> Iterator[Factor]:
    """Yields the axes of the first operand over which the op does not reduce, and those over which it sums. given: the axes over which it reduces;
    none: all. keepdim: the place of that argument."""
    x = node.args[0]
    rank = _rank(x)
    listed = [given] if isinstance(given, int) else given
    dims = {d % rank for d in listed} if listed and rank else set(range(rank))
    keeps = bool(node.args[keepdim]) if len(node.args) > keepdim else bool(node.kwargs.get("keepdim", False))
    kept = [axis for axis in range(rank) if axis not in dims]
    for axis in range(rank):
        if axis in kept:
            yield from _factor([(x, axis)], dict.fromkeys(results, axis if keeps else kept.index(axis)))
        elif node.target in _SUMS:
            yield from _factor([(x, axis)], {})


@_rule(aten.topk.default, aten.sort.default)
def _sorted(node: fx.Node) -> Iterator[Factor]:
    at = 2 if node.target is aten.topk.default else 1
    yield from _except([node.args[0]], [node.args[at] if len(node.args) > at else -1], (0, 1))  # type: ignore[list-item]


@_rule(aten.native_layer_norm.default, aten._fused_rms_norm.default)
def _layer_norm(node: fx.Node) -> Iterator[Factor]:
    outer = _rank(node.args[0]) - len(node.args[1])  # type: ignore[arg-type]
    results = range(len(node.meta["val"]))
    for axis in range(outer):
        yield from _factor([(node.args[0], axis)], dict.fromkeys(results, axis))


@_rule(aten.native_layer_norm_backward.default, aten._fused_rms_norm_backward.default)
def _layer_norm_backward(node: fx.Node) -> Iterator[Factor]:
    g, x, shape = node.args[:3]
    statistics = node.args[3:5] if node.target is aten.native_layer_norm_backward.default else node.args[3:4]
    for axis in range(_rank(x) - len(shape)):  # type: ignore[arg-type]
        yield from _factor([(o, axis) for o in (g, x, *statistics)], {0: axis})


@_rule(aten.native_group_norm.default)
def _group_norm(node: fx.Node) -> Iterator[Factor]:
    yield from _factor([(node.args[0], 0)], {0: 0, 1: 0, 2: 0})


@_rule(aten.native_group_norm_backward.default)
def _group_norm_backward(node: fx.Node) -> Iterator[Factor]:
    yield from _factor([(o, 0) for o in node.args[:4]], {0: 0})


@_rule(aten.convolution.default)
def _convolution(node: fx.Node) -> Iterator[Factor]:
    yield from _factor([(node.args[0], 0)], {0: 0})


@_rule(aten.convolution_backward.default)
def _convolution_backward(node: fx.Node) -> Iterator[Factor]:
    yield from _factor([(node.args[0], 0), (node.args[1], 0)], {0: 0})


@_rule(
    aten.max_pool2d_with_indices.default,
    aten.avg_pool2d.default,
    aten._adaptive_avg_pool2d.default,
    aten.reflection_pad2d.default,
    aten.replication_pad2d.default,
)
def _pool(node: fx.Node) -> Iterator[Factor]:
    results = range(2) if isinstance(node.meta["val"], (tuple, list)) else range(1)
    for axis in range(_rank(node.args[0]) - 2):
        yield from _factor([(node.args[0], axis)], dict.fromkeys(results, axis))


@_rule(
    aten.max_pool2d_with_indices_backward.default,
    aten.avg_pool2d_backward.default,
    aten._adaptive_avg_pool2d_backward.default,
    aten.reflection_pad2d_backward.default,
    aten.replication_pad2d_backward.default,
)
def _pool_backward(node: fx.Node) -> Iterator[Factor]:
    for axis in range(_rank(node.args[0]) - 2):
        yield from _factor([(a, axis) for a in _tensors(node)], {0: axis})


@_rule(aten.pixel_shuffle.default, aten.pixel_unshuffle.default, aten.im2col.default, aten.col2im.default)
def _of_pictures(node: fx.Node) -> Iterator[Factor]:
    if _rank(node.args[0]) > 3 or node.target is aten.col2im.default and _rank(node.args[0]) == 3:
        yield from _factor([(node.args[0], 0)], {0: 0})


@_rule(aten.grid_sampler_2d.default)
def _sampled(node: fx.Node) -> Iterator[Factor]:
    yield from _factor([(o, 0) for o in node.args[:2]], {0: 0})


@_rule(aten.grid_sampler_2d_backward.default)
def _sampled_backward(node: fx.Node) -> Iterator[Factor]:
    yield from _factor([(o, 0) for o in node.args[:3]], {0: 0, 1: 0})


@_rule(aten.upsample_nearest2d.default, aten.upsample_bilinear2d.default)
def _interpolated(node: fx.Node) -> Iterator[Factor]:
    for axis in range(2):
        yield from _factor([(node.args[0], axis)], {0: axis})


@_rule(aten.upsample_nearest2d_backward.default, aten.upsample_bilinear2d_backward.default)
def _interpolated_backward(node: fx.Node) -> Iterator[Factor]:
    yield from _interpolated(node)


@_rule(aten.embedding.default)
def _embedding(node: fx.Node) -> Iterator[Factor]:
    for axis in range(_rank(node.args[1])):
        yield from _factor([(node.args[1], axis)], {0: axis})


@_rule(aten.embedding_dense_backward.default)
def _embedding_backward(node: fx.Node) -> Iterator[Factor]:
    if len(node.args) < 5 or not node.args[4]:  # not scaled by how often each word occurs
        for axis in range(_rank(node.args[1])):
            yield from _factor([(node.args[0], axis), (node.args[1], axis)], {})


@_rule(aten._scaled_dot_product_flash_attention_for_cpu.default, aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def _attention(node: fx.Node) -> Iterator[Factor]:
    is_backward = node.target is aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    own = list(node.args[: 6 if is_backward else 3])
    mask = node.kwargs.get("attn_mask")
    if isinstance(mask, fx.Node) and shape_of(mask)[0] != 1 and _rank(mask) == 4:
        own.append(mask)
    elif isinstance(mask, fx.Node) and _rank(mask) != 2 and not (_rank(mask) == 4 and shape_of(mask)[0] == 1):
        return
    yield from _factor([(o, 0) for o in own], dict.fromkeys(range(3 if is_backward else 2), 0))


SUM = 2
"""The reduction of a loss that is the sum over its elements."""


@_rule(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def _nll(node: fx.Node) -> Iterator[Factor]:
    x, target, _, reduction = node.args[:4]
    if reduction == SUM and _rank(x) > 1:
        yield from _factor([(x, 0), (target, 0)], {})


@_rule(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def _nll_backward(node: fx.Node) -> Iterator[Factor]:
    """A mean divides by the weight of the whole batch, which is an operand."""
    g, x, target, _, reduction = node.args[:5]
    if _rank(x) > 1:
        yield from _factor([(x, 0), (target, 0), *([(g, 0)] if reduction == 0 else [])], {0: 0})


@_rule(aten.mse_loss.default, aten.smooth_l1_loss.default, aten.huber_loss.default)
def _distance(node: fx.Node) -> Iterator[Factor]:
    if len(node.args) > 2 and node.args[2] == SUM and shape_of(node.args[0]) == shape_of(node.args[1]):  # type: ignore[arg-type]
        for axis in range(_rank(node.args[0])):
            yield from _factor([(o, axis) for o in node.args[:2]], {})


@_rule(aten.binary_cross_entropy_with_logits.default)
def _cross_entropy_of_two(node: fx.Node) -> Iterator[Factor]:
    x, target = node.args[:2]
    if len(node.args) > 4 and node.args[2:5] == (None, None, SUM) and shape_of(x) == shape_of(target):  # type: ignore[arg-type]
        for axis in range(_rank(x)):
            yield from _factor([(x, axis), (target, axis)], {})


@_rule(aten.mse_loss_backward.default, aten.smooth_l1_loss_backward.default, aten.huber_loss_backward.default)
def _distance_backward(node: fx.Node) -> Iterator[Factor]:
    if node.args[3] == SUM and shape_of(node.args[1]) == shape_of(node.args[2]):  # type: ignore[arg-type]
        for axis in range(_rank(node.args[1])):
            yield from _factor([(o, axis) for o in node.args[1:3]], {0: axis})


# --- Sizes among the arguments

_SIZES = {
    aten.view.default: 1,
    aten._unsafe_view.default: 1,
    aten.reshape.default: 1,
    aten.expand.default: 1,
    aten.full.default: 0,
    aten.zeros.default: 0,
    aten.ones.default: 0,
    aten.empty.memory_format: 0,
    aten.new_zeros.default: 1,
    aten.new_full.default: 1,
    aten.slice_backward.default: 1,
    aten.select_backward.default: 1,
}
_INPUT_SIZES = {aten.upsample_nearest2d_backward.default: 2, aten.upsample_bilinear2d_backward.default: 2}
_COUNTS = {aten.native_group_norm.default: 3, aten.native_group_norm_backward.default: 5}
"""Ops whose arguments hold the size of axis 0, with the argument's position."""


def args_of_chunk(node: fx.Node, axis: int, size: int) -> tuple[Any, ...]:
    """Returns the arguments of an op for a chunk of its first result: `size` elements of an axis."""
    args = list(node.args)
    at = _SIZES.get(node.target, _INPUT_SIZES.get(node.target))
    if at is not None:
        whole = list(shape_of(node))
        whole[axis] = size
        args[at] = whole
    elif node.target in _COUNTS:
        args[_COUNTS[node.target]] = size
    return tuple(args)
