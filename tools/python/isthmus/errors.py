"""Exceptions, one for each status of the library, with the library's text."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """The base of all that this package raises by itself."""


class BadInput(Error, ValueError):
    """What was given is wrong or unreadable."""


class CannotBeMet(Error):
    """No plan within the budget was found. `plan` is the one of the least peak that was, an `isthmus.Plan`, or None."""

    plan: Any = None  # plans are made by a module that raises these errors


class Unsupported(Error, NotImplementedError):
    """What was given is right, but not supported."""


class Internal(Error):
    """A bug of the library, or no memory is left."""


class Cancelled(Error):
    """The progress function ended the search before a plan within the budget was found."""
