"""Tests how a command determines the mode, the loss, sizes and inputs, and what it says about them."""

import json
import math
import shutil

import cli_cases
import command
from command import npy, read_npy
from onnx_file import BOOL, FLOAT, INT32, INT64, UINT8, model, node, tensor, value_info

X = [0.5, -1.0, 2.0, 1.5, 3.0, -2.0]  # f32[3, 2]
MEAN, VAR = [0.25, 1.0], [4.0, 0.25]


def batch_norm_model(training=False):
    """Returns a model of x [3, 2] with a product, batch norm and dropout, written for inference or for training."""
    tensors = [tensor("w", [2, 2], [1.0, 0.0, 0.0, 1.0]), tensor("scale", [2], [1.0, 2.0]), tensor("bias", [2], [0.0, 0.5]),
               tensor("mean", [2], MEAN), tensor("var", [2], VAR), tensor("ratio", [], [0.5])]
    attributes = {"training_mode": 1} if training else {}
    nodes = [node("MatMul", ["x", "w"], ["h"]),
             node("BatchNormalization", ["h", "scale", "bias", "mean", "var"], ["n"], epsilon=0.0, momentum=0.75, **attributes),
             node("Dropout", ["n", "ratio"], ["y"])]
    return model(nodes, [value_info("x", [3, 2])], [value_info("y", [3, 2])], tensors)


class Meaning(cli_cases.Case):
    def fails(self, code, phrases, *args):
        result = command.run(*args, cwd=self.dir)
        self.assertEqual(result.code, code, f"{args}\n{result}")
        for phrase in phrases:
            self.assertIn(phrase, result.err, args)
        return result.err

    def values(self, *args):
        """Returns the outputs as numbers."""
        self.outputs(*args)
        names = json.loads(self.read("outputs/names.json"))
        return {name: read_npy(self.path(f"outputs/{file}"))[2] for file, name in names.items()}

    def isth(self, *lines, name="m.isth"):
        return self.write(name, "isthmus 1\ngraph @g {\n" + "".join(f"  {line}\n" for line in lines) + "}\n")


class Parameters(Meaning):
    """Gradients show which tensors are learned, and which of them are one parameter."""

    def setUp(self):
        super().setUp()
        table = [0.5, -1.0, 2.0, 1.5, 3.0, -2.0]
        transposed = [0.5, 2.0, 3.0, -1.0, 1.5, -2.0]
        self.write("m.onnx", model(
            [node("Gather", ["embed.weight", "ids"], ["h"]), node("MatMul", ["h", "onnx::MatMul_9"], ["a"]),
             node("Mul", ["a", "onnx::Mul_3"], ["b"]), node("Mul", ["b", "logit_scale"], ["y"])],
            [value_info("ids", [2], INT64)], [value_info("y", [2, 3])],
            [tensor("embed.weight", [3, 2], table), tensor("onnx::MatMul_9", [2, 3], transposed),
             tensor("onnx::Mul_3", [], [0.5]), tensor("logit_scale", [], [2.0])]))
        self.write("in/ids.npy", npy("i64", (2,), [2, 0]))

    def gradients(self, *args):
        got = self.values("m.onnx", "--loss=mean", "--inputs=in", *args)
        return {name[len("grad."):]: value for name, value in got.items() if name.startswith("grad.")}

    def test_a_tied_head_adds_to_the_gradient_of_its_embedding(self):
        tied, apart = self.gradients(), self.gradients("--untie=onnx::MatMul_9")
        self.assertEqual(sorted(tied), ["embed.weight", "logit_scale"])
        self.assertEqual(sorted(apart), ["embed.weight", "logit_scale", "onnx::MatMul_9"])
        for row in range(3):
            for column in range(2):
                self.assertAlmostEqual(tied["embed.weight"][row * 2 + column],
                                       apart["embed.weight"][row * 2 + column] + apart["onnx::MatMul_9"][column * 3 + row],
                                       places=6)
        self.assertEqual(self.gradients("--untie=onnx*", "--tie=embed.weight,onnx::MatMul_9"), tied)

    def test_every_decision_is_told(self):
        talk = self.report("run", "m.onnx", "--loss=mean")["talk"]
        self.assertIn("'onnx::MatMul_9' is 'embed.weight' transposed", talk)
        self.assertIn("single numbers without a name of the model's own: 'onnx::Mul_3'", talk)
        self.assertIn("'logit_scale'", talk)

    def test_wrt_names_what_is_learned(self):
        self.assertEqual(sorted(self.gradients("--wrt=onnx::Mul_3,embed*")), ["embed.weight", "onnx::Mul_3"])

    def test_what_cannot_be_tied(self):
        self.fails(2, ["--tie expects two names"], "run", "m.onnx", "--loss=mean", "--tie=embed.weight")
        self.fails(1, ["'embed.weight' and 'onnx::Mul_3' cannot be tied", "f32[]", "their numbers differ"],
                   "run", "m.onnx", "--loss=mean", "--tie=embed.weight,onnx::Mul_3")
        self.fails(1, ["no tensor of the file is called 'embed'", "did you mean 'embed.weight'"],
                   "run", "m.onnx", "--loss=mean", "--untie=embed")
        self.isth("input %x : f32[2]", "%y = relu(%x) : f32[2]", "output %y")
        self.fails(2, ["every parameter has one name"], "run", "m.isth", "--untie=x")
        self.run_ok("import", "m.onnx", "-o", "ours.onnx")
        for option in "--untie=onnx::MatMul_9", "--tie=embed.weight,logit_scale":
            self.fails(1, ["ours.onnx was written here", "have no meaning for it"], "run", "ours.onnx", "--loss=mean", option)


