"""Understands amounts of memory as people write them, and asks where two readings are likely."""

from __future__ import annotations

import math
import re

from ..budget import BudgetLike, parse_budget
from ..errors import BadInput

MIB = 1 << 20
OF_GRAPH = " of graph"
"""The end of a share that is one of the step without any recomputation."""
_LEAST_BYTES = 1024
"""A number below this is hardly one of bytes."""
_NUMBER = re.compile(r"\d+(\.\d+)?|\.\d+")
_UNIT = re.compile(r"\s*([\d.]+)\s*(k|m|g|t)(i?)b?\s*", re.IGNORECASE)


def understood(amount: BudgetLike) -> BudgetLike:
    """Returns an amount in a form that `parse_budget` takes: 0.5 is "50%", "24gb" is "24GB". Raises BadInput for a number that may be bytes or
    percent, and for what is no amount."""
    if isinstance(amount, str):
        return _of_text(amount)
    if isinstance(amount, float):
        return _of_number(amount)
    parsed = parse_budget(amount)
    return _of_number(parsed.bytes) if parsed.bytes else amount


def _of_text(text: str) -> BudgetLike:
    if text.strip().endswith("% of graph"):
        return f"{_of_text(text.strip().removesuffix(OF_GRAPH))}{OF_GRAPH}"
    if _NUMBER.fullmatch(text.strip()):
        number = float(text)
        return _of_number(int(number) if number.is_integer() and "." not in text else number)
    unit = _UNIT.fullmatch(text)
    if unit is not None:
        number, prefix, binary = unit.groups()
        text = f"{number}{prefix.upper()}{binary.lower()}B".replace("kB", "KB")
    text = text.strip()
    parse_budget(text)
    return text


def _of_number(number: float) -> BudgetLike:
    if isinstance(number, float):
        if not math.isfinite(number) or number < 0:
            raise BadInput(f"a budget is a size such as '2GiB', or a share such as '50%' or 0.5; got {number!r}")
        if number <= 1:
            return f"{100 * number:g}%"
    if number < _LEAST_BYTES:
        text = f"{number:g}"
        share = f'"{text}%", ' if number <= 100 else ""
        raise BadInput(f'{text} may be bytes or a share: write {share}"{text}MiB" or "{text}GiB" (a share may also be a number such as 0.5)')
    return int(number)


def in_mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB" if size >= MIB // 10 else f"{size / 1024:.1f} KiB"


def in_gib(size: int) -> str:
    return f"{size / (1 << 30):.2f} GiB" if size >= MIB * 100 else in_mib(size)


def share(part: int, whole: int) -> str:
    """Returns a share in percent that is never below the exact one, so that it can be asked for."""
    return f"{math.ceil(1000 * part / max(1, whole)) / 10:.1f}%"


def at_least(size: int) -> str:
    """Returns a short amount that is no less than a size, in a form that can be asked for."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{math.ceil(10 * size / unit) / 10:g}{name}"
    return str(size)
