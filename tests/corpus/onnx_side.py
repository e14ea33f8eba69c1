"""Reads ONNX files, and runs them in ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


def constants(model):
    """Returns {name: TensorProto} of initializers, of Constant nodes, and of Identities of either."""
    found = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            found[node.output[0]] = node.attribute[0].t
        elif node.op_type == "Identity" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


def floats(model):
    """Returns {name: array} of the float constants."""
    return {n: np.asarray(numpy_helper.to_array(t)) for n, t in constants(model).items() if t.data_type in FLOATS}


def averages(model):
    """Returns the names that batch norms read as their means."""
    return {n.input[3] for n in model.graph.node if n.op_type == "BatchNormalization"}


def has_signature(model):
    return any(p.key == "pkg.torch.export.ExportedProgram.graph_signature" for p in model.graph.metadata_props)


def session(model, optimize=True):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        model if isinstance(model, str) else model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def refusal(path):
    """Returns why ONNX Runtime does not load the file; empty if it does."""
    try:
        session(path)
        return ""
    except Exception as error:  # the file is at fault
        return str(error).splitlines()[0]


def run(session, inputs):
    """Runs a session and returns {name: array}. Inputs that the model does not have are ignored."""
    known = {i.name for i in session.get_inputs()} | {i.name for i in session.get_overridable_initializers()}
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, {n: np.asarray(v) for n, v in inputs.items() if n in known})))


def with_open(model, names):
    """Returns a copy of the model in which constants of these names can be fed."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    tensors = constants(model)
    kept = [n for n in copy.graph.node if not set(n.output) & set(names)]
    del copy.graph.node[:]
    copy.graph.node.extend(kept)
    left = [t for t in copy.graph.initializer if t.name not in names]
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(left)
    for name in names:
        copy.graph.input.append(onnx.helper.make_tensor_value_info(name, tensors[name].data_type, list(tensors[name].dims)))
    return copy
