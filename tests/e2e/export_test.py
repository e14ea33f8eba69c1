"""Exported files work in another tool: ONNX's checker accepts them, and its reference evaluator gives the same
numbers."""

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

# The relative effect of one rounding in each 16-bit type, and the number of roundings by which a row may differ. The
# evaluator rounds after every operator, while rows compute 16-bit floats in f32.
UNITS = {"f16": 2.0**-11, "bf16": 2.0**-8}
ROUNDINGS = 8
# The indices of operands that are f32 when the others are 16-bit floats: statistics, the gradient of a loss, and what is
# rounded to 16 bits.
WIDER = {"layer_norm_grad": [3, 4], "rms_norm_grad": [3], "group_norm_grad": [3, 4], "attention_grad": [5],
         "batch_norm_parts_grad": [3, 4],
         "cross_entropy_grad": [0, 3], "nll_grad": [0], "shorten": [0]}
# Rows that draw random numbers.
DRAWN = {"dropout", "uniform", "normal"}
# Rows for which the evaluator gives results of other types: statistics in the type of x instead of f32, and the result
# of dropout in the type of the ratio.
OTHER_TYPES = {"layer_norm", "dropout"}
KINDS = {"f64": np.float64, "f32": np.float32, "i64": np.int64, "i32": np.int32, "u8": np.uint8, "bool": np.bool_}


def not_compared(row, types, attrs):
    """Returns why the evaluator cannot compute this call, or ""."""
    if row == "conv_transpose" and "groups = 2" in attrs and ("strides" in attrs or types[1][1][1] > 1):
        return "it fails on groups of several channels"
    if row in ("matmul", "matmul_add") and types[0][0] == "bf16" and max(len(dims) for _, dims in types) > 2:
        return "its products of several matrices of bf16 are of f32, which it then rejects itself"
    return ""


def about(types):
    """Returns the main type of an example: f64 if it occurs, and otherwise the first operand's type."""
    return "f64" if not types or "f64" in dict(types) else types[0][0]


def in_type(row, types, attrs, kind):
    """Returns a call with its main type replaced by another."""
    wider = WIDER.get(row, []) if kind in UNITS else []
    types = [("f32" if i in wider else kind if k == about(types) else k, dims) for i, (k, dims) in enumerate(types)]
    return types, attrs.replace("type = f64", f"type = {kind}")


def lines_of_page():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/ops.md"), encoding="utf-8") as page:
        yield from page


def types_of_rows():
    """Returns the element types that each row accepts, by row."""
    row, types = "", {}
    for line in lines_of_page():
        if line.startswith("### "):
            row = line[4:].strip()
        if found := re.match(r"- Types: ([\w, ]+)[;.]", line):
            types[row] = found[1].split(", ")
    return types


def examples():
    """Yields (row, operand types, attributes, number of results) for the op table's examples."""
    for line in lines_of_page():
        found = re.fullmatch(r"(\w+)\((.*?)\)(?: (\{.*\}))? : (.*)\n", line)
        if found and not re.search(r"\bhost |\btoken\[", line):  # transfers are tested in check_net
            types = re.findall(r"(\w+)\[([\d, ]*)\]", found[2])
            yield (found[1], [(k, [int(d) for d in dims.split(",") if d.strip()]) for k, dims in types],
                   found[3] or "", len(re.findall(r"\]", found[4])))


def has_no_body(model):
    functions = {(f.domain, f.name) for f in model.functions}
    return sorted({n.op_type for n in model.graph.node if n.domain == "ai.isthmus" and (n.domain, n.op_type) not in functions})


