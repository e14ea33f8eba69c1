"""Lets a shared library or program run with an older glibc and libstdc++ than those that it was linked with.

An ELF file names the version of each function that it takes from a library, and the loader refuses libraries that lack a version. Most versions that
are new name an old function: glibc 2.34 moved those of threads into libc, and 2.29 changed how `exp` reports errors. The file then asks for the
function without a version, for which the loader takes that of the library's first version, or else the default. What no old version names must be
defined by the file itself, or by a library that comes with it.
"""

from __future__ import annotations

import re
import struct
import subprocess

# The newest versions that may be asked for, as manylinux_2_28 has them.
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
SYSTEM = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libstdc++.so.6", "libgcc_s.so.1")
VERSION = rf"(?:{'|'.join(NEWEST)})_\d+(?:\.\d+)*"
UNVERSIONED, WEAK, TYPE = 1, 2 << 4, 15  # VER_NDX_GLOBAL; STB_WEAK and the bits of the type in st_info
NEEDED, NEEDED_VERSIONS = 1, 0x6FFFFFFF  # DT_NEEDED, DT_VERNEEDNUM


def is_new(version: str) -> bool:
    """Whether old systems lack a version. Those of other libraries than the system's have no order."""
    if not re.fullmatch(VERSION, version):
        return False
    name, numbers = version.split("_")
    return tuple(map(int, numbers.split("."))) > NEWEST[name]


def of_old_systems() -> set[str]:
    """Returns the functions and data that this system's libraries have under a version that is old enough."""
    found = set()
    for library in SYSTEM:
        path = subprocess.run(["gcc", f"-print-file-name={library}"], check=True, capture_output=True, text=True).stdout.strip()
        symbols = subprocess.run(["objdump", "-T", path], check=True, capture_output=True, text=True).stdout
        defined = (re.search(rf"\b({VERSION})\)?\s+(\S+)$", line) for line in symbols.splitlines() if "*UND*" not in line)
        found.update(symbol[2] for symbol in defined if symbol and not is_new(symbol[1]))
    return found


class Elf:
    """A shared library or program of 64 bits, little endian. Its tables are changed in place, where they do not grow."""

    def __init__(self, content: bytes) -> None:
        self.content = bytearray(content)
        if self.content[:6] != b"\x7fELF\x02\x01":
            raise ValueError("expected an ELF file of 64 bits, little endian")
        (at,), (size, count, names) = self.read("Q", 40), self.read("3H", 58)
        places = [at + k * size for k in range(count)]
        strings = self.read("Q", places[names] + 24)[0]
        self.sections = {self.text(strings + self.read("I", place)[0]): place for place in places}

    def read(self, form: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from("<" + form, self.content, at)

    def write(self, form: str, at: int, *values: int) -> int:
        """Returns where the values end."""
        struct.pack_into("<" + form, self.content, at, *values)
        return at + struct.calcsize("<" + form)

    def text(self, at: int) -> str:
        return self.content[at : self.content.index(0, at)].decode()

    def section(self, name: str) -> tuple[int, int]:
        """Returns where a section lies and its size."""
        return self.read("2Q", self.sections[name] + 24)

    def string(self, number: int) -> str:
        return self.text(self.section(".dynstr")[0] + number)

    def dynamic(self, wanted: int) -> list[tuple[int, int]]:
        """Returns where the loader's values of a kind lie, and the values."""
        start, size = self.section(".dynamic")
        tags = ((at + 8, *self.read("qQ", at)) for at in range(start, start + size, 16))
        return [(at, value) for at, tag, value in tags if tag == wanted]

    def libraries(self) -> list[str]:
        return [self.string(value) for _, value in self.dynamic(NEEDED)]

    def replace_library(self, old: str, new: str) -> None:
        if len(new) > len(old):
            raise ValueError(f"expected a name no longer than '{old}', found '{new}'")
        (name,) = [value for _, value in self.dynamic(NEEDED) if self.string(value) == old]
        at = self.section(".dynstr")[0] + name
        self.content[at : at + len(old)] = new.encode().ljust(len(old), b"\0")

    def versions(self) -> list[tuple[int, list[tuple[int, int, int, int]]]]:
        """Returns the versions that are asked for: by library, whose name comes first, each as its hash, flags, index and name."""
        found, at = [], self.section(".gnu.version_r")[0]
        for _ in range(self.read("I", self.sections[".gnu.version_r"] + 44)[0]):
            _, count, library, first, after = self.read("2H3I", at)
            each, versions = at + first, []
            for _ in range(count):
                *version, next_one = self.read("I2H2I", each)
                versions.append(tuple(version))
                each += next_one
            found.append((library, versions))
            at += after
        return found

    def set_versions(self, libraries: list[tuple[int, list[tuple[int, int, int, int]]]]) -> None:
        at, _ = self.section(".gnu.version_r")
        for library, versions in libraries:
            is_last = library == libraries[-1][0]
            at = self.write("2H3I", at, 1, len(versions), library, 16, 0 if is_last else 16 * (1 + len(versions)))
            for version in versions:
                at = self.write("I2H2I", at, *version, 0 if version == versions[-1] else 16)
        self.write("I", self.sections[".gnu.version_r"] + 44, len(libraries))
        ((count, _),) = self.dynamic(NEEDED_VERSIONS)
        self.write("Q", count, len(libraries))

    def asked(self) -> list[tuple[int, str, str]]:
        """Returns what the file takes from libraries: a number, the name, and the version or nothing."""
        names = {index: self.string(name) for _, versions in self.versions() for _, _, index, name in versions}
        (symbols, size), (indices, _) = self.section(".dynsym"), self.section(".gnu.version")
        found = []
        for k in range(1, size // 24):
            name, _, section = self.read("IHH", symbols + 24 * k)
            if section == 0:
                found.append((k, self.string(name), names.get(self.read("H", indices + 2 * k)[0], "")))
        return found

    def unversion(self, number: int, *, may_be_absent: bool) -> None:
        self.write("H", self.section(".gnu.version")[0] + 2 * number, UNVERSIONED)
        if may_be_absent:
            at = self.section(".dynsym")[0] + 24 * number + 4
            self.write("B", at, WEAK | self.read("B", at)[0] & TYPE)


def older(content: bytes, known: set[str], *, replaced: dict[str, str] | None = None) -> bytes:
    """Returns a file for old systems, whose libraries and those that come along have what is `known`.

    A library that is `replaced` is not asked for, but another in its place; what it has may then be absent, as nothing calls it.
    """
    file = Elf(content)
    replaced = {name: other for name, other in (replaced or {}).items() if name in file.libraries()}
    absent = {file.string(name) for library, versions in file.versions() if file.string(library) in replaced for _, _, _, name in versions}
    for number, name, version in file.asked():
        if is_new(version) and name not in known:
            raise ValueError(f"expected '{name}' to be defined for systems that lack {version}")
        if is_new(version) or version in absent:
            file.unversion(number, may_be_absent=version in absent)
    used = {version for _, _, version in file.asked()}
    kept = [(library, [each for each in versions if file.string(each[3]) in used]) for library, versions in file.versions()]
    file.set_versions([(library, versions) for library, versions in kept if versions])
    for name, other in replaced.items():
        file.replace_library(name, other)
    return bytes(file.content)
