"""Finds the largest size whose step fits."""

from __future__ import annotations

from collections.abc import Callable

_MOST = 1 << 30


def largest(excess: Callable[[int], int]) -> int:
    """Returns the largest size, from 1 on, for which `excess` is not above zero; 0 if there is none. excess: the bytes that a step of a size takes above
    what there is. It grows with the size, most often in proportion, so that sizes in between are tried where a line is zero."""
    above = excess(1)
    if above > 0:
        return 0
    fits, left, size = 1, above, 2
    while size < _MOST:
        above = excess(size)
        if above > 0:
            break
        rate = max(1, (above - left) // (size - fits))
        fits, left = size, above
        size = min(max(size + 1, size - above // rate + 1), 64 * size)
    else:
        return fits
    while size - fits > 1:
        guess = fits + (size - fits) * -left // max(1, above - left)
        guess = min(max(guess, fits + 1), size - 1)
        found = excess(guess)
        if found > 0:
            size, above = guess, found
        else:
            fits, left = guess, found
    return fits
