"""The partitioner: plans a joint graph and returns a forward and a backward module."""

from __future__ import annotations

import functools
import hashlib
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import fx

from .. import __version__
from ..budget import parse_budget
from ..errors import BadInput, CannotBeMet
from ..planning import Plan, live_bytes
from . import agreement, hooks, measuring, modules, offload_ops, offloads, reports, rules
from .costs import Costs, link_bytes_per_us
from .extraction import extract
from .joint import Joint
from .layout import with_channels_last
from .limits import MOST_REPLANS, Limits
from .options import Options
from .preparation import prepare, storage_of
from .sizes import bytes_of, sized, tensors_in

_LEAST = parse_budget("min")
_ABOVE_LEAST = 0.01  # inductor's code may take this share above the planned least peak before another plan is tried


class Partitioner(hooks.CustomPartitionerFn):
    """Plans and cuts the joint graphs of `torch.compile(model, options={"custom_partitioner_fn": isthmus.torch.Partitioner(budget="2GiB",
    kernels="inductor")})`; the backend "isthmus" makes its own partitioner. It is plain data and may be pickled."""

    def __init__(self, budget: Any, **options: Any) -> None:
        """The options are those of the backend."""
        self.options = Options(budget=budget, **options)
        self.ends = ""
        """Where and why the compiled graph ends before its function does; "" if it reaches the function's end."""
        self.sizes: tuple[tuple[str, int], ...] = ()
        """The names of symbolic sizes, and their values in the call that is planned."""
        self._allowed = rules.allowed_targets(self.options.allow_recompute)
        costs = self.options.costs
        self._costs = Costs() if costs in (None, "measured") else Costs.load(costs)
        own = "layout_optimization" in self.options.inductor
        self._decides_layout = self.options.kernels == "inductor" and not own and hooks.lays_out_convolutions()
        self.limits: Limits | None = None
        self._of_code: dict[str, int] = {}  # by op, the bytes that the code of earlier plans took above what was planned
        self._begin_plans()
        # Ranks in sync keep the plan that they agreed on, because inductor's code for it may differ between them.
        self._is_bounded = not self.options.sync
        self.reported: reports.GraphReport | None = None
        """The report of the newest plan."""
        self.divided: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        """The steps that the forward runs, and those that the backward runs; None: nothing has been planned."""

    def _begin_plans(self) -> None:
        """Resets what was learned from earlier plans, before the first plan of a graph."""
        self._excess_bytes = 0  # bytes taken off the budget, because inductor's code took more than it may
        self._found_peaks: list[int] = []  # the peaks of inductor's code, for plans whose code took more than it may
        self._baseline_bytes: int | None = None
        self._planned: tuple[Joint, list[int]] | None = None  # the problem and the schedule
        self._least: tuple[int, list[int]] | None = None  # the least peak of code that was counted as a whole, and its schedule

    def __getstate__(self) -> dict[str, Any]:
        """Inductor pickles its settings to find code in its caches, so nothing that differs between runs of a program is included."""
        return {**self.__dict__, "limits": None, "reported": None, "_planned": None}

    def __deepcopy__(self, memo: Any) -> Partitioner:
        return self  # inductor copies its settings

    def uuid(self) -> str:
        """Returns a text that identifies everything on which compiled code depends. It is never None, because inductor would then reuse cached code
        of any other settings."""
        o = self.options
        digest = hashlib.sha256()
        costs = (o.costs == "measured", sorted(self._costs.table.items()))
        given = (o.budget, o.kernels, o.effort, o.seed, o.sync, o.allow, o.link, *costs, sorted(self._allowed), self._decides_layout)
        # Code accepted although it exceeds the budget must not be found in the cache where that is an error.
        for part in (__version__, _sources(), *given, self._is_bounded):
            digest.update(repr(part).encode())
        return digest.hexdigest()

    def __call__(
        self,
        gm: fx.GraphModule,
        joint_inputs: Sequence[object],
        *,
        num_fwd_outputs: int,
        static_lifetime_input_indices: Sequence[int] | None = None,
        **others: Any,
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        static = list(static_lifetime_input_indices or ())
        if isinstance(joint_inputs, list) and not joint_inputs:  # the body of a subgraph, which the outer graph calls as one op
            return hooks.min_cut(gm, joint_inputs, num_fwd_outputs=num_fwd_outputs, static_lifetime_input_indices=static)
        with agreement.failing_together(self.options.sync):
            return self._partition(gm, num_fwd_outputs, static)

    def _partition(self, gm: fx.GraphModule, num_fwd_outputs: int, static: Sequence[int]) -> tuple[fx.GraphModule, fx.GraphModule]:
        start = time.perf_counter()
        fuses = self.options.kernels == "inductor"
        gm = prepare(gm, num_fwd_outputs, fuses=fuses)
        relaid = with_channels_last(gm) if self._decides_layout else None
        gm = relaid or gm
        costs = replace(self._costs_of(gm), of_code=self._of_code)
        joint = extract(gm, num_fwd_outputs, costs, self._allowed, fuses=fuses)
        joint.channels_last = relaid is not None
        self._add_offloads(joint, gm)
        found, boundary = self._find(joint, gm.graph)
        self._planned = joint, found.schedule
        boundary = modules.length_of_forward(joint.problem, found.schedule) if boundary is None else boundary
        self.divided = tuple(found.schedule[:boundary]), tuple(found.schedule[boundary:])
        forward, backward = modules.split(
            gm, joint, found.schedule, boundary, num_fwd_outputs=num_fwd_outputs, static_lifetime_input_indices=static
        )
        before = self.reported.plan_seconds if self.reported is not None and self._found_peaks else 0.0
        report = self._report(joint, found, forward, num_fwd_outputs, before + time.perf_counter() - start)
        self.limits = Limits(
            planned_bytes=dict.fromkeys((False, True), report.planned_peak_bytes),
            most_bytes=self._most_bytes(report),
            beside_bytes={False: joint.reserved_bytes, True: joint.reserved_bytes + _held_bytes(forward, num_fwd_outputs)},
            workspace=costs.workspace,
            step_bytes=[live + joint.reserved_bytes for live in live_bytes(joint.problem, found.schedule)] if fuses else [],
            frees_tangents=False,
            on_host=frozenset(n.name for n in forward.graph.nodes if offload_ops.is_on_host(n)),
        )
        return forward, backward

    def _add_offloads(self, joint: Joint, gm: fx.GraphModule) -> None:
        allowed = "fetch" in self.options.ways
        rate = self.options.link_bytes
        values = (t for n in gm.graph.nodes for t in tensors_in(n.meta.get("val")))
        bytes_per_us = link_bytes_per_us(values) if rate is None else rate / 1e6
        if bytes_per_us:
            offloads.add(joint, bytes_per_us, marked_only=not allowed)
        elif allowed:
            raise BadInput("allow has 'fetch', and the CPU's memory is the host's: give a link, such as \"link\": \"25GB\", to try out a plan")

    def _most_bytes(self, report: reports.GraphReport) -> int | None:
        """Returns the bytes that inductor's code may take; None: there is no limit. For the least peak, a plan whose code takes more than planned
        is replaced by another one, up to twice, and in the end by the plan whose code took least."""
        if not self._is_bounded or report.budget_bytes is not None:
            return report.budget_bytes if self._is_bounded else None
        if len(self._found_peaks) < MOST_REPLANS - 1:
            return int(report.planned_peak_bytes * (1 + _ABOVE_LEAST))
        return self._least[0] if self._least is not None and len(self._found_peaks) < MOST_REPLANS else None

    def _find(self, joint: Joint, graph: fx.Graph) -> tuple[Plan, int | None]:
        """Returns the plan, and the number of steps of its forward, or None if `modules.split` decides it. Raises CannotBeMet."""
        if not self.options.sync:
            return self._plan(joint), None
        return agreement.agreed(joint.problem, self.options.budget, lambda: self._plan(joint)), None

    def plan_for_less(self, excess_bytes: int) -> None:
        """Is called if inductor's code takes `excess_bytes` more than it may. The next plan counts what the code took above this plan; from the
        second time on, or if nothing was learned, its budget is lower too. After MOST_REPLANS more plans, raises CannotBeMet or, if not strict,
        warns."""
        assert self.limits is not None and self.limits.most_bytes is not None
        self._found_peaks.append(self.limits.most_bytes + excess_bytes)
        has_learnt = self._learn(self.limits)
        if len(self._found_peaks) <= MOST_REPLANS:
            if not has_learnt or len(self._found_peaks) > 1:
                self._excess_bytes += excess_bytes
            if len(self._found_peaks) == MOST_REPLANS and self.options.parsed != _LEAST:
                self._of_code.clear()  # it has not helped: the last plan is the least one that is known without it
            return
        least = min(self._found_peaks)
        why = (
            f"a budget of {self.options.budget} cannot be met: with what inductor makes of {len(self._found_peaks)} plans the least peak "
            f"is {least} bytes ({least / reports.MIB:.1f} MiB)"
        )
        if self.options.strict:
            raise CannotBeMet(f"""{why}; ask for that or more, or for options={{"budget": "min"}}, or for "kernels": "aot_eager\"""")
        warnings.warn(f"{why}; the last one is taken", stacklevel=2)
        self._is_bounded = False

    def _learn(self, limits: Limits) -> bool:
        """Notes the bytes that the code took above the plan. Returns True if it is known which ops took them."""
        assert self._planned is not None
        joint, schedule = self._planned
        for step, bytes in limits.above_bytes.items():
            name = joint.problem[schedule[step]].name
            self._of_code[name] = self._of_code.get(name, 0) + bytes
        peak = limits.peak_bytes
        if peak is not None and (self._least is None or peak < self._least[0]):
            self._least = peak, schedule
        return bool(limits.above_bytes)

    def compiled(self) -> None:
        """Is called when inductor has compiled the graph, and reports the peak in `limits`."""
        if self.reported is None or self.limits is None:
            return
        found = replace(self.reported, inductor_peak_bytes=self.limits.peak_bytes)
        if found.budget_bytes is None:  # without a budget, the planned peak includes what the code takes above the plan
            found = replace(found, planned_peak_bytes=max(found.planned_peak_bytes, self.limits.peak_bytes or 0))
        self._note(found, in_place_of=self.reported)

    def _costs_of(self, gm: fx.GraphModule) -> Costs:
        times = self.options.costs == "measured"
        # Prims, such as inductor's max pooling, are not measured: inductor generates their code, and PyTorch's own code for them makes more tensors.
        fuses = self.options.kernels == "inductor"
        nodes = [n for n in gm.graph.nodes if not (fuses and rules.is_prim(n))]
        measured = measuring.known(nodes, runs=3 if times else 0)
        workspaces = {key: m.workspace_bytes for key, m in measured.items() if m.workspace_bytes}
        table = {key: m.us for key, m in measured.items() if m.us is not None} if times else self._costs.table
        return Costs(table, workspaces, {key: m.storage_bytes for key, m in measured.items()})

    def _budget(self, joint: Joint) -> int | str:
        """Returns the budget for the plan: the user's, without the reserved bytes and the excess of inductor's code; or "min", which has no number
        of bytes."""
        wanted = self.options.parsed
        if wanted.bytes is not None:
            return max(0, wanted.bytes - self._excess_bytes - joint.reserved_bytes)
        if wanted.share is not None:
            return max(0, int(wanted.share * self._baseline(joint)) - self._excess_bytes - joint.reserved_bytes)
        return "min"

    def _baseline(self, joint: Joint) -> int:
        """Returns the peak of the graph without recomputation, in bytes. The first plan's is kept, so that a share of it stays the same number of
        bytes."""
        if self._baseline_bytes is None:
            order = [i for i, op in enumerate(joint.problem) if not op.pinned and not op.is_optional]
            self._baseline_bytes = Plan.from_schedule(joint.problem, order).figures.baseline_peak_bytes + joint.reserved_bytes
        return self._baseline_bytes

    def _plan(self, joint: Joint) -> Plan:
        if len(self._found_peaks) == MOST_REPLANS and self._least is not None and self._budget(joint) == "min":
            return Plan.from_schedule(joint.problem, self._least[1])
        budget = self._budget(joint) if len(self._found_peaks) < MOST_REPLANS else "min"
        try:
            return self.options.plan(joint.problem, budget)
        except CannotBeMet as e:
            assert e.plan is not None and e.plan.figures.smallest_peak_bytes is not None
            if self._found_peaks:
                return e.plan  # as far as is known, inductor's code takes least with this plan
            return self._unmet(joint, e)

    def _unmet(self, joint: Joint, error: CannotBeMet) -> Plan:
        """Raises CannotBeMet for a budget that the graph cannot meet; if not strict, warns and returns the least plan."""
        why, least = self._why_unmet(joint, error), error.plan
        assert least is not None
        if not self.options.strict:
            warnings.warn(f"{why}; that is taken", stacklevel=2)
            return least
        raise self._refusal(why, least) from None

    def _refusal(self, why: str, least: Plan) -> CannotBeMet:
        error = CannotBeMet(
            f"""{why}; ask for that or more, for options={{"budget": "min"}}, or for "strict": False, which takes the least"""
        )
        error.plan = least
        return error

    def _why_unmet(self, joint: Joint, error: CannotBeMet) -> str:
        assert error.plan is not None and error.plan.figures.smallest_peak_bytes is not None
        least = error.plan.figures.smallest_peak_bytes + joint.reserved_bytes
        return (
            f"a budget of {self.options.budget} cannot be met: the least peak that was found for this graph is {least} bytes "
            f"({reports.in_mib(least)}), {reports.share(least, error.plan.figures.baseline_peak_bytes + joint.reserved_bytes)} of its own"
        )

    def _report(self, joint: Joint, found: Plan, *others: Any) -> reports.GraphReport:
        graph = self._figures(joint, found, *others)
        if joint.symbolic and reports.is_first_symbolic():
            warnings.warn(
                f"graph {graph.name} has symbolic sizes: it is planned for those of this call, as are other such graphs, and other sizes "
                f"have another peak",
                stacklevel=2,
            )
        if joint.unbounded:
            warnings.warn(f"graph {graph.name} {reports.UNBOUNDED}", stacklevel=2)
        self._note(graph, in_place_of=self.reported if self._found_peaks else None)
        return graph

    def _note(self, graph: reports.GraphReport, in_place_of: reports.GraphReport | None = None) -> None:
        """Adds the report. in_place_of: the earlier report of the graph, which it replaces."""
        reports.add(graph, in_place_of=in_place_of)
        self.reported = graph

    def _name(self) -> str:
        return reports.next_name()

    def _figures(self, joint: Joint, found: Plan, forward: fx.GraphModule, num_fwd_outputs: int, seconds: float) -> reports.GraphReport:
        figures, wanted = found.figures, self.options.parsed
        output = next(n for n in forward.graph.nodes if n.op == "output")
        saved = [a for a in output.args[0][num_fwd_outputs:] if isinstance(a, fx.Node) and a.op != "placeholder"]
        saved = [a for a in saved if not offload_ops.is_on_host(a)]
        baseline = self._baseline(joint)
        budget = int(wanted.share * baseline) if wanted.share is not None else wanted.bytes
        return reports.GraphReport(
            name=self._name(),
            ends=self.ends,
            sizes=self.sizes,
            ops=sum(bool(s.nodes) for s in joint.steps),
            budget_bytes=budget,
            baseline_peak_bytes=baseline,
            planned_peak_bytes=figures.peak_bytes + joint.reserved_bytes,
            lower_bound_bytes=None if figures.lower_bound_bytes is None else figures.lower_bound_bytes + joint.reserved_bytes,
            added_cost=figures.recompute_overhead,
            recomputed=figures.recomputed,
            transfers=figures.transfers,
            host_bytes=_host_bytes(joint, found.schedule),
            saved_bytes=sum(bytes_of(t) for n in saved for t in tensors_in(n.meta.get("val"))),
            plan_seconds=seconds,
            symbolic=joint.symbolic,
            unbounded=joint.unbounded,
            channels_last=joint.channels_last,
            replans=min(len(self._found_peaks), MOST_REPLANS - 1) if budget is None else len(self._found_peaks),
        )


def _host_bytes(joint: Joint, schedule: Sequence[int]) -> int:
    offloaded = {step for step in schedule if joint.problem[step].kind == "starts_offload"}
    return sum(joint.problem[op].bytes[output] for step in offloaded for op, output in joint.problem[step].reads)


def _held_bytes(forward: fx.GraphModule, num_fwd_outputs: int) -> int:
    """Returns the bytes of the forward's results that are neither saved nor inputs. Its caller holds them, so they are live while the backward
    runs."""
    (output,) = (n for n in forward.graph.nodes if n.op == "output")
    inputs = [n for n in forward.graph.nodes if n.op == "placeholder"]

    def storages(nodes: Sequence[Any]) -> dict[Any, int]:
        values = [t for n in nodes if isinstance(n, fx.Node) for t in tensors_in(n.meta.get("val"))]
        return {storage_of(t): sized(t.untyped_storage().nbytes()) for t in values}

    others = storages(output.args[0][num_fwd_outputs:]).keys() | storages(inputs).keys()
    return sum(size for key, size in storages(output.args[0][:num_fwd_outputs]).items() if key not in others)


@functools.cache
def _sources() -> str:
    """Returns a digest of this package's own files, because a change of them may change the modules."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
