"""Tests the wheel: its contents, that two builds are equal, and that it works in an environment that has nothing else."""

import base64
import csv
import ctypes
import filecmp
import glob
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

WHEEL_TOOL, BUILT = os.path.abspath(sys.argv[1]), os.getcwd()  # runfiles are laid out as bazel-bin is

sys.path.insert(0, os.path.join(os.path.dirname(WHEEL_TOOL), "old_system"))
import elf  # noqa: E402

# The libraries of RHEL 8, and the newest versions that it has of their functions.
OF_OLD_SYSTEMS = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"}
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11), "GCC": (8, 0, 0)}
BROUGHT = {"libdnnl.so.2", "libgomp.so.1", "libolder.so"}

# Run in a folder that has nothing to do with the wheel's.
STRANGER = """
import sys
import isthmus
print([name for name in ("numpy", "torch") if name in sys.modules])
problem = isthmus.Problem("chain")
values = [problem.add("x", bytes=1024, pinned=True)]
for i in range(8):
    values.append(problem.add(f"f{i}", [values[-1]], 1, 1024))
gradient = values[-1]
for i in reversed(range(8)):
    gradient = problem.add(f"b{i}", [gradient, values[i]], 1, 1024, phase="backward")
problem.outputs = [gradient]
plan = isthmus.plan(problem, "60%", effort=0.05)
print(plan.figures.peak_bytes <= 0.6 * plan.figures.baseline_peak_bytes)
graph = isthmus.Graph.from_text("isthmus 2\\ngraph @g {\\n  input %x : f32[3]\\n  %y = neg(%x)\\n  output %y\\n}\\n")
print(graph.outputs)
try:
    graph.run()
except ModuleNotFoundError as error:
    print(error.name)
import importlib.metadata as metadata
points = metadata.distribution("isthmus").entry_points
print([(point.group, point.name, point.value) for point in points])
print(metadata.version("isthmus") == isthmus.__version__, metadata.requires("isthmus"))
print(isthmus.__file__.startswith(sys.prefix))
"""


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.path = cls.made("one")

    @classmethod
    def made(cls, name):
        command = [sys.executable, WHEEL_TOOL, f"--built={BUILT}", f"--out={os.path.join(cls.folder, name)}"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def test_made_twice_it_is_the_same(self):
        again = self.made("two")
        self.assertEqual(os.path.basename(again), os.path.basename(self.path))
        with open(self.path, "rb") as one, open(again, "rb") as two:
            self.assertEqual(one.read(), two.read())
        self.assertEqual(os.listdir(os.path.dirname(again)), [os.path.basename(again)])

    def test_the_record_is_true(self):
        with zipfile.ZipFile(self.path) as archive:
            names = archive.namelist()
            (record,) = [name for name in names if name.endswith("/RECORD")]
            rows = list(csv.reader(archive.read(record).decode().splitlines()))
            self.assertEqual(sorted(row[0] for row in rows), sorted(names))
            for name, digest, size in rows:
                if name != record:
                    content = archive.read(name)
                    expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
                    self.assertEqual((digest, int(size)), (f"sha256={expected}", len(content)))

    def test_what_is_in_it(self):
        name = os.path.basename(self.path)
        self.assertRegex(name, r"^isthmus-\d+\.\d+\.\d+-py3-none-manylinux_2_28_x86_64\.whl$")
        with zipfile.ZipFile(self.path) as archive:
            names = set(archive.namelist())
            (tags,) = [archive.read(name).decode() for name in names if name.endswith("/WHEEL")]
        self.assertLessEqual({f"isthmus/{name}" for name in ("__init__.py", "py.typed", "libisthmus.so", "libisthmus_run.so")}, names)
        self.assertIn("isthmus/isthmus", names)
        self.assertEqual({name.removeprefix("isthmus/libs/") for name in names if name.startswith("isthmus/libs/")}, BROUGHT)
        licences = [name.removesuffix(".txt") for name in names if "dist-info/licenses/" in name]
        self.assertEqual({os.path.basename(name) for name in licences}, BROUGHT - {"libolder.so"})
        self.assertLessEqual({f"isthmus/torch/{name}" for name in ("__init__.py", "graph/__init__.py", "steps/steps.py")}, names)
        self.assertFalse([name for name in names if "pycache" in name])
        self.assertIn(f"Tag: {name[:-4].split('-', 2)[2]}\n", tags)

    def test_all_of_it_runs_with_glibc_2_28(self):
        unpacked = os.path.join(self.folder, "unpacked")
        with zipfile.ZipFile(self.path) as archive:
            programs = [archive.extract(name, unpacked) for name in archive.namelist() if archive.read(name).startswith(b"\x7fELF")]
        self.assertEqual(len(programs), 6)
        for program in programs:
            told = subprocess.run(["readelf", "--wide", "--version-info", "--dynamic", program], capture_output=True, text=True, check=True).stdout
            self.assertLessEqual(set(re.findall(r"Shared library: \[(.*)\]", told)), OF_OLD_SYSTEMS | BROUGHT, program)
            for family, numbers in re.findall(r"Name: (\w+)_([\d.]+)  Flags", told[told.index("Version needs section") :]):
                if family in NEWEST:
                    self.assertLessEqual(tuple(map(int, numbers.split("."))), NEWEST[family], f"{program}: {family}_{numbers}")

    def test_a_function_that_old_systems_lack_is_an_error(self):
        made, known = os.path.join(self.folder, "made.so"), elf.of_old_systems()

        def compiled(code):
            headers = "#include <math.h>\n#include <pthread.h>\n#include <stdlib.h>\n"
            subprocess.run(["gcc", "-shared", "-fPIC", "-xc", "-", "-o", made, "-lm"], input=headers + code, text=True, check=True)
            with open(made, "rb") as file:
                return file.read()

        def asked(content):
            return {name: version for _, name, version in elf.Elf(content).asked()}

        new = compiled("double f(double x) { return exp(x); }\nint g(pthread_t thread) { return pthread_join(thread, 0); }")
        self.assertLessEqual({"exp": "GLIBC_2.29", "pthread_join": "GLIBC_2.34"}.items(), asked(new).items())
        old = elf.older(new, known)
        self.assertLessEqual({"exp": "", "pthread_join": "", "__cxa_finalize": "GLIBC_2.2.5"}.items(), asked(old).items())
        with open(made, "wb") as file:
            file.write(old)
        function = ctypes.CDLL(made).f
        function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
        self.assertEqual(function(1.0), math.e)
        with self.assertRaisesRegex(ValueError, "expected 'arc4random' to be defined for systems that lack GLIBC_2.36"):
            elf.older(compiled("int f() { return arc4random(); }"), known)

    def test_in_an_environment_that_has_nothing_else(self):
        environment, elsewhere = os.path.join(self.folder, "environment"), os.path.join(self.folder, "else where")
        os.mkdir(elsewhere)
        variables = {"PATH": os.environ["PATH"], "HOME": elsewhere}
        python = os.path.join(environment, "bin", "python")

        def run(*command):
            done = subprocess.run(command, cwd=elsewhere, env=variables, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
            return done.stdout

        run(sys.executable, "-m", "venv", environment)
        run(python, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", self.path)
        run(python, "-m", "pip", "check", "--disable-pip-version-check")
        self.assertEqual(
            run(python, "-c", STRANGER).splitlines(),
            [
                "[]",
                "True",
                "[Tensor(name='y', kind='output', dtype='f32', shape=(3,))]",
                "numpy",
                "[('console_scripts', 'isthmus', 'isthmus._command:main'), ('torch_dynamo_backends', 'isthmus', 'isthmus.torch:backend')]",
                "True ['torch >=2.15,<2.16; extra == \"torch\"', 'numpy; extra == \"run\"']",
                "True",
            ],
        )
        self.has_command(run, os.path.join(environment, "bin", "isthmus"))
        run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "isthmus")
        found = subprocess.run([python, "-c", "import isthmus"], cwd=elsewhere, env=variables, capture_output=True, text=True)
        self.assertIn("No module named 'isthmus'", found.stderr)

    def has_command(self, run, command):
        self.assertRegex(run(command, "--version"), r"^isthmus \d+\.\d+\.\d+\n$")
        run(command, "zoo", "cnn", "-o", "net.isth")
        elsewhere, made = os.path.join(self.folder, "else where"), {}
        for name, program in (("wheel", command), ("bazel", os.path.join(BUILT, "tools", "isthmus"))):
            options = ("--loss=cross_entropy", "--budget=90%", "--progress=none")
            run(program, "opt", "net.isth", *options, "-o", f"{name}.isth")
            run(program, "run", "net.isth", *options, f"--report={name}.json", f"--outputs={name}")
            made[name] = os.path.join(elsewhere, name)
            with open(f"{made[name]}.json") as file:
                figures = json.load(file)
            self.assertEqual(figures["measured_peak_bytes"], figures["predicted_peak_bytes"])
        # The wheel plans and computes as what it was made from does.
        self.assertTrue(filecmp.cmp(f"{made['wheel']}.isth", f"{made['bazel']}.isth", shallow=False))
        results = os.listdir(made["bazel"])
        self.assertIn("loss.npy", results)
        self.assertEqual(filecmp.cmpfiles(made["wheel"], made["bazel"], results, shallow=False), (results, [], []))
        refused = subprocess.run([command, "run", "none.onnx"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((refused.returncode, refused.stderr), (1, "error: cannot read 'none.onnx': No such file or directory\n"))
        # All libraries are the system's or those that the wheel has brought along.
        (binary,) = glob.glob(os.path.join(self.folder, "environment", "lib", "python*", "site-packages", "isthmus", "isthmus"))
        found = dict(re.findall(r"(\S+) => (\S+)", run("ldd", binary)))
        for name in BROUGHT:
            self.assertEqual(os.path.realpath(os.path.dirname(found[name])), os.path.realpath(os.path.join(os.path.dirname(binary), "libs")))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
