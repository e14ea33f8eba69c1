"""Defines the op that gives an input of a graph another tensor's contents, for `p.data = t`."""

from __future__ import annotations

import torch

from .. import hooks

_library = torch.library.Library("isthmus", "FRAGMENT")
_library.define("give_(Tensor(a!) x, Tensor given) -> Tensor(a!)")


def _give(x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """Gives `x` the contents of a tensor of its own sizes and strides. As `x.data = given` does, it leaves the former memory of `x` to others who hold it,
    and the version of `x`, by which PyTorch recognizes a tensor that changes after it was saved."""
    if hooks.is_held_by_others(x):
        torch.ops.aten.shallow_copy_data_(x, given.clone())
    else:
        x.data.copy_(given)
    return x


_library.impl("give_", _give, "CompositeExplicitAutograd")

GIVE = torch.ops.isthmus.give_.default
