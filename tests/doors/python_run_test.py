"""Tests graphs that run in Python: the results have the bits of the command line's, and a planned graph's have those of its original's."""

import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import command  # noqa: E402

command.with_python_of_torch()

import isthmus  # noqa: E402
import numpy as np  # noqa: E402

# Networks of the zoo with convolutions and batch norm, attention and dropout, several outputs of an op.
NETWORKS = {
    "resnet": ["resnet", "--depth=8", "--batch=8", "--shape=3x32x32"],
    "unet": ["unet", "--depth=2", "--width=8", "--batch=2", "--shape=3x64x64"],
    "gpt2": ["gpt2", "--depth=3", "--width=48", "--batch=2", "--tokens=64", "--vocab=100"],
    "mlp": ["mlp", "--depth=6", "--width=64", "--batch=512", "--shape=64", "--dropout=0.1"],
}
THREADS = 2


class Runs(command.TestCase):
    def zoo(self, name):
        self.run_ok("zoo", *NETWORKS[name], "-o", f"{name}.isth")
        return isthmus.Graph.load(self.path(f"{name}.isth"))

    def outputs_of_the_command(self, graph, *options):
        graph.save(self.path("run.isth"))
        self.run_ok("run", "run.isth", "--outputs=out", f"--threads={THREADS}", *options)
        return {name: np.load(self.path(f"out/{name}.npy")) for name in (tensor.name for tensor in graph.outputs)}

    def assert_same_bits(self, a, b):
        self.assertEqual(list(a), list(b))
        for name in a:
            self.assertEqual((a[name].dtype, a[name].shape), (b[name].dtype, b[name].shape), name)
            self.assertEqual(a[name].tobytes(), b[name].tobytes(), name)

    def test_the_bits_are_the_command_lines(self):
        for name in NETWORKS:
            with self.subTest(name):
                forward = self.zoo(name)
                self.assert_same_bits(
                    forward.run(seed=3, threads=THREADS), self.outputs_of_the_command(forward, "--seed=3", "--as-written")
                )
                step = forward.differentiate("cross_entropy")
                as_written = step.run(seed=3, threads=THREADS)
                self.assertTrue(np.isfinite(as_written["loss"]))
                self.assertGreater(sum(output.startswith("grad.") for output in as_written), 3)
                self.assert_same_bits(as_written, self.outputs_of_the_command(step, "--seed=3", "--as-written"))
                lowered = isthmus.Session(step, seed=3, threads=THREADS, lowers=True).run()
                self.assert_same_bits(lowered, self.outputs_of_the_command(step, "--seed=3"))

    def test_a_plan_for_this_machine_keeps_its_budget_when_it_runs(self):
        """The plan counts the workspaces of convolutions and products."""
        needed = False
        for name in NETWORKS:
            forward = self.zoo(name)
            for budget in ("70%", "min"):
                with self.subTest(name, budget=budget):
                    small = forward.compile(loss="cross_entropy", budget=budget, effort=0.2, threads=THREADS)
                    session = isthmus.Session(small, threads=THREADS)
                    session.run()
                    self.assertEqual(session.figures.measured_peak_bytes, small.report["predicted_peak_bytes"])
                    self.assertEqual(max(small.live_bytes), small.report["predicted_peak_bytes"])
                    again = small.compile(budget=budget, effort=0.2, threads=THREADS)
                    self.assertEqual(again.to_text(), small.to_text())
                    common = forward.compile(loss="cross_entropy", device="generic")
                    needed |= common.report["baseline_peak_bytes"] < small.report["baseline_peak_bytes"]
        self.assertTrue(needed, "some kernel was to need workspace")
        with self.assertRaisesRegex(isthmus.BadInput, "a device is 'cpu', 'counting', 'generic' or .*; got 'gpu'"):
            forward.compile(device="gpu")

    def test_a_step_over_several_devices_runs(self):
        """Each device takes the peak of its part, and the results are those of the command line and, but for rounding, of the undivided step."""
        forward = self.zoo("gpt2")
        options = {"loss": "cross_entropy", "microbatches": 2, "threads": 1}
        staged = forward.compile(stages=2, schedule="1f1b", checkpoint="always", **options)
        devices = staged.report["stages"]
        self.assertEqual([each["device"] for each in devices], ["cpu:0", "cpu:1"])
        self.assertEqual(staged.report["predicted_peak_bytes"], max(each["predicted_peak_bytes"] for each in devices))
        self.assertEqual((staged.live_bytes, staged.layout), ([], []))
        session = isthmus.Session(staged, seed=3, threads=1)
        out = session.run()
        self.assertEqual(session.figures.measured_peak_bytes, staged.report["predicted_peak_bytes"])
        staged.save(self.path("staged.isth"))
        self.run_ok("run", "staged.isth", "--outputs=out", "--seed=3", "--threads=1")
        self.assert_same_bits(out, {name: np.load(self.path(f"out/{name}.npy")) for name in out})
        whole = forward.compile(loss="cross_entropy", threads=1).run(seed=3, threads=1)
        self.assertEqual(out.keys(), whole.keys())
        for name in whole:
            self.assertLessEqual(np.linalg.norm(out[name] - whole[name]), 1e-5 * np.linalg.norm(whole[name]), name)

    def test_inverses_are_measured_on_the_first_step(self):
        self.run_ok("zoo", "glow", "--depth=8", "--width=8", "--batch=4", "--shape=3x16x16", "-o", "glow.isth")
        flow = isthmus.Graph.load(self.path("glow.isth"))
        allow = {"budget": "min", "allow": ["recompute", "invert"], "effort": 0.2, "threads": THREADS}
        small = flow.compile(**allow)
        self.assertGreater(small.report["inversions"], 0)
        self.assertGreater(len(small.report["inverse_errors"]), 0)
        self.assertLess(max(small.report["inverse_errors"].values()), 1e-3)
        (note,) = [n for n in small.notes if "inverses are off by" in n]
        self.assertIn("inputs were drawn from the seed", note)
        exact = flow.compile(max_inverse_error=0, **allow)
        self.assertTrue(any("planned again without them" in note for note in exact.notes), exact.notes)
        self.assertFalse(any((exact.report["inverse_errors"] or {}).values()))
        unmeasured = flow.compile(device="counting", **allow)
        self.assertIsNone(unmeasured.report["inverse_errors"])

    def test_a_plan_gives_the_bits_of_its_original(self):
        for name in NETWORKS:
            with self.subTest(name):
                forward = self.zoo(name)
                step = forward.compile(loss="cross_entropy", threads=THREADS)
                small = forward.compile(loss="cross_entropy", budget="70%", effort=0.2, threads=THREADS)
                self.assertGreater(small.report["clones"], 0)
                before, after = (isthmus.Session(graph, seed=5, threads=THREADS) for graph in (step, small))
                self.assert_same_bits(before.run(), after.run())
                self.assertLess(after.figures.measured_peak_bytes, before.figures.measured_peak_bytes)
                self.assertEqual(after.figures.measured_peak_bytes, after.figures.predicted_peak_bytes)
                self.assert_same_bits(after.run(), self.outputs_of_the_command(small, "--seed=5"))

    def test_what_is_fed(self):
        graph = isthmus.Graph.from_text(SUM)
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        out = graph.run({"x": x, "labels": [2, 0]})
        np.testing.assert_array_equal(out["y"], x * np.float32([1, 10, 100]))
        np.testing.assert_array_equal(out["p"], np.float32([100, 1]))
        # What is converted, and arrays that do not lie as NumPy's usual ones.
        for given in (x.astype(np.float64), x.astype(np.int64), x.tolist(), np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2],
                      np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3)):
            np.testing.assert_array_equal(graph.run({"x": given, "labels": np.array([2, 0], np.uint8)})["y"], out["y"])
        np.testing.assert_array_equal(graph.run({"x": x, "w": np.ones(3)})["y"], x)
        for error, message, feeds in (
            (isthmus.BadInput, "'z' names no input of the graph; it has x, w, labels", {"z": x}),
            (isthmus.BadInput, r"input 'x' is of shape \(2, 3\), and what is given is of shape \(3, 2\)", {"x": x.T}),
            (isthmus.BadInput, "input 'x' is of type f32, which does not hold what is given, of type complex64", {"x": x * 1j}),
            (isthmus.BadInput, "input 'x' is of type f32.* of type <U1", {"x": [["a"] * 3] * 2}),
            (isthmus.BadInput, "input 'labels' is of type i64.* of type float64", {"labels": [0.5, 1]}),
            (isthmus.BadInput, "input 'labels' is of type i64.* of type uint64", {"labels": np.array([2**63, 1], np.uint64)}),
            (isthmus.BadInput, "input '%labels' is read by 'gather' as an index below 3, and its element 1 is 3", {"labels": [0, 3]}),
            (TypeError, "an input's name is a string, got int", {3: x}),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                graph.run(feeds)
        with self.assertRaisesRegex(TypeError, "feeds are a mapping"):
            graph.run([x])
        with self.assertRaises(isthmus.BadInput):
            graph.run(seed=-1)
        with self.assertRaises(isthmus.BadInput):
            graph.run(threads=-1)
        with self.assertRaises(TypeError):
            graph.run(threads=1.5)

    def test_types(self):
        for dtype, array in {"f64": np.float64, "f16": np.float16, "i32": np.int32, "u8": np.uint8}.items():
            graph = isthmus.Graph.from_text(f"isthmus 2\ngraph @g {{\n  input %x : {dtype}[3]\n  %y = add(%x, %x)\n  output %y\n}}\n")
            y = graph.run({"x": [1, 2, 100]})["y"]
            self.assertEqual((y.dtype, y.tolist()), (array, [2, 4, 200]))
        graph = isthmus.Graph.from_text("isthmus 2\ngraph @g {\n  input %x : bf16[3]\n  %y = add(%x, %x)\n  output %y\n}\n")
        y = graph.run({"x": [1, 0.5, -3.0078125]})["y"]  # the last is rounded to even
        self.assertEqual((y.dtype, y.tolist()), (np.float32, [2, 1, -6]))
        graph = isthmus.Graph.from_text("isthmus 2\ngraph @g {\n  input %x : f32[]\n  %y = neg(%x)\n  output %y\n}\n")
        y = graph.run({"x": 3})["y"]
        self.assertEqual((y.shape, float(y)), ((), -3))

    def test_sizes_of_zero_and_sizes_without_end(self):
        graph = isthmus.Graph.from_text("isthmus 2\ngraph @g {\n  input %x : f32[0, 3]\n  %y = neg(%x)\n  output %y\n}\n")
        self.assertEqual(graph.run({"x": np.zeros((0, 3))})["y"].shape, (0, 3))
        graph = isthmus.Graph.from_text("isthmus 2\ngraph @g {\n  input %x : f32[1000000, 1000000]\n  %y = neg(%x)\n  output %y\n}\n")
        self.assertEqual(graph.inputs[0].shape, (10**6, 10**6))
        with self.assertRaisesRegex(isthmus.OutOfMemory, "out of memory: .* asked for"):
            graph.run()

    def test_a_graph_is_its_own_whatever_becomes_of_its_file(self):
        values = ", ".join(str(i / 7) for i in range(4096))
        isthmus.Graph.from_text(
            f"isthmus 2\ngraph @g {{\n  input %x : f32[4096]\n  param %w : f32[4096] = [{values}]\n  %y = mul(%x, %w)\n  output %y\n}}\n"
        ).save(self.path("own.isth"))
        with open(self.path("own.safetensors"), "rb") as file:
            before = file.read()
        for how in "overwritten", "truncated":
            with self.subTest(how):
                with open(self.path("own.safetensors"), "wb") as file:
                    file.write(before)
                graph = isthmus.Graph.load(self.path("own.isth"))
                session = isthmus.Session(graph, threads=1)
                first = graph.run({"x": np.ones(4096)}, threads=1)["y"]
                with open(self.path("own.safetensors"), "r+b") as file:
                    if how == "truncated":
                        file.truncate(100)
                    else:
                        file.write(bytes(len(before)))
                self.assertTrue((graph.run({"x": np.ones(4096)}, threads=1)["y"] == first).all())
                self.assertTrue((session.run({"x": np.ones(4096)})["y"] == first).all())
                with self.assertRaises(isthmus.BadInput):
                    isthmus.Graph.load(self.path("own.isth"))

    def test_inputs_and_outputs(self):
        graph = isthmus.Graph.from_text(SUM)
        self.assertEqual([(t.name, t.kind, t.dtype, t.shape) for t in graph.inputs],
                         [("x", "input", "f32", (2, 3)), ("w", "param", "f32", (3,)), ("labels", "input", "i64", (2,))])
        self.assertEqual([(t.name, t.kind, t.dtype, t.shape) for t in graph.outputs],
                         [("y", "output", "f32", (2, 3)), ("p", "output", "f32", (2,))])

    def test_large_weights_go_along(self):
        import tempfile

        numbers = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
        weights = f"const %w : f32[5000] = {[float(n) for n in numbers]}"
        text = f"isthmus 2\ngraph @g {{\n  input %x : f32[5000]\n  {weights}\n  %y = mul(%x, %w)\n  output %y\n}}\n"
        before = set(os.listdir(tempfile.gettempdir()))
        session = isthmus.Session(isthmus.Graph.from_text(text))
        self.assertEqual({name for name in os.listdir(tempfile.gettempdir()) if name.startswith("isthmus-")} - before, set())
        np.testing.assert_array_equal(session.run({"x": np.ones(5000)})["y"], numbers)

    def test_steps_that_keep_state(self):
        step = self.zoo("resnet").differentiate("cross_entropy")
        states = [t.name for t in step.inputs if t.kind == "state"]
        self.assertTrue(states)
        feeds = {"labels": np.zeros(8, np.int64)}
        kept, same = isthmus.Session(step, keeps_state=True), isthmus.Session(step)
        first, second = kept.run(feeds), kept.run()
        name = states[0]
        self.assertFalse(np.array_equal(first[f"state.{name}"], second[f"state.{name}"]))
        # The second step is one that begins with what the first has left.
        by_hand = step.run({**feeds, **{s: first[f"state.{s}"] for s in states}})
        self.assert_same_bits(second, by_hand)
        self.assert_same_bits(same.run(feeds), same.run())

    def test_steps_that_keep_what_they_update(self):
        """Parameters too, and by the outputs' roles: an output may be called as the next value of a state is."""
        session = isthmus.Session(isthmus.Graph.from_text(COUNTS), keeps_state=True)
        for step in range(1, 4):
            out = session.run()
            self.assertEqual({name: float(value) for name, value in out.items()}, {"state.n": 7, "n.next": step, "w.next": 2**step})
        self.assertEqual({t.name: t.next_of for t in session.outputs}, {"state.n": None, "n.next": "n", "w.next": "w"})

    def test_all_feeds_or_none(self):
        session = isthmus.Session(isthmus.Graph.from_text(SUM))
        session.run({"x": np.ones((2, 3)), "labels": [0, 1]})
        with self.assertRaisesRegex(isthmus.BadInput, "'labels' is of shape"):
            session.run({"x": np.zeros((2, 3)), "labels": [0]})
        np.testing.assert_array_equal(session.run()["y"], [[1, 10, 100]] * 2)

    def test_no_names_are_not_all_names(self):
        for names in [], "":
            with self.assertRaisesRegex(isthmus.BadInput, "wrt names nothing"):
                isthmus.Graph.from_text(SUM).compile(loss="mean:%y", wrt=names)

    def test_random_draws_differ_between_steps_that_keep_state_alone(self):
        graph = isthmus.Graph.from_text(DROPPED)
        kept, same = isthmus.Session(graph, seed=1, keeps_state=True), isthmus.Session(graph, seed=1)
        ones = {"x": np.ones(1000)}
        a, b, c, d = kept.run(ones)["y"], kept.run()["y"], same.run(ones)["y"], same.run()["y"]
        self.assertFalse(np.array_equal(a, b))
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(c, d)
        self.assertFalse(np.array_equal(graph.run(ones, seed=2)["y"], c))

    def test_parameters_that_are_set_stay(self):
        session = isthmus.Session(isthmus.Graph.from_text(SUM))
        with self.assertRaisesRegex(isthmus.BadInput, "no step has run"):
            session.figures
        session.set("w", [1, 2, 3])
        first = session.run({"x": np.ones((2, 3))})["y"]
        np.testing.assert_array_equal(first, [[1, 2, 3]] * 2)
        session.set("w", [4, 5, 6])
        np.testing.assert_array_equal(session.run()["y"], [[4, 5, 6]] * 2)
        np.testing.assert_array_equal(first, [[1, 2, 3]] * 2)  # not the session's memory

    def test_in_threads(self):
        graph = isthmus.Graph.from_text(SUM)
        shared = isthmus.Session(graph)
        wrong = []

        def work(i):
            own = isthmus.Session(graph, threads=1)
            for k in range(20):
                x = np.full((2, 3), i * 100 + k, np.float32)
                for session in (own, shared):
                    if not np.array_equal(session.run({"x": x, "w": np.ones(3)})["y"], x):
                        wrong.append((i, k))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_in_a_child_that_was_forked(self):
        program = f"""
import isthmus, numpy, os
graph = isthmus.Graph.from_text({SUM!r})
feeds = {{"x": numpy.ones((2, 3))}}
before = graph.run(feeds, threads=2)["y"]
if os.fork() == 0:
    try:
        graph.run(feeds, threads=2)
    except isthmus.Unsupported as error:
        print(error, flush=True)
    print(numpy.array_equal(graph.run(feeds, threads=1)["y"], before), flush=True)
    os._exit(0)
os.wait()
print(numpy.array_equal(graph.run(feeds, threads=2)["y"], before))
"""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60)
        self.assertRegex(done.stdout, "this process was forked after a graph had run.*\nTrue\nTrue\n", done.stderr)

    def test_beside_torch_which_brings_its_own_onednn_and_openmp(self):
        program = """
import isthmus, numpy, torch
from python_run_test import CONV
torch.nn.functional.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3))
x = numpy.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype("float32")
w = numpy.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype("float32")
ours = isthmus.Graph.from_text(CONV).run({"x": x, "w": w})["y"]
theirs = torch.nn.functional.conv2d(torch.from_numpy(x), torch.from_numpy(w)).numpy()
print(numpy.abs(ours - theirs).max() < 1e-5)
"""
        path = os.pathsep.join([os.path.dirname(os.path.abspath(__file__)), *sys.path])
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
        self.assertEqual((done.stdout, done.returncode), ("True\n", 0), done.stderr)

    def test_without_the_library_all_else_works(self):
        program = f"""
import isthmus
graph = isthmus.Graph.from_text({SUM!r})
print(len(graph.to_dot()) > 0)
try:
    graph.run()
except ImportError as error:
    print(error)
"""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ISTHMUS_RUN_LIBRARY": "/no/such.so"}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        self.assertRegex(done.stdout, r"True\nisthmus found no libisthmus_run.so(.|\n)*libdnnl.so.2(.|\n)*all else works without")


SUM = """isthmus 2
graph @small {
  input %x : f32[2, 3]
  param %w : f32[3] = [1.0, 10.0, 100.0]
  input %labels : i64[2]
  %y = mul(%x, %w)
  %p = gather(%w, %labels) {axis = 0}
  output %y
  output %p
}
"""
COUNTS = """isthmus 2
graph @counts {
  param %w : f32[] = fill {value = 1}
  state %n : f32[] = fill {value = 0}
  const %seven : f32[] = fill {value = 7}
  %"state.n" = abs(%seven)
  %"n.next" = affine(%n) {shift = 1}
  %"w.next" = affine(%w) {scale = 2}
  output %"state.n"
  output %"n.next" next(%n)
  output %"w.next" next(%w)
}
"""
DROPPED = """isthmus 2
graph @dropped {
  input %x : f32[1000]
  %y = dropout(%x) {stream = 1}
  output %y
}
"""
CONV = """isthmus 2
graph @conv {
  input %x : f32[1, 3, 8, 8]
  param %w : f32[4, 3, 3, 3]
  %y = conv(%x, %w)
  output %y
}
"""

if __name__ == "__main__":
    command.main()
