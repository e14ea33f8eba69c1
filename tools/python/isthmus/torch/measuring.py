"""Ops run one by one on this device, on made-up operands, to see what they take beside their results, and how long."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from . import hooks, rules
from .costs import signature, sized, tensors_in
from .peak import on_gpu


@dataclass(frozen=True)
class Measured:
    workspace_bytes: int
    """Allocated while the op runs and freed by its end, on top of its results."""
    us: float | None
    """The least of the timed runs; None: not timed."""
    storage_bytes: tuple[int, ...]
    """Of each result: a kernel may have made a larger one than its tensor needs, as the loss of mse_loss has."""


def measure(nodes: Iterable[fx.Node], *, runs: int) -> dict[str, Measured]:
    """Of each signature once. Ops that cannot run on made-up operands are left out. runs: how often each is timed, 0: not at all.

    The generators' states are those of before afterwards. Beside what is there, memory is taken for one op's operands at a time.
    """
    distinct: dict[str, fx.Node] = {}
    for node in nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) and not rules.communicates(node) and not rules.mutates(node):
            distinct.setdefault(signature(node), node)
    values = [t for n in distinct.values() for t in tensors_in(n.meta.get("val"))]
    found: dict[str, Measured] = {}
    with hooks.outside_of_tracing(), torch.random.fork_rng(devices=_devices(values)), torch.no_grad():
        calls = {}
        for key, node in distinct.items():
            seconds = _timed(node, runs)  # also where nothing is timed: what is allocated once for all is then there
            if seconds is not None:
                calls[key] = (node, seconds)
        workspaces = _workspaces([node for node, _ in calls.values()])
        for (key, (_, seconds)), (workspace, storages) in zip(calls.items(), workspaces):
            found[key] = Measured(workspace, seconds * 1e6 if runs else None, storages)
    return found


_known: dict[tuple[str, bool], Measured | None] = {}


def known(nodes: Iterable[fx.Node], *, runs: int) -> dict[str, Measured]:
    """As `measure`, with what this process has measured before."""
    keys = {signature(node): node for node in nodes if node.op == "call_function"}
    new = {key: node for key, node in keys.items() if (key, runs > 0) not in _known}
    found = measure(new.values(), runs=runs)
    _known.update({(key, runs > 0): found.get(key) for key in new})
    return {key: m for key in keys if (m := _known[key, runs > 0]) is not None}


def _devices(values: Iterable[torch.Tensor]) -> list[torch.device]:
    return list({t.device for t in values if t.device.type == "cuda"})


def _made_up(value: Any) -> Any:
    """A tensor of that shape, strides and dtype: small numbers, or zeros where it may hold indices."""
    if isinstance(value, torch.Tensor):
        shape, stride = [sized(s) for s in value.shape], [sized(s) for s in value.stride()]
        made = torch.empty_strided(shape, stride, dtype=value.dtype, device=value.device)
        return made.uniform_(0.25, 0.75) if value.dtype.is_floating_point else made.zero_()
    return sized(value) if isinstance(value, torch.SymInt) else value


def _operands(node: fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    made: dict[fx.Node, Any] = {}

    def value(x: Any) -> Any:
        if isinstance(x, fx.Node):
            if x not in made:
                made[x] = pytree.tree_map(_made_up, x.meta.get("val"))
            return made[x]
        return x

    return pytree.tree_map_only(fx.Node, value, (node.args, dict(node.kwargs)))


def _wait(node: fx.Node) -> None:
    if any(t.device.type == "cuda" for t in tensors_in(node.meta.get("val"))):
        torch.cuda.synchronize()


def _timed(node: fx.Node, runs: int) -> float | None:
    """The shortest of some runs after a first one, seconds; None where the op refuses its operands, or its results have no storages."""
    try:
        args, kwargs = _operands(node)
        _bytes(node.target(*args, **kwargs))  # type: ignore[operator]
        least = float("inf")
        for _ in range(runs):
            _wait(node)
            start = time.perf_counter()
            node.target(*args, **kwargs)  # type: ignore[operator]
            _wait(node)
            least = min(least, time.perf_counter() - start)
        return least
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
        return None


_Allocated = tuple[int, tuple[int, ...]]  # for itself, and for each result


def _workspaces(nodes: list[fx.Node]) -> list[_Allocated]:
    on_cpu = [n for n in nodes if not _devices(tensors_in(n.meta.get("val")))]
    found = dict(zip(on_cpu, _on_cpu(on_cpu)))
    return [found[n] if n in found else _on_cuda(n) for n in nodes]


def _on_cpu(nodes: list[fx.Node]) -> list[_Allocated]:
    made = []
    with hooks.allocations_on_cpu() as allocations:
        for node in nodes:
            args, kwargs = _operands(node)
            with allocations.part():
                results = node.target(*args, **kwargs)  # type: ignore[operator]
            made.append((_bytes(results), _storages(results)))
            del results
    return [(max(0, peak - total), storages) for peak, (total, storages) in zip(allocations.peaks, made)]


def _on_cuda(node: fx.Node) -> _Allocated:
    args, kwargs = _operands(node)
    (device, *_) = _devices(tensors_in(node.meta.get("val")))
    peak, results = on_gpu(lambda: node.target(*args, **kwargs), device)  # type: ignore[operator]
    return max(0, peak - _bytes(results)), _storages(results)


def _bytes(results: Any) -> int:
    """Of the storages that were made; a view's operand is counted too, and then the workspace comes out as 0, which it is."""
    storages = {hooks.storage_id(t): t.untyped_storage().nbytes() for t in tensors_in(results)}
    return sum(storages.values())


def _storages(results: Any) -> tuple[int, ...]:
    return tuple(t.untyped_storage().nbytes() for t in tensors_in(results))
