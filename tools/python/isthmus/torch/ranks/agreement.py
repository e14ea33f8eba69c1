"""Makes all ranks of torch.distributed run the same plan: rank 0's.

Ranks agree on one graph at a time. For its k-th graph each rank sends a message to rank 0. Rank 0 compares the messages, plans, and answers
all ranks. Messages pass through the store with which the process group was set up, under keys that name the rank and k, so a message is never
taken for that of another graph. No collective runs, for two reasons. It could be matched with a collective of the program. And while PyTorch
compiles, its Python dispatcher runs collectives with Python's interpreter lock held: they take a lock of gloo's process group that a thread
of gloo may hold while it waits for the interpreter lock, and then both wait for ever, whatever the group's timeout is.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import secrets
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from torch import distributed

from ... import errors
from ...errors import BadInput, Internal
from ...planning import Plan
from ...problem import Problem
from .. import hooks

_PREAMBLE = "sync=True takes rank 0's plan everywhere, and"
_REMEDY = "give all ranks the same model, shapes and options, or leave sync out; plans may differ between ranks"
_SHORTEST, _LONGEST = 0.001, 0.05  # seconds between two looks into the store


def agreed(problem: Problem, budget: Any, planned: Callable[[], Plan]) -> Plan:
    """Returns the plan that rank 0 makes with `planned`. Every rank of the default group calls this for each of its graphs, in the same
    order.

    If ranks have different problems or budgets, or rank 0 finds no plan, all of them raise. A rank that waits for another one for longer
    than the timeout of the process group raises too.
    """
    if not _has_group():
        raise BadInput(
            "sync=True makes ranks of torch.distributed agree, and there is no process group: call init_process_group, or leave it out"
        )
    made: list[Plan] = []

    def schedule() -> list[int]:
        made.append(planned())
        return list(made[0].schedule)

    try:
        found = _exchange().agree({"graph": digest_of(problem), "budget": repr(budget)}, schedule)
    except Exception as e:
        setattr(e, _TOLD, True)
        raise
    return made[0] if made else Plan.from_schedule(problem, found)


@contextlib.contextmanager
def failing_together(in_sync: bool) -> Iterator[None]:
    """If the block raises on this rank, tells the other ranks, which raise at their next `agreed`. They know the errors that `agreed` raises
    already."""
    try:
        yield
    except Exception as e:
        if in_sync and _has_group() and not hasattr(e, _TOLD):
            with contextlib.suppress(BadInput):  # if the store is gone, what the block raised is still the error to report
                _exchange().fail(f"{type(e).__name__}: {e}")
        raise


_TOLD = "_isthmus_told"


def digest_of(problem: Problem) -> str:
    """Returns a digest of everything that decides whether a schedule fits. Costs and workspaces are left out, because ranks may have measured
    them."""
    made = hashlib.sha256(repr((problem.order, problem.alignment, problem.outputs, problem.forward_outputs)).encode())
    for op in problem:
        made.update(repr((op.name, op.reads, op.bytes, op.phase, op.pinned, op.recomputable, op.view_of, op.kind, op.of)).encode())
    return made.hexdigest()


def _has_group() -> bool:
    return distributed.is_available() and distributed.is_initialized()


class _Exchange:
    """The messages of this rank in one process group. Each rank has one message for each graph; rank 0 replaces its message as it proceeds."""

    def __init__(self, group: Any, count: int) -> None:
        """count: the number of earlier exchanges of this process. Each exchange has its own keys, because a store may outlive a process group."""
        self._group = weakref.ref(group)
        self._rank, self._ranks = distributed.get_rank(), distributed.get_world_size()
        self._prefix = f"isthmus/{count}"
        self._token = secrets.token_hex(8)
        """Distinguishes the messages of this process from those of an earlier one that used the same store."""
        self._graphs = 0
        """The number of graphs for which this rank has sent a message."""

    def is_of(self, group: Any) -> bool:
        return self._group() is group

    @property
    def _timeout(self) -> float:
        """Returns the timeout of the process group's store, which is that of the group, in seconds."""
        return hooks.store_of_ranks().timeout.total_seconds()

    def agree(self, mine: dict[str, str], planned: Callable[[], list[int]]) -> list[int]:
        """Returns rank 0's schedule. mine: the values that must be the same on all ranks, by name. Raises BadInput if they are not."""
        graph, self._graphs = self._graphs, self._graphs + 1
        return self._lead(graph, mine, planned) if self._rank == 0 else self._follow(graph, mine)

    def fail(self, why: str) -> None:
        """Sends why this rank has no graph to compare, and does not wait: the other ranks read this message when they come to their next graph."""
        graph, self._graphs = self._graphs, self._graphs + 1
        if self._rank == 0:
            self._send(graph, {"error": BadInput.__name__, "text": _failed(0, why)})
        else:
            self._send(graph, {"failed": why})

    def _lead(self, graph: int, mine: dict[str, str], planned: Callable[[], list[int]]) -> list[int]:
        what = ""
        try:
            self._send(graph, {"does": "it waits for a message of each rank"})
            messages = self._messages(graph)
            _compare([mine, *messages])
            self._send(graph, {"does": "it plans"})
            what = "rank 0 found no plan: "
            schedule = planned()
        except BaseException as e:
            with contextlib.suppress(BadInput):
                self._send(graph, {"error": type(e).__name__, "text": f"{what}{e}"})
            raise
        self._send(graph, {"schedule": schedule, "to": [self._token, *(m["token"] for m in messages)]})
        return schedule

    def _messages(self, graph: int) -> list[dict[str, Any]]:
        """Waits for the messages of the other ranks, and returns them in the order of the ranks."""
        found, start = [], time.monotonic()
        for rank in range(1, self._ranks):
            message = next(self._sent(graph, rank, start), None)
            if message is None:
                raise BadInput(
                    f"{_PREAMBLE} rank {rank} has come to no graph number {graph + 1} within {self._timeout:g} seconds: it has compiled "
                    f"fewer graphs than rank 0, or it has ended, or takes longer; {_REMEDY}"
                )
            found.append(message)
        return found

    def _follow(self, graph: int, mine: dict[str, str]) -> list[int]:
        self._send(graph, {"token": self._token, **mine})
        does = "it has compiled fewer graphs, or it has ended, or takes longer"
        for answer in self._sent(graph, 0, time.monotonic()):
            if "error" in answer:
                raise getattr(errors, answer["error"], Internal)(answer["text"])
            if "schedule" in answer:
                if answer["to"][self._rank] != self._token:
                    raise BadInput(f"{_PREAMBLE} the process group's store holds plans of an earlier program: give each program its own store")
                return answer["schedule"]
            does = answer["does"]
        self._send(graph, {"failed": f"it waited for {self._timeout:g} seconds for rank 0"})
        raise BadInput(f"{_PREAMBLE} rank 0 gave none for graph number {graph + 1} within {self._timeout:g} seconds: {does}; {_REMEDY}")

    def _sent(self, graph: int, rank: int, start: float) -> Iterator[dict[str, Any]]:
        """Yields each message of a rank for a graph when it replaces the one before. Ends if no new message comes within the timeout. start: when
        this rank began to wait."""
        latest: dict[str, Any] | None = None
        timeout, pause = self._timeout, _SHORTEST
        while True:
            message = self._read(graph, rank)
            if message is not None and message != latest:
                latest, start = message, time.monotonic()
                yield message
            if time.monotonic() > start + timeout:
                return
            time.sleep(pause)
            pause = min(_LONGEST, 1.3 * pause)

    def _send(self, graph: int, message: dict[str, Any]) -> None:
        with self._store() as store:
            store.set(self._key(graph, self._rank), json.dumps(message))

    def _read(self, graph: int, rank: int) -> dict[str, Any] | None:
        """Returns the latest message of a rank for a graph; None if the rank has sent none yet."""
        key = self._key(graph, rank)
        with self._store() as store:
            return json.loads(store.get(key)) if store.check([key]) else None

    @staticmethod
    def _key(graph: int, rank: int) -> str:
        return f"graph {graph}, rank {rank}"

    @contextlib.contextmanager
    def _store(self) -> Iterator[distributed.Store]:
        """Yields the store, and raises BadInput if it does not answer. The store is not kept, because it must end with its process group: otherwise
        the next group finds the addresses of this one in it."""
        try:
            yield distributed.PrefixStore(self._prefix, hooks.store_of_ranks())
        except RuntimeError as e:  # PyTorch raises one of several subclasses
            raise BadInput(
                f"{_PREAMBLE} the store of the process group, through which ranks agree, does not answer: has the rank that holds it ended? {e}"
            ) from e


