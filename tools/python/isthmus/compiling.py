"""The options of `Graph.compile` in the form of the library, and the machine to compile for."""

from __future__ import annotations

import ctypes
import json
import math
import numbers
import operator
import os
import sys
from typing import Any, Iterable, Mapping, Sequence, SupportsIndex, TypeVar, Union

from . import _library
from ._shared_library import Handle
from ._watched import ProgressFunction, Watched
from .budget import BudgetLike, parse_budget, parse_share, parse_size
from .errors import BadInput, CannotBeMet

Names = Union[str, Iterable[str]]
Device = Union[str, Mapping[str, Any]]

# Seconds between two calls of the progress function. The search waits for a call until other Python threads release the interpreter, so
# calls must be rare.
PROGRESS_SECONDS = 0.05

_BY_RULE, _EVAL, _AS_WRITTEN = 0, 1, 2
_POLICIES = {"none": 1, "speed": 2, "memory": 3, "collection": 4}
_BUDGET = 5
_LAYOUTS = {"auto": 0, "channels-first": 1, "channels-last": 2}
_PRECISIONS = {"f32": 0, "f64": 1, "bf16": 2, "f16": 3}
_WAYS = {"recompute": 1, "invert": 2, "fetch": 4, "encode": 8, "chunk": 16}

Value = TypeVar("Value")


def step_options(
    options: _library.CompileOptions,
    *,
    loss: str | None,
    wrt: Names | None,
    class_axis: SupportsIndex,
    ignore_index: SupportsIndex | None,
    keep_outputs: bool,
    eval: bool,
    as_written: bool,
    precision: str | None,
    layout: str,
) -> None:
    """Sets what the training step is."""
    options.loss = encoded_loss(loss)
    options.wrt = encoded_names(wrt, "wrt")
    options.class_axis = _int64("class_axis", class_axis)
    if ignore_index is not None:
        options.ignore_index = ctypes.pointer(ctypes.c_int64(_int64("ignore_index", ignore_index)))
    options.keep_outputs = bool(keep_outputs)
    if eval and as_written:
        raise BadInput("eval and as_written exclude each other; give one")
    options.mode = _EVAL if eval else _AS_WRITTEN if as_written else _BY_RULE
    if precision not in (None, "tf32"):  # tf32 is how a GPU multiplies f32
        options.precision = _one_of("a precision", _PRECISIONS, precision)
    options.layout = _one_of("a layout", _LAYOUTS, layout)


def plan_options(
    options: _library.CompileOptions,
    *,
    policy: str | None,
    checkpoints: Names | None,
    smallest_checkpoint: SupportsIndex | None,
    budget: BudgetLike | None,
    memory_limit: BudgetLike | None,
    max_added: str | float | None,
    allow: Names | None,
    max_inverse_error: float | None,
    iterations: SupportsIndex | None,
    host_memory: BudgetLike | None,
    link: BudgetLike | None,
    costs: str | os.PathLike[str] | None,
    chunk: Names | None,
    microbatches: SupportsIndex | None,
    batch: Names | None,
    whole: Names | None,
) -> None:
    """Sets how the plan is chosen."""
    if sum(way is not None for way in (policy, checkpoints, budget)) > 1:
        raise BadInput("policy, checkpoints and budget are ways to choose what is kept; give one of them")
    if policy is not None:
        options.policy = _one_of("a policy", _POLICIES, policy)
    if checkpoints is not None:
        options.policy = _POLICIES["collection"]
        options.checkpoints = encoded_names(checkpoints, "checkpoints")
        if not options.checkpoints:
            raise BadInput("checkpoints are names of values or nodes, and the list is empty")
    if smallest_checkpoint is not None:
        options.smallest_checkpoint = _int64("smallest_checkpoint", smallest_checkpoint)
    if budget is not None:
        wanted = parse_budget(budget)
        options.policy = _BUDGET
        options.budget_bytes = -1 if wanted.bytes is None else wanted.bytes
        options.budget_share = wanted.share or 0.0
    if memory_limit is not None:
        options.memory_limit_bytes = parse_size(memory_limit, "a memory limit")
    if max_added is not None:
        options.max_added = parse_share(max_added, "max_added") if isinstance(max_added, str) else number_of("max_added", max_added)
    _set_ways(options, allow, max_inverse_error, iterations, host_memory, searches=budget is not None or memory_limit is not None)
    if link is not None:
        options.link = float(parse_size(link[:-2] if isinstance(link, str) and link.endswith("/s") else link, "a link's rate, bytes a second,"))
    if chunk is not None:
        options.chunks, options.num_chunks = _texts(_listed("chunk", chunk))
    if microbatches is not None:
        options.micro_batches = _int64("microbatches", microbatches)
    options.batch, options.num_batch = _texts(_listed("batch", batch) + [name + ":whole" for name in _listed("whole", whole)])
    if costs is not None:
        with open(costs, "rb") as file:
            options.costs = file.read()


