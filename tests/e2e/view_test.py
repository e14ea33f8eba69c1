"""Tests the file that `view` writes, without a browser: its figures are those of `opt`, and it is one file of markup that
no name gets into. view_chromium_test.py looks at it in a browser."""

import json
import os
import pty
import re
import unittest

import command
from cli_cases import ZOO, Case
from page_data import PageData, graph_of_names

QUICK = ["--effort=0.05"]
GPT2 = ["gpt2", "--depth=2", "--width=32", "--heads=4", "--batch=8", "--tokens=16", "--vocab=100"]
STAGED = ["--loss=cross_entropy", "--threads=1", "--microbatches=4"]


class View(Case):
    def page(self, *args):
        self.run_ok("view", *args, "-o", "page.html")
        page = self.read("page.html")
        self.check_markup(page)
        return PageData(page)

    def check_markup(self, page):
        """One file: nothing refers to another, and the browser is told to refuse requests."""
        text = page.decode("utf-8")
        self.assertIn("default-src 'none'", text)
        code = re.sub(r'<script type="text/plain" id="data">[^<]*</script>', "", text)
        self.assertEqual(re.findall(r"(?:https?:)?//[a-z]+\.[a-z]+", code), [])
        self.assertEqual(re.findall(r"\b(?:src|href)=\"(?!data:)", code), [])
        self.assertNotIn("{{", re.sub(r"\$\{", "", code))

    def test_the_figures_are_those_of_opt(self):
        for model in "mlp", "unet", "resnet":
            file, loss = self.zoo(model)
            for plan in ["--policy=memory"], ["--budget=min", *QUICK], ["--budget=min", "--allow=recompute,chunk", *QUICK], []:
                with self.subTest(model, plan=plan):
                    report = self.report("opt", file, *loss, *plan)
                    data = self.page(file, *loss, *plan)
                    self.check(data, report)
                    explained = json.loads(self.run_ok("explain", file, *loss, *plan, "--json").out)
                    self.check_peak(data, explained["planned"])
                    self.check_curve(data, explained)

    def check(self, data, report):
        figures = dict(data.head["figures"])
        self.assertNotIn("plan_seconds", figures, "the same plan gives the same page")
        figures.pop("knee")  # `opt` does not look for it
        self.assertEqual(figures, {k: report[k] for k in figures})
        step = data.head["steps"][0]
        live = [sum(at) for at in zip(*data.live_by_kind().values())]
        self.assertEqual(len(live), step["nodes"])
        self.assertEqual(max(live), report["predicted_peak_bytes"])
        self.assertEqual(live.index(max(live)), step["peak_node"])
        self.assertEqual(step["arena_bytes"], report["arena_bytes"])
        if report["clones"]:
            self.assertEqual([s["name"] for s in data.head["steps"][1:]], ["without a plan"])
        if len(data.head["steps"]) > 1:
            before = [sum(at) for at in zip(*data.live_by_kind("b.").values())]
            self.assertEqual(max(before), report["baseline_peak_bytes"])

    def check_curve(self, data, explained):
        """Points from the highest peak down, with the plan and the knee that `explain` tells."""
        points = data.head["curve"]
        self.assertEqual(points[0], {"peak_bytes": data.head["figures"]["baseline_peak_bytes"], "added": 0, "what": "no plan"})
        self.assertEqual(sorted((p["peak_bytes"] for p in points), reverse=True), [p["peak_bytes"] for p in points])
        figures, by_what = data.head["figures"], {p["what"]: p for p in points}
        if figures["predicted_peak_bytes"] < figures["baseline_peak_bytes"]:
            self.assertEqual(by_what["this plan"]["peak_bytes"], figures["predicted_peak_bytes"])
            self.assertEqual(by_what["this plan"]["added"], figures["recompute_overhead"])
        self.assertEqual(data.head["knee"], explained["price"]["knee"])
        if data.head["knee"]:
            self.assertEqual(by_what["the knee"]["peak_bytes"], data.head["knee"]["peak_bytes"])

    def check_peak(self, data, explained):
        """The blocks at the peak are the tensors that `explain` lists."""
        at = data.head["steps"][0]["peak_node"]
        self.assertEqual(at, explained["node_index"])
        live = {kind: of[at] for kind, of in data.live_by_kind().items() if of[at]}
        self.assertEqual(sorted(live.values()), sorted(b for b in explained["bytes_by_kind"].values() if b))
        begin, length, value, size = (data.column("a.block." + c) for c in ("begin", "length", "value", "bytes"))
        names = data.names()
        here = sorted((s, names[v - 1].decode() if v else None) for b, n, v, s in zip(begin, length, value, size) if b <= at < b + n)
        self.assertEqual(sum(s for s, _ in here), explained["peak_bytes"])
        for t in explained["tensors"]:
            self.assertIn((t["bytes"], t["name"]), here)

    def test_blocks_lie_in_the_arena_and_never_overlap(self):
        file, loss = self.zoo("unet")
        data = self.page(file, *loss, "--budget=min", *QUICK)
        columns = [data.column("a.block." + c) for c in ("offset", "bytes", "begin", "length")]
        blocks = [(o - 1, o - 1 + s, b, b + n) for o, s, b, n in zip(*columns)]
        self.assertGreater(len(blocks), 100)
        self.assertEqual(max(end for _, end, _, _ in blocks), data.head["steps"][0]["arena_bytes"])
        for i, a in enumerate(blocks):
            self.assertGreaterEqual(a[0], 0)
            for b in blocks[:i]:
                self.assertTrue(a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2], (a, b))

    def test_several_devices(self):
        """A step for each device, with the report's figures; its bars take up the time in which it computes."""
        self.run_ok("zoo", *GPT2, "-o", "gpt2.isth")
        two = "--stages=2"
        for options in [two, "--checkpoint=always", "--schedule=1f1b"], [two, "--budget=70%", "--effort=0.3"], ["--stages=4", "--devices=cpu:0,cpu:1"]:
            with self.subTest(options):
                plan = ["gpt2.isth", *STAGED, *options]
                report = self.report("opt", *plan, "-o", "pipeline.isth")
                data = self.page(*plan)
                self.assertEqual(data.head["figures"], {k: report[k] for k in data.head["figures"]})
                self.check_devices(data, report)
                # The file of the plan gives the same page, but for what only the search knows.
                again = self.page("pipeline.isth", "--threads=1")
                self.check_devices(again, report)
        result = command.run("view", "pipeline.isth", "gpt2.isth", "-o", "both.html", cwd=self.dir)
        self.assertEqual(result.code, 2, result)
        self.assertIn("leave out 'gpt2.isth'", result.err)

    def check_devices(self, data, report):
        self.assertEqual([s["name"] for s in data.head["steps"]], [s["device"] for s in report["stages"]])
        self.assertAlmostEqual(data.head["step_ns"], 1e9 * report["predicted_step_seconds"], delta=1)
        batches = set()
        for step, stage in zip(data.head["steps"], report["stages"]):
            prefix, column = step["prefix"], lambda name: data.column(step["prefix"] + name)
            self.assertEqual(step["nodes"], stage["nodes"])
            by_kind = data.live_by_kind(prefix)
            self.assertEqual(max(map(sum, zip(*by_kind.values()))), stage["predicted_peak_bytes"])
            self.assertEqual(step["arena_bytes"], stage["arena_bytes"])
            self.assertLessEqual(step["arena_bytes"], step["budget_bytes"] or 2**60)
            self.assertIn("received", by_kind)
            self.assertNotIn("chunks", by_kind)
            begin, end = column("node.begin"), column("node.end")
            self.assertEqual(begin, sorted(begin))
            bars = [(begin[f], end[f + n - 1]) for f, n in zip(column("bar.first"), column("bar.count"))]
            for (_, before), (after, _) in zip(bars, bars[1:]):
                self.assertLessEqual(before, after)
            self.assertAlmostEqual(sum(e - b for b, e in bars) / 1e9, stage["busy_seconds"], delta=1e-9 * len(bars))
            self.assertAlmostEqual(bars[0][0] / 1e9, stage["wait_before_seconds"], delta=1e-9)
            # Nodes of a bar are of its micro-batch, but for those that take no time.
            batch_of = column("node.batch")
            for first, count, batch in zip(column("bar.first"), column("bar.count"), column("bar.batch")):
                self.assertEqual({batch_of[n] for n in range(first, first + count) if end[n] > begin[n]}, {batch})
                batches.add(batch)
        self.assertLessEqual({1, 2, 3, 4}, batches)
        self.assertEqual(len(data.column("message.from")), report["messages"])
        for a, b, begin, end in zip(*(data.column("message." + c) for c in ("from", "to", "begin", "end"))):
            self.assertNotEqual(a, b)
            self.assertLess(begin, end)
            self.assertLessEqual(end, data.head["step_ns"])

    def test_more_budgets(self):
        """The curve has plans for other budgets, none of them beaten by another plan."""
        self.run_ok("zoo", "unet", "--batch=4", "--shape=1x64x64", "--width=4", "--depth=3", "-o", "unet.isth")
        points = self.page("unet.isth", "--loss=cross_entropy", "--budget=80%", "--effort=0.2").head["curve"]
        others = [p for p in points if not p["what"]]
        self.assertGreaterEqual(len(others), 2)
        for p in others:
            self.assertFalse([q for q in points if q is not p and q["peak_bytes"] <= p["peak_bytes"] and q["added"] <= p["added"]], p)

    def test_two_models(self):
        file, loss = self.zoo("unet")
        self.run_ok("opt", file, *loss, "--checkpoints=*relu2", "-o", "small.isth")
        data = self.page("small.isth", file, *loss)
        a, b = data.head["steps"]
        self.assertEqual((a["name"], b["name"]), ("small.isth", file))
        self.assertGreater(a["nodes"], b["nodes"])
        self.assertEqual(b["figures"]["predicted_peak_bytes"], data.head["figures"]["baseline_peak_bytes"])
        places = list(zip(data.column("same.a"), data.column("same.b")))
        self.assertEqual(len(places), len(set(places)))
        names, others = data.names("a."), data.names("b.")
        results, others_results = data.column("a.node.result"), data.column("b.node.result")
        self.assertGreater(len(places), b["nodes"] // 2)
        for i, (x, y) in enumerate(places):
            self.assertEqual(names[results[x]], others[others_results[y]])
            self.assertTrue(i == 0 or (places[i - 1][0] < x and places[i - 1][1] < y))

    def test_every_kind_of_model(self):
        for name in sorted(ZOO):
            file, loss = self.zoo(name)
            with self.subTest(name):
                self.assertGreater(self.page(file, *loss).head["steps"][0]["nodes"], 0)
        file, _ = self.zoo("cnn")
        forward = self.page(file)
        self.assertNotIn("decisions", forward.head)
        stdin = self.run_ok("view", "-", stdin=self.read(file)).out
        self.assertEqual(PageData(stdin).head["model"], "-")

    def test_names_stay_in_the_data(self):
        evil = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "{{data}}", "\u202egnp.exe", "a\x1b[31mb\n",
                '"&amp;\\', "\u05e9\u05dc\u05d5\u05dd"]
        self.write("evil.isth", graph_of_names(evil))
        os.rename(self.path("evil.isth"), self.path("<b>evil.isth"))
        data = self.page("<b>evil.isth", "--loss=mean", "--policy=none")
        page = self.read("page.html").decode()
        self.assertNotIn("alert(1)", page)
        self.assertIn("<title>&lt;b&gt;evil.isth</title>", page)
        self.assertLessEqual({name.encode() for name in evil}, set(data.names()))

    def test_files(self):
        file, loss = self.zoo("mlp")
        wrong = [
            ([file, "-o", "page.txt"], 2),
            ([file, "-o", file], 2),
            (["none.isth", "-o", "page.html"], 1),
            ([file, "none.isth", "-o", "page.html"], 1),
            ([file, *loss, "--budget=1", *QUICK, "-o", "page.html"], 3),
            ([file, *loss, "--budget=1MiB", "--policy=none"], 2),
        ]
        for args, code in wrong:
            with self.subTest(args):
                result = command.run("view", *args, cwd=self.dir)
                self.assertEqual(result.code, code, result)
                self.assertEqual(result.out, b"")
                self.assertNotIn("page.html", self.files())
        self.write("page.html", "old")
        self.run_ok("view", file, *loss, "-o", "page.html")
        self.assertTrue(self.read("page.html").startswith(b"<!DOCTYPE html>"))
        self.assertEqual(self.run_ok("view", file, *loss).out, self.read("page.html"))
        self.assertEqual(self.run_ok("view", file, *loss, "-o", "-").out, self.read("page.html"))

    def test_a_terminal_gets_no_page(self):
        file, loss = self.zoo("mlp")
        primary, secondary = pty.openpty()
        self.addCleanup(os.close, primary)
        result = command.run("view", file, *loss, cwd=self.dir, stdout=secondary)
        os.close(secondary)
        self.assertEqual(result.code, 2, result)
        self.assertIn("-o PAGE.html", result.err)

    def test_an_interrupt_leaves_the_best_so_far(self):
        file, loss = self.zoo("unet")
        result = self.interrupted_at("^planning: ", "view", file, *loss, "--budget=min", "--effort=100000")
        self.assertEqual(result.code, 130, result)
        self.assertGreater(len(PageData(result.out).head["steps"]), 0)


if __name__ == "__main__":
    command.main()