class Exported(command.TestCase):
    def compare(self, file, rtol, atol, same_types=True, drawn=False):
        """Compares all outputs of `file`.onnx in ONNX's evaluator with those of `isthmus run`. Returns the operators
        that have no body. For `drawn` outputs only shapes and types are compared."""
        path = self.path(file)
        onnx.checker.check_model(path, full_check=True)
        model = onnx.load(path)
        missing = has_no_body(model)
        if missing:
            return missing
        self.run_ok("run", file, "--inputs=in", "--outputs=out", "--progress=none")
        names = {n: f for f, n in json.loads(self.read("out/names.json")).items()}
        inputs = {}
        for i in model.graph.input:
            kind = onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
            inputs[i.name] = np.load(self.path(f"in/{i.name}.npy")).astype(kind)
        got = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
        for output, theirs in zip(model.graph.output, got, strict=True):
            ours = np.load(self.path(f"out/{names[output.name]}"))
            if ours.dtype == np.dtype("V2"):  # NumPy has no bf16
                ours = ours.view(onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16))
            self.assertEqual(ours.shape, theirs.shape, output.name)
            if same_types:
                self.assertEqual(ours.dtype, theirs.dtype, output.name)
            if drawn:
                continue
            if not rtol:
                np.testing.assert_array_equal(theirs, ours, err_msg=f"{file} {output.name}")
                continue
            ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
            scale = max(1.0, float(np.abs(ours, where=np.isfinite(ours), out=np.zeros_like(ours)).max(initial=0)))
            np.testing.assert_allclose(theirs, ours, rtol=rtol, atol=atol * scale, err_msg=f"{file} {output.name}")
        return []

    def feed(self, name, kind, dims, bound=4, low=-0.9, high=0.9, least=0):
        random = np.random.default_rng(sum(map(ord, name)) + sum(dims))
        if kind.startswith("f"):
            array = random.uniform(low, high, dims)
        else:
            array = random.integers(least, 2 if kind == "bool" else bound, dims)
        os.makedirs(self.path("in"), exist_ok=True)
        np.save(self.path(f"in/{name}.npy"), np.asarray(array).astype(KINDS[kind]))

    # --- Every row, with the examples of the op table

    def is_right(self, row, types, attrs, results):
        self.write_row(row, types, attrs, results)
        return command.run("import", "row.isth", "-o", "row.onnx", cwd=self.dir).code == 0

    def check_row(self, row, types, attrs, results, whole=""):
        """Compares one call, and returns the operators that have no body. Integers of the type `whole` are never zero,
        so that they can be divisors."""
        shutil.rmtree(self.path("in"), ignore_errors=True)
        unit = max([UNITS.get(kind, 0) for kind, _ in types], default=0)
        for i, (kind, dims) in enumerate(types):
            # The values suit logarithms, roots and variances, and are valid as indices. f32 files also serve 16-bit
            # inputs.
            self.feed(f"in{i}", "f32" if kind in UNITS else kind, dims, bound=2 + (kind == whole), low=0.1, high=0.9,
                      least=int(kind == whole and kind != "bool"))
        tolerances = (ROUNDINGS * unit,) * 2 if unit else (1e-6, 1e-7) if "f64" in dict(types) else (1e-5, 1e-6)
        return self.compare_row(row, types, attrs, results, tolerances)

    def write_row(self, row, types, attrs, results):
        text = "isthmus 1\ngraph @row {\n"
        text += "".join(f"  input %in{i} : {kind}{dims}\n" for i, (kind, dims) in enumerate(types))
        names = [f"%r{i}" for i in range(results)]
        text += f"  {', '.join(names)} = {row}({', '.join(f'%in{i}' for i in range(len(types)))}) {attrs}\n"
        text += "".join(f"  output {n}\n" for n in names) + "}\n"
        self.write("row.isth", text)

    def compare_row(self, row, types, attrs, results, tolerances):
        """Compares one row on the inputs in the folder `in`."""
        os.makedirs(self.path("in"), exist_ok=True)
        self.write_row(row, types, attrs, results)
        self.run_ok("import", "row.isth", "-o", "row.onnx")
        return self.compare("row.onnx", *tolerances, same_types=row not in OTHER_TYPES, drawn=row in DRAWN)

    # --- Rows on inputs that their examples do not have

    def check(self, row, attrs, *inputs, tolerances=(1e-6, 1e-7)):
        shutil.rmtree(self.path("in"), ignore_errors=True)
        os.makedirs(self.path("in"))
        codes = {np.dtype(v): k for k, v in KINDS.items()}
        for i, array in enumerate(inputs):
            np.save(self.path(f"in/in{i}.npy"), array)
        with self.subTest(f"{row} {attrs}"):
            types = [(codes[a.dtype], list(a.shape)) for a in inputs]
            self.assertEqual(self.compare_row(row, types, attrs, 1, tolerances), [])

    def test_shifts_of_every_number_by_every_number(self):
        for kind, bits in (np.uint8, 8), (np.int32, 32), (np.int64, 64):
            ends = np.iinfo(kind)
            numbers = np.array([0, 1, 5, ends.max, ends.min, ends.max // 3, ends.min // 3], kind)[:, None]
            places = np.array([0, 1, 3, bits - 1, bits, bits + 1, ends.max, ends.min], kind)
            for row in "shift_left", "shift_right":
                self.check(row, "", numbers, places, tolerances=(0, 0))

    def test_numbers_beside_whole_ones(self):
        for kind in np.uint8, np.int32, np.int64:
            x = np.arange(0, 100, 9).astype(kind) - kind(3 if kind != np.uint8 else 0)
            for attrs in "{scale = -1.0, shift = 3.0}", "{scale = 2.5, shift = -20.0}", "{scale = 3.0, shift = 7.0}":
                self.check("affine", attrs, x, tolerances=(0, 0))
            for attrs in "{min = 0.5, max = 40.5}", "{min = -7.5}", "{max = 1e9}", "{min = -1e30, max = 0.5}":
                self.check("clamp", attrs, x, tolerances=(0, 0))

    def test_pools_of_whole_numbers_that_no_float_tells_apart(self):
        x = (2**62 + np.arange(36).reshape(1, 1, 6, 6) * 7 % 5).astype(np.int64)
        x[0, 0, ::2] *= -1
        attrs = "{kernel = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]}"
        for row in "max_pool", "max_pool_indices":
            self.check(row, attrs, x, tolerances=(0, 0))
            self.check(row, attrs, (x // 2**33).astype(np.int32), tolerances=(0, 0))

    def test_recurrences_begin_without_a_factor(self):
        b, a = np.array([1.0, 2, 3]), np.array([np.inf, 0.5, 2])
        self.check("recurrence", "", b, a)
        self.check("recurrence", "{reverse = true}", b, a[::-1].copy())
        self.check("recurrence", "{previous = true}", b, a[::-1].copy())
        self.check("recurrence", "", b[:1], a[:1])
        a, cut = np.array([2, np.inf, 3]), np.array([False, True, False])
        for attrs in "", "{reverse = true}", "{previous = true}", "{previous = true, reverse = true}":
            self.check("recurrence", attrs, b, a, cut)

    def test_inverses_by_pivots_and_of_what_has_none(self):
        x = np.random.default_rng(1).normal(size=(4, 5, 5))
        x[1, 0, 0] = 0
        x[2] = np.eye(5)[[1, 2, 3, 4, 0]]
        x[3, :, 2] = 0
        self.check("inverse", "", x, tolerances=(1e-9, 1e-9))

    def test_the_last_of_equal_indices(self):
        indices = np.array([0, -1, 3, 0, 2, -4, 3], np.int64)
        self.check("gather_elements", "{last_only = true}", np.arange(1.0, 5), indices)
        pairs = np.array([[[0, 1], [1, -1], [0, -2], [-2, 1]], [[1, 1], [1, 1], [0, 0], [-1, -1]]], np.int32)
        x = np.arange(1.0, 25)
        self.check("gather_nd", "{last_only = true}", x.reshape(2, 3, 4), pairs)
        self.check("gather_nd", "{last_only = true, batch_dims = 1}", x.reshape(2, 2, 3, 2), pairs)
        self.check("gather_nd", "{last_only = true, batch_dims = 1}", x.reshape(2, 2, 6), pairs[:, :, :1].copy())

    def test_draws_are_of_the_same_distribution(self):
        ones = np.ones((60, 50))
        for row, attrs, inputs in [("uniform", "{dims = [60, 50], type = f64, low = -1.5, high = 4.0, stream = 3}", []),
                                   ("normal", "{dims = [60, 50], type = f64, mean = 2.0, std = 0.5, stream = 3}", []),
                                   ("dropout", "{ratio = 0.3, stream = 3}", [ones])]:
            with self.subTest(row):
                self.check(row, attrs, *inputs)
                model = onnx.load(self.path("row.onnx"))
                self.assertEqual([n.domain for n in model.graph.node], [""])
                for node in model.graph.node:  # otherwise the evaluator draws other numbers each time
                    if "Random" in node.op_type or node.op_type == "Dropout":
                        seed = 7 if node.op_type == "Dropout" else 7.0
                        node.attribute.append(onnx.helper.make_attribute("seed", seed))
                theirs = onnx.reference.ReferenceEvaluator(model).run(None, {"in0": ones} if inputs else {})[0]
                ours = self.first_output()
                for statistic in np.mean, np.std, np.min, np.max:
                    self.assertAlmostEqual(statistic(theirs), statistic(ours), delta=0.4 if row == "normal" else 0.1)

    def first_output(self):
        names = json.loads(self.read("out/names.json"))
        return np.load(self.path(f"out/{next(iter(names))}"))

    def test_what_is_drawn_again_has_no_standard_form(self):
        self.write("drop.isth", "isthmus 1\ngraph @g {\n  input %x : f32[4]\n  param %w : f32[4]\n"
                   "  %m = mul(%x, %w)\n  %d = dropout(%m) {stream = 1}\n  %y = sum(%d)\n  output %y\n}\n")
        self.run_ok("import", "drop.isth", "-o", "drop.onnx")
        self.assertEqual([n.op_type for n in onnx.load(self.path("drop.onnx")).graph.node], ["Mul", "Dropout", "ReduceSum"])
        self.run_ok("grad", "drop.isth", "--loss=%y", "-o", "grad.onnx")
        self.assertEqual(has_no_body(onnx.load(self.path("grad.onnx"))), ["dropout"])
        # The file's metadata restore the same graph, with the same random numbers.
        for file in "drop", "grad":
            self.run_ok("import", f"{file}.onnx", "-o", f"{file}.back.isth")
        self.run_ok("grad", "drop.back.isth", "--loss=%y", "-o", "grad.direct.isth")
        self.assertIn(b"dropout(%m) {stream = 1}", self.read("drop.back.isth"))

    # --- Networks: forward, differentiated, rewritten

    def check_net(self, *zoo, inputs, loss="cross_entropy", saves=True):
        """`saves` says whether recomputation saves memory, so that there are clones."""
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
        self.run_ok("opt", "net.onnx", f"--loss={loss}", "--budget=min", "--allow=fetch,encode", "--effort=0.2", "-o", "fetched.onnx")
        self.assertEqual(self.compare("fetched.onnx", 2e-3, 2e-4), [])
        self.assertIn(b"copy_to_device", self.read("fetched.onnx"))
        # The file is imported as the same graph.
        self.run_ok("import", "memory.onnx", "-o", "back.isth")
        self.run_ok("opt", "net.isth", f"--loss={loss}", "--policy=memory", "-o", "direct.isth")
        self.run_ok("verify", "back.isth", "direct.isth", "--inputs=in")
        self.assertEqual("clone(" in self.read("back.isth").decode(), saves)

    def test_mlp(self):
        self.check_net("mlp", "--depth=6", "--width=16", "--batch=64", "--shape=12",
                       inputs=[("x", "f32", [64, 12], 0), ("labels", "i64", [64], 10)])

    def test_cnn(self):
        self.check_net("cnn", "--width=4", "--batch=2", "--shape=3x16x16",
                       inputs=[("x", "f32", [2, 3, 16, 16], 0), ("labels", "i64", [2], 10)], saves=False)

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
    takes = types_of_rows()
    for row, calls in by_row.items():
        def body(self, row=row, calls=calls):
            missing = 0
            done = set()

            def check(typed, attrs, results, whole=""):
                nonlocal missing
                if not not_compared(row, typed, attrs):
                    with self.subTest(f"{row}({typed}) {attrs}"):
                        missing += bool(self.check_row(row, typed, attrs, results, whole))

            for types, attrs, results in calls:
                for kind in ("f64", *UNITS) if about(types) == "f64" else (about(types),):
                    check(*in_type(row, types, attrs, kind), results)
                    done.add(kind)
            # All other types that the row accepts, each on the first example that is valid in it.
            for kind in [k for k in takes[row] if k not in done]:
                typed = [(*in_type(row, types, attrs, kind), results) for types, attrs, results in calls]
                right = next((call for call in typed if self.is_right(row, *call)), None)
                if not right and any(kind in dict(types) for types, *_ in calls):
                    continue  # the type is that of another operand in the example
                self.assertTrue(right, f"no example of {row} is right in {kind}")
                check(*right, whole=kind)
            if missing:
                raise unittest.SkipTest(f"NOT COMPARED: {missing} calls have no form in standard operators")

        setattr(Exported, f"test_row_{row}", body)


add_rows()

if __name__ == "__main__":
    command.main()
