"""Plans of one graph for different sizes of its inputs.

A plan for some sizes is one for all smaller ones too, because no tensor is larger there (`hooks.most_within` counts those that could be). So a table
holds the largest sizes of each plan, and a call takes the cheapest plan whose sizes are no less than its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Sizes = Mapping[str, int]
Planned = TypeVar("Planned")


@dataclass(frozen=True, eq=False)
class Entry(Generic[Planned]):
    sizes: Sizes
    """The largest sizes for which the plan holds, by the names of their symbols."""
    cost: float
    planned: Planned
    fails: list[Sizes] = field(default_factory=list)
    """Sizes for which it does not hold."""

    def may_hold(self, sizes: Sizes) -> bool:
        """Returns False if it is known not to hold for these sizes: it does not hold for smaller ones."""
        return not any(holds(sizes, smaller) for smaller in self.fails)


class BySize(Generic[Planned]):
    def __init__(self) -> None:
        self.entries: list[Entry[Planned]] = []
        self._of_call: dict[tuple[int, ...], Entry[Planned]] = {}

    def knows(self, sizes: Sizes) -> bool:
        """Returns True if `find` has found a plan for these sizes, and none was added since."""
        return tuple(sizes.values()) in self._of_call

    def add(self, entry: Entry[Planned]) -> None:
        """Adds a plan, in place of those that cost no less and hold for no other sizes."""
        self.entries = [e for e in self.entries if e.cost < entry.cost or not holds(entry.sizes, e.sizes)]
        self.entries.append(entry)
        self._of_call.clear()

    def drop(self, planned: Planned) -> None:
        self.entries = [e for e in self.entries if e.planned is not planned]
        self._of_call.clear()

    def find(self, sizes: Sizes) -> Entry[Planned] | None:
        """Returns the cheapest plan that holds for a call with these sizes."""
        key = tuple(sizes.values())
        if key not in self._of_call:
            fitting = [e for e in self.entries if holds(e.sizes, sizes)]
            if not fitting:
                return None
            self._of_call[key] = min(fitting, key=lambda e: e.cost)
        return self._of_call[key]

    def largest(self) -> dict[str, int]:
        """Returns, by name, the largest size for which any plan holds."""
        found: dict[str, int] = {}
        for entry in self.entries:
            for name, size in entry.sizes.items():
                found[name] = max(size, found.get(name, 0))
        return found


def holds(planned: Sizes, sizes: Sizes) -> bool:
    """Returns True if a plan for the sizes `planned` holds for others."""
    return all(size <= planned.get(name, 0) for name, size in sizes.items())


_ROOM = 1.25
"""A plan for a size above those known is made for this many times the size, if the budget can be met there: sizes that grow little by little then
need few plans."""


def with_room(sizes: Sizes, known: Sizes, most: Sizes) -> dict[str, int]:
    """Returns sizes with room for larger ones, in those that are above the known ones. most: the most that a size can be, where that is known."""
    grown = {name: int(-(-size * _ROOM // 1)) if size > known.get(name, 0) else size for name, size in sizes.items()}
    return {name: max(sizes[name], min(size, most.get(name, size))) for name, size in grown.items()}
