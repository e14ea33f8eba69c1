"""Graphs: load, differentiate, plan within a budget, save, draw and run them."""

from __future__ import annotations

import ctypes
import operator
import os
from typing import TYPE_CHECKING, Iterable, Mapping

from . import _library
from ._shared_library import Handle
from ._watched import ProgressFunction
from .budget import BudgetLike
from .errors import BadInput, Internal
from .planning import Plan, search
from .session import Session, Tensor

if TYPE_CHECKING:
    import numpy

    from .session import Feeds


_TARGETS = ("auto", "cpu", "common")
_LITTLE_EFFORT = 0.01


class Graph:
    """A graph of the text form or of ONNX. Graphs are immutable: their methods return new graphs."""

    def __init__(self, handle: Handle, plan: Plan | None = None) -> None:
        """Use `Graph.load`, `Graph.from_text` or the methods of another graph."""
        if not isinstance(handle, Handle):
            raise TypeError(f"Graph.load and Graph.from_text make graphs; got {type(handle).__name__}")
        self._handle = handle
        self._plan = plan

    @classmethod
    def load(cls, path: str | os.PathLike[str], sizes: Mapping[str, int] | None = None) -> Graph:
        """Loads a file .isth or .onnx. `sizes` binds the sizes that an ONNX model leaves open, as {"batch": 32}."""
        if not isinstance(sizes, (Mapping, type(None))):
            raise TypeError(f"sizes are a mapping such as {{'batch': 32}}, got {type(sizes).__name__}")
        bound = ",".join(f"{name}={operator.index(size)}" for name, size in sizes.items()).encode() if sizes else None
        return cls(_library.make("graph", "graph_load", _encoded(path), bound))

    @classmethod
    def from_text(cls, text: str) -> Graph:
        """Parses the text form (docs/language.md), with weights inline."""
        if not isinstance(text, str):
            raise TypeError(f"a graph's text is a string, got {type(text).__name__}")
        content = text.encode("utf-8", "surrogateescape")
        return cls(_library.make("graph", "graph_from_text", content, len(content)))

    def differentiate(self, loss: str | None = None, wrt: str | Iterable[str] | None = None) -> Graph:
        """Returns the training step: this graph with the gradients of its loss as outputs `grad.NAME`.

        loss: "cross_entropy", "mse", "mean" or "%value", as the command line's --loss; None: the loss that the graph names.
        wrt: the names by which to differentiate: a list, or a string with commas and wildcards; None: all parameters.
        """
        if not isinstance(loss, (str, type(None))):
            raise TypeError(f"a loss is a string, got {type(loss).__name__}")
        names = None if wrt is None else _names(wrt).encode()
        return Graph(_library.make("graph", "graph_differentiate", self._handle, None if loss is None else loss.encode(), names))

    def optimize(
        self,
        budget: BudgetLike,
        effort: float = 0.0,
        seed: int = 0,
        progress: ProgressFunction | None = None,
        *,
        target: str = "auto",
        threads: int = 0,
    ) -> Graph:
        """Returns a graph whose results are bitwise equal and whose peak is within the budget. Its `plan` describes the plan; the arguments
        and the exceptions are those of `isthmus.plan`. A graph that was planned before is planned anew, from its original.

        target: "cpu": the plan counts the workspaces of this machine's kernels, so that `run` with as many threads keeps within the budget;
            "common": it counts no workspaces; "auto": "cpu" if the library that runs graphs can be loaded, else "common".
        """
        if target not in _TARGETS:
            raise BadInput(f"a target is one of {', '.join(_TARGETS)}; got {target!r}")
        problem = _library.make("problem", "problem_of_graph", self._handle, None)
        if target != "common":
            try:
                problem = _library.make("problem", "problem_of_graph", self._handle, _target(problem, threads))
            except ImportError:
                if target == "cpu":
                    raise
        plan = search(problem, budget, effort, seed, progress)
        return Graph(_library.make("graph", "graph_rematerialize", problem, plan._handle), plan)

    @property
    def plan(self) -> Plan | None:
        """The plan of a graph that `optimize` made, else None. Its schedule numbers the original's inputs first, and then its nodes."""
        return self._plan

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file .isth or .onnx, by the suffix of the path, whole or not at all. Large weights go to a file beside it."""
        _library.call("graph_save", self._handle, _encoded(path))

    def to_text(self) -> str:
        """Returns the graph in the text form, with all weights inline."""
        return _library.text("graph_print", self._handle, _library.TEXT).decode("utf-8", "surrogateescape")

    def to_dot(self) -> str:
        """Returns a drawing for Graphviz: the forward pass on the left, the backward pass on the right, recomputed nodes between them."""
        return _library.text("graph_print", self._handle, _library.DOT).decode("utf-8", "replace")

    @property
    def notes(self) -> list[str]:
        """Remarks for the user on how `Graph.load` read an ONNX model; empty for a graph that was made in another way."""
        return _library.text("graph_print", self._handle, _library.NOTES).decode("utf-8", "replace").splitlines()

    @property
    def inputs(self) -> list[Tensor]:
        """Inputs, parameters, states and constants, in the graph's order. (Like `outputs`, this needs the library that runs graphs.)"""
        return self._signature()[0]

    @property
    def outputs(self) -> list[Tensor]:
        return self._signature()[1]

    def run(self, feeds: Feeds | None = None, *, seed: int = 0, threads: int = 0) -> dict[str, numpy.ndarray]:
        """Runs the graph once on the CPU and returns all outputs by name, as NumPy arrays.

        feeds: arrays for inputs, and for parameters to override. Other inputs hold what the graph says, or else values drawn by `seed` and
            their name.
        threads: 0: one for each core.
        """
        return Session(self, seed=seed, threads=threads).run(feeds)

    def _signature(self) -> tuple[list[Tensor], list[Tensor]]:
        session = Session(self)
        return session.inputs, session.outputs

    def __repr__(self) -> str:
        return f"<isthmus.Graph{'' if self._plan is None else f' by {self._plan!r}'}>"

    def __reduce__(self) -> tuple[object, ...]:
        return Graph.from_text, (self.to_text(),)


def _target(problem: Handle, threads: int) -> _library.Target:
    """The workspaces of this machine's kernels, for the ops of the problem of a graph."""
    as_is = search(problem, "100%", _LITTLE_EFFORT, 0, None)
    steps = as_is.schedule
    if len(set(steps)) != len(steps):
        raise Internal("a plan without a budget computes something twice")
    original = Graph(_library.make("graph", "graph_rematerialize", problem, as_is._handle))
    if not steps:
        return _library.Target(size=ctypes.sizeof(_library.Target))
    workspaces = [0] * (1 + max(steps))  # inputs come first, and the schedule contains every node
    for step, workspace in zip(steps, Session(original, threads=threads).workspaces(len(steps)), strict=True):
        workspaces[step] = workspace
    array = (ctypes.c_int64 * max(1, len(workspaces)))(*workspaces)
    return _library.Target(size=ctypes.sizeof(_library.Target), num_ops=len(workspaces), workspace=array)


def _encoded(path: str | os.PathLike[str]) -> bytes:
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise BadInput(f"a path holds a zero byte: {path!r}")
    return encoded


def _names(wrt: str | Iterable[str]) -> str:
    if isinstance(wrt, str):
        return wrt
    names = list(wrt)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"wrt is a list of names, and one is of type {type(name).__name__}")
        if '"' in name:
            raise BadInput(f"a name in wrt holds a quote, which a list cannot: {name!r}")
    return ",".join(f'"{name}"' for name in names)  # quoted: no wildcards
