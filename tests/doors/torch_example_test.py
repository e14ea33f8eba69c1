"""Runs the examples of docs/pytorch.md for a few steps. Their results must be the same within a part of the memory."""

import os
import re
import subprocess
import sys
import unittest

EXAMPLE, PIPELINE = map(os.path.abspath, sys.argv[1:3])

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import command  # noqa: E402

command.with_python_of_torch()
os.environ["ISTHMUS_LIBRARY"] = os.path.abspath(os.environ["ISTHMUS_LIBRARY"])


class Example(unittest.TestCase):
    def run_python(self, *arguments):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_trains_in_a_pipeline(self):
        done = self.run_python("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", PIPELINE, "--steps=4", "--microbatches=4")
        ranks = re.findall(r"rank (\d): ([\d.]+) MiB plain, budget ([\d.]+), planned ([\d.]+), measured ([\d.]+); .*? in flight: (\d); the same bits", done.stdout)
        self.assertEqual(sorted((rank, in_flight) for rank, *_, in_flight in ranks), [("0", "2"), ("1", "1")], done.stdout)
        for _, plain, budget, planned, measured, _ in ranks:
            self.assertLess(float(budget), 0.62 * float(plain))
            self.assertLessEqual(float(planned), float(budget))
            self.assertLessEqual(float(measured), float(budget))

    def test_trains(self):
        done = self.run_python(EXAMPLE, "--steps=4")
        self.assertIn("the same bits in both runs", done.stdout)
        plain, small = map(float, re.search(r"([\d.]+) MiB plain, ([\d.]+) MiB within 50%", done.stdout).groups())
        self.assertLess(small, 0.55 * plain)
        self.assertIn("[##############################] step 4/4", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
