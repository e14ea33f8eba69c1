"""Reads the data of a page of `isthmus view`, as docs/view.md describes it."""

import base64
import json
import re
import struct
import zlib


class PageData:
    def __init__(self, page):
        data = re.search(rb'<script type="text/plain" id="data">([^<]*)</script>', page).group(1)
        self.bytes = zlib.decompress(base64.b64decode(data, validate=True))
        (length,) = struct.unpack("<I", self.bytes[:4])
        self.head = json.loads(self.bytes[4 : 4 + length])
        self.places, at = {}, 4 + length
        for name, form, count, size in self.head["columns"]:
            self.places[name] = form, count, at, size
            at += size
        assert at == len(self.bytes), "the columns do not fill the data"

    def column(self, name):
        form, count, at, size = self.places[name]
        data = self.bytes[at : at + size]
        if form == "u8":
            return list(data)
        if form == "f32":
            return list(struct.unpack(f"<{count}f", data))
        out, value, shift = [], 0, 0
        for byte in data:
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                out.append(value)
                value = shift = 0
        assert len(out) == count, name
        if form == "delta":
            last = 0
            for i, v in enumerate(out):
                last = out[i] = last + (v // 2 if v % 2 == 0 else -(v + 1) // 2)
        return out

    def names(self, prefix="a."):
        text, at, names = bytes(self.column(prefix + "names")), 0, []
        for length in self.column(prefix + "value.name"):
            names.append(text[at : at + length])
            at += length
        return names

    def live_by_kind(self, prefix="a."):
        """Returns {name of a kind: live bytes by node}."""
        step = next(s for s in self.head["steps"] if s["prefix"] == prefix)
        return {self.head["kinds"][k]: self.column(f"{prefix}live.{k}") for k in step["kinds"]}
