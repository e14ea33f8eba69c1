"""Says which part of a model ran an op."""

from __future__ import annotations

import os
import re

from torch import fx

from . import rules
from .joint import Joint

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
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


def why_once(joint: Joint, op: int) -> str:
    """Returns why an op may not run again; "" if it may."""
    nodes = joint.steps[op].nodes
    return "" if joint.problem[op].recomputable or not nodes else rules.why_once(nodes[0])


def named_node(node: fx.Node) -> str:
    name, module = str(node.target).removesuffix(".default"), module_of(node)
    return f"{name} in {module}" if module else name


def line_of(node: fx.Node) -> str:
    """Returns the file and line of the program that ran the op, or whose gradient it computes; "" if that is unknown."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    return f"{os.path.basename(frames[-1][0])}:{frames[-1][1]}" if frames else ""
