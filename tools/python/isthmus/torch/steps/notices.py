"""Tells the program of budgets that are not kept: by an error, which all ranks raise together, or by a warning."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

from ...errors import CannotBeMet
from ..options import Options
from ..ranks.refusals import Refusals
from . import program
from .step import Step


class Notices:
    def __init__(self, options: Options) -> None:
        self._may_refuse = options.strict and not options.sync
        self._refusals = Refusals()
        self.has_told = False
        """The ranks will refuse a step."""
        self._refused: weakref.WeakKeyDictionary[Any, CannotBeMet] = weakref.WeakKeyDictionary()  # by the function that began the step
        self._warned: set[str] = set()

    def forget(self) -> None:
        """Lets steps run that were refused, because something was compiled since."""
        self._refused.clear()

    def begin_anew(self) -> None:
        """Tells again what was told, because another function begins steps."""
        self._warned.clear()

    def raise_again(self, function: object) -> None:
        """Raises what steps were refused for that began with a call of this function."""
        if function in self._refused:
            kept = self._refused[function]
            raise CannotBeMet.having(str(kept), kept.plan)

    def refuse(self, step: Step, error: CannotBeMet) -> None:
        """Raises the error, or has all ranks raise it at the end of a later step; if not strict, warns."""
        if not self._may_refuse:
            self.warn_once(str(error))
        elif self.has_told or self._refusals.tell(step.number, str(error)):
            self.has_told = True
            self.warn_once(f"{error}; all ranks raise this at the end of a later step")
        else:
            self._raise(step, error)

    def listen(self, step: Step) -> None:
        """Raises what a rank refuses, if this is the step at whose end all ranks do. It is called once or more at the end of a step."""
        if step.has_listened or not self._may_refuse:
            return
        step.has_listened = True
        why = self._refusals.heard(step.number)
        if why is not None:
            self.has_told = False
            self._raise(step, CannotBeMet(why))

    def _raise(self, step: Step, error: CannotBeMet) -> None:
        """Raises the error, now and at each later step until something is compiled."""
        step.stop_watching()
        self._refused[step.function] = CannotBeMet.having(str(error), error.plan)
        raise CannotBeMet.having(str(error), error.plan)

    def warn_once(self, text: str) -> None:
        kind = text.partition(":")[0]
        if kind not in self._warned:
            self._warned.add(kind)
            file, _, line = (program.place() or "isthmus:0").rpartition(":")
            warnings.warn_explicit(text, UserWarning, file, int(line))
