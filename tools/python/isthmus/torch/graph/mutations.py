"""The storages that a joint graph writes into."""

from __future__ import annotations

from typing import Any

from torch import fx

from ...errors import Unsupported
from .joint import Read
from . import rules
from .places import line_of
from .sizes import storage_of, tensors_in


def _at(node: fx.Node) -> str:
    """Returns where the program says so. PyTorch gives the writes that it moves to a graph's end no place of their own, so it may be that of the source."""
    places = (line_of(n) for n in (node, *node.all_input_nodes[1:]))
    return next((f" ({place})" for place in places if place), "")


class Mutations:
    """The copies of a graph into storages that other ops read. These ops must run before the copy, and are not recomputed from what it overwrites.
    An input that is given another tensor's memory counts as copied into."""

    def __init__(self, graph: fx.Graph, after: set[fx.Node]) -> None:
        """after: the nodes that cannot run before the backward begins. Raises Unsupported."""
        self._after = after
        self._copies: dict[Any, list[fx.Node]] = {}  # by the storage that is written into: at most one of each pass
        for node in graph.nodes:
            if node.op != "call_function":
                continue
            if rules.changes_input(node):
                key = storage_of(node.args[0].meta.get("val"))
                if any((other in after) == (node in after) for other in self._copies.get(key, ())):
                    when = "backward" if node in after else "forward"
                    raise Unsupported(f"'{node.args[0]}' is written into twice in the {when}{_at(node)}, which is not supported")
                self._copies.setdefault(key, []).append(node)
            elif rules.mutates(node):
                raise Unsupported(
                    f"'{rules.name_of(node)}' writes into its operand{_at(node)}, which is supported of `copy_`, `.data =` and `set_` alone: "
                    f"write by `copy_`, or keep it out of what is compiled, with torch.compiler.disable for one"
                )
        self.readers: dict[Any, list[Read]] = {key: [] for key in self._copies}
        """By the storage that is written into, the reads that make the copy wait for an op that reads the old contents. The extraction fills it."""

    def overwritten_operands(self, node: fx.Node) -> list[Any]:
        """Returns the storages whose contents this op reads and that are written into later. Raises Unsupported."""
        keys = [storage_of(t) for a in rules.read_by(node) for t in tensors_in(a.meta.get("val"))]
        found = [k for k in dict.fromkeys(keys) if any(copy is not node for copy in self._copies.get(k, ()))]
        if node in self._after and any(copy not in self._after for k in found for copy in self._copies[k]):
            raise Unsupported(f"'{node.name}' reads in the backward what the forward has written into")
        return found
