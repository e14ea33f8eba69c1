"""Shared by the end-to-end tests: runs the command, reads and writes its file formats, and counts the tests that ran.

Uses the standard library only. A test of this folder calls `command.main()` at its end. The last line of its output is
then `N passed, N failed, N skipped`, which tools/count_tests.py reads.
"""

import os
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from dataclasses import dataclass


def binary():
    """Returns the path of the program under test: Bazel's, or the one that ISTHMUS_BINARY names."""
    path = os.environ.get("ISTHMUS_BINARY") or os.path.join(
        os.environ.get("TEST_SRCDIR", ""), os.environ.get("TEST_WORKSPACE", ""), "tools", "isthmus"
    )
    return os.path.abspath(path)


BINARY = binary()
# Under a sanitizer programs are slower, and their address space says nothing about the memory that they need.
IS_SANITIZED = bool({"ASAN_OPTIONS", "TSAN_OPTIONS"} & os.environ.keys())
TIMEOUT = 600 if IS_SANITIZED else 120  # seconds that a call may take


@dataclass
class Result:
    code: int  # below 0: the number of the signal that ended the process
    out: bytes
    err: str
    seconds: float

    def __str__(self):
        return f"exit {self.code} after {self.seconds:.1f} s\nstdout: {self.out[:2000]!r}\nstderr: {self.err[:4000]}"


def limit_memory(mebibytes):
    if not IS_SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))


def run(*args, stdin=b"", stdout=subprocess.PIPE, cwd=None, env=None, timeout=TIMEOUT, memory_limit=None, close=()):
    """Runs `isthmus ARGS`. `close` lists the file descriptors to close before the start; `memory_limit` is in MiB."""

    def prepare():
        if memory_limit:
            limit_memory(memory_limit)
        for fd in close:
            os.close(fd)

    start = time.monotonic()
    process = subprocess.run(
        [BINARY, *map(str, args)],
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        timeout=timeout,
        preexec_fn=prepare if memory_limit or close else None,  # without it, Python need not fork a large test process
    )
    err = process.stderr.decode(errors="backslashreplace")
    return Result(process.returncode, process.stdout or b"", err, time.monotonic() - start)


class TestCase(unittest.TestCase):
    """A test case with a new folder `self.dir` for each test, in which the command runs."""

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, content):
        """Writes a file, makes its folder if needed, and returns the file's name."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return name

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def files(self):
        """Returns the bytes of each file and folder below the test's folder."""
        found = {}
        for folder, folders, files in os.walk(self.dir):
            for name in folders:
                found[os.path.join(folder, name)] = None
            for name in files:
                path = os.path.join(folder, name)
                found[path] = b"a link" if os.path.islink(path) else open(path, "rb").read()
        return found

    def run_ok(self, *args, **kwargs):
        """Runs a call that must succeed, and returns its result."""
        result = run(*args, cwd=self.dir, **kwargs)
        self.assertEqual(result.code, 0, f"isthmus {' '.join(map(str, args))}\n{result}")
        return result

    def interrupted_at(self, progress, *args):
        """Runs a call, interrupts it at the first line of progress that matches the pattern, and returns the result."""
        start = time.monotonic()
        lines = []
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen([BINARY, *args, "--progress=plain"], cwd=self.dir, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.PIPE)
            overdue = threading.Timer(300, process.kill)
            overdue.start()
            with process.stderr:
                is_interrupted = False
                for line in process.stderr:
                    lines.append(line.decode())
                    if not is_interrupted and re.search(progress, lines[-1]):
                        process.send_signal(signal.SIGINT)
                        is_interrupted = True
            code = process.wait()
            overdue.cancel()
            out.seek(0)
            return Result(code, out.read(), "".join(lines), time.monotonic() - start)


# --- .npy files

NPY_CODES = {"f32": ("<f4", "f"), "f64": ("<f8", "d"), "i64": ("<i8", "q"), "i32": ("<i4", "i"), "u8": ("|u1", "B")}


def npy(dtype, shape, values, descr=None, fortran_order=False):
    """Returns the bytes of a .npy file of version 1.0, as NumPy writes it."""
    code, letter = NPY_CODES[dtype]
    header = f"{{'descr': '{descr or code}', 'fortran_order': {fortran_order}, 'shape': {tuple(shape)!r}, }}"
    header = header.ljust((len(header) + 11 + 63) // 64 * 64 - 11) + "\n"
    data = struct.pack(f"<{len(values)}{letter}", *values)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def read_npy(path):
    """Returns (element type, shape, values) of a .npy file of version 1.0."""
    with open(path, "rb") as file:
        content = file.read()
    assert content[:8] == b"\x93NUMPY\x01\x00", path
    (length,) = struct.unpack("<H", content[8:10])
    header = eval(content[10 : 10 + length], {})  # the format defines the header as a dictionary of literals
    assert (10 + length) % 64 == 0, f"{path}: data that is not aligned"
    assert not header["fortran_order"], path
    dtype, letter = next((d, c[1]) for d, c in NPY_CODES.items() if c[0] == header["descr"])
    data = content[10 + length :]
    return dtype, header["shape"], struct.unpack(f"<{len(data) // struct.calcsize(letter)}{letter}", data)


# --- What a test needs and some machines lack

def with_python_of_torch():
    """Restarts this test with the Python that has numpy, torch and onnx (tools/setup --torch). If there is none, it
    reports that the test was not run, and ends. Call it before the first import of any of them."""
    try:
        import numpy  # noqa: F401
        import torch  # noqa: F401
        return
    except ImportError:
        pass
    python = os.environ.get("ISTHMUS_PYTHON")
    if not python or os.path.realpath(sys.prefix) == os.path.realpath(os.path.join(os.path.dirname(python), "..")):
        print("NOT RUN: there is no Python with torch; `tools/setup --torch` installs it")
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(0)
    os.execv(python, [python, *sys.argv])


def shared_folder(*parts):
    """Returns a path in the folder of shared material; if this machine has no such folder, the test is skipped
    visibly."""
    root = os.environ.get("ISTHMUS_SHARED")
    if not root or not os.path.isdir(root):
        raise unittest.SkipTest("NOT RUN: it needs the folder `shared` beside the repository (ISTHMUS_SHARED)")
    return os.path.join(root, *parts)


class _Result(unittest.TextTestResult):
    def startTest(self, test):
        self.started = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test):
        self.passed = getattr(self, "passed", 0) + 1
        super().addSuccess(test)

    def stopTest(self, test):
        seconds = time.monotonic() - self.started
        if seconds > 5:
            self.stream.writeln(f"    ({test.id()}: {seconds:.1f} s)")
        super().stopTest(test)


def main():
    if not os.access(BINARY, os.X_OK):
        sys.exit(f"no program at {BINARY}; run by Bazel, or set ISTHMUS_BINARY")
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=_Result)
    result = unittest.main(exit=False, testRunner=runner).result
    failed = len(result.failures) + len(result.errors)
    print(f"{getattr(result, 'passed', 0)} passed, {failed} failed, {len(result.skipped)} skipped", flush=True)
    sys.exit(1 if failed else 0)
