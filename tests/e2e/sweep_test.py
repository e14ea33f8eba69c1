"""Tests `isthmus sweep`: its rows have the numbers that opt and run give for each model, and its pictures show them."""

import csv
import html.parser
import io
import json
import os
import pty
import subprocess
import unittest
import xml.etree.ElementTree
import zipfile

import command
import onnx_file
from cli_cases import Case
from onnx_file import node, tensor, value_info

COLUMNS = ["policy", "baseline_peak_bytes", "predicted_peak_bytes", "measured_peak_bytes", "recompute_overhead", "step_seconds"]
FLOW = ["zoo:glow", "--width=8", "--levels=1", "--shape=1x8x8"]
CNN = ["zoo:cnn", "--width=8", "--shape=3x16x16", "--loss=cross_entropy"]
RESNET = ["zoo:resnet", "--depth=14", "--shape=3x8x8", "--width=8", "--classes=10", "--loss=cross_entropy"]
QUICK = "--effort=0.1"
# The progress of a sweep with --run after at least three steps.
RUNNING = r"^running: ([3-9]|\d\d+) of "
SVG = "{http://www.w3.org/2000/svg}"
MODES = {
    "linear": ["--policy=none"],
    "sqrt": ["--policy=memory"],
    "constant": ["--budget=min", "--allow=recompute,invert"],
    "70%": ["--budget=70%"],
    "speed": ["--policy=speed"],
}


class SweepCase(Case):
    def sweep(self, *args, code=0, **kwargs):
        """Returns the rows by column, and the text on stderr."""
        result = command.run("sweep", *args, cwd=self.dir, **kwargs)
        self.assertEqual(result.code, code, f"isthmus sweep {' '.join(args)}\n{result}")
        return list(csv.DictReader(io.StringIO(result.out.decode(), newline=""))), result.err

    def sweep_error(self, *args, code=2):
        result = command.run("sweep", *args, cwd=self.dir)
        self.assertEqual((result.code, result.out), (code, b""), f"isthmus sweep {' '.join(args)}\n{result}")
        self.assertRegex(result.err, r"^(\S+: )?error: ")
        return result.err

    def made(self, name, *options):
        """Writes a zoo model with the options of a sweep, and returns the file's name."""
        self.run_ok("zoo", name.removeprefix("zoo:"), *options, "-o", "made.isth")
        return "made.isth"

    def check_row(self, row, report):
        """Checks that a row has the numbers of a report."""
        for column in "baseline_peak_bytes", "predicted_peak_bytes", "arena_bytes", "persistent_bytes", "clones", "inversions":
            self.assertEqual(row[column], str(report[column]), column)
        self.assertEqual(float(row["recompute_overhead"]), report["recompute_overhead"])
        self.assertEqual((row["state"], row["problem"], row["policy_used"]), ("planned", "", report["policy_used"]))


