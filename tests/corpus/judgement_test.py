"""Tests how the corpus finds PyTorch's parameters in an exported file, and which notes it accepts as explanations."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import command  # noqa: E402

command.with_python_of_torch()

import matching  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import torch  # noqa: E402
from notes import ABSENT, LEFT_OUT, Notes  # noqa: E402
from onnx import numpy_helper  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class First(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)[0]


class ConvNorm(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        for tensor in (self[1].weight.data, self[1].bias.data, self[1].running_mean, self[1].running_var):
            tensor.copy_(torch.rand(4) + 0.5)


class MatchingTest(command.TestCase):
    def folded(self, module, *shape):
        """Returns ({name: array} of the weights in a folded export, the module's forms)."""
        x = torch.randn(*shape)
        path = self.path("m.onnx")
        torch.onnx.export(module.eval(), (x,), path, dynamo=False, opset_version=17, do_constant_folding=True)
        tensors = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
        return {n: a for n, a in tensors.items() if a.dtype == np.float32 and a.size > 1}, list(matching.forms(module, {"x": x}))

    def match_all(self, module, *shape):
        weights, forms = self.folded(module, *shape)
        parameters = {n: matching.array(p) for n, p in module.named_parameters()}
        found = {n: matching.match(n, a, forms, parameters) for n, a in weights.items()}
        self.assertTrue(found)
        self.assertEqual([n for n, m in found.items() if not m], [])
        return weights, found

    def test_a_weight_of_one_row_is_found_once(self):
        _, found = self.match_all(nn.Linear(6, 1, bias=False), 2, 3, 6)
        self.assertEqual([[f.parameters for f in forms] for forms in found.values()], [[("weight",)]])

    def test_every_weight_of_a_folded_recurrent_layer_is_found(self):
        for net in (nn.LSTM(6, 5, num_layers=2, bidirectional=True), nn.GRU(6, 5), nn.RNN(6, 5)):
            module = First(net)
            _, found = self.match_all(module, 7, 2, 6)
            used = {p for forms in found.values() for f in forms for p in f.parameters}
            self.assertEqual(used, {n for n, _ in module.named_parameters()}, type(net).__name__)

    def test_a_transposed_weight_is_found(self):
        weights, found = self.match_all(nn.Linear(6, 5), 2, 3, 6)
        self.assertIn("transposed", [f.label for forms in found.values() for f in forms])
        self.assertTrue(any(a.shape == (6, 5) for a in weights.values()))

    def test_a_gradient_follows_a_batch_norm_into_a_convolution(self):
        module = ConvNorm()
        weights, found = self.match_all(module, 2, 3, 8, 8)
        x = torch.randn(2, 3, 8, 8)
        module.eval()(x).square().mean().backward()
        by_parameters = {n: None if p.grad is None else p.grad.numpy() for n, p in module.named_parameters()}
        leaves = {n: torch.tensor(a, requires_grad=True) for n, a in weights.items()}
        weight, bias = (next(t for t in leaves.values() if t.dim() == rank) for rank in (4, 1))
        F.relu(F.conv2d(x, weight, bias)).square().mean().backward()
        for name, leaf in leaves.items():
            np.testing.assert_allclose(found[name][0].gradient(by_parameters), leaf.grad.numpy(), rtol=1e-4, atol=1e-6)

    def test_what_is_no_parameter_has_no_match(self):
        module = nn.Linear(6, 5)
        forms = list(matching.forms(module, {"x": torch.randn(2, 6)}))
        parameters = {n: matching.array(p) for n, p in module.named_parameters()}
        self.assertEqual(matching.match("other", parameters["weight"] + 1e-6, forms, parameters), [])
        self.assertEqual(matching.match("other", parameters["bias"][:, None][:4], forms, parameters), [])


class NotesTest(command.TestCase):
    NOTES = Notes(
        [
            "note: constants, not parameters, by the exporter's graph signature: 'table' (BUFFER); the same holds for 2 others: 'a', 'b'",
            "note: parameters that the exporter names and the file does not hold: 'a.bias'",
        ]
    )

    def test_a_note_explains_what_it_names_and_as_many_as_it_counts(self):
        self.assertEqual(self.NOTES.unexplained(LEFT_OUT, {"table": "t"}), [])
        self.assertEqual(self.NOTES.unexplained(LEFT_OUT, {"table": "t", "x": "x", "y": "y"}), [])

    def test_more_than_a_note_counts_is_not_explained(self):
        found = {"table": "t", "x": "x", "y": "y", "z": "z"}
        self.assertEqual(self.NOTES.unexplained(LEFT_OUT, found), ["x", "y", "z"])

    def test_a_note_of_another_kind_explains_nothing(self):
        self.assertEqual(self.NOTES.unexplained(ABSENT, {"b.bias": "b", "c.bias": "c"}), ["b", "c"])


if __name__ == "__main__":
    command.main()
