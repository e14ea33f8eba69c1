"""Runs graphs: sets inputs, runs steps, reads outputs. Needs NumPy, and the library that runs graphs."""

from __future__ import annotations

import ctypes
import operator
import os
import tempfile
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Mapping, Protocol, SupportsIndex, runtime_checkable

from . import _run_library as _library
from .errors import BadInput

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike

    Feeds = Mapping[str, ArrayLike]

# Indexed by the library's number of the type. NumPy has no bf16: such tensors are f32 here.
_DTYPES = ("f32", "f64", "bf16", "f16", "i32", "i64", "u8", "bool")
_NUMPY = {"f32": "float32", "f64": "float64", "bf16": "float32", "f16": "float16", "i32": "int32", "i64": "int64", "u8": "uint8",
          "bool": "bool"}
_KINDS = ("input", "param", "state", "const", "output")


@runtime_checkable
class Runnable(Protocol):
    """The methods that a session needs of an `isthmus.Graph`, whose module imports this one."""

    def to_text(self) -> str: ...

    def save(self, path: str | os.PathLike[str]) -> None: ...


@dataclass(frozen=True)
class Tensor:
    """An input or an output of a graph."""

    name: str
    kind: str
    """"input", "param", "state" (carried from step to step), "const" or "output"."""
    dtype: str
    """"f32", "f64", "bf16", "f16", "i32", "i64", "u8" or "bool"."""
    shape: tuple[int, ...]
    next_of: str | None = field(default=None, repr=False)
    """Of an output: the parameter or state whose value for the next step it is."""


@dataclass(frozen=True)
class RunFigures:
    """The figures of a session's last step. Peaks leave out inputs and parameters, which are `persistent_bytes`."""

    predicted_peak_bytes: int
    measured_peak_bytes: int
    arena_bytes: int
    persistent_bytes: int
    step_seconds: float