def stage_options(
    options: _library.CompileOptions,
    *,
    stages: SupportsIndex | None,
    schedule: str | None,
    checkpoint: str | None,
    devices: Names | None,
    balance: str | Iterable[str | float] | None,
    batch_norm: str | None,
) -> None:
    """Sets how the step runs on several devices. The library checks the texts."""
    if stages is not None:
        options.stages = operator.index(stages)
        if operator.index(stages) != options.stages or not options.stages:
            raise BadInput(f"stages are a number from 1 on, got {stages}")
    options.schedule = _text("schedule", schedule)
    options.checkpoint = _text("checkpoint", checkpoint)
    options.devices = _text("devices", devices if devices is None or isinstance(devices, str) else ",".join(devices))
    options.balance = _text("balance", balance if balance is None or isinstance(balance, str) else ",".join(map(str, balance)))
    options.batch_norm = _text("batch_norm", batch_norm)


def _listed(what: str, given: Names | None) -> list[str]:
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
    texts = list(given) if isinstance(given, Iterable) else [given]
    for wrong in (text for text in texts if not isinstance(text, str)):
        raise TypeError(f"{what} is a string or a list of strings, got {type(wrong).__name__}")
    return texts


def _texts(texts: list[str]) -> tuple[ctypes.Array[ctypes.c_char_p], int]:
    return (ctypes.c_char_p * len(texts))(*(encoded(text) for text in texts)), len(texts)


def _text(what: str, given: str | None) -> bytes | None:
    if not isinstance(given, (str, type(None))):
        raise TypeError(f"{what} is a string, got {type(given).__name__}")
    return None if given is None else encoded(given)


def _set_ways(
    options: _library.CompileOptions,
    allow: Names | None,
    max_inverse_error: float | None,
    iterations: SupportsIndex | None,
    host_memory: BudgetLike | None,
    searches: bool,
) -> None:
    if allow is not None and not searches:
        raise BadInput("allow says how a plan within a budget is made; give a budget or a memory limit with it")
    ways = ["recompute"] if allow is None else [way.strip() for way in allow.split(",")] if isinstance(allow, str) else list(allow)
    options.allow = 0
    for way in ways:
        options.allow |= _one_of("a way to allow", _WAYS, way)
    if max_inverse_error is not None:
        options.max_inverse_error = number_of("max_inverse_error", max_inverse_error)
    if iterations is not None:
        options.iterations = _int64("iterations", iterations)
    if "invert" not in ways and (max_inverse_error is not None or iterations is not None):
        raise BadInput("max_inverse_error and iterations are for inverses, so they go with allow='invert'")
    if host_memory is not None:
        if "fetch" not in ways:
            raise BadInput("host_memory bounds what is fetched, so it goes with allow='fetch'")
        options.host_memory = parse_size(host_memory, "host memory")


def search_options(options: Any, effort: float, seed: SupportsIndex) -> None:
    """Sets how a search goes, for options of plans as well."""
    options.effort, options.seed = number_of("effort", effort), seed_of(seed)
    options.progress_seconds = PROGRESS_SECONDS


def watched(progress: ProgressFunction | None, options: Any, kind: str, name: str, *arguments: Any) -> Handle:
    """Calls a function of the library that searches; `arguments` are its own, without the options' watch. Threads run meanwhile."""
    if progress is not None and not callable(progress):
        raise TypeError(f"progress is a function of two numbers, got {type(progress).__name__}")

    def body(callback: Any, cancelled: Any) -> Handle:
        options.progress, options.cancelled = callback, cancelled
        return _library.make(kind, name, *arguments)

    return Watched(body, progress).run()


