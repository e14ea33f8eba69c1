"""The symbols of sizes in PyTorch's traced graphs: those of a call's arguments, which are "backed" by a number, and those that depend on the data
of a call, such as how many elements are nonzero, which are not."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

_aten = torch.ops.aten
_SELECTIONS = tuple(
    getattr(_aten, name).default for name in ("nonzero", "masked_select", "_unique2", "unique_consecutive", "unique_dim", "unique_dim_consecutive")
)
"""Ops whose results have at most as many rows as their operands, broadcast, have elements."""
_MOST = 2**62  # PyTorch's own bound of a size of which it knows nothing is a little less than 2**63

_bounds: weakref.WeakKeyDictionary[ShapeEnv, dict[Any, int]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class _Taken:
    """The sizes for which a graph is planned, in place of those of the call that is compiled."""

    sizes: Mapping[str, int]
    least: Mapping[str, int]


_taken = _Taken({}, {})


@contextlib.contextmanager
def taking_sizes(sizes: Mapping[str, int], least: Mapping[str, int] = {}) -> Iterator[None]:
    """Within the block symbolic sizes have these values, by the names of their symbols. least: of sizes that may be smaller in other calls, the
    least that they can be; those calls are then planned too."""
    global _taken
    before, _taken = _taken, _Taken(sizes, least)
    try:
        yield
    finally:
        _taken = before


def value_of(expr: sympy.Expr, env: ShapeEnv | None = None) -> int | None:
    """Returns the value of an expression of symbols for the sizes that are taken; None if none of its symbols is."""
    names = {symbol: _taken.sizes.get(symbol.name) for symbol in expr.free_symbols}
    if all(value is None for value in names.values()):
        return None
    known = {} if env is None else env.backed_var_to_val
    value = expr.xreplace({s: sympy.Integer(known.get(s, 0) if v is None else v) for s, v in names.items() if v is not None or s in known})
    return int(value) if value.is_Integer else None


def most_within(n: Any) -> int:
    """Returns the size that is taken, or the most that it can be for smaller ones, if that is more."""
    size = sized(n)
    if isinstance(n, int) or not _taken.least:
        return size
    known = n.node.shape_env.backed_var_to_val
    ranges = {}
    for symbol in n.node.expr.free_symbols:
        if symbol not in known:
            return size  # it depends on the data of a call
        most = _taken.sizes.get(symbol.name, int(known[symbol]))
        ranges[symbol] = ValueRanges(min(_taken.least.get(symbol.name, most), most), most)
    bound = bound_sympy(n.node.expr, ranges).upper
    return size if bound is int_oo or bound >= _MOST else max(size, int(bound))


def sized(n: Any) -> int:
    """Returns the integer, or for a symbolic one the size that is taken, or its hint. One that depends on the data of a call has no hint: returns the
    most that it can be, or 1 if that is not known."""
    if isinstance(n, int):
        return n
    taken = value_of(n.node.expr, n.node.shape_env) if _taken.sizes else None
    if taken is not None:
        return taken
    return int(n.node.hint) if n.node.has_hint() else most_of(n) or 1


def note_bounds(graph: fx.Graph) -> None:
    """Notes how large the sizes may be that the graph's selections give, which PyTorch does not know where their operands have symbolic sizes."""
    for node in graph.nodes:
        operands = [a.meta["val"] for a in _selecting(node)] if node.meta.get("unbacked_bindings") else []
        if operands:
            shape = torch.broadcast_shapes(*([sized(s) for s in t.shape] for t in operands))
            env = operands[0].fake_mode.shape_env
            for symbol in node.meta["unbacked_bindings"]:
                _bounds.setdefault(env, {})[env.replace(symbol)] = math.prod(shape)


def _selecting(node: fx.Node) -> list[fx.Node]:
    """Returns the operands whose elements are counted in the size of the op's result."""
    if node.target is _aten.index.Tensor:
        return [a for a in node.args[1] if a is not None and a.meta["val"].dtype in (torch.bool, torch.uint8)]
    return [a for a in node.all_input_nodes if isinstance(a.meta.get("val"), torch.Tensor)] if node.target in _SELECTIONS else []


def most_of(n: torch.SymInt) -> int | None:
    """Returns the most that a size without a hint can be, given the sizes of the call that is compiled; None if it is not known."""
    env, expr = n.node.shape_env, n.node.expr
    known = _bounds.get(env, {})
    ranges = {}
    for symbol in expr.free_symbols:
        if symbol in env.backed_var_to_val:
            value = _taken.sizes.get(symbol.name, env.backed_var_to_val[symbol])
            ranges[symbol] = ValueRanges(value, value)
        else:
            lower, upper = env.var_to_range[symbol].lower, env.var_to_range[symbol].upper
            ranges[symbol] = ValueRanges(max(lower, 0), min(upper, known.get(symbol, upper)))
    most = bound_sympy(expr, ranges).upper
    return None if most is int_oo or most >= _MOST else int(most)


def has_backed_sizes(n: torch.SymInt) -> bool:
    """Returns True if the size depends on those of a call's arguments."""
    return any(symbol in n.node.shape_env.backed_var_to_val for symbol in n.node.expr.free_symbols)
