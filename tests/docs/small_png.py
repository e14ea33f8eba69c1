"""Makes a PNG file small: at most 256 colours. Standard library only."""

import collections
import struct
import zlib


def _chunks(png):
    at = 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += 12 + length


def _rows(data, width, height, channels):
    """Undoes the filters of the rows (PNG specification, section 9)."""
    stride, at, before = width * channels, 0, bytearray(width * channels)
    for _ in range(height):
        kind, row = data[at], bytearray(data[at + 1 : at + 1 + stride])
        at += 1 + stride
        for i in range(stride if kind else 0):
            left = row[i - channels] if i >= channels else 0
            up, corner = before[i], before[i - channels] if i >= channels else 0
            if kind == 4:
                guess = left + up - corner
                nearest = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            else:
                nearest = (left, up, (left + up) // 2)[kind - 1]
            row[i] = (row[i] + nearest) & 255
        yield bytes(row)
        before = row


def small_png(png):
    """Takes and returns the bytes of a file; 8 bits a channel, no interlacing."""
    parts = list(_chunks(png))
    width, height, _, colour = struct.unpack(">IIBB", parts[0][1][:10])
    channels = {2: 3, 6: 4}[colour]
    data = zlib.decompress(b"".join(body for kind, body in parts if kind == b"IDAT"))
    rows = [[row[i : i + 3] for i in range(0, len(row), channels)] for row in _rows(data, width, height, channels)]
    palette = [c for c, _ in collections.Counter(c for row in rows for c in row).most_common(256)]
    index = {c: i for i, c in enumerate(palette)}

    def nearest(c):
        if c not in index:
            index[c] = min(range(len(palette)), key=lambda i: sum((a - b) ** 2 for a, b in zip(c, palette[i])))
        return index[c]

    packed = zlib.compress(b"".join(b"\0" + bytes(map(nearest, row)) for row in rows), 9)
    out = b"\x89PNG\r\n\x1a\n"
    for kind, body in ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)), (b"PLTE", b"".join(palette)), (b"IDAT", packed), (b"IEND", b"")):
        out += struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return out
