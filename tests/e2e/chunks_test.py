"""Tests steps whose regions run in chunks: bits, peaks, files, refusals, micro-batches against the whole batch."""

import json
import re
import unittest

import command
from cli_cases import Case

LOSS = "--loss=cross_entropy"
CHUNK = "--allow=recompute,chunk"
QUICK = "--effort=0.5"
GPT2 = ["gpt2", "--depth=2", "--width=32", "--heads=4", "--batch=2", "--tokens=32", "--vocab=3000"]


class Chunks(Case):
    def net(self, name, *options):
        self.run_ok("zoo", *options, "-o", name)
        return name

    def gpt2(self, *options):
        return self.net("gpt2.isth", *GPT2, *options)

    def opt(self, *args, out="small.isth"):
        return self.report("opt", *args, QUICK, "-o", out)


class Head(Chunks):
    def test_a_head_runs_below_the_floor_of_recomputation(self):
        """Logits and their gradient never exist whole, dropout and ignored labels included; every bit is that of the whole step."""
        model = self.gpt2()
        floor = self.opt(model, LOSS, "--ignore-index=-100", "--budget=min")
        r = self.opt(model, LOSS, "--ignore-index=-100", "--budget=min", CHUNK, out="chunked.isth")
        self.assertLess(r["arena_bytes"], 0.6 * floor["arena_bytes"])
        self.assertGreater(r["chunks"], 0)
        self.assertEqual(floor["chunks"], 0)
        equal = self.run_ok("verify", model, "chunked.isth", LOSS, "--ignore-index=-100").err
        self.assertRegex(equal, r"^note: (.|\n)*\d+ outputs are equal bit for bit|^\d+ outputs are equal bit for bit")
        self.assertNotIn("depend on", equal)
        ran = self.report("run", "chunked.isth", "--steps=2")
        self.assertEqual(ran["measured_peak_bytes"], r["predicted_peak_bytes"])
        self.assertLessEqual(ran["lower_bound_bytes"], ran["predicted_peak_bytes"])

    def test_a_head_in_16_bits(self):
        """The weight's gradient is summed in f32 and rounded once: on a CPU every bit is that of the whole step."""
        model = self.net("gpt2.isth", *GPT2[:5], "--tokens=128", "--vocab=3000")
        for precision in "bf16", "f16":
            with self.subTest(precision):
                self.run_ok("opt", model, LOSS, f"--precision={precision}", "-o", "whole.isth")
                floor = self.opt("whole.isth", "--budget=min")
                r = self.opt("whole.isth", "--budget=min", CHUNK, out="chunked.isth")
                self.assertLess(r["arena_bytes"], 0.5 * floor["arena_bytes"])
                self.assertGreater(r["chunks"], 0)
                self.run_ok("verify", "whole.isth", "chunked.isth")
                for rounding in "beside", "in-place":
                    self.run_ok("opt", "whole.isth", f"--chunk=%y:chunks=4,rounding={rounding}", "-o", "head.isth")
                    self.assertEqual("shorten" in self.read("head.isth").decode(), rounding == "in-place")
                    told = self.run_ok("verify", "whole.isth", "head.isth").err
                    self.assertIn("equal bit for bit", told)
                    self.assertNotIn("depend on", told)
                    ran = self.report("run", "head.isth", "--steps=2")
                    self.assertEqual(ran["measured_peak_bytes"], ran["predicted_peak_bytes"])

    def test_names_play_no_part(self):
        model = self.gpt2()
        with open(self.path(model)) as f:
            text = f.read()
        names = {n: f"%v{i}" for i, n in enumerate(dict.fromkeys(re.findall(r"%[\w.$-]+", text)))}
        self.write("bare.isth", re.sub(r"%[\w.$-]+", lambda m: names[m[0]], text))
        named = self.opt(model, LOSS, "--budget=min", CHUNK)
        bare = self.opt("bare.isth", LOSS, "--budget=min", CHUNK)
        self.assertEqual(named["predicted_peak_bytes"], bare["predicted_peak_bytes"])

    def test_a_chunked_file_is_planned_anew_from_its_original(self):
        model = self.gpt2()
        self.run_ok("opt", model, LOSS, "--chunk=%y:axis=0,chunks=4", "-o", "head.isth")
        again = self.opt("head.isth", "--policy=none", out="again.isth")
        self.assertEqual(again["chunks"], 0)
        self.run_ok("verify", "head.isth", "again.isth")
        once = self.opt(model, LOSS, "--budget=min", CHUNK)
        twice = self.opt("head.isth", "--budget=min", CHUNK)
        self.assertEqual(once["predicted_peak_bytes"], twice["predicted_peak_bytes"])

    def test_checkpoints_of_values_in_chunks(self):
        """A name or a mark of a value that runs in chunks stands for its chunks."""
        model = self.net("mlp.isth", "mlp", "--depth=6", "--batch=512", "--width=32", "--shape=12")
        text = self.read(model).decode()
        self.write("marked.isth", re.sub(r"(%relu[13] = .*)", r"\1 #checkpoint", text))
        for chunks in ["--microbatches=2"], ["--chunk=%fc2:axis=0,chunks=4"]:
            with self.subTest(chunks):
                named = self.report("opt", model, LOSS, *chunks, "--checkpoints=relu1,relu3", "-o", "named.isth")
                self.assertLessEqual({"relu1.c0", "relu1.c1", "relu3.c0", "relu3.c1"}, set(named["checkpoints"]))
                self.run_ok("verify", model, "named.isth", LOSS)
                marked = self.report("opt", "marked.isth", LOSS, *chunks, "--policy=collection", "-o", "marked_small.isth")
                for figure in "predicted_peak_bytes", "clones", "checkpoints":
                    self.assertEqual(named[figure], marked[figure])
                self.assertEqual(self.report("run", "named.isth")["measured_peak_bytes"], named["predicted_peak_bytes"])

    def test_policies_recompute_within_each_chunk(self):
        """A later chunk's forward part follows an earlier one's backward part: each is recomputed before its own backward part."""
        mlp = self.net("mlp.isth", "mlp", "--depth=8", "--batch=256", "--width=32", "--shape=32")
        gpt2 = self.net("gpt2.isth", "gpt2", "--depth=3", "--width=32", "--heads=4", "--batch=4", "--tokens=32", "--vocab=500", "--dropout=0.1")
        cases = [
            (mlp, ["--loss=mse", "--microbatches=2"], "memory", 0.9),
            (mlp, ["--loss=mse", "--microbatches=2"], "relu3,relu6", 0.9),
            (mlp, ["--loss=mse", "--microbatches=4"], "memory", 1),
            (gpt2, [LOSS, "--microbatches=2"], "speed", 0.9),
            (gpt2, [LOSS, "--microbatches=2"], "memory", 0.7),
            (gpt2, [LOSS, "--chunk=%y:axis=0,chunks=4"], "memory", 0.7),
        ]
        for model, options, policy, most in cases:
            with self.subTest(model=model, options=options, policy=policy):
                way = "--checkpoints=" if "relu" in policy else "--policy="
                kept = self.report("opt", model, *options, "--policy=none", "-o", "kept.isth")
                r = self.report("opt", model, *options, way + policy, "-o", "small.isth")
                self.assertLess(r["predicted_peak_bytes"], most * kept["predicted_peak_bytes"])
                self.assertGreater(r["clones"], 0)
                self.assertEqual(r["chunks"], kept["chunks"])
                if "micro" in options[1]:
                    text = self.read("small.isth").decode()
                    for chunk in range(1, int(options[1][-1])):  # what the first one keeps may lower no peak
                        self.assertRegex(text, rf"from\(clone\(%[\w.]+\.c{chunk}\)")
                self.assertIn("equal bit for bit", self.run_ok("verify", "kept.isth", "small.isth").err)
                self.run_ok("verify", model, "small.isth", options[0])
                self.assertEqual(self.report("run", "small.isth")["measured_peak_bytes"], r["predicted_peak_bytes"])

    def test_draws_along_inner_axes(self):
        """Parts draw the numbers of the whole, along any axis of [T, B, H] and of what merges T and B, and so do chunks of parts."""
        rows = (
            "input %x : f32[32, 8, 16]",
            "param %w : f32[16, 256] = normal {seed = 1, std = 0.05}",
            "param %v : f32[256, 16] = normal {seed = 2, std = 0.05}",
            "%d0 = dropout(%x) {ratio = 0.1, stream = 1} : f32[32, 8, 16]",
            "%m = reshape(%d0) {dims = [256, 16]} : f32[256, 16]",
            "%h = matmul(%m, %w) : f32[256, 256]",
            "%h3 = reshape(%h) {dims = [32, 8, 256]} : f32[32, 8, 256]",
            "%n = normal() {dims = [32, 8, 256], std = 0.01, stream = 2} : f32[32, 8, 256]",
            "%hn = add(%h3, %n) : f32[32, 8, 256]",
            "%a = gelu(%hn) : f32[32, 8, 256]",
            "%d = dropout(%a) {ratio = 0.3, stream = 3} : f32[32, 8, 256]",
            "%dm = reshape(%d) {dims = [256, 256]} : f32[256, 256]",
            "%d2 = dropout(%dm) {ratio = 0.2, stream = 4} : f32[256, 256]",
            "%y = matmul(%d2, %v) : f32[256, 16]",
            "%s = square(%y) : f32[256, 16]",
            "%loss = mean(%s) : f32[]",
        )
        self.write("drop.isth", "\n".join(["isthmus 2", "graph @drop {", *rows, "loss %loss", "output %loss", "}", ""]))
        whole = self.opt("drop.isth")["predicted_peak_bytes"]
        for options, most in (
            (["--microbatches=4", "--batch=%x:axis=1"], 0.45),
            (["--microbatches=4", "--batch=%x:axis=1", "--budget=min", CHUNK], 0.45),
            (["--microbatches=2", "--batch=%x:axis=0", "--budget=min", CHUNK], 0.45),
            (["--chunk=%d:axis=1,chunks=4"], 0.45),
            (["--chunk=%d:axis=2,chunks=4"], 0.7),
            (["--budget=min", CHUNK], 0.2),
        ):
            with self.subTest(options=options):
                r = self.opt("drop.isth", *options, out="parts.isth")
                self.assertLess(r["predicted_peak_bytes"], most * whole)
                self.run_ok("verify", "drop.isth", "parts.isth")

    def test_gradients_of_a_chunked_step(self):
        """Second derivatives are those of the original."""
        model = self.net("mlp.isth", "mlp", "--batch=8", "--width=16", "--shape=12")
        self.run_ok("opt", model, LOSS, "-o", "whole.isth")
        self.run_ok("opt", model, LOSS, "--microbatches=2", "-o", "parts.isth")
        self.assertIn("replaced %", self.read("parts.isth").decode())
        for name in "whole", "parts":
            self.run_ok("grad", f"{name}.isth", "--loss=%grad.fc1.weight", "-o", f"{name}2.isth")
        self.run_ok("verify", "whole2.isth", "parts2.isth")

    def test_onnx(self):
        model = self.gpt2("--dropout=0")
        self.run_ok("opt", model, LOSS, "--chunk=%y:axis=0,chunks=4", "-o", "head.isth")
        told = self.run_ok("opt", model, LOSS, "--chunk=%y:axis=0,chunks=4", "-o", "head.onnx").err
        self.assertIn("an .isth file can", told)
        self.run_ok("verify", "head.isth", "head.onnx")

    def test_onnx_says_what_is_rounded(self):
        """An ONNX file does not keep what chunks stand for, but tells which outputs are held against an error."""
        model = self.net("cnn.isth", "cnn", "--depth=2", "--width=4", "--batch=8", "--shape=3x16x16")
        self.run_ok("opt", model, "--loss=mean", "--microbatches=2", "-o", "parts.onnx")
        told = self.run_ok("verify", model, "parts.onnx", "--loss=mean").err
        self.assertIn("depend on inverses or sums of chunks", told)
        self.assertIn("because 'parts.onnx' says that chunks rounded them: %grad", told)
        self.run_ok("opt", "parts.onnx", "-o", "parts.isth")
        self.assertRegex(self.read("parts.isth").decode(), r"output %\S+ gradient\(%\S+\) rounded\n")
        self.assertIn("'parts.isth' says", self.run_ok("verify", model, "parts.isth", "--loss=mean").err)

    def test_the_author_s_facts_loosen_no_comparison(self):
        rows = ("isthmus 2", 'meta rounded_outputs = "y"', "graph @two {", "  input %x : f32[4]",
                "  %y = {op}(%x) : f32[4]", "  output %y", "}")
        for op in "exp", "expm1":
            self.write(f"{op}.isth", "\n".join(rows).replace("{op}", op) + "\n")
        told = command.run("verify", "exp.isth", "expm1.isth", "--max-inverse-error=10", cwd=self.dir)
        self.assertEqual(told.code, 4, told)
        self.assertIn("elements differ", told.err)

    def test_pictures_and_words(self):
        model = self.gpt2()
        self.run_ok("opt", model, LOSS, "--chunk=%y:axis=0,chunks=4", "-o", "head.isth", "--dot=head.dot")
        self.assertIn("in chunks", self.read("head.dot").decode())
        self.assertIn("Never whole", self.run_ok("explain", "head.isth").out.decode())
        whole = {v["name"]: v for v in json.loads(self.run_ok("explain", "head.isth", "--json").out)["never_whole"]}
        self.assertEqual((whole["y"]["chunks"], whole["y"]["bytes"]), (4, 4 * whole["y"]["most_bytes"]))
        named = self.run_ok("explain", "head.isth", "--of=%y").out.decode()
        self.assertRegex(named, r"Named: these run in chunks\n +%y .* 4 chunks of .* at most, node \d+ to \d+, never whole")
        both = json.loads(self.run_ok("explain", "head.isth", "--of=%y,%loss.cross_entropy", "--json").out)
        self.assertEqual([v["name"] for v in both["never_whole"]], ["y"])
        self.assertEqual([(v["name"], v["whole"]) for v in both["put_together"]], [("loss.cross_entropy", "loss.cross_entropy.to3")])
        self.run_ok("profile", "head.isth", "--steps=1")


