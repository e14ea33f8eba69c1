"""Tests what a C library exports and needs. It exports its own functions and nothing else. It needs libraries that every system has, and those that
the command line names."""

import os
import re
import subprocess
import sys
import unittest

LIBRARY, HEADER = (os.path.abspath(p) for p in sys.argv[1:3])
NEEDED = set(sys.argv[3:])
OPENMP = {"GOMP_parallel", "GOMP_barrier", "omp_get_max_threads", "omp_get_num_threads", "omp_get_thread_num", "omp_in_parallel",
          "omp_set_num_threads"}
VERSIONS = {"ISTHMUS_RUN", "GOMP_1.0", "GOMP_4.0", "OMP_1.0"}


class Library(unittest.TestCase):
    def test_symbols_are_those_of_the_header(self):
        out = subprocess.run(["nm", "-D", "--defined-only", "--extern-only", LIBRARY], capture_output=True, text=True, check=True).stdout
        shown = {line.split()[-1].split("@")[0] for line in out.splitlines()}
        with open(HEADER) as file:
            declared = set(re.findall(r"\b(isthmus_\w+)\(", file.read()))
        # The library that runs graphs also shows oneDNN the functions of OpenMP that it calls (runtime/openmp.cc).
        more = (OPENMP | VERSIONS) & shown
        self.assertEqual(shown - more, declared)
        self.assertEqual(more - VERSIONS, OPENMP if "libgomp.so.1" in NEEDED else set())
        self.assertLessEqual(len(declared), 51)

    def test_assertions_are_its_own(self):
        out = subprocess.run(["nm", "-D", LIBRARY], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("__assert_fail", out)

    def test_needs_what_every_system_has(self):
        out = subprocess.run(["objdump", "-p", LIBRARY], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"NEEDED\s+(\S+)", out))
        self.assertLessEqual(NEEDED, needed)
        self.assertLessEqual(
            needed - NEEDED, {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2", "libgcc_s.so.1"}
        )


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
