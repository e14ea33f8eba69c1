"""The text form of problems: the joint-graph format, in which every op reads all outputs of another."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from . import _library
from .op import PHASES, Content, Op, width

# Kinds of ops, as the fields "kind" and "direction" of a node.
_KINDS = {
    "starts_offload": ("copy_start", "to_host"),
    "waits_offload": ("copy_wait", "to_host"),
    "starts_prefetch": ("copy_start", "to_device"),
    "waits_prefetch": ("copy_wait", "to_device"),
}


def to_json(problem: Content) -> str:
    return _Writer(problem).run()


def from_json(text: str | bytes) -> Content:
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    if not isinstance(text, bytes):
        raise TypeError(f"a problem's text is a string or bytes, got {type(text).__name__}")
    _library.make("problem", "problem_from_json", text, len(text))  # raises an error if the text is not valid
    return _Reader(json.loads(text)).run()


class _Writer:
    """Makes a node of each op, and a view for each output that is read without the op's other outputs."""

    def __init__(self, problem: Content) -> None:
        self._problem = problem
        self._wanted = set(problem.outputs)
        self._nodes: list[dict[str, Any]] = []
        self._node_of: list[int] = []  # by op: the node's id
        self._view_of_output: dict[tuple[int, int], int] = {}  # ids of views

    def run(self) -> str:
        problem = self._problem
        for number, op in enumerate(problem.ops):
            self._add(op)
            # Views that are outputs of the problem come right after their op, so that those of the forward come before the backward.
            for output in range(self._width(number)):
                if (number, output) in self._wanted and not self._is_whole(number):
                    self._single(number, output)
        content = {
            "format": "joint-graph/2",
            "name": problem.name,
            "order": problem.order,
            "alignment": problem.alignment,
            "outputs": self._whole(problem.outputs),
            "forward_outputs": [self._node_of[op] for op in problem.forward_outputs],
            "inputs": [node["id"] for node in self._nodes if node.get("persistent")],
            "params": [],
            "grads": [],
            "persistent_bytes": sum(op.bytes[0] for op in problem.ops if op.pinned),
        }
        for node in self._nodes:  # alternatives may read ops that come later
            for key in ("inputs", "view_of", "of"):
                if key in node:
                    node[key] = self._resolved(node[key])
        return json.dumps({**content, "nodes": self._nodes}, ensure_ascii=False)

    def _add(self, op: Op) -> None:
        inputs, position = self._inputs(op)
        node: dict[str, Any] = {
            "op": "input" if op.pinned else "op",
            "name": op.name,
            "phase": op.phase,
            "inputs": inputs,
            "bytes": sum(op.bytes),
            "view": op.view_of is not None,
            "cost": op.cost,
            "recomputable": op.recomputable,
        }
        if len(op.bytes) > 1:
            node["out_bytes"] = list(op.bytes)
        if op.view_of is not None:
            node["view_of"] = inputs[position[op.view_of]]
            base, output = op.reads[op.view_of]
            if self._width(base) > 1:
                node["index"] = output
        if op.pinned:
            node["persistent"] = True
        if op.workspace:
            node["workspace"] = op.workspace
        if op.may_reuse:
            node["may_reuse"] = [[output, position[read]] for output, read in op.may_reuse]
        if op.overwrites:
            node["overwrites"] = [position[read] for read in op.overwrites]
        if op.of is not None:
            node["of"] = _Node(op.of) if isinstance(op.of, int) else [_Node(op.of[0]), op.of[1]]
        if op.kind in _KINDS:
            node["kind"], node["direction"] = _KINDS[op.kind]
        if op.kind.startswith("starts_"):
            node["bus_us"] = op.transfer_time
        self._node_of.append(self._append(node))

    # The inputs of a node, and for each read its index in them, except for reads that were merged into one input.
    def _inputs(self, op: Op) -> tuple[list[_Node | int], dict[int, int]]:
        alone = {read for _, read in op.may_reuse} | set(op.overwrites)
        inputs: list[_Node | int] = []
        position: dict[int, int] = {}
        read = 0
        while read < len(op.reads):
            made, output = op.reads[read]
            many = self._width(made)
            position[read] = len(inputs)
            if read == op.view_of or (read == 0 and op.kind == "waits_prefetch"):  # the reader says which output it uses
                inputs.append(_Node(made))
            elif _reads_all(op, read, many) and not (alone | {op.view_of}) & set(range(read, read + many)):
                inputs.append(_Node(made))
                read += many - 1
            else:
                inputs.append(self._single(made, output))
            read += 1
        return inputs, position

    def _width(self, op: int) -> int:
        return width(self._problem.ops, op)

    def _append(self, node: dict[str, Any]) -> int:
        self._nodes.append({"id": len(self._nodes), **node})
        return len(self._nodes) - 1

    # The node to read for one output.
    def _single(self, op: int, output: int) -> _Node | int:
        if self._width(op) == 1:
            return _Node(op)
        if (op, output) not in self._view_of_output:
            made = self._problem.ops[op]
            self._view_of_output[op, output] = self._append(
                {
                    "op": "getitem",
                    "name": f"{made.name}.{output}",
                    "phase": made.phase,
                    "inputs": [_Node(op)],
                    "bytes": 0,
                    "view": True,
                    "index": output,
                    "cost": 0.0,
                    "recomputable": True,
                }
            )
        return self._view_of_output[op, output]

    # The ids of the nodes that stand for reads by the problem itself.
    def _whole(self, reads: tuple[tuple[int, int], ...]) -> list[int]:
        ids = (self._resolved(_Node(op) if self._is_whole(op) else self._single(op, output)) for op, output in reads)
        return list(dict.fromkeys(ids))

    # Whether all outputs of the op are outputs of the problem.
    def _is_whole(self, op: int) -> bool:
        return all((op, k) in self._wanted for k in range(self._width(op)))

    def _resolved(self, reference: Any) -> Any:
        if isinstance(reference, list):
            return [self._resolved(each) for each in reference]
        return self._node_of[reference.op] if isinstance(reference, _Node) else reference


