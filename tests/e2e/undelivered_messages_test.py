"""If messages cannot be written, nothing else changes. Names of any bytes are written. Lack of memory gives a message
and exit code 5."""

import json
import os
import re
import resource
import signal
import subprocess
import time
import unittest

import command
import onnx_file
from cli_cases import Case
from onnx_file import node, tensor, value_info


def code_with(stderr, *args, cwd, **kwargs):
    return subprocess.run([command.BINARY, *args], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                          timeout=120, **kwargs)


class Talk(Case):
    def calls(self):
        """Returns command lines and their exit codes."""
        model = self.mlp()
        return [(["zoo", "nosuch"], 1), (["opt", model, "--loss=mean", "-o", "o.isth"], 0), (["opt", model, "--nosuch"], 2),
                (["opt", model, "--loss=mean", "--budget=1", "-o", "p.isth"], 3), (["run", model, "--loss=mean"], 0),
                (["verify", model, model, "--loss=mean"], 0), (["import", "nosuch.isth"], 1), (["--help"], 0), ([], 2),
                (["opt", model, "--loss=mean", "--progress=plain", "--dot=g.dot"], 0)]

    def check(self, how, *args, **kwargs):
        calls = self.calls()
        want = {}
        for call, code in calls:
            plain = command.run(*call, cwd=self.dir)
            self.assertEqual(plain.code, code, f"{call}\n{plain}")
        want = self.files()
        for call, code in calls:
            with self.subTest(f"{how} {call}"):
                result = code_with(*args, *call, cwd=self.dir, **kwargs)
                self.assertEqual(result.returncode, code, result)
        self.assertEqual(self.files(), want, "no talk is in any file, and no file is missing")

    def test_full(self):
        with open("/dev/full", "wb") as full:
            self.check("full", full)

    def test_closed(self):
        self.check("closed", None, preexec_fn=lambda: os.close(2))

    def test_all_closed(self):
        model = self.mlp()
        self.run_ok("opt", model, "--loss=mean", "-o", "want.isth", "--report=want.json")
        result = subprocess.run([command.BINARY, "opt", model, "--loss=mean", "-o", "o.isth", "--report=r.json"], cwd=self.dir,
                                preexec_fn=lambda: os.closerange(0, 3), timeout=120)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(self.read("o.isth"), self.read("want.isth"))
        self.assertEqual(json.loads(self.read("r.json"))["arena_bytes"], json.loads(self.read("want.json"))["arena_bytes"])

    def test_reader_that_is_gone(self):
        read, write = os.pipe()
        os.close(read)
        self.addCleanup(os.close, write)
        self.check("gone", write)

    def test_product_that_nobody_reads(self):
        """A product that cannot be written to standard output is an error, and does not end the program by a signal."""
        read, write = os.pipe()
        os.close(read)
        self.addCleanup(os.close, write)
        for call in ["zoo"], ["--help"], ["ops"], ["import", self.mlp()], ["run", "--help"], ["dot", "mlp.isth"]:
            with self.subTest(call):
                result = command.run(*call, stdout=write, cwd=self.dir)
                self.assertEqual(result.code, 1, result)
                self.assertIn("standard output", result.err)

    def test_error_with_a_full_stdout(self):
        with open("/dev/full", "wb") as full:
            for call, code in (["--help"], 1), (["explain", self.mlp(), "--loss=mean"], 1), (["zoo", "nosuch"], 1), (["nosuch"], 2):
                with self.subTest(call):
                    self.assertEqual(command.run(*call, stdout=full, cwd=self.dir).code, code)


