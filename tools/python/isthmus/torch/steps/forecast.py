"""Foresees which graphs a step will run, from the steps before it.

Most programs run one sequence of calls in each step, or a few in turns. Others choose at random, as those that skip layers. The plan of a sequence spends
the whole budget on the calls that it knows: a call that comes unforeseen finds too little left, and what earlier calls have saved for their backwards
cannot be given back. So a plan in bytes is followed in two cases only. The next sequence is certain, because what was foreseen came true so far. Or the
plan is of a sequence of which all others are parts: its schedules also hold for the calls that are left.
"""

from __future__ import annotations

import itertools
import weakref
from collections import Counter
from typing import Any

from .step_planner import CallSequence

_RIGHT_OF_LOOPS = 2
"""How many forecasts in a row must have come true where a function is called several times in a step, as in a loop of which the length may change."""
_RIGHT_AFTER_WRONG = 4
"""The same after a forecast that did not come true, and twice as many after each further one."""
_SETTLED_AFTER = 32
"""So many steps without a longer sequence, and the longest loop is taken for known."""
_MOST_WHOLE = 64
_MOST_FOLLOWERS = 1024


def is_part(part: CallSequence, whole: CallSequence) -> bool:
    """Returns True if a step runs graphs that are among those of another step, in their order, and calls no function more often. Which function runs
    which graph may differ: where a layer is skipped, the next one may run the graph for an input that needs no gradient."""
    rest = (graph for _, graph in whole)
    return all(graph in rest for _, graph in part) and _calls(part) <= _calls(whole)


def _calls(sequence: CallSequence) -> Counter[weakref.ref[Any]]:
    return Counter(function for function, _ in sequence)


class Forecast:
    """What the steps so far tell of the next one."""

    def __init__(self) -> None:
        self._last: CallSequence | None = None
        self._followers: dict[CallSequence | None, CallSequence] = {}  # by the sequence of a step, that of the next one
        self._right = 0  # forecasts in a row that came true
        self._wrong = 0
        self._whole: list[CallSequence] = []  # those that are part of no other one
        self._since_longer = 0  # steps
        self._loops: dict[weakref.ref[Any], tuple[int, int]] = {}  # by function, its fewest and its most calls in a step

    @property
    def next(self) -> CallSequence | None:
        """The sequence that followed the last time after that of the step before; None: not known."""
        return self.after(self._last)

    def after(self, sequence: CallSequence | None) -> CallSequence | None:
        """Returns the sequence that followed the last time after this one; None: not known."""
        return self._followers.get(sequence)

    @property
    def is_certain(self) -> bool:
        """True: the next step will run the sequence `next`, as far as the steps before it tell."""
        foreseen = self.next
        if foreseen is None:
            return False
        needed = _RIGHT_OF_LOOPS if len(foreseen) > len({function for function, _ in foreseen}) else 1
        if self._wrong:
            needed = _RIGHT_AFTER_WRONG << min(self._wrong, 20)
        return self._right >= needed

    def covers(self, sequence: CallSequence) -> bool:
        """Returns True if all steps that share a graph with this sequence are parts of it."""
        graphs = {graph for _, graph in sequence}
        others = [whole for whole in self._whole if any(graph in graphs for _, graph in whole)]
        functions = {function for whole in others for function, _ in whole}
        is_open = any(most > max(1, fewest) for fewest, most in (self._loops[f] for f in functions))
        return len(self._whole) < _MOST_WHOLE and all(is_part(o, sequence) for o in others) and (not is_open or self._since_longer >= _SETTLED_AFTER)

    def note(self, sequence: CallSequence, *, compiled: bool) -> None:
        """Notes what a step has run. compiled: graphs were compiled in it, which nobody can foresee."""
        foreseen = self.next
        came_true = sequence == (self._last if foreseen is None else foreseen)
        self._right = self._right + 1 if came_true else 0
        self._wrong += foreseen is not None and not came_true and not compiled
        if len(self._followers) >= _MOST_FOLLOWERS:
            self._followers.clear()
        self._followers[self._last], self._last = sequence, sequence
        for function, calls in _calls(sequence).items():
            fewest, most = self._loops.get(function, (calls, calls))
            self._loops[function] = min(fewest, calls), max(most, calls)
        self._since_longer += 1
        self._whole = [w for w in self._whole if all(graph() is not None for _, graph in w)]
        if sequence and not any(is_part(sequence, whole) for whole in self._whole):
            kept = (whole for whole in self._whole if not is_part(whole, sequence))
            self._whole = [*itertools.islice(kept, _MOST_WHOLE - 1), sequence]
            self._since_longer = 0