class Rows(SweepCase):
    def test_columns(self):
        for axis, args in (("budget", [*RESNET, "--budgets=90%"]), ("batch", [*RESNET, "--batch=1,2"]), ("depth", [*CNN, "--depth=2"]),
                           ("depth", [*CNN, "--depth=2", "--batch=3"])):
            result = self.run_ok("sweep", *args, QUICK)
            lines = result.out.decode().splitlines()
            self.assertEqual(lines[0].split(",")[:7], [axis, *COLUMNS])
            self.assertEqual(len(lines), {"budget": 2, "batch": 7, "depth": 4}[axis])
            self.assertEqual({len(line) for line in csv.reader(lines)}, {len(lines[0].split(","))})

    def test_depths_are_what_opt_says(self):
        rows, _ = self.sweep(*FLOW, "--batch=32", "--depth=5,9", "--policies=" + ",".join(MODES), QUICK)
        self.assertEqual([(r["depth"], r["policy"]) for r in rows], [(d, m) for d in "59" for m in MODES])
        for row in rows:
            model = self.made(*FLOW, "--batch=32", f"--depth={row['depth']}")
            self.check_row(row, self.report("opt", model, *MODES[row["policy"]], QUICK))
            self.assertEqual(row["measured_peak_bytes"] + row["step_seconds"], "")
        self.assertGreater(int(rows[2]["inversions"]), 0)

    def test_batches_are_what_opt_says(self):
        rows, said = self.sweep(*CNN[:-1], "--batch=1,8", QUICK)
        self.assertIn("the model has no loss of its own: cross_entropy is taken", said)
        self.assertEqual([(r["batch"], r["policy"]) for r in rows], [(b, m) for b in "18" for m in ("linear", "sqrt", "constant")])
        for row in rows:
            model = self.made(*CNN[:-1], f"--batch={row['batch']}")
            self.check_row(row, self.report("opt", model, "--loss=cross_entropy", *MODES[row["policy"]], QUICK))

    def test_budgets_are_what_opt_says(self):
        """Budgets that cannot be met also have rows, and do not end the sweep."""
        model = self.made(*RESNET[:-1], "--batch=16")
        rows, said = self.sweep(model, RESNET[-1], "--budgets=90%,1kB,60%,min", "--allow=recompute,invert", QUICK)
        self.assertNotIn("error", said)
        self.assertEqual([(r["budget"], r["policy"], r["state"]) for r in rows],
                         [("90%", "budget", "planned"), ("1kB", "budget", "cannot be met"), ("60%", "budget", "planned"),
                          ("min", "budget", "planned")])
        for row in rows:
            args = model, RESNET[-1], f"--budget={row['budget']}", "--allow=recompute,invert", QUICK, "--report=r.json"
            result = command.run("opt", *args, cwd=self.dir)
            report = json.loads(self.read("r.json"))
            if row["budget"] != "1kB":
                self.check_row(row, report)
                continue
            self.assertEqual(result.code, 3)
            self.assertEqual(row["smallest_budget_bytes"], str(report["smallest_budget_bytes"]))
            self.assertEqual(row["baseline_peak_bytes"], str(report["baseline_peak_bytes"]))
            self.assertEqual(row["predicted_peak_bytes"] + row["recompute_overhead"] + row["arena_bytes"], "")
            self.assertIn("cannot be met", row["problem"])
        self.sweep(model, RESNET[-1], "--budgets=0,1kB", QUICK, code=3)

    def test_run(self):
        for device in "cpu", "counting":
            rows, _ = self.sweep(*FLOW, "--batch=4", "--depth=2,3", "--run", "--steps=3", QUICK, f"--device={device}")
            self.assertEqual(len(rows), 6)
            for row in rows:
                self.assertEqual(row["measured_peak_bytes"], row["predicted_peak_bytes"])
                if device == "cpu":
                    self.assertGreater(float(row["step_seconds"]), 0)
                else:
                    self.assertEqual(row["step_seconds"], "", "nothing is computed, so there is no time to tell")

    @unittest.skipIf(command.IS_SANITIZED, "NOT RUN: address space is no measure of memory under AddressSanitizer")
    def test_a_run_that_fails(self):
        """A model is too large for the machine: its row keeps the plan and the reason, the others run, and the exit
        code is 5."""
        rows, said = self.sweep("zoo:cnn", "--loss=cross_entropy", "--batch=8,8192,16", "--policies=linear", "--run", "--steps=2",
                                "--threads=1", "--device=cpu", code=5, memory_limit=2000)
        self.assertEqual([r["state"] for r in rows], ["planned", "failed", "planned"])
        self.assertEqual([r["predicted_peak_bytes"] for r in rows if r["predicted_peak_bytes"] == r["measured_peak_bytes"]],
                         [rows[0]["predicted_peak_bytes"], rows[2]["predicted_peak_bytes"]])
        self.assertGreater(int(rows[1]["predicted_peak_bytes"]), 2 << 30)
        self.assertEqual(rows[1]["measured_peak_bytes"] + rows[1]["step_seconds"], "")
        self.assertIn("out of memory", rows[1]["problem"])
        self.assertIn("error: batch 8192, linear: cpu:0: out of memory", said)

    def test_updates(self):
        """With an optimizer, the step is that of `train`."""
        model = self.made(*FLOW, "--batch=4", "--depth=3")
        values = [(7 * i) % 17 for i in range(4 * 64)]
        self.write("x.npy", command.npy("f32", (4, 1, 8, 8), values))
        with zipfile.ZipFile(self.path("d.npz"), "w") as archive:
            archive.write(self.path("x.npy"), "x_train.npy")
        rows, _ = self.sweep(*FLOW, "--batch=4", "--depth=3", "--optimizer=adam", "--policies=linear,sqrt", "--run", "--steps=1")
        for row in rows:
            report = self.report("train", model, "--data=d.npz", "--optimizer=adam", f"--memory={row['policy']}", "--steps=1")
            self.check_row(row, report)
            self.assertEqual(row["measured_peak_bytes"], str(report["measured_peak_bytes"]))

    def test_one_plan_option_is_one_line(self):
        for option, name in ("--policy=speed", "speed"), ("--budget=60%", "60%"), ("--checkpoints=relu*", "checkpoints"), \
                ("--memory-limit=1GiB", "memory-limit"):
            rows, _ = self.sweep(*RESNET, "--batch=8,16", option, QUICK)
            self.assertEqual([r["policy"] for r in rows], [name, name])

    def test_fixed_size_beside_the_axis(self):
        rows, _ = self.sweep(*CNN, "--depth=1:3", "--batch=5", "--policies=linear")
        for row in rows:
            report = self.report("opt", self.made(*CNN[:-1], f"--depth={row['depth']}", "--batch=5"), CNN[-1])
            self.assertEqual(row["predicted_peak_bytes"], str(report["predicted_peak_bytes"]))

    def test_notes_are_told_once(self):
        _, said = self.sweep("zoo:mlp", "--width=16", "--depth=3:9", "--policies=sqrt")
        self.assertEqual(said.count("would save no memory"), 1, said)


