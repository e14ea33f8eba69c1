"""Runs the commands of docs/tutorial.md, in order, in an empty folder, as a reader would."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ISTHMUS, TUTORIAL = (os.path.abspath(p) for p in sys.argv[1:3])


def commands(text):
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                yield line[2:]


class Tutorial(unittest.TestCase):
    def test_every_command_works(self):
        with open(TUTORIAL) as f:
            lines = list(commands(f.read()))
        self.assertGreater(len(lines), 10)
        with tempfile.TemporaryDirectory() as folder:
            for line in lines:
                words = shlex.split(line)
                self.assertEqual(words[0], "isthmus", line)
                done = subprocess.run([ISTHMUS] + words[1:], cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, f"$ {line}\n{done.stdout}{done.stderr}")
                for product in re.findall(r"(?:-o |=)(\w+\.(?:isth|svg|json))", line):
                    self.assertGreater(os.path.getsize(os.path.join(folder, product)), 0, line)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
