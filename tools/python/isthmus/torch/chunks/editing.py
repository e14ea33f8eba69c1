"""Changes nodes of a joint graph in place."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from .. import hooks
from ..graph import rules
from ..graph.sizes import storage_of


class Before:
    """Adds nodes before a node."""

    def __init__(self, graph: fx.Graph, node: fx.Node) -> None:
        self.graph, self.node, self.meta = graph, node, node.meta

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        with self.graph.inserting_before(self.node):
            made = self.graph.call_function(target, args, kwargs)
        made.meta = {key: value for key, value in self.meta.items() if key != "val"}
        made.meta["val"] = hooks.traced(made)
        return made


def replace(node: fx.Node, by: fx.Node) -> None:
    """Makes the readers of a node read another one, which has another storage."""
    readers = list(node.users)
    node.replace_all_uses_with(by)
    _retrace(readers, storage_of(node.meta["val"]))


def _retrace(readers: list[fx.Node], before: Any) -> None:
    """Traces the views anew among these readers of a tensor that had the storage `before`."""
    for reader in readers:
        value = reader.meta.get("val")
        if isinstance(value, torch.Tensor) and storage_of(value) == before and reader.op == "call_function" and not rules.changes_input(reader):
            reader.meta["val"] = hooks.traced(reader)
            _retrace(list(reader.users), before)
