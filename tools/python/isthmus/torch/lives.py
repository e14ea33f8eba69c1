"""Counts the bytes that are live while each step of a schedule runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..problem import Problem

Read = tuple[int, int]

STEP = "isthmus_step"
"""A key of the meta of a module's node: the position in the schedule of the step that the node belongs to."""


@dataclass(eq=False)
class _Storage:
    """A storage that one run of an op makes."""

    bytes: int
    first: int
    last: int
    """The last step that reads the storage."""


def live_bytes(problem: Problem, schedule: Sequence[int]) -> list[int]:
    """Returns the live bytes of each step, including its workspace. A result that may take over the bytes of an operand does so if the step reads
    the operand last."""
    newest: dict[Read, _Storage] = {}
    runs: list[tuple[list[_Storage | None], list[_Storage]]] = []  # for each step, the storages that it reads and makes
    for step, number in enumerate(schedule):
        op = problem[number]
        of_start = problem[op.reads[0][0]].reads if op.kind == "waits_offload" else ()  # these are live until the wait
        reads = [newest.get(storage(problem, read)) for read in (*op.reads, *of_start)]
        for each in reads:
            if each is not None:
                each.last = step
        made = [_Storage(aligned(size, problem), step, step) for size in op.bytes] if op.view_of is None else []
        newest.update({(number, k): each for k, each in enumerate(made)})
        if op.kind == "waits_prefetch" and op.of is not None:
            of = (op.of, 0) if isinstance(op.of, int) else op.of
            newest.update({(of[0], of[1] + k): newest[start] for k, start in enumerate(op.reads)})
        runs.append((reads, made))
    for read in problem.outputs:
        if storage(problem, read) in newest:
            newest[storage(problem, read)].last = len(schedule) - 1
    changes = [0] * (len(schedule) + 1)
    for each in (each for _, made in runs for each in made):
        changes[each.first] += each.bytes
        changes[each.last + 1] -= each.bytes
    found, live = [], 0
    for step, number in enumerate(schedule):
        live += changes[step]
        found.append(live + aligned(problem[number].workspace, problem) - _taken_over(problem, number, step, *runs[step]))
    return found


def storage(problem: Problem, read: Read) -> Read:
    """Returns the output whose storage is read: for a view, the output that it is a view of."""
    op = problem[read[0]]
    while op.view_of is not None:
        read = op.reads[op.view_of]
        op = problem[read[0]]
    return read


def aligned(size: int, problem: Problem) -> int:
    """Returns the size rounded up to the problem's alignment."""
    return -(-size // problem.alignment) * problem.alignment


def _taken_over(problem: Problem, number: int, step: int, reads: Sequence[_Storage | None], made: Sequence[_Storage]) -> int:
    """Returns the bytes of the step's results that take over the bytes of operands."""
    given: dict[_Storage, None] = {}
    has_bytes: set[int] = set()
    for k, r in problem[number].may_reuse:
        operand = reads[r]
        if operand is not None and operand.last == step and operand not in given and k not in has_bytes and operand.bytes >= made[k].bytes:
            given[operand] = None
            has_bytes.add(k)
    return sum(made[k].bytes for k in has_bytes)