def compiled(graph: Handle, options: _library.CompileOptions, device: Device, threads: int, progress: ProgressFunction | None) -> Handle:
    """The compiled graph of the library. A CannotBeMet has the report."""
    machine = _Machine(device, threads)
    try:
        return watched(progress, options, "compiled", "compile", graph, options, machine.pointer)
    except CannotBeMet as error:
        made = error.__dict__.pop("made", None)
        error.report = json.loads(_library.text("compiled_report", made)) if made else None
        raise


class _Machine:
    """The machine to compile for: "cpu", this machine; "counting", the same without running anything; "generic", a common machine whose
    kernels have no workspaces; or the content of a target file, as a mapping."""

    def __init__(self, device: Device, threads: int) -> None:
        self._owner: Any = None
        self.pointer: Any = None
        if isinstance(device, Mapping):
            self._owner = _library.Target(size=ctypes.sizeof(_library.Target), json=json.dumps(dict(device)).encode())
        elif device in ("cpu", "counting"):
            self._own_machine(device, threads)
        elif device != "generic":
            raise BadInput(f"a device is 'cpu', 'counting', 'generic' or the content of a target file; got {device!r}")
        if isinstance(self._owner, _library.Target):
            self.pointer = ctypes.cast(ctypes.pointer(self._owner), ctypes.c_void_p)

    def _own_machine(self, device: str, threads: int) -> None:
        from . import _run_library

        try:
            self._of_library = _run_library.target(threads)
        except ImportError as error:
            raise ImportError(f"{error}\nA plan for this machine needs it; device='generic' plans for a common one") from None
        self.pointer = self._of_library._as_parameter_
        if device == "counting":
            own = ctypes.cast(self._of_library._as_parameter_, ctypes.POINTER(_library.Target)).contents
            self._owner = _library.Target(own.size, own.json, own.user, own.workspace, None)


def thread_count(threads: SupportsIndex) -> int:
    count = operator.index(threads)
    if not 0 <= count < 2**16:
        raise BadInput(f"a number of threads is from 0 to {2**16 - 1}, got {count}")
    return count


def encoded_loss(loss: str | None) -> bytes | None:
    return _text("a loss", loss)


def encoded_names(names: Names | None, what: str) -> bytes | None:
    """A string is a list with commas and wildcards; of a list each name stands for itself."""
    if names is None:
        return None
    listed = names if isinstance(names, str) else list(names)
    if not listed:
        raise BadInput(f"{what} names nothing; leave it out for the default")
    if isinstance(listed, str):
        return encoded(listed)
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"{what} is a list of names, and one is of type {type(name).__name__}")
        if '"' in name:
            raise BadInput(f"a name in {what} holds a quote, which a list cannot: {name!r}")
    return encoded(",".join(f'"{name}"' for name in listed))


def encoded(text: str) -> bytes:
    if "\0" in text:
        raise BadInput(f"a name holds a zero byte: {text!r}")
    return utf8(text)


def utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadInput(f"a text is not valid Unicode: {error}") from None


def number_of(what: str, number: float) -> float:
    if not isinstance(number, numbers.Real) or isinstance(number, bool):
        raise TypeError(f"{what} is a number, got {type(number).__name__}")
    if not 0 <= number < math.inf:
        raise BadInput(f"{what} is a number from 0 on, got {number}")
    try:
        return float(number)
    except OverflowError:
        raise BadInput(f"{what} is a number of at most {sys.float_info.max:g}, got a larger one") from None


def _int64(what: str, given: SupportsIndex) -> int:
    number = operator.index(given)
    if not -(2**63) <= number < 2**63:
        raise BadInput(f"{what} is a whole number of 64 bits, got {number}")
    return number


def seed_of(seed: SupportsIndex) -> int:
    number = operator.index(seed)
    if not 0 <= number < 2**64:
        raise BadInput(f"a seed is a whole number from 0 to 2^64 - 1, got {number}")
    return number


def _one_of(what: str, known: Mapping[str, int], given: str) -> int:
    if not isinstance(given, str):
        raise TypeError(f"{what} is a string, got {type(given).__name__}")
    if given not in known:
        raise BadInput(f"{what} is one of {', '.join(known)}; got {given!r}")
    return known[given]
