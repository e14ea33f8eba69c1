"""The shared library of isthmus.h: its structs and functions."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any

from ._shared_library import OUT, Handle, SharedLibrary

TEXT, DOT, NOTES = 0, 1, 2  # the values of isthmus_form
NONE = 2**32 - 1


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
        ("donation_begin", POINTER(c_size_t)),
        ("donation_output", POINTER(c_uint32)),
        ("donation_input", POINTER(c_uint32)),
        ("kind", POINTER(c_uint8)),
        ("of_op", POINTER(c_uint32)),
        ("of_output", POINTER(c_uint32)),
        ("transfer_time", POINTER(c_double)),
        ("overwrite_begin", POINTER(c_size_t)),
        ("overwrite_input", POINTER(c_uint32)),
    ]


class Target(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("num_ops", c_size_t),
        ("workspace", POINTER(c_int64)),
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
        ("place", c_int32),
        ("progress_seconds", c_double),
        ("cancelled", POINTER(c_int32)),
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


_library = SharedLibrary(
    "libisthmus.so",
    "ISTHMUS_LIBRARY",
    "isthmus_",
    2,
    {
        "problem_from_arrays": [POINTER(Arrays), OUT],
        "problem_from_json": [c_char_p, c_size_t, OUT],
        "plan_make": [Handle, POINTER(PlanOptions), OUT],
        "plan_from_schedule": [Handle, POINTER(c_uint32), c_size_t, OUT],
        "plan_figures": [Handle, POINTER(PlanFigures)],
        "graph_from_text": [c_char_p, c_size_t, OUT],
        "graph_load": [c_char_p, c_char_p, OUT],
        "graph_save": [Handle, c_char_p],
        "graph_differentiate": [Handle, c_char_p, c_char_p, OUT],
        "problem_of_graph": [Handle, POINTER(Target), OUT],
        "graph_rematerialize": [Handle, Handle, OUT],
        "graph_print": [Handle, c_int32, OUT],
    },
    {
        "text_data": (c_void_p, [Handle, POINTER(c_size_t)]),
        "text_free": (None, [c_void_p]),
        "problem_free": (None, [c_void_p]),
        "plan_options_init": (None, [POINTER(PlanOptions), c_size_t]),
        "plan_free": (None, [c_void_p]),
        "plan_schedule": (POINTER(c_uint32), [Handle, POINTER(c_size_t)]),
        "graph_free": (None, [c_void_p]),
    },
    "Install the wheel, which has one, or set $ISTHMUS_LIBRARY to the path of one.",
)

call = _library.call


def make(kind: str, name: str, *arguments: Any) -> Handle:
    """Calls a function that makes a handle of a kind."""
    return _library.make(f"{kind}_free", name, *arguments)


def text(name: str, *arguments: Any) -> bytes:
    """Calls a function that makes a text."""
    made = make("text", name, *arguments)
    length = c_size_t()
    data = _library.plain("text_data", made, length)
    return ctypes.string_at(data, length.value)


def version() -> str:
    text: bytes = _library.plain("version")
    return text.decode()


def schedule_of(plan: Handle) -> list[int]:
    length = c_size_t()
    steps = _library.plain("plan_schedule", plan, length)
    return list(steps[: length.value])


def default_plan_options() -> PlanOptions:
    options = PlanOptions()
    _library.plain("plan_options_init", options, ctypes.sizeof(options))
    return options
