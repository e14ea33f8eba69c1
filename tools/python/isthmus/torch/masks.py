"""Masks in the memory of a CPU, as inductor's kernels write and read them.

Inductor's C++ has vectors for all types except bool: it writes and reads bools one by one. A million bools take 9.0 ms to write and 3.3 ms
to read; as 8-bit integers they take 0.06 and 0.11 ms. So a bool that a plan keeps in memory is stored as an 8-bit integer of the same size.
It is converted by way of floats, because there are vectors for both of these conversions.
"""

from __future__ import annotations

import torch
from torch import fx

from . import hooks, rules

_AS = torch.ops.prims.convert_element_type.default


def is_packed(node: fx.Node) -> bool:
    """Whether a node that the plan keeps in memory is a mask that only kernels written by inductor read."""
    value = node.meta["val"]
    return value.dtype == torch.bool and value.device.type == "cpu" and _is_read_by_kernels(node)


def _is_read_by_kernels(node: fx.Node) -> bool:
    """A view is in no kernel of its own, so its readers decide."""
    return all(hooks.is_fusible(u) and (not rules.is_view(u) or _is_read_by_kernels(u)) for u in node.users)


def pack(mask: fx.Node) -> fx.Node:
    return _added(mask, _added(mask, mask, _AS, torch.float32), _AS, torch.uint8)


def unpack(packed: fx.Node, mask: fx.Node, tag: str) -> fx.Node:
    """tag: the module that reads the mask."""
    node = _added(mask, _added(mask, packed, _AS, torch.float32), torch.ops.aten.ne.Scalar, 0)
    for made in (node, node.all_input_nodes[0]):
        made.meta["partitioner_tag"] = tag
    return node


def _added(like: fx.Node, of: fx.Node, target: torch._ops.OpOverload, argument: object) -> fx.Node:
    node = like.graph.call_function(target, (of, argument))
    node.meta = {**like.meta, "val": target(of.meta["val"], argument)}
    return node