class _Node(NamedTuple):
    """Refers to the node of an op; the node's id may not be known yet."""

    op: int


def _reads_all(op: Op, begin: int, width: int) -> bool:
    made = op.reads[begin][0]
    return op.reads[begin : begin + width] == tuple((made, output) for output in range(width))


class _Reader:
    """Makes ops of nodes that the library has checked."""

    def __init__(self, graph: dict[str, Any]) -> None:
        self._graph = graph
        self._nodes = graph["nodes"]

    def run(self) -> Content:
        graph = self._graph
        return Content(
            graph["name"],
            graph.get("order", "free"),
            graph.get("alignment", 1),
            [self._op(node) for node in self._nodes],
            [read for number in graph["outputs"] for read in self._whole(number)],
            graph.get("forward_outputs", []),
        )

    def _op(self, node: dict[str, Any]) -> Op:
        kind = self._kind(node)
        is_view = node.get("view", False)
        base = node.get("view_of", node["inputs"][0] if node["inputs"] else None) if is_view else None
        reads: list[tuple[int, int]] = []
        first: list[int] = []  # by input: the index of its first read
        view_of = None
        for position, number in enumerate(node["inputs"]):
            first.append(len(reads))
            if number == base:
                view_of = len(reads)
            if number == base and "index" in node and not self._nodes[number].get("persistent"):
                reads.append((number, node["index"]))
            elif kind == "waits_prefetch" and position == 0:  # it waits for everything that its start copies
                reads.append((number, 0))
            else:
                reads += self._whole(number)
        of = node.get("of")
        return Op(
            name=node["name"] if isinstance(node.get("name"), str) else f"node {node['id']}",
            reads=tuple(reads),
            cost=float(node["cost"]),
            bytes=self._bytes(node),
            phase=node["phase"] if node.get("phase") in PHASES else "forward",
            pinned=node.get("persistent", False),
            recomputable=node.get("recomputable", True),
            workspace=node.get("workspace", 0),
            view_of=view_of,
            may_reuse=tuple((output, first[at]) for output, at in node.get("may_reuse", []) if self._width(node["inputs"][at]) == 1),
            kind=kind,
            of=tuple(of) if isinstance(of, list) else of,
            transfer_time=float(node.get("bus_us", 0)) if kind.startswith("starts_") else 0.0,
            overwrites=tuple(first[at] for at in node.get("overwrites", [])),
        )

    def _whole(self, number: int) -> list[tuple[int, int]]:
        return [(number, output) for output in range(self._width(number))]

    def _width(self, number: int) -> int:
        node = self._nodes[number]
        return len(self._bytes(self._nodes[node["inputs"][0]] if self._kind(node) == "waits_prefetch" else node))

    @staticmethod
    def _bytes(node: dict[str, Any]) -> tuple[int, ...]:
        sizes = [0] if node.get("view") else node.get("out_bytes") or [node.get("bytes", 0)]
        return (sum(sizes),) if node.get("persistent") else tuple(sizes)

    @staticmethod
    def _kind(node: dict[str, Any]) -> str:
        if node.get("kind") == "copy_wait":
            return "waits_prefetch" if "of" in node else "waits_offload"
        if node.get("kind") == "copy_start":
            return "starts_offload" if node["direction"] == "to_host" else "starts_prefetch"
        return "computes"