class Files(SweepCase):
    def onnx(self, first):
        return self.write("m.onnx", onnx_file.model(
            [node("MatMul", ["x", "w"], ["h"]), node("Tanh", ["h"], ["t"]), node("MatMul", ["t", "v"], ["y"])],
            [value_info("x", [first, 6])], [value_info("y", [first, 3])],
            [tensor("w", [6, 40], [0.1 * (i % 7) for i in range(240)]), tensor("v", [40, 3], [0.1 * (i % 5) for i in range(120)])]))

    def test_open_first_size(self):
        for first, dim in ("N", "N"), ("?", "x.0"):
            model = self.onnx(first)
            rows, _ = self.sweep(model, "--loss=mean", "--batch=2,64", "--policies=linear")
            for row in rows:
                report = self.report("opt", model, "--loss=mean", "--dim", f"{dim}={row['batch']}")
                self.assertEqual(row["predicted_peak_bytes"], str(report["predicted_peak_bytes"]))
            self.assertGreater(int(rows[1]["predicted_peak_bytes"]), int(rows[0]["predicted_peak_bytes"]))
        self.assertIn("--batch sets 'N', and so does --dim N=4", self.sweep_error(self.onnx("N"), "--batch=2,3", "--dim", "N=4"))

    def test_constant_sizes(self):
        """A model with another batch has the same rows as the model that the zoo builds, also if the first size is
        open."""
        self.run_ok("zoo", "gpt2", "--depth=1", "--width=16", "--heads=2", "--tokens=8", "--vocab=40", "--batch=3", "-o", "g.isth")
        self.run_ok("zoo", "cnn", "--width=8", "--shape=3x16x16", "--batch=3", "-o", "c.onnx")
        for model, zoo in ("g.isth", ["zoo:gpt2", "--depth=1", "--width=16", "--heads=2", "--tokens=8", "--vocab=40"]), ("c.onnx", CNN[:-1]):
            args = "--loss=cross_entropy", "--batch=2,5", "--policies=linear,sqrt"
            got, want = self.sweep(model, *args)[0], self.sweep(*zoo, *args)[0]
            for row in [*got, *want]:
                del row["plan_seconds"]
            self.assertEqual(got, want)
        got, want = (self.sweep(self.onnx(first), "--loss=mean", "--batch=7", "--policies=linear")[0][0] for first in (4, "N"))
        self.assertEqual(got["predicted_peak_bytes"], want["predicted_peak_bytes"])

    def test_sizes_that_cannot_be(self):
        model = self.write("m.isth", "isthmus 2\ngraph @g {\n  input %x : f32[4, 3]\n  param %p : f32[4, 3]\n  %y = add(%x, %p)\n"
                                     "  output %y\n}\n")
        result = command.run("sweep", model, "--loss=mean", "--batch=4,8", "--policies=linear", cwd=self.dir)
        self.assertEqual(result.code, 1, result)
        self.assertIn("m.isth:5", result.err)
        self.assertIn("is of 4 examples, and was to be one of 8", result.err)
        self.assertEqual(result.out.count(b"\n"), 2, "the row that could be is there")
        self.run_ok("grad", model, "--loss=mean", "-o", "grad.isth")
        self.assertIn("the forward graph that they were made of", self.sweep_error("grad.isth", "--batch=8,16", code=1))
        self.assertIn("whose depth is fixed", self.sweep_error(self.mlp(), "--loss=mean", "--depth=2,3"))

    def test_standard_input(self):
        rows, _ = self.sweep("-", "--loss=mean", "--budgets=99%,min", QUICK, stdin=self.read(self.mlp()))
        self.assertEqual(len(rows), 2)

    def test_products(self):
        """One sweep writes all products. If one cannot be written, existing files of the others stay as they were."""
        result = self.run_ok("sweep", *CNN, "--batch=2,4", "--policies=linear", "-o", "a.csv", "-o", "b.svg", "-o", "c.html")
        self.assertEqual(result.out, b"")
        self.assertIn("batch  policy", result.err)
        self.assertEqual(sorted(os.listdir(self.dir)), ["a.csv", "b.svg", "c.html"])
        before = self.files()
        self.assertIn("one file", self.sweep_error(*CNN, "--batch=2,4", "-o", "a.csv", "-o", "a.csv"))
        self.sweep_error(*CNN, "--batch=2,4", "-o", "a.csv", "-o", "none/b.svg", code=1)
        self.assertIn(".csv, .svg or .html", self.sweep_error(*CNN, "--batch=2,4", "-o", "a.png"))
        self.assertEqual(self.files(), before)
        result = self.run_ok("sweep", *CNN, "--batch=2", "--policies=linear", "-o", "-")
        self.assertTrue(result.out.startswith(b"batch,policy,"))

    def test_table_on_a_terminal(self):
        """CSV goes to standard output only if that is no terminal."""
        primary, secondary = pty.openpty()
        process = subprocess.Popen([command.BINARY, "sweep", *CNN, "--batch=2,400", "--policies=linear,sqrt"], stdout=secondary,
                                   stderr=subprocess.DEVNULL, cwd=self.dir)
        os.close(secondary)
        text = b""
        try:
            while block := os.read(primary, 65536):
                text += block
        except OSError:  # all other ends are closed
            pass
        os.close(primary)
        self.assertEqual(process.wait(), 0)
        lines = text.decode().replace("\r", "").splitlines()
        self.assertEqual(lines[0].split()[:3], ["batch", "policy", "peak"])
        self.assertEqual([line.split()[:2] for line in lines[1:]], [["2", "linear"], ["2", "sqrt"], ["400", "linear"], ["400", "sqrt"]])
        end = lines[0].index("peak") + len("peak")
        self.assertEqual({line[end - 2:end] for line in lines[1:]} <= {"iB"}, True, "units stand below each other\n" + text.decode())