class NoGradient(Meaning):
    """Weights that act only through operations without a gradient are parameters; their gradient is zero."""

    NOTE = "no gradient reaches the parameter 'w': '{}' has none"

    def gradients(self, nodes, *, output=("y", [3, 2]), tensors=(), fed=("x", [3, 2], FLOAT), flags=()):
        """Returns the gradients of a model with weights w [2, 2] by name, and what the command said."""
        self.write("m.onnx", model(nodes, [value_info(*fed)], [value_info(*output)],
                                   [tensor("w", [2, 2], [0.5, -1.5, 2.0, 3.0]), *tensors]))
        shutil.rmtree(self.path("outputs"), ignore_errors=True)
        result = self.run_ok("run", "m.onnx", "--loss=mean", "--outputs=outputs", *flags)
        names = json.loads(self.read("outputs/names.json"))
        return {name[len("grad."):]: list(read_npy(self.path(f"outputs/{file}"))[2])
                for file, name in names.items() if name.startswith("grad.")}, result.err

    def check(self, op, nodes, **kwargs):
        found, said = self.gradients(nodes, **kwargs)
        self.assertEqual(found["w"], [0.0] * 4, said)
        self.assertIn(self.NOTE.format(op), said)
        self.assertNotIn("no floating-point parameter", said)

    def test_of_steps(self):
        product = node("MatMul", ["x", "w"], ["a"])
        for op in "Round", "Sign", "Floor", "Ceil":
            with self.subTest(op):
                self.check(op, [product, node(op, ["a"], ["y"])])
            with self.subTest(op, of="the weight"):
                self.check(op, [node(op, ["w"], ["q"]), node("MatMul", ["x", "q"], ["y"])])
        for to in INT32, INT64, UINT8:
            with self.subTest("Cast", to=to):
                self.check("Cast", [product, node("Cast", ["a"], ["i"], to=to), node("Cast", ["i"], ["y"], to=FLOAT)])
        with self.subTest("one of two"):
            _, said = self.gradients([product, node("Round", ["a"], ["q"]), node("MatMul", ["q", "v"], ["y"])],
                                     tensors=[tensor("v", [2, 2], [1.0] * 4)])
            self.assertIn(self.NOTE.format("Round"), said)
            self.assertNotIn("others", said)

    def test_of_masks_and_indices(self):
        product, zero = node("MatMul", ["x", "w"], ["a"]), tensor("onnx::Greater_3", [], [0.0])
        for op in "Greater", "Less", "GreaterOrEqual", "Equal":
            with self.subTest(op):
                self.check(op, [product, node(op, ["a", "onnx::Greater_3"], ["b"]), node("Cast", ["b"], ["y"], to=FLOAT)], tensors=[zero])
        with self.subTest("a mask of scores"):
            self.check("Greater", [node("Greater", ["w", "onnx::Greater_3"], ["b"]), node("Cast", ["b"], ["m"], to=FLOAT),
                                   node("MatMul", ["x", "m"], ["y"])], tensors=[zero])
        with self.subTest("Where"):
            self.check("Greater", [product, node("Greater", ["a", "onnx::Greater_3"], ["b"]), node("Where", ["b", "x", "onnx::Greater_3"], ["y"])],
                       tensors=[zero], flags=["--wrt=all"])
        for op in "ArgMax", "ArgMin":
            with self.subTest(op):
                found, said = self.gradients([product, node(op, ["a"], ["i"], axis=1, keepdims=0), node("Gather", ["table", "i"], ["y"])],
                                             tensors=[tensor("table", [2, 2], [1.0, 2.0, 3.0, 4.0])])
                self.assertEqual(found["w"], [0.0] * 4)
                self.assertNotEqual(found["table"], [0.0] * 4)
                self.assertIn(self.NOTE.format(op), said)

    def test_one_note_of_several(self):
        _, said = self.gradients([node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "bias"], ["s"]), node("Round", ["s"], ["y"])],
                                 tensors=[tensor("bias", [2], [0.5, 0.25])])
        self.assertEqual(said.count("no gradient reaches the parameter"), 1)
        self.assertIn("the same holds for 1 other: 'bias'", said)

    def test_straight_through_without_detach(self):
        """PyTorch's older exporter writes no detach: then the gradients by x cancel in x + (round(x) - x)."""
        product, rounded = node("MatMul", ["x", "w"], ["a"]), node("Round", ["a"], ["q"])
        for nodes in ([node("Sub", ["q", "a"], ["d"]), node("Add", ["a", "d"], ["y"])],
                      [node("Sub", ["q", "a"], ["d"]), node("Add", ["d", "a"], ["y"])],
                      [node("Sub", ["a", "q"], ["d"]), node("Sub", ["a", "d"], ["y"])]):
            found, said = self.gradients([product, rounded, *nodes])
            self.assertEqual(found["w"], [0.0] * 4)
            self.assertIn("no gradient reaches the parameter 'w': in x + (q - x) it cancels", said)
            self.assertIn("a straight-through estimator, whose detach() older exporters leave out", said)
            self.assertIn("optimize=False): 'y'", said)
        with self.subTest("whose q keeps a gradient by its scale"):
            found, said = self.gradients([product, node("ReduceMax", ["a"], ["m"], keepdims=0), node("Div", ["a", "m"], ["s"]),
                                          node("Round", ["s"], ["r"]), node("Mul", ["r", "m"], ["q"]), node("Sub", ["q", "a"], ["d"]),
                                          node("Add", ["a", "d"], ["y"])])
            self.assertIn("a straight-through estimator, whose detach() older exporters leave out", said)
            self.assertNotIn("no gradient reaches", said)
        with self.subTest("a sum whose q has a gradient"):
            found, said = self.gradients([product, node("Tanh", ["a"], ["q"]), node("Sub", ["q", "a"], ["d"]), node("Add", ["a", "d"], ["y"])])
            self.assertNotEqual(found["w"], [0.0] * 4)
            self.assertNotIn("no gradient", said)
            self.assertNotIn("straight-through", said)

    def test_what_is_no_weight(self):
        """Masks that select, and what sizes are made of, stay constant, without a note."""
        zero, table = tensor("onnx::Greater_3", [], [0.0]), tensor("attn.bias", [2, 2], [1.0, 0.0, 1.0, 1.0])
        for what, nodes in (
                ("a mask", [node("Equal", ["attn.bias", "onnx::Greater_3"], ["b"]), node("MatMul", ["x", "w"], ["a"]),
                            node("Slice", ["a", "starts", "ends"], ["s"]), node("Where", ["b", "onnx::Greater_3", "s"], ["y"])]),
                ("a mask by cast", [node("Cast", ["attn.bias"], ["b"], to=BOOL), node("MatMul", ["x", "w"], ["a"]),
                                    node("Slice", ["a", "starts", "ends"], ["s"]), node("Where", ["b", "s", "onnx::Greater_3"], ["y"])])):
            with self.subTest(what):
                found, said = self.gradients(nodes, output=("y", [2, 2]), tensors=[
                    zero, table, tensor("starts", [1], [0], dtype=INT64), tensor("ends", [1], [2], dtype=INT64)])
                self.assertEqual(sorted(found), ["w"])
                self.assertNotIn("no gradient", said)


