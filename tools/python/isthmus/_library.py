"""The shared library of isthmus.h: its structs and functions."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any

from ._shared_library import OUT, Handle, SharedLibrary

TEXT, DOT, NOTES = 0, 1, 2  # the values of isthmus_form
JOINT_GRAPH, OPS = 0, 1  # the values of isthmus_problem_form
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
        ("name", c_char_p),
    ]


class Dim(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("size", c_int64)]


class Tie(ctypes.Structure):
    _fields_ = [("a", c_char_p), ("b", c_char_p)]


class LoadOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("num_dims", c_size_t),
        ("dims", POINTER(Dim)),
        ("num_ties", c_size_t),
        ("ties", POINTER(Tie)),
        ("untie", c_char_p),
        ("learn", c_char_p),
        ("allow_outside", c_int32),
    ]


class Target(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("json", c_char_p),
        ("user", c_void_p),
        ("workspace", c_void_p),
        ("first_step", c_void_p),
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


class CompileOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("loss", c_char_p),
        ("wrt", c_char_p),
        ("class_axis", c_int64),
        ("ignore_index", POINTER(c_int64)),
        ("keep_outputs", c_int32),
        ("mode", c_int32),
        ("precision", c_int32),
        ("layout", c_int32),
        ("policy", c_int32),
        ("checkpoints", c_char_p),
        ("budget_bytes", c_int64),
        ("budget_share", c_double),
        ("memory_limit_bytes", c_int64),
        ("max_added", c_double),
        ("allow", c_uint32),
        ("max_inverse_error", c_double),
        ("iterations", c_uint64),
        ("host_memory", c_int64),
        ("link", c_double),
        ("costs", c_char_p),
        ("chunks", POINTER(c_char_p)),
        ("num_chunks", c_size_t),
        ("micro_batches", c_int64),
        ("effort", c_double),
        ("seed", c_uint64),
        ("progress", Progress),
        ("user", c_void_p),
        ("progress_seconds", c_double),
        ("cancelled", POINTER(c_int32)),
        ("stages", c_uint32),
        ("schedule", c_char_p),
        ("checkpoint", c_char_p),
        ("devices", c_char_p),
        ("balance", c_char_p),
        ("batch_norm", c_char_p),
        ("smallest_checkpoint", c_int64),
        ("batch", POINTER(c_char_p)),
        ("num_batch", c_size_t),
    ]


class Placed(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("node", c_uint32),
        ("is_workspace", c_int32),
        ("is_on_host", c_int32),
        ("bytes", c_int64),
        ("offset", c_int64),
    ]


class PageOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("title", c_char_p),
        ("target", c_char_p),
        ("names", POINTER(c_char_p)),
        ("ops", POINTER(c_char_p)),
        ("sources", POINTER(c_char_p)),
        ("types", POINTER(c_char_p)),
        ("chunks", POINTER(c_uint8)),
        ("budget_bytes", c_int64),
        ("reserved_bytes", c_int64),
        ("beside", c_void_p),
        ("beside_name", c_char_p),
        ("snapshot", c_char_p),
        ("snapshot_length", c_size_t),
        ("num_prices", c_size_t),
        ("price_peak", POINTER(c_int64)),
        ("price_cost", POINTER(c_double)),
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


class Factor(ctypes.Structure):
    _fields_ = [("place", c_int32), ("axis", c_uint32), ("factor", c_uint32), ("block", c_int64)]


class Cut(ctypes.Structure):
    _fields_ = [("value", c_uint32), ("axis", c_uint32), ("outer", c_int64)]


class Total(ctypes.Structure):
    _fields_ = [("sum", c_uint32), ("total", c_uint32)]


class RegionParts(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("units", c_int64),
        ("num_ops", c_size_t),
        ("num_stops", c_size_t),
        ("num_cuts", c_size_t),
        ("num_totals", c_size_t),
        ("ops", POINTER(c_uint32)),
        ("stops", POINTER(c_uint32)),
        ("cuts", POINTER(Cut)),
        ("totals", POINTER(Total)),
    ]


class ChunkScore(ctypes.Structure):
    _fields_ = [("is_within", c_int32), ("is_too_dear", c_int32), ("cost", c_double), ("bytes", c_int64)]


class ChunkGoal(ctypes.Structure):
    _fields_ = [("is_smallest", c_int32), ("bytes_for_time", c_double)]


IS_FLOAT, IS_KEPT, IS_LATE = 1, 2, 4
IS_WHOLE, IS_RESHAPE, IS_ADDITION = 1, 2, 4

_library = SharedLibrary(
    "libisthmus.so",
    "ISTHMUS_LIBRARY",
    "isthmus_",
    4,
    {
        "budget_parse": [c_char_p, POINTER(c_int64), POINTER(c_double)],
        "problem_from_arrays": [POINTER(Arrays), OUT],
        "problem_from_json": [c_char_p, c_size_t, OUT],
        "problem_print": [Handle, c_int32, OUT],
        "problem_live_bytes": [Handle, POINTER(c_uint32), c_size_t, POINTER(c_int64)],
        "plan_make": [Handle, POINTER(PlanOptions), OUT],
        "plan_from_schedule": [Handle, POINTER(c_uint32), c_size_t, OUT],
        "plan_figures": [Handle, POINTER(PlanFigures)],
        "plan_page": [Handle, Handle, POINTER(PageOptions), OUT],
        "graph_from_text": [c_char_p, c_size_t, OUT],
        "graph_load": [c_char_p, POINTER(LoadOptions), OUT],
        "graph_save": [Handle, c_char_p],
        "graph_differentiate": [Handle, c_char_p, c_char_p, OUT],
        "graph_print": [Handle, c_int32, OUT],
        "compile": [Handle, POINTER(CompileOptions), c_void_p, OUT],
        "compiled_graph": [Handle, OUT],
        "compiled_report": [Handle, OUT],
        "region_graph_new": [OUT],
        "region_graph_add_value": [Handle, POINTER(c_int64), c_size_t, c_int64, c_uint32],
        "region_graph_add_op": [Handle, POINTER(c_uint32), c_size_t, POINTER(c_uint32), c_size_t, POINTER(Factor), c_size_t, c_uint32],
        "region_graph_cuts": [Handle, c_uint32, POINTER(Cut), c_size_t, POINTER(c_size_t)],
        "region_grow": [Handle, Cut, OUT],
        "region_get_parts": [Handle, POINTER(RegionParts)],
        "chunk_search_new": [POINTER(ChunkGoal), POINTER(ChunkScore), OUT],
        "chunk_search_begin": [Handle, POINTER(c_int64), c_size_t, POINTER(c_int32)],
        "chunk_search_next": [Handle, POINTER(c_size_t), POINTER(c_int64)],
        "chunk_search_tell": [Handle, POINTER(ChunkScore), POINTER(c_int32)],
    },
    {
        "text_data": (c_void_p, [Handle, POINTER(c_size_t)]),
        "text_free": (None, [c_void_p]),
        "problem_free": (None, [c_void_p]),
        "plan_options_init": (None, [POINTER(PlanOptions), c_size_t]),
        "plan_free": (None, [c_void_p]),
        "plan_schedule": (POINTER(c_uint32), [Handle, POINTER(c_size_t)]),
        "graph_free": (None, [c_void_p]),
        "load_options_init": (None, [POINTER(LoadOptions), c_size_t]),
        "compile_options_init": (None, [POINTER(CompileOptions), c_size_t]),
        "compiled_free": (None, [c_void_p]),
        "compiled_live_bytes": (POINTER(c_int64), [Handle, POINTER(c_size_t)]),
        "compiled_layout": (POINTER(Placed), [Handle, POINTER(c_size_t)]),
        "region_graph_free": (None, [c_void_p]),
        "region_free": (None, [c_void_p]),
        "chunk_score_is_better": (c_int32, [POINTER(ChunkGoal), POINTER(ChunkScore), POINTER(ChunkScore)]),
        "chunk_search_free": (None, [c_void_p]),
    },
    "Install the wheel, which has one, or set $ISTHMUS_LIBRARY to the path of one.",
)

call = _library.call
plain = _library.plain


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


def _listed(name: str, handle: Handle) -> list[Any]:
    """Calls a function that gives an array, which the handle owns, and its length."""
    length = c_size_t()
    first = _library.plain(name, handle, length)
    return list(first[: length.value])


def schedule_of(plan: Handle) -> list[int]:
    return _listed("plan_schedule", plan)


def live_bytes_of(compiled: Handle) -> list[int]:
    return _listed("compiled_live_bytes", compiled)


def layout_of(compiled: Handle) -> list[Placed]:
    return _listed("compiled_layout", compiled)


def default_plan_options() -> PlanOptions:
    return _initialized("plan", PlanOptions())


def default_compile_options() -> CompileOptions:
    return _initialized("compile", CompileOptions())


def default_load_options() -> LoadOptions:
    return _initialized("load", LoadOptions())


def _initialized(kind: str, options: Any) -> Any:
    _library.plain(f"{kind}_options_init", options, ctypes.sizeof(options))
    return options
