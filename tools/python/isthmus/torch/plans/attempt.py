"""Plans a graph once, and cuts it by that plan, when PyTorch calls for it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from torch import fx

from ...planning import Plan, live_bytes
from .. import hooks, reports
from ..graph import modules, offload_ops
from ..chunks.choice import applied
from ..chunks.ends import ends
from ..graph.costs import Costs
from ..graph.joint import Joint
from ..graph.layout import with_channels_last
from ..graph.places import named_node
from ..graph.preparation import prepare
from ..graph.sizes import bytes_of, largest_below, sized, storage_of, tensors_in
from ..inductor.limits import MOST_REPLANS, Limits
from ..ranks import agreement
from .in_chunks import chosen
from .learned import Learned, Made
from .planner import Planner
from .refusal import gradients_of
from .search import Search


_LARGE_RESULT = 0.1
"""Of the peak without recomputation: results of the forward from this share on are told."""


class Role(Protocol):
    """What a plan is for: how it is chosen, and who is told of it."""

    @property
    def key(self) -> str:
        """A text that tells apart the code of plans that are made with the same options."""

    @property
    def is_bounded(self) -> bool:
        """True: code that takes more than the budget is replaced by that of another plan."""

    @property
    def may_learn(self) -> bool:
        """True: another plan may count other bytes of ops."""

    @property
    def shares_budget(self) -> bool:
        """True: other graphs of the step take a part of the budget."""

    def name(self) -> str:
        """Returns the name of the graph in reports."""

    def find(self, search: Search, graph: fx.Graph) -> tuple[Plan, int | None]:
        """Returns a plan, and the number of steps of its forward, or None if `modules.split` decides it."""

    def limited(self, limits: Limits) -> Limits:
        """Returns the limits of the plan's code. limits: those of a graph that has the step to itself."""

    def planned(self, report: reports.GraphReport, in_place_of: reports.GraphReport | None) -> None:
        """Is called when the graph is cut. in_place_of: the report of an earlier plan, which is dropped."""

    def compiled(self, report: reports.GraphReport, in_place_of: reports.GraphReport, limits: Limits) -> None:
        """Is called when inductor has compiled the graph, with the peak of its code in the report and in `limits`."""


@dataclass(frozen=True)
class Alone:
    """Plans a graph by itself."""

    is_reported: bool = True
    """Its report is added to those of the program."""
    key: str = ""
    is_bounded: bool = True
    may_learn: bool = True
    shares_budget: bool = False

    def name(self) -> str:
        return reports.next_name()

    def find(self, search: Search, graph: fx.Graph) -> tuple[Plan, int | None]:
        return search.agreed(search.plan), None

    def limited(self, limits: Limits) -> Limits:
        return limits

    def planned(self, report: reports.GraphReport, in_place_of: reports.GraphReport | None) -> None:
        if self.is_reported:
            add_report(report, in_place_of)

    def compiled(self, report: reports.GraphReport, in_place_of: reports.GraphReport, limits: Limits) -> None:
        if self.is_reported:
            reports.add(report, in_place_of)


def add_report(report: reports.GraphReport, in_place_of: reports.GraphReport | None, *, tells_of_sizes: bool = False) -> None:
    """Adds the report of a new plan, and warns if its peak is no promise. tells_of_sizes: the caller tells of other sizes when they come, or plans for them."""
    if report.symbolic and not tells_of_sizes and reports.is_first_symbolic():
        warnings.warn(
            f"graph {report.name} has symbolic sizes: it is planned for those of this call, as are other such graphs, and other sizes "
            f"have another peak",
            stacklevel=2,
        )
    if report.unbounded:
        warnings.warn(f"graph {report.name} {reports.UNBOUNDED}", stacklevel=2)
    reports.add(report, in_place_of)


@dataclass(frozen=True)
class Origin:
    """Where a graph comes from, for its report."""

    ends: str = ""
    """Where and why the compiled graph ends before its function does; "" if it reaches the function's end."""
    sizes: tuple[tuple[str, int], ...] = ()
    """The names of symbolic sizes, and their values in the call that is planned."""