class Names(Case):
    ODD = 'isthmus 1\ngraph @g {\n  input %x : f32[2]\n  param %"w\\ff\\fe/q" : f32[2] = ones\n' \
          '  %"y\\80" = mul(%x, %"w\\ff\\fe/q")\n  output %"y\\80"\n}\n'

    def test_no_utf8(self):
        self.write("odd.isth", self.ODD)
        self.run_ok("run", "odd.isth", "--loss=mean", "--outputs=out", "--report=r.json")
        names = json.loads(self.read("out/names.json"))
        self.assertEqual(sorted(os.listdir(self.path("out"))), sorted([*names, "names.json"]))
        self.assertIn('"y\\80"', names.values())
        self.run_ok("explain", "odd.isth", "--loss=mean", "--json")
        self.run_ok("opt", "odd.isth", "--loss=mean", "--keep-outputs", "-o", "o.isth", "--dot=g.dot")
        self.run_ok("run", "o.isth", "--outputs=again")
        self.assertEqual(json.loads(self.read("again/names.json")), names)
        refused = command.run("run", "odd.isth", "--loss=%w", cwd=self.dir)
        self.assertEqual(refused.code, 1, refused)

    def test_long_names(self):
        """Names that are longer than a file system allows are shortened, kept distinct, and listed in full. The files
        can be read back."""
        long = "layer/" * 60
        names = [f"{long}{i}" for i in range(3)] + ["ü" * 120 + "e"]
        lines = [f'  input %"{names[0]}" : f32[2]'] + [f'  %"{n}" = exp(%"{names[0]}")' for n in names[1:]]
        self.write("m.isth", "\n".join(["isthmus 1", "graph @g {", *lines, *[f'  output %"{n}"' for n in names], "}"]) + "\n")
        self.run_ok("run", "m.isth", "--outputs=out")
        listed = json.loads(self.read("out/names.json"))
        self.assertEqual(sorted(listed.values()), sorted(names))
        self.assertEqual(sorted(os.listdir(self.path("out"))), sorted([*listed, "names.json"]))
        of = {name: file for file, name in listed.items()}
        given = self.write("in/" + of[names[0]], command.npy("f32", (2,), [0.0, 1.0]))
        self.run_ok("run", "m.isth", "--inputs=in", "--outputs=again")
        self.assertEqual(command.read_npy(self.path("again/" + of[names[0]])), command.read_npy(self.path(given)))

    def test_inputs_named_as_the_model_has_it(self):
        self.write("m.isth", 'isthmus 1\ngraph @g {\n  input %"a/b:0" : f32[2]\n  input %"c:0" : f32[2]\n'
                             '  %y = add(%"a/b:0", %"c:0")\n  output %y\n}\n')
        self.write("in/a/b:0.npy", command.npy("f32", (2,), [1.0, 2.0]))
        self.write("in/c:0.npy", command.npy("f32", (2,), [10.0, 20.0]))
        self.write("in/other/unused.npy", command.npy("f32", (1,), [0.0]))
        self.write("in/other/broken.npy", b"nothing")
        self.run_ok("run", "m.isth", "--inputs=in", "--outputs=out")
        self.assertEqual(command.read_npy(self.path("out/y.npy"))[2], (11.0, 22.0))
        self.write("in/a/b:0.npy", b"nothing")
        refused = command.run("run", "m.isth", "--inputs=in", cwd=self.dir)
        self.assertEqual(refused.code, 1, refused)
        self.assertIn("in/a/b:0.npy", refused.err)


class Memory(Case):
    def test_every_limit(self):
        """From the memory that the program needs to start to what the work needs, a call succeeds or gives a message
        and exit code 5."""
        if command.IS_SANITIZED:
            self.skipTest("NOT RUN: address space is no measure of memory under a sanitizer")
        values = [float(i % 7) for i in range(2048 * 1024)]
        self.write("big.onnx", onnx_file.model([node("Mul", ["x", "w"], ["y"])], [value_info("x", [2048, 1024])],
                                               [value_info("y", [2048, 1024])], [tensor("w", [2048, 1024], values)]))
        codes = set()
        for call in (["import", "big.onnx", "-o", "big.isth"], ["run", "big.onnx", "--loss=mean", "--outputs=out"],
                     ["opt", "big.onnx", "--loss=mean", "-o", "big.onnx.isth"], ["zoo", "resnet", "--depth=1202"]):
            for limit in range(30, 260, 10):
                result = command.run(*call, cwd=self.dir, memory_limit=limit, env={"OMP_NUM_THREADS": "2"})
                if result.code == 127:
                    continue  # the dynamic loader lacked memory
                with self.subTest(f"{limit} MiB: {call}"):
                    self.assertIn(result.code, (0, 5), result)
                    self.assertEqual(result.code == 5, "error: " in result.err, result)
                codes.add(result.code)
        self.assertEqual(codes, {0, 5}, "limits were too wide or too narrow")
        self.assertEqual([name for name in os.listdir(self.dir) if "tmp" in name], [])