_latest: _Exchange | None = None
_counts = itertools.count()


def _exchange() -> _Exchange:
    """Returns the exchange of the default process group."""
    global _latest
    group = distributed.group.WORLD
    if _latest is None or not _latest.is_of(group):
        _latest = _Exchange(group, next(_counts))
    return _latest


def _failed(rank: int, why: str) -> str:
    return (
        f"{_PREAMBLE} rank {rank} has none to compare: it failed with {why}; mend that there, or leave sync out, so that the other ranks "
        f"plan without it"
    )


def _compare(messages: list[dict[str, Any]]) -> None:
    """Raises BadInput if a rank has failed, or has sent something else than rank 0. messages: those of all ranks, in their order."""
    for rank, theirs in enumerate(messages):
        if "failed" in theirs:
            raise BadInput(_failed(rank, theirs["failed"]))
    for what, mine in messages[0].items():
        others = [rank for rank, theirs in enumerate(messages) if theirs[what] != mine]
        if others:
            ranks = f"rank{'s' if len(others) > 1 else ''} {', '.join(map(str, others))}"
            values = "" if what == "graph" else f" ({messages[others[0]][what]}, and {mine} on rank 0)"
            raise BadInput(f"{_PREAMBLE} the {what} of {ranks} is not rank 0's{values}: {_REMEDY}")
