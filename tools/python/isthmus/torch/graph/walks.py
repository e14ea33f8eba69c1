"""Walks over the nodes of a graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import fx


def needed_for(results: Iterable[Any]) -> set[fx.Node]:
    """Returns the nodes among the results, and all nodes from which they are computed. Other results, such as None, are skipped."""
    needed: set[fx.Node] = set()
    stack = [r for r in results if isinstance(r, fx.Node)]
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack.extend(node.all_input_nodes)
    return needed