class Provenance(Meaning):
    """A clause that is not true of its node is an error at its line. A graph with clauses runs as it is written."""

    PLAIN = ("input %x : f32[64]", "param %w : f32[64]", "%b = exp(%x)", "%c = square(%b)", "%s = mean(%c)",
             "%dx = mul(%b, %c) backward", "loss %s", "output %s", "output %dx")

    def graph(self, name, *lines, record=""):
        return self.write(name, f"isthmus 2\n{record}graph @r {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n")

    def changed(self, name, old, *new, record=""):
        lines = list(self.PLAIN)
        at = lines.index(old)
        return self.graph(name, *lines[:at], *new, *lines[at + 1:], record=record)

    def test_lies(self):
        plain, product = self.graph("plain.isth", *self.PLAIN), "%dx = mul(%b, %c) backward"
        for record in "", "record {policy = memory}\n":
            line = 7 if record else 6
            for what, old, new, error in (
                    ("a boundary", product, ["%q = stop_gradient(%c) backward from(restores(%b))", "%dx = mul(%q, %c) backward"],
                     f"lie.isth:{line + 2}:8: error: '%q' restores '%b', but passes on '%c'"),
                    ("a clone", product, ["%q = exp(%c) backward from(clone(%b))", "%dx = mul(%q, %c) backward"],
                     f"lie.isth:{line + 2}:8: error: '%q' is a clone of '%b', but reads '%c'; expected '%x'"),
                    ("a place", "%b = exp(%x)", ["%b = exp(%x) from(at(9))"], f"lie.isth:{line - 1}:8: error: '%c' is at 1 of the source order"),
                    ("a role", "output %s", ["output %s gradient(%w)"], "error: '%s' is a gradient with respect to '%w' of f32[64], but is f32[]")):
                with self.subTest(what, record=record):
                    self.changed("lie.isth", old, *new, record=record)
                    for verb in (["verify", "lie.isth", plain], ["run", "lie.isth"], ["opt", "lie.isth", "--policy=none", "-o", "out.isth"],
                                 ["grad", "lie.isth", "--optimizer=adam"]):
                        self.fails(1, [error], *verb)

    def test_a_clause_makes_a_rewritten_graph(self):
        plain = self.graph("plain.isth", *self.PLAIN)
        for record in "", "record {policy = memory}\n":
            with self.subTest(record=record):
                self.changed("true.isth", "%dx = mul(%b, %c) backward", "%q = stop_gradient(%b) backward from(restores(%b))",
                             "%dx = mul(%q, %c) backward", record=record)
                self.assertEqual(self.report("run", "true.isth")["nodes"], 5)
                self.assertEqual(self.report("run", plain)["nodes"], 4)
                self.run_ok("verify", "true.isth", plain)

    def test_roles_name_values_of_the_original(self):
        """Also where the rewrite recomputes such a value, so that optimising anew keeps the role."""
        self.graph("m.isth", "input %x : f32[64]", "param %w : f32[64]", "%a = mul(%x, %w)", "%b = exp(%a)", "%c = sin(%b)",
                   "%d = exp(%c)", "%e = mul(%d, %c)", "%s = mean(%e)", "loss %s", "output %s")
        self.run_ok("opt", "m.isth", "--wrt=%b,%c,%w", "--checkpoints=%a", "-o", "small.isth")
        self.assertIn(b"from(clone(%c)", self.read("small.isth"))
        self.run_ok("opt", "small.isth", "--policy=none", "-o", "plain.isth")
        for file in "small.isth", "plain.isth":
            for name in "b", "c", "w":
                self.assertIn(f"output %grad.{name} gradient(%{name})\n".encode(), self.read(file))

    def test_a_forward_graph_in_another_order_is_differentiated(self):
        self.graph("m.isth", "input %x : f32[4]", "param %w : f32[4]", "%b = mul(%x, %w) from(at(3))", "%c = exp(%b) from(at(9))",
                   "%s = mean(%c) from(at(12))", "loss %s", "output %s")
        self.run_ok("opt", "m.isth", "--policy=memory", "-o", "step.isth")
        self.run_ok("verify", "m.isth", "step.isth")


