"""Finds what the program has made of an iteration before its first compiled call.

An iteration begins with the end of the last backward, or of the optimizer's step after it. Nothing of ours runs between that and the first compiled call, so the tensors that
are there at both ends are compared: what is new is of this iteration. Parameters, buffers, gradients, optimizers' state and inputs do not count.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable

from .. import hooks
from ..device import live, total
from . import program

_LEAST_BYTES = 4096
"""Fewer bytes, such as those of losses that the program adds up, are not counted."""


class Iteration:
    """The begin of an iteration. It keeps no tensor alive."""

    def __init__(self) -> None:
        self._device = total.device_in_use()
        self._before = live.storages_on(self._device)

    def made(self) -> tuple[hooks.Older, ...]:
        """Returns what is new now, at the first compiled call, each storage with the variable that holds it."""
        if total.device_in_use() != self._device:
            return ()
        others = live.others_on(self._device)
        new = {key: s for key, s in others.items() if key not in self._before and not s.is_input and s.bytes}
        if new:
            gc.collect()  # tensors in dead cycles are no part of the step
            new = {key: s for key, s in new.items() if not s.ref.expired()}
        if sum(s.bytes for s in new.values()) < _LEAST_BYTES:
            return ()
        holders = program.holders_of(new)
        return tuple(hooks.Older(s.address, s.bytes, holders.get(key, "")) for key, s in new.items())


def by_holder(storages: Iterable[hooks.Older]) -> Counter[str]:
    """Returns bytes by the variable that holds them; "": none is known."""
    found: Counter[str] = Counter()
    for storage in storages:
        found[storage.holder] += storage.bytes
    return found
