"""Shared by tests that need PyTorch: its exporters, and comparisons of arrays."""

import contextlib
import functools
import io
import logging
import warnings

import numpy as np
import torch

logging.disable(logging.WARNING)
warnings.simplefilter("ignore")

# The exporters with their opsets and options. All except the defaults keep batch norms, and the weights' names and
# layouts.
EXPORTERS = {
    "ts13": {"dynamo": False, "opset_version": 13, "do_constant_folding": False},
    "ts17": {"dynamo": False, "opset_version": 17, "do_constant_folding": False},
    "ts20": {"dynamo": False, "opset_version": 20, "do_constant_folding": False},
    "dynamo18": {"dynamo": True, "opset_version": 18, "optimize": False, "external_data": False},
    "dynamo20": {"dynamo": True, "opset_version": 20, "optimize": False, "external_data": False},
    "default": {"dynamo": True, "external_data": True},
    "ts_default": {"dynamo": False},
}


def _remember_functions():
    """Lets the newer exporter parse the source of its 500 functions once for each opset, and not for each module, which takes longer than the
    rest of a small module's export. Without these functions of its own, it parses them each time."""
    with contextlib.suppress(ImportError, AttributeError):
        from torch.onnx._internal.exporter import _decomp, _registration

        table = functools.cache(_decomp.create_onnx_friendly_decomposition_table)
        _registration.ONNXRegistry.from_torchlib = staticmethod(functools.cache(_registration.ONNXRegistry.from_torchlib))
        _decomp.create_onnx_friendly_decomposition_table = lambda ops: dict(table(frozenset(ops)))


_remember_functions()


def export(module, inputs, path, exporter, input_names=("x",), output_names=("y",), **options):
    """Writes an ONNX file without printing the exporter's messages. `inputs` is a tensor, or a tuple of tensors."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        torch.onnx.export(module, inputs if isinstance(inputs, tuple) else (inputs,), path, input_names=list(input_names),
                          output_names=list(output_names), **EXPORTERS[exporter], **options)


def difference(got, want, smallest_scale):
    """Returns the error of `got` as a share of the largest magnitude in `want`, as elements that cancel have the
    rounding errors of their summands. It is infinite if NaN, infinities or integers differ."""
    if want.dtype.kind != "f":
        return 0.0 if np.array_equal(got, want) else float("inf")
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    if not (np.array_equal(finite, np.isfinite(got)) and np.array_equal(got[~finite], want[~finite], equal_nan=True)):
        return float("inf")
    off = np.abs(got[finite] - want[finite]).max(initial=0)
    return float(off / max(smallest_scale, np.abs(want[finite]).max(initial=0)))
