"""Finds the lines of the program that run, and the variables with which it holds tensors."""

from __future__ import annotations

import contextlib
import dis
import inspect
import itertools
import os
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, ModuleType
from typing import Any

import torch

from .. import hooks

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_NOT_OF_THE_PROGRAM = (contextlib.__file__, os.path.dirname(torch.__file__) + os.sep, _OURS + os.sep)
_MOST_WITHIN = (1000, 30)
"""How many parts of a variable's value are looked at for tensors, and of each of these parts: elements of lists and dictionaries, and attributes."""


def place() -> str:
    """Returns the line of the program that is being run, as "file:line"."""
    return next((f"{frame.f_code.co_filename}:{frame.f_lineno}" for frame in _frames()), "")


def holders_of(storages: Collection[int]) -> dict[int, str]:
    """Returns for storages, by `hooks.storage_id`, the variable that holds each, and the line that set it: "`h` (model.py:20)". A variable holds what
    its tensors are, or else what the graphs of these tensors keep for a backward. Storages that no variable holds are left out."""
    found: dict[int, _Variable] = {}
    with_graphs: list[tuple[_Variable, torch.Tensor]] = []
    for frame in _frames():
        for variable, t in _tensors_of(frame):
            if hooks.graph_of(t) is not None:
                with_graphs.append((variable, t))
            _note(found, storages, variable, t)
    for variable, t in with_graphs:
        if len(found) == len(storages):
            break
        for kept in hooks.kept_by_graphs([t]):
            _note(found, storages, variable, kept)
    told = {variable: str(variable) for variable in found.values()}
    return {key: told[variable] for key, variable in found.items()}


@dataclass(frozen=True, eq=False)
class _Variable:
    """A tensor in a variable of a frame."""

    code: CodeType
    until: int
    """The instruction that the frame runs."""
    name: str
    within: str
    """Where in the variable's value the tensor is."""

    def __str__(self) -> str:
        line = self._set_at()
        return f"`{self.name}{self.within}`{f' ({self.code.co_filename}:{line})' if line else ''}"

    def _set_at(self) -> int:
        """Returns the line in which the frame has last set the variable; 0 if it does not set it."""
        line = found = 0
        for each in dis.get_instructions(self.code):
            if each.offset >= self.until and found:
                break
            line = (each.positions and each.positions.lineno) or line
            if each.opname.startswith("STORE_") and each.argval == self.name:
                found = line
        return found


def _note(found: dict[int, _Variable], storages: Collection[int], variable: _Variable, t: torch.Tensor) -> None:
    with contextlib.suppress(NotImplementedError, RuntimeError):  # it has no storage
        key = hooks.storage_id(t)
        if key in storages:
            found.setdefault(key, variable)


def _frames() -> Iterator[FrameType]:
    """Yields the frames of the program that run now, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith((*_NOT_OF_THE_PROGRAM, "<")):
            yield frame
        frame = frame.f_back


def _tensors_of(frame: FrameType) -> list[tuple[_Variable, torch.Tensor]]:
    """Returns the tensors that variables of a frame hold."""
    variables = frame.f_locals
    found = [
        (_Variable(frame.f_code, frame.f_lasti, name, within), t)
        for name, value in list(variables.items())
        for within, t in _tensors_in(value)
    ]
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED and isinstance(variables, dict):
        variables.clear()  # up to Python 3.12 it is a copy, with which the frame would keep these tensors alive
    return found


def _tensors_in(value: Any, depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the tensors in a value, and where in it they are."""
    if isinstance(value, torch.Tensor):
        if not hooks.is_traced(value):
            yield "", value
    elif depth < len(_MOST_WITHIN):
        for name, part in itertools.islice(_parts_of(value), _MOST_WITHIN[depth]):
            yield from ((name + within, t) for within, t in _tensors_in(part, depth + 1))


def _parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        yield from (("[...]", each) for each in value)
    elif isinstance(value, dict):
        yield from ((f"[{name!r}]", each) for name, each in list(value.items()) if isinstance(name, (str, int)))
    elif not isinstance(value, (type, ModuleType)):
        with contextlib.suppress(AttributeError):
            yield from ((f".{name}", each) for name, each in list(object.__getattribute__(value, "__dict__").items()))
