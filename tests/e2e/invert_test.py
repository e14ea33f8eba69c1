"""Tests inverses: plans that rebuild tensors from later results, and graphs that run backwards."""

import json
import os
import re

import command
from cli_cases import Case
from command import read_npy

BATCH, WIDTH, HIDDEN = 512, 32, 8


def flow(depth, dtype="f32", coupling="additive"):
    """Writes a flow of couplings: a network shifts, or scales and shifts, one half by the other, and the halves are
    swapped."""
    half = WIDTH // 2
    head = ["isthmus 2", "graph @flow {", f"  input %x : {dtype}[{BATCH}, {WIDTH}]"]
    body, last, scales = [], "%x", []
    for k in range(depth):
        p = f"b{k}"
        out = half if coupling == "additive" else WIDTH
        head += [f"  param %{p}.w1 : {dtype}[{half}, {HIDDEN}] = normal {{std = 0.3, seed = {2 * k}}}",
                 f"  param %{p}.w2 : {dtype}[{HIDDEN}, {out}] = normal {{std = 0.1, seed = {2 * k + 1}}}"]
        body += [f"  %{p}.x1, %{p}.x2 = split({last}) {{axis = 1, sizes = [{half}, {half}]}}",
                 f"  %{p}.m = matmul(%{p}.x1, %{p}.w1)", f"  %{p}.h = relu(%{p}.m)", f"  %{p}.o = matmul(%{p}.h, %{p}.w2)"]
        if coupling == "additive":
            body += [f"  %{p}.y2 = add(%{p}.x2, %{p}.o)"]
        else:
            body += [f"  %{p}.r, %{p}.t = split(%{p}.o) {{axis = 1, sizes = [{half}, {half}]}}", f"  %{p}.s = tanh(%{p}.r)",
                     f"  %{p}.e = exp(%{p}.s)", f"  %{p}.u = mul(%{p}.x2, %{p}.e)", f"  %{p}.y2 = add(%{p}.u, %{p}.t)",
                     f"  %{p}.logdet = mean(%{p}.s)"]
            scales.append(f"%{p}.logdet")
        body += [f"  %{p}.y = concat(%{p}.y2, %{p}.x1) {{axis = 1}}"]
        last = f"%{p}.y"
    body += [f"  %z = affine({last}) {{scale = 0.5}}", "  %square = square(%z)", "  %nll0 = mean(%square)"]
    for i, scale in enumerate(scales):
        body += [f"  %nll{i + 1} = sub(%nll{i}, {scale})"]
    nll = f"%nll{len(scales)}"
    return "\n".join([*head, *body, f"  loss {nll}", f"  output {nll}", "}", ""])


ALLOW = "--allow=recompute,invert"
QUICK = "--effort=0.5"


class Inverses(Case):
    def flow(self, depth, **how):
        return self.write("flow.isth", flow(depth, **how))

    def gradients(self, *args):
        """Returns the outputs by name, and the report."""
        report = self.report("run", "flow.isth", "--outputs=out", "--threads=1", *args)
        return {f: self.npy("out", f) for f in os.listdir(self.path("out")) if f.endswith(".npy")}, report

    def npy(self, *path):
        """Returns the shape and the elements."""
        return read_npy(self.path(os.path.join(*path)))[1:]

    def error(self, want, got):
        """Returns the largest difference as a share of the largest element."""
        self.assertEqual(want.keys(), got.keys())
        worst = 0
        for name, (shape, a) in want.items():
            self.assertEqual(shape, got[name][0])
            scale = max(map(abs, a)) or 1
            worst = max(worst, max(abs(x - y) for x, y in zip(a, got[name][1])) / scale)
        return worst


