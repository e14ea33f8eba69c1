"""Tests the GPU report with the library that emulates a GPU: its steps, failures that do not stop others, and time
limits."""

import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "e2e"))
import command  # noqa: E402

REPORT = os.path.abspath("tests/bench/step_time/gpu_report")  # tests run in the root of the runfiles
LIBRARY = os.path.abspath("kernels/cuda/libisthmus_cuda_emulation.so")


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def report(self, *args, program=command.BINARY, path=""):
        """Runs the script in an environment with nothing else, and returns (exit code, output, report.md)."""
        env = {"PATH": f"{path}/usr/bin:/bin", "ISTHMUS_CUDA_LIBRARY": LIBRARY}
        done = subprocess.run(
            ["bash", REPORT, f"--isthmus={program}", f"--out={self.dir}/out", "--small", *args],
            cwd=self.dir, env=env, capture_output=True, text=True,
        )  # fmt: skip
        path = f"{self.dir}/out/report.md"
        text = open(path).read() if os.path.exists(path) else ""
        return done.returncode, done.stdout + done.stderr, text

    def program(self, body):
        """Writes a script that runs `body` and then the program under test, and returns its path."""
        path = f"{self.dir}/program"
        with open(path, "w") as file:
            file.write(f'#!/bin/bash\n{body}\nexec {command.BINARY} "$@"\n')
        os.chmod(path, 0o755)
        return path

    def test_steps(self):
        code, out, text = self.report("devices", "families", "libraries", "recording", "rates")
        self.assertEqual(code, 0, out)
        self.assertEqual(out.strip(), text.strip())
        for step in "devices", "families", "libraries", "recording", "rates":
            self.assertRegex(text, rf"(?m)^{step}: passed, \d+ s$")
        self.assertIn("cuda emulation, 2.0 GiB of 2.0 GiB free", text)
        self.assertRegex(text, r"(?m)^kernels +\d+ passed, 0 failed")
        self.assertRegex(text, r'(?m)^product, bf16: \{"cuda":\d+,"emulation":2\}, [0-9.]+ ms$')
        self.assertRegex(text, r"(?m)^matmul 128 in bf16 +[0-9.]+ ms")
        with tarfile.open(f"{self.dir}/out/results.tar.gz") as results:
            self.assertIn("results/families.txt", results.getnames())
            self.assertIn("results/files/product.bf16.json", results.getnames())

    def test_a_failure_stops_no_other_step(self):
        code, out, text = self.report("recording", "libraries", program=self.program("[[ $1 == selftest ]] && exit 4"))
        self.assertEqual(code, 1, out)
        self.assertRegex(text, r"(?m)^recording: FAILED, exit code 4")
        self.assertRegex(text, r"(?m)^libraries: passed")

    def test_a_library_that_does_not_run_is_a_failure(self):
        faults = "export ISTHMUS_EMULATION_FAULTS='first-product second-product'"
        code, out, text = self.report("libraries", program=self.program(faults))
        self.assertEqual(code, 1, out)
        self.assertIn("a library refused or failed it", text)
        self.assertIn("so our own kernel, which is slow, runs", text)

    def test_sanitizers(self):
        """Each tool runs the program; for failures that it finds, cuda-gdb runs too."""
        for name, body in {
            "compute-sanitizer": 'echo "tool $2"; while [[ $1 != /* ]]; do shift; done; "$@"; [[ $* == *recording* ]] || exit 99',
            "cuda-gdb": 'echo "debugs with ISTHMUS_CUDA_SYNC=$ISTHMUS_CUDA_SYNC: ${*: -4}"',
        }.items():
            with open(f"{self.dir}/{name}", "w") as file:
                file.write(f"#!/bin/bash\n{body}\n")
            os.chmod(f"{self.dir}/{name}", 0o755)
        code, out, text = self.report("--sanitize", "memcheck", path=f"{self.dir}:")
        self.assertEqual(code, 1, out)
        self.assertIn("tool memcheck", text)
        self.assertRegex(text, r"(?m)^recording +\d+ passed, 0 failed")
        self.assertRegex(text, r"debugs with ISTHMUS_CUDA_SYNC=1: .*selftest --device=cuda --only=kernels --ops=relu,")
        self.assertEqual(text.count("debugs"), 1)
        self.assertNotIn("racecheck", text)
        code, out, _ = self.report("--sanitize")
        self.assertEqual(code, 0, out)
        self.assertEqual(out.count("there is no compute-sanitizer here: left out"), 4)

    def test_time(self):
        code, out, text = self.report("families", "recording", "--limit=12", program=self.program("[[ $1 == selftest ]] && sleep 60"))
        self.assertEqual(code, 1, out)
        self.assertRegex(text, r"(?m)^families: ran past its \d+ s")
        self.assertRegex(text, r"(?m)^recording: not begun, the time is up$")

    def test_unknown_step(self):
        code, out, _ = self.report("no_such_step")
        self.assertEqual(code, 2, out)
        self.assertIn("there is no step 'no_such_step'", out)


if __name__ == "__main__":
    command.main()