class Errors(SweepCase):
    def test_what_was_typed(self):
        for args, words in (
            (CNN, "--budgets=90%,70%,50%, --batch=1,2,4 or --depth=8,16,32"),
            ([*CNN, "--depth=1,2", "--batch=1,2"], "one axis"),
            ([*CNN, "--budgets=90%", "--batch=1,2"], "two axes"),
            ([*CNN, "--depth"], "without any it goes with --fit"),
            ([*CNN, "--depth="], "--depth: expected a value"),
            ([*CNN, "--depth=-1"], "whole numbers from 1 on"),
            ([*CNN, "--batch=0,1"], "whole numbers from 1 on"),
            ([*CNN, "--batch=99999999999999999999"], "whole numbers from 1 on"),
            ([*CNN, "--batch=1,99999999"], "from 1 to 1048576, got '99999999'"),
            ([*CNN, "--depth=1,21"], "--depth expects a whole number from 1 to 20"),
            ([*CNN, "--batch=1:100000"], "1000 values at most"),
            ([*CNN, "--batch=2,2"], "each value once"),
            ([*CNN, "--budgets=-5"], "got '-5'"),
            ([*CNN, "--budgets="], "--budgets"),
            ([*CNN, "--budgets=90%", "--policy=speed"], "have no meaning beside it"),
            ([*CNN, "--budgets=90%", "--policies=linear"], "have no meaning beside it"),
            ([*CNN, "--batch=1,2", "--policies=liner"], "did you mean 'linear'"),
            ([*CNN, "--batch=1,2", "--policies=linear,linear"], "twice"),
            ([*CNN, "--batch=1,2", "--policies=linear", "--policy=none"], "give one of them"),
            ([*CNN, "--batch=1,2", "--policies=linear", "--allow=recompute"], "none of the sweep's lines has a budget"),
            ([*CNN, "--batch=1,2", "--policies=70%", "--max-inverse-error=1"], "--max-inverse-error"),
            ([*CNN, "--batch=1,2", "--policies=constant", "--host-memory=1GB"], "--host-memory"),
            ([*CNN, "--batch=1,2", "--steps=3"], "give --run with it"),
            ([*CNN, "--batch=1,2", "--dim", "N=3"], "are for models in files"),
            ([*CNN, "--batch=1,2", "--optimizer=adan"], "did you mean 'adam'"),
            ([*CNN, "--batch=1,2", "--heads=3"], "cnn has no option --heads"),
            (["zoo:vgg16", "--depth=1,2"], "vgg16 has no option --depth"),
            ([*CNN, "--fit=1GiB"], "--batch or --depth beside it"),
            ([*CNN, "--fit=1GiB", "--batch", "--run"], "runs nothing"),
            ([*CNN, "--fit=1GiB", "--batch", "--budgets=50%"], "another axis"),
            ([*CNN, "--fit=1GiB", "--batch", "--depth"], "one axis"),
            ([*CNN, "--fit=1GiB", "--batch=2", "--depth=2"], "one axis"),
            ([*CNN, "--fit=1GiB", "--batch", "--memory-limit=1GiB"], "give one of them"),
            ([*CNN, "--fit=50%", "--batch"], "expects a size"),
            ([*CNN, "--fit=-1", "--batch"], "expects a size"),
        ):
            self.assertIn(words, self.sweep_error(*args), args)
        self.assertIn("the zoo has no model 'glw'", self.sweep_error("zoo:glw", "--depth=1,2", code=1))
        self.assertIn("did you mean 'glow'", self.sweep_error("zoo:glw", "--depth=1,2", code=1))
        self.assertIn("none.onnx", self.sweep_error("none.onnx", "--batch=1,2", code=1))
        model = self.mlp()
        self.assertIn("--width makes a model of the zoo", self.sweep_error(model, "--loss=mean", "--budgets=50%", "--width=3"))

    def interrupted(self, progress, *args):
        """Returns the rows in o.csv, and the text on stderr, of a sweep that is interrupted at this line of its
        progress."""
        result = self.interrupted_at(progress, "sweep", *args, "-o", "o.csv")
        self.assertEqual(result.code, 130, result)
        if not os.path.exists(self.path("o.csv")):
            return None, result.err
        return list(csv.DictReader(io.StringIO(self.read("o.csv").decode(), newline=""))), result.err

    def test_interrupted_while_planning(self):
        """Complete rows are written; a search that did not end has no row."""
        rows, said = self.interrupted("min.*: planning: ", *CNN, "--batch=4", "--policies=linear,sqrt,min", "--effort=100000")
        self.assertEqual([r["policy"] for r in rows], ["linear", "sqrt"])
        self.assertIn("interrupted: 2 rows were done", said)
        want, _ = self.sweep(*CNN, "--batch=4", "--policies=linear,sqrt")
        for row in [*rows, *want]:
            del row["plan_seconds"]
        self.assertEqual(rows, want)
        os.remove(self.path("o.csv"))
        rows, said = self.interrupted("min.*: planning: ", *CNN, "--batch=4", "--policies=min", "--effort=100000")
        self.assertIsNone(rows)
        self.assertIn("before the first row", said)

    def test_interrupted_while_running(self):
        """Steps that were measured before the interrupt are reported."""
        rows, _ = self.interrupted(RUNNING, *CNN, "--batch=4,8", "--policies=linear,sqrt", "--run", "--steps=1000000")
        self.assertEqual([(r["batch"], r["policy"]) for r in rows], [("4", "linear"), ("4", "sqrt")])
        for row in rows:
            self.assertEqual(row["measured_peak_bytes"], row["predicted_peak_bytes"])
            self.assertGreater(float(row["step_seconds"]), 0)

    def test_budgets_take_turns(self):
        """All rows have run steps long before the first row has run its last."""
        rows, _ = self.interrupted(RUNNING, *RESNET, "--batch=8", "--budgets=90%,1kB,70%", QUICK, "--run", "--steps=1000000")
        self.assertEqual([(r["budget"], r["step_seconds"] != "") for r in rows], [("90%", True), ("1kB", False), ("70%", True)])

    def test_interrupted_fit(self):
        rows, said = self.interrupted("min.*: planning: ", *CNN, "--fit=20MiB", "--batch", "--policies=linear,min", "--effort=100000")
        self.assertEqual({r["policy"] for r in rows}, {"linear"})
        self.assertRegex(said, r"linear: batch \d+ fits, .*; \d+ takes")


