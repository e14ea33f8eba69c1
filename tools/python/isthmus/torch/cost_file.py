"""Measures costs on this device and writes them to a file, with which plans can be made later."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from ..errors import BadInput
from . import hooks
from .explanation import traced
from .graph import measuring
from .graph.layout import convolutions_with_channels_last
from .graph.preparation import prepare


def measure(model: Callable[..., Any], *inputs: Any, path: str | os.PathLike[str], runs: int = 5) -> int:
    """Times every op of model(*inputs) and of its backward, writes the costs to `path`, and returns the number of distinct ops.

    Each op runs alone a few times, on made-up operands of its shapes, and the shortest time counts. Convolutions of pictures are timed in
    the model's layout and with the channels last. Pass the file as the option "costs"; all ranks of one training must get the same file.
    Everything that PyTorch has compiled before this call is compiled again. Raises BadInput if nothing can be measured or written.
    """
    if not callable(model):
        raise BadInput(f"measure takes a model or a function and its inputs, got {type(model).__name__}")
    if runs < 1:
        raise BadInput(f"each op is timed at least once, got runs={runs}")
    nodes: list[fx.Node] = []

    def collect(gm: fx.GraphModule, joint_inputs: Sequence[object], *, num_fwd_outputs: int, **others: Any) -> Any:
        """Collects the ops of a graph, with convolutions in each layout that they may get, and splits the graph as PyTorch does."""
        gm = prepare(gm, num_fwd_outputs, fuses=False)
        nodes.extend([*gm.graph.nodes, *convolutions_with_channels_last(gm.graph)])
        return hooks.min_cut(gm, joint_inputs, num_fwd_outputs=num_fwd_outputs)

    traced(model, inputs, lambda ends: collect)
    found = measuring.measure(nodes, runs=runs)
    if not found:
        raise BadInput("nothing was measured: no graph with a backward was compiled")
    times = {key: round(m.us or 0, 3) for key, m in sorted(found.items())}
    _write(Path(path), {"device": _device(), "torch": torch.__version__, "ops": times})
    return len(found)


def _device() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"


def _write(path: Path, content: dict[str, Any]) -> None:
    """Writes the whole file or, on an error, nothing. Raises BadInput."""
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=path.name, delete=False) as file:
            json.dump(content, file, indent=1)
        os.replace(file.name, path)
    except OSError as e:
        raise BadInput(f"cannot write {str(path)!r}: {e.strerror}") from None
