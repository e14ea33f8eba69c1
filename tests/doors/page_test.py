"""The program of docs/c.md, compiled as a reader would and run: it prints what the page says."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY, HEADER, PAGE = (os.path.abspath(p) for p in sys.argv[1:4])


class Page(unittest.TestCase):
    def test_the_program_prints_what_the_page_says(self):
        with open(PAGE) as file:
            text = file.read()
        (program,) = re.findall(r"```c\n(.*?)```", text, re.S)
        (printed,) = re.findall(r"It prints `([^`]*)`", text)
        with tempfile.TemporaryDirectory() as folder:
            for path in (LIBRARY, HEADER):
                shutil.copy(path, folder)
            with open(os.path.join(folder, "plan.c"), "w") as file:
                file.write(program)
            compile_it = ["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "plan.c", "-I.", "-L.", "-listhmus",
                          "-Wl,-rpath,$ORIGIN", "-o", "plan"]
            subprocess.run(compile_it, cwd=folder, check=True)
            done = subprocess.run([os.path.join(folder, "plan")], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.split(), printed.split())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
