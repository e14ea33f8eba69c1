"""The storages that a joint graph writes into."""

from __future__ import annotations

from typing import Any

from torch import fx

from ..errors import Unsupported
from . import rules
from .lives import Read
from .preparation import storage_of
from .sizes import tensors_in


class Mutations:
    """The copies of a graph into storages that other ops read. These ops must run before the copy, and are not recomputed from what it overwrites."""

    def __init__(self, graph: fx.Graph, after: set[fx.Node]) -> None:
        """after: the nodes that cannot run before the backward begins. Raises Unsupported."""
        self._after = after
        self._copies: dict[Any, fx.Node] = {}  # by the storage that is written into
        for node in graph.nodes:
            if node.op != "call_function":
                continue
            if rules.is_copy_into(node):
                key = storage_of(node.args[0].meta.get("val"))
                if key in self._copies:
                    raise Unsupported(f"'{node.args[0]}' is written into twice in one step, which is not supported")
                self._copies[key] = node
            elif rules.mutates(node):
                raise Unsupported(f"'{rules.name_of(node)}' writes into its operand, which is supported of copy_ alone")
        self.readers: dict[Any, list[Read]] = {key: [] for key in self._copies}
        """By the storage that is written into, the reads that make the copy wait for an op that reads the old contents. The extraction fills it."""

    def overwritten_operands(self, node: fx.Node) -> list[Any]:
        """Returns the storages that this op reads and that are written into later. Raises Unsupported."""
        keys = [storage_of(t) for a in node.all_input_nodes for t in tensors_in(a.meta.get("val"))]
        found = [k for k in dict.fromkeys(keys) if k in self._copies and self._copies[k] is not node]
        if node in self._after and any(self._copies[k] not in self._after for k in found):
            raise Unsupported(f"'{node.name}' reads in the backward what the forward has written into")
        return found
