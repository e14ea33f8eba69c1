"""Defines the ops with which a planned module copies a tensor to the host's memory and back.

A copy is two ops, as in the planner's problems: its start, and a wait for its end. On a GPU the start enqueues the copy on a separate stream,
one for each direction; the wait makes the current stream wait for the copy. The copies lie in pinned memory of the host.

The CPU has no memory besides the host's. There a copy is complete when its start returns. The copy on the host lies outside of PyTorch's
allocator, so that measured peaks are those of a device with its own memory: plans for a GPU's link can be tried out, but save no memory.
"""

from __future__ import annotations

import mmap
from typing import Any

import torch
from torch import fx

_library = torch.library.Library("isthmus", "DEF")
_library.define("start_offload(Tensor x) -> Tensor")
_library.define("wait_offload(Tensor(a) host, Tensor x) -> Tensor(a)")  # reads x, so that x lives until the copy is complete
_library.define("start_prefetch(Tensor host, Device device) -> Tensor")
_library.define("wait_prefetch(Tensor(a) x) -> Tensor(a)")

start_offload = torch.ops.isthmus.start_offload.default
wait_offload = torch.ops.isthmus.wait_offload.default
start_prefetch = torch.ops.isthmus.start_prefetch.default
wait_prefetch = torch.ops.isthmus.wait_prefetch.default


def is_on_host(node: fx.Node) -> bool:
    """Returns True if the result of the node lies in the host's memory."""
    return node.target in (start_offload, wait_offload)


_streams: dict[tuple[torch.device, str], Any] = {}
_ends: dict[int, Any] = {}
"""The event at the end of each copy on a GPU that no op has waited for, by the address of the memory that it writes."""


def _start_offload(x: torch.Tensor) -> torch.Tensor:
    if x.device.type == "cpu":
        host = _outside_of_allocator(x)
        return host.copy_(x)
    host = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, pin_memory=True)
    _enqueue(host, x, x.device, "to host")
    return host


def _wait_offload(host: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    _wait(host, x.device)
    return host


def _start_prefetch(host: torch.Tensor, device: torch.device) -> torch.Tensor:
    x = torch.empty_strided(host.size(), host.stride(), dtype=host.dtype, device=device)
    if device.type == "cpu":
        return x.copy_(host)
    _enqueue(x, host, device, "to device")
    return x


def _wait_prefetch(x: torch.Tensor) -> torch.Tensor:
    _wait(x, x.device)
    return x


def _enqueue(to: torch.Tensor, source: torch.Tensor, device: torch.device, direction: str) -> None:
    """Enqueues a copy that begins after all work enqueued so far, which may write the source, or still use the memory reused for `to`."""
    module = torch.get_device_module(device)
    stream = _streams.get((device, direction))
    if stream is None:
        stream = _streams[device, direction] = module.Stream(device)
    stream.wait_stream(module.current_stream(device))
    with module.stream(stream):
        to.copy_(source, non_blocking=True)
        _ends[to.data_ptr()] = stream.record_event()


def _wait(written: torch.Tensor, device: torch.device) -> None:
    end = _ends.pop(written.data_ptr(), None)
    if end is not None:
        torch.get_device_module(device).current_stream(device).wait_event(end)


def _outside_of_allocator(x: torch.Tensor) -> torch.Tensor:
    size = x.numel() * x.element_size()
    memory = torch.frombuffer(mmap.mmap(-1, max(size, mmap.PAGESIZE)), dtype=torch.uint8)
    return memory[:size].view(x.dtype).as_strided(x.size(), x.stride())


for _name, _run in (
    ("start_offload", _start_offload),
    ("wait_offload", _wait_offload),
    ("start_prefetch", _start_prefetch),
    ("wait_prefetch", _wait_prefetch),
):
    _library.impl(_name, _run, "CompositeExplicitAutograd")


@torch.library.register_fake("isthmus::start_offload")
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device="cpu")


@torch.library.register_fake("isthmus::start_prefetch")
def _(host: torch.Tensor, device: torch.device) -> torch.Tensor:
    return torch.empty_strided(host.size(), host.stride(), dtype=host.dtype, device=device)


@torch.library.register_fake("isthmus::wait_offload")
def _(host: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return host


@torch.library.register_fake("isthmus::wait_prefetch")
def _(x: torch.Tensor) -> torch.Tensor:
    return x
