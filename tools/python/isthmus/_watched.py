"""Long calls of the library, with progress and interrupts.

The library runs on its own thread, and the caller's thread waits. Python runs signal handlers on its main thread, between its own
instructions. A handler that raises an exception, such as that of Ctrl-C, would otherwise raise it inside a progress function that the
library calls, where nothing can catch it. On the caller's thread the exception ends the wait.

The library's thread is a daemon: nothing waits for it but the caller. When the interpreter exits, a thread that then calls a function of
Python is ended in the midst of the library, which ends the process; so calls are cancelled before, and no more progress is reported.
"""

from __future__ import annotations

import atexit
import ctypes
import queue
import threading
import weakref
from typing import Any, Callable, Generic, Optional, TypeVar

from . import _library

ProgressFunction = Callable[[float, float], Optional[bool]]
T = TypeVar("T")

# Seconds. The library asks a few times a second whether it was cancelled; in some steps of large problems more rarely.
_CANCEL_SECONDS = 0.5


class Watched(Generic[T]):
    """One call of `body`, which puts the progress function and the flag that it receives into the options of the library's function."""

    def __init__(self, body: Callable[[Any, Any], T], progress: ProgressFunction | None) -> None:
        self._body, self._progress = body, progress
        # Shares and costs, and None at the end.
        self._reports: queue.SimpleQueue[tuple[float, float] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._is_cancelled = ctypes.c_int32(0)  # the library reads it
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._is_left = False
        self._worker = threading.Thread(target=self._work, name="isthmus", daemon=True)

    def run(self) -> T:
        """Returns what the body returns. Raises what the body, the progress function or a signal handler raises."""
        self._is_left = threading.current_thread().daemon  # the interpreter's exit leaves it where it is
        _running.add(self)
        try:
            if not (self._is_left and _is_exiting.is_set()) and not self._starts():
                return self._here()
            while (reported := self._reports.get()) is not None:
                self._answers.put(self._progress is None or self._progress(*reported) is not False)
        except BaseException:
            self.cancel()
            self.wait(_CANCEL_SECONDS)  # if the library needs longer, it ends later, by itself
            raise
        self._worker.join()
        self._raise()
        return self._result[0]

    def _raise(self) -> None:
        """Raises what the body raised, if anything, and keeps none of it (`CannotBeMet.having` says why)."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error

    def _starts(self) -> bool:
        """Whether the worker runs now. Python 3.12 starts no threads for what was registered to be done at its exit."""
        try:
            self._worker.start()
        except RuntimeError:
            return False
        return True

    def _here(self) -> T:
        """Runs the body on the caller's thread."""

        def goes_on(user: None, share: float, best_cost: float) -> bool:
            try:
                return self._progress(share, best_cost) is not False
            except BaseException as error:  # raised below: nothing could catch it in the library
                self._error = error
                return False

        try:
            return self._body(_library.Progress(0 if self._progress is None else goes_on), ctypes.pointer(self._is_cancelled))
        finally:
            self._raise()

    def cancel(self) -> None:
        self._is_cancelled.value = 1
        self._answers.put(False)

    def wait(self, seconds: float) -> None:
        if self._worker.is_alive():
            self._worker.join(seconds)

    def _work(self) -> None:
        try:
            progress = _library.Progress(0 if self._progress is None else self._goes_on)
            self._result.append(self._body(progress, ctypes.pointer(self._is_cancelled)))
        except BaseException as error:
            self._error = error
        finally:
            if not (self._is_left and _is_exiting.is_set()):
                self._reports.put(None)

    # Whether the search goes on. The library asks on the worker's thread.
    def _goes_on(self, user: None, share: float, best_cost: float) -> bool:
        if self._is_cancelled.value:
            return False
        self._reports.put((share, best_cost))
        return self._answers.get()


_running: weakref.WeakSet[Watched[Any]] = weakref.WeakSet()
_is_exiting = threading.Event()


def _leave() -> None:
    _is_exiting.set()
    watched = list(_running)
    for each in watched:
        each.cancel()
    for each in watched:
        each.wait(_CANCEL_SECONDS)


atexit.register(_leave)
