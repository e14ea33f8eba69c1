"""Tests `explain`: its numbers are those of `opt` with the same options, its parts add up, and its text is complete."""

import json
import os
import unittest

import command
from cli_cases import ZOO, Case

QUICK = ["--effort=0.05"]
SECTIONS = ["Plan (", "Live at the peak", "Largest at the planned peak", "What becomes of the tensors",
            "The largest tensors that the backward pass needs", "Bottlenecks", "Price of memory"]


class Explain(Case):
    def explained(self, *args):
        result = self.run_ok("explain", *args, "--json")
        j = json.loads(result.out)
        self.assertEqual(j["schema"], "isthmus.explain/1")
        return j

    def check(self, j, r):
        """Compares the explanation with the report of `opt`."""
        self.assertEqual(j["policy_used"], r["policy_used"])
        self.assertEqual(j["arena_bytes"], r["arena_bytes"])
        self.assertEqual(j["persistent_bytes"], r["persistent_bytes"])
        self.assertAlmostEqual(j["recompute_overhead"], r["recompute_overhead"], places=12)
        self.assertAlmostEqual(j["planned_us"] / j["baseline_us"] - 1, r["recompute_overhead"], places=9)
        for part, key in ("baseline", "baseline_peak_bytes"), ("planned", "predicted_peak_bytes"):
            peak = j[part]
            self.assertEqual(peak["peak_bytes"], r[key], part)
            self.assertEqual(sum(peak["bytes_by_kind"].values()), r[key], part)
            sizes = [t["bytes"] for t in peak["tensors"]]
            self.assertEqual(sizes, sorted(sizes, reverse=True))
            for t in peak["tensors"]:
                self.assertLessEqual(t["from_index"], peak["node_index"])
                self.assertGreaterEqual(t["to_index"], peak["node_index"])
        self.assertEqual(j["baseline"]["bytes_by_kind"]["recomputed"], 0)
        self.assertEqual(j["recomputations"] > 0, r["recompute_overhead"] > 0)
        self.assertEqual(j["totals"]["recomputed"]["tensors"] > 0, j["recomputations"] > 0)
        self.assertEqual(j["price"]["saved_bytes"], r["baseline_peak_bytes"] - r["predicted_peak_bytes"])
        for t in j["tensors"]:
            self.assertIn(t["decision"], ("kept", "recomputed"))
            self.assertEqual(t["recomputations"] > 0, t["decision"] == "recomputed")
            self.assertTrue(t["text"])
            self.assertTrue(t["why"])
        for b in j["bottlenecks"]:
            self.assertTrue(b["why"], b)

    def test_names_do_not_command_the_terminal(self):
        """Names with escape sequences are printed as in the text form."""
        evil = '"a\\1b[31m\\9b1m{}"'
        names = [evil.format(i) for i in range(4)]
        text = f"isthmus 2\ngraph @g {{\n  input %{names[0]} : f32[64, 64]\n  param %{names[1]} : f32[64, 64] = fill {{value = 1}}\n"
        text += f"  %{names[2]} = matmul(%{names[0]}, %{names[1]})\n  %{names[3]} = tanh(%{names[2]})\n  output %{names[3]}\n}}\n"
        self.write("evil.isth", text)
        for args in (["explain", "evil.isth", "--loss=mean", "--budget=min", *QUICK], ["profile", "evil.isth", "--loss=mean"],
                     ["run", "evil.isth", "--loss=mean"], ["run", "evil.isth", f"--loss=cross_entropy:%{names[1]}"],
                     ["train", "evil.isth", "--loss=mse", "--data=evil.isth", "--steps=1"], ["opt", "evil.isth", "--loss=mse", "--wrt=none"],
                     ["verify", "evil.isth", "evil.isth"], ["run", "evil.isth", "--inputs=in"]):
            with self.subTest(args[0]):
                os.makedirs(self.path("in"), exist_ok=True)
                self.write("in/x\x1b[31m.npy", b"")
                result = command.run(*args, cwd=self.dir)
                for printed in result.out.decode("latin-1"), result.err.encode("utf-8", "surrogateescape").decode("latin-1"):
                    self.assertNotRegex(printed, r"[\x00-\x08\x0b-\x1f\x7f]", result)
        self.assertIn("a\\1b[31m", self.run_ok("explain", "evil.isth", "--loss=mean", "--budget=min", *QUICK).out.decode())

    def test_every_net_and_policy(self):
        for name in ZOO:
            file, loss = self.zoo(name)
            for policy in "none", "speed", "memory":
                with self.subTest(f"{name} {policy}"):
                    args = [file, *loss, f"--policy={policy}"]
                    j = self.explained(*args)
                    self.check(j, self.report("opt", *args))
                    self.assertIsNone(j["price"]["method"])
                    self.assertIsNone(j["price"]["knee"])
                    if policy == "memory" and j["policy_used"] == "memory":
                        self.assertTrue(any(b["taken"] for b in j["bottlenecks"]))

    def test_budgets(self):
        for name in "mlp", "cnn", "unet", "gpt2":
            with self.subTest(name):
                file, loss = self.zoo(name)
                least = self.report("opt", file, *loss, "--budget=min", *QUICK)
                budget = (2 * least["arena_bytes"] + least["baseline_peak_bytes"]) // 3
                args = [file, *loss, f"--budget={budget}", *QUICK]
                j = self.explained(*args)
                r = self.report("opt", *args)
                self.check(j, r)
                self.assertEqual(j["budget_bytes"], budget)
                self.assertTrue(all(b["reason"] in ("price", "end") for b in j["bottlenecks"]))
                self.check_price(j, r)

    def check_price(self, j, r):
        price, budget = j["price"], j["budget_bytes"]
        self.assertEqual(price["method"] is None, price["us_per_mib_at_budget"] is None)
        if price["method"] is None:
            self.assertEqual(r["lower_bound_overhead"], 0)
            self.assertIsNone(price["more"])
            return
        self.assertEqual(price["lower_bound_overhead"], r["lower_bound_overhead"])
        for side, sign in ("more", 1), ("less", -1):
            us = j["planned_us"] - sign * price["us_per_mib_at_budget"] * (budget // 50) / 2**20
            self.assertEqual(price[side]["budget_bytes"], budget + sign * (budget // 50))
            self.assertAlmostEqual(price[side]["us"], max(us, j["baseline_us"]), places=6)

    def test_the_price_is_about_what_another_budget_would_cost(self):
        self.run_ok("zoo", "resnet", "--depth=20", "--batch=8", "--shape=3x32x32", "-o", "resnet.isth")
        args = ["resnet.isth", "--loss=mean", "--effort=0.3"]
        j = self.explained(*args, "--budget=65%")
        self.check_price(j, self.report("opt", *args, "--budget=65%"))
        self.assertEqual(j["price"]["method"], "the bound's price at the budget")
        less = self.explained(*args, f"--budget={j['budget_bytes'] * 9 // 10}")
        knee = j["price"]["knee"]
        self.assertEqual(less["price"]["knee"], knee)
        self.assertLess(knee["peak_bytes"], j["baseline"]["peak_bytes"])
        self.assertLess(knee["us_per_mib_above"], knee["us_per_mib_below"] / 2)
        text = self.run_ok("explain", *args, "--budget=65%").out.decode()
        self.assertIn("the knee of the price curve is a peak of ", text)
        self.assertIn(f", +{100 * knee['overhead']:.1f} %: above it", text)
        mib = (j["budget_bytes"] - less["budget_bytes"]) / 2**20
        paid = (less["planned_us"] - j["planned_us"]) / mib
        self.assertGreater(j["price"]["us_per_mib_at_budget"], paid / 4)
        self.assertLess(j["price"]["us_per_mib_at_budget"], paid * 4)

    def test_the_smallest(self):
        file, loss = self.zoo("mlp")
        j = self.explained(file, *loss, "--budget=min", *QUICK)
        self.assertEqual(j["budget_bytes"], j["arena_bytes"])
        self.assertIsNone(j["price"]["less"])
        refused = command.run("explain", file, *loss, "--budget=1", *QUICK, cwd=self.dir)
        self.assertEqual(refused.code, 3, refused)
        self.assertEqual(refused.out, b"")
        self.assertIn(f"{j['arena_bytes']} bytes", refused.err)

    def test_every_kind_of_model(self):
        file, loss = self.zoo("cnn")
        loss.append("--keep-outputs")
        want = self.explained(file, *loss, "--policy=memory")
        del want["model"]
        self.run_ok("grad", file, *loss, "-o", "grad.isth")
        self.run_ok("opt", file, *loss, "--policy=speed", "-o", "small.isth")
        for model in "grad.isth", "small.isth":
            got = self.explained(model, "--policy=memory")
            del got["model"]
            self.assertEqual(got, want, model)
        self.run_ok("zoo", *ZOO["cnn"], "-o", "cnn.onnx")
        onnx = self.explained("cnn.onnx", "--loss=mean", "--policy=speed")
        self.assertGreater(onnx["recomputations"], 0)
        # Without options, it explains the plan that the file has.
        result = self.run_ok("explain", "small.isth", "--json")
        self.assertIn("explained as it is", result.err)
        as_it_is = json.loads(result.out)
        self.check(as_it_is, self.report("opt", file, *loss, "--policy=speed"))

    def test_names(self):
        file, loss = self.zoo("resnet")
        args = [file, *loss, "--policy=memory"]
        self.assertEqual(len(self.explained(*args)["tensors"]), 10)
        top = self.explained(*args, "--top=3")
        self.assertEqual(len(top["tensors"]), 3)
        self.assertEqual(len(top["planned"]["tensors"]), 3)
        name = top["tensors"][0]["name"]
        one = self.explained(*args, f"--of=\"{name}\"")
        self.assertEqual(one["tensors"], top["tensors"][:1])
        many = self.explained(*args, "--of=grad.*")
        self.assertEqual({t["decision"] for t in many["tensors"]}, {"output"})
        unknown = command.run("explain", *args, "--of=no_such_name", cwd=self.dir)
        self.assertEqual(unknown.code, 1, unknown)
        self.assertIn("no_such_name", unknown.err)

    def test_text(self):
        file, loss = self.zoo("unet")
        for plan in ["--policy=memory"], ["--budget=min", *QUICK], []:
            with self.subTest(plan):
                text = self.run_ok("explain", file, *loss, *plan).out.decode()
                at = [text.index(section) for section in SECTIONS]
                self.assertEqual(at, sorted(at))
                self.assertFalse([line for line in text.splitlines() if line != line.rstrip()])
        named = self.run_ok("explain", file, *loss, "--of=*", "--policy=speed").out.decode()
        self.assertIn("Named (", named)

    def test_an_interrupt_leaves_the_best_so_far(self):
        file, loss = self.zoo("unet")
        result = self.interrupted_at("^planning: ", "explain", file, *loss, "--budget=min", "--effort=100000")
        self.assertEqual(result.code, 130, result)
        self.assertIn(b"Live at the peak", result.out)
        # The price comes from a bound, which the search of the default effort reaches if it ends before the interrupt.
        self.assertNotEqual(b"the bound on the cost gives no price at this budget" in result.out, b"one MiB more or less" in result.out)

    def test_usage(self):
        file, loss = self.zoo("mlp")
        for wrong in ["--policy=memory", "--budget=50%"], ["--top=-1"], ["--policy=some"], ["--budget=apple"]:
            result = command.run("explain", file, *loss, *wrong, cwd=self.dir)
            self.assertEqual(result.code, 2, result)
            self.assertEqual(result.out, b"")
        self.assertIn("isthmus explain unet.onnx", self.run_ok("explain", "--help").out.decode())


if __name__ == "__main__":
    command.main()
