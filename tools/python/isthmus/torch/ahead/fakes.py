"""Copies of models and inputs whose tensors have shapes and no memory, wherever the originals lie."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .. import hooks


class Fakes:
    """Makes tensors without memory. They count as tensors of the CPU, where PyTorch traces every op without a device."""

    def __init__(self) -> None:
        self.mode = hooks.fake_mode()

    def of_model(self, model: torch.nn.Module) -> torch.nn.Module:
        """Returns a copy of a model. What its modules share stays shared."""
        held = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
        with self.mode:
            memo = {id(t): self._of(t) for t in dict.fromkeys(t for _, t in held)}
            return copy.deepcopy(model, memo)

    def made(self, make: Callable[[], Any]) -> Any:
        """Returns what a function returns, with every tensor that it makes without memory."""
        with self.mode, torch.device("cpu"):
            return self.of(make())

    def of(self, values: Any) -> Any:
        with self.mode:
            return pytree.tree_map_only(torch.Tensor, self._of, values)

    def _of(self, t: torch.Tensor) -> torch.Tensor:
        made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cpu")
        if isinstance(t, torch.nn.Parameter):
            return torch.nn.Parameter(made, requires_grad=t.requires_grad)
        return made.requires_grad_(t.requires_grad)
