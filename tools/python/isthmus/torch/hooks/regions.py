"""The graphs that PyTorch's tracer captures, and what PyTorch knows about them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._guards import CompileContext, TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor


class Region:
    """A graph that PyTorch has captured, with its tracing context, so that it can be compiled again after PyTorch's own compilation ends."""

    def __init__(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> None:
        self.gm = gm
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        # Fake tensors are kept in place of the real inputs, which would otherwise stay live.
        self.inputs = [n.meta.get("example_value", i) for n, i in zip(placeholders, inputs, strict=True)]
        self._context = TracingContext.try_get()

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        with torch.enable_grad(), tracing(self._context):
            yield


def break_after(gm: fx.GraphModule) -> str:
    """Returns where and why the captured graph ends before its function does; "" if it reaches the function's end."""
    why = getattr(gm, "compile_subgraph_reason", None)
    if why is None or not why.graph_break:
        return ""
    lines = [line.strip() for line in str(why.reason).splitlines()] or [""]
    if lines[0].startswith("generic_jump"):
        lines = ["Data-dependent branching"]
    elif lines[0] == "step_unsupported":
        lines = ["Something that cannot be traced; TORCH_LOGS=graph_breaks shows what"]
    explanation = next((line.removeprefix("Explanation:").strip() for line in lines if line.startswith("Explanation:")), "")
    places = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in why.user_stack]
    return f"{lines[0]}{': ' + explanation if explanation else ''} ({', called at '.join(reversed(places))})"


def hints_of(inputs: Sequence[Any]) -> dict[int, tuple[str, int]]:
    """Returns, by position, the name and the hint of each input that is a symbolic size. The hint is the size in the call that is compiled."""
    return {k: (str(i), int(i.node.hint)) for k, i in enumerate(inputs) if isinstance(i, torch.SymInt) and i.node.has_hint()}


def ranges_of(
    gm: fx.GraphModule, inputs: Sequence[Any], asked: Mapping[str, Mapping[int, tuple[int, int]]]
) -> tuple[dict[str, tuple[int, int]], set[str]]:
    """Returns, by the name of its symbol, the least and the most that a symbolic size can be, where `mark_dynamic` or the user says so. Also returns the
    names asked for that inputs of the graph have. asked: by the name of an argument and its axis."""
    found: dict[str, tuple[int, int]] = {}
    known: set[str] = set()
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    for node, given in zip(placeholders, inputs, strict=True):
        value = node.meta.get("example_value")
        if not isinstance(value, torch.Tensor):
            continue
        limits = {r.dim: (r.min or 0, r.max) for r in getattr(given, "_dynamo_dynamic_range", ()) if r.max is not None}
        source = getattr(node, "_dynamo_source", None)
        name = _last_name(source.name) if source is not None else ""
        if name in asked:
            known.add(name)
            limits.update(asked[name])
        for axis, (least, most) in limits.items():
            size = value.shape[axis] if -value.dim() <= axis < value.dim() else 0
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                found[str(size)] = least, most
    return found, known


def _last_name(source: str) -> str:
    """Returns "input_ids" for "L['batch']['input_ids']" and for "L['input_ids']"."""
    names = re.findall(r"\['([^']*)'\]|\.(\w+)", source)
    return next(filter(None, names[-1])) if names else ""


def is_tried_out(arguments: Sequence[Any]) -> bool:
    """Returns True if the arguments are fake tensors. PyTorch calls the graph of a DDP bucket so, to get the inputs of the next bucket."""
    return any(isinstance(a, FakeTensor) for a in arguments)


def compilation() -> str:
    """Returns the number of the frame that PyTorch compiles and of this compilation of it, such as "0/1"; "" outside of a compilation."""
    return str(CompileContext.current_compile_id() or "")
