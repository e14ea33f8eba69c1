"""Tests pages of snapshots of PyTorch's allocator: each byte is where the allocator that made the snapshot knows it to be, in every protocol of
pickle, and no file makes the program call anything, crash or take memory out of proportion."""

import os
import pickle
import random
import unittest

import command
import snapshots
from cli_cases import Case
from page_data import PageData

KINDS = ["allocated", "freed, awaits a stream", "reserved, unused"]
PROTOCOLS = [2, 3, 4, 5]


class SnapshotCase(Case):
    def page(self, snapshot, *others, protocol=4):
        self.write("s.pickle", pickle.dumps(snapshot, protocol))
        self.run_ok("view", "s.pickle", *others, "-o", "page.html")
        return PageData(self.read("page.html"))

    def fails(self, content, *phrases, code=1):
        self.write("bad.pickle", content)
        result = command.run("view", "bad.pickle", "-o", "page.html", cwd=self.dir, memory_limit=2048)
        self.assertEqual(result.code, code, f"{content[:200]}\n{result}")
        self.assertEqual(result.out, b"")
        self.assertNotIn("page.html", self.files())
        self.assertTrue("error: " in result.err and "bad.pickle" in result.err, result)
        for phrase in phrases:
            self.assertIn(phrase, result.err)

    def check(self, data, known, prefix="a."):
        live = data.live_by_kind(prefix)
        for kind, of in zip(KINDS, zip(*known)):
            self.assertEqual(live.get(kind, [0] * len(known)), list(of), kind)
        self.check_blocks(data, known, prefix)

    def check_blocks(self, data, known, prefix):
        """Rectangles never overlap, and at each event they add up to what is reserved."""
        columns = [data.column(prefix + "block." + c) for c in ("offset", "bytes", "begin", "length")]
        blocks = [(o - 1, o - 1 + size, b, b + n) for o, size, b, n in zip(*columns)]
        for node, now in enumerate(known):
            here = sorted((low, high) for low, high, begin, end in blocks if begin <= node < end)
            self.assertEqual(sum(high - low for low, high in here), sum(now))
            for (_, high), (low, _) in zip(here, here[1:]):
                self.assertLessEqual(high, low, node)
        step = next(s for s in data.head["steps"] if s["prefix"] == prefix)
        self.assertLessEqual(max(high for _, high, _, _ in blocks), step["arena_bytes"])


