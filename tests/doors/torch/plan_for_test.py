"""Plans trainings of models without memory, and runs the same trainings: what was foreseen must be what is measured. Models that no machine can hold
are planned too."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
import command  # noqa: E402

command.with_python_of_torch()

import logging  # noqa: E402
import unittest  # noqa: E402
import warnings  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import isthmus  # noqa: E402
import isthmus.torch  # noqa: E402
from isthmus.torch.ahead.largest import largest  # noqa: E402

torch.set_num_threads(1)
MIB = 1 << 20
LOGGER = logging.getLogger("model")
WIDTH, LENGTH = 64, 96
CONTEXT = 512 * MIB
SHORT = 0.1
"""The effort of plans of which nothing is compared but that they are there."""


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.all, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.net = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.all(self.norm(x)).chunk(3, -1)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.net(x)


class Language(nn.Module):
    """A language model with a tied head. checkpoints: its blocks run again in the backward."""

    def __init__(self, words=128, width=WIDTH, blocks=2, checkpoints=False):
        super().__init__()
        self.checkpoints = checkpoints
        self.words, self.blocks, self.head = nn.Embedding(words, width), nn.ModuleList([Block(width) for _ in range(blocks)]), nn.Linear(width, words)
        self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


def batches(batch):
    return torch.zeros(batch, LENGTH, dtype=torch.long)


def on_meta(**settings):
    with torch.device("meta"):
        return Language(**settings)


def measured(model, batch):
    """Returns the peak of a step of a model in memory."""

    def step():
        model.zero_grad()
        model(batches(batch)).backward()

    step()
    model.zero_grad()
    return isthmus.torch.measured_peak(step)


class Foreseen(unittest.TestCase):
    def forecast(self, step_bytes, model=None, **settings):
        return isthmus.torch.plan_for(CONTEXT + step_bytes, model or on_meta(**settings), batches, optimizer=torch.optim.SGD, reserve=0, effort=SHORT)

    def test_the_peak_of_the_plain_step(self):
        """The largest batch that is foreseen fits when it is run, and the next one does not."""
        forecast = self.forecast(32 * MIB)
        plain, left = forecast["plain"], forecast.ledger.left_bytes
        model = Language()
        self.assertAlmostEqual(measured(model, plain.size) / plain.peak_bytes, 1, delta=0.02)
        self.assertLessEqual(measured(model, plain.size), 1.005 * left)
        self.assertGreater(measured(model, plain.size + 1), 0.995 * left)

    def test_the_peak_of_its_own_checkpoints(self):
        own = self.forecast(32 * MIB, checkpoints=True)["its own checkpoints"]
        self.assertAlmostEqual(measured(Language(checkpoints=True), own.size) / own.peak_bytes, 1, delta=0.03)
        self.assertGreater(own.added_cost, 0.1)

    def test_the_plan_can_be_run(self):
        forecast = self.forecast(32 * MIB, checkpoints=True)
        plain, own, ours = forecast["plain"], forecast["its own checkpoints"], forecast["isthmus"]
        self.assertLess(plain.size, own.size)
        self.assertLess(own.size, ours.size)
        self.assertLess(forecast[f"isthmus at {own.size}"].added_cost, own.added_cost)
        torch.compiler.reset()
        isthmus.torch.reset()
        budget = forecast.ledger.left_bytes + MIB // 4  # the generator's state of a CPU, and workspaces, are more than a GPU's
        model = isthmus.torch.fit(Language(), budget=budget)
        self.assertLessEqual(measured(model, ours.size), budget)

    def test_chunks(self):
        """The logits are most of this step: in chunks, longer batches fit."""
        settings = {"optimizer": torch.optim.SGD, "reserve": 0, "effort": SHORT}
        model = on_meta(words=8000, blocks=1)
        whole, chunked = (isthmus.torch.plan_for(CONTEXT + 32 * MIB, model, batches, allow=allow, **settings) for allow in ("recompute", "recompute,chunk"))
        self.assertEqual(whole["plain"], chunked["plain"])
        self.assertGreaterEqual(chunked["isthmus"].size, 2 * whole["isthmus"].size)

    def test_where_the_model_lies_makes_no_difference(self):
        want = str(self.forecast(16 * MIB))
        self.assertEqual(str(self.forecast(16 * MIB, Language())), want)
        with FakeTensorMode():
            fake = Language()
        self.assertEqual(str(self.forecast(16 * MIB, fake)), want)

    def test_what_takes_the_bytes(self):
        model = on_meta()
        forecast = isthmus.torch.plan_for("2GB", model, batches, optimizer=torch.optim.AdamW, reserve="10%", effort=SHORT)
        lines = dict(forecast.ledger.lines())
        parameters = sum(-(-4 * p.numel() // 512) * 512 for p in model.parameters())
        self.assertEqual(lines["parameters"], -parameters)
        self.assertEqual(lines["state of AdamW, worked out before its first step"], -2 * parameters)
        self.assertEqual((lines["CUDA context"], lines["reserve"]), (-CONTEXT, -200_000_000))
        self.assertEqual(lines["inputs"], (-forecast["isthmus"].size * LENGTH * 8 // 512) * 512)
        self.assertEqual(sum(size for name, size in lines.items() if not name.startswith("left")), forecast.ledger.left_bytes)

    def test_frozen_parameters_need_no_state_and_no_gradients(self):
        model = on_meta()
        for p in model.blocks.parameters():
            p.requires_grad_(False)
        forecast = isthmus.torch.plan_for("2GB", model, batches, optimizer=torch.optim.AdamW(p for p in model.parameters() if p.requires_grad), effort=SHORT)
        trained = sum(4 * p.numel() for p in model.parameters() if p.requires_grad)
        self.assertEqual(forecast.ledger.gradient_bytes, trained)
        self.assertEqual(forecast.ledger.state_to_come, 2 * trained)


class Sizes(unittest.TestCase):
    def test_a_model_that_no_machine_can_hold(self):
        model = on_meta(words=1 << 20, width=1 << 18, blocks=1)
        self.assertGreater(sum(4 * p.numel() for p in model.parameters()), 4 << 40)
        forecast = isthmus.torch.plan_for("100TB", model, batches, optimizer=torch.optim.SGD, effort=SHORT)
        self.assertGreater(forecast["plain"].size, 0)
        self.assertEqual(isthmus.torch.plan_for("5TB", model, batches, effort=SHORT)["isthmus"].size, 0)

    def test_several_totals_and_a_length_that_grows_as_a_square(self):
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.all = nn.Linear(WIDTH, 3 * WIDTH)

            def forward(self, x):
                q, k, v = self.all(x).chunk(3, -1)
                return (torch.softmax(q @ k.transpose(-1, -2), -1) @ v).square().mean()

        small, large = isthmus.torch.plan_for(["2GB", "8GB"], Attention(), lambda length: torch.zeros(2, length, WIDTH), effort=SHORT)
        self.assertEqual(small.unit, "length")
        self.assertTrue(1.9 < (large["plain"].size / small["plain"].size) < 3, (small, large))

    def test_a_branch_on_the_size_is_traced_on_both_sides(self):
        class Branches(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(WIDTH, WIDTH)

            def forward(self, x):
                x = self.layer(x)
                for _ in range(8 if x.shape[0] > 1000 else 1):
                    x = x.sin()
                return x.square().mean()

        narrow = isthmus.torch.plan_for(CONTEXT + 100 * MIB, Branches(), lambda rows: torch.zeros(rows, WIDTH), reserve=0)["plain"]
        self.assertLess(narrow.size, 100 * MIB // (WIDTH * 4 * 8))

    def test_a_size_that_the_model_takes_for_a_constant(self):
        class Constant(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(WIDTH, WIDTH)

            def forward(self, x):
                parts = [self.layer(row) for row in x]  # a loop over the batch
                return torch.stack(parts).square().mean()

        forecast = isthmus.torch.plan_for(CONTEXT + 2 * MIB, Constant(), lambda batch: torch.zeros(batch, 256, WIDTH), reserve=0)
        self.assertTrue(2 < forecast["plain"].size < 32, forecast)

    def test_messages_end_no_graph(self):
        class Talks(Language):
            def forward(self, ids):
                LOGGER.warning("a batch of %d", ids.shape[0])
                print("a batch")
                warnings.warn("a batch")
                return super().forward(ids)

        with torch.device("meta"):
            model = Talks()
        talks, silent = (isthmus.torch.plan_for("600MB", m, batches, effort=SHORT)["plain"] for m in (model, on_meta()))
        self.assertEqual(talks, silent)

    def test_inputs_of_one_size(self):
        model = on_meta()
        self.assertEqual(isthmus.torch.plan_for("2GB", model, batches(4), effort=SHORT)["plain"].size, 1)
        self.assertEqual(isthmus.torch.plan_for("600MB", model, batches(4000), effort=SHORT)["plain"].size, 0)

    def test_the_largest_size(self):
        for limit in (0, 1, 2, 3, 17, 1000, 123457):
            for excess in (lambda n: n - limit, lambda n: n * n - limit * limit, lambda n: 10**9 * (1 if n > limit else -1)):
                asked = []
                self.assertEqual(largest(lambda n: asked.append(n) or excess(n)), limit)
                self.assertLess(len(asked), 70)


class Refused(unittest.TestCase):
    def refused(self, text, model, inputs=batches, total="2GB", **options):
        with self.assertRaisesRegex(isthmus.BadInput, text):
            isthmus.torch.plan_for(total, model, inputs, **options)

    def test_what_cannot_be_planned(self):
        class Breaks(Language):
            def forward(self, ids):
                torch._dynamo.graph_break()
                return super().forward(ids)

        class Raises(Language):
            def forward(self, ids):
                raise ValueError("no such length")

        with torch.device("meta"):
            self.refused("as one graph, and PyTorch ends it: ", Breaks())
            self.refused(r"exception ValueError\('no such length'\).* \(.*plan_for_test.py:\d+ in forward\)", Raises())
        frozen = on_meta()
        frozen.requires_grad_(False)
        self.refused("needs a gradient", frozen)
        self.refused("not the model's", on_meta(), optimizer=torch.optim.SGD(nn.Linear(2, 2).parameters()))
        self.refused("'24GB'; got 'gpu'", on_meta(), total="gpu")
        self.refused("leave out budget", on_meta(), budget="50%")
        self.refused("no option .* 'effort'", on_meta(), efort=1)


if __name__ == "__main__":
    command.main()