class Attempt(hooks.CustomPartitionerFn):
    def __init__(self, planner: Planner, role: Role, origin: Origin = Origin(), learned: Learned = Learned()) -> None:
        self.planner, self.role, self.origin, self.learned = planner, role, origin, learned
        self.made: Made | None = None
        """None: PyTorch has not called for a plan."""

    def __getstate__(self) -> dict[str, Any]:
        """Inductor pickles its settings to find code in its caches. They are never unpickled."""
        return {"uuid": self.uuid()}

    def __deepcopy__(self, memo: Any) -> Attempt:
        return self  # inductor copies its settings

    def uuid(self) -> str:
        """Returns what the code depends on. It is never None, because inductor would then reuse cached code of any other settings."""
        return self.planner.uuid(is_bounded=self._is_bounded) + self.role.key

    @property
    def _is_bounded(self) -> bool:
        # Ranks in sync keep the plan that they agreed on, because inductor's code for it may differ between them.
        return self.role.is_bounded and not self.planner.options.sync and not self.learned.gave_up

    @property
    def limits(self) -> Limits | None:
        """The limits of the code; None: there is no plan."""
        return None if self.made is None else self.made.limits

    def again(self) -> Attempt:
        """Returns an attempt that makes another plan, because the code of this one took more than it may. Raises CannotBeMet."""
        assert self.made is not None
        learned = self.learned.after(self.made, self.planner.options, may_learn=self.role.may_learn)
        return Attempt(self.planner, self.role, self.origin, learned)

    def compiled(self) -> None:
        """Is called when inductor has compiled the graph."""
        if self.made is None:
            return
        report, limits = self.made.report, self.made.limits
        found = replace(report, inductor_peak_bytes=limits.peak_bytes)
        if found.budget_bytes is None:  # without a budget, the planned peak includes what the code takes above the plan
            found = replace(found, planned_peak_bytes=max(found.planned_peak_bytes, limits.peak_bytes or 0))
        self.role.compiled(found, report, limits)

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
        with agreement.failing_together(self.planner.options.sync):
            return self._partition(gm, num_fwd_outputs, static)

    def _partition(self, gm: fx.GraphModule, num_fwd_outputs: int, static: Sequence[int]) -> tuple[fx.GraphModule, fx.GraphModule]:
        start = time.perf_counter()
        planner, fuses = self.planner, self.planner.fuses
        gm = prepare(gm, num_fwd_outputs, fuses=fuses)
        relaid = with_channels_last(gm) if planner.decides_layout else None
        gm = relaid or gm
        gm, joint, costs, learned = self._in_chunks(gm, num_fwd_outputs)
        joint.channels_last = relaid is not None
        search = Search(planner.options, joint, learned, self.origin.ends)
        plan, boundary = self.role.find(search, gm.graph)
        boundary = modules.length_of_forward(joint.problem, plan.schedule) if boundary is None else boundary
        forward, backward = modules.split(
            gm, joint, plan.schedule, boundary, num_fwd_outputs=num_fwd_outputs, static_lifetime_input_indices=static
        )
        report = self._report(search, plan, gm, forward, num_fwd_outputs, time.perf_counter() - start)
        report = replace(report, parameter_bytes=_static_bytes(gm, static))
        limits = Limits(
            planned_bytes=dict.fromkeys((False, True), report.planned_peak_bytes),
            most_bytes=search.most_bytes(report.planned_peak_bytes) if self._is_bounded else None,
            beside_bytes={False: joint.reserved_bytes, True: joint.reserved_bytes + _held_bytes(forward, num_fwd_outputs)},
            workspace=costs.workspace,
            step_bytes=[live + joint.reserved_bytes for live in live_bytes(joint.problem, plan.schedule)] if fuses else [],
            frees_tangents=False,
            on_host=frozenset(n.name for n in forward.graph.nodes if offload_ops.is_on_host(n)),
        )
        self.made = Made(joint, plan, boundary, search.baseline_bytes, search.program_bytes, report, self.role.limited(limits) if fuses else limits, gm, num_fwd_outputs, learned.chunks)
        self.role.planned(report, self.learned.report)
        return forward, backward

    def _in_chunks(self, gm: fx.GraphModule, num_fwd_outputs: int) -> tuple[fx.GraphModule, Joint, Costs, Learned]:
        """Returns a prepared joint graph with regions in chunks, if that is allowed and better, its problem, and what is known of the graph then."""
        planner, learned = self.planner, self.learned
        joint, costs = planner.extracted(gm, num_fwd_outputs, learned.of_code)
        if "chunk" not in planner.options.ways:
            return gm, joint, costs, learned
        search = Search(planner.options, joint, learned, self.origin.ends)
        learned = replace(learned, baseline_bytes=search.baseline_bytes, program_bytes=search.program_bytes)
        if learned.chunks is None:
            asked = None if self.role.shares_budget else search.asked_bytes
            learned = replace(learned, chunks=chosen(planner, gm, num_fwd_outputs, asked))
        changed = applied(gm, learned.chunks) if learned.chunks else None
        if changed is None:
            return gm, joint, costs, replace(learned, chunks=())
        whole = joint, gm.graph
        joint, costs = planner.extracted(changed, num_fwd_outputs, learned.of_code)
        joint.whole = whole
        return changed, joint, costs, learned

    def _report(
        self, search: Search, plan: Plan, gm: fx.GraphModule, forward: fx.GraphModule, num_fwd_outputs: int, seconds: float
    ) -> reports.GraphReport:
        figures, joint = plan.figures, search.joint
        output = next(n for n in forward.graph.nodes if n.op == "output")
        saved = [a for a in output.args[0][num_fwd_outputs:] if isinstance(a, fx.Node) and a.op != "placeholder"]
        saved = [a for a in saved if not offload_ops.is_on_host(a)]
        earlier, budget = self.learned.report, search.asked_bytes
        replans, may_chunk = len(self.learned.found_peaks), "chunk" in self.planner.options.ways
        return reports.GraphReport(
            name=self.role.name(),
            ends=self.origin.ends,
            sizes=self.origin.sizes,
            ops=sum(bool(s.nodes) for s in joint.steps),
            budget_bytes=budget,
            baseline_peak_bytes=search.baseline_bytes,
            program_peak_bytes=search.program_bytes,
            planned_peak_bytes=figures.peak_bytes + joint.reserved_bytes,
            lower_bound_bytes=None if figures.lower_bound_bytes is None else figures.lower_bound_bytes + joint.reserved_bytes,
            added_cost=(1 + figures.recompute_overhead) * joint.cost_of_chunks - 1,
            chunks=tuple(map(str, search.learned.chunks or ())),
            left_whole=_left_whole(gm, num_fwd_outputs, search.baseline_bytes) if may_chunk else (),
            chunks_end=ends(gm, joint, plan.schedule) if may_chunk else (),
            step_us=joint.cost if joint.whole is None else joint.whole[0].cost,
            gradient_bytes=sum(joint.problem[i].bytes[k] for i, k in gradients_of(joint.problem)),
            least=search.least,
            recomputed=figures.recomputed,
            transfers=figures.transfers,
            host_bytes=_host_bytes(joint, plan.schedule),
            saved_bytes=sum(bytes_of(t) for n in saved for t in tensors_in(n.meta.get("val"))),
            plan_seconds=seconds + (0.0 if earlier is None else earlier.plan_seconds),
            symbolic=joint.symbolic,
            unbounded=joint.unbounded,
            channels_last=joint.channels_last,
            largest_below=tuple(largest_below(gm.graph)) if self.origin.sizes else (),
            replans=min(replans, MOST_REPLANS - 1) if budget is None else replans,
        )


def _static_bytes(gm: fx.GraphModule, static: Sequence[int]) -> int:
    """Returns the bytes of the inputs that are there in every step: parameters and buffers."""
    inputs = hooks.inputs_of(gm.graph)
    values = [t for k in static for t in tensors_in(inputs[k].meta.get("val"))]
    return sum({storage_of(t): sized(t.untyped_storage().nbytes()) for t in values}.values())


def _left_whole(gm: fx.GraphModule, num_fwd_outputs: int, baseline_bytes: int) -> tuple[str, ...]:
    """Returns the names of large results of the forward, which chunks cannot keep from existing whole."""
    results = [o for o in hooks.outputs_of(gm, num_fwd_outputs)[0] if isinstance(o, fx.Node) and o.op == "call_function"]
    sizes = {o: sum(map(bytes_of, tensors_in(o.meta.get("val")))) for o in results}
    return tuple(f"{named_node(o)} ({reports.in_mib(size)})" for o, size in sizes.items() if size >= _LARGE_RESULT * baseline_bytes)


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
