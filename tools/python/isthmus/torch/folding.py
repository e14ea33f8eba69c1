"""Folds equal layers of a model into one line: "h.0-5.attn x 6"."""

from __future__ import annotations

from collections.abc import Sequence


def template(path: str) -> tuple[str, ...]:
    """Returns the parts of a module's path with "#" for each number. Layers of one kind have equal ones."""
    return tuple("#" if part.isdecimal() else part for part in path.split("."))


def folded(paths: Sequence[str]) -> str:
    """Returns one text for paths with equal templates, with the number of paths if there are several."""
    parts = []
    for values in zip(*(path.split(".") for path in paths), strict=True):
        different = list(dict.fromkeys(values))
        parts.append(different[0] if len(different) == 1 else _ranges(sorted(map(int, different))))
    return f"{'.'.join(parts)} x {len(paths)}" if len(paths) > 1 else paths[0]


def _ranges(numbers: Sequence[int]) -> str:
    """Returns "0-2,5" for 0, 1, 2 and 5."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
