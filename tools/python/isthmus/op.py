"""Ops of a problem, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

PHASES = ("forward", "backward", "update")
KINDS = ("computes", "starts_offload", "waits_offload", "starts_prefetch", "waits_prefetch")


@dataclass(frozen=True)
class Op:
    """One op of a problem, as `Problem.add` takes it."""

    name: str
    reads: tuple[tuple[int, int], ...]
    """Ops and which of their outputs."""
    cost: float
    bytes: tuple[int, ...]
    """The bytes of each output. A view has one output, of 0 bytes."""
    phase: str = "forward"
    pinned: bool = False
    recomputable: bool = True
    workspace: int = 0
    view_of: int | None = None
    may_reuse: tuple[tuple[int, int], ...] = ()
    kind: str = "computes"
    of: int | tuple[int, int] | None = None
    transfer_time: float = 0.0
    overwrites: tuple[int, ...] = ()

    @property
    def is_optional(self) -> bool:
        """True if no schedule has to run the op."""
        return self.of is not None or self.kind != "computes"