class Session:
    """A graph, the contents of its inputs, and the memory in which it runs, for running it more than once.

    An input keeps the array that `set` gave it. With `keeps_state`, each step starts with the states (such as running averages) and the updated
    parameters that the previous step left, and draws other random numbers; without it, all steps are the same.
    """

    def __init__(self, graph: Runnable, *, seed: int = 0, threads: int = 0, keeps_state: bool = False, lowers: bool = False) -> None:
        """Loads the graph.

        seed: of random ops, and of inputs that were not set.
        threads: 0: one for each core that this process may use.
        lowers: a graph that `Graph.compile` has not made may be computed in the fastest way on this machine, with another rounding, as the
            command line does.
        """
        if not isinstance(graph, Runnable):
            raise TypeError(f"a session runs an isthmus.Graph, got {type(graph).__name__}")
        options = _library.default_options()
        options.seed = _within(seed, "a seed", 2**64)
        options.threads = _within(threads, "a number of threads", 2**16)
        options.lowers = lowers
        with tempfile.TemporaryDirectory(prefix="isthmus-") as folder:  # the library reads the file now
            path = os.path.join(folder, "graph.isth")
            graph.save(path)
            self._handle = _library.opened(path.encode(), options)
        self.inputs, self.outputs = (_tensors(self._handle, function) for function in ("inputs", "outputs"))
        self._by_name = {tensor.name: tensor for tensor in self.inputs}
        self._keeps_state = keeps_state
        self._steps = 0
        self._lock = threading.Lock()  # the library releases the interpreter while it runs

    def set(self, name: str, array: ArrayLike) -> None:
        """Sets an input for this and later steps. Floats may lose precision by the conversion, integers may not change."""
        with self._lock:
            self._set(self._prepared(name, array))

    def run(self, feeds: Feeds | None = None) -> dict[str, numpy.ndarray]:
        """Runs one step: sets inputs, runs the graph and returns all outputs by name."""
        import numpy

        if not isinstance(feeds, (Mapping, type(None))):
            raise TypeError(f"feeds are a mapping from names to arrays, got {type(feeds).__name__}")
        with self._lock:
            for prepared in [self._prepared(name, array) for name, array in (feeds or {}).items()]:  # all, or on an error none
                self._set(prepared)
            _library.call("step", self._handle, self._steps if self._keeps_state else 0)
            outputs = {}
            for tensor in self.outputs:
                outputs[tensor.name] = _fetched(self._handle, tensor, numpy)
            if self._keeps_state:
                for tensor in self.outputs:
                    if tensor.next_of is not None:
                        self._set(self._prepared(tensor.next_of, outputs[tensor.name]))
            self._steps += 1
            return outputs

    @property
    def figures(self) -> RunFigures:
        """The figures of the last step."""
        report = _library.Report(size=ctypes.sizeof(_library.Report))
        with self._lock:
            _library.call("figures", self._handle, report)
        return RunFigures(**{name: getattr(report, name) for name, *_ in report._fields_ if name != "size"})

    def _prepared(self, name: str, array: ArrayLike) -> tuple[Tensor, numpy.ndarray]:
        import numpy

        if not isinstance(name, str):
            raise TypeError(f"an input's name is a string, got {type(name).__name__}")
        tensor = self._by_name.get(name)
        if tensor is None:
            raise BadInput(f"'{name}' names no input of the graph; it has {', '.join(self._by_name) or 'none'}")
        given = numpy.asarray(array)
        wanted = numpy.dtype(_NUMPY[tensor.dtype])
        if given.shape != tensor.shape:
            raise BadInput(f"input '{name}' is of shape {tensor.shape}, and what is given is of shape {given.shape}")
        if not _suits(given, wanted, numpy):
            raise BadInput(f"input '{name}' is of type {tensor.dtype}, which does not hold what is given, of type {given.dtype}")
        return tensor, numpy.require(given.astype(wanted, copy=False), requirements=["C", "A"])

    def _set(self, prepared: tuple[Tensor, numpy.ndarray]) -> None:
        tensor, data = prepared
        sizes = (ctypes.c_int64 * max(1, data.ndim))(*data.shape)
        dtype = "f32" if tensor.dtype == "bf16" else tensor.dtype
        _library.call(
            "set", self._handle, tensor.name.encode("utf-8", "surrogateescape"), _DTYPES.index(dtype), data.ndim, sizes, data.ctypes.data
        )


# Whether the conversion keeps integers as they are, and floats up to their precision.
def _suits(given: Any, wanted: Any, numpy: Any) -> bool:
    if given.dtype.kind in "iu" and wanted.kind in "iu":
        range_ = numpy.iinfo(wanted)
        return given.size == 0 or bool(range_.min <= given.min() and given.max() <= range_.max)
    return bool(numpy.can_cast(given.dtype, wanted, "same_kind"))


def _fetched(handle: Any, tensor: Tensor, numpy: Any) -> numpy.ndarray:
    raw = numpy.empty(tensor.shape, "uint16" if tensor.dtype == "bf16" else _NUMPY[tensor.dtype])
    _library.call("get", handle, tensor.name.encode("utf-8", "surrogateescape"), raw.ctypes.data, raw.nbytes)
    if tensor.dtype == "bf16":  # the upper half of an f32
        return (raw.astype("uint32") << 16).view("float32").reshape(tensor.shape)
    return raw


def _tensors(handle: Any, function: str) -> list[Tensor]:
    return [
        Tensor(_decoded(t.name), _KINDS[t.kind], _DTYPES[t.dtype], tuple(t.sizes[: t.rank]), _decoded(t.next_of) if t.next_of else None)
        for t in _library.tensors(function, handle)
    ]


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _within(number: SupportsIndex, what: str, end: int) -> int:
    value = operator.index(number)
    if not 0 <= value < end:
        raise BadInput(f"{what} is from 0 to {end - 1}, got {value}")
    return value