class Snapshot(SnapshotCase):
    def test_every_protocol_gives_the_same_page(self):
        allocator = snapshots.training()
        pages = [self.page(allocator.snapshot(), protocol=p) for p in PROTOCOLS]
        self.check(pages[0], allocator.known)
        for page in pages[1:]:
            self.assertEqual(page.bytes, pages[0].bytes)

    def test_figures(self):
        allocator = snapshots.training()
        found = self.page(allocator.snapshot()).head["steps"][0]["snapshot"]
        reserved = [sum(now) for now in allocator.known]
        self.assertEqual(found["reserved_bytes"], max(reserved))
        self.assertEqual(found["allocated_bytes"], max(a + w for a, w, _ in allocator.known))
        self.assertEqual(found["unused_bytes"], allocator.known[reserved.index(max(reserved))][2])
        self.assertEqual((found["events"], found["segments"]), (len(allocator.trace), len(allocator.segments)))
        self.assertEqual((found["unmatched"], found["device"]), (0, 0))

    def test_a_trace_that_has_lost_its_beginning(self):
        for seed in range(4):
            allocator = snapshots.training(seed=seed)
            for last in 0, 1, 7, 50, 133, len(allocator.trace) - 1:
                with self.subTest(seed=seed, last=last):
                    data = self.page(allocator.snapshot(last))
                    self.check(data, allocator.known[len(allocator.trace) - last :])
                    self.assertEqual(data.head["steps"][0]["snapshot"]["unmatched"], 0)

    def test_expandable_segments_grow_and_shrink(self):
        mapped = [{"action": "segment_map", "addr": 4096, "size": 4096}, {"action": "segment_map", "addr": 8192, "size": 4096},
                  {"action": "alloc", "addr": 6144, "size": 4096}, {"action": "free_requested", "addr": 6144, "size": 4096},
                  {"action": "free_completed", "addr": 6144, "size": 4096}, {"action": "segment_unmap", "addr": 8192, "size": 4096}]
        segment = {"address": 4096, "total_size": 4096, "blocks": [{"size": 4096, "state": "inactive"}]}
        data = self.page({"segments": [segment], "device_traces": [mapped]})
        self.check(data, [(0, 0, 0), (0, 0, 4096), (0, 0, 8192), (4096, 0, 4096), (0, 4096, 4096), (0, 0, 8192), (0, 0, 4096)])

    def test_the_device_with_the_most_bytes(self):
        allocator = snapshots.training()
        two = allocator.snapshot(device=1)
        other = snapshots.Allocator(base=0x100000)
        other.alloc(1000)
        two["segments"] += other.snapshot()["segments"]
        two["device_traces"][0] = other.trace
        data = self.page(two)
        found = data.head["steps"][0]["snapshot"]
        self.assertEqual((found["device"], found["devices"]), (1, 2))
        self.check(data, allocator.known)

    def test_events_that_fit_nothing_are_counted(self):
        trace = [{"action": "free_completed", "addr": 64, "size": 64}, {"action": "free_completed", "addr": 64, "size": 64},
                 {"action": "alloc", "addr": 1 << 40, "size": 512}, {"action": "oom", "size": 1 << 30, "device_free": 5},
                 {"action": "a new action"}]
        found = self.page({"segments": [], "device_traces": [trace]}).head["steps"][0]["snapshot"]
        self.assertEqual((found["unmatched"], found["out_of_memory"], found["events"]), (2, 1, 5))

    def test_lines_of_the_program_are_modules(self):
        data = self.page(snapshots.training().snapshot())
        step = data.head["steps"][0]
        self.assertIn("train.py:20 main", step["modules"])
        self.assertIn("model.py:31 forward", step["modules"])
        self.assertFalse(any("linear.py" in m or "_start" in m for m in step["modules"]), step["modules"])
        self.assertIn(b"model.py:31 forward", data.names())

    def test_beside_a_plan(self):
        allocator = snapshots.training()
        file, loss = self.zoo("unet")
        report = self.report("opt", file, *loss, "--policy=memory")
        data = self.page(allocator.snapshot(), file, *loss, "--policy=memory")
        self.assertEqual([s["name"] for s in data.head["steps"]], ["s.pickle", file])
        self.check(data, allocator.known)
        self.assertEqual(data.head["steps"][1]["figures"]["predicted_peak_bytes"], report["predicted_peak_bytes"])
        self.run_ok("view", file, "s.pickle", *loss, "--policy=memory", "-o", "page.html")
        other = PageData(self.read("page.html"))
        self.assertEqual([s["name"] for s in other.head["steps"]], [file, "s.pickle"])
        self.check(other, allocator.known, "b.")
        self.assertEqual(other.head["figures"]["predicted_peak_bytes"], report["predicted_peak_bytes"])

    def test_two_snapshots(self):
        allocator = snapshots.training()
        self.write("t.pickle", pickle.dumps(allocator.snapshot(20), 5))
        data = self.page(allocator.snapshot(), "t.pickle")
        self.check(data, allocator.known)
        self.check(data, allocator.known[-21:], "b.")

    def test_a_plan_needs_a_model(self):
        self.write("s.pickle", pickle.dumps(snapshots.training().snapshot()))
        result = command.run("view", "s.pickle", "--budget=50%", "-o", "page.html", cwd=self.dir)
        self.assertEqual(result.code, 2, result)
        self.assertIn("give the model too", result.err)


