"""Exceptions, one for each status of the library, with the library's text."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from .planning import Plan


class Error(Exception):
    """The base of all that this package raises by itself."""


class BadInput(Error, ValueError):
    """What was given is wrong or unreadable."""


class CannotBeMet(Error):
    """No plan within the budget was found. `plan` is the one of the least peak that was."""

    plan: Plan | None = None


class Unsupported(Error, NotImplementedError):
    """What was given is right, but not supported."""


class Internal(Error):
    """A bug of the library, or no memory is left."""


class Cancelled(Error):
    """The progress function ended the search before a plan within the budget was found."""
