"""The order in which a program runs a graph's ops by itself: what it checkpoints runs again in the backward."""

from __future__ import annotations

from .. import hooks
from .joint import Joint

_AGAIN = (hooks.CheckpointPolicy.MUST_RECOMPUTE, hooks.CheckpointPolicy.PREFER_RECOMPUTE)


def order_of(joint: Joint) -> list[int]:
    """Returns the schedule without recomputation, in the order of the joint graph."""
    return [i for i, op in enumerate(joint.problem) if not op.pinned and not op.is_optional]


def as_it_runs(joint: Joint) -> list[int]:
    """Returns the schedule of the program without Isthmus: before the backward of a region of `torch.utils.checkpoint`, the region runs again, up to the
    last op that its backward reads."""
    problem, region_of = joint.problem, _regions(joint)
    if not region_of:
        return order_of(joint)
    read = {r[0] for r in joint.read_by(lambda i: problem[i].phase == "backward")}
    again: dict[int, list[int]] = {}
    for i, region in region_of.items():
        again.setdefault(region, []).append(i)
    for region, ops in again.items():
        last = max((i for i in ops if i in read), default=-1)
        again[region] = [i for i in ops if i <= last]
    schedule: list[int] = []
    for i in order_of(joint):
        if problem[i].phase == "backward":
            for read_op in sorted({joint.storage(r)[0] for r in problem[i].reads}):
                schedule += again.pop(region_of.get(read_op, -1), [])
        schedule.append(i)
    return schedule


def _regions(joint: Joint) -> dict[int, int]:
    """Returns, by op, the number of the checkpointed region that it is in and whose forward PyTorch runs again."""
    found = {}
    for i, step in enumerate(joint.steps):
        op, meta = joint.problem[i], step.nodes[0].meta if step.nodes else {}
        if meta.get("recompute") in _AGAIN and op.recomputable and op.phase == "forward":
            found[i] = int(meta.get("ac_graph_id") or 0)
    return found
