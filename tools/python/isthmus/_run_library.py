"""The shared library of isthmus_run.h, which runs graphs. The first session loads it."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

from ._shared_library import OUT, Handle, SharedLibrary


class Options(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_char_p),
        ("threads", c_int32),
        ("lowers", c_int32),
        ("seed", c_uint64),
    ]


class TensorInfo(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("kind", c_int32),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("sizes", POINTER(c_int64)),
        ("bytes", c_int64),
        ("next_of", c_char_p),
    ]


class Report(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("predicted_peak_bytes", c_int64),
        ("measured_peak_bytes", c_int64),
        ("arena_bytes", c_int64),
        ("persistent_bytes", c_int64),
        ("step_seconds", c_double),
    ]


@functools.lru_cache(maxsize=None)
def _library() -> SharedLibrary:
    return SharedLibrary(
        "libisthmus_run.so",
        "ISTHMUS_RUN_LIBRARY",
        "isthmus_run_",
        3,
        {
            "open": [c_char_p, POINTER(Options), OUT],
            "set": [Handle, c_char_p, c_int32, c_int32, POINTER(c_int64), c_void_p],
            "step": [Handle, c_uint64],
            "get": [Handle, c_char_p, c_void_p, c_size_t],
            "figures": [Handle, POINTER(Report)],
            "target": [POINTER(Options), OUT],
        },
        {
            "options_init": (None, [POINTER(Options), c_size_t]),
            "close": (None, [c_void_p]),
            "target_free": (None, [c_void_p]),
            "inputs": (POINTER(TensorInfo), [Handle, POINTER(c_size_t)]),
            "outputs": (POINTER(TensorInfo), [Handle, POINTER(c_size_t)]),
        },
        "Running graphs needs it, and with it libgomp.so.1 and libdnnl.so.2 (on Debian and Ubuntu: apt install libgomp1 libdnnl2); "
        "all else works without.",
    )


def call(name: str, *arguments: Any) -> None:
    _library().call(name, *arguments)


def default_options() -> Options:
    options = Options()
    _library().plain("options_init", options, ctypes.sizeof(options))
    return options


def opened(path: bytes, options: Options) -> Handle:
    return _library().make("close", "open", path, options)


def target(threads: int) -> Handle:
    """The struct isthmus_target of this machine."""
    options = default_options()
    options.threads = threads
    return _library().make("target_free", "target", options)


def tensors(name: str, session: Handle) -> list[TensorInfo]:
    """Describes the session's inputs or outputs. The session owns the result."""
    count = c_size_t()
    first = _library().plain(name, session, count)
    return list(first[: count.value])
