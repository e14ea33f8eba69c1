"""Tests graphs in Python that do not run: they are loaded, differentiated, planned, written and drawn."""

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


GENERIC = {"device": "generic"}  # which needs no library that runs graphs
QUICK = {"effort": 0.05, **GENERIC}


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
        small = step.compile(budget="80%", **QUICK)
        self.assertLessEqual(small.report["predicted_peak_bytes"], 0.8 * small.report["baseline_peak_bytes"])
        self.assertIn("clone(", small.to_text())
        self.assertTrue(small.to_dot().startswith("// mlp"))
        self.assertEqual(isthmus.Graph.from_text(small.to_text()).to_text(), small.to_text())
        # Planned anew, not on top of the clones.
        self.assertEqual(small.compile(budget="80%", **QUICK).to_text(), small.to_text())
        self.assertNotIn("clone(", small.compile(budget="100%", **QUICK).to_text())
        # From the forward graph in one call; its outputs then end at their last use.
        self.assertNotIn("output %f", forward.compile(loss="mean", **QUICK).to_text())
        whole = forward.compile(loss="mean", budget="80%", keep_outputs=True, **QUICK)
        self.assertIn("output %f", whole.to_text())

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
        for again in (step, step.compile(budget="80%", **QUICK)):
            with self.assertRaisesRegex(isthmus.BadInput, "differentiated already"):
                again.differentiate("mean")
            with self.assertRaisesRegex(isthmus.BadInput, "differentiated already"):
                again.compile(loss="mean", **QUICK)

    def test_what_a_compiled_graph_tells(self):
        small = isthmus.Graph.from_text(MLP).compile(loss="mean", budget="90%", **QUICK)
        report = small.report
        self.assertEqual(max(small.live_bytes), report["predicted_peak_bytes"])
        self.assertEqual(len(small.live_bytes), report["nodes"])
        self.assertEqual(max(p.offset + p.bytes for p in small.layout if p.offset is not None), report["arena_bytes"])
        self.assertEqual({p.node for p in small.layout}, set(range(report["nodes"])))
        self.assertRegex(repr(small), r"<isthmus.Compiled: peak \d+ of \d+ bytes, cost \+\d")
        other = pickle.loads(pickle.dumps(small))
        self.assertEqual((other.to_text(), other.report, other.live_bytes, other.layout),
                         (small.to_text(), report, small.live_bytes, small.layout))

    def test_policies(self):
        forward = isthmus.Graph.from_text(MLP)
        for policy in ("none", "speed", "memory"):
            used = forward.compile(loss="mean", keep_outputs=True, policy=policy, **QUICK).report["policy_used"]
            self.assertIn(used, (policy, "none", f"{policy} (frontiers)"))
        kept = forward.compile(loss="mean", checkpoints=["b", "d"], **QUICK)
        self.assertEqual(kept.report["checkpoints"], ["b", "d"])
        self.assertEqual(forward.compile(loss="mean", checkpoints="%b,%d", **QUICK).to_text(), kept.to_text())
        share = forward.compile(loss="mean", budget=0.9, effort=0.05, **GENERIC)
        self.assertEqual(share.to_text(), forward.compile(loss="mean", budget="90%", effort=0.05, **GENERIC).to_text())
        limit = forward.compile(loss="mean", **QUICK).report
        limit = limit["persistent_bytes"] + limit["arena_bytes"] * 9 // 10
        within = forward.compile(loss="mean", memory_limit=limit, effort=0.05, **GENERIC).report
        self.assertLessEqual(within["persistent_bytes"] + within["arena_bytes"], limit)
        self.assertGreater(within["clones"], 0)
        with self.assertRaises(isthmus.CannotBeMet):
            forward.compile(loss="mean", memory_limit=limit, policy="none", **QUICK)

    def test_options_that_are_wrong(self):
        forward = isthmus.Graph.from_text(MLP)
        for error, message, options in (
            (isthmus.BadInput, "give one of them", {"policy": "speed", "budget": "50%"}),
            (isthmus.BadInput, "a policy is one of none, speed, memory, collection; got 'fast'", {"policy": "fast"}),
            (isthmus.BadInput, "checkpoints names nothing", {"checkpoints": []}),
            (isthmus.BadInput, "'nosuch'", {"checkpoints": ["nosuch"]}),
            (isthmus.BadInput, "allow says how a plan within a budget", {"allow": "recompute"}),
            (isthmus.BadInput, "a way to allow is one of", {"allow": "recompute,guess", "budget": "50%"}),
            (isthmus.BadInput, "go with allow='invert'", {"budget": "50%", "max_inverse_error": 0.1}),
            (isthmus.BadInput, "goes with allow='fetch'", {"budget": "50%", "host_memory": "1GB"}),
            (isthmus.BadInput, "a memory limit is a size", {"memory_limit": "50%"}),
            (isthmus.BadInput, "a memory limit is a size", {"memory_limit": 0.5}),
            (isthmus.BadInput, "a budget that is a float is a share", {"budget": 0.0}),
            (isthmus.BadInput, "exclude each other", {"eval": True, "as_written": True}),
            (isthmus.BadInput, "a precision is one of", {"precision": "f8"}),
            (isthmus.BadInput, "a layout is one of", {"layout": "last"}),
            (isthmus.BadInput, "a device is 'cpu', 'counting', 'generic'", {"device": "tpu"}),
            (isthmus.BadInput, "isthmus.target/1", {"device": {"name": "mine"}}),
            (isthmus.BadInput, "effort is a number from 0 on", {"effort": -1}),
            (isthmus.BadInput, "effort is a number of at most", {"effort": 10**400}),
            (isthmus.BadInput, "from 0 to 2", {"seed": -1}),
            (isthmus.BadInput, "ignore_index is a whole number of 64 bits, got 18446744073709551617", {"ignore_index": 2**64 + 1}),
            (isthmus.BadInput, "class_axis is a whole number of 64 bits", {"class_axis": 2**64 + 1}),
            (isthmus.BadInput, "microbatches is a whole number of 64 bits", {"microbatches": -(2**63) - 1}),
            (FileNotFoundError, "nosuch.json", {"costs": "nosuch.json"}),
            (TypeError, "a policy is a string", {"policy": 3}),
            (TypeError, "unexpected keyword", {"batches": 3}),
            (TypeError, "batch is a string or a list of strings, got int", {"batch": 3}),
            (isthmus.BadInput, "as in '%x:axis=1'", {"batch": "%x", "microbatches": 2}),
            (isthmus.BadInput, "is not there", {"whole": "%nosuch", "microbatches": 2}),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                forward.compile(**{"loss": "mean", **GENERIC, **options})
        forward.compile(loss="mean", precision="tf32", **GENERIC)
        with self.assertRaisesRegex(isthmus.BadInput, "not valid Unicode"):
            isthmus.Graph.from_text(MLP + "# \ud800")

    def test_a_target_of_its_own(self):
        forward = isthmus.Graph.from_text(MLP)
        target = {"schema": "isthmus.target/1", "name": "coarse", "alignment": 1 << 20}
        coarse = forward.compile(loss="mean", device=target)
        self.assertTrue(all(live % (1 << 20) == 0 for live in coarse.live_bytes))
        self.assertIn('target = "coarse"', coarse.to_text().replace("target = coarse", 'target = "coarse"'))

    def test_a_budget_that_cannot_be_met(self):
        step = isthmus.Graph.from_text(MLP).differentiate("mean")
        with self.assertRaisesRegex(isthmus.CannotBeMet, "the smallest that was found is") as caught:
            step.compile(budget=1000, **QUICK)
        least = caught.exception.report["smallest_budget_bytes"]
        self.assertEqual(step.compile(budget=least, **QUICK).report["arena_bytes"], least)
        self.assertEqual(pickle.loads(pickle.dumps(caught.exception)).report["smallest_budget_bytes"], least)
        with self.assertRaisesRegex(isthmus.BadInput, "a budget is a size"):
            step.compile(budget="half", **QUICK)

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
            (isthmus.BadInput, "its sizes are constant", lambda: isthmus.Graph.load(self.path("step.isth"), {"n": 2})),
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
        alone = step.compile(budget="80%", **QUICK).to_text()
        texts = [None] * 4

        def work(i):
            texts[i] = step.compile(budget="80%", **QUICK).to_text()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(texts, [alone] * 4)


if __name__ == "__main__":
    unittest.main()
