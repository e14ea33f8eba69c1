"""Adds alternatives to a problem: copies of saved tensors to the host's memory and back, in place of keeping or recomputing them.

Each tensor gets four ops: the start of the copy to the host and its wait, and the start of the copy back and its wait. No plan has to run
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch
from torch import fx

from .. import hooks
from . import masks
from .joint import Joint, Read, Step
from .sizes import bytes_of

_LEAST_SHARE = 1e-3
"""The least size of a tensor that may be copied, as a share of all bytes that the forward makes."""


def add(joint: Joint, bytes_per_us: float, *, marked_only: bool) -> None:
    """Adds the alternatives. bytes_per_us: the rate of the link in each direction, in bytes a microsecond.

    marked_only: only for tensors that `torch.utils.checkpoint` marks with MUST_CPU_OFFLOAD.
    """
    problem = joint.problem
    for node, read in list(_tensors(joint, marked_only)):
        of, size = problem[read[0]], problem[read[0]].bytes[read[1]]
        time = size / bytes_per_us

        def step(name: str, *args: object, **kwargs: object) -> int:
            joint.steps.append(Step([], moves=node))
            return problem.add(f"{node.name}.{name}", *args, **kwargs)  # type: ignore[arg-type]

        start = step("start_offload", [read], kind="starts_offload", transfer_time=time)
        on_host = step("wait_offload", [start], kind="waits_offload")
        back = step("start_prefetch", [on_host], bytes=size, phase="backward", kind="starts_prefetch", transfer_time=time)
        whole = len(of.bytes) == 1
        step("wait_prefetch", [back], phase="backward", kind="waits_prefetch", of=read[0] if whole else read)


def _tensors(joint: Joint, marked_only: bool) -> Iterator[tuple[fx.Node, Read]]:
    """Yields the tensors of the forward phase that ops without use for the forward read: the node, and the read that stands for it. What the
    step returns is left out, as the caller holds it."""
    problem = joint.problem
    total = sum(sum(op.bytes) for op in problem if op.phase == "forward" and not op.pinned)
    needed = joint.needed_by_forward()
    saved = joint.read_by(lambda op: op not in needed) - {joint.storage(r) for r in problem.outputs}
    tensors = {node: reads[0] for node, reads in joint.where.items() if len(reads) == 1 and isinstance(node.meta.get("val"), torch.Tensor)}
    num_nodes = Counter(tensors.values())
    for node, read in tensors.items():
        if read not in saved or marked_only and node.meta.get("recompute") is not hooks.CheckpointPolicy.MUST_CPU_OFFLOAD:
            continue
        size = problem[read[0]].bytes[read[1]]
        is_dense = bytes_of(node.meta["val"]) == size  # False if the storage has more bytes than the tensor
        is_packed = node in joint.steps[read[0]].stored and masks.is_packed(node)
        # A tensor is left out if its step also makes views of it, because only the step itself can make these views again.
        if num_nodes[read] == 1 and is_dense and not is_packed and size >= max(1, _LEAST_SHARE * total):
            yield node, read
