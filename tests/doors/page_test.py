"""The programs of docs/c.md, compiled as a reader would and run: they print what the page says."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY, HEADER, CPP_HEADER, PAGE = (os.path.abspath(p) for p in sys.argv[1:5])
COMPILERS = {
    "c": ["gcc", "-std=c99", "-pedantic"],
    "cpp": ["g++", "-std=c++17", "-pedantic"],
}


class Page(unittest.TestCase):
    def test_the_programs_print_what_the_page_says(self):
        with open(PAGE) as file:
            text = file.read()
        programs = re.findall(r"```(c|cpp)\n(.*?)```\s+It prints `([^`]*)`", text, re.S)
        self.assertEqual([language for language, _, _ in programs], ["c", "cpp"])
        for language, program, printed in programs:
            with self.subTest(language), tempfile.TemporaryDirectory() as folder:
                os.mkdir(os.path.join(folder, "isthmus"))
                for path in (LIBRARY, HEADER):
                    shutil.copy(path, folder)
                shutil.copy(CPP_HEADER, os.path.join(folder, "isthmus"))
                with open(os.path.join(folder, f"plan.{language}"), "w") as file:
                    file.write(program)
                compile_it = [*COMPILERS[language], "-Wall", "-Wextra", "-Werror", f"plan.{language}", "-I.", "-L.", "-listhmus",
                              "-Wl,-rpath,$ORIGIN", "-o", "plan"]
                subprocess.run(compile_it, cwd=folder, check=True)
                done = subprocess.run([os.path.join(folder, "plan")], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout.split(), printed.split())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