class Plans(Inverses):
    def test_memory_does_not_grow_with_depth(self):
        peaks = {}
        for depth in 32, 96:
            self.flow(depth)
            r = self.report("opt", "flow.isth", QUICK, "--budget=min", ALLOW, "-o", "small.isth")
            without = self.report("opt", "flow.isth", QUICK, "--budget=min", "-o", "other.isth")
            peaks[depth] = r["predicted_peak_bytes"] - r["output_bytes"]
            self.assertLess(r["predicted_peak_bytes"], 0.8 * without["predicted_peak_bytes"])
            self.assertGreater(r["inversions"], depth)
            self.assertEqual(without["inversions"], 0)
        self.assertLess(peaks[96], 1.5 * peaks[32], "three times as deep")

    def test_gradients(self):
        for coupling in "additive", "affine":
            for dtype, bound in ("f32", 2e-3), ("f64", 1e-10):  # the rounding of 32 couplings
                with self.subTest(f"{coupling} {dtype}"):
                    self.flow(32, dtype=dtype, coupling=coupling)
                    want, _ = self.gradients()
                    got, r = self.gradients("--budget=min", ALLOW, QUICK)
                    self.assertGreater(r["inversions"], 6)
                    self.assertEqual(r["measured_peak_bytes"], r["predicted_peak_bytes"])
                    self.assertLess(r["predicted_peak_bytes"], 0.5 * r["baseline_peak_bytes"])
                    self.assertLess(self.error(want, got), bound)
                    self.assertGreater(len(r["inverse_errors"]), 6)
                    self.assertLess(max(r["inverse_errors"].values()), bound)

    def test_an_error_that_is_too_large_falls_back(self):
        self.flow(6, coupling="affine")
        want, _ = self.gradients()
        got, r = self.gradients("--budget=60%", ALLOW, QUICK, "--max-inverse-error=0")
        exact = {name for name, error in r["inverse_errors"].items() if error == 0} if r["inverse_errors"] else set()
        self.assertEqual(len(exact), len(r["inverse_errors"] or {}))
        self.assertEqual(self.error(want, got), 0)
        without = self.report("run", "flow.isth", "--budget=60%", QUICK, "--threads=1")
        self.assertLessEqual(r["recompute_overhead"], without["recompute_overhead"] + 1e-9)

    def test_gradients_that_cancel(self):
        """The gradient of a bias before a norm is rounding alone: it is held against the step's own error, unless an error is given."""
        self.run_ok("zoo", "mobilenetv2", "--width=8", "--batch=4", "--shape=3x64x64", "-o", "net.isth")
        step = ["net.isth", "--loss=mean", "--threads=2"]
        r = self.report("opt", *step, "--budget=45%", "--allow=recompute,invert", "--effort=0.1", "-o", "small.isth")
        self.assertGreater(r["inversions"], 0)
        verify = ["verify", "net.isth", "small.isth", *step[1:]]
        self.run_ok(*verify)
        self.assertEqual(command.run(*verify, "--max-inverse-error=1e-3", cwd=self.dir).code, 4)

    def test_the_rewritten_graph_is_a_graph(self):
        self.flow(24, coupling="affine")
        self.run_ok("opt", "flow.isth", QUICK, "--budget=min", ALLOW, "-o", "small.isth", "--dot=small.dot")
        text = self.read("small.isth").decode()
        self.assertIn("from(inverse(", text)
        self.assertTrue(b"rebuilt by an inverse" in self.read("small.dot"), "the legend")
        # `verify` accepts the graph within the error of inverses, and rejects it if no error is allowed.
        self.assertIn("depend on inverses", self.run_ok("verify", "flow.isth", "small.isth").err)
        refused = command.run("verify", "flow.isth", "small.isth", "--max-inverse-error=0", cwd=self.dir)
        self.assertEqual(refused.code, 4)
        self.assertIn("it depends on inverses", refused.err)
        # A plan of a planned graph starts from the original graph, and so does its gradient.
        self.run_ok("opt", "small.isth", "--policy=none", "-o", "back.isth")
        self.run_ok("opt", "flow.isth", "--policy=none", "-o", "none.isth")
        self.assertEqual(self.read("back.isth"), self.read("none.isth"))
        # The graph stays the same through ONNX and back.
        self.run_ok("opt", "flow.isth", QUICK, "--budget=min", ALLOW, "-o", "small.onnx")
        self.run_ok("import", "small.onnx", "-o", "again.isth")
        self.assertEqual(text.count("inverse("), self.read("again.isth").decode().count("inverse("))

    def test_fixed_points(self):
        """Residual blocks that are contractions are inverted by iterations (Behrmann et al. 2019) if `--iterations`
        gives their number."""
        self.run_ok("zoo", "iresnet", "--depth=48", "--levels=1", "--width=4", "--batch=64", "--shape=3x8x8", "-o", "flow.isth")
        how = ("--loss=cross_entropy", "--precision=f64")
        effort = "--effort=0.1"
        small = "--budget=800000"  # an eighth of the peak, where iterations cost less than recomputing all again
        want, _ = self.gradients(*how)
        largest = max(abs(v) for _, values in want.values() for v in values)
        errors = []
        for iterations, inversions in (3, 12), (6, 6):  # more of them cost more, and the plan has fewer
            with self.subTest(iterations=iterations):
                got, r = self.gradients(*how, small, ALLOW, effort, f"--iterations={iterations}")
                self.assertGreater(r["inversions"], inversions)
                self.assertEqual(r["measured_peak_bytes"], r["predicted_peak_bytes"])
                self.assertLess(r["predicted_peak_bytes"], 0.5 * r["baseline_peak_bytes"])
                errors.append(max(r["inverse_errors"].values()))
                off = max(abs(a - b) for name in want for a, b in zip(want[name][1], got[name][1]))
                self.assertLess(off, 1e3 * errors[-1] * largest)
        self.assertGreater(errors[0], 1e-9)
        self.assertLess(errors[1], 1e-3 * errors[0])
        # Three iterations are found to be too few.
        _, r = self.gradients(*how, small, ALLOW, effort, "--iterations=3", "--max-inverse-error=1e-12")
        self.assertLess(max((r["inverse_errors"] or {"none": 0}).values()), 1e-12)

    def test_explain(self):
        self.flow(32)
        explained = json.loads(self.run_ok("explain", "flow.isth", QUICK, "--budget=min", ALLOW, "--json", "--top=100").out)
        self.assertGreater(explained["totals"]["rebuilt"]["tensors"], 0)
        self.assertGreater(sum(t["rebuildings"] for t in explained["tensors"]), 0)
        text = self.run_ok("explain", "flow.isth", QUICK, "--budget=min", ALLOW, "--top=30").out.decode()
        self.assertIn("rebuilt by its inverse once", text)

    def test_usage(self):
        self.flow(1)
        for args, says in [(["--max-inverse-error=1e-3"], "it goes with --allow=invert"),
                           ([ALLOW, "--max-inverse-error=-1"], "--max-inverse-error expects a share from 0 on"),
                           ([ALLOW, "--max-inverse-error=nan"], "--max-inverse-error expects a share from 0 on"),
                           (["--iterations=10"], "it goes with --allow=invert"),
                           ([ALLOW, "--iterations=2"], "--iterations expects a number from 3 to 10000, got 2"),
                           ([ALLOW, "--iterations=1000000000"], "--iterations expects a number from 3 to 10000"),
                           ([ALLOW, "--max-inverse-error=much"], "--max-inverse-error")]:
            with self.subTest(args):
                result = command.run("opt", "flow.isth", "--budget=50%", *args, "-o", "x.isth", cwd=self.dir)
                self.assertEqual(result.code, 2, result)
                self.assertIn(says, result.err)


