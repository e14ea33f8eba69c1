"""Graphs in Python, without running them: loaded, differentiated, planned, written, drawn."""

import copy
import os
import pickle
import tempfile
import threading
import unittest

import isthmus

MLP = """isthmus 2
graph @mlp {
  input %x : f32[64, 256]
  param %w : f32[256, 256] = normal {std = 0.05, seed = 1}
  const %bias : f32[2] = [1.0, 2.0]
  %a = matmul(%x, %w)
  %b = gelu(%a)
  %c = matmul(%b, %w)
  %d = gelu(%c)
  %e = matmul(%d, %w)
  %f = gelu(%e)
  output %f
}
"""


class Graphs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_from_text_to_a_plan(self):
        forward = isthmus.Graph.from_text(MLP)
        step = forward.differentiate("mean")
        self.assertIn("grad.w", step.to_text())
        self.assertNotIn("grad.", forward.to_text())
        small = step.optimize("80%", effort=0.05)
        self.assertIsNone(step.plan)
        self.assertLessEqual(small.plan.figures.peak_bytes, 0.8 * small.plan.figures.baseline_peak_bytes)
        self.assertIn("clone(", small.to_text())
        self.assertTrue(small.to_dot().startswith("// mlp"))
        self.assertEqual(isthmus.Graph.from_text(small.to_text()).to_text(), small.to_text())
        # Planned anew, not on top of the clones.
        self.assertEqual(small.optimize("80%", effort=0.05).to_text(), small.to_text())
        self.assertNotIn("clone(", small.optimize("100%", effort=0.05).to_text())

    def test_what_gradients_are_taken_for(self):
        forward = isthmus.Graph.from_text(MLP)
        both = forward.differentiate("%f", wrt=["x", "w"]).to_text()
        self.assertTrue("grad.x" in both and "grad.w" in both)
        self.assertNotIn("grad.w", forward.differentiate("mean", wrt="x").to_text())
        for error, message, arguments in (
            (isthmus.BadInput, "entropy", ("entropy",)),
            (isthmus.BadInput, "loss", ()),
            (isthmus.BadInput, "'y'|%y", ("mean", ["y"])),
            (isthmus.BadInput, "quote", ("mean", ['a"b'])),
            (TypeError, "one is of type int", ("mean", [3])),
            (TypeError, "a loss is a string, got int", (3,)),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                forward.differentiate(*arguments)

    def test_a_step_is_not_differentiated_again(self):
        step = isthmus.Graph.from_text(MLP).differentiate("mean")
        for again in (step, step.optimize("80%", effort=0.05)):
            with self.assertRaisesRegex(isthmus.BadInput, "differentiated already"):
                again.differentiate("mean")

    def test_a_budget_that_cannot_be_met(self):
        step = isthmus.Graph.from_text(MLP).differentiate("mean")
        with self.assertRaisesRegex(isthmus.CannotBeMet, "the least peak that was found is") as caught:
            step.optimize(1000, effort=0.05)
        least = caught.exception.plan.figures.peak_bytes
        self.assertEqual(step.optimize(least, effort=0.05).plan.figures.peak_bytes, least)
        with self.assertRaisesRegex(isthmus.BadInput, "a budget is a size"):
            step.optimize("half")

    def test_files(self):
        step = isthmus.Graph.from_text(MLP).differentiate("mean")
        step.save(self.path("step.isth"))
        self.assertEqual(isthmus.Graph.load(self.path("step.isth")).to_text(), step.to_text())
        forward = isthmus.Graph.from_text(MLP)
        forward.save(self.path("forward.onnx"))
        self.assertIn("matmul", isthmus.Graph.load(self.path("forward.onnx")).to_text())
        before = sorted(os.listdir(self.folder))
        for error, message, use in (
            (isthmus.BadInput, "no/such.isth", lambda: isthmus.Graph.load("/no/such.isth")),
            (isthmus.BadInput, "neither an .onnx nor an .isth", lambda: isthmus.Graph.load(self.path("step"))),
            (isthmus.BadInput, "neither an .onnx nor an .isth", lambda: step.save(self.path("step.txt"))),
            (isthmus.BadInput, "no/such", lambda: step.save("/no/such/step.isth")),
            (isthmus.BadInput, "sizes of an .isth file are constant", lambda: isthmus.Graph.load(self.path("step.isth"), {"n": 2})),
            (TypeError, "int", lambda: isthmus.Graph.load(3)),
            (TypeError, "sizes are a mapping", lambda: isthmus.Graph.load(self.path("step.isth"), 3)),
            (isthmus.BadInput, "zero byte", lambda: isthmus.Graph.load("a\0.isth")),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                use()
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_text_that_is_wrong(self):
        with self.assertRaisesRegex(isthmus.BadInput, "3:.*nosuch"):
            isthmus.Graph.from_text("isthmus 2\ngraph @g {\n  %x = nosuch()\n}\n")
        with self.assertRaisesRegex(TypeError, "a graph's text is a string"):
            isthmus.Graph.from_text(MLP.encode())
        with self.assertRaises(isthmus.BadInput):
            isthmus.Graph.from_text("\0")
        with self.assertRaises(ValueError):
            isthmus.Graph.from_text("\ud800")

    def test_copies(self):
        graph = isthmus.Graph.from_text(MLP)
        for other in (copy.copy(graph), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
            self.assertEqual(other.to_text(), graph.to_text())

    def test_in_threads(self):
        step = isthmus.Graph.from_text(MLP).differentiate("mean")
        alone = step.optimize("80%", effort=0.05).to_text()
        texts = [None] * 4

        def work(i):
            texts[i] = step.optimize("80%", effort=0.05).to_text()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(texts, [alone] * 4)


if __name__ == "__main__":
    unittest.main()
