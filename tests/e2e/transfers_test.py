"""Tests plans that transfer tensors to the host's memory and back, or keep a smaller encoded value instead."""

import json
import os
import re
import shutil
import unittest

import command
from cli_cases import Case

# relu's gradient can read a mask of relu's output, and operands of the products' gradients may be fetched.
LAYERS = 8
NET = "\n".join([
    "isthmus 2", "graph @net {", "  input %x : f32[64, 256]",
    *[f"  param %w{i} : f32[256, 256] = normal {{std = 0.08, seed = {i}}}" for i in range(LAYERS)],
    *[line for i in range(LAYERS) for line in (f"  %h{i} = matmul({f'%a{i - 1}' if i else '%x'}, %w{i})",
                                                f"  %e{i} = tanh(%h{i})", f"  %a{i} = relu(%e{i})")],
    f"  %y = mean(%a{LAYERS - 1})", "  loss %y", "  output %y", "}", ""])
# Gradients are outputs, so every plan needs their memory. With the gradient of x alone, plans can save memory.
WRT = "--wrt=%x"
QUICK = "--effort=0.5"
ALL = "--allow=recompute,fetch,encode"
FETCH = "--allow=fetch"


class Transfers(Case):
    def net(self):
        return self.write("net.isth", NET)

    def planned(self, *args, out="small.isth"):
        """Returns the report of `opt`, which writes `out`."""
        return self.report("opt", self.net(), WRT, QUICK, *args, "-o", out)


class Usage(Transfers):
    def refused(self, *args, says, verb="opt", code=2, model="net.isth"):
        before = self.files()
        result = command.run(verb, *filter(None, [model, WRT, *args]), cwd=self.dir)
        self.assertEqual(result.code, code, f"{args}\n{result}")
        self.assertIn(says, result.err)
        self.assertEqual(result.out, b"")
        self.assertEqual(self.files(), before)

    def test_ways(self):
        self.net()
        within = ["--budget=60%", "-o", "x.isth"]
        for ways in "invent", "recompute,invent", "fetch encode", "":
            with self.subTest(ways):
                self.refused(f"--allow={ways}", *within, says="--allow: ")
        for plan in [], ["--policy=memory"], ["--checkpoints=%a1"]:
            with self.subTest(plan):
                self.refused("--allow=fetch", *plan, "-o", "x.isth", says="give --budget or --memory-limit with it")

    def test_the_hosts_memory(self):
        self.net()
        for ways in [], ["--allow=recompute"], ["--allow=recompute,encode"]:
            with self.subTest(ways):
                self.refused(*ways, "--budget=60%", "--host-memory=1MB", says="it goes with --allow=fetch")
        for size in "lots", "50%", "min", "-5", "1.5", "1GBs", "9999999TB":
            with self.subTest(size):
                self.refused(FETCH, "--budget=60%", f"--host-memory={size}",
                             says=f"--host-memory expects a size such as 2GiB, 500MB or a number of bytes; got '{size}'")

    def test_the_link(self):
        self.net()
        for rate in "fast", "50%", "min", "0", "-1GB", "1GB/min":
            with self.subTest(rate):
                self.refused(FETCH, "--budget=60%", f"--link={rate}",
                             says=f"--link expects bytes a second, such as 25GB or 500MB; got '{rate}'")
        for device in "cuda", "cuda:1":
            with self.subTest(device):
                self.refused(FETCH, "--budget=60%", "--link=1GB", f"--device={device}", verb="run",
                             says="--link is for cpu and counting")

    def test_options_that_may_be_repeated_take_one_word_each(self):
        """The model's name may follow these options."""
        self.net()
        budget = ["--budget=60%", QUICK, WRT, "--report=report.json"]
        self.run_ok("opt", *budget, "--allow", "fetch", "--allow", "encode", "net.isth", "-o", "x.isth")
        self.assertGreater(json.loads(self.read("report.json"))["transfers"], 0)
        os.remove(self.path("report.json"))
        os.remove(self.path("x.isth"))
        for option, word in ("--dim", "N=2"), ("--tie", "w0,w1"):
            self.refused(option, word, "net.isth", model="", says=".onnx")

    def test_the_smallest_budget_is_named(self):
        self.net()
        result = command.run("opt", "net.isth", WRT, QUICK, FETCH, "--budget=1", "--report=r.json", cwd=self.dir)
        self.assertEqual(result.code, 3, result)
        smallest = json.loads(self.read("r.json"))["smallest_budget_bytes"]
        self.assertIn(f"--budget={smallest}", result.err)
        self.assertEqual(self.planned(FETCH, f"--budget={smallest}")["arena_bytes"], smallest)