class ActivatedNorms(Inverses):
    """Batch norm followed by leaky_relu, as in In-Place ABN (Rota Bulo et al. 2018), in a residual network of the
    zoo."""

    LOSS = "--loss=cross_entropy"

    def setUp(self):
        super().setUp()
        self.run_ok("zoo", "resnet", "--depth=20", "--batch=32", "--shape=3x32x32", "-o", "relu.isth")
        text = self.read("relu.isth").decode()
        self.write("flow.isth", text.replace(" = relu(", " = leaky_relu("))

    def plan(self, *args):
        return self.report("opt", "flow.isth", self.LOSS, QUICK, *args, "-o", "small.isth")

    def test_are_found(self):
        """Only the result of leaky_relu is kept: inverses alone save two fifths of the peak for a few percent of
        time."""
        alone = self.plan("--budget=60%", "--allow=invert")
        inverses = re.findall(r" = (\w+)\(.*from\(inverse\(", self.read("small.isth").decode())
        self.assertEqual(len(inverses), alone["inversions"])
        self.assertGreater(inverses.count("leaky_relu"), 5)
        self.assertGreater(inverses.count("batch_norm_inverse"), 5)
        self.assertEqual(alone["clones"], 0)
        self.assertLess(alone["recompute_overhead"], 0.1)
        both, without = self.plan("--budget=50%", ALLOW), self.plan("--budget=50%")
        print(f"{alone['baseline_peak_bytes'] / 2**20:.1f} MiB; at 60 % by {alone['inversions']} inverses alone "
              f"{alone['recompute_overhead']:+.1%}; at 50 % {without['recompute_overhead']:+.1%} by recomputing, "
              f"{both['recompute_overhead']:+.1%} with {both['inversions']} inverses")
        self.assertLess(both["recompute_overhead"], without["recompute_overhead"])

    def test_gradients(self):
        want, _ = self.gradients(self.LOSS)
        got, r = self.gradients(self.LOSS, "--budget=60%", "--allow=invert", QUICK)
        self.assertGreater(r["inversions"], 10)
        self.assertEqual(r["measured_peak_bytes"], r["predicted_peak_bytes"])
        self.assertLess(self.error(want, got), 1e-4)