class Mode(Meaning):
    def setUp(self):
        super().setUp()
        self.write("m.onnx", batch_norm_model())
        self.write("in/x.npy", npy("f32", (3, 2), X))

    def test_a_forward_run_is_as_written(self):
        r = self.report("run", "m.onnx")
        self.assertEqual(r["mode"], "as-written")
        self.assertIn("the forward part alone runs, as written", r["talk"])
        got = self.values("m.onnx", "--inputs=in")
        self.assertEqual(list(got), ["y"])
        want = [(x - MEAN[i % 2]) / math.sqrt(VAR[i % 2]) * (1, 2)[i % 2] + (0, 0.5)[i % 2] for i, x in enumerate(X)]
        for g, w in zip(got["y"], want):
            self.assertAlmostEqual(g, w, places=5)

    def test_what_is_written_for_training_trains(self):
        self.write("m.onnx", batch_norm_model(training=True))
        self.assertIn("state.mean", self.outputs("m.onnx"))
        self.assertNotIn("state.mean", self.outputs("m.onnx", "--eval"))

    def test_a_differentiated_graph_trains(self):
        r = self.report("run", "m.onnx", "--loss=mean")
        self.assertEqual(r["mode"], "train")
        self.assertIn("it trains", r["talk"])
        got = self.values("m.onnx", "--loss=mean", "--inputs=in")
        self.assertEqual(sorted(got), ["grad.bias", "grad.scale", "grad.w", "loss", "state.mean", "state.var", "y"])
        self.assertIn(0.0, got["y"], "nothing was dropped")
        batch = [sum(X[i::2]) / 3 for i in (0, 1)]
        for g, old, now in zip(got["state.mean"], MEAN, batch):
            self.assertAlmostEqual(g, 0.75 * old + 0.25 * now, places=6)

    def test_eval_and_as_written(self):
        forward = self.outputs("m.onnx", "--inputs=in")["y"]
        for mode in "eval", "as-written":
            self.assertEqual(self.report("run", "m.onnx", "--loss=mean", f"--{mode}")["mode"], mode)
            self.assertEqual(self.outputs("m.onnx", "--loss=mean", f"--{mode}", "--inputs=in")["y"], forward)
            self.run_ok("opt", "m.onnx", "--loss=mean", f"--{mode}", "--keep-outputs", "-o", "d.isth")
            self.assertEqual(self.report("run", "d.isth")["mode"], mode, "the file tells it")
            self.assertEqual(self.outputs("d.isth", "--inputs=in")["y"], forward)
        self.run_ok("opt", "m.onnx", "--loss=mean", "-o", "d.isth")
        self.assertEqual(self.report("run", "d.isth")["mode"], "train")
        self.assertEqual(self.report("run", "d.isth", "--eval")["mode"], "eval")

    def test_import_changes_nothing(self):
        """A file and its import give the same results: forward, in training, and in the other modes."""
        for written in False, True:
            self.write("m.onnx", batch_norm_model(training=written))
            for to in "t.isth", "t.onnx":
                self.run_ok("import", "m.onnx", "-o", to)
                for options in [], ["--loss=mean"], ["--loss=mean", "--eval"], ["--loss=mean", "--as-written"], ["--eval"]:
                    with self.subTest(f"{to} {options} written for training: {written}"):
                        self.assert_same(self.outputs("m.onnx", *options), self.outputs(to, *options))
                        self.run_ok("verify", "m.onnx", to, *options)

    def test_verify_takes_what_the_other_side_asks_for(self):
        self.run_ok("opt", "m.onnx", "--loss=mean", "--policy=none", "-o", "d.isth")
        self.run_ok("verify", "m.onnx", "d.isth", "--loss=mean")
        self.run_ok("verify", "d.isth", "m.onnx", "--loss=mean")
        self.fails(1, ["names no loss"], "verify", "m.onnx", "d.isth")
        self.run_ok("verify", "m.onnx", "m.onnx", "--eval")

    def test_grad_trains(self):
        self.run_ok("grad", "m.onnx", "--ys=%y", "--xs=%w", "-o", "g.isth")
        self.assertIn(b"dropout(%n) {stream = 0}", self.read("g.isth"))

    def test_a_dropout_that_does_not_drop_costs_nothing(self):
        """Evaluation has neither the dropout's gradient nor the two running averages. The forward dropout stays, as it
        names an output."""
        self.assertEqual(self.report("run", "m.onnx", "--loss=mean", "--eval", "--keep-outputs")["nodes"] + 3,
                         self.report("run", "m.onnx", "--loss=mean", "--keep-outputs")["nodes"])