class Refusals(Chunks):
    def refused(self, *args, says, code=2):
        result = command.run("opt", *args, "-o", "x.isth", cwd=self.dir)
        self.assertEqual(result.code, code, result)
        self.assertIn(says, result.err)

    def test_requests(self):
        model = self.gpt2()
        for request, says in {
            "%y": "expected",
            "%y:": "expected",
            "%y:axis=0": "two chunks or more",
            "%y:chunks=1": "two chunks or more",
            "%y:axis=x,chunks=2": "axis=N or chunks=N",
            "%y:parts=2": "axis=N or chunks=N",
            "%y:chunks=2,rounding=up": "rounding=in-place or rounding=beside",
        }.items():
            with self.subTest(request):
                self.refused(model, LOSS, f"--chunk={request}", says=says)
        for request, says in {
            "%nothing:chunks=2": "no value is called '%nothing'",
            "%wte:chunks=2": "it is a graph input",
            "%y:axis=2,chunks=2": "it has no axis 2",
            "%y:axis=1,chunks=2": "cannot be cut along axis 1",
            "%y:chunks=65": "into 64 chunks at most",
        }.items():
            with self.subTest(request):
                self.refused(model, LOSS, f"--chunk={request}", says=says, code=1)
        self.refused(model, LOSS, "--microbatches=0", says="--microbatches")
        self.refused(model, LOSS, "--microbatches=3", says="there can be 2 at most", code=1)

    def found_out(self, text, lies):
        """Each lie, made of a truth in the file, is an error at its place."""
        for what, (was, now) in lies.items():
            with self.subTest(what):
                self.assertIn(was, text)
                self.write("lie.isth", text.replace(was, now, 1))
                result = command.run("run", "lie.isth", cwd=self.dir)
                self.assertEqual(result.code, 1, result)
                self.assertRegex(result.err, r"lie\.isth:\d+:\d+: error: .*(part|chunk)")

    def test_a_file_that_lies(self):
        """What a chunk is said to hold is checked."""
        self.run_ok("opt", self.gpt2(), LOSS, "--chunk=%y:axis=0,chunks=4", "-o", "head.isth")
        text = self.read("head.isth").decode()
        lies = {
            "another part": ("%ln_f.c1 = part(%ln_f) {size = 16, start = 16}", "%ln_f.c1 = part(%ln_f) {size = 16, start = 32}"),
            "a place that is taken": ("%y.c1 = matmul(%ln_f.c1,", "%y.c1 = matmul(%ln_f.c0,"),
            "another value": ("from(chunk(%y, 0))", "from(chunk(%ln_f, 0))"),
        }
        self.found_out(text, lies)
        self.write("lie.isth", re.sub(r" from\(at\(\d+\)\)\n  loss", "\n  loss", text))
        self.assertIn("it must say where it was", command.run("run", "lie.isth", cwd=self.dir).err)
        self.write("lie.isth", text.replace("output %loss\n", "output %loss\n  output %y\n"))
        self.assertIn("never made", command.run("run", "lie.isth", cwd=self.dir).err)

    def test_a_view_of_what_chunks_put_together(self):
        """A file with an inverse is checked against its original, where such a view shows a value that comes later."""
        self.write("view.isth", """isthmus 2
graph @chunked {
  input %x : f32[4, 16]
  state %s : f32[4, 1] = zeros
  %q = tanh(%x)
  %p = exp(%q)
  %q.again = log(%p) from(inverse(%q))
  %r = mul(%q.again, %p)
  %r.c0 = part(%r) {size = 2, start = 0} : f32[2, 16] from(chunk(%r, 0))
  %y.c0 = exp(%r.c0) : f32[2, 16] from(chunk(%y, 0))
  %z.c0 = sum(%y.c0) {axes = [1]} : f32[2] from(chunk(%z, 0))
  %z.to0 = write_part(%z.c0) {size = 4, start = 0} : f32[4] from(chunk(%z, 0))
  %r.c1 = part(%r) {size = 2, start = 2} : f32[2, 16] from(chunk(%r, 1))
  %y.c1 = exp(%r.c1) : f32[2, 16] from(chunk(%y, 1))
  %z.c1 = sum(%y.c1) {axes = [1]} : f32[2] from(chunk(%z, 1))
  %z.to1 = write_part(%z.c1, %z.to0) {size = 4, start = 2} : f32[4] from(chunk(%z, 1))
  %column = reshape(%z.to1) {dims = [4, 1]} : f32[4, 1] from(at(6))
  %next = add(%s, %column) from(at(7))
  replaced %y = exp(%r) : f32[4, 16] from(at(4))
  replaced %z = sum(%y) {axes = [1]} : f32[4] from(at(5))
  output %column
  output %next next(%s)
}
""")
        ran = self.report("run", "view.isth", "--steps=2")
        self.assertEqual(ran["measured_peak_bytes"], ran["predicted_peak_bytes"])
        self.write("lie.isth", self.read("view.isth").decode().replace("replaced %y = exp(%r)", "replaced %y = reshape(%column) {dims = [4, 16]}"))
        self.assertEqual(command.run("run", "lie.isth", cwd=self.dir).code, 1)

    def test_a_sum_that_is_none(self):
        """A sum in f32 is rounded when it is complete, begins at zero, and adds each chunk once."""
        self.run_ok("opt", self.gpt2(), LOSS, "--precision=bf16", "--chunk=%y:axis=0,chunks=4,rounding=in-place", "-o", "head.isth")
        text = self.read("head.isth").decode()
        first = re.search(r"%(\S+)\.to0 = full\(\) .*", text)
        lies = {
            "begins at one": (first[0], first[0].replace("}", ", value = 1.0}")),
            "is of some chunks": (f"shorten(%{first[1]}.c3)", f"shorten(%{first[1]}.c2)"),
            "lies elsewhere": ("{size = 1, start = 0} : bf16[1,", "{size = 1, start = 1} : bf16[1,"),
        }
        self.found_out(text, lies)

    def test_a_part_that_is_none(self):
        """A chunk is cut along one axis: neither all of a value nor a corner of it is one."""
        for part in "part(%x) {size = 4, start = 0} : f32[4, 16]", "slice(%x) {limits = [2, 8], starts = [0, 0]} : f32[2, 8]":
            with self.subTest(part):
                self.write("lie.isth", "isthmus 2\ngraph @lie {\n  input %x : f32[4, 16]\n"
                                       f"  %x.c0 = {part} from(chunk(%x, 0))\n  %y = exp(%x.c0)\n  output %y\n}}\n")
                result = command.run("run", "lie.isth", cwd=self.dir)
                self.assertEqual(result.code, 1, result)
                self.assertRegex(result.err, r"lie\.isth:4:\d+: error: '%x\.c0' is in chunk 0 of '%x', but .* neither a part of it")