class Bits(Inverses):
    """The gradients of some rows jump if their operands are rounded. Such operands must have the bits of the first
    run."""

    def branches(self, op, last):
        """Writes branches whose first product is expensive to repeat, as it makes a small value from a large one. The
        result after the activation is kept, and the activation can be inverted from it."""
        head = ["isthmus 2", "graph @net {", "  input %x : f32[1024, 512]"]
        body, total = [], None
        for k in range(8):
            head += [f"  param %v{k} : f32[512, 32] = normal {{std = 0.03, seed = {k}}}",
                     f"  param %w{k} : f32[32, 32] = normal {{std = 0.2, seed = {k + 20}}}"]
            body += [f"  %h{k} = matmul(%x, %v{k})", f"  %a{k} = {op}(%h{k})", f"  %m{k} = matmul(%a{k}, %w{k})",
                     f"  %s{k} = square(%m{k})", f"  %l{k} = {last(f'%s{k}')}", f"  %n{k} = mean(%l{k})"]
            if total:
                body += [f"  %t{k} = add({total}, %n{k})"]
            total = f"%t{k}" if total else f"%n{k}"
        outputs = [f"  output {total}", *[f"  output %m{k}" for k in range(8)]]
        self.write("flow.isth", "\n".join([*head, *body, f"  loss {total}", *outputs, "}", ""]))

    def check(self, op, last=lambda s: f"sin({s})"):
        """Checks the gradients, and returns the names of values that inverses rebuilt."""
        self.branches(op, last)
        want, _ = self.gradients()
        got, r = self.gradients("--budget=min", ALLOW, QUICK)
        self.assertLess(self.error(want, got), 1e-4)
        return set(r["inverse_errors"] or {})

    def test_what_a_gradient_tells_apart_stays(self):
        """relu_grad tests which results are above zero, so a zero that is rebuilt as 1e-17 would change it."""
        self.assertTrue([name for name in self.check("tanh") if name.startswith("a")])
        for op in "relu", "hard_sigmoid":
            with self.subTest(op):
                self.assertFalse([name for name in self.check(op) if name.startswith("a")])

    def test_elements_that_are_compared_stay(self):
        """The gradient of a maximum tests which element equals it, so nothing before the maximum may be rounded."""
        self.assertEqual(self.check("tanh", lambda s: f"max({s}) {{axes = [1]}}"), set())


