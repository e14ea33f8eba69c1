"""Makes all ranks of torch.distributed run the same plan: rank 0's."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import distributed

from .. import errors
from ..errors import BadInput, Internal
from ..planning import Plan
from ..problem import Problem
from . import hooks

_FAILED = "failed"


def agreed(problem: Problem, budget: Any, planned: Callable[[], Plan]) -> Plan:
    """Returns the plan that rank 0 makes with `planned`. Every rank of the default group calls this for each of its graphs, in the same
    order.

    If ranks have different problems or budgets, or rank 0 finds no plan, all of them raise.
    """
    made: list[Plan] = []

    def schedule() -> list[int]:
        made.append(planned())
        return list(made[0].schedule)

    if not _has_group():
        raise BadInput(
            "sync=True makes ranks of torch.distributed agree, and there is no process group: call init_process_group, or leave it out"
        )
    with hooks.outside_of_tracing():
        _compare({"graph": digest_of(problem), "budget": repr(budget)})
        found = _from_rank_0(schedule)
    return made[0] if made else Plan.from_schedule(problem, found)


@contextlib.contextmanager
def failing_together(in_sync: bool) -> Iterator[None]:
    """If the block raises on this rank, tells the other ranks, which would otherwise wait for it in `agreed` for ever."""
    try:
        yield
    except Exception as e:
        if in_sync and _has_group():
            with hooks.outside_of_tracing():
                distributed.all_gather_object([None] * distributed.get_world_size(), {_FAILED: f"{type(e).__name__}: {e}"})
        raise


def digest_of(problem: Problem) -> str:
    """A digest of everything that decides whether a schedule fits. Costs and workspaces are left out: ranks may have measured them."""
    made = hashlib.sha256(repr((problem.order, problem.alignment, problem.outputs, problem.forward_outputs)).encode())
    for op in problem:
        made.update(repr((op.name, op.reads, op.bytes, op.phase, op.pinned, op.recomputable, op.view_of, op.kind, op.of)).encode())
    return made.hexdigest()


def _has_group() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def _gathered(mine: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the dictionaries of all ranks; raises BadInput if a rank has failed."""
    all_ranks: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(all_ranks, mine)
    for rank, theirs in enumerate(all_ranks):
        if _FAILED in theirs:
            raise BadInput(
                f"sync=True takes rank 0's plan everywhere, and rank {rank} has none to compare: it failed with "
                f"{theirs[_FAILED]}; mend that there, or leave sync out, so that the other ranks plan without it"
            )
    return all_ranks


def _compare(mine: dict[str, str]) -> None:
    all_ranks = _gathered(mine)
    for what in mine:
        others = [rank for rank, theirs in enumerate(all_ranks) if theirs[what] != all_ranks[0][what]]
        if others:
            ranks = f"rank{'s' if len(others) > 1 else ''} {', '.join(map(str, others))}"
            values = "" if what == "graph" else f" ({all_ranks[others[0]][what]}, and {all_ranks[0][what]} on rank 0)"
            raise BadInput(
                f"sync=True takes rank 0's plan everywhere, and the {what} of {ranks} is not rank 0's{values}: "
                f"give all ranks the same model, shapes and options, or leave sync out; plans may differ between ranks"
            )


def _from_rank_0(planned: Callable[[], list[int]]) -> list[int]:
    if distributed.get_rank() == 0:
        try:
            schedule = planned()
        except BaseException as e:
            distributed.broadcast_object_list([{"error": type(e).__name__, "text": str(e)}], src=0)
            raise
        distributed.broadcast_object_list([{"schedule": schedule}], src=0)
        return schedule
    received: list[Any] = [None]
    distributed.broadcast_object_list(received, src=0)
    answer = received[0]
    if "error" in answer:
        kind = getattr(errors, answer["error"], Internal)
        raise kind(f"rank 0 found no plan: {answer['text']}")
    return answer["schedule"]
