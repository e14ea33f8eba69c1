"""Pages in HTML that show a plan."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from . import _library
from .errors import BadInput
from .planning import Plan
from .problem import Problem


@dataclass(frozen=True)
class Labels:
    """What people call the ops of a problem. An empty list: nothing is known."""

    names: Sequence[str] = ()
    """By op, a path: dots and slashes divide it into modules. Without them, the names in the problem."""
    ops: Sequence[str] = ()
    """By op, what it does, such as "aten.mm"."""
    sources: Sequence[str] = ()
    """By op, the line of the program that it comes from; "" if unknown."""
    types: Sequence[Sequence[str]] = ()
    """By op, a text for each output, such as "f32[8, 16]"."""
    chunks: Sequence[bool] = ()
    """By op, True if it computes a part of a tensor, or puts parts together."""


def page(
    problem: Problem,
    plan: Plan,
    labels: Labels = Labels(),
    *,
    title: str,
    target: str = "",
    budget_bytes: int | None = None,
    reserved_bytes: int = 0,
    beside: Plan | None = None,
    beside_name: str = "without a plan",
    snapshot: bytes | None = None,
    prices: Sequence[tuple[int, float]] = (),
) -> bytes:
    """Returns a page that shows a plan, and beside it another one of the same problem. reserved_bytes: live at every step, besides what the problem
    knows. beside: None: every op once, in the order of the problem. snapshot: the content of a snapshot of PyTorch's allocator, which is shown in
    place of another plan; `beside_name` is its name. Raises BadInput if it is none. prices: peaks, with the reserved bytes, and costs of other plans, for the
    curve of budgets."""
    plan = _with_handle(problem, plan)
    beside = None if beside is None else _with_handle(problem, beside)
    for name in ("names", "ops", "sources", "types", "chunks"):
        if len(getattr(labels, name)) not in (0, len(problem)):
            raise BadInput(f"{name} has {len(getattr(labels, name))} entries, and the problem has {len(problem)} ops")
    if any(len(types) != len(op.bytes) for types, op in zip(labels.types, problem)):
        raise BadInput("types has a text for each output of each op")
    options = _library.PageOptions(size=ctypes.sizeof(_library.PageOptions))
    options.title, options.target, options.beside_name = map(_bytes, (title, target, beside_name))
    options.names, options.ops, options.sources = map(_texts, (labels.names, labels.ops, labels.sources))
    options.types = _texts([text for types in labels.types for text in types])
    options.chunks = (ctypes.c_uint8 * len(labels.chunks))(*labels.chunks) if labels.chunks else None
    options.budget_bytes = budget_bytes or 0
    options.reserved_bytes = reserved_bytes
    options.snapshot, options.snapshot_length = snapshot, len(snapshot or b"")
    options.num_prices = len(prices)
    options.price_peak = (ctypes.c_int64 * len(prices))(*(peak for peak, _ in prices))
    options.price_cost = (ctypes.c_double * len(prices))(*(cost for _, cost in prices))
    options.beside = None if beside is None else beside._handle._as_parameter_
    return _library.text("plan_page", problem._handle(), plan._handle, options)


def _with_handle(problem: Problem, plan: Plan) -> Plan:
    """Returns the plan with its object of the library, which a plan that was pickled lacks."""
    return plan if plan._handle is not None else Plan.from_schedule(problem, plan.schedule)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace").replace(b"\0", b"")


def _texts(texts: Sequence[str]) -> ctypes.Array[ctypes.c_char_p] | None:
    return (ctypes.c_char_p * len(texts))(*map(_bytes, texts)) if texts else None
