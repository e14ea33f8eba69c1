"""Takes the gradient of a loss out of the region that computes the loss's own gradients.

Everything that the backward of a region computes from one number, such as the gradient of a mean loss, is in proportion to that number. The region
may compute with 1 in its place, before the number is known: its forward and its backward then run together, chunk by chunk. What leaves the region
is multiplied by the number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from .factors import results_of
from .region import Region

aten = torch.ops.aten
prims = torch.ops.prims

# Ops whose results are in proportion to their first operand.
_PROPORTIONAL = {
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.expand.default, aten.t.default, aten.transpose.int,
    aten.permute.default, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default, aten.slice.Tensor,
    aten.select.int, aten.slice_backward.default, aten.select_backward.default, aten.clone.default, aten.detach.default, aten.alias.default,
    aten.split.Tensor, aten.split_with_sizes.default, aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default, aten.unbind.int,
    aten.flip.default, aten.roll.default, aten.repeat.default, aten.cumsum.default, aten.tril.default, aten.triu.default,
    aten._to_copy.default, prims.convert_element_type.default, aten.neg.default, aten.sum.default, aten.sum.dim_IntList, aten.mean.dim,
    aten.gather.default, aten.index.Tensor, aten.index_select.default, aten.div.Tensor, aten.div.Scalar, aten.mul.Scalar,
    aten.nll_loss_backward.default, aten.nll_loss2d_backward.default,
    aten._log_softmax_backward_data.default, aten._softmax_backward_data.default, aten.embedding_dense_backward.default,
    aten.native_dropout_backward.default, aten.gelu_backward.default, aten.tanh_backward.default, aten.sigmoid_backward.default,
    aten.threshold_backward.default, aten.silu_backward.default, aten.hardtanh_backward.default, aten.leaky_relu_backward.default,
    aten.elu_backward.default, aten.softplus_backward.default, aten.hardsigmoid_backward.default, aten.hardswish_backward.default,
    aten.log_sigmoid_backward.default, aten.mish_backward.default, aten.glu_backward.default,
    aten.mse_loss_backward.default, aten.smooth_l1_loss_backward.default, aten.huber_loss_backward.default,
    aten.native_layer_norm_backward.default, aten._fused_rms_norm_backward.default, aten.native_group_norm_backward.default,
    aten.convolution_backward.default, aten.max_pool2d_with_indices_backward.default, aten.avg_pool2d_backward.default,
    aten._adaptive_avg_pool2d_backward.default, aten.upsample_bilinear2d_backward.default, aten.upsample_nearest2d_backward.default,
    aten.reflection_pad2d_backward.default, aten.replication_pad2d_backward.default, aten.grid_sampler_2d_backward.default,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
}  # fmt: skip
# Ops whose results are in proportion to one operand, if the other does not depend on it.
_PRODUCTS = {aten.mul.Tensor, aten.mm.default, aten.bmm.default}
# Ops whose results are in proportion to their operands together.
_TOGETHER = {aten.add.Tensor, aten.sub.Tensor, aten.cat.default, aten.stack.default}
# Ops that put an operand, which is named by its place, among what their first operand has.
_AMONG = {
    aten.slice_scatter.default: 1,
    aten.select_scatter.default: 1,
    aten.index_put.default: 2,
    aten.scatter.src: 3,
    aten.scatter_add.default: 3,
    aten.index_add.default: 3,
}
_ZEROS = {aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default}


def numbers_of(region: Region, after: set[fx.Node]) -> list[fx.Node]:
    """Returns the numbers that the region reads and that are computed from one of them, its seed, which comes first; empty if the region's backward
    reads other gradients, or computes what is not in proportion to the seed. after: the nodes that depend on gradients of the graph's results."""
    found: set[fx.Node] = set()
    stack = [a for op in region.ops for a in op.all_input_nodes if not region.makes(a) and a in after]
    while stack:
        node = stack.pop()
        value = node.meta.get("val")
        if region.makes(node) or not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.dtype.is_floating_point:
            return []
        if node not in found:
            found.add(node)
            stack += [a for a in node.all_input_nodes if a in after]
    numbers = [n for n in next(iter(region.ops)).graph.nodes if n in found]
    seeds = [n for n in numbers if not any(a in found for a in n.all_input_nodes)]
    return numbers if len(seeds) == 1 and _is_proportional([*numbers, *region.ops], seeds[0]) else []


def depends_on(region: Region, numbers: Sequence[fx.Node]) -> set[fx.Node]:
    """Returns the ops and results of a region that depend on these numbers."""
    found = set(numbers)
    for op in region.ops:
        if any(a in found for a in op.all_input_nodes):
            found.update((op, *results_of(op).values()))
    return found - set(numbers)


def _is_proportional(ops: Sequence[fx.Node], seed: fx.Node) -> bool:
    """Returns True if all that these ops compute from the seed is in proportion to it."""
    depending = {seed}
    for op in ops:
        if op is seed or not any(a in depending for a in op.all_input_nodes):
            continue
        depending.update((op, *results_of(op).values()))
        values = [r.meta["val"] for r in results_of(op).values()]
        if any(v.dtype is torch.float16 for v in values):  # gradients are scaled so that they are no zeros in f16
            return False
        read = [a for a in op.all_input_nodes if a in depending]
        if op.target in _PROPORTIONAL:
            if read != [op.args[0]]:
                return False
        elif op.target in _PRODUCTS:
            if len(read) != 1 or op.args[0] is op.args[1]:
                return False
        elif op.target in _TOGETHER:
            terms = op.args[0] if isinstance(op.args[0], (list, tuple)) else op.args[:2]
            if not all(a in depending for a in terms):  # type: ignore[union-attr]
                return False
        elif op.target is aten.where.self:
            if op.args[0] in depending or not all(a in depending or is_zero(a) for a in op.args[1:3]):
                return False
        elif op.target is aten.masked_fill.Scalar:
            if read != [op.args[0]] or op.args[2] != 0:
                return False
        elif op.target in _AMONG:
            among = (op.args[0], op.args[_AMONG[op.target]])
            if any(a not in among for a in read) or not all(a in depending or is_zero(a) for a in among):
                return False
        else:
            return False
    return True


def is_zero(node: Any) -> bool:
    """Returns True for a node that makes zeros."""
    if not isinstance(node, fx.Node):
        return False
    if node.target in (aten.full.default, aten.scalar_tensor.default, aten.full_like.default, aten.new_full.default):
        values = [a for a in node.args if isinstance(a, (int, float)) and not isinstance(a, bool)]
        return bool(values) and values[-1] == 0
    if node.target in (aten.expand.default, aten.view.default):
        return is_zero(node.args[0])
    return node.target in _ZEROS
