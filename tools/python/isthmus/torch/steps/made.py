"""Finds what the program has made of an iteration before its first compiled call, and what earlier iterations have left.

An iteration begins with the end of the last backward before it. Nothing of ours runs between that and the first compiled call, so the tensors that
are there at both ends are compared: what is new is of this iteration. Parameters, buffers, gradients, optimizers' state and inputs do not count.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from .. import hooks
from ..device import live, total
from . import program

_LEAST_BYTES = 4096
"""Fewer bytes, such as those of losses that the program adds up, are not counted."""


@dataclass(frozen=True)
class Made:
    """What is there at the first compiled call of an iteration beside parameters, buffers, gradients, optimizers' state and inputs."""

    storages: tuple[hooks.Older, ...] = ()
    """What the iteration has made, each with the variable that holds it."""
    left: tuple[tuple[str, int], ...] = ()
    """The bytes that graphs of earlier iterations keep, by the variable that holds each graph; "": none is known."""


class Iteration:
    """The begin of an iteration. It keeps no tensor alive."""

    def __init__(self) -> None:
        self._device = total.device_in_use()
        self._before = live.storages_on(self._device)

    def made(self) -> Made:
        """Returns what is there now, at the first compiled call."""
        if total.device_in_use() != self._device:
            return Made()
        others = live.others_on(self._device)
        new = {key: s for key, s in others.items() if key not in self._before and not s.is_input and s.bytes}
        left = {key: s for key, s in others.items() if key in self._before and s.is_kept}
        if new:
            gc.collect()  # tensors in dead cycles are no part of the step
            new = {key: s for key, s in new.items() if not s.ref.expired()}
        new, left = (each if sum(s.bytes for s in each.values()) >= _LEAST_BYTES else {} for each in (new, left))
        holders = program.holders_of({*new, *left}) if new or left else {}
        return Made(
            tuple(hooks.Older(s.address, s.bytes, holders.get(key, "")) for key, s in new.items()),
            tuple(_summed((holders.get(key, ""), s.bytes) for key, s in left.items()).most_common()),
        )


def by_holder(storages: Iterable[hooks.Older]) -> Counter[str]:
    """Returns bytes by the variable that holds them; "": none is known."""
    return _summed((s.holder, s.bytes) for s in storages)


def _summed(sizes: Iterable[tuple[str, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, size in sizes:
        found[name] += size
    return found
