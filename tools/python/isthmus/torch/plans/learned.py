"""What is learned while a graph is planned again and again, because inductor's code for its plans takes more memory than it may."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import fx

from ...budget import parse_budget
from ...errors import CannotBeMet
from ...planning import Plan
from .. import reports
from ..chunks.choice import Chunks
from ..graph.joint import Joint
from ..inductor.limits import MOST_REPLANS, Limits
from ..options import Options

_LEAST = parse_budget("min")


@dataclass(frozen=True)
class Made:
    """A plan of a graph, by which the graph was cut."""

    joint: Joint
    plan: Plan
    boundary: int
    """The number of steps that the forward runs."""
    baseline_bytes: int
    """The peak without recomputation."""
    program_bytes: int
    """The peak as the program runs the graph."""
    report: reports.GraphReport
    limits: Limits
    gm: fx.GraphModule
    """The prepared joint graph."""
    num_fwd_outputs: int
    chunks: tuple[Chunks, ...] | None = None
    """The regions of the graph that run chunk by chunk; None: that is not allowed."""

    @property
    def divided(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The steps that the forward runs, and those that the backward runs."""
        schedule = tuple(self.plan.schedule)
        return schedule[: self.boundary], schedule[self.boundary :]


@dataclass(frozen=True)
class Learned:
    """What earlier plans of a graph have taught. Before the first plan it is empty."""

    of_code: Mapping[str, int] = field(default_factory=dict)
    """By op, the bytes that code took above what was planned."""
    excess_bytes: int = 0
    """The bytes taken off the budget."""
    found_peaks: Sequence[int] = ()
    """The peaks of the code of plans whose code took more than it may."""
    baseline_bytes: int | None = None
    program_bytes: int | None = None
    """The peak without recomputation, and as the program runs, in the first plan, so that a share of it stays the same number of bytes."""
    least: tuple[int, Sequence[int]] | None = None
    """The least peak of code that was counted as a whole, and its schedule."""
    report: reports.GraphReport | None = None
    """The report of the latest plan, which that of the next one replaces."""
    chunks: tuple[Chunks, ...] | None = None
    """The regions that run chunk by chunk; None: they are not chosen."""
    gave_up: bool = False
    """True: the next plan is taken, whatever its code takes."""

    def after(self, made: Made, options: Options, *, may_learn: bool) -> Learned:
        """Returns what is known after a plan whose code took more than it may. The next plan counts what the code took above this one; from the
        second time on, or if nothing was learned, its budget is lower too. After MOST_REPLANS more plans, raises CannotBeMet or, if not strict,
        warns. may_learn: the next plan may count other bytes of ops than this one."""
        limits = made.limits
        assert limits.most_bytes is not None
        new = self._of_ops(made) if may_learn else self
        has_learnt = may_learn and bool(limits.above_bytes)
        found = (*self.found_peaks, limits.most_bytes + limits.excess_bytes)
        new = replace(new, found_peaks=found, baseline_bytes=made.baseline_bytes, program_bytes=made.program_bytes, report=made.report, chunks=made.chunks)
        if len(found) > MOST_REPLANS:
            _refuse(found, options)
            return replace(new, gave_up=True)
        if len(found) == MOST_REPLANS and options.parsed != _LEAST:
            new = replace(new, of_code={})  # it has not helped: the last plan is the least one that is known without it
        return new if has_learnt and len(found) == 1 else replace(new, excess_bytes=self.excess_bytes + limits.excess_bytes)

    def _of_ops(self, made: Made) -> Learned:
        of_code = dict(self.of_code)
        for step, bytes in made.limits.above_bytes.items():
            name = made.joint.problem[made.plan.schedule[step]].name
            of_code[name] = of_code.get(name, 0) + bytes
        peak = made.limits.peak_bytes
        is_least = peak is not None and (self.least is None or peak < self.least[0])
        return replace(self, of_code=of_code, least=(peak, made.plan.schedule) if is_least else self.least)


def _refuse(found_peaks: Sequence[int], options: Options) -> None:
    """Raises CannotBeMet; if not strict, warns."""
    least = min(found_peaks)
    why = (
        f"a {options.asked} cannot be met: with what inductor makes of {len(found_peaks)} plans the least peak "
        f"is {least} bytes ({least / reports.MIB:.1f} MiB)"
    )
    if options.strict:
        raise CannotBeMet(f"""{why}; ask for that or more, or for options={{"budget": "min"}}, or for "kernels": "aot_eager\"""")
    warnings.warn(f"{why}; the last one is taken", stacklevel=2)
