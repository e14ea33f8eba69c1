"""Tests which GPU generation is built for by default.

The arguments are what the build's rule found, and what is expected.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import command  # noqa: E402

FOUND, WANTED = (argument.split(",") for argument in sys.argv[1:3])


class Generations(unittest.TestCase):
    def test_all(self):
        self.assertEqual(FOUND, WANTED)
        self.assertIn("90", FOUND)


if __name__ == "__main__":
    del sys.argv[1:]
    command.main()
