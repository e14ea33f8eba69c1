"""Writes the results of ops into their first operands, where a schedule no longer needs those."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from .. import hooks
from .joint import Joint, Read

aten = torch.ops.aten

_library = torch.library.Library("isthmus", "FRAGMENT")
_library.define("scale_(Tensor(a!) x, Tensor by) -> Tensor(a!)")


def _scale(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """Multiplies a tensor that the forward has made. If the backward may run again, the tensor stays as it is, and the product is another one."""
    return x * by if hooks.keeps_graph() else x.mul_(by)


_library.impl("scale_", _scale, "CompositeExplicitAutograd")

scale = torch.ops.isthmus.scale_.default

_IN_PLACE = {
    aten.addmm.default: aten.addmm_.default,
    aten.add.Tensor: aten.add_.Tensor,
    aten.index_add.default: aten.index_add_.default,
    aten.mul.Tensor: scale,
}


def steps_in_place(joint: Joint, schedule: Sequence[int]) -> set[int]:
    """Returns the positions in a schedule at which an op may write into its first operand, because nothing reads that later."""
    problem, found = joint.problem, set()
    live: set[Read] = {joint.storage(r) for r in problem.outputs}
    live |= {joint.storage((op, k)) for op in problem.forward_outputs for k in range(len(problem[op].bytes))}
    for position in range(len(schedule) - 1, -1, -1):
        op = problem[schedule[position]]
        if op.view_of is None:
            live -= {(schedule[position], k) for k in range(len(op.bytes))}
        operand = joint.onto.get(schedule[position])
        if operand is not None and operand not in live and not problem[operand[0]].pinned:
            found.add(position)
        live |= {joint.storage(r) for r in op.reads}
    return found


def written(graph: fx.Graph, old: fx.Node, args: tuple[fx.Node, ...], tag: str) -> fx.Node | None:
    """Adds the op that writes into its first operand; returns None if that must stay as it is: a tensor of the forward that the backward reads stays for
    another backward. args: the op's arguments in the new graph. tag: of the module to which the op belongs."""
    target = _IN_PLACE[old.target]
    into = args[0]
    if target is not scale and into.meta.get("partitioner_tag") != tag:
        return None
    made = graph.call_function(target, args, dict(old.kwargs))
    made.meta["val"] = into.meta["val"]
    return made
