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
    needed = joint.needed_by_forward()
    later = [i for i in order_of(joint) if i not in needed]  # of the forward phase, too: views for the backward, which must be of what runs again
    reads = {i: {r[0] for r in problem[i].reads} | {joint.storage(r)[0] for r in problem[i].reads} for i in later if i not in region_of}
    read = set().union(*reads.values())
    last: dict[int, int] = {}
    for i, region in region_of.items():
        if i in read:
            last[region] = max(i, last.get(region, i))
    again: dict[int, list[int]] = {region: [] for region in last}
    for i, region in region_of.items():
        if i <= last.get(region, -1):
            again[region].append(i)
    schedule = [i for i in order_of(joint) if i in needed]
    for i in later:
        if i in region_of:
            continue  # it runs with its region
        for region in sorted({region_of[r] for r in reads[i] if r in region_of}):
            schedule += again.pop(region, [])
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
