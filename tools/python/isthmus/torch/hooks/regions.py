"""The graphs that PyTorch's tracer captures, and what PyTorch knows about them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
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


def is_tried_out(arguments: Sequence[Any]) -> bool:
    """Returns True if the arguments are fake tensors. PyTorch calls the graph of a DDP bucket so, to get the inputs of the next bucket."""
    return any(isinstance(a, FakeTensor) for a in arguments)


def compilation() -> str:
    """Returns the number of the frame that PyTorch compiles and of this compilation of it, such as "0/1"; "" outside of a compilation."""
    return str(CompileContext.current_compile_id() or "")