class Broken(SnapshotCase):
    def test_what_is_no_snapshot(self):
        def a(**changes):
            segment = {"address": 4096, "total_size": 4096, "blocks": [{"address": 4096, "size": 4096, "state": "inactive"}]}
            return pickle.dumps({"segments": [{**segment, **changes}], "device_traces": [[]]})

        def event(**entries):
            return pickle.dumps({"segments": [], "device_traces": [[entries]]})

        for content, phrases in [
            (b"", ["protocol 2 to 5"]),
            (b"hello", ["protocol 2 to 5"]),
            (pickle.dumps({}, 0), ["protocol 2 to 5"]),
            (pickle.dumps({}, 1), ["protocol 2 to 5"]),
            (b"\x80\x06.", ["found protocol 6"]),
            (b"\x80\x04.", ["byte 2", "ends with 0 values"]),
            (pickle.dumps([1, 2]), ["'segments'", "found a list"]),
            (pickle.dumps({"a": 1}), ["found a dictionary without them"]),
            (pickle.dumps({"segments": 3}), ["'segments'"]),
            (pickle.dumps({"segments": [], "device_traces": [5]}), ["device_traces[0]: expected a list, found 5"]),
            (pickle.dumps({"segments": [7], "device_traces": []}), ["segments[0]: expected a dictionary, found 7"]),
            (a(total_size="x"), ["segments[0].total_size: expected a number from 0 to 2^62, found a text"]),
            (a(total_size=-1), ["found -1"]),
            (a(total_size=2**62), ["2^53"]),
            (a(total_size=2**70), ["more than 64 bits"]),
            (a(address=None), ["segments[0].address", "found None"]),
            (a(blocks=None), ["segments[0].blocks: expected a list, found None"]),
            (a(blocks=[{"size": 1}]), ["segments[0].blocks[0].state", "found nothing"]),
            (a(blocks=[{"size": 1, "state": "gone"}]), ["the state of a block, found a text"]),
            (a(device=10**9), ["segments[0].device", "found 1000000000"]),
            (event(action=1), ["device_traces[0][0].action: expected a text, found 1"]),
            (event(action="alloc"), ["device_traces[0][0].addr", "found nothing"]),
            (event(action="alloc", addr=1, size=1.5), ["device_traces[0][0].size", "found a number"]),
            (event(action="alloc", addr=0, size=2**60), ["2^53"]),
        ]:
            with self.subTest(phrases):
                self.fails(content, *phrases)

    def test_nothing_is_called(self):
        class Evil:
            def __reduce__(self):
                return os.system, ("touch called",)

        for protocol in PROTOCOLS:
            for content in [Evil(), {"segments": [], "device_traces": [Evil()]}, {"segments": {1, 2}}, {"segments": snapshots.Allocator()}]:
                with self.subTest(protocol=protocol, content=type(content)):
                    self.fails(pickle.dumps(content, protocol), "nothing is run")
        self.assertNotIn("called", self.files())

    def test_every_place_at_which_a_file_may_break_off(self):
        whole = pickle.dumps(snapshots.training(steps=1).snapshot(12), 4)
        self.assertLess(len(whole), 6000)
        for length in [*range(40), *range(40, len(whole), 97)]:
            self.fails(whole[:length])

    def test_changed_bytes_give_a_page_or_an_error(self):
        rng, whole = random.Random(5), pickle.dumps(snapshots.training(steps=1).snapshot(12), 2)
        codes = set()
        for _ in range(120):
            content = bytearray(whole)
            for _ in range(rng.randrange(1, 4)):
                content[rng.randrange(2, len(content))] = rng.randrange(256)
            self.write("bad.pickle", bytes(content))
            result = command.run("view", "bad.pickle", "-o", "page.html", cwd=self.dir, memory_limit=2048)
            self.assertIn(result.code, (0, 1), result)
            codes.add(result.code)
        self.assertEqual(codes, {0, 1})

    def test_values_that_hold_themselves(self):
        own = {"segments": [], "device_traces": []}
        own["device_traces"].append(own["device_traces"])
        self.fails(pickle.dumps(own), "device_traces[0][0]: expected a dictionary, found a list")


if __name__ == "__main__":
    command.main()
