"""Reads a JSON file, which may be gzipped, with the care that the command line takes: no device that never ends, no memory out of
proportion to the file, and no text that another program is about to write."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from typing import IO

from .errors import BadInput

_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
# Problems are packed to a tenth or a thirtieth of their text. What unpacks to this many times its size was made to fill the memory.
_MOST_RATIO = 200


def read(path: str | bytes) -> bytes:
    """Returns the text of the file."""
    try:
        with open(path, "rb") as file:
            before = os.fstat(file.fileno())
            is_memory_device = stat.S_ISCHR(before.st_mode) and os.major(before.st_rdev) == 1  # /dev/zero, /dev/urandom
            if is_memory_device or stat.S_ISBLK(before.st_mode):
                raise BadInput(f"cannot read {path!r}: expected a file or a pipe, found a device")
            text = b"".join(_chunks(path, file))
            after = os.fstat(file.fileno())
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"cannot read {path!r}: {getattr(error, 'strerror', None) or error}") from error
    if stat.S_ISREG(before.st_mode) and (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise BadInput(f"{path!r} was changed by another program while it was read; read it again when it is complete")
    return text


class _Counted(io.RawIOBase):
    """A file that counts the bytes that are read from it. (A pipe does not tell.)"""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.count += len(data)
        return data


def _chunks(path: str | bytes, file: io.BufferedReader) -> Iterator[bytes]:
    packed = _Counted(file)
    is_packed = file.peek(2).startswith(_GZIP)
    source: IO[bytes] = gzip.GzipFile(fileobj=packed) if is_packed else packed  # type: ignore[assignment]
    count = 0
    while chunk := source.read(_CHUNK):
        if count == 0 and len(chunk) == _CHUNK and not chunk.lstrip().startswith(b"{"):  # a large file of zeros, perhaps
            raise BadInput(f"cannot read {path!r}: expected a JSON object, and its text begins with {chunk.lstrip()[:8]!r}")
        count += len(chunk)
        if count > _MOST_RATIO * packed.count + _CHUNK:
            raise BadInput(f"cannot read {path!r}: {packed.count} bytes of it unpack to over {_MOST_RATIO} times as many")
        yield chunk
