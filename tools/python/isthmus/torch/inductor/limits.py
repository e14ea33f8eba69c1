"""The memory that inductor's code for a plan may take, and the memory that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from torch import fx

MOST_REPLANS = 3  # further plans for a graph whose code takes more than it may; the last one is for the least peak


class AboveBudget(BaseException):
    """Ends a compilation whose code would take more bytes than its limit. It is no Exception, because PyTorch would wrap or swallow one."""


@dataclass
class Limits:
    """The memory that the code of a graph may take, and the memory that it takes. In dicts, the key False is the forward, and True the backward."""

    planned_bytes: dict[bool, int]
    most_bytes: int | None
    """`note` raises AboveBudget for a larger peak; None: there is no limit."""
    beside_bytes: dict[bool, int]
    """Bytes that are live while the code runs, and that it neither allocates nor frees."""
    workspace: Callable[[fx.Node], int]
    """Returns the bytes that PyTorch's own kernel of a node allocates while it runs."""
    step_bytes: Sequence[int]
    """For each step of the plan, the bytes that are live while it runs, including the reserved ones."""
    frees_tangents: bool
    """True: the code frees each tangent after its last read. False: the tangents are part of `beside_bytes`."""
    on_host: frozenset[str] = frozenset()
    """The names of tensors in the host's memory, which is not counted."""
    taken_bytes: dict[bool, int] = field(default_factory=dict)
    """The peaks in bytes."""
    above_bytes: dict[int, int] = field(default_factory=dict)
    """For each step whose code exceeds the plan's peak, the code's live bytes minus the plan's live bytes in that step."""

    def room(self, is_backward: bool) -> int:
        """Returns the bytes that the code may allocate within the plan."""
        return self.planned_bytes[is_backward] - self.beside_bytes[is_backward]

    def note(self, is_backward: bool, uses: Iterable[tuple[Sequence[int], int]]) -> None:
        """Counts the peak of the code, and raises AboveBudget if the peak is above `most_bytes`. uses: for each node of the code, the steps of the
        plan that it computes, and the bytes that are live while it runs, without `beside_bytes`."""
        peak = 0
        for steps, live in uses:
            live += self.beside_bytes[is_backward]
            peak = max(peak, live)
            if live > self.planned_bytes[is_backward] and steps:
                step = max(steps, key=self.step_bytes.__getitem__)
                self.above_bytes[step] = max(self.above_bytes.get(step, 0), live - self.step_bytes[step])
        self.taken_bytes[is_backward] = max(self.taken_bytes.get(is_backward, 0), peak)
        if self.most_bytes is not None and peak > self.most_bytes:
            raise AboveBudget

    @property
    def excess_bytes(self) -> int:
        """The bytes that the code takes above `most_bytes`, as far as they were counted."""
        taken = max(self.taken_bytes.values(), default=0)
        return 0 if self.most_bytes is None else max(0, taken - self.most_bytes)

    @property
    def peak_bytes(self) -> int | None:
        """The peak of the forward's and the backward's code; None: not all of the code was counted."""
        return max(self.taken_bytes.values()) if len(self.taken_bytes) == 2 else None
