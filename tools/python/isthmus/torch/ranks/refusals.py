"""Makes all ranks of torch.distributed refuse a step together.

A rank that raised alone would leave the others in a collective until the timeout of their process group. So a rank that has reason to refuse
a step writes it into the store with which the group was set up, together with the number of the step, and goes on. At the end of the next
step after which ranks look, all of them read it and raise the same error. Nobody waits: if a rank has ended a step in which ranks communicate,
the others have begun that step, so all that they had to write about earlier steps is in the store.

This holds for ranks that run equally many steps, as the stages of a pipeline do. Others may read a refusal later than the rank that wrote it, or not
before they wait for that rank.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Iterator
from typing import Any

from torch import distributed

from .. import hooks

_LOOKED_AT_EACH = 16
"""Of the first steps ranks look after each one, and later after each one whose number is a multiple of this."""

_groups: weakref.WeakKeyDictionary[Any, tuple[int, Iterator[int]]] = weakref.WeakKeyDictionary()
"""The number of each process group, because one store may serve several one after another, and the numbers of the objects that use it. The store
counts the groups, for each rank: a group with a store of its own that only some ranks have used is no reason to count differently."""


class Refusals:
    """What ranks refuse of the steps of one set of options. All ranks make these objects in the same order."""

    def __init__(self) -> None:
        self._group: weakref.ref[Any] | None = None
        self._prefix = ""
        self._raised = 0
        """The number of refusals that all ranks have raised."""

    def tell(self, step: int, why: str) -> bool:
        """Writes that this rank refuses a step, unless another one has done so. Returns False if no other rank would hear of it."""
        with contextlib.suppress(RuntimeError):  # the store does not answer
            store = self._store()
            if store is not None:
                store.compare_set(self._key, "", f"{step} rank {distributed.get_rank()}: {why}")
                return True
        return False

    def heard(self, step: int) -> str | None:
        """Returns what all ranks must raise at the end of a step; None: nothing, or it is not a step after which ranks look. Every rank calls this
        at the end of each step."""
        if step >= _LOOKED_AT_EACH and step % _LOOKED_AT_EACH:
            return None
        with contextlib.suppress(RuntimeError):
            store = self._store()
            if store is not None and store.check([self._key]):
                told, _, why = store.get(self._key).decode().partition(" ")
                if int(told) < step:
                    self._raised += 1
                    return why
        return None

    @property
    def _key(self) -> str:
        return str(self._raised)

    def _store(self) -> distributed.Store | None:
        """Returns the store of the default process group; None: there are no other ranks. It is not kept, because it must end with its group."""
        if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
            return None
        group, store = distributed.group.WORLD, hooks.store_of_ranks()
        if self._group is None or self._group() is not group:
            if group not in _groups:
                _groups[group] = store.add(f"isthmus/refusals/groups of rank {distributed.get_rank()}", 1), itertools.count()
            number, users = _groups[group]
            self._group, self._prefix, self._raised = weakref.ref(group), f"isthmus/refusals/{number}/{next(users)}", 0
        return distributed.PrefixStore(self._prefix, store)
