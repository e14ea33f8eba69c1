"""Tells when a function that torch.compile returned is called, and when a backward runs.

Neither needs a compiled graph: PyTorch may run a whole function without compiling any of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._dynamo.repro.after_dynamo import WrapBackendDebug
from torch._guards import TracingContext

from .autograd import is_in_backward

Around = Callable[[], AbstractContextManager[Any]]


def around_calls(backend: Callable[..., Any], of_options: Callable[[Mapping[str, Any]], Around]) -> None:
    """Enters a context around each call of a function that was compiled with `backend`. of_options: returns the function that makes the context,
    for the options that torch.compile was given."""
    WrapBackendDebug.backend_ctx_ctor = _Constructor(backend, of_options)  # type: ignore[attr-defined]


class _Constructor:
    """Dynamo looks this attribute up on the backend, which it has wrapped, when torch.compile is called. For other backends there is none."""

    def __init__(self, backend: Callable[..., Any], of_options: Callable[[Mapping[str, Any]], Around]) -> None:
        self._backend, self._of_options = backend, of_options

    def __get__(self, wrapped: Any, owner: type | None = None) -> Any:
        compiler = getattr(wrapped, "_torchdynamo_orig_backend", None)
        if getattr(compiler, "compiler_fn", None) is not self._backend:
            raise AttributeError("backend_ctx_ctor")
        return self._of_options(compiler.kwargs.get("options") or {})


def around_backwards(around: Callable[[Sequence[Any], bool], AbstractContextManager[Any]]) -> None:
    """Enters a context around each backward: all calls of `Tensor.backward`, `torch.autograd.backward` and `torch.autograd.grad` that are not part of
    another backward. around: is given the tensors whose gradient is taken, and True if the graph is kept for another backward."""
    run = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

    @functools.wraps(run)
    def watched(roots: Sequence[Any], gradients: Any, keeps_graph: bool, *args: Any, **kwargs: Any) -> Any:
        traces = TracingContext.try_get() is not None  # PyTorch traces a gradient; nothing is computed
        if traces or is_in_backward():  # it is part of another, as that of a reentrant checkpoint, or of a loop that is run op by op
            return run(roots, gradients, keeps_graph, *args, **kwargs)
        with around(roots, bool(keeps_graph)):
            try:
                return run(roots, gradients, keeps_graph, *args, **kwargs)
            except RuntimeError as e:
                if "does not currently support double backward" not in str(e):
                    raise
                raise RuntimeError(f"{e}; {_DOUBLE_BACKWARD}") from e

    torch.autograd._engine_run_backward = watched  # type: ignore[attr-defined]


_DOUBLE_BACKWARD = (
    "to differentiate a gradient, take the inner one within the compiled function by torch.func.grad or torch.func.vjp (with torch.func.functional_call "
    "for a module), in place of torch.autograd.grad: PyTorch then traces both"
)


def uncompiled(since_us: int = 0) -> list[str]:
    """Returns which functions of the program PyTorch has lately failed to compile, where and why. It runs them op by op. since_us: a time in
    microseconds since the epoch. A function that was compiled too often before is not tried again, so it is named if there is no other."""
    found, limited = [], []
    for each in torch._dynamo.utils.get_compilation_metrics():
        is_new = (each.start_time_us or 0) >= since_us
        why = str(each.fail_reason) if each.fail_type and each.fail_reason else ""
        if "recompile_limit" in why:
            (found if is_new else limited).append(_too_often(each.recompile_reason or ""))
            continue
        if not why and each.restart_reasons and not each.graph_op_count:  # PyTorch broke off before the first op
            why = min(each.restart_reasons)
        if why and is_new:
            where = f"{each.fail_user_frame_filename or each.co_filename}:{each.fail_user_frame_lineno or each.co_firstlineno}"
            found.append(f"{each.co_name} ({where}): {why.strip().splitlines()[0]}")
    return list(dict.fromkeys(found or limited[-1:]))


def _too_often(why: str) -> str:
    because = f", the last time because {why.strip().splitlines()[0]}" if why else ""
    return (
        f"a function again, which it has compiled as often as torch._dynamo.config.recompile_limit ({torch._dynamo.config.recompile_limit}) allows{because}: "
        "call torch.compiler.reset() before another model is compiled, or raise the limit"
    )

