"""Runs the commands of docs/tutorial.md, or of another page, in order, as a reader would. The folder is empty, or holds
the files that the given programs make."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ISTHMUS, PAGE, *MAKERS = (os.path.abspath(p) for p in sys.argv[1:])
FEWEST = 10 if PAGE.endswith("tutorial.md") else 3


def commands(text):
    """Yields each command with the headings that the page shows in its output: lines that are not indented, up to the
    first number."""
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for part in block.split("$ ")[1:]:
            line, *shown = part.splitlines()
            yield line, [re.split(r"[\d(]", s)[0].strip() for s in shown if s and not s.startswith((" ", "..."))]


class Tutorial(unittest.TestCase):
    def test_every_command_works(self):
        with open(PAGE) as f:
            lines = list(commands(f.read()))
        self.assertGreater(len(lines), FEWEST)
        with tempfile.TemporaryDirectory() as folder:
            for maker in MAKERS:
                subprocess.run([sys.executable, maker], cwd=folder, check=True)
            for line, headings in lines:
                words = shlex.split(line)
                self.assertEqual(words[0], "isthmus", line)
                done = subprocess.run([ISTHMUS] + words[1:], cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, f"$ {line}\n{done.stdout}{done.stderr}")
                for heading in headings:
                    self.assertIn(heading, done.stdout + done.stderr, line)
                for product in re.findall(r"(?:-o |=)(\w+\.(?:isth|svg|json|csv|html))", line):
                    self.assertGreater(os.path.getsize(os.path.join(folder, product)), 0, line)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
