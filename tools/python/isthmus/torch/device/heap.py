"""Finds the objects of a type of which Python knows: all of them, or those that were made since a moment."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Mapping
from typing import Any

_MOST_COLLECTIONS = 20_000
"""So many collections of garbage, and objects made since a moment are no longer followed."""


def found(*bases: type) -> list[list[Any]]:
    """Returns all objects of each of these types, or of a subtype, in one pass over all that Python's garbage collector knows. That takes
    some tenths of a second where models were compiled."""
    of_base = [_subtypes(base) for base in bases]
    wanted = set[type]().union(*of_base)
    objects = [o for o in gc.get_objects() if type(o) in wanted]
    return [[o for o in objects if type(o) in types] for types in of_base]


class Young:
    """The objects of a type that are made from now on. They are not kept alive.

    The garbage collector has what was made since its last collection in a list of its own, which is short. So that list is emptied now, and read before
    each collection and in the end.
    """

    def __init__(self, base: type) -> None:
        self._types = _subtypes(base)
        self._noted: list[weakref.ref[Any]] = []
        self._collections = 0
        gc.collect(0)
        own = weakref.ref(self)

        def begins(phase: str, _: Mapping[str, int]) -> None:
            young = own()
            if phase == "start" and young is not None:
                young._note()

        gc.callbacks.append(begins)
        self._close = weakref.finalize(self, _remove, begins)
        self._close.atexit = False

    def close(self) -> None:
        """Ends this. From now on nothing is known."""
        self._close()

    def alive(self) -> list[Any]:
        """Returns those that are alive; none if it is not known."""
        if not self._close.alive:
            return []
        return list({id(o): o for o in (*(ref() for ref in self._noted), *self._newest()) if o is not None}.values())

    def _note(self) -> None:
        self._collections += 1
        if self._collections > _MOST_COLLECTIONS:
            self._close()
        else:
            self._noted += map(weakref.ref, self._newest())

    def _newest(self) -> list[Any]:
        return [o for o in gc.get_objects(0) if type(o) in self._types]


def _remove(callback: Any) -> None:
    with contextlib.suppress(ValueError):  # the program has taken it away
        gc.callbacks.remove(callback)


def _subtypes(base: type) -> set[type]:
    known, left = {base}, [base]
    while left:
        new = [t for t in type.__subclasses__(left.pop()) if t not in known]
        known.update(new)
        left += new
    return known
