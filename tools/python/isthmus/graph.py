"""Graphs: load, differentiate, compile within a budget, save, draw and run them."""

from __future__ import annotations

import json
import operator
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterable, Mapping, SupportsIndex

from . import _library, compiling
from ._shared_library import Handle
from ._watched import ProgressFunction
from .budget import BudgetLike
from .compiling import Device, Names
from .errors import BadInput
from .session import Session, Tensor

if TYPE_CHECKING:
    import numpy

    from .session import Feeds


class Graph:
    """A graph of the text form or of ONNX. Graphs are immutable: their methods return new graphs."""

    def __init__(self, handle: Handle) -> None:
        """Use `Graph.load`, `Graph.from_text` or the methods of another graph."""
        if not isinstance(handle, Handle):
            raise TypeError(f"Graph.load and Graph.from_text make graphs; got {type(handle).__name__}")
        self._handle = handle

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        sizes: Mapping[str, int] | None = None,
        *,
        tie: Iterable[tuple[str, str]] = (),
        untie: Names | None = None,
        learn: Names | None = None,
        allow_outside: bool = False,
    ) -> Graph:
        """Loads a file .isth or .onnx. All but `allow_outside` concerns files .onnx.

        sizes: binds the sizes that a model leaves open, as {"batch": 32}.
        tie: pairs of tensors that are one parameter; untie: tensors that are parameters of their own although they equal others.
        learn: tensors that are parameters, whatever the model says; needed where `compile` differentiates by a constant.
        allow_outside: weights may lie outside the model's folder.
        """
        if not isinstance(sizes, (Mapping, type(None))):
            raise TypeError(f"sizes are a mapping such as {{'batch': 32}}, got {type(sizes).__name__}")
        options = _library.default_load_options()
        dims = [(compiling.encoded(name), operator.index(size)) for name, size in (sizes or {}).items()]
        ties = [(compiling.encoded(a), compiling.encoded(b)) for a, b in tie]
        options.num_dims, options.dims = len(dims), (_library.Dim * max(1, len(dims)))(*dims)
        options.num_ties, options.ties = len(ties), (_library.Tie * max(1, len(ties)))(*ties)
        options.untie = compiling.encoded_names(untie, "untie")
        options.learn = compiling.encoded_names(learn, "learn")
        options.allow_outside = bool(allow_outside)
        return Graph(_library.make("graph", "graph_load", _encoded(path), options))

    @classmethod
    def from_text(cls, text: str) -> Graph:
        """Parses the text form (docs/language.md), with weights inline."""
        if not isinstance(text, str):
            raise TypeError(f"a graph's text is a string, got {type(text).__name__}")
        content = compiling.utf8(text)
        return Graph(_library.make("graph", "graph_from_text", content, len(content)))

    def differentiate(self, loss: str | None = None, wrt: str | Iterable[str] | None = None) -> Graph:
        """Returns the training step, not planned: this graph with the gradients of its loss as outputs `grad.NAME` beside its own.

        loss: "cross_entropy", "mse", "mean" or "%value", as the command line's --loss; None: the loss that the graph names.
        wrt: the names by which to differentiate: a list, or a string with commas and wildcards; None: all parameters.
        """
        arguments = compiling.encoded_loss(loss), compiling.encoded_names(wrt, "wrt")
        return Graph(_library.make("graph", "graph_differentiate", self._handle, *arguments))

    def compile(
        self,
        *,
        budget: BudgetLike | None = None,
        policy: str | None = None,
        checkpoints: Names | None = None,
        memory_limit: BudgetLike | None = None,
        smallest_checkpoint: SupportsIndex | None = None,
        max_added: str | float | None = None,
        allow: Names | None = None,
        max_inverse_error: float | None = None,
        iterations: SupportsIndex | None = None,
        host_memory: BudgetLike | None = None,
        link: BudgetLike | None = None,
        costs: str | os.PathLike[str] | None = None,
        chunk: Names | None = None,
        microbatches: SupportsIndex | None = None,
        batch: Names | None = None,
        whole: Names | None = None,
        batch_norm: str | None = None,
        stages: SupportsIndex | None = None,
        schedule: str | None = None,
        checkpoint: str | None = None,
        devices: Names | None = None,
        balance: str | Iterable[str | float] | None = None,
        loss: str | None = None,
        wrt: Names | None = None,
        class_axis: SupportsIndex = 1,
        ignore_index: SupportsIndex | None = None,
        keep_outputs: bool = False,
        eval: bool = False,
        as_written: bool = False,
        precision: str | None = None,
        layout: str = "auto",
        effort: float = 0.0,
        seed: SupportsIndex = 0,
        threads: SupportsIndex = 0,
        device: Device = "cpu",
        progress: ProgressFunction | None = None,
    ) -> Compiled:
        """Returns the training step, ready to run within the budget; its results are bitwise equal unless inverses are allowed.

        The options are those of `isthmus opt`, which gives the same graph, byte for byte; `isthmus opt --help` describes them. A forward
        graph is differentiated first. A graph that was planned before is planned anew, from its original.

        budget, policy, checkpoints: one of the three at most; none keeps everything, or with `memory_limit` searches a plan within it.
        budget, memory_limit, host_memory: sizes, as `isthmus.plan` takes a budget.
        smallest_checkpoint: of policy "memory", which keeps no bottlenecks of fewer elements; None: 1024.
        max_added: the most that the plan may add to the step's cost, "50%" or 0.5; None: no limit, and for budget "min" 100 %.
        allow: how tensors may be restored within a budget: "recompute,invert,fetch,encode,chunk", or a list; None: recompute.
        costs: a file of measured times, as `isthmus profile -o` writes it.
        chunk: regions to run part by part, "%logits:axis=0,chunks=8" or a list of such; microbatches: the whole step in so many parts.
            batch: the axes of inputs on which the examples are, "%x:axis=1" or a list of such; whole: names of inputs without examples.
            batch_norm: "micro": batch norms take the statistics of each of them; None: of the whole batch.
        stages, schedule, checkpoint, devices, balance: of a step over several devices (docs/stages.md), such as 2, "1f1b", "always",
            "cpu:0,cpu:1", "2,1" or "%h1"; the last two also as lists. The report has the figures of each device.
        wrt, checkpoints: a list of names, or a string with commas and wildcards.
        threads: of the CPU; 0: OMP_NUM_THREADS, or one for each core.
        device: "cpu", this machine, which needs the library that runs graphs; "counting", the same without running anything; "generic", a
            common machine whose kernels have no workspaces; or the content of a target file (docs/c.md), as a mapping.
        progress: as that of `isthmus.plan`.

        Raises CannotBeMet, whose `report` has the smallest budget that was found, and Cancelled.
        """
        options = _library.default_compile_options()
        compiling.step_options(
            options,
            loss=loss,
            wrt=wrt,
            class_axis=class_axis,
            ignore_index=ignore_index,
            keep_outputs=keep_outputs,
            eval=eval,
            as_written=as_written,
            precision=precision,
            layout=layout,
        )
        compiling.plan_options(
            options,
            policy=policy,
            checkpoints=checkpoints,
            budget=budget,
            memory_limit=memory_limit,
            smallest_checkpoint=smallest_checkpoint,
            max_added=max_added,
            allow=allow,
            max_inverse_error=max_inverse_error,
            iterations=iterations,
            host_memory=host_memory,
            link=link,
            costs=costs,
            chunk=chunk,
            microbatches=microbatches,
            batch=batch,
            whole=whole,
        )
        compiling.stage_options(
            options, stages=stages, schedule=schedule, checkpoint=checkpoint, devices=devices, balance=balance, batch_norm=batch_norm
        )
        compiling.search_options(options, effort, seed)
        made = compiling.compiled(self._handle, options, device, compiling.thread_count(threads), progress)
        return Compiled(
            _library.make("graph", "compiled_graph", made),
            json.loads(_library.text("compiled_report", made)),
            _library.live_bytes_of(made),
            [Placed.of(each) for each in _library.layout_of(made)],
        )

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
        """Remarks for the user on how `Graph.load` read an ONNX model, and on what `compile` chose; otherwise empty."""
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
        return "<isthmus.Graph>"

    def __reduce__(self) -> tuple[object, ...]:
        return Graph.from_text, (self.to_text(),)


