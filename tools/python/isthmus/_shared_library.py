"""Finds and loads the shared libraries of this package, calls their functions and raises their errors."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int32, c_void_p
from typing import Any, Callable, Mapping, Sequence

from . import errors

OUT = POINTER(c_void_p)

_OK, _CANNOT_BE_MET = 0, 3
_ERRORS = {
    1: errors.BadInput,
    2: errors.BadInput,  # a wrong call, such as unrelated handles
    3: errors.CannotBeMet,
    4: errors.Unsupported,
    5: errors.Internal,
    6: errors.Cancelled,
    7: errors.OutOfMemory,
}


class Handle:
    """Owns an object of a library, and frees it when nothing refers to it any more."""

    def __init__(self, pointer: c_void_p, free: Callable[[c_void_p], None]) -> None:
        self._as_parameter_ = pointer
        self._free = free

    def __del__(self) -> None:
        self._free(self._as_parameter_)

    @classmethod
    def from_param(cls, given: Any) -> c_void_p:
        """Called by ctypes for a function's parameter. Without this check ctypes would treat any other argument as an
        address."""
        if not isinstance(given, Handle):
            raise TypeError(f"expected what the library made, got {type(given).__name__}")
        return given._as_parameter_

    def __reduce__(self) -> Any:
        raise TypeError("what the library made lives in this process: it can be neither pickled nor copied deeply")


class SharedLibrary:
    """One library: a file beside this package, or the file that an environment variable names."""

    def __init__(
        self,
        file: str,
        variable: str,
        prefix: str,
        abi_version: int,
        fallible: Mapping[str, Sequence[Any]],
        others: Mapping[str, tuple[Any, Sequence[Any]]],
        advice: str,
    ) -> None:
        """Loads the library; ImportError if no file can be used.

        prefix: of its functions' names.
        fallible: the parameters of functions that return a status, without the last one, the error.
        others: the results and parameters of all other functions.
        advice: what the user can do if no file can be used.
        """
        self._file, self._variable, self._prefix, self._advice = file, variable, prefix, advice
        self._abi_version = abi_version
        self._declared = {
            **{name: (c_int32, [*parameters, OUT]) for name, parameters in fallible.items()},
            **others,
            "abi_version": (c_int32, []),
            "version": (c_char_p, []),
            "error_message": (c_char_p, [c_void_p]),
            "error_free": (None, [c_void_p]),
        }
        self._functions = self._load()

    def _candidates(self) -> list[tuple[str, str]]:
        """Paths to try, each with its origin for messages."""
        beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), self._file)
        named = os.environ.get(self._variable)
        return [(beside, "beside the package")] + ([(named, f"${self._variable}")] if named else [])

    def _load(self) -> dict[str, Any]:
        tried = []
        for path, how in self._candidates():
            if not os.path.exists(path):
                tried.append(f"{path} ({how}): there is no such file")
                continue
            try:
                functions = self._functions_of(ctypes.CDLL(path))
            except (OSError, AttributeError) as error:
                tried.append(f"{path} ({how}): {error}")
                continue
            found = functions["abi_version"]()
            if found == self._abi_version:
                return functions
            tried.append(f"{path} ({how}): its interface is version {found}, and this package needs {self._abi_version}")
        if not os.environ.get(self._variable):
            tried.append(f"${self._variable}: not set")
        raise ImportError(f"isthmus found no {self._file} that it can use. It looked for\n  " + "\n  ".join(tried) + f"\n{self._advice}")

    def _functions_of(self, library: ctypes.CDLL) -> dict[str, Any]:
        functions = {}
        for name, (result, parameters) in self._declared.items():
            functions[name] = function = library[self._prefix + name]
            function.restype, function.argtypes = result, parameters
        return functions

    def plain(self, name: str, *arguments: Any) -> Any:
        """Calls a function that cannot fail."""
        return self._functions[name](*arguments)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function that makes no object."""
        error = c_void_p()
        status = self._functions[name](*arguments, error)
        if status != _OK:
            raise self._error(status, error)

    def make(self, free: str, name: str, *arguments: Any) -> Handle:
        """Calls a function that makes an object, which `free` frees. A CannotBeMet has the object in `made`, if there is one."""
        made, error = c_void_p(), c_void_p()
        status = self._functions[name](*arguments, made, error)
        if status == _OK:
            return Handle(made, self._functions[free])
        raised = self._error(status, error)
        if status == _CANNOT_BE_MET and made:
            raised.made = Handle(made, self._functions[free])  # type: ignore[attr-defined]
        try:
            raise raised
        finally:
            del raised  # errors.CannotBeMet.having says why

    def _error(self, status: int, error: c_void_p) -> errors.Error:
        message = self._functions["error_message"](error)
        self._functions["error_free"](error)
        if not message:  # not even for the error
            return errors.OutOfMemory("there is no memory left")
        return _ERRORS.get(status, errors.Internal)(message.decode("utf-8", "replace"))