class Fit(SweepCase):
    LIMIT = 20 << 20

    def answers(self, axis, rows):
        """Returns the largest value that fits and the smallest that does not, by policy."""
        found = {}
        for row in rows:
            total = int(row["arena_bytes"]) + int(row["persistent_bytes"])
            self.assertEqual(row["fits"], "yes" if total <= self.LIMIT else "no")
            fits, beyond = found.get(row["policy"], (0, 1 << 60))
            n = int(row[axis])
            found[row["policy"]] = (max(fits, n), beyond) if row["fits"] == "yes" else (fits, min(beyond, n))
        return found

    def opt_fits(self, policy, model, loss):
        """Returns whether opt, which only counts here, plans the model within the limit."""
        args = "opt", model, *loss, *MODES[policy], QUICK, "--device=counting", "--report=r.json"
        if policy != "constant":
            result = command.run(*args, f"--memory-limit={self.LIMIT}", cwd=self.dir)
            self.assertIn(result.code, (0, 3), result)
            return result.code == 0
        self.run_ok(*args)
        report = json.loads(self.read("r.json"))
        return report["arena_bytes"] + report["persistent_bytes"] <= self.LIMIT

    def test_largest_batch(self):
        rows, said = self.sweep(*CNN, f"--fit={self.LIMIT}", "--batch", QUICK)
        found = self.answers("batch", rows)
        self.assertEqual(list(found), ["linear", "sqrt", "constant"])
        for policy, (most, beyond) in found.items():
            self.assertEqual(beyond, most + 1)
            self.assertIn(f"{policy}: batch {most} fits", said)
            for batch, fits in (most, True), (beyond, False):
                model = self.made(*CNN[:-1], f"--batch={batch}")
                self.assertEqual(self.opt_fits(policy, model, [CNN[-1]]), fits, f"{policy}, batch {batch}")
        self.assertLess(found["linear"][0], found["constant"][0])
        self.assertLess(len(rows), 3 * 30)

    def test_deepest_network(self):
        self.LIMIT = 2 << 20
        rows, said = self.sweep(*FLOW, "--batch=8", f"--fit={self.LIMIT}", "--depth=1:120", "--policies=linear,constant", QUICK)
        found = self.answers("depth", rows)
        most, beyond = found["linear"]
        self.assertEqual(beyond, most + 1)
        for depth, fits in (most, True), (beyond, False):
            self.assertEqual(self.opt_fits("linear", self.made(*FLOW, "--batch=8", f"--depth={depth}"), []), fits)
        self.assertGreater(found["constant"][0], most)

    def test_stated_steps(self):
        """For a list of depths, the result is the last that fits and the next one. Without a list, the family's depths
        are tried."""
        self.LIMIT = 40 << 20
        args = ["zoo:resnet", "--batch=16", "--shape=3x32x32", "--loss=cross_entropy", f"--fit={self.LIMIT}", "--policies=linear"]
        most, beyond = self.answers("depth", self.sweep(*args, "--depth=20:200:6")[0])["linear"]
        self.assertEqual(((most - 20) % 6, beyond), (0, most + 6))
        self.assertEqual(self.answers("depth", self.sweep(*args, "--depth")[0])["linear"], (most, beyond))

    def test_nothing_fits(self):
        rows, said = self.sweep(*CNN, "--fit=10kB", "--batch", QUICK, code=3)
        self.assertEqual({(r["batch"], r["fits"]) for r in rows}, {("1", "no")})
        self.assertIn("constant: none that was tried fits; 1 takes", said)

    def test_everything_fits(self):
        rows, said = self.sweep(*CNN, "--fit=1TiB", "--batch=1,2,3", "--policies=linear")
        self.assertIn("no larger one was tried", said)
        self.assertEqual({r["fits"] for r in rows}, {"yes"})