class Outputs(Meaning):
    """The model's outputs die at their last use in a step that a loss KIND makes."""

    def model(self):
        """Its two outputs are 32 KiB each; the second is read by nothing."""
        return self.isth("input %x : f32[128, 8]", "param %w : f32[8, 64] = normal {seed = 1}", "param %v : f32[64, 64] = normal {seed = 2}",
                         "%a = matmul(%x, %w)", "%h = tanh(%a)", "%logits = matmul(%h, %v)", "%p = softmax(%logits)",
                         "output %logits", "output %p")

    def outputs_of(self, name):
        return [line.split("%")[1].split()[0] for line in self.read(name).decode().splitlines() if line.strip().startswith("output ")]

    def test_they_die(self):
        step = ["loss", "grad.w", "grad.v"]
        for verb in "opt", "run":
            less = self.report(verb, self.model(), "--loss=cross_entropy", *(["-o", "less.isth"] if verb == "opt" else []))
            kept = self.report(verb, "m.isth", "--loss=cross_entropy", "--keep-outputs", *(["-o", "kept.isth"] if verb == "opt" else []))
            self.assertEqual(kept["output_bytes"] - less["output_bytes"], 2 * 128 * 64 * 4)
            self.assertLess(less["baseline_peak_bytes"], kept["baseline_peak_bytes"])
        self.assertEqual(self.outputs_of("less.isth"), step)
        self.assertEqual(self.outputs_of("kept.isth"), ["logits", "p", *step])
        self.assertNotIn("softmax", self.read("less.isth").decode())

    def test_they_are_written_if_asked_for(self):
        self.run_ok("run", self.model(), "--loss=cross_entropy", "--outputs=out")
        self.assertIn(b"logits", self.read("out/names.json"))
        self.run_ok("verify", "m.isth", "m.isth", "--loss=cross_entropy", "--outputs=both")
        self.assertEqual(self.read("out/logits.npy"), self.read("both/logits.npy"))

    def test_a_value_keeps_them(self):
        self.run_ok("opt", self.model(), "--loss=%p", "-o", "value.isth")
        self.assertEqual(self.outputs_of("value.isth"), ["logits", "p", "grad.w", "grad.v"])
        self.run_ok("grad", "m.isth", "--loss=mean", "-o", "grad.isth")
        self.assertEqual(self.outputs_of("grad.isth"), ["logits", "p", "loss", "grad.w", "grad.v"])

    def test_new_states_stay(self):
        self.isth("input %x : f32[4, 3, 5]", "param %w : f32[3] = ones", "param %b : f32[3] = zeros", "state %m : f32[3] = zeros",
                  "state %s : f32[3] = ones", "%y, %mean, %var = batch_norm(%x, %w, %b, %m, %s) {training = false}", "output %y")
        self.run_ok("opt", "m.isth", "--loss=mean", "-o", "bn.isth")
        outputs = self.outputs_of("bn.isth")
        self.assertNotIn("y", outputs)
        self.assertIn("state.m", outputs)

    def test_verify_compares_those_that_both_have(self):
        self.run_ok("opt", self.model(), "--loss=cross_entropy", "-o", "less.isth")
        self.run_ok("opt", "m.isth", "--loss=cross_entropy", "--keep-outputs", "-o", "kept.isth")
        for one, other in (("m.isth", "less.isth"), ("less.isth", "m.isth"), ("less.isth", "kept.isth")):
            loss = ["--loss=cross_entropy"] if "m.isth" in (one, other) else []
            r = self.run_ok("verify", one, other, *loss)
            self.assertIn("3 outputs are equal bit for bit", r.err)
            self.assertIn("not compared, because 'less.isth' is a step without these outputs of the model: %logits, %p", r.err)
        r = self.run_ok("verify", "m.isth", "kept.isth", "--loss=cross_entropy")
        self.assertIn("5 outputs are equal bit for bit", r.err)
        # Gradients and the loss are never left out.
        text = self.read("less.isth").decode()
        for lost in "loss", "grad.w":
            self.write("fewer.isth", "".join(line for line in text.splitlines(True) if not line.strip().startswith(f"output %{lost}")))
            self.fails(4, f"output '%{lost}' of 'm.isth' is not in 'fewer.isth'", "verify", "m.isth", "fewer.isth", "--loss=cross_entropy")


