"""Runs ops one by one on this device, on made-up operands, to measure their workspaces and times."""

from __future__ import annotations

import contextlib
import operator
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from .. import hooks
from ..peak import on_gpu
from . import bodies, rules
from .costs import signature
from .sizes import STRIDES, sized, strides_of, tensors_in


@dataclass(frozen=True)
class Measured:
    workspace_bytes: int
    """The bytes that the op allocates beyond its results, and frees before it ends."""
    us: float | None
    """The shortest of the timed runs, in microseconds; None: not timed."""
    storage_bytes: tuple[int, ...]
    """The bytes of each result's storage. A kernel may make a larger storage than the tensor needs, as mse_loss does for its loss."""
    strides: tuple[tuple[int, ...], ...]
    """The strides of each result."""


def measure(nodes: Iterable[fx.Node], *, runs: int) -> dict[str, Measured]:
    """Measures one op of each signature and returns the results by signature. Ops that cannot run on made-up operands are left out.
    runs: how often each op is timed; 0: not at all.

    If a kernel's results have other strides than the traced ones, the strides are noted in the node's meta, and its readers are measured
    with them. The states of random generators are restored. The memory needed is that of one op's operands at a time.
    """
    return hooks.unprofiled(lambda: _measure(nodes, runs, {}))


_known: dict[tuple[str, bool], Measured | None] = {}


def known(nodes: Iterable[fx.Node], *, runs: int) -> dict[str, Measured]:
    """Does the same as `measure`, but reuses earlier measurements of this process."""
    before = {key: m for (key, timed), m in _known.items() if timed == (runs > 0)}
    found = hooks.unprofiled(lambda: _measure(nodes, runs, before))
    _known.update({(key, runs > 0): m for key, m in before.items()})
    return found


def _measure(nodes: Iterable[fx.Node], runs: int, known: dict[str, Measured | None]) -> dict[str, Measured]:
    """known: measurements by signature, to which new ones are added. None: the op cannot run."""
    nodes = list(nodes)
    values = [t for n in nodes for t in tensors_in(n.meta.get("val"))]
    seen: dict[str, None] = {}
    counted = _Counted()
    with hooks.outside_of_tracing(), torch.random.fork_rng(devices=_devices(values)), torch.no_grad():
        calls: dict[str, tuple[fx.Node, _Run]] = {}
        with contextlib.nullcontext() if runs else counted.begun():  # a profiler would take a part of the time
            for node in nodes:
                if node.target is operator.getitem:
                    _note_item(node)
                if not _is_measured(node):
                    continue
                key = signature(node)
                seen[key] = None
                if key not in known and key not in calls:
                    run = _timed(node, runs) if runs or _is_on_gpu(node) else counted.run(key, node)
                    if run is None:
                        known[key] = None
                    else:
                        calls[key] = (node, run)
                done = calls[key][1].strides if key in calls else known[key].strides if known[key] else None  # type: ignore[union-attr]
                if done is not None:
                    _note(node, done)
        if runs:
            with counted.begun():
                for key, (node, _) in calls.items():
                    if not _is_on_gpu(node):
                        counted.run(key, node)
        workspaces = counted.workspaces()
        for key, (node, run) in calls.items():
            workspace, storages = _on_cuda(node) if _is_on_gpu(node) else workspaces[key]
            known[key] = Measured(workspace, run.seconds * 1e6 if runs else None, storages, run.strides)
    return {key: m for key in seen if (m := known[key]) is not None}


def _is_measured(node: fx.Node) -> bool:
    """Returns True if the op must run. Views take no time or memory; one runs only to find its strides, if its operand's are not as traced."""
    if rules.is_view(node) and not any(STRIDES in a.meta for a in node.all_input_nodes):
        return False
    is_op = node.op == "call_function" and (isinstance(node.target, torch._ops.OpOverload) or bodies.has_bodies(node))
    return is_op and not rules.communicates(node) and not rules.mutates(node)


def _note(node: fx.Node, strides: Sequence[tuple[int, ...]]) -> None:
    """Notes the strides of the results in the node's meta, if they differ from the traced ones."""
    traced = [tuple(map(sized, t.stride())) for t in tensors_in(node.meta.get("val"))]
    if len(traced) == len(strides) and traced != list(strides):
        node.meta[STRIDES] = tuple(strides)


def _note_item(node: fx.Node) -> None:
    of, k = node.args
    strides = of.meta.get(STRIDES) if isinstance(of, fx.Node) else None
    whole = of.meta.get("val") if isinstance(of, fx.Node) else None
    if strides is None or not isinstance(k, int) or not isinstance(whole, (tuple, list)) or not isinstance(whole[k], torch.Tensor):
        return
    position = sum(isinstance(t, torch.Tensor) for t in whole[:k])  # the result's position among the tensors
    _note(node, [strides[position]])


def _devices(values: Iterable[torch.Tensor]) -> list[torch.device]:
    return list({t.device for t in values if t.device.type == "cuda"})


def _is_on_gpu(node: fx.Node) -> bool:
    return bool(_devices(tensors_in(node.meta.get("val"))))


