"""Tests `dot` on the command line: folded pictures, parts of a graph, and the errors of its options."""

import unittest

import command
from cli_cases import Case


class Dot(Case):
    def setUp(self):
        super().setUp()
        self.run_ok("zoo", "gpt2", "--depth=4", "--width=64", "--heads=4", "--batch=1", "--tokens=32", "--vocab=128", "-o", "gpt2.isth")

    def text(self, *args):
        return self.run_ok("dot", "gpt2.isth", "--loss=cross_entropy", *args).out.decode()

    def test_folded(self):
        whole, folded = self.text(), self.text("--fold=auto")
        self.assertEqual(self.text("--fold=none"), whole)
        self.assertLess(folded.count("fillcolor"), 41)
        self.assertIn("4 alike", folded)
        self.assertRegex(folded, r"nodes, [\d.]+ [KM]iB, [\d.]+ [um]s")
        self.assertIn("legend [", folded)
        self.assertGreater(self.text("--fold=3").count("fillcolor"), self.text("--fold=1").count("fillcolor"))

    def test_a_part(self):
        part = self.text("--around=h2.attn.softmax", "--hops=1")
        self.assertIn("h2.attn.softmax", part)
        self.assertNotIn("h1.", part)
        self.assertGreater(self.text("--around=h2.attn.softmax").count("fillcolor"), part.count("fillcolor"))

    def test_svg(self):
        self.run_ok("dot", "gpt2.isth", "--loss=cross_entropy", "--fold=1", "-o", "g.svg")
        self.assertIn(b"</svg>", self.read("g.svg"))

    def test_two_graphs(self):
        self.run_ok("opt", "gpt2.isth", "--loss=cross_entropy", "--policy=memory", "-o", "small.isth")
        text = self.run_ok("dot", "small.isth", "--diff=gpt2.isth", "--loss=cross_entropy").out.decode()
        report = self.report("opt", "gpt2.isth", "--loss=cross_entropy", "--policy=memory")
        self.assertGreaterEqual(text.count("penwidth=4"), report["clones"])
        self.assertNotIn("only in the other graph", text)
        self.assertNotIn("penwidth=4", self.run_ok("dot", "gpt2.isth", "--diff=gpt2.isth").out.decode())

    def test_errors(self):
        wrong = [
            (["--fold=0"], 2, "a depth from 1 on"),
            (["--fold=deep"], 2, "'deep'"),
            (["--hops=2"], 2, "--around"),
            (["--fold=1", "--around=y"], 2, "one of the two"),
            (["--fold=1", "--diff=gpt2.isth"], 2, "one of the two"),
            (["--around=nothing"], 1, "nothing"),
            (["--diff=none.isth"], 1, "none.isth"),
        ]
        for args, code, said in wrong:
            with self.subTest(args):
                result = command.run("dot", "gpt2.isth", *args, cwd=self.dir)
                self.assertEqual(result.code, code, result)
                self.assertIn(said, result.err)
                self.assertEqual(result.out, b"")

    def test_a_large_graph_is_drawn_with_advice(self):
        self.run_ok("zoo", "mlp", "--depth=400", "--width=8", "-o", "deep.isth")
        self.assertIn("--fold=auto", self.run_ok("dot", "deep.isth").err)
        self.assertNotIn("--fold=auto", self.run_ok("dot", "deep.isth", "--fold=auto").err)


if __name__ == "__main__":
    command.main()
