"""Compiles a model so that the whole training stays within what a device has."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from ..errors import BadInput, Error
from .backend import backend
from .device.total import Total
from .options import Options

Model = TypeVar("Model", bound=Callable[..., Any])


def fit(model: Model, optimizer: Any = None, total: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, **options: Any) -> Model:
    """Compiles a model, or a function that returns a loss, and returns it: a model itself, with the same parameters and names, and a function as
    another one.

    total: what the training may hold of its device: bytes as a number or as "24GB"; "gpu", which is the default without a budget, or a share such as
    0.9. Parameters, optimizers' state and what else is live before a step is taken off; `report()` shows the sum.
    optimizer: one optimizer or several. Those that Python knows of when the first step begins are found without it.
    options: others of the backend. fullgraph and dynamic: those of torch.compile.
    Raises BadInput. The first call raises CannotBeMet, without the lines that PyTorch puts around it.
    """
    if not callable(model):
        raise BadInput(f"fit takes a model or a function that returns a loss, got {type(model).__name__}")
    if total is not None or options.get("budget") is None:
        reserve = options.get("reserve")
        options["total"] = Total.of("gpu" if total is None else total, reserve, optimizer)
    Options(**Options.named(options))
    compile = functools.partial(torch.compile, backend=backend, fullgraph=fullgraph, dynamic=dynamic, options=options)
    if not isinstance(model, torch.nn.Module):
        return _plainly(compile(model))  # type: ignore[return-value]
    torch.nn.Module.compile(model, backend=backend, fullgraph=fullgraph, dynamic=dynamic, options=options)  # some classes have another `compile`
    model._compiled_call_impl = _plainly(model._compiled_call_impl)  # type: ignore[arg-type]
    return model


def _plainly(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that raises this package's errors without PyTorch's own around them."""

    @functools.wraps(call)
    def called(*arguments: Any, **named: Any) -> Any:
        try:
            return call(*arguments, **named)
        except Exception as e:
            error = getattr(e, "inner_exception", e)
            if not isinstance(error, Error):
                raise
        try:
            raise error.with_traceback(None) from None
        finally:
            del error  # which holds this frame

    return called
