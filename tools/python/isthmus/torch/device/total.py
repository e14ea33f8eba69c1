"""The total of a device that a training may take, as the user gives it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any, SupportsIndex, Union

import torch

from ...budget import parse_budget
from ...errors import BadInput
from ..amounts import understood
from .optimizers import optimizers_in

TotalLike = Union[str, float, SupportsIndex]

_FORMS = "'24GB', a number of bytes, 'gpu' for all of a GPU, or a share of it such as 0.9 or '90%'"
_RESERVE_OF_GPU = 0.05
"""The share that a GPU's allocator is given for the gaps between its blocks, unless the user says otherwise. It is an assumption."""
_RESERVE_OF_CPU = 0.002
"""The share for small tensors that come and go, such as the last step's loss. Less being left by a few bytes would make plans anew."""
_MOST_OF_CONTEXT = 1 << 30
"""What is held outside of PyTorch's allocator is taken for the CUDA context up to this size. The rest is that of other processes."""

_CONTEXT_AHEAD = 512 << 20
"""What a CUDA context and the libraries' kernels are assumed to take of a GPU on which nothing runs yet."""


@dataclass(frozen=True)
class Total:
    """What a training may hold of its device: a number of bytes or a share of the device."""

    asked: str
    """As the user gave it, for messages."""
    bytes: int | None
    share: float | None
    reserve: str | int | None = None
    """Bytes, or a share of the total, for the allocator's gaps; None: the default of the device."""
    named: tuple[weakref.ref[torch.optim.Optimizer], ...] = field(default=(), compare=False, repr=False)
    """Optimizers that were named. Others are found. Options live as long as compiled code, so they keep no optimizer alive."""

    def __reduce__(self) -> tuple[Any, ...]:
        """A total in another process knows no optimizers of this one."""
        return Total, (self.asked, self.bytes, self.share, self.reserve)

    def __deepcopy__(self, memo: Any) -> Total:
        return self

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [o for o in (ref() for ref in self.named) if o is not None]

    @classmethod
    def of(cls, given: Any, reserve: Any = None, optimizer: Any = None) -> Total:
        """Raises BadInput for what is no total."""
        named = () if optimizer is None else tuple(map(weakref.ref, optimizers_in(optimizer)))
        if isinstance(given, Total):
            return given
        _check_reserve(reserve)
        if given == "gpu":
            return cls("all of the GPU", None, 1.0, reserve, named)
        try:
            amount = understood(given)
            parsed = parse_budget(amount)
        except (BadInput, TypeError) as e:
            raise BadInput(f"total is {_FORMS}; got {given!r}") from e
        if parsed.share is not None and parsed.share <= 1:
            return cls(f"{amount} of the GPU", None, parsed.share, reserve, named)
        if not parsed.bytes:
            raise BadInput(f"total is {_FORMS}; got {given!r}")
        return cls(amount if isinstance(amount, str) else f"{amount} bytes", parsed.bytes, None, reserve, named)


def _check_reserve(reserve: Any) -> None:
    try:
        parsed = None if reserve is None else parse_budget(reserve)
    except (BadInput, TypeError):
        parsed = None
    if reserve is not None and (parsed is None or parsed.bytes is None and (parsed.share is None or parsed.share >= 1)):
        raise BadInput(f"reserve is a size such as '1GiB', or a share of the total such as '5%'; got {reserve!r}")


@dataclass(frozen=True)
class Room:
    """What PyTorch's allocator may hand out of a device."""

    device: torch.device
    total_bytes: int
    context_bytes: int
    """What the device holds for this process outside of PyTorch's allocator and, of a share of it, what other processes hold."""
    reserve_bytes: int
    taken_bytes: int = 0
    """What other processes leave less than the total."""

    @property
    def bytes(self) -> int:
        return max(0, self.total_bytes - self.context_bytes - self.reserve_bytes - self.taken_bytes)


def device_in_use() -> torch.device:
    """Returns the current GPU if the program has tensors there, otherwise the CPU. Timelines measure the same device."""
    if torch.cuda.is_initialized() and torch.cuda.memory_allocated():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def ahead(total: Total, device: torch.device) -> Room:
    """Returns what a total of bytes would leave to PyTorch's allocator on a GPU that need not be here."""
    assert total.bytes is not None
    return Room(device, total.bytes, _CONTEXT_AHEAD, _reserve(total, total.bytes, _RESERVE_OF_GPU))


def room_of(total: Total, device: torch.device) -> Room:
    """Returns what the total leaves to PyTorch's allocator. Raises BadInput for a share where there is no GPU."""
    if device.type != "cuda":
        if total.bytes is None:
            raise BadInput(
                f"a total of {total.asked} needs a GPU, and the program's tensors are on the {device.type.upper()}: give bytes, such as '8GB', or "
                f"move the model to the GPU before its first step"
            )
        return Room(device, total.bytes, 0, _reserve(total, total.bytes, _RESERVE_OF_CPU))
    free, whole = torch.cuda.mem_get_info(device)
    reserved = int(torch.cuda.memory_reserved(device))
    outside = max(0, whole - free - reserved)
    if total.bytes is None:
        wanted = int((total.share or 1.0) * whole)
        return Room(device, wanted, outside, _reserve(total, wanted, _RESERVE_OF_GPU))
    # Which of the outside bytes are those of other processes is not known. They count where they leave less than the total.
    context = min(outside, _MOST_OF_CONTEXT)
    reserve = _reserve(total, total.bytes, _RESERVE_OF_GPU)
    return Room(device, total.bytes, context, reserve, max(0, total.bytes - context - (free + reserved)))


def _reserve(total: Total, wanted: int, default: float) -> int:
    given = None if total.reserve is None else parse_budget(total.reserve)
    if given is not None and given.bytes is not None:
        return given.bytes
    return int((default if given is None else given.share or 0.0) * wanted)
