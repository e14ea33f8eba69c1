"""What is said of a step that was measured above its budget."""

from __future__ import annotations

from collections.abc import Sequence

from .. import hooks, reports
from ..options import Options
from . import outside
from .step import Step

_IN_CHECKPOINTS = (
    "the graphs run within torch.utils.checkpoint, each by a plan of its own (compile the function that calls the checkpoints, or leave them out), and there is "
    "no plan of the step"
)


def budget_of(report: reports.GraphReport | reports.StepReport | None, options: Options) -> int | None:
    """Returns the bytes that a step may take; None if nothing tells them yet. report: of its plan."""
    return options.parsed.bytes if report is None else report.budget_bytes


def of_graphs(step: Step, timeline: hooks.Timeline | hooks.TimelineOnGpu, report: reports.GraphReport | reports.StepReport | None, options: Options) -> str | None:
    """Returns what is wrong with a step that runs graphs; None if nothing is. report: of its plan."""
    budget = budget_of(report, options)
    most = _most_of(report, options)
    if budget is None or most is None or timeline.peak <= most:
        return None
    planned = "" if report is None else f", planned {reports.in_mib(report.planned_peak_bytes)}"
    return (
        f"a {options.asked} is not kept: budget {reports.in_mib(budget)}{planned}, measured {timeline.peak} bytes "
        f"({reports.in_mib(timeline.peak)}) {outside.of_timeline(timeline, step.places)}"
    )


def _most_of(report: reports.GraphReport | reports.StepReport | None, options: Options) -> int | None:
    """Returns the measured bytes up to which nothing is wrong; None: any are right."""
    budget = budget_of(report, options)
    if budget is None or (options.parsed.share or 0) >= 1:  # all that the step takes, which may differ a little from step to step
        return None
    return max(budget, 0 if report is None else report.planned_peak_bytes)


def is_of_older(
    timeline: hooks.Timeline | hooks.TimelineOnGpu,
    known: Sequence[hooks.Older],
    report: reports.GraphReport | reports.StepReport | None,
    options: Options,
) -> bool:
    """Returns True if a step is within its budget without what was made before its first call and was not there when it was planned. known: what was
    there then."""
    most = _most_of(report, options)
    more = sum(each.bytes for each in timeline.older) - sum(each.bytes for each in known)
    return most is not None and 0 < more and timeline.peak - more <= most


def without_graphs(step: Step, timeline: hooks.Timeline | hooks.TimelineOnGpu, options: Options) -> str | None:
    """Returns what is wrong with a step that runs no graph of ours; None if it keeps to its budget anyway."""
    budget = options.parsed
    if budget.bytes is not None and timeline.peak <= budget.bytes or budget.share is not None and budget.share >= 1:
        return None
    what = _IN_CHECKPOINTS if step.has_checkpoints else "PyTorch has compiled nothing of the step"
    return (
        f"a {options.asked} cannot be met: {what}, which takes {timeline.peak} bytes ({reports.in_mib(timeline.peak)}) "
        f"{outside.of_timeline(timeline, step.places)}{outside.uncompiled(step.places)}"
    )
