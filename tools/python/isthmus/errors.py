"""Exceptions, one for each error status of the library, with the library's message."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """The base of all exceptions that this package defines."""


class BadInput(Error, ValueError):
    """The input is wrong or unreadable."""


class CannotBeMet(Error):
    """No plan within the budget was found.

    plan: of a problem: the plan of the least peak found, an `isthmus.Plan`, or None.
    report: of a graph: what is known, such as `smallest_budget_bytes`, as in `Compiled.report`; or None.
    """

    plan: Any = None  # an isthmus.Plan; its module imports this one
    report: dict[str, Any] | None = None

    @classmethod
    def having(cls, why: str, plan: Any) -> CannotBeMet:
        """Returns an error to be raised where it is made. A frame that holds the error that it raises, in a variable or in an object, holds itself by
        the traceback, and with itself all tensors of its callers, until Python collects garbage."""
        made = cls(why)
        made.plan = plan
        return made


class Unsupported(Error, NotImplementedError):
    """The input is valid, but not supported."""


class OutOfMemory(Error, MemoryError):
    """The memory that is left does not suffice."""


class Internal(Error):
    """A bug of the library."""


class Cancelled(Error):
    """The progress function ended the search before a plan within the budget was found."""
