"""Tests the comparison with PyTorch: both sides have the same networks, and PyTorch's pictures have the chosen memory
format."""

import os
import sys
import types
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "e2e"))
import command  # noqa: E402

command.with_python_of_torch()

import torch  # noqa: E402
from networks import NETWORKS, Theirs, has_pictures  # noqa: E402

OPTIONS = types.SimpleNamespace(device="cpu", precision="f32", compile=False)


class Formats(unittest.TestCase):
    def test_channels_last(self):
        """Weights and pictures have the same memory format, and the loss does not depend on it."""
        losses = []
        for last in False, True:
            torch.manual_seed(0)
            theirs = Theirs(OPTIONS, "unet", 1, channels_last=last)
            weight = next(p for p in theirs.module.parameters() if p.dim() == 4 and p.shape[1] > 1 and p.shape[2] > 1)
            self.assertEqual(weight.is_contiguous(memory_format=torch.channels_last), last)
            losses.append(theirs.module(theirs.x).double().mean().item())
        self.assertAlmostEqual(losses[0], losses[1], places=5)

    def test_the_faster_is_taken(self):
        for faster in False, True:

            class Timed(Theirs):
                def __init__(self, options, name, batch, channels_last=False):
                    self.channels_last = channels_last

                def step(self, faster=faster):
                    return 1 if self.channels_last == faster else 2

            self.assertEqual(Timed.fastest(OPTIONS, "resnet50", 1).channels_last, faster)
            self.assertFalse(Timed.fastest(OPTIONS, "gpt2", 1).channels_last)

    def test_inputs(self):
        self.assertEqual([name for name in NETWORKS if not has_pictures(name)], ["gpt2", "gpt2_512"])


if __name__ == "__main__":
    command.main()
