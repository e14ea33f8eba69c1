"""The graphs that PyTorch's tracer captures, and what PyTorch knows about them."""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._dynamo.symbolic_convert import TensorifyState
from torch._guards import CompileContext, TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode


@dataclass(frozen=True)
class _Settings:
    """What the program has set for this thread and what tracing depends on: the casts of autocast are ops of the joint graph."""

    autocast: dict[str, tuple[bool, torch.dtype]]
    """By kind of device, whether autocast is on, and its type."""
    dtype: torch.dtype

    @classmethod
    def current(cls) -> _Settings:
        accelerator = torch.accelerator.current_accelerator()
        kinds = {"cpu"} | ({accelerator.type} if accelerator is not None else set())
        autocast = {kind: (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in sorted(kinds)}
        return cls(autocast, torch.get_default_dtype())

    def take(self) -> None:
        for kind, (is_on, dtype) in self.autocast.items():
            torch.set_autocast_enabled(kind, is_on)
            torch.set_autocast_dtype(kind, dtype)
        torch.set_default_dtype(self.dtype)

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Has the block see these settings in place of the program's, and none of its inference mode and function modes, as while Dynamo compiles."""
        before = _Settings.current()
        modes = [torch._C._pop_torch_function_stack() for _ in range(torch._C._len_torch_function_stack())]
        try:
            with torch.inference_mode(False), torch.enable_grad():
                self.take()
                yield
        finally:
            before.take()
            for mode in reversed(modes):
                torch._C._push_on_torch_function_stack(mode)


class Region:
    """A graph that PyTorch has captured, with its tracing context, so that it can be compiled again after PyTorch's own compilation ends."""

    def __init__(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> None:
        self.gm = gm
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        # Fake tensors are kept in place of the real inputs, which would otherwise stay live.
        self._inputs = [_as_given(n.meta.get("example_value", i), i) for n, i in zip(placeholders, inputs, strict=True)]
        self._context = TracingContext.try_get()
        self._settings = _Settings.current()
        # Numbers of the program that Dynamo has made constants of. The tracer would ask Dynamo for them again.
        self._fixed_floats = set(TensorifyState.force_specializations)

    @property
    def inputs(self) -> list[Any]:
        mode = None if self._context is None else self._context.fake_mode
        return self._inputs if mode is None else [_with_its_number(i, mode) for i in self._inputs]

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Compiles the graph in the block as PyTorch did the first time. What is compiled has a tracing context of its own, which PyTorch notes the
        forward's metadata in and keeps for the backward that it compiles later. The first context belongs to all buckets of a model under
        DistributedDataParallel: PyTorch finds the metadata of a bucket's backward in it by counting the backwards that it has compiled, and each bucket
        is counted once."""
        context = copy.copy(self._context)
        if context is not None:
            context.ddp_optimizer_ctx = None
        before, TensorifyState.force_specializations = TensorifyState.force_specializations, set(self._fixed_floats)
        try:
            with self._settings.taken(), tracing(context):
                yield
        finally:
            TensorifyState.force_specializations = before


def _as_given(value: Any, given: Any) -> Any:
    """Returns a traced input that needs a gradient if the given one does. Dynamo replaces one that the program writes by `.data =` by one that needs none."""
    if not isinstance(given, torch.Tensor) or value.requires_grad == given.requires_grad:
        return value
    return value.detach().requires_grad_(given.requires_grad)


def _with_its_number(value: Any, mode: FakeTensorMode) -> Any:
    """Returns an input for tracing in this mode. A number of the program comes as a tensor that holds the number's symbol, which the tracer's own copies
    into another mode lose."""
    if not isinstance(value, FakeTensor) or value.fake_mode is mode or not isinstance(value.item_memo, torch.SymFloat):
        return value
    copy = mode.from_tensor(value)
    copy.item_memo = value.item_memo
    return copy


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
    sizes = {k: i for k, i in enumerate(inputs) if isinstance(i, torch.SymInt) and i.node.has_hint() and not i.node.is_nested_int()}
    return {k: (str(i), int(i.node.hint)) for k, i in sizes.items()}


def takes_gradients(gm: fx.GraphModule) -> bool:
    """Returns True if a traced function takes gradients itself, by torch.func."""
    return any(getattr(n.target, "__name__", "") == "_grad_increment_nesting" for m in gm.modules() if isinstance(m, fx.GraphModule) for n in m.graph.nodes)


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