class Loss(Meaning):
    def heads(self):
        """Writes a graph with two float outputs after an integer output."""
        return self.isth("input %x : f32[2, 3]", "param %w : f32[3, 4] = normal {seed = 1}", "param %v : f32[3] = ones",
                         "%a = matmul(%x, %w)", "%b = mul(%x, %v)", "%ids = argmax(%a) {axis = 1}", "%c = square(%x)",
                         "%stopped = stop_gradient(%b)", "output %a", "output %b", "output %ids")

    def test_of_another_output(self):
        r = self.report("run", self.heads(), "--loss=mse")
        self.assertIn("the loss mse takes the first of 2 floating-point outputs, %a; take another with --loss=mse:%b", r["talk"])
        self.write("in/target.npy", npy("f32", (2, 3), [0.0] * 6))
        self.write("in/x.npy", npy("f32", (2, 3), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
        r = self.report("run", "m.isth", "--loss=mse:%b", "--inputs=in")
        self.assertAlmostEqual(r["loss"][0], 91 / 6, places=5)
        self.assertNotIn("takes the first", r["talk"])
        self.run_ok("run", "m.isth", "--loss=cross_entropy:%b")
        self.run_ok("run", "m.isth", "--loss=mean:%b")

    def test_what_is_no_loss(self):
        self.heads()
        self.fails(1, ["'%x' is an input of the graph (input)"], "run", "m.isth", "--loss=%x", "--wrt=all")
        self.fails(1, ["'%w' is an input of the graph (param)"], "run", "m.isth", "--loss=mean:%w")
        self.fails(1, ["no gradient of '%c' reaches a parameter"], "run", "m.isth", "--loss=%c")
        self.run_ok("run", "m.isth", "--loss=%c", "--wrt=%x")
        self.fails(1, ["no gradient of '%a' reaches a value that was named to differentiate by"], "run", "m.isth", "--loss=%a", "--wrt=%v")
        self.fails(1, ["no gradient of '%loss' reaches a parameter"], "run", "m.isth", "--loss=mean:%stopped")
        self.fails(1, ["'%ids' is of type i64", "'%a', '%b'"], "run", "m.isth", "--loss=mean:%ids")
        self.fails(1, ["no value is called '%aa'; did you mean"], "run", "m.isth", "--loss=mean:%aa")
        for bad in "mean:b", "mean:", "mse%b", "median":
            self.fails(2, ["--loss: a loss is one of", "KIND:%value"], "run", "m.isth", f"--loss={bad}")

    def test_an_output_of_integers_is_blamed(self):
        """An integer output is no loss, even if the graph has no float value."""
        self.isth("input %x : i64[4]", "%y = neg(%x)", "output %y")
        self.fails(1, ["the first output '%y' is of type i64"], "run", "m.isth", "--loss=mean")

    def test_of_several_elements(self):
        self.heads()
        self.write("in/x.npy", npy("f32", (2, 3), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
        r = self.report("run", "m.isth", "--loss=%b", "--inputs=in")
        self.assertEqual(r["loss"], [21.0])
        self.assertIn("'%b' has 6 elements: their sum is differentiated", r["talk"])
        self.run_ok("opt", "m.isth", "--loss=%b", "-o", "d.isth")
        self.assertEqual(self.report("run", "d.isth", "--inputs=in")["loss"], [21.0])

    def test_labels_that_do_not_count(self):
        self.isth("param %w : f32[3, 2] = ones", "input %x : f32[3, 2]", "%y = mul(%x, %w)", "output %y")
        logits = [1.0, 2.0, 0.5, -1.0, 3.0, 3.0]
        self.write("in/x.npy", npy("f32", (3, 2), logits))

        def row(i):
            a, b = logits[2 * i:2 * i + 2]
            return [math.exp(v) / (math.exp(a) + math.exp(b)) for v in (a, b)]

        self.write("in/labels.npy", npy("i64", (3,), [1, -100, 0]))
        r = self.report("run", "m.isth", "--loss=cross_entropy", "--ignore-index=-100", "--inputs=in")
        self.assertAlmostEqual(r["loss"][0], -(math.log(row(0)[1]) + math.log(row(2)[0])) / 2, places=5)
        grad = self.values("m.isth", "--loss=cross_entropy", "--ignore-index=-100", "--inputs=in")["grad.w"]
        want = [x * (p - hit) / 2 for x, p, hit in zip(logits, [*row(0), 0, 0, *row(2)], [0, 1, 0, 0, 1, 0])]
        for g, w in zip(grad, want):
            self.assertAlmostEqual(g, w, places=5)
        self.write("in/labels.npy", npy("i64", (3,), [7, 7, 7]))
        r = self.report("run", "m.isth", "--loss=cross_entropy", "--ignore-index=7", "--inputs=in")
        self.assertEqual(r["loss"], ["nan"], "the mean of none, as in PyTorch")
        self.fails(2, ["--loss=cross_entropy"], "run", "m.isth", "--loss=mse", "--ignore-index=7")

    def test_classes_on_another_axis(self):
        self.isth("input %x : f32[2, 5, 7]", "param %w : f32[7] = ones", "%y = mul(%x, %w)", "output %y")
        self.write("in/labels.npy", npy("i64", (2, 5), [0] * 10))
        for verb in "run", "opt", "explain":
            self.fails(1, ["they fit classes on axis 2; give --class-axis=2"], verb, "m.isth", "--loss=cross_entropy", "--inputs=in")
        self.run_ok("run", "m.isth", "--loss=cross_entropy", "--inputs=in", "--class-axis=2")
        self.run_ok("run", "m.isth", "--loss=cross_entropy", "--inputs=in", "--class-axis=-1")
        self.fails(2, ["--class-axis is the axis of classes, so it goes with --loss=cross_entropy"], verb, "m.isth", "--loss=mean",
                   "--class-axis=2")

    def test_a_parameter_without_elements(self):
        self.isth("input %x : f32[4]", "param %w : f32[4] = ones", "param %none : f32[0] = ones", "%y = mul(%x, %w)", "%z = neg(%none)",
                  "output %y", "output %z")
        for policy in "none", "memory":
            self.assertIn("grad.none", self.outputs("m.isth", "--loss=mean", f"--policy={policy}"))
        self.isth("input %x : f32[4, 3]", "param %w : f32[3, 0] = ones", "%y = matmul(%x, %w)", "output %y", name="n.isth")
        self.run_ok("run", "n.isth", "--loss=mse")
        self.fails(1, ["expects a class at least"], "run", "n.isth", "--loss=cross_entropy")
        self.fails(1, ["labels to ignore"], "run", "m.isth", "--loss=cross_entropy", "--class-axis=0", f"--ignore-index={1 << 60}")


class Sizes(Meaning):
    def test_unnamed_ones_are_each_their_own(self):
        self.write("m.onnx", model([node("MatMul", ["a", "b"], ["y"])], [value_info("a", ["?", "?"]), value_info("b", ["?", ""])],
                                   [value_info("y", ["?", "?"])]))
        self.fails(1, ["'a.0', 'a.1', 'b.0', 'b.1'"], "import", "m.onnx")
        self.run_ok("import", "m.onnx", "--dim", "a.0=2", "--dim", "a.1=3", "--dim", "b.0=3", "--dim", "b.1=5")

    def test_a_name_that_is_not_there_is_told_at_once(self):
        self.write("m.onnx", model([node("Relu", ["x"], ["y"])], [value_info("x", ["batch", "length"])], [value_info("y", ["batch", "length"])]))
        self.fails(1, ["no open size of the model is called 'bach'", "did you mean 'batch'"], "import", "m.onnx", "--dim", "bach=2")
        self.fails(1, ["'batch', 'length' open"], "import", "m.onnx")

    def test_inputs_decide_them(self):
        """Every verb that loads a model accepts the option that its error names."""
        self.write("m.onnx", model([node("Reshape", ["x", "shape"], ["r"]), node("Mul", ["r", "w"], ["y"])],
                                   [value_info("x", ["N", 6]), value_info("shape", [2], INT64)], [value_info("y", ["A", "B"])],
                                   [tensor("w", [4], [1.0, 2.0, 3.0, 4.0])]))
        self.fails(1, ["--inputs"], "import", "m.onnx", "--dim", "N=2")
        self.write("in/x.npy", npy("f32", (2, 6), range(12)))
        self.write("in/shape.npy", npy("i64", (2,), [3, 4]))
        self.run_ok("import", "m.onnx", "--inputs=in", "-o", "m.isth")
        self.assertIn(b"f32[3, 4]", self.read("m.isth"))
        for args in (["opt", "--loss=mean", "-o", "o.isth"], ["explain", "--loss=mean"], ["grad", "--loss=mean", "-o", "g.isth"],
                     ["dot", "-o", "g.dot"], ["run"], ["run", "--loss=mean"]):
            self.run_ok(args[0], "m.onnx", *args[1:], "--inputs=in")
        self.run_ok("verify", "m.onnx", "m.isth", "--inputs=in")

    def test_an_operator_that_is_not_supported_counts_for_more(self):
        self.write("m.onnx", model([node("QLinearConv", ["x"], ["y"])], [value_info("x", ["N", 3])], [value_info("y", ["N", 3])]))
        err = self.fails(1, ["operator 'QLinearConv' of opset"], "run", "m.onnx")
        self.assertNotIn("--dim", err)

    def declares(self, nodes, inputs, shape, *args):
        self.write("m.onnx", model(nodes, inputs, [value_info("y", shape)], [tensor("w", [3, 5], [1.0] * 15)]))
        return command.run("run", "m.onnx", *args, cwd=self.dir)

    def test_declared_shapes_of_outputs(self):
        product, x = [node("MatMul", ["x", "w"], ["y"])], [value_info("x", ["N", 3])]
        for shape in ["N", 5], ["M", "K"], [4, 5]:
            self.assertEqual(self.declares(product, x, shape, "--dim", "N=4").code, 0)
        stale = self.declares(product, x, [2, 5], "--dim", "N=4")
        self.assertEqual(stale.code, 0, stale)
        self.assertIn("note: the file declares 'y' of size 2 on axis 0, but it is 'f32[4, 5]'", stale.err)
        for shape in ["N", 7], [2, 7], ["N", 5, 1], [5]:
            wrong = self.declares(product, x, shape, "--dim", "N=4")
            self.assertEqual(wrong.code, 1, f"{shape} {wrong}")
            self.assertIn("error: the file declares 'y' of", wrong.err)
            self.assertIn("whatever the open sizes are", wrong.err)
        fixed = self.declares(product, [value_info("x", [4, 3])], [2, 5])
        self.assertEqual(fixed.code, 1, fixed)


class Said(Meaning):
    def test_a_memory_limit_below_what_is_always_there(self):
        self.chain()
        r = self.report("opt", "chain.isth", "--loss=mean", "--policy=none")
        err = self.fails(3, ["a memory limit of 1000 B (1000 bytes) cannot be met: parameters and inputs, which are always live, take", "give --memory-limit="],
                         "opt", "chain.isth", "--loss=mean", "--memory-limit=1000", "--effort=1", "--report=r.json")
        self.assertNotIn("budget", err)
        advice = int(err.split("give --memory-limit=")[1].split(",")[0])
        self.assertEqual(advice, r["persistent_bytes"] + json.loads(self.read("r.json"))["smallest_budget_bytes"])
        self.run_ok("opt", "chain.isth", "--loss=mean", f"--memory-limit={advice}", "--effort=1", "-o", "o.isth")
        self.fails(3, ["a memory limit of 1000 B (1000 bytes) cannot be met by the policy"], "opt", "chain.isth", "--loss=mean", "--memory-limit=1000",
                   "--policy=none")

    def test_a_policy_that_saves_nothing(self):
        self.isth("input %x : f32[512, 64]", "param %w : f32[64, 64] = normal {seed = 1}", "param %v : f32[64, 8192] = normal {seed = 2}",
                  "%h = tanh(%x)", "%a = matmul(%h, %w)", "%b = tanh(%a)", "%y = matmul(%b, %v)", "output %y")
        r = self.report("opt", "m.isth", "--loss=mean", "--checkpoints=%a", "-o", "o.isth")
        self.assertEqual((r["policy_used"], r["clones"], r["recompute_overhead"]), ("none", 0, 0))
        self.assertIn("would save no memory", r["talk"])

    def test_what_does_nothing_says_so(self):
        """Values of --wrt on which the loss does not depend, and marks that no option reads."""
        self.isth("input %x : f32[4, 4]", "param %w : f32[4, 4] = normal {seed = 1}", "param %unread : f32[3] = fill {value = 1.0}",
                  "%h = matmul(%x, %w)", "%y = tanh(%h) #checkpoint", "output %y")
        said = self.run_ok("run", "m.isth", "--loss=mean", "--wrt=%w,%unread").err
        self.assertIn("reaches '%unread': what is given for it is zeros", said)
        self.assertEqual(said.count("nothing reads the #checkpoint marks (1 of them)"), 1, said)
        self.assertIn("--policy=collection", said)
        self.fails(1, ["reaches a value that was named to differentiate by"], "run", "m.isth", "--loss=mean", "--wrt=%unread")
        for args in ["--policy=none"], ["--policy=collection"], []:
            said = self.run_ok("run", "m.isth", *(["--loss=mean", *args] if args else [])).err
            self.assertNotIn("nothing reads the #checkpoint marks", said)

    def test_notes_of_one_kind_are_one_line(self):
        masks = [tensor(f"mask{i}", [3], [0.0, -math.inf, 0.0]) for i in range(7)]
        nodes = [node("Add", [f"h{i}" if i else "p", f"mask{i}"], [f"h{i + 1}"]) for i in range(7)]
        self.write("m.onnx", model([node("Mul", ["x", "w"], ["p"]), *nodes], [value_info("x", [3])], [value_info("h7", [3])],
                                   [tensor("w", [3], [1.0, 2.0, 3.0]), *masks]))
        said = [line for line in self.run_ok("import", "m.onnx").err.splitlines() if "mask" in line]
        self.assertEqual(len(said), 1, said)
        self.assertIn("as masks do: 'mask0'; the same holds for 6 others: "
                      "'mask1', 'mask2', 'mask3', 'mask4', 'mask5', ...", said[0])

    def test_help_tells_the_mode_and_the_loss(self):
        for verb in "run", "opt", "import", "explain", "verify", "grad", "dot":
            text = " ".join(self.run_ok(verb, "--help").out.decode().split())
            for part in ("KIND:%value", "mse:%mask", "--ignore-index=-100", "%layer*.weight", "--inputs",
                         "as written, or training if the graph is differentiated"):
                self.assertIn(part, text, verb)


if __name__ == "__main__":
    command.main()
