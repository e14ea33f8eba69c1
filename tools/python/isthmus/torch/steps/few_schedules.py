"""Lets the calls of a graph share few schedules, because each of them is compiled.

A pipeline calls the graph of its stage once for each micro-batch, and a plan of the step may have another schedule for each call. Two ways to do with
few are tried, and the cheaper one is taken. Either the calls get the cheapest schedule with which all of them keep to the budget. Or each call gets, of
some chosen schedules, one that takes no more memory than its own. Then as many calls as fit get cheaper schedules: the first calls, the last ones,
or every second, third and so on, because it depends on the order of the pipeline which calls wait for their backwards at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...planning import live_bytes
from .step_plan import Schedule, StepProblem

MOST = 4
"""The most schedules of a graph that its calls share. A graph with no more of them keeps them."""
_MOST_ABOVE = 0.02
"""How much above a plan of the least peak the peak of shared schedules may be, as a share of it."""


def shared(step: StepProblem, schedules: Sequence[Schedule], most_bytes: int | None) -> list[Schedule]:
    """Returns a schedule for each call, of which every graph has few. A graph keeps the given ones if no few of them keep to the budget. most_bytes: the
    budget; None: the least peak."""
    found = list(schedules)
    for calls in _calls_by_graph(step):
        if len({found[call] for call in calls}) > MOST:
            limit = int(_peak(step, found) * (1 + _MOST_ABOVE)) if most_bytes is None else most_bytes
            found = _Sharing(step, calls, limit).of(found)
    return found


def _calls_by_graph(step: StepProblem) -> Iterator[list[int]]:
    calls: dict[int, list[int]] = {}
    for call, part in enumerate(step.parts):
        calls.setdefault(id(part), []).append(call)
    yield from calls.values()


class _Sharing:
    """Finds few schedules for the calls of one graph, while other graphs keep theirs."""

    def __init__(self, step: StepProblem, calls: Sequence[int], most_bytes: int) -> None:
        self._step, self._calls, self._most_bytes = step, calls, most_bytes
        waiting = step.record.most_waiting(calls)
        self._orders = [list(calls), list(reversed(calls)), [call for k in range(waiting) for call in calls[k::waiting]]]

    def of(self, schedules: list[Schedule]) -> list[Schedule]:
        known = sorted({schedules[call] for call in self._calls}, key=lambda s: (self._cost(s), s.forward, s.backward))
        peaks = {s: _peak(self._step, self._with(schedules, self._calls, s)) for s in known}
        found = [
            self._cheaper(begun, chosen)
            for begun, chosen in (self._all_alike(schedules, known, peaks), self._by_memory(schedules, known, peaks))
            if _peak(self._step, begun) <= self._most_bytes
        ]
        return min(found, key=self._total, default=schedules)

    def _all_alike(self, schedules: list[Schedule], known: list[Schedule], peaks: dict[Schedule, int]) -> tuple[list[Schedule], list[Schedule]]:
        """Returns one schedule for all calls, and cheaper ones to try."""
        number = next((k for k, s in enumerate(known) if peaks[s] <= self._most_bytes), 0)
        cheaper = known[:number]
        if len(cheaper) > MOST - 1:
            cheaper = [cheaper[k * number // (MOST - 1)] for k in range(MOST - 1)]
        return self._with(schedules, self._calls, known[number]), cheaper

    def _by_memory(self, schedules: list[Schedule], known: list[Schedule], peaks: dict[Schedule, int]) -> tuple[list[Schedule], list[Schedule]]:
        """Returns one of few schedules for each call, and these schedules. They are chosen one by one, so that each makes the step cheaper by the most."""

        def nearest(chosen: Sequence[Schedule], schedule: Schedule) -> Schedule:
            return min((s for s in chosen if peaks[s] <= peaks[schedule]), key=self._cost)

        def added(chosen: Sequence[Schedule]) -> float:
            return sum(self._cost(nearest(chosen, schedules[call])) for call in self._calls)

        chosen = [min(known, key=lambda s: peaks[s])]
        for _ in range(MOST - 1):
            chosen.append(min(known, key=lambda s: added([*chosen, s])))
        found = list(schedules)
        for call in self._calls:
            found[call] = nearest(chosen, schedules[call])
        return found, sorted(set(chosen), key=self._cost)

    def _cheaper(self, schedules: list[Schedule], chosen: Sequence[Schedule]) -> list[Schedule]:
        """Gives calls cheaper schedules of the chosen ones, as far as the budget allows."""
        found = schedules
        for schedule in chosen:
            dearer = {call for call in self._calls if self._cost(found[call]) > self._cost(schedule)}
            tried = [self._most_with(found, [call for call in order if call in dearer], schedule) for order in self._orders]
            found = self._with(found, max(tried, key=len), schedule)
        return found

    def _most_with(self, schedules: list[Schedule], calls: Sequence[int], schedule: Schedule) -> Sequence[int]:
        """Returns the first of the calls, as many as can have the schedule."""
        least, most = 0, len(calls)
        while least < most:
            middle = math.ceil((least + most) / 2)
            if _peak(self._step, self._with(schedules, calls[:middle], schedule)) <= self._most_bytes:
                least = middle
            else:
                most = middle - 1
        return calls[:least]

    def _with(self, schedules: Sequence[Schedule], calls: Sequence[int], schedule: Schedule) -> list[Schedule]:
        found = list(schedules)
        for call in calls:
            found[call] = schedule
        return found

    def _total(self, schedules: Sequence[Schedule]) -> float:
        return sum(self._cost(schedules[call]) for call in self._calls)

    def _cost(self, schedule: Schedule) -> float:
        problem = self._step.parts[self._calls[0]].problem
        return sum(problem[op].cost for op in (*schedule.forward, *schedule.backward))


def _peak(step: StepProblem, schedules: list[Schedule]) -> int:
    return max(live_bytes(step.problem, step.steps(schedules)))