class Invert(Inverses):
    def test_there_and_back(self):
        for coupling in "additive", "affine":
            with self.subTest(coupling):
                self.flow(5, dtype="f64", coupling=coupling)
                text = self.read("flow.isth").decode().replace("  output %nll", "  output %z\n  output %nll")
                self.write("flow.isth", text)
                self.run_ok("run", "flow.isth", "--as-written", "--outputs=there", "--wrt=%x")
                self.run_ok("invert", "flow.isth", "--ys=%z", "--xs=%x", "-o", "back.isth")
                os.makedirs(os.path.join(self.dir, "given"), exist_ok=True)
                self.write("given/z.npy", self.read("there/z.npy"))
                self.run_ok("run", "back.isth", "--inputs=given", "--outputs=back")
                self.run_ok("run", "flow.isth", "--as-written", "--wrt=%x", "--outputs=again", "--inputs=back")
                (shape, z), (_, again) = self.npy("there", "z.npy"), self.npy("again", "z.npy")
                self.assertEqual(shape, (BATCH, WIDTH))
                self.assertLess(max(abs(a - b) for a, b in zip(z, again)), 1e-12)

    def test_of_several_nodes(self):
        """Parts that cover a value rebuild it, and so do functions that read it twice, in f64 to a few last places."""
        halves = "%a = slice(%x) {{starts = [0, {0}], limits = [5, {1}], steps = [1, {4}]}}\n  " \
                 "%b = slice(%x) {{starts = [0, {2}], limits = [5, {3}], steps = [1, {4}]}}"
        coupling = "%q = matmul(%a, %w)\n  %t = tanh(%q)\n  %s = exp(%t)\n  %c = mul(%b, %s)\n  %d = add(%c, %q)\n  %y = concat(%a, %d) {axis = 1}"
        gathers = "%a = gather(%x, %i) {axis = 1}\n  %b = gather(%x, %j) {axis = 1}"
        squashed = "%p = sigmoid(%x)\n  "
        for name, body in {"slices": halves.format(0, 3, 3, 6, 1) + "\n  " + coupling, "strided": halves.format(0, 6, 1, 6, 2) + "\n  " + coupling,
                           "gathers": f"{gathers}\n  {coupling}",
                           "roll": halves.format(0, 2, 2, 6, 1) + "\n  %y = concat(%b, %a) {axis = 1}",
                           "prelu": "%y = prelu(%x, %slope)",
                           "logit": squashed + "%r = affine(%p) {scale = -1.0, shift = 1.0}\n  %o = div(%p, %r)\n  %y = log(%o)",
                           "logarithms": squashed + "%l = log(%p)\n  %n = neg(%p)\n  %m = log1p(%n)\n  %y = sub(%l, %m)",
                           "softplus": "%big = affine(%x) {scale = 9.0}\n  %above = greater(%big, %most)\n  %soft = softplus(%big)\n  "
                                       "%y = where(%above, %big, %soft)"}.items():
            with self.subTest(name):
                self.write("flow.isth", f"""isthmus 2
graph @flow {{
  input %x : f64[5, 6]
  const %i : i64[3] = [4, 0, -4]
  const %j : i64[3] = [1, 5, 3]
  const %most : f64[] = [20.0]
  const %slope : f64[6] = [0.25, 0.5, 1.0, 0.1, 2.0, 0.3]
  param %w : f64[3, 3] = normal {{std = 0.5, seed = 1}}
  {body}
  output %y
  output %x
}}
""")
                self.run_ok("run", "flow.isth", "--outputs=there")
                self.run_ok("invert", "flow.isth", "--ys=%y", "--xs=%x", "-o", "back.isth")
                os.makedirs(self.path("given"), exist_ok=True)
                self.write("given/y.npy", self.read("there/y.npy"))
                self.run_ok("run", "back.isth", "--inputs=given", "--outputs=back")
                (_, x), (_, back) = self.npy("there", "x.npy"), self.npy("back", "x.npy")
                self.assertLess(max(abs(a - b) for a, b in zip(x, back)), 1e-12)

    def there_and_back(self, precision, iterations):
        """Returns the error of an i-ResNet's inverse, from its last sum to the example, as a share of the largest
        element."""
        exact = f"--precision={precision}"
        self.run_ok("run", "net.isth", "--as-written", exact, "--outputs=there")
        self.run_ok("invert", "net.isth", exact, "--ys=%stage2.3.sum", "--xs=%x", f"--iterations={iterations}", "-o", "back.isth")
        os.makedirs(self.path("given"), exist_ok=True)
        self.write("given/stage2.3.sum.npy", self.read("there/stage2.3.sum.npy"))
        self.run_ok("run", "back.isth", "--inputs=given", "--outputs=back")
        (shape, x), (_, back) = self.npy("there", "x.npy"), self.npy("back", "x.npy")
        self.assertEqual(shape, (4, 3, 8, 8))
        return max(abs(a - b) for a, b in zip(x, back)) / max(map(abs, x))

    def test_contractions(self):
        """Inverts sums x + f(x) that are marked #contraction (Behrmann et al. 2019). More iterations give smaller
        errors, down to rounding."""
        self.run_ok("zoo", "iresnet", "--depth=3", "--levels=2", "--width=8", "--batch=4", "--shape=3x8x8", "-o", "zoo.isth")
        text = self.read("zoo.isth").decode()
        self.write("net.isth", text.replace("  output %y\n", "  output %y\n  output %x\n  output %stage2.3.sum\n"))
        errors = [self.there_and_back("f64", n) for n in (3, 10, 30, 100)]
        for fewer, more in zip(errors, errors[1:]):
            self.assertLess(more, max(0.2 * fewer, 1e-12))
        self.assertLess(errors[-1], 1e-9)
        self.assertLess(self.there_and_back("f32", 100), 1e-5)
        # Without the mark no rule inverts such a sum, and the number of iterations must be valid.
        self.write("plain.isth", text.replace(" #contraction", ""))
        for args, code, says in [(["plain.isth"], 1, "no rule inverts '%stage1.1.sum' (add)"),
                                 (["zoo.isth", "--iterations=0"], 2, "--iterations"),
                                 (["zoo.isth", "--iterations=few"], 2, "--iterations"),
                                 (["zoo.isth", "--iterations=1000000000"], 2, "from 1 to 10000")]:
            result = command.run("invert", *args, "--ys=%stage1.1.sum", "--xs=%x", "-o", "no.isth", cwd=self.dir)
            self.assertEqual(result.code, code, result)
            self.assertIn(says, result.err)

    def test_refusals(self):
        self.flow(2)
        for args, code, says in [(["--ys=%b1.y"], 2, "--xs is required"), (["--ys=%nope", "--xs=%x"], 1, "nope"),
                                 (["--ys=%nll0", "--xs=%x"], 1, "no rule inverts '%nll0' (mean)"),
                                 (["--ys=%b1.y", "--xs=%x", "--loss=mean"], 2, "an inverse has no loss")]:
            with self.subTest(args):
                result = command.run("invert", "flow.isth", *args, "-o", "x.isth", cwd=self.dir)
                self.assertEqual(result.code, code, result)
                self.assertIn(says, result.err)
                self.assertNotIn("x.isth", self.files())


if __name__ == "__main__":
    command.main()
