"""Finds the parameters of PyTorch that a tensor of an exported file holds: by name, by value, or by what exporters compute.

An exporter may keep a parameter, rename it, transpose it, reorder a recurrent layer's gates, merge equal ones, or
multiply a batch norm into a convolution. Each of these also maps the parameter's gradient. Tensors that are computed
from parameters in another way have no counterpart; their gradients are compared with differences of the loss.
"""

from dataclasses import dataclass

import numpy as np
from reference import batch_norms, convolutions_before_norms
from torch import nn


@dataclass
class Form:
    """A tensor that an exporter may write in place of a parameter, and the map from the parameters' gradients to its
    gradient."""

    label: str
    parameters: tuple  # names
    value: np.ndarray
    gradient: object  # {name: array} -> array
    is_exact: bool = True  # whether the values are equal bit for bit; otherwise they are equal up to rounding


def array(t):
    return t.detach().numpy()


def forms(module, inputs):
    """Returns all forms of all parameters, likely ones first."""
    found = []
    parameters = {n: array(p) for n, p in module.named_parameters()}
    for name, value in parameters.items():
        found.append(Form("renamed", (name,), value, lambda g, n=name: g[n]))
        if value.ndim == 2:
            found.append(Form("transposed", (name,), value.T, lambda g, n=name: g[n].T))
    names = {id(p): n for n, p in module.named_parameters()}
    for part in module.modules():
        if isinstance(part, (nn.LSTM, nn.GRU, nn.RNN)):
            found += recurrent_forms(part, names)
    norms = batch_norms(module)
    parts = dict(module.named_modules())
    for norm, conv in convolutions_before_norms(module, inputs).items():
        found += fused_forms(norms[norm], parts[conv], names)
    return found


def recurrent_forms(layer, names):
    """Yields W, R and B of ONNX: with its order of gates, a leading axis of directions, and both biases in one
    tensor."""
    hidden = layer.hidden_size
    order = {nn.LSTM: (0, 3, 1, 2), nn.GRU: (1, 0, 2), nn.RNN: (0,)}[type(layer)]
    rows = np.concatenate([np.arange(g * hidden, (g + 1) * hidden) for g in order])
    directions = ["", "_reverse"] if layer.bidirectional else [""]
    for level in range(layer.num_layers):

        def both(kind):
            return [names[id(getattr(layer, f"{kind}_l{level}{d}"))] for d in directions]

        values = {
            n: array(p)
            for p, n in (
                (getattr(layer, f"{kind}_l{level}{d}"), names[id(getattr(layer, f"{kind}_l{level}{d}"))])
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                for d in directions
            )
        }
        for kind in ("weight_ih", "weight_hh"):

            def weights(v, used=both(kind)):
                return np.stack([v[n][rows] for n in used])

            yield Form("gates reordered", tuple(both(kind)), weights(values), weights)

        def biases(v, inner=both("bias_ih"), outer=both("bias_hh")):
            return np.stack([np.concatenate([v[i][rows], v[o][rows]]) for i, o in zip(inner, outer)])

        yield Form("gates reordered", tuple(both("bias_ih") + both("bias_hh")), biases(values), biases)


def fused_forms(norm, conv, names):
    """Yields the weight and bias of a convolution into which a batch norm is folded."""
    if norm.weight is None or norm.running_var is None:
        return
    factor = array(norm.weight) / np.sqrt(array(norm.running_var) + norm.eps)
    shape = (-1,) + (1,) * (conv.weight.dim() - 1)
    weight, shift = names[id(conv.weight)], names[id(norm.bias)]
    yield Form(
        "batch norm folded",
        (weight,),
        array(conv.weight) * factor.reshape(shape),
        lambda g: g[weight] / factor.reshape(shape),
        is_exact=False,
    )
    before = array(conv.bias) if conv.bias is not None else 0
    yield Form(
        "batch norm folded",
        (shift,),
        (before - array(norm.running_mean)) * factor + array(norm.bias),
        lambda g: g[shift],
        is_exact=False,
    )


def match(parameter, value, known, parameters):
    """Returns the forms that equal a tensor of the file: none, one, or several if the exporter merged equal parameters.
    The parameter with the tensor's own name comes first."""
    # A weight that is computed from others (weight norm) may initially equal one of them.
    known = [f for f in known if not any(".parametrizations." in p and p != parameter for p in f.parameters)]
    exact = [
        f
        for f in known
        if f.is_exact and squeezed(f.value) == squeezed(value) and np.array_equal(f.value.reshape(value.shape), value)
    ]
    if parameter in parameters:
        own = [f for f in exact if f.parameters == (parameter,)][:1]
        exact = own + [f for f in exact if parameter not in f.parameters]
    if exact:  # a weight of one row equals its transpose; one form is enough
        return [f for i, f in enumerate(exact) if f.parameters not in [e.parameters for e in exact[:i]]]
    return [
        f for f in known if not f.is_exact and f.value.shape == value.shape and np.allclose(f.value, value, rtol=1e-4, atol=1e-6)
    ][:1]


def squeezed(a):
    return tuple(d for d in a.shape if d != 1)
