"""Byte budgets and sizes, spelled as on the command line."""

from __future__ import annotations

import ctypes
import operator
from typing import NamedTuple, SupportsIndex, Union

from . import _library
from .errors import BadInput

BudgetLike = Union[str, SupportsIndex, float]

_MOST_BYTES = 2**62


class Budget(NamedTuple):
    """A number of bytes, a share of the peak without recomputation, or, with neither, "min"."""

    bytes: int | None = None
    share: float | None = None


def parse_budget(budget: BudgetLike) -> Budget:
    """Parses "2GiB", "500MB", a number of bytes, "60%" or the same as a float, 0.6, or "min"."""
    if isinstance(budget, str):
        return _parsed(budget)
    if isinstance(budget, float):
        if not 0 < budget <= 1:
            raise BadInput(f"a budget that is a float is a share, above 0 and at most 1; got {budget}; a number of bytes is an int, and the least that is "
                           "found is 'min'")
        return Budget(share=budget)
    try:
        bytes = operator.index(budget)
    except TypeError:
        bytes = None
    if bytes is None or isinstance(budget, bool):
        raise TypeError(f"a budget is a number of bytes, a share such as 0.6 or a string such as '2GiB', '60%' or 'min'; got {type(budget).__name__}")
    if not 0 <= bytes < _MOST_BYTES:
        raise BadInput(f"a budget is a size from 0 on and below 2^62 bytes; got {bytes}")
    return Budget(bytes=bytes)


def parse_size(size: BudgetLike, what: str) -> int:
    """Parses "2GiB", "500MB" or a number of bytes. what: for messages, such as "a memory limit"."""
    bytes = parse_budget(size).bytes
    if bytes is None:
        raise BadInput(f"{what} is a size such as '2GiB', '500MB' or a number of bytes; got {size!r}")
    return bytes


def parse_share(share: str, what: str) -> float:
    """Parses "50%". what: for messages."""
    digits = share.strip()[:-1]
    if not (share.strip().endswith("%") and digits.replace(".", "", 1).isdecimal()):
        raise BadInput(f"{what} is a share such as '50%'; got {share!r}")
    return float(digits) / 100


def _parsed(text: str) -> Budget:
    bytes, share = ctypes.c_int64(), ctypes.c_double()
    encoded = text.replace("\0", "\ufffd").encode("utf-8", "surrogateescape")
    _library.call("budget_parse", encoded, bytes, share)
    return Budget(bytes=bytes.value if bytes.value >= 0 else None, share=share.value or None)
