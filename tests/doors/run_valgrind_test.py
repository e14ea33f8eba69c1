"""A C program that runs graphs, under Valgrind: no leak, no error."""

import os
import subprocess
import sys
import unittest

PROGRAM = os.path.abspath(sys.argv[1])


class Valgrind(unittest.TestCase):
    def test_it_finds_nothing(self):
        command = ["valgrind", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect", "--error-exitcode=9", PROGRAM]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertIn("all as expected", done.stdout)
        self.assertIn("ERROR SUMMARY: 0 errors", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
