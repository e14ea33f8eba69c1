"""Runs C programs that use the libraries, rightly and wrongly, under Valgrind. There must be no error and no leak. The memory that a library holds
until the process ends must not grow when it is called again, or unloaded and loaded again."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

PLANS, RUNS, HEADER, *SOURCES = (os.path.abspath(p) for p in sys.argv[1:])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HEADER)))

# Loads a program that was compiled as a library, and with it the library that it uses, and unloads them.
HOST = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  for (int cycles = atoi(argv[2]); cycles > 0; --cycles) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return puts(dlerror()), 2;
    int (*program)(int, char **) = (int (*)(int, char **))dlsym(library, "main");
    if (program(1, argv) || dlclose(library))
      return 1;
    if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD))
      return puts("the program is still loaded"), 3;
  }
}
"""

# The loader compares names of eight bytes at a time, and with some lengths of paths beyond the end of a name.
SUPPRESSIONS = """{
  names in the search paths of libraries
  Memcheck:Addr8
  fun:strncmp
  fun:is_dst
}
"""


class Valgrind(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        for name, text in (("host.c", HOST), ("suppressions", SUPPRESSIONS)):
            with open(os.path.join(cls.folder, name), "w") as file:
                file.write(text)
        cls.host = cls.compiled(os.path.join(cls.folder, "host.c"), "-ldl")

    @classmethod
    def compiled(cls, source, *options):
        """By the C compiler alone: no C++ library, and nothing of how this project is built."""
        out = os.path.join(cls.folder, f"{os.path.basename(source)}{len(os.listdir(cls.folder))}")
        subprocess.run(["gcc", "-std=c99", "-D_DEFAULT_SOURCE", source, *options, "-o", out], check=True)
        return out

    def programs(self, *options):
        libraries = [RUNS if source.endswith("run_test.c") else PLANS for source in SOURCES]
        return [self.compiled(source, "-I" + ROOT, library, "-lm", *options) for source, library in zip(SOURCES, libraries)]

    def kept(self, *command):
        """The bytes that are in use at the end, where there is no error and no leak."""
        valgrind = ["valgrind", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect,possible", "--error-exitcode=9"]
        valgrind.append(f"--suppressions={os.path.join(self.folder, 'suppressions')}")
        done = subprocess.run([*valgrind, *command], capture_output=True, text=True, check=False, env={**os.environ, "TEST_TMPDIR": self.folder})
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        self.assertIn("all as expected", done.stdout)
        self.assertIn("ERROR SUMMARY: 0 errors", done.stderr)
        return int(re.search(r"in use at exit: ([\d,]*) bytes", done.stderr)[1].replace(",", ""))

    def test_what_is_kept_does_not_grow_with_calls(self):
        for program in self.programs():
            with self.subTest(program=program):
                self.assertEqual(self.kept(program, "1"), self.kept(program, "2"))

    def test_nor_with_loading(self):
        """Each library once: what the first program calls besides is called by the test above."""
        for program in self.programs("-fPIC", "-shared")[1:]:
            with self.subTest(program=program):
                # The loader's own notes come and go.
                self.assertLess(self.kept(self.host, program, "2") - self.kept(self.host, program, "1"), 1024)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
