"""If an output of a command is also an input of it or another output, by whatever name, the exit code is 2 and nothing
is written."""

import json
import os

import command
import onnx_file
from cli_cases import Case
from joint_graphs import problem
from onnx_file import node, tensor, value_info


class Collisions(Case):
    def refused(self, *args, stdin=b"", stdout=None):
        before = self.files()
        result = command.run(*args, cwd=self.dir, stdin=stdin, **({"stdout": stdout} if stdout else {}))
        self.assertEqual(result.code, 2, f"isthmus {' '.join(args)}\n{result}")
        self.assertEqual(self.files(), before, "something was written")
        self.assertTrue("one file" in result.err or "also read" in result.err, result)
        return result

    def big(self):
        """Writes a model with its own weights file, b.safetensors."""
        values = [float(i % 7) for i in range(32 * 32)]
        self.write("big.onnx", onnx_file.model([node("Mul", ["x", "w"], ["y"])], [value_info("x", [32, 32])],
                                               [value_info("y", [32, 32])], [tensor("w", [32, 32], values)]))
        self.run_ok("import", "big.onnx", "-o", "b.isth")
        self.assertIn("b.safetensors", os.listdir(self.dir))
        return "b.isth"

    def test_output_onto_output(self):
        model = self.mlp()
        opt = ["opt", model, "--loss=mean"]
        for args in (["-o", "o.isth", "--weights=o.isth"], ["-o", "o.isth", "--report=o.isth"], ["-o", "o.isth", "--report=./o.isth"],
                     ["--dot=g.dot", "--report=g.dot"], ["-o", "o.isth", "--dot=g.dot", "--weights=g.dot"],
                     ["-o", "o.isth", "--report=o.safetensors"], ["-o", "o.onnx", "--report=o.onnx.data"],
                     ["-o", "-", "--report=-"], ["-o", "-", "--report=/dev/stdout"], ["--dot=-", "--report=-"]):
            with self.subTest(args):
                self.refused(*opt, *args)

    def test_output_onto_the_model(self):
        model = self.mlp()
        for verb, args in (("opt", ["-o", model]), ("opt", ["-o", "o.isth", f"--weights={model}"]), ("opt", [f"--report={model}"]),
                           ("grad", ["-o", model]), ("run", [f"--report={model}"])):
            with self.subTest(f"{verb} {args}"):
                self.refused(verb, model, "--loss=mean", *args)
        self.refused("import", model, "-o", model)
        self.refused("import", model, "-o", os.path.join(self.dir, model))

    def test_output_onto_the_models_weights(self):
        model = self.big()
        for args in (["-o", "o.isth", "--weights=b.safetensors"], ["--report=b.safetensors"], ["-o", "sub/../b.isth"]):
            with self.subTest(args):
                os.makedirs(self.path("sub"), exist_ok=True)
                self.refused("opt", model, "--loss=mean", *args)
        self.refused("import", "big.onnx", "-o", "big.onnx")

    def test_output_onto_external_data(self):
        values = tensor("w", [2, 3], external={"location": "w.bin"})
        self.write("w.bin", bytes(24))
        self.write("m.onnx", onnx_file.model([node("Add", ["x", "w"], ["y"])], [value_info("x", [2, 3])], [value_info("y", [2, 3])],
                                             [values]))
        self.refused("opt", "m.onnx", "--loss=mean", "--report=w.bin")
        self.run_ok("opt", "m.onnx", "--loss=mean", "--report=r.json")

    def test_links(self):
        model = self.mlp()
        os.symlink(model, self.path("soft.json"))
        os.link(self.path(model), self.path("hard.json"))
        os.symlink(".", self.path("here"))
        for report in "soft.json", "hard.json", "here/mlp.isth", "here/here/soft.json":
            with self.subTest(report):
                self.refused("run", model, "--loss=mean", f"--report={report}")
        self.refused("opt", model, "--loss=mean", "-o", "here/new.isth", "--report=new.isth")

    def test_outputs_folder(self):
        model = self.mlp()
        for args in (["--outputs=out", "--report=out/names.json"], ["--outputs=out", "--report=out/loss.npy"],
                     ["--outputs=out", "--report=out"]):
            with self.subTest(args):
                self.refused("run", model, "--loss=mean", *args)
                os.makedirs(self.path("out"), exist_ok=True)
                if args[1] != "--report=out":
                    self.refused("run", model, "--loss=mean", *args)
                os.rmdir(self.path("out"))

    def test_inputs_folder(self):
        self.write("m.isth", "isthmus 1\ngraph @g {\n  input %x : f32[2]\n  %y = exp(%x)\n  output %x\n  output %y\n}\n")
        self.write("in/x.npy", command.npy("f32", (2,), [1.0, 2.0]))
        self.refused("run", "m.isth", "--inputs=in", "--outputs=in")
        self.refused("run", "m.isth", "--inputs=in", "--report=in/x.npy")
        self.run_ok("run", "m.isth", "--inputs=in", "--outputs=out", "--report=out/r.json")

    def test_plan(self):
        self.write("p.json", json.dumps(problem(4)))
        self.run_ok("plan", "p.json", "--budget=100%", "-o", "s.json")
        for args in (["-o", "p.json"], ["--report=p.json"], ["-o", "o.json", "--curve=o.json"], ["-o", "o.json", "--report=o.json"],
                     ["--curve=c.json", "--report=c.json"], ["-o", "-", "--report=-"], ["--curve=-"],
                     ["--replay=s.json", "-o", "s.json"]):
            with self.subTest(args):
                self.refused("plan", "p.json", "--budget=100%", *args)

    def test_standard_input_and_output(self):
        model = self.mlp()
        with open(self.path(model), "rb") as stdin:
            before = self.files()
            result = command.subprocess.run([command.BINARY, "opt", "-", "--loss=mean", "-o", model], cwd=self.dir, stdin=stdin,
                                            capture_output=True, timeout=60)
        self.assertEqual((result.returncode, self.files()), (2, before), result)
        with open(self.path("o.json"), "wb") as stdout:
            self.refused("opt", model, "--loss=mean", "-o", "-", "--report=o.json", stdout=stdout)

    def test_what_does_not_collide(self):
        """Several outputs may go to /dev/null, and one to standard output by any of its names."""
        model = self.mlp()
        self.run_ok("opt", model, "--loss=mean", "-o", "o.isth", "--dot=g.dot", "--report=/dev/null")
        self.run_ok("run", model, "--loss=mean", "--report=/dev/null", "--outputs=out")
        out = self.run_ok("opt", model, "--loss=mean", "-o", "o.isth", "--report=/dev/stdout").out
        self.assertEqual(json.loads(out)["schema"], "isthmus.report/1")

    def test_standard_output_that_is_a_file(self):
        """Standard output is written to, and not replaced."""
        model = self.mlp()
        for name in "-", "/dev/stdout", "log":
            with self.subTest(name), open(self.path("log"), "wb", buffering=0) as log:
                log.write(b"before\n")
                self.run_ok("opt", model, "--loss=mean", "-o", "o.isth", f"--report={name}", stdout=log)
                log.write(b"after\n")
                lines = self.read("log").split(b"\n")
                self.assertEqual((lines[0], lines[-2]), (b"before", b"after"))
                self.assertEqual(json.loads(b"\n".join(lines[1:-2]))["schema"], "isthmus.report/1")


if __name__ == "__main__":
    command.main()
