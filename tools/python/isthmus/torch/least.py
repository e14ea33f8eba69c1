"""The least peak of a graph or of a step, for reports."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .amounts import in_mib


class Least:
    """The least peak that is found, and the time that it adds. It is planned when it is asked for, which takes as long as the plan did."""

    def __init__(self, planned: Callable[[], tuple[int, float]]) -> None:
        self._planned = planned

    @functools.cached_property
    def _found(self) -> tuple[int, float]:
        return self._planned()

    @property
    def peak_bytes(self) -> int:
        return self._found[0]

    @property
    def added_cost(self) -> float:
        """The time that recomputation then adds, as a share of the step's estimated time."""
        return self._found[1]

    def __str__(self) -> str:
        return f"the least is {in_mib(self.peak_bytes)}, +{max(0.0, self.added_cost):.1%} time"

    def __reduce__(self) -> tuple[Any, ...]:
        return _known, self._found


def _known(peak_bytes: int, added_cost: float) -> Least:
    return Least(lambda: (peak_bytes, added_cost))
