"""The shared library that this package is a door to: found and loaded once, with the types of its functions (isthmus.h)."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, Callable

from . import errors

_ABI_VERSION = 1
_FILE, _VARIABLE = "libisthmus.so", "ISTHMUS_LIBRARY"

_OK, _CANNOT_BE_MET = 0, 3
_ERRORS = {
    1: errors.BadInput,
    2: errors.BadInput,  # a wrong call, as of handles that do not fit
    3: errors.CannotBeMet,
    4: errors.Unsupported,
    5: errors.Internal,
    6: errors.Cancelled,
}


class Arrays(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("num_ops", c_size_t),
        ("cost", POINTER(c_double)),
        ("workspace", POINTER(c_int64)),
        ("phase", POINTER(c_uint8)),
        ("flags", POINTER(c_uint8)),
        ("names", POINTER(c_char_p)),
        ("output_begin", POINTER(c_size_t)),
        ("output_bytes", POINTER(c_int64)),
        ("input_begin", POINTER(c_size_t)),
        ("input_op", POINTER(c_uint32)),
        ("input_output", POINTER(c_uint32)),
        ("view_of", POINTER(c_int32)),
        ("num_outputs", c_size_t),
        ("output_op", POINTER(c_uint32)),
        ("output_output", POINTER(c_uint32)),
        ("order", c_int32),
        ("num_forward_outputs", c_size_t),
        ("forward_outputs", POINTER(c_uint32)),
        ("alignment", c_int64),
    ]


Progress = ctypes.CFUNCTYPE(c_int32, c_void_p, c_double, c_double)


class PlanOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("budget_bytes", c_int64),
        ("budget_share", c_double),
        ("effort", c_double),
        ("seed", c_uint64),
        ("progress", Progress),
        ("user", c_void_p),
    ]


class PlanFigures(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("baseline_peak_bytes", c_int64),
        ("peak_bytes", c_int64),
        ("output_bytes", c_int64),
        ("lower_bound_bytes", c_int64),
        ("smallest_peak_bytes", c_int64),
        ("baseline_cost", c_double),
        ("cost", c_double),
        ("lower_bound_cost", c_double),
        ("recomputed", c_uint64),
        ("transfers", c_uint64),
    ]


_OUT = POINTER(c_void_p)
# Functions that can fail, without their last parameter, the error.
_FALLIBLE = {
    "problem_from_arrays": [POINTER(Arrays), _OUT],
    "problem_from_json": [c_char_p, c_size_t, _OUT],
    "plan_make": [c_void_p, POINTER(PlanOptions), _OUT],
    "plan_from_schedule": [c_void_p, POINTER(c_uint32), c_size_t, _OUT],
    "plan_figures": [c_void_p, POINTER(PlanFigures)],
}
_OTHERS = {
    "abi_version": (c_int32, []),
    "version": (c_char_p, []),
    "error_message": (c_char_p, [c_void_p]),
    "error_free": (None, [c_void_p]),
    "problem_free": (None, [c_void_p]),
    "plan_options_init": (None, [POINTER(PlanOptions), c_size_t]),
    "plan_free": (None, [c_void_p]),
    "plan_schedule": (POINTER(c_uint32), [c_void_p, POINTER(c_size_t)]),
}


def _declare(library: ctypes.CDLL) -> None:
    for name, parameters in _FALLIBLE.items():
        function = getattr(library, "isthmus_" + name)
        function.restype, function.argtypes = c_int32, [*parameters, _OUT]
    for name, (result, parameters) in _OTHERS.items():
        function = getattr(library, "isthmus_" + name)
        function.restype, function.argtypes = result, parameters


def _candidates() -> list[tuple[str, str]]:
    """Paths, and for messages how each came about."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), _FILE)
    named = os.environ.get(_VARIABLE)
    return [(beside, "beside the package")] + ([(named, f"${_VARIABLE}")] if named else [])


def _load() -> ctypes.CDLL:
    tried = []
    for path, how in _candidates():
        if not os.path.exists(path):
            tried.append(f"{path} ({how}): there is no such file")
            continue
        try:
            library = ctypes.CDLL(path)
            _declare(library)
        except (OSError, AttributeError) as error:
            tried.append(f"{path} ({how}): {error}")
            continue
        if library.isthmus_abi_version() == _ABI_VERSION:
            return library
        tried.append(f"{path} ({how}): its interface is version {library.isthmus_abi_version()}, and this package needs {_ABI_VERSION}")
    if not os.environ.get(_VARIABLE):
        tried.append(f"${_VARIABLE}: not set")
    raise ImportError(
        f"isthmus found no {_FILE} that it can use. It looked for\n  "
        + "\n  ".join(tried)
        + "\nInstall the wheel, which has one, or set $" + _VARIABLE + " to the path of one"
    )


_lib = _load()


class Handle:
    """Owns what the library made, and frees it when nothing refers to it any more."""

    def __init__(self, pointer: c_void_p, kind: str) -> None:
        self._as_parameter_ = pointer
        self._free: Callable[[c_void_p], None] = getattr(_lib, f"isthmus_{kind}_free")

    def __del__(self) -> None:
        self._free(self._as_parameter_)

    def __reduce__(self) -> Any:
        raise TypeError("what the library made lives in this process: it can be neither pickled nor copied deeply")


def _error(status: int, error: c_void_p) -> errors.Error:
    message = _lib.isthmus_error_message(error)
    _lib.isthmus_error_free(error)
    text = message.decode("utf-8", "replace") if message else "there is no memory left"
    return _ERRORS.get(status, errors.Internal)(text)


def call(name: str, *arguments: Any) -> None:
    """Calls a function that makes nothing."""
    error = c_void_p()
    status = getattr(_lib, "isthmus_" + name)(*arguments, error)
    if status != _OK:
        raise _error(status, error)


def make(kind: str, name: str, *arguments: Any) -> Handle:
    """Calls a function that makes something of a kind. Of CannotBeMet, `made` is what was made in spite of it."""
    made, error = c_void_p(), c_void_p()
    status = getattr(_lib, "isthmus_" + name)(*arguments, made, error)
    if status == _OK:
        return Handle(made, kind)
    raised = _error(status, error)
    if status == _CANNOT_BE_MET and made:
        raised.made = Handle(made, kind)  # type: ignore[attr-defined]
    raise raised


def version() -> str:
    return _lib.isthmus_version().decode()


def schedule_of(plan: Handle) -> list[int]:
    length = c_size_t()
    steps = _lib.isthmus_plan_schedule(plan, length)
    return steps[: length.value]


def default_plan_options() -> PlanOptions:
    options = PlanOptions()
    _lib.isthmus_plan_options_init(options, ctypes.sizeof(options))
    return options