@dataclass(frozen=True)
class Placed:
    """Where a value that a node makes lies, or its workspace."""

    name: str
    """The name of the value, or of the node that has the workspace."""
    node: int
    """Counts the graph's nodes from 0."""
    is_workspace: bool
    is_on_host: bool
    bytes: int
    offset: int | None
    """In the arena, or in the host's memory; None in an input's memory."""

    @classmethod
    def of(cls, p: Any) -> Placed:
        name = p.name.decode("utf-8", "surrogateescape")
        return cls(name, p.node, bool(p.is_workspace), bool(p.is_on_host), p.bytes, None if p.offset < 0 else p.offset)


class Compiled(Graph):
    """A graph that `Graph.compile` made, and what its plan promises."""

    def __init__(self, handle: Handle, report: dict[str, Any], live_bytes: list[int], layout: list[Placed]) -> None:
        super().__init__(handle)
        self.report = report
        """The figures, with the keys of the command line's --report."""
        self.live_bytes = live_bytes
        """The bytes in the arena while each node runs, in order; empty for a step over several devices, each of which has an arena of its own."""
        self.layout = layout
        """In the order of nodes; empty likewise."""

    def __repr__(self) -> str:
        r = self.report
        return (
            f"<isthmus.Compiled: peak {r['predicted_peak_bytes']} of {r['baseline_peak_bytes']} bytes, "
            f"cost {r['recompute_overhead']:+.1%}>"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.to_text(), self.report, self.live_bytes, self.layout)


def _restored(text: str, report: dict[str, Any], live_bytes: list[int], layout: list[Placed]) -> Compiled:
    return Compiled(Graph.from_text(text)._handle, report, live_bytes, layout)


def _encoded(path: str | os.PathLike[str]) -> bytes:
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise BadInput(f"a path holds a zero byte: {path!r}")
    return encoded
