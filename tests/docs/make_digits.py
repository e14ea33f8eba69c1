"""Writes digits.npz: pictures of digits with 8 x 8 points, for pages whose commands train on such a file."""

import random
import struct
import zipfile


def npy(code, shape, data):
    header = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {shape!r}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def pictures(count, draws, patterns):
    labels = [draws.randrange(10) for _ in range(count)]
    points = bytes(min(16, max(0, p + draws.randrange(-3, 4))) for label in labels for p in patterns[label])
    return npy("|u1", (count, 1, 8, 8), points), npy("<i8", (count,), struct.pack(f"<{count}q", *labels))


def main():
    draws = random.Random(0)
    patterns = [[draws.choice((0, 16)) for _ in range(64)] for _ in range(10)]
    with zipfile.ZipFile("digits.npz", "w") as file:
        for part, count in ("train", 700), ("test", 180):
            for name, array in zip("xy", pictures(count, draws, patterns)):
                file.writestr(f"{name}_{part}.npy", array)


if __name__ == "__main__":
    main()
