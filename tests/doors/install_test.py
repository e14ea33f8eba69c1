"""Tests tools/install: a build by CMake or by pkg-config, in C99 or C++17, finds and uses what was installed, also in folders with spaces."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

INSTALL, PAGE = (os.path.abspath(p) for p in sys.argv[1:3])
# What was built, and the sources, lie as in the workspace.
BUILT = os.path.dirname(os.path.dirname(INSTALL))

CMAKE = """cmake_minimum_required(VERSION 3.16)
project(consumer C CXX)
find_package(isthmus 0.1 CONFIG REQUIRED)
foreach(language c cpp)
  add_executable(plan_${language} plan.${language})
  target_link_libraries(plan_${language} PRIVATE isthmus::isthmus)
endforeach()
add_executable(run run.c)
target_link_libraries(run PRIVATE isthmus::run)
set_target_properties(plan_c PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
set_target_properties(plan_cpp PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
"""


RUN = """#include <isthmus_run.h>
#include <stdio.h>
int main(void) { return puts(isthmus_run_version()) < 0; }
"""


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


class Installed(unittest.TestCase):
    """Each test has a copy of one installation: it may be moved as a whole."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.fresh = os.path.join(folder.name, "fresh")
        cls.install(cls.fresh)

    @staticmethod
    def install(prefix):
        done = run([INSTALL, f"--prefix={prefix}", f"--built={BUILT}"])
        assert done.returncode == 0, done.stderr

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "a folder")
        self.prefix = os.path.join(folder.name, "an installation")
        os.mkdir(self.folder)
        shutil.copytree(self.fresh, self.prefix, symlinks=True)
        with open(PAGE) as file:
            programs = re.findall(r"```(c|cpp)\n(.*?)```\s+It prints `([^`]*)`", file.read(), re.S)
        # The last one runs a model; c_page_test has one for it.
        self.programs = [program for program in programs if "model.onnx" not in program[1]]
        self.assertEqual(len(self.programs), 2)
        for language, program, _ in self.programs:
            self.write(f"plan.{language}", program)
        self.write("run.c", RUN)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def good(self, command, **options):
        done = run(command, cwd=self.folder, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_others_may_read_what_is_installed(self):
        prefix = os.path.join(self.folder, "private")
        before = os.umask(0o077)
        try:
            self.install(prefix)
        finally:
            os.umask(before)
        for folder, _, files in os.walk(prefix):
            self.assertEqual(os.stat(folder).st_mode & 0o777, 0o755, folder)
            for name in files:
                path = os.path.join(folder, name)
                runs = "/bin/" in path or ".so" in name
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o755 if runs else 0o644, path)
        with zipfile.ZipFile(os.path.join(prefix, "share/isthmus", os.listdir(os.path.join(prefix, "share/isthmus"))[0])) as wheel:
            for entry in wheel.infolist():
                self.assertEqual(entry.external_attr >> 16 & 0o044, 0o044, entry.filename)

    def check_programs(self, folder):
        for language, _, printed in self.programs:
            out = self.good([os.path.join(folder, f"plan_{language}")], env={})
            self.assertEqual(out.split(), printed.split())

    def files(self):
        return {os.path.relpath(os.path.join(at, f), self.prefix) for at, _, files in os.walk(self.prefix) for f in files}

    def test_cmake_finds_it(self):
        self.write("CMakeLists.txt", CMAKE)
        self.good(["cmake", "-S", ".", "-B", "out", f"-DCMAKE_PREFIX_PATH={self.prefix}"])
        self.good(["cmake", "--build", "out"])
        self.check_programs(os.path.join(self.folder, "out"))
        self.assertEqual(self.good([os.path.join(self.folder, "out", "run")], env={}), "0.1.0\n")

    def test_cmake_is_told_of_another_version(self):
        for wanted in ("0.2", "1.0", "0.1.99"):
            self.write("CMakeLists.txt", CMAKE.replace("isthmus 0.1 ", f"isthmus {wanted} "))
            done = run(["cmake", "-S", ".", "-B", "out" + wanted, f"-DCMAKE_PREFIX_PATH={self.prefix}"], cwd=self.folder)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("version: 0.1.0", done.stderr)

    def test_pkg_config_finds_it(self):
        env = {**os.environ, "PKG_CONFIG_PATH": os.path.join(self.prefix, "lib", "pkgconfig")}
        flags = shlex.split(self.good(["pkg-config", "--cflags", "--libs", "isthmus"], env=env))
        rpath = "-Wl,-rpath," + os.path.join(self.prefix, "lib")
        for language, compiler in (("c", ["gcc", "-std=c99"]), ("cpp", ["g++", "-std=c++17"])):
            self.good([*compiler, f"plan.{language}", *flags, rpath, "-o", f"plan_{language}"])
        self.check_programs(self.folder)
        needed = self.good(["objdump", "-p", "plan_c"])
        self.assertRegex(needed, r"NEEDED\s+libisthmus\.so\.4\n")
        version = self.good(["pkg-config", "--modversion", "isthmus"], env=env).strip()
        done = self.good([os.path.join(self.prefix, "bin", "isthmus"), "--version"])
        self.assertIn(version, done)

    def test_the_wheel_is_one(self):
        (wheel,) = [f for f in self.files() if f.endswith(".whl")]
        self.assertRegex(wheel, r"^share/isthmus/isthmus-0\.1\.0-")
        with zipfile.ZipFile(os.path.join(self.prefix, wheel)) as file:
            self.assertIn("isthmus/__init__.py", file.namelist())

    def test_it_replaces_an_older_one_while_that_is_used(self):
        before = self.files()
        with open(os.path.join(self.prefix, "share", "isthmus", "isthmus-0.0.1-py3-none-any.whl"), "w"):
            pass
        library = os.path.join(self.prefix, "lib", "libisthmus.so.0.1.0")
        with open(library, "rb") as used:
            whole = used.read()
            used.seek(0)
            header = os.path.join(self.prefix, "include", "isthmus.h")
            with open(header, "w") as file:
                file.write("older")
            self.install(self.prefix)
            self.assertEqual(used.read(), whole)
            self.assertFalse(os.path.samestat(os.fstat(used.fileno()), os.stat(library)))
        self.assertEqual(self.files(), before)
        with open(header) as file:
            self.assertNotEqual(file.read(), "older")
        self.assertEqual(os.readlink(os.path.join(self.prefix, "lib", "libisthmus.so")), "libisthmus.so.4")

    def test_wrong_options_are_told(self):
        for options, part in (([], "--prefix=DIR"), (["--prefix="], "unknown option"), (["--prefx=/x"], "unknown option '--prefx=/x'")):
            done = run([INSTALL, *options])
            self.assertEqual(done.returncode, 2)
            self.assertIn(part, done.stderr)
        done = run([INSTALL, "--prefix=/dev/null/x", f"--built={BUILT}"])
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
