"""Problems as text: the joint-graph format, in which every op reads all outputs of another."""

from __future__ import annotations

import json
from typing import Any

from . import _library
from .errors import Unsupported
from .problem import PHASES, Op, Problem

_ALTERNATIVE = ("of", "kind")


def to_json(problem: Problem) -> str:
    return _Writer(problem).run()


def from_json(text: str | bytes) -> Problem:
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    if not isinstance(text, bytes):
        raise TypeError(f"a problem's text is a string or bytes, got {type(text).__name__}")
    _library.make("problem", "problem_from_json", text, len(text))  # says what is wrong with it
    return _read(json.loads(text))


class _Writer:
    """Makes nodes of ops, and one more for an output that is read alone where there are several."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._nodes: list[dict[str, Any]] = []
        self._node_of: list[int] = []  # by op
        self._view_of_output: dict[tuple[int, int], int] = {}

    def run(self) -> str:
        problem = self._problem
        for op in problem:
            self._add(op)
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
            "persistent_bytes": sum(op.bytes[0] for op in problem if op.pinned),
        }
        return json.dumps({**content, "nodes": self._nodes}, ensure_ascii=False)

    def _add(self, op: Op) -> None:
        reused = {read for _, read in op.may_reuse}
        inputs: list[int] = []
        position: dict[int, int] = {}  # of a read, where it is among the inputs
        base = None
        index = None
        i = 0
        while i < len(op.reads):
            made, output = op.reads[i]
            width = self._width(made)
            if op.view_of == i and width > 1:
                base = node = self._node_of[made]
                index = output
            elif self._reads_all(op, i, width) and not (reused | {op.view_of}) & set(range(i, i + width)):
                node = self._node_of[made]
                i += width - 1
            else:
                node = self._single(made, output)
                if op.view_of == i:
                    base = node
            position[i] = len(inputs)
            inputs.append(node)
            i += 1
        node = {"op": "input" if op.pinned else "op", "name": op.name, "phase": op.phase, "inputs": inputs, "bytes": sum(op.bytes),
                "view": base is not None, "cost": op.cost, "recomputable": op.recomputable}  # fmt: skip
        if len(op.bytes) > 1:
            node["out_bytes"] = list(op.bytes)
        if base is not None:
            node["view_of"] = base
        if index is not None:
            node["index"] = index
        if op.pinned:
            node["persistent"] = True
        if op.workspace:
            node["workspace"] = op.workspace
        if op.may_reuse:
            node["may_reuse"] = [[output, position[read]] for output, read in op.may_reuse]
        self._node_of.append(self._append(node))

    def _append(self, node: dict[str, Any]) -> int:
        self._nodes.append({"id": len(self._nodes), **node})
        return len(self._nodes) - 1

    def _width(self, op: int) -> int:
        return len(self._problem[op].bytes)

    @staticmethod
    def _reads_all(op: Op, begin: int, width: int) -> bool:
        made = op.reads[begin][0]
        return op.reads[begin : begin + width] == tuple((made, output) for output in range(width))

    # The node to read for one output.
    def _single(self, op: int, output: int) -> int:
        if self._width(op) == 1:
            return self._node_of[op]
        if (op, output) not in self._view_of_output:
            made = self._problem[op]
            self._view_of_output[op, output] = self._append(
                {"op": "getitem", "name": f"{made.name}.{output}", "phase": made.phase, "inputs": [self._node_of[op]], "bytes": 0,
                 "view": True, "index": output, "cost": 0.0, "recomputable": True}  # fmt: skip
            )
        return self._view_of_output[op, output]

    # Ids for reads of the problem itself.
    def _whole(self, reads: tuple[tuple[int, int], ...]) -> list[int]:
        wanted = set(reads)
        ids: dict[int, None] = {}
        for op, output in reads:
            whole = all((op, k) in wanted for k in range(self._width(op)))
            ids[self._node_of[op] if whole else self._single(op, output)] = None
        return list(ids)


def _sizes(node: dict[str, Any], is_view: bool) -> list[int]:
    sizes = [0] if is_view else node.get("out_bytes") or [node.get("bytes", 0)]
    return [sum(sizes)] if node.get("persistent") else sizes


def _read(graph: dict[str, Any]) -> Problem:
    """Of what the library has found to be right."""
    problem = Problem(graph["name"], order=graph.get("order", "free"), alignment=graph.get("alignment", 1))
    nodes = graph["nodes"]
    for node in nodes:
        if any(key in node for key in _ALTERNATIVE):
            raise Unsupported(f"node {node['id']} is optional ({' or '.join(_ALTERNATIVE)}), which problems in Python cannot have yet")

    def whole(number: int) -> list[tuple[int, int]]:
        return [(number, output) for output in range(len(problem[number].bytes))]

    for node in nodes:
        is_view = node.get("view", False)
        base = node.get("view_of", node["inputs"][0] if node["inputs"] else None) if is_view else None
        reads: list[tuple[int, int]] = []
        first: list[int] = []  # by input, where its reads begin
        view_of = None
        for number in node["inputs"]:
            first.append(len(reads))
            if number == base:
                view_of = len(reads)
            if number == base and "index" in node and not problem[number].pinned:
                reads.append((number, node["index"]))
            else:
                reads += whole(number)
        phase = node.get("phase")
        problem.add(
            node["name"] if isinstance(node.get("name"), str) else f"node {node['id']}",
            reads,
            node["cost"],
            _sizes(node, is_view),
            phase=phase if phase in PHASES else "forward",
            pinned=node.get("persistent", False),
            recomputable=node.get("recomputable", True),
            workspace=node.get("workspace", 0),
            view_of=view_of,
            may_reuse=[(output, first[at]) for output, at in node.get("may_reuse", []) if len(whole(node["inputs"][at])) == 1],
        )
    problem.outputs = [read for number in graph["outputs"] for read in whole(number)]
    problem.forward_outputs = graph.get("forward_outputs", [])
    return problem
