"""Tests that a graph and its weights are a matching pair or an error, and that only files of the graph's folder are
read."""

import os
import re
import signal
import subprocess
import time

import command
import onnx_file
from cli_cases import Case
from onnx_file import node, tensor, value_info


class Weights(Case):
    def model(self, name, factor, size=300):
        """Writes a model whose weights are multiples of `factor`; models differ in nothing else."""
        values = [factor * (i % 5) for i in range(size)]
        return self.write(name, onnx_file.model([node("Mul", ["x", "w"], ["y"])], [value_info("x", [size])],
                                                [value_info("y", [size])], [tensor("w", [size], values)]))

    def refused(self, *args, says=(), **kwargs):
        result = command.run(*args, cwd=self.dir, timeout=20, memory_limit=4096, **kwargs)
        self.assertEqual(result.code, 1, result)
        for text in says:
            self.assertIn(text, result.err)
        return result


class Pairs(Weights):
    def test_the_pair_is_named(self):
        self.run_ok("import", self.model("a.onnx", 1.0), "-o", "m.isth")
        self.assertRegex(self.read("m.isth").decode(), r'\nweights "m.safetensors" digest "[0-9a-f]{16}"\n')
        self.run_ok("run", "m.isth")

    def test_equal_weights_are_equal(self):
        self.run_ok("import", self.model("a.onnx", 1.0), "-o", "a.isth")
        self.run_ok("import", "a.onnx", "-o", "b.isth")
        os.replace(self.path("b.safetensors"), self.path("a.safetensors"))
        self.run_ok("verify", "a.onnx", "a.isth", "--loss=mean")

    def test_a_mixed_pair_is_an_error(self):
        for name, factor in ("a", 1.0), ("b", 2.0):
            self.run_ok("import", self.model(f"{name}.onnx", factor), "-o", f"{name}.isth")
        os.replace(self.path("b.safetensors"), self.path("a.safetensors"))
        self.refused("run", "a.isth", says=["a.isth:", "a.safetensors", "digest", "written with"])

    def test_weights_that_another_program_wrote(self):
        self.run_ok("import", self.model("a.onnx", 1.0), "-o", "a.isth")
        content = self.read("a.safetensors").replace(b"isthmus.digest", b"another.digest", 1)
        self.write("a.safetensors", content)
        self.refused("run", "a.isth", says=["digest", "found none"])
        self.write("a.isth", re.sub(rb' digest "[0-9a-f]*"', b"", self.read("a.isth")))
        self.run_ok("run", "a.isth")

    def imported(self, name):
        """The command line of an import."""
        return [command.BINARY, "import", name, "-o", "m.isth"]

    def check_whole(self, say):
        """Checks that the files on disk are one complete pair, and not a mixture."""
        result = command.run("verify", "a.onnx", "m.isth", "--loss=mean", cwd=self.dir)
        other = command.run("verify", "b.onnx", "m.isth", "--loss=mean", cwd=self.dir)
        codes = sorted([result.code, other.code])
        self.assertIn(codes, ([0, 4], [1, 1]), f"{say}\n{result}\n{other}")
        return codes == [0, 4]

    def test_two_imports_at_once(self):
        self.model("a.onnx", 1.0)
        self.model("b.onnx", 2.0)
        for i in range(25):
            both = [subprocess.Popen(self.imported(name), cwd=self.dir, stderr=subprocess.DEVNULL) for name in ("a.onnx", "b.onnx")]
            self.assertEqual([p.wait(timeout=60) for p in both], [0, 0])
            self.assertTrue(self.check_whole(i), "a pair is whole: one writer at a time puts files in their places")

    def test_killed(self):
        self.end_imports_by(signal.SIGKILL)

    def test_interrupted(self):
        for number in signal.SIGINT, signal.SIGTERM:
            self.end_imports_by(number)
            left = [name for name in os.listdir(self.dir) if "tmp" in name]
            self.assertEqual(left, [], "a signal that can be handled leaves no file behind")

    def end_imports_by(self, number):
        """An import that overwrites a pair is interrupted at many moments; a complete pair must remain."""
        self.model("a.onnx", 1.0, size=200000)
        self.model("b.onnx", 2.0, size=200000)
        self.run_ok("import", "a.onnx", "-o", "m.isth")
        start = time.monotonic()
        self.run_ok("import", "b.onnx", "-o", "m.isth")
        whole = time.monotonic() - start
        for i in range(30):
            process = subprocess.Popen(self.imported("b.onnx" if i % 2 else "a.onnx"), cwd=self.dir, stderr=subprocess.DEVNULL)
            time.sleep(whole * (0.5 + i / 40))
            process.send_signal(number)
            process.wait(timeout=60)
            self.check_whole(i)


