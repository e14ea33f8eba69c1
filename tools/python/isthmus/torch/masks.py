"""Masks in the memory of a CPU, as inductor's kernels write and read them.

Its C++ has vectors for all types but bool: it writes and reads bools one by one. A million of them take 9.0 ms to write and 3.3 ms to
read, where as 8-bit integers they take 0.06 and 0.11. So a bool that a plan keeps in memory is kept as an 8-bit integer, which is of the
same size. It gets there and back by way of floats, as there are vectors both ways.
"""

from __future__ import annotations

import torch
from torch import fx

from . import hooks, rules

_AS = torch.ops.prims.convert_element_type.default


def is_packed(node: fx.Node) -> bool:
    """What the plan keeps in memory is a mask, and all that reads it are parts of kernels that inductor writes."""
    value = node.meta["val"]
    return value.dtype == torch.bool and value.device.type == "cpu" and _is_read_by_kernels(node)


def _is_read_by_kernels(node: fx.Node) -> bool:
    """Views are in no kernel of their own: it depends on who reads them."""
    return all(hooks.is_fusible(u) and (not rules.is_view(u) or _is_read_by_kernels(u)) for u in node.users)


def pack(mask: fx.Node) -> fx.Node:
    return _added(mask, _added(mask, mask, _AS, torch.float32), _AS, torch.uint8)


def unpack(packed: fx.Node, mask: fx.Node, tag: str) -> fx.Node:
    """tag: of the module that reads it."""
    node = _added(mask, _added(mask, packed, _AS, torch.float32), torch.ops.aten.ne.Scalar, 0)
    for made in (node, node.all_input_nodes[0]):
        made.meta["partitioner_tag"] = tag
    return node


def _added(like: fx.Node, of: fx.Node, target: torch._ops.OpOverload, argument: object) -> fx.Node:
    node = like.graph.call_function(target, (of, argument))
    node.meta = {**like.meta, "val": target(of.meta["val"], argument)}
    return node
