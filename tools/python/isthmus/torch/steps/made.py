"""Finds what the program has made of an iteration before its first compiled call.

An iteration begins with the end of the last backward, or of the optimizer's step after it. Nothing of ours runs between that and the first compiled
call, so there the tensors that Python has made since are looked at: what no older tensor holds is of this iteration. Parameters, buffers, gradients,
optimizers' state and inputs do not count.
"""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Iterable

import torch

from .. import hooks
from ..device import heap, live, total
from . import program

_LEAST_BYTES = 4096
"""Fewer bytes, such as those of losses that the program adds up, are not counted."""


class Iteration:
    """The begin of an iteration. It keeps no tensor alive."""

    def __init__(self) -> None:
        self._device = total.device_in_use()
        self._young = heap.Young(torch.Tensor)

    def made(self) -> tuple[hooks.Older, ...]:
        """Returns what is new now, at the first compiled call, each storage with the variable that holds it. It can be asked once."""
        with contextlib.closing(self._young):
            young = self._young.alive()
            if total.device_in_use() != self._device or _bytes(_counted(live.storages_of(young, self._device))) < _LEAST_BYTES:
                return ()
            gc.collect()  # tensors in dead cycles are no part of the step
            # That walk has shown to Python tensors that only graphs hold. They are as young as the graphs.
            new = _counted(live.new_on(self._device, self._young.alive()))
        if _bytes(new) < _LEAST_BYTES:
            return ()
        holders = program.holders_of(new)
        return tuple(hooks.Older(s.address, s.bytes, holders.get(key, "")) for key, s in new.items())


def _counted(storages: live.Storages) -> live.Storages:
    return {key: s for key, s in storages.items() if not s.is_input and s.bytes}


def _bytes(storages: live.Storages) -> int:
    return sum(s.bytes for s in storages.values())


def by_holder(storages: Iterable[hooks.Older]) -> Counter[str]:
    """Returns bytes by the variable that holds them; "": none is known."""
    found: Counter[str] = Counter()
    for storage in storages:
        found[storage.holder] += storage.bytes
    return found
