"""Inputs of a graph that the program gives another tensor's memory: `p.data = t`, or `p.set_(t)`.

PyTorch leaves such an op at the end of a joint graph. The tensor's memory is then the input's, and the input's former memory is freed if nobody else holds
it. Where nobody could tell the difference, the contents are copied instead: the tensor is freed, and the step takes no memory beyond its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from .. import hooks
from . import rules
from .give import GIVE
from .sizes import storage_of, tensors_in


def storages_given(graph: fx.Graph) -> set[Any]:
    return {storage_of(n.args[1].meta.get("val")) for n in graph.nodes if rules.gives_memory(n)}


def copy(graph: fx.Graph, forward: Sequence[Any]) -> None:
    """Makes copies of the ops whose tensor nobody else sees. forward: the results of the forward."""
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    seen = Counter(storage_of(t) for n in [*inputs, *forward] if isinstance(n, fx.Node) for t in tensors_in(n.meta.get("val")))
    givers = [n for n in graph.nodes if rules.gives_memory(n)]
    seen.update(storage_of(n.args[1].meta["val"]) for n in givers)
    for node in givers:
        x, given = (a.meta["val"] for a in node.args)
        if node.target is torch.ops.aten.shallow_copy_data_.default and seen[storage_of(given)] == 1 and _is_laid_out_alike(x, given):
            node.target = GIVE


def _is_laid_out_alike(x: torch.Tensor, given: torch.Tensor) -> bool:
    """Returns True if a copy into `x` leaves its sizes and strides, which are numbers, and has a place for each element."""
    known = all(isinstance(n, int) for t in (x, given) for n in (*t.shape, *t.stride()))
    alike = known and x.shape == given.shape and x.stride() == given.stride() and x.dtype == given.dtype and x.device == given.device
    return alike and not hooks.overlaps(x.shape, x.stride())
