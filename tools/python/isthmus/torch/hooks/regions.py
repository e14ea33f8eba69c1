"""The graphs that PyTorch's tracer captures."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._guards import CompileContext, TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor


class Region:
    """A graph that PyTorch has captured, which may be compiled again once that is over: what PyTorch knows of it meanwhile is kept."""

    def __init__(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> None:
        self.gm = gm
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        # The tensors of the tracing: real ones would be kept alive.
        self.inputs = [n.meta.get("example_value", i) for n, i in zip(placeholders, inputs, strict=True)]
        self._context = TracingContext.try_get()

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        with torch.enable_grad(), tracing(self._context):
            yield


def break_after(gm: fx.GraphModule) -> str:
    """Where and why what PyTorch has captured ends before its function does; "" where it does not."""
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
    """Of each input that is a symbolic size, by its position: what it is called, and the size of the call for which is compiled."""
    return {k: (str(i), int(i.node.hint)) for k, i in enumerate(inputs) if isinstance(i, torch.SymInt) and i.node.has_hint()}


def buckets_follow() -> bool:
    """What is compiled now is one of the parts into which PyTorch cuts a model under DistributedDataParallel."""
    from torch.nn.parallel import DistributedDataParallel

    active = DistributedDataParallel._get_active_ddp_module() if torch.distributed.is_available() else None
    return active is not None and bool(torch._dynamo.config.optimize_ddp)


def is_tried_out(arguments: Sequence[Any]) -> bool:
    """A compiled graph is called with tensors that hold nothing: PyTorch does so between DDP's buckets, and keeps what comes out."""
    return any(isinstance(a, FakeTensor) for a in arguments)


def compilation() -> str:
    """Which frame PyTorch compiles, and for which time: "0/1"; "" outside of a compilation."""
    return str(CompileContext.current_compile_id() or "")
