"""The sum of what a device holds: what there is in total, what is taken off line by line, and what is left to the step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch

from ...errors import CannotBeMet
from .. import hooks
from ..amounts import MIB, in_mib
from .live import Live, found_on
from .optimizers import Need, allocated, need_of
from .total import Room, Total, room_of


@dataclass(frozen=True)
class Ledger:
    """What of a total is left to a step, and what takes the rest."""

    total: Total
    room: Room
    live: Live
    needs: tuple[Need, ...]
    """What the optimizers' steps will make."""
    gradient_bytes: int
    """The gradients that the step makes, which are part of what is left."""
    at_optimizers_step_bytes: int
    """The gradients that are live when an optimizer runs: those that no hook frees within the backward."""
    input_bytes: int = 0
    """The part of the other live tensors that the step takes as inputs."""

    @property
    def state_to_come(self) -> int:
        return sum(need.state_bytes for need in self.needs)

    @property
    def left_bytes(self) -> int:
        """The budget of the step: the most that it may add to what is live before it."""
        return self.room.bytes - self.live.bytes - self.state_to_come

    @property
    def optimizer_bytes(self) -> int:
        """What the steps of the optimizers add to what is live before the step: gradients and workspace."""
        return self.at_optimizers_step_bytes + max((need.workspace_bytes for need in self.needs), default=0)

    def with_inputs(self, size: int) -> Ledger:
        return replace(self, input_bytes=min(size, self.live.other_bytes))

    def check(self) -> None:
        """Raises CannotBeMet if nothing is left to the step, or if an optimizer's step takes more than the total, whatever is planned."""
        if self.left_bytes <= 0:
            raise CannotBeMet(f"a total of {self.total.asked} leaves nothing to the step, before anything is planned:\n{self}")
        if self.optimizer_bytes > self.left_bytes:
            largest = max(self.needs, key=lambda need: need.workspace_bytes)
            remedy = "freeing each gradient within the backward"
            if largest.workspace_bytes:
                workspace = f"{largest.name}'s step takes {in_mib(largest.workspace_bytes)} for its workspace"
                remedy = f"foreach=False, or fused=True on a GPU: {workspace}; or {remedy}"
            raise CannotBeMet(
                f"a total of {self.total.asked} cannot be met: {self._names()}'s own step needs {in_mib(self.optimizer_bytes)} beside what is live, "
                f"and {in_mib(self.left_bytes)} are left. No plan changes that; what does: {remedy}\n{self}"
            )

    def _names(self) -> str:
        return ", ".join(dict.fromkeys(need.name for need in self.needs)) or "the optimizer"

    def lines(self) -> list[tuple[str, int]]:
        """Returns the sum: the total, what is taken off it, below zero, and what is left."""
        on_gpu = self.room.device.type == "cuda"
        of_kind, state = self.live.of_kind, self.state_to_come
        is_known = all(need.is_known for need in self.needs)
        known = "worked out before its first step" if is_known else "before its first step, assumed: two copies in 32 bits"
        taken = [
            ("CUDA context", self.room.context_bytes),
            ("other processes", self.room.taken_bytes),
            ("reserve", self.room.reserve_bytes),
            ("parameters", of_kind["parameters"]),
            ("buffers", of_kind["buffers"]),
            ("gradients of earlier backwards", of_kind["gradients"]),
            (f"state of {self._names()}", of_kind["state"]),
            (f"state of {self._names()}, {known}", state),
            ("inputs", self.input_bytes),
            ("other tensors", self.live.other_bytes - self.input_bytes),
        ]
        where = f" on {self.room.device}" if on_gpu else ""
        return [
            (f"total{where} ({self.total.asked})", self.room.total_bytes),
            *((name, -size) for name, size in taken if size),
            (f"left to the step{self._of_step()}", self.left_bytes),
        ]

    def _of_step(self) -> str:
        return f", {in_mib(self.gradient_bytes)} of it for gradients" if self.gradient_bytes else ""

    def __str__(self) -> str:
        lines = self.lines()
        text = [f"{size / MIB:12.1f} MiB  {name}" for name, size in lines]
        if self.needs:
            text.append(f"{self.optimizer_bytes / MIB:12.1f} MiB  of what is left, in {self._names()}'s own step: gradients and workspace")
        return "\n".join([*text[:-1 - bool(self.needs)], " " * 7 + "-" * 9, *text[len(lines) - 1 :]])


def taken(total: Total, device: torch.device) -> Ledger:
    """Returns the sum as it is now, before a step begins. Raises BadInput for a share where there is no GPU."""
    live, optimizers, trained = found_on(device, total.optimizers)
    needs = tuple(need_of(o, device) for o in optimizers if _is_on(o, device))
    to_come = [p for p in trained if p.grad is None]
    at_step = [p for p in to_come if not hooks.has_optimizer_in_backward(p)]
    return Ledger(total, room_of(total, device), live, needs, _bytes(to_come, device), _bytes(at_step, device))


def _bytes(parameters: Iterable[torch.Tensor], device: torch.device) -> int:
    return sum(allocated(p.numel() * p.element_size(), device) for p in parameters)


def _is_on(optimizer: torch.optim.Optimizer, device: torch.device) -> bool:
    return any(p.device == device for group in optimizer.param_groups for p in group["params"])