class Runs(Transfers):
    def check_figures(self, r):
        self.assertEqual(r["measured_peak_bytes"], r["predicted_peak_bytes"])
        self.assertLess(r["predicted_peak_bytes"], r["baseline_peak_bytes"])
        self.assertGreater(r["transfers"], 0)
        self.assertGreater(r["host_bytes"], 0)

    def test_what_stands_for_a_tensor_is_told_as_what_it_is(self):
        """Masks are kept in place of tensors: they are neither saved activations nor rebuilt ones."""
        self.net()
        options = [WRT, QUICK, "--allow=encode", "--budget=min"]
        explained = json.loads(self.run_ok("explain", "net.isth", *options, "--top=1000", "--json").out)
        encoded = [t for t in explained["tensors"] if t["decision"] == "encoded"]
        self.assertGreater(explained["totals"]["encoded"]["tensors"], 0)
        self.assertEqual(explained["totals"]["encoded"]["tensors"], len(encoded))
        self.assertGreater(explained["planned"]["bytes_by_kind"]["encoded"], 0)
        self.assertEqual(explained["planned"]["bytes_by_kind"]["rebuilt"], 0)
        self.assertIn("kept as a smaller value of", self.run_ok("explain", "net.isth", *options).out.decode())
        parts = self.run_ok("profile", "net.isth", *options, "--steps=1").out.decode()
        self.assertIn(", encoded ", parts)
        self.assertNotIn("rebuilt", parts)
        r = self.report("opt", "net.isth", *options, "-o", "small.isth")
        self.assertEqual(r["encodings"], self.read("small.isth").decode().count("from(encoding(%"))
        self.assertGreaterEqual(r["encodings"], explained["totals"]["encoded"]["tensors"])

    def test_each_way(self):
        """A plan contains only what was allowed, and gives the bits of the original graph."""
        for ways in "recompute", "fetch", "encode", "fetch,encode", "recompute,fetch,encode":
            with self.subTest(ways):
                budget = "--budget=min" if ways == "encode" else "--budget=60%"
                r = self.planned(f"--allow={ways}", budget)
                text = self.read("small.isth").decode()
                self.assertEqual(r["transfers"] > 0, "fetch" in ways)
                self.assertEqual(r["host_bytes"] > 0, "fetch" in ways)
                self.assertEqual(r["transfers"], len(re.findall(r"= copy_to_", text)))
                if "recompute" not in ways:
                    self.assertEqual(r["clones"], 0)
                if ways == "encode":
                    self.assertIn("is_positive(", text)
                self.assertLess(r["predicted_peak_bytes"], r["baseline_peak_bytes"])
                said = self.run_ok("verify", "net.isth", "small.isth", WRT)
                self.assertIn("outputs are equal bit for bit", said.err + said.out.decode())

    def test_at_once_and_from_a_file(self):
        for ways in FETCH, ALL:
            with self.subTest(ways):
                planned = self.planned(ways, "--budget=60%")
                at_once = self.report("run", self.net(), WRT, QUICK, ways, "--budget=60%", "--steps=2")
                from_file = self.report("run", "small.isth", "--steps=2")
                for r in at_once, from_file:
                    self.check_figures(r)
                    for key in "predicted_peak_bytes", "host_bytes", "transfers", "clones", "loss":
                        self.assertEqual(r[key], at_once[key], key)
                    self.assertAlmostEqual(r["recompute_overhead"], planned["recompute_overhead"], 9)
                self.assertEqual(planned["host_bytes"], from_file["host_bytes"])
                self.assertIn("on the host", from_file["talk"])
                self.assert_same(self.outputs("small.isth"), self.outputs("net.isth", WRT))

    def test_optimising_twice_is_optimising_once(self):
        self.planned(ALL, "--budget=60%")
        for again in "again.isth", "third.isth":
            self.run_ok("opt", "small.isth", QUICK, ALL, "--budget=60%", "-o", again)
            self.assertEqual(self.read(again), self.read("small.isth"))
        # A plan of a planned graph starts from the original graph.
        self.run_ok("opt", "small.isth", "--policy=none", "-o", "none.isth")
        self.run_ok("opt", "net.isth", WRT, "--policy=none", "-o", "plain.isth")
        self.assertEqual(self.read("none.isth"), self.read("plain.isth"))

    def test_gradients_are_those_of_the_original(self):
        self.planned(ALL, "--budget=60%")
        self.run_ok("grad", "net.isth", WRT, "-o", "first.isth")
        for first, second in ("first.isth", "of_first.isth"), ("small.isth", "of_small.isth"):
            self.run_ok("grad", first, "--ys=%grad.x", "--xs=%w0", "-o", second)
        self.assertEqual(self.read("of_small.isth"), self.read("of_first.isth"))
        self.assertNotIn(b"copy_to_", self.read("of_small.isth"))

    def test_the_hosts_memory_is_bounded(self):
        all_of_it = self.planned(FETCH, "--budget=60%")["host_bytes"]
        some = self.planned(ALL, "--budget=60%", f"--host-memory={all_of_it // 2}")
        self.assertLessEqual(some["host_bytes"], all_of_it // 2)
        self.assertGreater(some["transfers"], 0)
        for bound in 0, 1000:
            with self.subTest(bound):
                r = self.planned(ALL, "--budget=60%", f"--host-memory={bound}")
                self.assertEqual((r["host_bytes"], r["transfers"]), (0, 0))

    def test_memory_limits_take_ways_too(self):
        baseline = self.planned("--policy=none")
        limit = baseline["persistent_bytes"] + baseline["baseline_peak_bytes"] * 6 // 10
        r = self.planned(FETCH, f"--memory-limit={limit}")
        self.assertGreater(r["transfers"], 0)
        self.assertLessEqual(r["persistent_bytes"] + r["arena_bytes"], limit)

    def test_the_device_that_counts(self):
        on_cpu = self.report("run", self.net(), WRT, QUICK, ALL, "--budget=60%")
        counted = self.report("run", self.net(), WRT, QUICK, ALL, "--budget=60%", "--device=counting")
        self.check_figures(counted)
        for key in "predicted_peak_bytes", "arena_bytes", "host_bytes", "transfers":
            self.assertEqual(counted[key], on_cpu[key], key)

    def test_a_slow_link_costs_time(self):
        """Transfers take at least the link's time, in the plan and in the step."""
        rate = 20e6
        fast = self.planned(FETCH, "--budget=60%")
        slow = self.planned(FETCH, "--budget=60%", f"--link={rate:.0f}", out="slow.isth")
        self.assertGreater(slow["recompute_overhead"], fast["recompute_overhead"] + 0.1)
        r = self.report("run", "slow.isth", f"--link={rate / 1e6:.0f}MB/s")
        self.check_figures(r)
        self.assertGreaterEqual(r["step_seconds"][0], r["host_bytes"] / rate)

    def test_encodings_beside_a_fast_link_cost_little(self):
        """A hidden transfer costs nothing, so allowing encodings must not make plans much more expensive."""
        for budget in "60%", "50%":
            with self.subTest(budget):
                options = ["--link=20GB", f"--budget={budget}", "-o", "x.isth"]
                fetch = self.report("opt", self.net(), WRT, FETCH, *options)
                both = self.report("opt", "net.isth", WRT, ALL, *options)
                self.assertLess(fetch["recompute_overhead"], 0.005)
                self.assertLess(both["recompute_overhead"], 0.007)

    def test_the_arena_is_close_to_the_peak(self):
        """The arena is close to the peak even if the budget is much larger and would allow a larger arena."""
        self.run_ok("zoo", "resnet", "--depth=20", "--batch=8", "--shape=3x32x32", "-o", "resnet.isth")
        r = self.report("opt", "resnet.isth", "--loss=cross_entropy", ALL, "--budget=60%", "-o", "x.isth")
        self.assertLessEqual(r["arena_bytes"], 1.01 * r["predicted_peak_bytes"])


class Shown(Transfers):
    def test_in_words(self):
        text = self.run_ok("explain", self.net(), WRT, QUICK, FETCH, "--budget=60%").out.decode()
        for part in r"\n  copied to the host and back +[1-9]\d* +[\d.]+ [KM]iB\n", \
                r"copied to the host and back once, [\d.]+ [mun]s on the link each way", r" of it added \(\+[\d.]+ %\)":
            self.assertRegex(text, part)

    def test_in_json(self):
        self.planned(FETCH, "--budget=60%")
        from_file = json.loads(self.run_ok("explain", "small.isth", "--json", "--of=*").out)
        j = json.loads(self.run_ok("explain", self.net(), WRT, QUICK, FETCH, "--budget=60%", "--json", "--of=*").out)
        for explained in j, from_file:
            fetched = {t["name"]: t for t in explained["tensors"] if t["decision"] == "fetched"}
            self.assertTrue(fetched)
            written = re.findall(r"%(\S+)\.host, \S+ = copy_to_host", self.read("small.isth").decode())
            self.assertEqual(sorted(fetched), sorted(written))
            for t in fetched.values():
                self.assertEqual((t["fetches"], t["recomputations"]), (1, 0))
                self.assertGreater(t["link_us"], 0)

    def test_in_pictures(self):
        self.run_ok("opt", self.net(), WRT, QUICK, ALL, "--budget=60%", "-o", "small.isth", "--dot=small.dot")
        text = self.read("small.dot").decode()
        transfers = re.findall(r"= copy_to_|= wait\(", self.read("small.isth").decode())
        legend = "copied to the host and back"
        self.assertEqual(text.count(legend), 1)
        self.assertGreater(len(transfers), 0)
        self.assertEqual(text.count("#CFEDEA"), len(transfers) + 1, "each, and the legend")
        self.planned(FETCH, "--budget=60%", "--dot=fetched.dot")
        self.assertIn('label="fetched"', self.read("fetched.dot").decode())
        self.run_ok("dot", "net.isth", "-o", "plain.dot")
        self.assertNotIn(legend, self.read("plain.dot").decode())
        if not shutil.which("dot"):
            self.skipTest("NOT RUN: Graphviz is not installed")
        self.run_ok("dot", "small.isth", "-o", "small.svg")
        self.assertIn(legend, self.read("small.svg").decode())


class Onnx(Transfers):
    def test_what_is_written_reads_back(self):
        self.planned(ALL, "--budget=60%", out="small.onnx")
        self.planned(ALL, "--budget=60%")
        self.run_ok("import", "small.onnx", "-o", "back.isth")
        self.assertEqual(re.sub(r'^weights .*\n', "", self.read("back.isth").decode(), flags=re.M),
                         self.read("small.isth").decode())
        for key in "predicted_peak_bytes", "host_bytes", "transfers":
            self.assertEqual(self.report("run", "small.onnx")[key], self.report("run", "small.isth")[key], key)

    def test_other_tools_can_run_it(self):
        talk = self.planned(ALL, "--budget=60%", out="small.onnx")["talk"]
        self.assertNotIn("no form in standard ones", talk)


if __name__ == "__main__":
    command.main()
