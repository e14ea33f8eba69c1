"""Parses byte budgets, with the rules of the command line."""

from __future__ import annotations

import operator
import re
from typing import NamedTuple, SupportsIndex, Union

from .errors import BadInput

BudgetLike = Union[str, SupportsIndex]

_UNITS = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_MOST_BYTES = 2**62


class Budget(NamedTuple):
    """A number of bytes, a share of the peak without recomputation, or, with neither, the least peak that is found."""

    bytes: int | None = None
    share: float | None = None


def parse_budget(budget: BudgetLike) -> Budget:
    """Parses "2GiB", "500MB", a number of bytes, "60%" or "min"."""
    if isinstance(budget, str):
        parsed = _parse(budget)
    else:
        try:
            bytes = operator.index(budget)
        except TypeError:
            bytes = None
        if bytes is None or isinstance(budget, bool):
            raise TypeError(f"a budget is a number of bytes or a string such as '2GiB', '60%' or 'min'; got {type(budget).__name__}")
        parsed = Budget(bytes=bytes) if 0 <= bytes < _MOST_BYTES else None
    if parsed is None:
        raise BadInput(
            "a budget is a size such as '2GiB', '500MB' or a number of bytes, a share of the peak without recomputation "
            f"such as '60%', or 'min'; got {budget!r}"
        )
    return parsed


def _parse(text: str) -> Budget | None:
    if text == "min":
        return Budget()
    match = re.fullmatch(r"([0-9.]+)\s*(%|[A-Za-z]*)\s*", text)
    if not match:
        return None
    digits, unit = match.groups()
    try:
        value = float(digits)
    except ValueError:
        return None
    if unit == "%":
        # For the library a share of zero means "min", so "0%" becomes a budget of zero bytes.
        return Budget(share=value / 100) if value > 0 else Budget(bytes=0)
    scale = _UNITS.get(unit or "B")
    if scale is None or (scale == 1 and "." in digits) or value * scale >= _MOST_BYTES:
        return None
    return Budget(bytes=int(digits) if scale == 1 else int(value * scale + 0.5))
