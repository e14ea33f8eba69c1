"""Runs every snippet of docs/python.md, or of another page, in order, in an empty folder. Each must print what the page says."""

import contextlib
import io
import os
import re
import sys
import tempfile
import unittest

PAGE = os.path.abspath(sys.argv[1])

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import command  # noqa: E402

command.with_python_of_torch()

for variable in ("ISTHMUS_LIBRARY", "ISTHMUS_RUN_LIBRARY"):
    os.environ[variable] = os.path.abspath(os.environ[variable])  # another folder will be the current one


def snippets(text):
    """Each with what the page shows of its output: what stands right behind it."""
    for code, shown in re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", text, re.S | re.M):
        yield code, shown


class Page(unittest.TestCase):
    def test_every_snippet_works(self):
        with open(PAGE) as file:
            found = list(snippets(file.read()))
        self.assertGreater(len(found), 4)
        names = {}
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            stack.callback(os.chdir, os.getcwd())
            os.chdir(folder)
            for code, shown in found:
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile(code, PAGE, "exec"), names)
                self.assertEqual(printed.getvalue(), shown, code)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
