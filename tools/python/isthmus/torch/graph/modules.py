"""Turns a schedule into a forward and a backward module.

A new joint graph is built whose nodes stand in the order of the schedule, each tagged with the module to which it belongs; PyTorch's own
function then cuts it. A recomputed node is a clone, `NAME_recompute_K`.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from ...errors import Internal
from ...problem import Problem
from .. import hooks
from . import in_place, masks, offload_ops, rules
from .joint import ONTO, STEP, Joint, Step

_FORWARD, _BACKWARD = "must_be_in_forward", "must_be_in_backward"


def split(
    gm: fx.GraphModule,
    joint: Joint,
    schedule: Sequence[int],
    boundary: int,
    *,
    num_fwd_outputs: int,
    static_lifetime_input_indices: Sequence[int] | None,
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Returns the forward and the backward module. boundary: the number of steps that the forward runs."""
    emitter = _Emitter(gm, joint, schedule, boundary)
    graph, saved = emitter.run()
    forward, backward = hooks.split(
        gm, graph, saved, num_fwd_outputs=num_fwd_outputs, static_lifetime_input_indices=static_lifetime_input_indices
    )
    _check(graph, forward, backward)
    return forward, backward


def length_of_forward(problem: Problem, schedule: Sequence[int]) -> int:
    """Returns the number of steps that the forward runs: those before the first one that only the backward can run. Forward ops that the schedule
    runs right after the forward's results belong to the forward too: a mask is then saved in place of its operands, which inductor would
    otherwise keep until the mask is used."""
    missing = set(problem.forward_outputs)
    for position, op in enumerate(schedule):
        if not missing and problem[op].phase == "backward":
            return position
        missing.discard(op)
    return len(schedule)


def _check(graph: fx.Graph, forward: fx.GraphModule, backward: fx.GraphModule) -> None:
    """Raises Internal if the modules do not run the schedule in its order. Nodes without readers may be left out."""
    for tag, module in ((_FORWARD, forward), (_BACKWARD, backward)):
        names = [n.name for n in module.graph.nodes if n.op == "call_function"]
        there = set(names)
        wanted = [n for n in graph.nodes if n.op == "call_function" and n.meta.get("partitioner_tag") == tag]
        missing = [n.name for n in wanted if n.name not in there and any(u.name in there for u in n.users)]
        if missing or names != [n.name for n in wanted if n.name in there]:
            raise Internal(f"PyTorch has cut the graph into other modules than the schedule's: {missing[:5]}")