class MicroBatches(Chunks):
    NETS = {
        "mlp": ("mlp", "--batch=10", "--width=32", "--shape=20", "--dropout=0.2"),
        "cnn": ("cnn", "--batch=10", "--width=4", "--shape=3x16x16"),
        "unet": ("unet", "--batch=8", "--shape=1x16x16", "--width=4", "--depth=2"),
        "resnet": ("resnet", "--depth=8", "--batch=8", "--width=4"),
        "gpt2": ("gpt2", "--depth=1", "--width=16", "--heads=2", "--batch=8", "--tokens=8", "--vocab=40"),
    }

    def test_equal_the_whole_batch(self):
        """Loss and gradients of 2, 3 (uneven) and 8 micro-batches are those of the whole batch, also where a batch norm meets."""
        for name, options in self.NETS.items():
            model = self.net(f"{name}.isth", *options)
            for precision, most in ("f32", "1e-5"), ("f64", "1e-11"):
                step = [model, LOSS, f"--precision={precision}"]
                self.run_ok("opt", *step, "-o", "whole.isth")
                for number in 2, 3, 8:
                    with self.subTest(f"{name}, {number} in {precision}"):
                        self.run_ok("opt", *step, f"--microbatches={number}", "-o", "parts.isth")
                        told = self.run_ok("verify", "whole.isth", "parts.isth", f"--max-inverse-error={most}").err
                        self.assertIn("equal bit for bit", told)
                        r = self.report("run", "parts.isth")
                        self.assertEqual(r["measured_peak_bytes"], r["predicted_peak_bytes"])

    def test_a_gradient_that_is_the_same_for_all_examples(self):
        """Chunks of it may lie anywhere; the masks that it meets say where."""
        model = self.net("cnn.isth", "cnn", "--depth=2", "--width=4", "--batch=8", "--shape=3x16x16", "--dropout=0.2")
        for number in 2, 3, 8:
            self.run_ok("opt", model, "--loss=mean", f"--microbatches={number}", "-o", "parts.isth")
            self.run_ok("verify", model, "parts.isth", "--loss=mean")

    def test_in_16_bits(self):
        """Sums that are no products are rounded in each micro-batch: they are off by two units in the last place at most."""
        for name in "mlp", "cnn", "gpt2":
            model = self.net(f"{name}.isth", *self.NETS[name])
            for precision in "bf16", "f16":
                with self.subTest(f"{name} in {precision}"):
                    step = [model, LOSS, f"--precision={precision}"]
                    self.run_ok("opt", *step, "-o", "whole.isth")
                    self.run_ok("opt", *step, "--microbatches=3", "-o", "parts.isth")
                    self.run_ok("verify", "whole.isth", "parts.isth", "--max-inverse-error=0")
                    r = self.report("run", "parts.isth")
                    self.assertEqual(r["measured_peak_bytes"], r["predicted_peak_bytes"])

    def test_norms_that_infer_have_no_statistics(self):
        """So --batch-norm asks for nothing, also when the file of the plan is planned anew."""
        model = self.net("resnet.isth", *self.NETS["resnet"])
        plan = ["--microbatches=2", "--batch-norm=micro"]
        self.run_ok("opt", model, LOSS, "--eval", *plan, "-o", "once.isth")
        self.run_ok("opt", "once.isth", *plan, "-o", "twice.isth")
        self.assertEqual(self.read("once.isth"), self.read("twice.isth"))

    def test_what_no_part_can_run_is_refused(self):
        """A node that needs the whole batch, and all others follow from it: nothing would be divided."""
        self.write("first.isth", """isthmus 2
graph @first {
  input %x : f32[8, 16]
  param %w : f32[8, 8]
  %h = matmul(%w, %x)
  %g = tanh(%h)
  %l = mean(%g)
  loss %l
  output %l
}
""")
        r = command.run("opt", "first.isth", "--microbatches=2", "-o", "parts.isth", cwd=self.dir)
        self.assertEqual(r.code, 1, r.err)
        self.assertIn("the step cannot run in 2 micro-batches", r.err)

    def test_parts_that_take_more_are_told(self):
        model = self.net("resnet.isth", *self.NETS["resnet"])
        r = self.report("opt", model, LOSS, "--microbatches=8", "-o", "parts.isth")
        told = self.run_ok("opt", model, LOSS, "--microbatches=8", "-o", "parts.isth").err
        more = r["predicted_peak_bytes"] > r["baseline_peak_bytes"]
        self.assertEqual("8 micro-batches take more than the whole" in told, more, told)

    def test_save_memory(self):
        model = self.net("unet.isth", *self.NETS["unet"])
        whole = self.opt(model, LOSS, "--policy=none")
        for number, share in (2, 0.65), (4, 0.45):
            parts = self.opt(model, LOSS, f"--microbatches={number}")
            self.assertLess(parts["predicted_peak_bytes"], share * whole["predicted_peak_bytes"])
            self.assertEqual(parts["baseline_peak_bytes"], whole["baseline_peak_bytes"])
        chosen = self.opt(model, LOSS, "--budget=40%", CHUNK)
        self.assertGreater(chosen["chunks"], 0)

    def test_beside_all_other_ways(self):
        """A chunk may be encoded, inverted, or recomputed; the file then still says what its nodes stand for."""
        model = self.net("unet.isth", *self.NETS["unet"])
        for ways in "encode", "invert,encode", "fetch,encode", "invert,fetch,encode":
            with self.subTest(ways):
                r = self.opt(model, "--loss=mse", "--budget=45%", f"--allow=recompute,chunk,{ways}", "--microbatches=2")
                self.assertGreater(r["chunks"], 0)
                self.assertGreater(r["encodings"], 0)
                self.run_ok("verify", model, "small.isth", "--loss=mse")


if __name__ == "__main__":
    unittest.main()
