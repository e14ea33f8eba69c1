"""ONNX files without the onnx package: writes small models, valid and invalid, and reads initializers.

The wire format is protobuf's, and the numbers are those of the fields in onnx.proto.
"""

import struct

FLOAT, UINT8, INT32, INT64, STRING, BOOL, DOUBLE = 1, 2, 6, 7, 8, 9, 11


def _varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """Returns one field: an integer, bytes or text, a float, or a list of any of them."""
    if isinstance(value, (list, tuple)):
        return b"".join(field(number, v) for v in value)
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, str):
        value = value.encode()
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def tensor(name, dims, values=None, dtype=FLOAT, raw=None, external=None):
    """`raw` are bytes in place of `values`; `external` is a dictionary that describes data in another file."""
    letter = {FLOAT: "f", INT64: "q", INT32: "i", DOUBLE: "d"}.get(dtype, "B")
    out = field(1, list(dims)) + field(2, dtype) + field(8, name)
    if external is not None:
        return out + field(14, 1) + b"".join(field(13, field(1, k) + field(2, str(v))) for k, v in external.items())
    return out + field(9, raw if raw is not None else struct.pack(f"<{len(values)}{letter}", *values))


def value_info(name, shape, dtype=FLOAT):
    """Sizes that are text are symbolic."""
    dims = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, dims)))


def attribute(name, value):
    out = field(1, name)
    if isinstance(value, float):
        return out + field(2, value) + field(20, 1)
    if isinstance(value, int):
        return out + field(3, value) + field(20, 2)
    if isinstance(value, str):
        return out + field(4, value) + field(20, 3)
    if isinstance(value, bytes):  # a tensor
        return out + field(5, value) + field(20, 4)
    return out + field(8, list(value)) + field(20, 7)


def node(op, inputs, outputs, name="", domain="", **attributes):
    return (
        field(1, list(inputs))
        + field(2, list(outputs))
        + field(3, name or f"{op}_{outputs[0]}")
        + field(4, op)
        + field(5, [attribute(k, v) for k, v in attributes.items()])
        + (field(7, domain) if domain else b"")
    )


def graph(nodes, inputs, outputs, initializers=()):
    return (
        field(1, list(nodes))
        + field(2, "g")
        + field(5, list(initializers))
        + field(11, list(inputs))
        + field(12, list(outputs))
    )


def model(*args, opset=17, **kwargs):
    """Returns a file's bytes; the arguments are those of graph()."""
    opsets = b"" if opset is None else field(8, field(2, opset))
    return field(1, 8) + field(2, "test") + field(7, graph(*args, **kwargs)) + opsets


def _fields(data):
    """Yields (number, value) for each field; the value is None for kinds that are not needed here."""
    at = 0

    def varint():
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        elif kind == 2:
            size = varint()
            yield key >> 3, data[at : at + size]
            at += size
        else:
            at += 4 if kind == 5 else 8
            yield key >> 3, None


def float_initializers(content):
    """Returns the raw bytes of each f32 initializer that has raw data, by name."""
    found = {}
    body = next(v for n, v in _fields(memoryview(content)) if n == 7)
    for number, value in _fields(body):
        if number == 5:
            parts = dict(_fields(value))
            if parts.get(2) == FLOAT and 9 in parts:
                found[bytes(parts[8]).decode()] = bytes(parts[9])
    return found
