"""What is fixed while graphs are planned: the options, and what follows from them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torch import fx

from ... import __version__
from ...errors import BadInput
from .. import hooks
from ..graph import measuring, offloads, rules
from ..graph.costs import Costs, machine_of
from ..graph.extraction import extract
from ..graph.joint import Joint
from ..graph.sizes import tensors_in
from ..options import Options


@dataclass(frozen=True)
class Planner:
    options: Options
    allowed: frozenset[str]
    """The names of custom ops that may be recomputed."""
    costs: Costs
    """The table that the user gave; without one, it is empty."""
    decides_layout: bool
    """True: convolutions may get their pictures with the channels last."""

    @classmethod
    def of(cls, options: Options) -> Planner:
        costs = Costs() if options.costs in (None, "measured") else Costs.load(options.costs)
        decides_layout = options.kernels == "inductor" and "layout_optimization" not in options.inductor and hooks.lays_out_convolutions()
        return cls(options, rules.allowed_targets(options.allow_recompute), costs, decides_layout)

    @property
    def fuses(self) -> bool:
        """True: neighbouring ops are fused into kernels."""
        return self.options.kernels == "inductor"

    @functools.cached_property
    def digest(self) -> str:
        """A text that is equal for equal options and tables of costs."""
        return self.uuid(is_bounded=not self.options.sync)

    def uuid(self, *, is_bounded: bool) -> str:
        """Returns a text that identifies everything on which compiled code depends. is_bounded: code that exceeds the budget is replaced, so code
        that was accepted nevertheless must not be found in a cache."""
        o = self.options
        costs = (o.costs == "measured", sorted(self.costs.table.items()))
        given = (o.budget, o.total, o.left_bytes, o.sizes, o.kernels, o.effort, o.seed, o.sync, o.allow, o.link, *costs, sorted(self.allowed), self.decides_layout)
        digest = hashlib.sha256()
        for part in (__version__, _sources(), *given, is_bounded):
            digest.update(repr(part).encode())
        return digest.hexdigest()

    def costs_of(self, gm: fx.GraphModule) -> Costs:
        """Returns the costs of a graph's ops. Each op is run once on this device, which tells its workspace; it is timed if the user asks for it. Of a
        step that is planned ahead no op runs."""
        if self.costs.ahead_on is not None:
            return self.costs
        times = self.options.costs == "measured"
        # Prims, such as inductor's max pooling, are not measured: inductor generates their code, and PyTorch's own code for them makes more tensors.
        nodes = [n for n in gm.graph.nodes if not (self.fuses and rules.is_prim(n))]
        measured = measuring.known(nodes, runs=3 if times else 0)
        workspaces = {key: m.workspace_bytes for key, m in measured.items() if m.workspace_bytes}
        table = {key: m.us for key, m in measured.items() if m.us is not None} if times else self.costs.table
        return Costs(table, workspaces, {key: m.storage_bytes for key, m in measured.items()})

    def extracted(self, gm: fx.GraphModule, num_fwd_outputs: int, of_code: Mapping[str, int]) -> tuple[Joint, Costs]:
        """Returns the problem of a prepared joint graph, and the costs of its ops, for the sizes that are taken. of_code: by op, the bytes that its code
        takes above what the op is known to need."""
        costs = replace(self.costs_of(gm), of_code=dict(of_code))
        joint = extract(gm, num_fwd_outputs, costs, self.allowed, fuses=self.fuses)
        self.add_offloads(joint, gm)
        return joint, costs

    def add_offloads(self, joint: Joint, gm: fx.GraphModule) -> None:
        """Adds the copies to the host's memory and back that a plan may choose. Raises BadInput if there is no link."""
        allowed = "fetch" in self.options.ways
        rate = self.options.link_bytes
        values = (t for n in gm.graph.nodes for t in tensors_in(n.meta.get("val")))
        bytes_per_us = (self.costs.ahead_on or machine_of(values)).link_bytes_per_us if rate is None else rate / 1e6
        if bytes_per_us:
            offloads.add(joint, bytes_per_us, marked_only=not allowed)
        elif allowed:
            raise BadInput("allow has 'fetch', and the CPU's memory is the host's: give a link, such as \"link\": \"25GB\", to try out a plan")


@functools.cache
def _sources() -> str:
    """Returns a digest of this package's own files, because a change of them may change the modules."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