class Signals(Case):
    """Each end of the process is called what it is."""

    def planning(self, **kwargs):
        process = subprocess.Popen([command.BINARY, "opt", self.mlp(), "--loss=mean", "--budget=min", "--effort=1e6", "--progress=plain",
                                    "-o", "o.isth"], cwd=self.dir, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **kwargs)
        self.addCleanup(process.kill)
        return process

    def ended(self, process):
        _, err = process.communicate(timeout=command.TIMEOUT)
        self.assertEqual(sorted(os.listdir(self.dir)), ["mlp.isth"], "no file is left")
        return process.returncode, err

    def test_quit(self):
        process = self.planning(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        self.assertTrue(process.stderr.readline())
        process.send_signal(signal.SIGQUIT)
        code, err = self.ended(process)
        self.assertEqual(code, -signal.SIGQUIT)
        self.assertNotIn("error", err)

    @unittest.skipIf(command.IS_SANITIZED, "sanitizers report crashes")
    def test_crashes(self):
        for number, says in (signal.SIGSEGV, "invalid address (SIGSEGV)"), (signal.SIGBUS, "(SIGBUS)"), (signal.SIGFPE, "(SIGFPE)"):
            process = self.planning()
            self.assertTrue(process.stderr.readline())
            process.send_signal(number)
            code, err = self.ended(process)
            self.assertEqual(code, 5)
            self.assertRegex(err, re.escape("error: internal: the program crashed: ") + ".*" + re.escape(says) + ".*report this")

    def test_limit_of_cpu_time(self):
        code, err = self.ended(self.planning(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (1, 10))))
        self.assertEqual(code, 5)
        self.assertIn("error: the process used the CPU time that it may have (ulimit -t)", err)
        self.assertNotIn("report", err)

    def test_limit_of_a_files_size(self):
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))}
        for name in "o.isth", "-":
            with self.subTest(name), open(self.path("out"), "wb") as out:
                result = subprocess.run([command.BINARY, "zoo", "resnet", "-o", name], cwd=self.dir, stdout=out, stderr=subprocess.PIPE,
                                        text=True, timeout=command.TIMEOUT, **limit)
                self.assertEqual(result.returncode, 1, result)
                self.assertRegex(result.stderr, "error: cannot write '.*': File too large")
        self.assertEqual(sorted(os.listdir(self.dir)), ["out"])


class Interrupts(Case):
    def stopped(self, sig, seconds, *args):
        process = subprocess.Popen([command.BINARY, *args], cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        time.sleep(seconds)
        process.send_signal(sig)
        _, err = process.communicate(timeout=60)
        return process.returncode, err.decode()

    def test_no_temporary_files(self):
        """An import is interrupted at any time."""
        values = [float(i % 7) for i in range(1024 * 1024)]
        self.write("big.onnx", onnx_file.model([node("Mul", ["x", "w"], ["y"])], [value_info("x", [1024, 1024])],
                                               [value_info("y", [1024, 1024])], [tensor("w", [1024, 1024], values)]))
        self.run_ok("import", "big.onnx", "-o", "big.isth")
        start = time.monotonic()
        self.run_ok("import", "big.onnx", "-o", "big.isth")
        whole = time.monotonic() - start
        before = sorted(os.listdir(self.dir))
        ended = set()
        for i in range(40):
            code, err = self.stopped(signal.SIGINT if i % 2 else signal.SIGTERM, whole * i / 40, "import", "big.onnx", "-o", "big.isth")
            self.assertIn(code, (0, 130, -signal.SIGINT, -signal.SIGTERM), err)
            self.assertEqual(sorted(os.listdir(self.dir)), before)
            ended.add(code)
        self.assertGreater(len(ended), 1, "some were interrupted and some not, or nothing was shown")

    def test_search_that_has_not_met_its_budget(self):
        """The search is interrupted, and must not claim that the budget cannot be met."""
        model, loss = self.zoo("unet")
        result = self.interrupted_at("^planning: ", "opt", model, *loss, "--budget=1000", "--effort=100000", "-o", "o.isth")
        if result.code == 3:
            self.skipTest("NOT RUN: the search ended before it was interrupted")
        self.assertEqual(result.code, 130, result)
        self.assertNotIn("cannot be met", result.err)
        self.assertIn("interrupted", result.err)
        self.assertFalse(os.path.exists(self.path("o.isth")))


if __name__ == "__main__":
    command.main()