class _Emitter:
    def __init__(self, gm: fx.GraphModule, joint: Joint, schedule: Sequence[int], boundary: int) -> None:
        self.old, self.joint, self.schedule, self.boundary = gm.graph, joint, schedule, boundary
        self.new = fx.Graph()
        self.env: dict[fx.Node, fx.Node] = {}  # by old node: its newest copy
        self.tag = _FORWARD
        self.position = 0  # in the schedule
        self.made_by: dict[fx.Node, fx.Node] = {}  # by new node: its old node
        self.saved: dict[fx.Node, None] = {}
        self.in_backward: dict[fx.Node, fx.Node] = {}  # views of the forward, recreated in the backward
        self.packed: dict[fx.Node, fx.Node] = {}  # by unpacked mask: the form in memory
        self.states: dict[fx.Node, fx.Node] = {}  # by random op: the generator's state before its first run
        self.on_host: dict[fx.Node, fx.Node] = {}  # by old node: its copy in the host's memory
        self.offloaded: dict[fx.Node, fx.Node] = {}  # by old node: the copy that was offloaded
        self.coming: dict[fx.Node, fx.Node] = {}  # by old node: the copy that is being prefetched
        self.in_place = in_place.steps_in_place(joint, schedule)
        self.runs: Counter[int] = Counter()
        self.total = Counter(schedule)
        self.clones: Counter[fx.Node] = Counter()

    def run(self) -> tuple[fx.Graph, list[fx.Node]]:
        for node in self.old.nodes:
            if node.op == "placeholder":
                self._copy(node, lambda a: a)
        self.tangents = set(hooks.tangents(self.new))
        missing = set(self.joint.problem.forward_outputs)
        forward = None
        for position, op in enumerate(self.schedule):
            if position == self.boundary:
                forward = self._forward_results()
            self.position = position
            step = self.joint.steps[op]
            if step.moves is not None:
                self._move(self.joint.problem[op].kind, step.moves)
            else:
                self._emit(step, again=self.runs[op] > 0, comes_again=self.total[op] > 1)
            self.runs[op] += 1
            missing.discard(op)
        if missing:
            raise Internal("the schedule does not compute what the forward returns")
        if forward is None:
            forward = self._forward_results()
        backward = [self._value(o) if isinstance(o, fx.Node) else o for o in self.joint.backward]
        old_output = next(n for n in self.old.nodes if n.op == "output")
        output = self.new.output(tuple(forward + backward))
        output.meta = dict(old_output.meta)
        self._keep_products_apart()
        self.new.lint()
        return self.new, list(self.saved)

    def _keep_products_apart(self) -> None:
        """Keeps inductor from fusing a matrix product with a sum that does not follow it directly: until the place of the sum the factors would be
        live."""
        following: fx.Node | None = None
        for node in reversed(self.new.nodes):
            if following is not None and following not in node.users:
                hooks.keep_apart(node)
            if self.made_by.get(node) not in self.joint.views:
                following = node

    def _forward_results(self) -> list[Any]:
        """Returns the results of the forward, once all of them are computed, and begins the backward."""
        results = [self._value(o) if isinstance(o, fx.Node) else o for o in self.joint.forward]
        self.tag = _BACKWARD
        return results

    def _value(self, old: fx.Node) -> fx.Node:
        """Returns the operand for `old` that a node reads if it is emitted now."""
        if old not in self.env and old.op == "get_attr":
            return self._copy(old, lambda a: a)
        node = self.env[old]
        return self._here(node)

    def _here(self, node: fx.Node) -> fx.Node:
        """Returns the node that has the value of a new node in the module that is emitted now."""
        return node if self.tag == _FORWARD else self._across(node)

    def _across(self, node: fx.Node) -> fx.Node:
        """Returns the same value in the backward: a node of the backward, a saved node, or, for a view, the view recreated from its saved
        operand."""
        if node.op == "get_attr" or node.meta.get("partitioner_tag") == _BACKWARD:
            return node
        if node.op == "placeholder":
            if node not in self.tangents:
                self.saved[node] = None
            return node
        if node in self.packed:
            if node not in self.in_backward:
                self.in_backward[node] = self._unpack(self._across(self.packed[node]), node)
            return self.in_backward[node]
        old = self.made_by[node]
        # The result of a wait is saved. If the wait ran again in the backward, a tensor would be saved that was not waited for.
        is_view = old in self.joint.views and not rules.waits(old)
        if is_view or isinstance(node.meta.get("val"), (tuple, list)):
            again = self.in_backward.get(node)
            if again is None:
                operands = {a: self._across(a) for a in node.all_input_nodes}
                again = self._insert(old, node, lambda a: operands[a], f"{node.name}_in_backward")
                self.in_backward[node] = again
            return again
        self.saved[node] = None
        return node

    def _emit(self, step: Step, *, again: bool, comes_again: bool) -> None:
        for node in step.nodes:
            if node is step.nodes[0] and step.draws and comes_again:
                self._draw(node, again)
            elif again and rules.is_batch_norm_in_training(node):
                self._normalize_again(node)
            elif again and self._is_average(node):
                continue  # the running average of the first run is used
            else:
                made = self._copy(node, self._value, again)
                if node in step.stored and any(isinstance(a.meta.get("val"), torch.Tensor) for a in node.all_input_nodes):
                    hooks.keep_in_memory(self._pack(node, made) if masks.is_packed(node) else made)

    def _move(self, kind: str, old: fx.Node) -> None:
        """Emits the start or the wait of a copy to the host's memory or back."""
        if kind == "starts_offload":
            self.offloaded[old] = self._value(old)
            self.on_host[old] = self._added(offload_ops.start_offload, old, (self.offloaded[old],), f"{old.name}_offload")
        elif kind == "waits_offload":
            source = self.offloaded[old]
            operands = (self._here(self.on_host[old]), self._here(source))
            self.on_host[old] = self._added(offload_ops.wait_offload, old, operands, f"{old.name}_on_host")
        elif kind == "starts_prefetch":
            device = old.meta["val"].device
            self.coming[old] = self._added(offload_ops.start_prefetch, old, (self._here(self.on_host[old]), device), f"{old.name}_prefetch")
        else:
            self.env[old] = self._added(offload_ops.wait_prefetch, old, (self.coming.pop(old),), f"{old.name}_again")

    def _added(self, target: torch._ops.OpOverload, old: fx.Node, args: tuple[Any, ...], name: str) -> fx.Node:
        """Adds a node without a counterpart in the old graph, which makes a copy of `old`."""
        node = self.new.call_function(target, args)
        node._rename(name)
        node.meta = {**old.meta, "val": hooks.traced(node), "partitioner_tag": self.tag, STEP: self.position}
        node.meta.pop("recompute", None)
        self.made_by[node] = old
        return node

    def _pack(self, old: fx.Node, mask: fx.Node) -> fx.Node:
        """Packs a mask. Later readers of the mask read the unpacked form; the packed form is kept in memory."""
        packed = masks.pack(mask)
        self.made_by[packed] = old
        self.env[old] = self._unpack(packed, mask)
        return packed

    def _unpack(self, packed: fx.Node, mask: fx.Node) -> fx.Node:
        node = masks.unpack(packed, mask, self.tag)
        self.made_by[node], self.packed[node] = self.made_by[mask], packed
        return node

    def _copy(self, old: fx.Node, value: Callable[[fx.Node], fx.Node], again: bool = False) -> fx.Node:
        name = f"{old.name}_recompute_{self._count(old)}" if again else None
        node = self._insert(old, old, value, name)
        self.env[old] = node
        return node

    def _count(self, old: fx.Node) -> int:
        self.clones[old] += 1
        return self.clones[old]

    def _insert(self, old: fx.Node, like: fx.Node, value: Callable[[fx.Node], fx.Node], name: str | None) -> fx.Node:
        # The operands come first, because `value` may have to insert one.
        operands = {a: value(a) for a in like.all_input_nodes}
        node = self._written(like, operands) if like.meta.get(ONTO) and self.position in self.in_place else None
        into = None if node is None else node.meta["val"]
        node = node or self.new.node_copy(like, lambda a: operands[a])
        if name:
            node._rename(name)
        node.meta = dict(old.meta) if into is None else {**old.meta, "val": into}
        if node.op == "call_function":
            node.meta["partitioner_tag"] = self.tag
            node.meta[STEP] = self.position
            node.meta.pop("recompute", None)
        elif node.op == "get_attr":
            node.meta.pop("partitioner_tag", None)
        self.made_by[node] = old
        return node

    def _written(self, like: fx.Node, operands: dict[fx.Node, fx.Node]) -> fx.Node | None:
        """Emits an op that writes into its first operand, if it may."""
        return in_place.written(self.new, like, fx.node.map_arg(like.args, lambda a: operands[a]), self.tag)

    @staticmethod
    def _is_average(node: fx.Node) -> bool:
        of = node.args[0] if node.target is operator.getitem else None
        return isinstance(of, fx.Node) and rules.is_batch_norm_in_training(of) and node.args[1] in (3, 4)

    def _normalize_again(self, old: fx.Node) -> None:
        values = {a: self._value(a) for a in (old.args[0], old.args[1], old.args[2]) if isinstance(a, fx.Node)}
        node = rules.without_averages(self.new, tuple(values.get(a, None) if isinstance(a, fx.Node) else a for a in old.args))
        node._rename(f"{old.name}_recompute_{self._count(old)}")
        node.meta = {**old.meta, "val": old.meta["val"][:3], "partitioner_tag": self.tag}
        node.meta.pop("recompute", None)
        self.env[old] = node
        self.made_by[node] = old

    def _draw(self, old: fx.Node, again: bool) -> None:
        """Emits a random op that runs several times: its first run saves the generator's state, and later runs restore it."""
        operands = {a: self._value(a) for a in old.all_input_nodes}
        args, kwargs = fx.node.map_arg((old.args, dict(old.kwargs)), lambda a: operands[a])
        if again:
            state = self._here(self.states[old])
            node = self.new.call_function(hooks.run_with_rng_state, (state, old.target, *args), kwargs)
            node._rename(f"{old.name}_recompute_{self._count(old)}")
            node.meta = {**old.meta, "partitioner_tag": self.tag}
        else:
            state_value = hooks.state_like(next(t for t in pytree.tree_leaves(old.meta["val"]) if isinstance(t, torch.Tensor)))
            both = self.new.call_function(hooks.run_and_save_rng_state, (old.target, *args), kwargs)
            both.meta = {**old.meta, "val": (state_value, old.meta["val"]), "partitioner_tag": self.tag}
            state = self.new.call_function(operator.getitem, (both, 0))
            state.meta = {"val": state_value, "partitioner_tag": self.tag}
            state._rename(f"{old.name}_state")
            node = self.new.call_function(operator.getitem, (both, 1))
            node.meta = {**old.meta, "partitioner_tag": self.tag}
            self.states[old] = state
            self.made_by[both] = self.made_by[state] = old
        node.meta.pop("recompute", None)
        self.env[old] = node
        self.made_by[node] = old
