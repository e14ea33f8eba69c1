"""Traces a training step without running any of it."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch import fx
from torch._dynamo.exc import Unsupported as Untraceable
from torch._subclasses.fake_tensor import FakeTensorMode

from ...errors import BadInput
from .compilers import aot_eager


def fake_mode() -> FakeTensorMode:
    """Returns a mode in which tensors have shapes and no memory."""
    return FakeTensorMode(allow_non_fake_inputs=True)


class _Done(BaseException):
    """Ends PyTorch's compilation, of which only the graph is wanted."""


@dataclass(frozen=True)
class Traced:
    """The joint graph of a training step."""

    gm: fx.GraphModule
    num_fwd_outputs: int
    sizes: tuple[tuple[torch.Tensor, int, Any], ...]
    """The inputs and axes of the step, with the sizes that they have in the graph: numbers or symbols."""

    def symbols(self) -> Iterator[tuple[torch.Tensor, int, str | None]]:
        """Yields the inputs and axes with the names of their symbols; None: the graph is one for this number alone."""
        for t, axis, size in self.sizes:
            is_symbol = isinstance(size, torch.SymInt) and size.node.expr.is_Symbol
            yield t, axis, str(size.node.expr) if is_symbol else None

    def holds_for(self, sizes: Mapping[str, int]) -> bool:
        """Returns True if the step has this graph for these sizes too, by the names of their symbols: no branch of it goes another way."""
        env = next((size.node.shape_env for _, _, size in self.sizes if isinstance(size, torch.SymInt)), None)
        return env is None or all(_holds(guard.expr, sizes) for guard in env.guards)


def _holds(expr: sympy.Basic, sizes: Mapping[str, int]) -> bool:
    return expr.xreplace({s: sympy.Integer(sizes[s.name]) for s in expr.free_symbols if s.name in sizes}) != sympy.false


def _messages() -> set[Any]:
    """Returns the functions that only tell the user something. PyTorch's tracer would end the graph at them."""
    of_loggers = {f for name, f in vars(logging.Logger).items() if callable(f) and name.split("_")[0] in _LEVELS}  # packages add some of their own
    return {*of_loggers, print, warnings.warn}


_LEVELS = ("debug", "info", "warning", "error", "critical", "exception", "log")


def _reason(message: str) -> str:
    """Returns what PyTorch met, of all that it says of code that it cannot trace, and the innermost line of the code."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    context = "Developer debug context:"
    what = [line.removeprefix(context).strip() for line in lines if line.startswith(context)] or lines[1:2]
    places = re.findall(r'File "([^"]+)", line (\d+), in (\S+)', message)
    where = " ({}:{} in {})".format(*places[-1]) if places else ""
    return "; ".join(part for part in (*lines[:1], *what) if part) + where


def joint_graph(step: Callable[[], Any]) -> Traced | None:
    """Returns the joint graph of a function that computes a loss; None if nothing needs a gradient. Raises BadInput if PyTorch cannot trace the function
    as one graph."""
    found: list[Traced] = []
    sizes: list[tuple[torch.Tensor, int, Any]] = []

    def partition(gm: fx.GraphModule, joint_inputs: Sequence[object], *, num_fwd_outputs: int, **others: Any) -> Any:
        found.append(Traced(gm, num_fwd_outputs, tuple(sizes)))
        raise _Done

    def compile(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        for node, given in zip(placeholders, inputs, strict=True):
            traced = node.meta.get("example_value")
            sizes.extend((given, axis, size) for axis, size in enumerate(traced.shape if isinstance(traced, torch.Tensor) else ()))
        return aot_eager(gm, inputs, partition)

    torch._dynamo.reset()
    try:
        with torch.enable_grad(), torch._dynamo.config.patch(ignore_logging_functions=_messages()):
            torch.compile(step, backend=compile, fullgraph=True)()
    except _Done:
        return found[0]
    except Untraceable as e:
        raise BadInput(f"a step is planned ahead as one graph, and PyTorch ends it: {_reason(str(e))}") from None
    finally:
        torch._dynamo.reset()
    return None
