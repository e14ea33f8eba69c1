"""Long calls of the library, with progress and interrupts.

The library runs on its own thread, and the caller's thread waits. Python runs signal handlers on its main thread, between its own
instructions. A handler that raises an exception, such as that of Ctrl-C, would otherwise raise it inside a progress function that the
library calls, where nothing can catch it. On the caller's thread the exception ends the wait.
"""

from __future__ import annotations

import queue
import threading
from typing import Any, Callable, Generic, Optional, TypeVar

from . import _library

ProgressFunction = Callable[[float, float], Optional[bool]]
T = TypeVar("T")


class Watched(Generic[T]):
    """One call of `body`, which passes the function that it receives to the library as the progress function."""

    def __init__(self, body: Callable[[Any], T], progress: ProgressFunction | None) -> None:
        self._body, self._progress = body, progress
        # Shares and costs, and None at the end.
        self._told: queue.SimpleQueue[tuple[float, float] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._is_cancelled = False
        self._result: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> T:
        """Returns what the body returns. Raises what the body, the progress function or a signal handler raises."""
        worker = threading.Thread(target=self._work, name="isthmus")
        try:
            worker.start()
            while (told := self._told.get()) is not None:
                self._answers.put(self._progress is None or self._progress(*told) is not False)
        except BaseException:
            self._is_cancelled = True
            self._answers.put(False)
            raise
        finally:
            if worker.is_alive():
                worker.join()  # the library stops at its next progress call
        if self._error is not None:
            raise self._error
        return self._result[0]

    def _work(self) -> None:
        try:
            self._result.append(self._body(_library.Progress(self._goes_on)))
        except BaseException as error:
            self._error = error
        finally:
            self._told.put(None)

    # Whether the search goes on. The library asks on the worker's thread.
    def _goes_on(self, user: None, share: float, best_cost: float) -> bool:
        if self._is_cancelled:
            return False
        if self._progress is None:
            return True
        self._told.put((share, best_cost))
        return self._answers.get()
