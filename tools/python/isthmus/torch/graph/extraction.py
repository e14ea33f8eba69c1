"""Translates a joint graph of PyTorch into a problem: ops with their costs, the bytes of their storages, and their reads.

Tensors in `meta["val"]` that alias share a storage, so a view shares that of its operand. Ops that draw random numbers, communicate or have other
side effects read an empty output of the previous op of their kind, which keeps the order of their first runs.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from ...errors import Unsupported
from ...problem import Problem
from .. import hooks
from . import groups, rules
from .costs import Costs
from .joint import ONTO, WITH_FORWARD, Joint, Read, Step
from .mutations import Mutations
from .preparation import after_tangents
from .sizes import is_of_call, is_unbounded, most_within, storage_of, tensors_in
from .walks import needed_for

_ALIGNMENT = {"cpu": 64}
_ALIGNMENT_ELSEWHERE = 512


def extract(gm: fx.GraphModule, num_fwd_outputs: int, costs: Costs, allowed: frozenset[str], *, fuses: bool) -> Joint:
    """Returns the problem of a graph that `prepare` has made. Raises Unsupported. fuses: neighbours that inductor fuses into one kernel are one
    op."""
    return _Extraction(gm, num_fwd_outputs, costs, allowed, fuses).run()


class _Extraction:
    def __init__(self, gm: fx.GraphModule, num_fwd_outputs: int, costs: Costs, allowed: frozenset[str], fuses: bool) -> None:
        self.graph = gm.graph
        self.fuses = fuses
        self.costs, self.allowed = costs, allowed
        self.forward, self.backward = hooks.outputs_of(gm, num_fwd_outputs)
        self.after = after_tangents(self.graph)
        self.mutations = Mutations(self.graph, self.after)
        values = [t for n in self.graph.nodes for t in tensors_in(n.meta.get("val"))]
        devices = {t.device.type for t in values}
        self.problem = Problem(
            "joint graph", order="phases", alignment=max([_ALIGNMENT.get(d, _ALIGNMENT_ELSEWHERE) for d in devices], default=64)
        )
        self.joint = Joint(self.problem, [], 0, self.forward, self.backward, False)
        self.where = self.joint.where
        self.by_storage: dict[Any, Read] = {}
        self.last: dict[str, Read] = {}  # by kind of ordered op: the output of the latest one
        self.forward_outputs: set[int] = set()
        self.copies: list[Read] = []  # the results of copies into inputs, each of 0 bytes
        self.dropped_late: list[Read] = []
        """What the latest collective may still hold after its wait. How long is not known, so it counts until the next wait has ended."""

    def run(self) -> Joint:
        self.kept = self._kept_to_the_end()
        nodes = self._in_phases()
        group_of: dict[fx.Node, groups.Group] = {}
        if self.fuses:
            after = groups.read_with(nodes, self._fuses, self.after)
            nodes = groups.with_parts_together(nodes, self._fuses, after.__contains__)
            group_of = groups.find(nodes, self._fuses, after.__contains__)
        for node in nodes:
            if node.op == "placeholder":
                self._add_input(node)
            elif node.op == "get_attr":
                self._add_pinned(node, 0)
            elif node.op == "call_function":
                if node in self.where:
                    continue
                group = group_of.get(node)
                if group is None:
                    self._add_op(node)
                elif node is group[-1]:  # the views that its members read are added by now
                    self._add_group(group)
            elif node.op != "output":
                raise Unsupported(f"'{node.name}': a node of kind '{node.op}' in a joint graph is not known")
        outputs = [o for o in self.forward + self.backward if isinstance(o, fx.Node)]
        outputs += filter(None, map(rules.indices_of, outputs))
        reads = [r for o in outputs for r in self.where[o]]
        acts = self.copies + list(self.last.values())
        self.problem.outputs = list(dict.fromkeys(r for r in reads + acts if not self.problem[r[0]].pinned))
        self.problem.forward_outputs = sorted(
            self.forward_outputs | {r[0] for o in self.forward if isinstance(o, fx.Node) for r in self.where[o] if self._is_forward(r[0])}
        )
        return self.joint

    def _is_forward(self, op: int) -> bool:
        return not self.problem[op].pinned and self.problem[op].phase == "forward"

    # --- facts that are found before ops are added

    def _in_phases(self) -> list[fx.Node]:
        """Returns the nodes in an order in which all those that the forward needs come before the others, which keep their order."""
        nodes = list(self.graph.nodes)
        acts = [n for n in nodes if n.op == "call_function" and n not in self.after and (rules.acts(n) or self.mutations.overwritten_operands(n))]
        acts += [n for n in nodes if n.meta.get(WITH_FORWARD)]
        needed = needed_for([*self.forward, *acts]) | {n for n in nodes if n.op in ("placeholder", "get_attr")}
        return [n for n in nodes if n in needed] + [n for n in nodes if n not in needed]

    def _kept_to_the_end(self) -> set[Any]:
        """Returns the storages of the forward's results, and those that inputs are given. They are not recomputed, because a recomputed tensor would
        have another storage than the one that the caller holds."""
        held = [o for o in self.forward if isinstance(o, fx.Node)]
        held += [n.args[1] for n in self.graph.nodes if rules.gives_memory(n)]
        return {storage_of(t) for n in held for t in tensors_in(n.meta.get("val"))}

    # --- ops

    def _bytes(self, t: torch.Tensor) -> int:
        n = t.untyped_storage().nbytes()
        self.joint.symbolic |= is_of_call(n)
        self.joint.unbounded |= is_unbounded(n)
        return most_within(n)

    def _made_bytes(self, node: fx.Node, result: fx.Node) -> int:
        """Returns the bytes of a result's storage: the traced ones, or, if they are more, the known ones that the kernel allocates. result: the
        op's node, or a node that takes a result out of its tuple."""
        position = result.args[1] if result is not node and result.args[0] is node else 0
        known = self.costs.storage(node, position) if isinstance(position, int) else 0
        return max(known, self._bytes(result.meta["val"]))

    def _add(self, step: Step, *args: Any, **kwargs: Any) -> int:
        self.joint.steps.append(step)
        if step.nodes and "view_of" not in kwargs:
            kwargs["workspace"] = kwargs.get("workspace", 0) + self.costs.of_code.get(args[0], 0)
        return self.problem.add(*args, **kwargs)

    def _add_pinned(self, node: fx.Node, size: int) -> Read:
        read = (self._add(Step([]), node.name, bytes=size, pinned=True), 0)
        self.where[node] = [read]
        return read

    def _add_input(self, node: fx.Node) -> None:
        values = list(tensors_in(node.meta.get("val")))
        size = sum(map(self._bytes, values))
        read = self._add_pinned(node, size)
        for t in values:
            self.by_storage.setdefault(storage_of(t), read)
        if node in self.after:
            self._reserve(size)
            self.joint.tangent_bytes += self._aligned(size)

    def _projections(self, node: fx.Node) -> Iterator[fx.Node]:
        """Yields the nodes that take a result out of a tuple, or out of a tuple in this tuple."""
        if isinstance(node.meta.get("val"), (tuple, list)):
            for user in node.users:
                if user.target is operator.getitem:
                    yield user
                    yield from self._projections(user)

    def _add_op(self, node: fx.Node) -> None:
        projections = list(self._projections(node))
        results = [n for n in projections if not isinstance(n.meta.get("val"), (tuple, list))] if projections else [node]
        aliases = [n for n in results if self._aliased(n) is not None and not rules.changes_input(node)]
        if aliases and len(aliases) == len(results) and not rules.draws(node):
            for n in aliases:
                self._add_view(n, [node, *self._path(node, n)], node)
            for n in [node, *projections]:
                self.where.setdefault(n, [r for a in aliases for r in self.where[a]])
            return
        op = self._add_computation(node, [node, *projections], [n for n in results if n not in aliases], has_aliases=bool(aliases))
        for n in aliases:  # the op makes the tuple's other results; this result shares an operand's storage
            self._add_view(n, [], node, after=(op, len(self.problem[op].bytes) - 1))
        made = [(op, k) for k in range(max(1, len(results) - len(aliases)))]
        for n in [node, *projections]:
            self.where.setdefault(n, made)

    # --- groups of nodes that become one kernel

    def _fuses(self, node: fx.Node) -> bool:
        if not groups.is_fusible(node) or rules.acts(node):
            return False
        return rules.may_repeat(node, self.allowed) and not self.mutations.overwritten_operands(node)

    def _add_group(self, group: list[fx.Node]) -> None:
        members = set(group)
        outside = [n for n in group if any(u not in members for u in n.users)]
        outputs = {storage_of(n.meta["val"]): n.meta["val"] for n in outside}
        if not outputs:
            raise Unsupported(f"'{group[-1].name}' is computed and read by nothing")
        reads = list(dict.fromkeys(r for n in group for a in n.all_input_nodes if a not in members for r in self.where[a]))
        first: dict[Any, fx.Node] = {}
        for n in group:
            first.setdefault(storage_of(n.meta["val"]), n)
        stored = [first[key] for key in outputs]
        op = self._add(
            Step(group, stored=stored),
            group[-1].name,
            reads,
            cost=self.costs.of_group([a for n in group for a in n.all_input_nodes if a not in members], outside),
            bytes=[self._bytes(t) for t in outputs.values()],
            phase=self._phase(group[-1]),
            recomputable=not any(key in self.kept for key in outputs),
            may_reuse=groups.reuses(group, stored, self._operands(group, reads)),
        )
        order = {key: k for k, key in enumerate(outputs)}
        for n in group:
            key = storage_of(n.meta["val"])
            if n is not first[key]:  # a view of a result of the group, which can be recreated from that result
                self.joint.views.add(n)
            self.where[n] = [(op, order[key])] if key in order else []
            if key in order:
                self.by_storage.setdefault(key, (op, order[key]))

    def _operands(self, nodes: list[fx.Node], reads: list[Read]) -> list[fx.Node | None]:
        """Returns the node that each read stands for; None if several of the nodes' operands share its storage."""
        found: dict[Read, list[fx.Node]] = {}
        for a in dict.fromkeys(a for n in nodes for a in n.all_input_nodes if a not in nodes):
            for r in self.where[a]:
                found.setdefault(self.joint.storage(r), []).append(a)
        readers = [found.get(self.joint.storage(r), []) for r in reads]
        return [a[0] if len(a) == 1 else None for a in readers]

    def _path(self, node: fx.Node, result: fx.Node) -> list[fx.Node]:
        path = []
        while result is not node:
            path.append(result)
            result = result.args[0]  # type: ignore[assignment]
        return path[::-1]

    def _aliased(self, node: fx.Node) -> Read | None:
        if rules.waits(node):
            return self.where[node.all_input_nodes[0]][0]
        return self.by_storage.get(storage_of(node.meta.get("val")))

    def _reads(self, node: fx.Node) -> list[Read]:
        return list(dict.fromkeys(r for a in node.all_input_nodes for r in self.where[a]))

    def _phase(self, node: fx.Node) -> str:
        return "backward" if node in self.after else "forward"

    def _add_view(self, result: fx.Node, nodes: list[fx.Node], producer: fx.Node, after: Read | None = None) -> None:
        """Adds a result that shares the storage of one of its producer's operands. after: an empty output of the op that makes the other results of
        the producer, and that gives this one too: nothing runs for it, so it reads no other operands and does not keep them live."""
        base = self._aliased(result)
        assert base is not None
        reads = [base, after] if after else self._reads(producer)
        of = next((k for k, r in enumerate(reads) if self.joint.storage(r) == self.joint.storage(base)), None)
        if of is None:
            reads.append(base)
            of = len(reads) - 1
        again = after is None and rules.may_repeat(producer, self.allowed)
        op = self._add(Step(nodes), result.name, reads, phase=self._phase(result), view_of=of, recomputable=again)
        self.where[result] = [(op, 0)]
        if rules.waits(result):
            self.by_storage.setdefault(storage_of(result.meta.get("val")), (op, 0))
            # The next communication reads this op's output. If it read the view, the view's storage would be live until then.
            collective = self._collective(result)
            held = [base, *self._reads(collective)]
            late = [r for r in self.dropped_late if r not in held]
            reads = [(op, 0), *dict.fromkeys(held), *late]
            over = self._add(Step([]), f"{result.name} is over", reads, phase=self._phase(result), recomputable=False)
            self._keep_order("communication", over, (over, 0), result)
            self.joint.late_reads[over] = late
            self.dropped_late = list(dict.fromkeys(held)) if hooks.drops_late(collective) else []
        self.joint.views.update(nodes)

    def _collective(self, wait: fx.Node) -> fx.Node:
        """Returns the collective for which a node waits. Its operands must be live until the wait, which cannot keep them live itself: it is a
        view, and a plan makes a view again for each reader."""
        node = wait.all_input_nodes[0]
        while node.target is operator.getitem:
            node = node.all_input_nodes[0]
        return node

    def _add_computation(self, node: fx.Node, nodes: list[fx.Node], fresh: list[fx.Node], *, has_aliases: bool) -> int:
        """Adds an op that makes the storages of `fresh`, and returns it. has_aliases: others of its results share storages of its operands."""
        values = [n.meta.get("val") for n in fresh]
        makes = not rules.changes_input(node)
        sizes = [self._made_bytes(node, n) if makes and isinstance(n.meta.get("val"), torch.Tensor) else 0 for n in fresh]
        if len(fresh) == 1 and fresh[0] is node and isinstance(values[0], (tuple, list)):  # an op takes the whole tuple
            sizes = [self._bytes(t) for t in tensors_in(values[0])]
        reads = self._reads(node)
        touched = self.mutations.overwritten_operands(node)
        kinds = [k for k, does in (("draw", rules.draws(node)), ("communication", rules.communicates(node))) if does]
        if not fresh or rules.is_impure(node) and not kinds:
            kinds.append("act")
        reads += [self.last[k] for k in kinds if k in self.last]
        if rules.changes_input(node):
            reads += self.mutations.readers[storage_of(node.args[0].meta.get("val"))]  # type: ignore[union-attr]
        averages = rules.is_batch_norm_in_training(node)
        again = rules.may_repeat(node, self.allowed) and (not touched or averages) and not rules.changes_input(node)
        again = again and not node.meta.get(ONTO)  # its operand is gone
        again = again and all(isinstance(v, torch.Tensor) for v in values)  # an int is saved, not recomputed
        again = again and not any(storage_of(v) in self.kept for v in values)
        reads = list(dict.fromkeys(reads))
        stored = [node] if self.fuses and self._fuses(node) and fresh == [node] else []
        onto = self._onto(node, reads, sizes)
        op = self._add(
            Step(nodes, rules.draws(node), stored),
            node.name,
            reads,
            cost=self.costs.of(node),
            bytes=(sizes or [0]) + ([0] if kinds or touched or has_aliases else []),
            phase=self._phase(node),
            recomputable=again,
            workspace=self.costs.workspace(node) + self._unread(node),
            may_reuse=groups.reuses([node], stored, self._operands([node], reads)) if stored else [(0, k) for k in onto],
        )
        for k in onto:
            self.joint.onto[op] = self.joint.storage(reads[k])
        self._note(node, op, fresh, kinds, touched, again)
        return op

    def _unread(self, node: fx.Node) -> int:
        """Returns the bytes that are live only while the op runs: results that no node takes out of its tuple, and, for a draw that may be
        replayed, the generator's state, which is restored afterwards."""
        results = node.meta.get("val")
        unread = 0
        if isinstance(results, (tuple, list)):
            taken = {u.args[1] for u in node.users if u.target is operator.getitem}
            if len(taken) == len(node.users):
                unread = sum(self._bytes(t) for k, r in enumerate(results) if k not in taken for t in tensors_in(r))
        if rules.draws(node) and rules.may_repeat(node, self.allowed):
            unread += self._state_bytes(node)
        return unread

    def _aligned(self, size: int) -> int:
        return -(-size // self.problem.alignment) * self.problem.alignment

    def _reserve(self, size: int) -> None:
        self.joint.reserved_bytes += self._aligned(size)

    def _state_bytes(self, node: fx.Node) -> int:
        return self._aligned(hooks.state_like(next(tensors_in(node.meta["val"]))).numel())

    def _onto(self, node: fx.Node, reads: list[Read], sizes: list[int]) -> list[int]:
        """Returns the read whose bytes the result may take over, for an op that may write into its first operand; else nothing."""
        if self.fuses or not node.meta.get(ONTO) or storage_of(node.args[0].meta["val"]) in self.kept:  # type: ignore[union-attr]
            return []
        operand = self.joint.storage(self.where[node.args[0]][0])  # type: ignore[index]
        if [self.problem[operand[0]].bytes[operand[1]]] != sizes:
            return []
        found = [k for k, r in enumerate(reads) if self.joint.storage(r) == operand]
        return found if len(found) == 1 else []

    def _note(self, node: fx.Node, op: int, fresh: list[fx.Node], kinds: list[str], touched: list[Any], again: bool) -> None:
        """Records an added op for the ops that are added later, and reserves the bytes of its states and averages."""
        token = (op, len(self.problem[op].bytes) - 1)
        for k, n in enumerate(fresh):
            self.where[n] = [(op, k)]
            if isinstance(n.meta.get("val"), torch.Tensor) and not rules.changes_input(node):
                self.by_storage.setdefault(storage_of(n.meta["val"]), (op, k))
        for kind in kinds:
            self._keep_order(kind, op, token, node)
        for key in touched:
            self.mutations.readers[key].append(token)
        if rules.changes_input(node):
            self.mutations.readers[storage_of(node.args[0].meta.get("val"))].append(token)  # a copy in the backward comes later
            self.copies.append((op, 0))
            if rules.gives_memory(node):  # it is the input's from then on
                self.copies += self.where[node.args[1]]  # type: ignore[index]
            if node not in self.after:
                self.forward_outputs.add(op)
        if rules.draws(node) and again:
            self._reserve(self._state_bytes(node))
        if rules.is_batch_norm_in_training(node) and again:  # a repeated run makes no averages, so those of the first run stay live
            for t in tensors_in(node.meta["val"][3:]):
                self._reserve(self._bytes(t))

    def _keep_order(self, kind: str, op: int, token: Read, node: fx.Node) -> None:
        self.last[kind] = token
        if node not in self.after:
            self.forward_outputs.add(op)
