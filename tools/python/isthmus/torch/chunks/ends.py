"""Tells why large tensors exist whole although chunks are allowed: at which op the part of the step ends that could run chunk by chunk."""

from __future__ import annotations

from torch import fx

from ..graph import rules
from ..graph.joint import CHUNK, Joint
from ..graph.places import line_of, named_node
from .choice import MOST_TENSORS, has_symbols, is_symbolic, largest_at_peak
from .factors import factors_of, is_reshape
from .region import Regions

_MOST_ENDS = 4


def ends(gm: fx.GraphModule, joint: Joint, schedule: list[int]) -> tuple[str, ...]:
    """Returns the ops at which the parts end that grow from the largest tensors at the peak of a plan, with their lines and why they end there."""
    if has_symbols(gm):
        node = next((n for n in gm.graph.nodes if n.op == "call_function" and is_symbolic(n)), None)
        return () if node is None else (f"{_told(node)}: its sizes vary, and a graph of such sizes runs nowhere in chunks",)
    found: dict[str, None] = {}
    regions = Regions(gm.graph)
    for value in largest_at_peak(gm, joint, schedule)[:MOST_TENSORS]:
        grown = [regions.grown(value, cut) for cut in regions.cuts_of(value)]
        furthest = max(grown, key=lambda region: len(region.ops), default=None)
        for op in furthest.stops if furthest is not None else ():
            if CHUNK not in op.meta:
                found[f"{_told(op)}: {_why(op)}"] = None
    return tuple(list(found)[:_MOST_ENDS])


def _told(node: fx.Node) -> str:
    line = line_of(node)
    return f"{named_node(node)} ({line})" if line else named_node(node)


def _why(op: fx.Node) -> str:
    if rules.draws(op):
        return "it draws random numbers"
    if rules.acts(op):
        return "it has an effect beside its result"
    return "it needs all of this axis" if factors_of(op) or is_reshape(op) else "it is not known to chunks"
