"""Compiles and runs the programs of docs/c.md as a reader would. They must print what the page says."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY, RUN_LIBRARY, HEADER, RUN_HEADER, CPP_HEADER, PAGE = (os.path.abspath(p) for p in sys.argv[1:7])
MODEL = """isthmus 2
graph @model {
  input %x : f32[256, 64]
  param %w : f32[64, 64] = normal {std = 0.1, seed = 1}
  %a = matmul(%x, %w)
  %b = gelu(%a)
  %c = matmul(%b, %w)
  %d = gelu(%c)
  %e = matmul(%d, %w)
  %f = gelu(%e)
  %y = matmul(%f, %w)
  output %y
}
"""
COMPILERS = {
    "c": ["gcc", "-std=c99", "-pedantic"],
    "cpp": ["g++", "-std=c++17", "-pedantic"],
}


def save_model(path):
    """The model that the page's programs load."""
    library, graph = ctypes.CDLL(LIBRARY), ctypes.c_void_p()
    text = MODEL.encode()
    assert library.isthmus_graph_from_text(text, ctypes.c_size_t(len(text)), ctypes.byref(graph), None) == 0
    assert library.isthmus_graph_save(graph, path.encode(), None) == 0


class Page(unittest.TestCase):
    def test_the_programs_print_what_the_page_says(self):
        with open(PAGE) as file:
            text = file.read()
        programs = re.findall(r"```(c|cpp)\n(.*?)```\s+It prints `([^`]*)`", text, re.S)
        self.assertEqual([language for language, _, _ in programs], ["c", "cpp", "c", "c"])
        for language, program, printed in programs:
            with self.subTest(language), tempfile.TemporaryDirectory() as folder:
                os.mkdir(os.path.join(folder, "isthmus"))
                for path in (LIBRARY, RUN_LIBRARY, HEADER, RUN_HEADER):
                    shutil.copy(path, folder)
                save_model(os.path.join(folder, "model.onnx"))
                shutil.copy(CPP_HEADER, os.path.join(folder, "isthmus"))
                with open(os.path.join(folder, f"plan.{language}"), "w") as file:
                    file.write(program)
                compile_it = [*COMPILERS[language], "-Wall", "-Wextra", "-Werror", f"plan.{language}", "-I.", "-L.", "-listhmus", "-listhmus_run",
                              "-Wl,-rpath,$ORIGIN", "-o", "plan"]
                subprocess.run(compile_it, cwd=folder, check=True)
                done = subprocess.run([os.path.join(folder, "plan")], capture_output=True, text=True, cwd=folder)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout.split(), printed.split())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
