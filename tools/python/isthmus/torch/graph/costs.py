"""Estimates the cost of an op: the longer of its arithmetic and its memory traffic, plus a launch; or takes its measured time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx

from ... import _json_file
from ...errors import BadInput
from .. import hooks
from .bodies import body_of
from .sizes import bytes_of, elements_of, is_dense, sized, strides_of, tensors_in


@dataclass(frozen=True)
class Machine:
    """Rates of a device. They are round figures of a common device and are not measured here, because ranks must come to equal plans."""

    flops_per_us: float
    bytes_per_us: float
    launch_us: float
    link_bytes_per_us: float = 0.0
    """The rate of copies to the host's memory and back; 0: the device has no memory other than the host's."""


CPU = Machine(flops_per_us=100e3, bytes_per_us=20e3, launch_us=3)
GPU = Machine(flops_per_us=60e6, bytes_per_us=2e6, launch_us=5, link_bytes_per_us=20e3)
_HALVES = 8  # a GPU computes this many 16-bit products in the time of one 32-bit product
# CPU kernels of attention take this many times as long as a matrix product of as much arithmetic, because of exponentials and small tiles.
_ATTENTION_FACTOR = 2.5
_DRAW_NS = 5.0  # nanoseconds for each random number
# CPU kernels that do more for an element than read and write it: nanoseconds for each element of the first operand.
_ELEMENT_NS = {
    "aten::_native_batch_norm_legit": 1.3,
    "aten::_native_batch_norm_legit_functional": 1.3,
    "aten::_safe_softmax": 1.6,
    "aten::_softmax": 1.6,
    "aten::max_pool2d_with_indices": 0.8,
}
# Indexing: nanoseconds for each element that is read or written.
_FETCH_NS = {"aten::_unsafe_index": 4.0, "aten::gather": 4.0, "aten::index": 4.0}
_PUT_NS = {"aten::_unsafe_index_put": 9.0, "aten::index_put": 9.0, "aten::scatter": 9.0, "aten::scatter_add": 9.0}


def signature(node: fx.Node) -> str:
    """Returns the key of an op's time and workspace: its name, the shapes, dtypes and strides of its operands, and its other arguments."""

    def text(x: Any) -> str:
        strides = None
        if isinstance(x, fx.Node):
            strides = strides_of(x) if isinstance(x.meta.get("val"), torch.Tensor) else None
            body = body_of(x)
            if body is not None:
                return hashlib.sha256(_text_of(body).encode()).hexdigest()
            x = x.meta.get("val")
        if isinstance(x, torch.Tensor):
            strides = strides or tuple(map(sized, x.stride()))
            shape = f"{str(x.dtype).removeprefix('torch.')}[{','.join(str(sized(s)) for s in x.shape)}]"
            # The strides matter: a convolution of channels_last tensors, for example, runs other code than one of contiguous tensors.
            return shape if is_dense(x, strides) else f"{shape}:({','.join(map(str, strides))})"
        if isinstance(x, (list, tuple)):
            return f"({','.join(map(text, x))})"
        return str(sized(x)) if isinstance(x, torch.SymInt) else str(x)

    arguments = [*map(text, node.args), *(f"{k}={text(v)}" for k, v in node.kwargs.items())]
    return f"{node.target}({', '.join(arguments)})"


def _text_of(body: fx.GraphModule) -> str:
    """Returns a text that is equal for bodies that compute the same."""
    within = (child for child in body.children() if isinstance(child, fx.GraphModule))
    return "\n".join([str(body.graph), *map(_text_of, within)])


