"""Tests that the C library reads and writes the same ONNX files as the command line, and prints nothing."""

import ctypes
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import onnx_file  # noqa: E402

LIBRARY, ISTHMUS = (os.path.abspath(p) for p in sys.argv[1:3])
FOLDER = os.environ["TEST_TMPDIR"]
NOTES = 2  # ISTHMUS_NOTES


class Dim(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("size", ctypes.c_int64)]


class LoadOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("num_dims", ctypes.c_size_t),
        ("dims", ctypes.POINTER(Dim)),
        ("others", ctypes.c_void_p * 4),
        ("allow_outside", ctypes.c_int32),
    ]


class Library:
    """Graphs by ctypes; what fails raises ValueError with the library's message."""

    def __init__(self):
        self.c = ctypes.CDLL(LIBRARY)
        for name in ("isthmus_error_message", "isthmus_text_data"):
            getattr(self.c, name).restype = ctypes.c_char_p

    def call(self, name, *args):
        error = ctypes.c_void_p()
        status = getattr(self.c, name)(*args, ctypes.byref(error))
        if status != 0:
            message = self.c.isthmus_error_message(error).decode()
            self.c.isthmus_error_free(error)
            raise ValueError(message)

    def load(self, path, **sizes):
        graph = ctypes.c_void_p()
        dims = (Dim * len(sizes))(*[(name.replace("_", " ").encode(), size) for name, size in sizes.items()])
        options = LoadOptions(size=ctypes.sizeof(LoadOptions), num_dims=len(dims), dims=dims)
        self.call("isthmus_graph_load", path.encode(), ctypes.byref(options), ctypes.byref(graph))
        return graph

    def save(self, graph, path):
        self.call("isthmus_graph_save", graph, path.encode())

    def text(self, graph, form=0):
        text = ctypes.c_void_p()
        self.call("isthmus_graph_print", graph, form, ctypes.byref(text))
        return self.c.isthmus_text_data(text, None).decode()


def path_of(name, content):
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as file:
        file.write(content)
    return path


def flattened():
    """A model with an open batch, whose Reshape reads a shape that is computed of constants and of the input's shape."""
    nodes = [
        onnx_file.node("Shape", ["x"], ["shape"]),
        onnx_file.node("Slice", ["shape", "zero", "one"], ["batch"]),
        onnx_file.node("Mul", ["two", "three"], ["six"]),
        onnx_file.node("Concat", ["batch", "six"], ["sizes"], axis=0),
        onnx_file.node("Reshape", ["x", "sizes"], ["flat"]),
        onnx_file.node("Gemm", ["flat", "w"], ["y"]),
    ]
    constants = [onnx_file.tensor(name, [1], [value], onnx_file.INT64) for name, value in
                 [("zero", 0), ("one", 1), ("two", 2), ("three", 3)]]
    weights = onnx_file.tensor("w", [6, 2], [0.5 * i for i in range(12)])
    return onnx_file.model(nodes, [onnx_file.value_info("x", ["batch size", 2, 3])],
                           [onnx_file.value_info("y", ["batch size", 2])], [*constants, weights])


class Onnx(unittest.TestCase):
    def setUp(self):
        self.library = Library()

    def by_command(self, *args):
        done = subprocess.run([ISTHMUS, *args], capture_output=True, text=True, cwd=FOLDER)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_what_is_read_is_what_the_command_line_reads(self):
        path = path_of("flattened.onnx", flattened())
        graph = self.library.load(path, batch_size=5)
        self.assertIn("f32[5, 2]", self.library.text(graph))
        self.assertEqual(self.library.text(graph), self.by_command("import", path, "--dim", "batch size=5"))

    def test_what_is_written_is_what_the_command_line_writes(self):
        text = ("isthmus 2\ngraph @drawn {\n  input %x : f32[3, 4]\n  param %w : f32[4, 4] = normal {std = 0.5, seed = 3}\n"
                "  %y = matmul(%x, %w)\n  output %y\n}\n")
        graph = self.library.load(path_of("drawn.isth", text.encode()))
        ours, theirs = os.path.join(FOLDER, "ours.onnx"), os.path.join(FOLDER, "theirs.onnx")
        self.library.save(graph, ours)
        self.by_command("opt", os.path.join(FOLDER, "drawn.isth"), "--loss=mean", "-o", theirs)
        with open(theirs, "rb") as file:
            expected = onnx_file.float_initializers(file.read())
        with open(ours, "rb") as file:
            self.assertEqual(onnx_file.float_initializers(file.read())["w"], expected["w"])
        self.assertIn("matmul", self.by_command("import", ours))

    def test_notes_of_an_import_reach_the_caller(self):
        info = onnx_file.value_info
        model = onnx_file.model([onnx_file.node("Relu", ["x"], ["y"])], [info("x", [2])], [info("y", [2]), info("y", [2])])
        graph = self.library.load(path_of("twice.onnx", model))
        self.assertEqual(self.library.text(graph, NOTES), "'y' is listed twice among the outputs, and is taken once\n")
        plain = self.library.load(path_of("flattened.onnx", flattened()), batch_size=5)
        self.assertEqual(self.library.text(plain, NOTES), "")

    def test_an_open_size_that_nobody_binds_is_named(self):
        path = path_of("open.onnx", flattened())
        with self.assertRaisesRegex(ValueError, "batch size"):
            self.library.load(path)

    def test_an_unknown_operator_is_named(self):
        nodes = [onnx_file.node("Frobnicate", ["x"], ["y"])]
        info = onnx_file.value_info
        path = path_of("unknown.onnx", onnx_file.model(nodes, [info("x", [2])], [info("y", [2])]))
        with self.assertRaisesRegex(ValueError, "unknown.onnx.*Frobnicate"):
            self.library.load(path)

    def test_files_that_are_none_are_errors_and_nothing_is_printed(self):
        whole = flattened()
        cases = {"empty.onnx": b"", "noise.onnx": bytes(range(256)) * 40, "cut.onnx": whole[: len(whole) // 2],
                 "text.onnx": b"isthmus 2\n", "bad_utf8.onnx": whole.replace(b"flat", b"\xff\xfe\xfd\xfc")}
        for name, content in cases.items():
            program = (f"import ctypes; c = ctypes.CDLL({LIBRARY!r}); g = ctypes.c_void_p();"
                       f"print(c.isthmus_graph_load({path_of(name, content)!r}.encode(), None, ctypes.byref(g), None))")
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            if name != "bad_utf8.onnx":  # names need not be UTF-8
                self.assertIn(done.stdout.strip(), ("1", "4"), name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
