"""What is exported runs in another tool: ONNX's checker takes it, and its reference evaluator gives the same numbers."""

import command

command.with_python_of_torch()

import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import unittest  # noqa: E402

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnx.reference  # noqa: E402

KINDS = {"f64": np.float64, "f32": np.float32, "i64": np.int64, "i32": np.int32, "u8": np.uint8, "bool": np.bool_}
# What the evaluator itself cannot do: (row, attributes) to the reason.
NOT_COMPARED = {
    ("conv_transpose", "{groups = 2, strides = [2, 2], pads = [1, 1, 1, 1], dims = [6, 6]}"):
        "it fails on groups of several channels",
}


def examples():
    """(row, operand types, attributes, number of results) of the op table's examples."""
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/ops.md")
    for line in open(page):
        found = re.fullmatch(r"(\w+)\((.*?)\)(?: (\{.*\}))? : (.*)\n", line)
        if found:
            types = re.findall(r"(\w+)\[([\d, ]*)\]", found[2])
            yield (found[1], [(k, [int(d) for d in dims.split(",") if d.strip()]) for k, dims in types],
                   found[3] or "", len(re.findall(r"\]", found[4])))


def has_no_body(model):
    functions = {(f.domain, f.name) for f in model.functions}
    return sorted({n.op_type for n in model.graph.node if n.domain == "ai.isthmus" and (n.domain, n.op_type) not in functions})


class Exported(command.TestCase):
    def compare(self, file, rtol, atol):
        """`file`.onnx under ONNX's evaluator against `isthmus run`, every output."""
        path = self.path(file)
        onnx.checker.check_model(path, full_check=True)
        model = onnx.load(path)
        missing = has_no_body(model)
        if missing:
            return missing
        self.run_ok("run", file, "--inputs=in", "--outputs=out", "--progress=none")
        names = {n: f for f, n in json.loads(self.read("out/names.json")).items()}
        inputs = {i.name: np.load(self.path(f"in/{i.name}.npy")) for i in model.graph.input}
        got = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
        for output, theirs in zip(model.graph.output, got, strict=True):
            ours = np.load(self.path(f"out/{names[output.name]}"))
            self.assertEqual((ours.dtype, ours.shape), (theirs.dtype, theirs.shape), output.name)
            scale = max(1.0, float(np.abs(ours.astype(np.float64)).max(initial=0)))
            np.testing.assert_allclose(theirs, ours, rtol=rtol, atol=atol * scale, err_msg=f"{file} {output.name}")
        return []

    def feed(self, name, kind, dims, bound=4, low=-0.9, high=0.9):
        random = np.random.default_rng(sum(map(ord, name)) + sum(dims))
        if kind.startswith("f"):
            array = random.uniform(low, high, dims)
        else:
            array = random.integers(0, 2 if kind == "bool" else bound, dims)
        os.makedirs(self.path("in"), exist_ok=True)
        np.save(self.path(f"in/{name}.npy"), np.asarray(array).astype(KINDS[kind]))

    # --- Every row, on the examples of the op table

    def check_row(self, row, types, attrs, results):
        shutil.rmtree(self.path("in"), ignore_errors=True)
        os.makedirs(self.path("in"))
        text = "isthmus 1\ngraph @row {\n"
        for i, (kind, dims) in enumerate(types):
            text += f"  input %in{i} : {kind}{dims}\n"
            # Operands of logarithms, roots and variances; small enough for every index.
            self.feed(f"in{i}", kind, dims, bound=2, low=0.1, high=0.9)
        names = [f"%r{i}" for i in range(results)]
        text += f"  {', '.join(names)} = {row}({', '.join(f'%in{i}' for i in range(len(types)))}) {attrs}\n"
        text += "".join(f"  output {n}\n" for n in names) + "}\n"
        self.write("row.isth", text)
        self.run_ok("import", "row.isth", "-o", "row.onnx")
        return self.compare("row.onnx", 1e-6, 1e-7)

    # --- Nets: forward, differentiated, rewritten

    def check_net(self, *zoo, inputs, loss="cross_entropy"):
        for name, kind, dims, bound in inputs:
            self.feed(name, kind, dims, bound)
        self.run_ok("zoo", *zoo, "-o", "net.isth")
        self.run_ok("import", "net.isth", "-o", "net.onnx")
        labels = self.path("in/labels.npy")
        os.rename(labels, self.path("labels.npy"))
        self.assertEqual(self.compare("net.onnx", 2e-4, 2e-4), [])
        os.rename(self.path("labels.npy"), labels)
        for policy in "none", "memory":
            self.run_ok("opt", "net.onnx", f"--loss={loss}", f"--policy={policy}", "-o", f"{policy}.onnx")
            self.assertEqual(self.compare(f"{policy}.onnx", 2e-3, 2e-4), [])
        # And back into the text, the same graph.
        self.run_ok("import", "memory.onnx", "-o", "back.isth")
        self.run_ok("opt", "net.isth", f"--loss={loss}", "--policy=memory", "-o", "direct.isth")
        self.run_ok("verify", "back.isth", "direct.isth", "--inputs=in")
        self.assertIn("clone(", self.read("back.isth").decode())

    def test_mlp(self):
        self.check_net("mlp", "--depth=6", "--width=16", "--batch=8", "--shape=12",
                       inputs=[("x", "f32", [8, 12], 0), ("labels", "i64", [8], 10)])

    def test_cnn(self):
        self.check_net("cnn", "--width=4", "--batch=2", "--shape=3x16x16",
                       inputs=[("x", "f32", [2, 3, 16, 16], 0), ("labels", "i64", [2], 10)])

    def test_resnet(self):
        self.check_net("resnet", "--depth=8", "--width=4", "--batch=2", "--shape=3x32x32",
                       inputs=[("x", "f32", [2, 3, 32, 32], 0), ("labels", "i64", [2], 10)])

    def test_unet(self):
        self.check_net("unet", "--depth=2", "--width=4", "--batch=1", "--shape=3x16x16",
                       inputs=[("x", "f32", [1, 3, 16, 16], 0), ("labels", "i64", [1, 16, 16], 2)])

    def test_gpt2(self):
        self.check_net("gpt2", "--depth=2", "--width=16", "--batch=2", "--tokens=6", "--vocab=11", "--heads=2", "--dropout=0",
                       inputs=[("ids", "i64", [2, 6], 11), ("labels", "i64", [12], 11)])


def add_rows():
    by_row = {}
    for row, *call in examples():
        by_row.setdefault(row, []).append(call)
    for row, calls in by_row.items():
        def body(self, row=row, calls=calls):
            missing = 0
            for types, attrs, results in calls:
                with self.subTest(f"{row}({types}) {attrs}"):
                    if (row, attrs) not in NOT_COMPARED:
                        missing += bool(self.check_row(row, types, attrs, results))
            if missing:
                raise unittest.SkipTest(f"NOT COMPARED: {missing} of {len(calls)} examples have no form in standard operators")

        setattr(Exported, f"test_row_{row}", body)


add_rows()

if __name__ == "__main__":
    command.main()
