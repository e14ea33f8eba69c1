"""The forms in which a model is exported."""

import contextlib
import hashlib
import io
import logging
import os
import sys
import warnings

import torch
import torchvision
import transformers

logging.disable(logging.WARNING)
warnings.simplefilter("ignore")

# The name of an export in the table and in the file's name.
OLDER = {"older": False, "older_folded": True}  # whether constants are folded
NEWER = {"newer": False, "newer_optimized": True}  # whether the graph is optimised
EXPORTS = [*OLDER, *NEWER]


def version_of(model):
    """Returns the name of the folder of a model's exports, which changes with the model's source or the exporters."""
    digest = hashlib.sha256()
    for name in ("export", "model", "reference", model.make.__module__, "vision_models"):
        with open(sys.modules[name].__file__, "rb") as file:
            digest.update(file.read())
    for package in (torch, torchvision, transformers):
        digest.update(package.__version__.encode())
    return digest.hexdigest()[:12]


def export(module, inputs, outputs, folder, name):
    """Returns {export: path, or the exporter's error}. Existing files are used as they are."""
    os.makedirs(folder, exist_ok=True)
    found = {}
    for kind in OLDER:
        found[kind] = once(f"{folder}/{name}.{kind}.onnx", lambda path: older(module, inputs, outputs, path, OLDER[kind]))
    paths = [f"{folder}/{name}.{kind}.onnx" for kind in NEWER]
    program = None
    for (kind, optimize), path in zip(NEWER.items(), paths):

        def write(path):
            nonlocal program
            if program is None:
                program = newer(module, inputs, outputs)
            if optimize:
                program.optimize()
            program.save(path, external_data=False)

        found[kind] = once(path, write)
    return found


def once(path, write):
    if not os.path.exists(path):
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                write(path + ".tmp")
            os.replace(path + ".tmp", path)
        except Exception as error:  # any exception means that the exporter rejects the model
            return ExportError(f"{type(error).__name__}: {error}")
    return path


class ExportError(str):
    pass


def older(module, inputs, outputs, path, fold):
    torch.onnx.export(
        module,
        tuple(inputs.values()),
        path,
        dynamo=False,
        opset_version=17,
        do_constant_folding=fold,
        input_names=list(inputs),
        output_names=list(outputs),
    )


def newer(module, inputs, outputs):
    return torch.onnx.export(
        module,
        tuple(inputs.values()),
        dynamo=True,
        optimize=False,
        opset_version=20,
        input_names=list(inputs),
        output_names=list(outputs),
        verbose=False,
    )
