"""Chooses the parts of a graph that run chunk by chunk, for its budget."""

from __future__ import annotations

from torch import fx

from ...planning import Plan
from ..chunks.choice import Choice, Chunks
from ..graph.joint import Joint
from .planner import Planner


def chosen(planner: Planner, gm: fx.GraphModule, num_fwd_outputs: int, asked_bytes: int | None) -> tuple[Chunks, ...]:
    """Returns the chunks with which a prepared joint graph is best. asked_bytes: the budget of the step; None: the least peak is wanted."""
    choice = Choice(
        lambda g: planner.extracted(g, num_fwd_outputs, {})[0],
        lambda joint, share: planned(planner, joint, asked_bytes, share),
        smallest=asked_bytes is None,
    )
    return choice.run(gm)


def planned(planner: Planner, joint: Joint, asked_bytes: int | None, share: float = 1.0) -> Plan:
    """Returns a plan within a budget, of which the reserved bytes are a part, with a share of the effort. Raises CannotBeMet."""
    budget = "min" if asked_bytes is None else max(0, asked_bytes - joint.reserved_bytes)
    return planner.options.plan(joint.problem, budget, share)