class Page(html.parser.HTMLParser):
    """Collects the cells of the table, the tags, and every attribute that could load something."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.cells, self.depth = set(), [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.links += [v for k, v in attrs if k in ("src", "href", "xlink:href", "data", "action", "style")]
        if tag in ("td", "th"):
            self.cells.append("")
        self.depth.append(tag)

    def handle_data(self, data):
        if self.cells and self.depth and self.depth[-1] in ("td", "th"):
            self.cells[-1] += data

    def handle_endtag(self, tag):
        while self.depth and self.depth.pop() != tag:
            pass


class Pictures(SweepCase):
    def picture(self, *args):
        self.run_ok("sweep", *args, "-o", "p.svg", "-o", "p.html", "-o", "p.csv")
        rows = list(csv.DictReader(io.StringIO(self.read("p.csv").decode(), newline="")))
        return xml.etree.ElementTree.fromstring(self.read("p.svg")), rows

    def tips(self, svg):
        return [t.text for t in svg.iter(SVG + "title")]

    def test_every_row_is_drawn(self):
        """Both panels show all rows; a row without a plan is a cross. The page contains the same picture."""
        for args in ([*FLOW, "--depth=2,4,8,16", "--batch=4", "--run", "--steps=1"], [*CNN, "--batch=3"],
                     [*CNN, "--batch=4", "--budgets=90%,1%,min"], [*CNN, "--batch=1:60", "--policies=linear,sqrt"],
                     [*CNN, "--batch", "--fit=10MB", "--policies=linear,sqrt"]):
            svg, rows = self.picture(*args, QUICK)
            tips = self.tips(svg)
            self.assertEqual(len(tips), 2 * len(rows))
            axis = next(iter(rows[0]))
            for row in rows:
                row_tips = [t for t in tips if t.startswith(f"{row['policy']}, {axis} {row[axis]}\n")]
                self.assertEqual(len(row_tips), 2, row)
                self.assertIn("cannot be met" if row["state"] == "cannot be met" else "added cost", row_tips[0])
            text = "\n".join(t.text or "" for t in svg.iter(SVG + "text"))
            for word in args[0], axis, args[1]:
                self.assertIn(word, text)
            if "--run" in args:
                self.assertIn("Step time, measured", text)
            for policy in {r["policy"] for r in rows} if len({r["policy"] for r in rows}) > 1 else ():
                self.assertIn(policy, text)
            numbers = [float(n) for e in svg.iter(SVG + "polyline") for p in e.get("points").split() for n in p.split(",")]
            self.assertTrue(all(0 <= n <= 1060 for n in numbers))

            page = Page(self.read("p.html").decode())
            self.assertEqual((page.links, page.tags & {"script", "link", "img", "iframe", "object", "image"}), ([], set()))
            width = page.cells.index(rows[0][axis])
            self.assertEqual(len(page.cells), width * (len(rows) + 1))
            self.assertEqual(page.cells[width::width], [r[axis] for r in rows])

    def test_names_are_escaped(self):
        name = 'a<b>&"c\'.isth'
        os.rename(self.path(self.mlp()), self.path(name))
        svg, _ = self.picture(name, "--loss=mean", "--budgets=99%", QUICK)
        self.assertIn(name, "".join(t.text or "" for t in svg.iter(SVG + "text")))
        self.assertIn("a&lt;b&gt;&amp;&quot;c", self.read("p.html").decode())
        self.assertNotIn("<b>", self.read("p.html").decode())

    def test_lines_join_what_was_found(self):
        """Memory rises with the batch, and so do the lines: their coordinates fall, as they count down the page."""
        svg, rows = self.picture(*CNN, "--batch=2:32:2", "--policies=linear")
        memory, cost = ([tuple(map(float, p.split(","))) for p in e.get("points").split()] for e in svg.iter(SVG + "polyline"))
        self.assertEqual(len(memory), len(rows))
        self.assertEqual(memory, sorted(memory, key=lambda p: (p[0], -p[1])))
        peaks = [int(r["predicted_peak_bytes"]) for r in rows]
        a, b, c = 0, len(rows) // 2, len(rows) - 1  # on a linear scale heights are proportional
        self.assertAlmostEqual((memory[a][1] - memory[b][1]) / (memory[a][1] - memory[c][1]),
                               (peaks[b] - peaks[a]) / (peaks[c] - peaks[a]), delta=0.01)
        self.assertEqual(len({y for _, y in cost}), 1)


if __name__ == "__main__":
    command.main()