@dataclass
class Costs:
    """The costs of ops in microseconds, from the table if it has the op, otherwise estimated; and the memory that ops allocate."""

    table: dict[str, float] = field(default_factory=dict)
    workspaces: dict[str, int] = field(default_factory=dict)
    """By signature, the bytes that an op allocates only while it runs."""
    storages: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By signature, the bytes of the storages of an op's results, in their order."""
    of_code: dict[str, int] = field(default_factory=dict)
    """By the name of an op of the problem, the bytes that its kernel's code has taken above what the op was known to need."""
    ahead_on: Machine | None = None
    """The device for which a step is planned ahead, elsewhere: no op runs to be measured. None: that on which the tensors lie."""
    _signatures: dict[fx.Node, str] = field(default_factory=dict)

    @classmethod
    def load(cls, path: str | Path) -> Costs:
        try:
            file = json.loads(_json_file.read(os.fspath(path)))
            table = {str(k): float(v) for k, v in file["ops"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            raise BadInput(f"{path}: expected costs as isthmus.torch.measure writes them, found: {e}") from None
        if any(not 0 <= v < float("inf") for v in table.values()):
            raise BadInput(f"{path}: every cost is to be a number of microseconds")
        return cls(table)

    def of(self, node: fx.Node) -> float:
        measured = self.table.get(self._signature(node)) if self.table else None
        return self._estimated(node) if measured is None else measured

    def of_group(self, operands: list[fx.Node], results: list[fx.Node]) -> float:
        """Returns the cost of nodes that are one kernel: it reads the operands and writes the results, and values in between stay in registers."""
        values = [t for n in dict.fromkeys(operands + results) for t in tensors_in(n.meta.get("val"))]
        machine = self._machine(values)
        return sum(map(bytes_of, values)) / machine.bytes_per_us + machine.launch_us

    def workspace(self, node: fx.Node) -> int:
        return self.workspaces.get(self._signature(node), 0) if self.workspaces else 0

    def storage(self, node: fx.Node, result: int) -> int:
        """Returns the bytes of the storage of one result; 0 if unknown."""
        known = self.storages.get(self._signature(node), ()) if self.storages else ()
        return known[result] if result < len(known) else 0

    def _machine(self, values: Iterable[torch.Tensor]) -> Machine:
        return self.ahead_on or machine_of(values)

    def _signature(self, node: fx.Node) -> str:
        if node not in self._signatures:
            self._signatures[node] = signature(node)
        return self._signatures[node]

    def _estimated(self, node: fx.Node) -> float:
        outputs = list(tensors_in(node.meta.get("val")))
        operands = [t for a in node.all_input_nodes for t in tensors_in(a.meta.get("val"))]
        machine = self._machine(outputs + operands)
        on_gpu = machine is not CPU
        halves = _HALVES if on_gpu and any(t.dtype in (torch.float16, torch.bfloat16) for t in outputs) else 1
        traffic = sum(map(bytes_of, outputs + operands))
        arithmetic = flops_of(node) / (machine.flops_per_us * halves)
        if "attention_for_cpu" in str(node.target) and not on_gpu:
            arithmetic *= _ATTENTION_FACTOR
        work = 0.0 if on_gpu else element_us(node, outputs, operands)
        return max(arithmetic, work, traffic / machine.bytes_per_us) + machine.launch_us


def machine_of(values: Iterable[torch.Tensor]) -> Machine:
    """Returns the rates of the device on which these tensors lie."""
    return GPU if any(t.device.type != "cpu" for t in values) else CPU


def element_us(node: fx.Node, outputs: list[torch.Tensor], operands: list[torch.Tensor]) -> float:
    """Returns the time in microseconds that a CPU's kernel works on the elements; 0 if the kernel does little more than read and write them."""
    schema = getattr(node.target, "_schema", None)
    name = "" if schema is None else schema.name
    ns = _ELEMENT_NS.get(name, 0.0) * (elements_of(operands[0]) if operands else 0)
    ns += _FETCH_NS.get(name, 0.0) * sum(map(elements_of, outputs))
    ns += _PUT_NS.get(name, 0.0) * (elements_of(operands[-1]) if operands else 0)
    if hooks.is_rng_op(node):
        ns += _DRAW_NS * max(map(elements_of, outputs), default=0)
    return ns / 1e3


def flops_of(node: fx.Node) -> int:
    packet = getattr(node.target, "_overloadpacket", None)
    count = hooks.flop_registry.get(packet)
    if count is None:
        return 0

    def value(x: fx.Node) -> Any:
        return x.meta.get("val")

    args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), value)
    return sized(count(*args, **kwargs, out_val=node.meta.get("val")))