def _made_up(value: Any, strides: Sequence[int] | None = None) -> Any:
    """Returns a tensor of the same shape, strides and dtype, filled with 0.5, with True, with which most is selected, or with zeros if it may
    hold indices. Random numbers would take longer than most ops."""
    if isinstance(value, torch.Tensor):
        shape, stride = [sized(s) for s in value.shape], strides or [sized(s) for s in value.stride()]
        made = torch.empty_strided(shape, stride, dtype=value.dtype, device=value.device)
        return made.fill_(0.5 if value.dtype.is_floating_point else value.dtype == torch.bool)
    return sized(value) if isinstance(value, torch.SymInt) else value


def _operands(node: fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    made: dict[fx.Node, Any] = {}

    def value(x: fx.Node) -> Any:
        if x not in made and (body := bodies.body_of(x)) is not None:
            made[x] = body
        elif x not in made:
            whole = x.meta.get("val")
            made[x] = _made_up(whole, strides_of(x)) if isinstance(whole, torch.Tensor) else pytree.tree_map(_made_up, whole)
        return made[x]

    return fx.node.map_arg((node.args, dict(node.kwargs)), value)


def _wait(node: fx.Node) -> None:
    if any(t.device.type == "cuda" for t in tensors_in(node.meta.get("val"))):
        torch.cuda.synchronize()


@dataclass(frozen=True)
class _Run:
    seconds: float
    """The shortest of the timed runs; infinite without timed runs."""
    strides: tuple[tuple[int, ...], ...]


def _calls(node: fx.Node) -> list[Callable[[], Any]]:
    """Returns calls of the op on made-up operands, of which one takes the most memory."""
    args, kwargs = _operands(node)
    return bodies.calls(node, args, kwargs)


_REJECTED = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)
"""What an op raises that cannot run on made-up operands, or whose results have no storages."""


def _timed(node: fx.Node, runs: int) -> _Run | None:
    """Runs and times an op. Returns None if the op rejects its operands or its results have no storages."""
    try:
        most = 0.0
        for call in _calls(node):
            results = call()
            _bytes(results)
            strides = _strides(results)
            del results
            most = max(most, min((_seconds(node, call) for _ in range(runs)), default=float("inf")))
        return _Run(most, strides)
    except _REJECTED:
        return None


def _strides(results: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(t.stride()) for t in tensors_in(results))


def _seconds(node: fx.Node, call: Callable[[], Any]) -> float:
    _wait(node)
    start = time.perf_counter()
    call()
    _wait(node)
    return time.perf_counter() - start


_Allocated = tuple[int, tuple[int, ...]]  # bytes: the workspace, and the storage of each result
_Made = tuple[int, tuple[int, ...]]  # bytes: of all results together, and of the storage of each


class _Counted:
    """Runs ops of the CPU, and counts what each allocates. An op may be as long as a part of the step, so it runs once, but for the first of its kind:
    that one makes allocations that happen only once."""

    def __init__(self) -> None:
        self._allocations: hooks.Allocations | None = None
        self._warm: set[Any] = set()
        self._calls = 0
        self._made: dict[str, list[tuple[int, _Made]]] = {}
        """By signature, for each call its number and what it has made."""

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        with hooks.allocations_on_cpu() as self._allocations:
            yield

    def run(self, key: str, node: fx.Node) -> _Run | None:
        """Runs an op, between the begin and the end. Returns None if it rejects its operands."""
        assert self._allocations is not None
        made: list[tuple[int, _Made]] = []
        strides: tuple[tuple[int, ...], ...] = ()
        try:
            for call in _calls(node):
                if node.target not in self._warm:
                    _bytes(call())
                self._calls += 1
                with self._allocations.part():
                    results = call()
                made.append((self._calls - 1, (_bytes(results), _storages(results))))
                strides = _strides(results)
                del results
        except _REJECTED:
            return None
        self._warm.add(node.target)
        self._made[key] = made
        return _Run(float("inf"), strides)

    def workspaces(self) -> dict[str, _Allocated]:
        """Returns what each op has allocated, once the end is reached."""
        peaks = [] if self._allocations is None else self._allocations.peaks
        return {key: _most([(peaks[number], each) for number, each in made]) for key, made in self._made.items()}


def _on_cuda(node: fx.Node) -> _Allocated:
    (device, *_) = _devices(tensors_in(node.meta.get("val")))
    found = []
    for call in _calls(node):
        peak, results = on_gpu(call, device)
        found.append((peak, (_bytes(results), _storages(results))))
        del results
    return _most(found)


def _most(calls: Sequence[tuple[int, _Made]]) -> _Allocated:
    """Returns the largest workspace of an op's calls, given their peaks and results."""
    return max(0, *(peak - total for peak, (total, _) in calls)), calls[-1][1][1]


def _bytes(results: Any) -> int:
    """Returns the bytes of the results' storages. For a view that includes its operand's storage; its workspace is then 0, as it should be."""
    storages = {hooks.storage_id(t): t.untyped_storage().nbytes() for t in tensors_in(results)}
    return sum(storages.values())


def _storages(results: Any) -> tuple[int, ...]:
    return tuple(t.untyped_storage().nbytes() for t in tensors_in(results))
