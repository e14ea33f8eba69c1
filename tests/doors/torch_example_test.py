"""Runs the example of docs/pytorch.md for a few steps. The losses must be the same within half of the memory."""

import os
import re
import subprocess
import sys
import unittest

EXAMPLE = os.path.abspath(sys.argv[1])

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import command  # noqa: E402

command.with_python_of_torch()
os.environ["ISTHMUS_LIBRARY"] = os.path.abspath(os.environ["ISTHMUS_LIBRARY"])


class Example(unittest.TestCase):
    def test_trains(self):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, EXAMPLE, "--steps=4"], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the same bits in both runs", done.stdout)
        plain, small = map(float, re.search(r"([\d.]+) MiB plain, ([\d.]+) MiB within 50%", done.stdout).groups())
        self.assertLess(small, 0.55 * plain)
        self.assertIn("[##############################] step 4/4", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