class Places(Weights):
    """Tests where weights may lie."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("sub"))
        self.run_ok("import", self.model("a.onnx", 1.0), "-o", "sub/m.isth")

    def named(self, weights, name="sub/n.isth"):
        text = re.sub(rb'weights "[^"]*" digest "[0-9a-f]*"', b'weights "' + weights + b'"', self.read("sub/m.isth"))
        return self.write(name, text)

    def test_in_the_folder_and_below(self):
        os.mkdir(self.path("sub/deep"))
        os.link(self.path("sub/m.safetensors"), self.path("sub/deep/w"))
        os.symlink("deep/w", self.path("sub/link"))
        for weights in b"m.safetensors", b"./m.safetensors", b"deep/w", b"link":
            self.run_ok("run", self.named(weights))

    def test_outside(self):
        os.link(self.path("sub/m.safetensors"), self.path("w"))
        os.symlink("../w", self.path("sub/link"))
        os.symlink("..", self.path("sub/up"))
        for weights in b"../w", os.path.abspath(self.path("w")).encode(), b"link", b"up/w", b"x/../../w":
            with self.subTest(weights):
                self.named(weights)
                self.refused("run", "sub/n.isth", says=["sub/n.isth:", "--allow-outside"])
                if weights != b"x/../../w":  # there is no x
                    self.run_ok("run", "sub/n.isth", "--allow-outside")

    def test_standard_input_is_in_the_current_folder(self):
        text = self.read("sub/m.isth")
        self.refused("run", "-", stdin=text, says=["m.safetensors"])
        os.link(self.path("sub/m.safetensors"), self.path("m.safetensors"))
        self.run_ok("run", "-", stdin=text)
        self.refused("run", "-", stdin=text.replace(b'"m.safe', b'"../m.safe'), says=["--allow-outside"])

    def test_no_name_of_a_file(self):
        for weights in b"m.safetensors\\00", b"m.safetensors\\00x":
            with self.subTest(weights):
                self.named(weights)
                self.refused("run", "sub/n.isth", says=["sub/n.isth:"])
                self.refused("run", "sub/n.isth", "--allow-outside")

    def test_pipes_devices_and_folders(self):
        os.mkfifo(self.path("sub/fifo"))
        os.symlink("/dev/zero", self.path("sub/zero"))
        os.mkdir(self.path("sub/folder"))
        for weights in b"fifo", b"zero", b"folder", b"/dev/zero", b"/dev/stdin", b".":
            with self.subTest(weights):
                self.named(weights)
                self.refused("run", "sub/n.isth", "--allow-outside", says=["regular file"])
                self.refused("run", "sub/n.isth")

    def test_models_without_end(self):
        os.symlink("/dev/zero", self.path("zero.isth"))
        os.symlink("/dev/zero", self.path("zero.onnx"))
        for model in "zero.isth", "zero.onnx":
            self.refused("run", model, says=[model, "device"])
        self.refused("plan", "/dev/zero", "--budget=50%", says=["/dev/zero", "device"])

    def test_external_data_of_onnx(self):
        self.write("w.bin", bytes(24))
        self.write("sub/m.onnx", onnx_file.model([node("Add", ["x", "w"], ["y"])], [value_info("x", [2, 3])],
                                                 [value_info("y", [2, 3])], [tensor("w", [2, 3], external={"location": "../w.bin"})]))
        self.refused("run", "sub/m.onnx", says=["--allow-outside", "../w.bin"])
        self.run_ok("run", "sub/m.onnx", "--allow-outside")
        os.mkfifo(self.path("sub/fifo"))
        self.write("sub/m.onnx", self.read("sub/m.onnx").replace(b"../w.bin", b"././fifo"))
        self.refused("run", "sub/m.onnx", says=["regular file"])

    def test_inputs(self):
        self.write("m.isth", "isthmus 1\ngraph @g {\n  input %x : f32[2]\n  %y = exp(%x)\n  output %y\n}\n")
        os.mkdir(self.path("in"))
        os.mkfifo(self.path("in/x.npy"))
        self.refused("run", "m.isth", "--inputs=in", says=["in/x.npy", "regular file"])
        os.remove(self.path("in/x.npy"))
        os.symlink("/dev/zero", self.path("in/x.npy"))
        self.refused("run", "m.isth", "--inputs=in", says=["in/x.npy", "regular file"])

    def test_written_elsewhere(self):
        """A weights file outside the model's folder needs --allow-outside, and the output says so. A file below the
        folder is named relative to it."""
        os.makedirs(self.path("out/deep"))
        result = self.run_ok("import", "a.onnx", "-o", "out/m.isth", "--weights=w.safetensors")
        self.assertIn("--allow-outside", result.err)
        self.run_ok("run", "out/m.isth", "--allow-outside")
        self.refused("run", "out/m.isth")
        result = self.run_ok("import", "a.onnx", "-o", "out/m.isth", "--weights=out/deep/w.safetensors")
        self.assertNotIn("--allow-outside", result.err)
        self.assertIn(b'weights "deep/w.safetensors"', self.read("out/m.isth"))
        self.run_ok("run", "out/m.isth")

    def test_on_standard_output(self):
        """A text that refers to the weights of its source can be read from the same folder."""
        size = 300000
        self.run_ok("import", self.model("large.onnx", 1.0, size), "-o", "sub/large.isth")
        for model in "sub/large.isth", os.path.join(self.dir, "sub/large.isth"):
            text = self.run_ok("opt", model, "--loss=mean", "-o", "-").out
            self.assertRegex(text.decode(), r'weights "sub/large.safetensors" digest "[0-9a-f]{16}"')
            self.run_ok("run", "-", stdin=text)
            self.write("copy.isth", text)
            self.run_ok("run", "copy.isth")


class Leftovers(Weights):
    def test_an_output_that_is_a_folder(self):
        self.model("a.onnx", 1.0)
        os.mkdir(self.path("o.isth"))
        before = sorted(os.listdir(self.dir))
        self.refused("import", "a.onnx", "-o", "o.isth", says=["o.isth", "irectory"])
        self.assertEqual(sorted(os.listdir(self.dir)), before)


if __name__ == "__main__":
    command.main()
