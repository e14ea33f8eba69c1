"""Says which part of a model ran an op."""

from __future__ import annotations

import re

from torch import fx

from .joint import Joint

_ROOT = re.compile(r"^[LG]\['[^']*'\](\[\d+\])*\.?")


def module_of(node: fx.Node) -> str:
    """Returns the path of the module whose forward ran the op, or whose gradient it computes, such as "blocks.3.mlp"; "" if that is unknown."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    path = str(list(stack.values())[-1][0]) if stack else ""
    return _ROOT.sub("", path).replace("_modules['", "").replace("']", "")


def named(joint: Joint, op: int) -> str:
    """Returns the name of an op and its module, such as "aten.mm in blocks.3.mlp"."""
    nodes = joint.steps[op].nodes
    return named_node(nodes[0]) if nodes else joint.problem[op].name


def named_node(node: fx.Node) -> str:
    name, module = str(node.target).removesuffix(".default"), module_of(node)
    return f"{name} in {module}" if module else name
