"""Compares the optimizers of `isthmus train` with PyTorch's: fifty steps from the same weights on the same examples."""

import command

command.with_python_of_torch()

import io  # noqa: E402
import struct  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from training import TrainCase, tensors  # noqa: E402

torch.set_num_threads(2)

BATCH, INPUTS, HIDDEN, CLASSES, STEPS = 24, 6, 16, 5, 50
NET = f"""isthmus 2
graph @net {{
  input %x : f32[{BATCH}, {INPUTS}]
  param %w1 : f32[{INPUTS}, {HIDDEN}]
  param %b1 : f32[{HIDDEN}]
  param %w2 : f32[{HIDDEN}, {CLASSES}]
  %h = matmul(%x, %w1)
  %s = add(%h, %b1)
  %a = tanh(%s)
  %y = matmul(%a, %w2)
  output %y
}}
"""
SHAPES = {"w1": (INPUTS, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, CLASSES)}

# Options, and the same optimizer in PyTorch.
OPTIMIZERS = {
    "sgd": (["--optimizer=sgd", "--lr=0.1"], lambda p: torch.optim.SGD(p, lr=0.1)),
    "sgd, weight decay": (["--optimizer=sgd", "--lr=0.1", "--weight-decay=0.01"],
                          lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01)),
    "momentum": (["--optimizer=sgd", "--lr=0.05", "--momentum=0.9", "--weight-decay=0.01"],
                 lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01)),
    "nesterov": (["--optimizer=sgd", "--lr=0.05", "--momentum=0.8", "--nesterov"],
                 lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8, nesterov=True)),
    "adam": (["--optimizer=adam", "--lr=0.01"], lambda p: torch.optim.Adam(p, lr=0.01)),
    "adam, all options": (["--optimizer=adam", "--lr=0.02", "--betas=0.8,0.95", "--eps=1e-4", "--weight-decay=0.1"],
                          lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1)),
    "adamw": (["--optimizer=adamw", "--lr=0.01"], lambda p: torch.optim.AdamW(p, lr=0.01)),
    "adamw, all options": (["--optimizer=adamw", "--lr=0.02", "--betas=0.8,0.95", "--eps=1e-4", "--weight-decay=0.1"],
                           lambda p: torch.optim.AdamW(p, lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1)),
}


class Optimizers(TrainCase):
    def setUp(self):
        super().setUp()
        draws = np.random.default_rng(0)
        self.x = draws.normal(size=(BATCH, INPUTS)).astype(np.float32)
        self.labels = draws.integers(0, CLASSES, BATCH)
        self.weights = {name: (draws.normal(size=shape) / 2).astype(np.float32) for name, shape in SHAPES.items()}
        content = io.BytesIO()
        np.savez_compressed(content, x_train=self.x, y_train=self.labels)  # one batch: only the last bits vary
        self.write("d.npz", content.getvalue())
        self.write("net.isth", NET)
        for name, value in self.weights.items():
            content = io.BytesIO()
            np.save(content, value)
            self.write(f"weights/{name}.npy", content.getvalue())

    def ours(self, precision, options):
        """Returns the losses, and the weights after the last step."""
        _, report = self.train("net.isth", "d.npz", *options, "--inputs=weights", f"--precision={precision}", f"--steps={STEPS}",
                               "--save=w.safetensors")
        found, _ = tensors(self.read("w.safetensors"))
        letter, size = ("d", 8) if precision == "f64" else ("f", 4)
        return report["loss"], {name: np.array(struct.unpack(f"<{len(found[name][2]) // size}{letter}", found[name][2])).reshape(shape)
                                for name, shape in SHAPES.items()}

    def theirs(self, dtype, make, clip=None):
        p = {name: torch.tensor(value, dtype=dtype, requires_grad=True) for name, value in self.weights.items()}
        optimizer = make(list(p.values()))
        x, labels, losses = torch.tensor(self.x, dtype=dtype), torch.tensor(self.labels), []
        for _ in range(STEPS):
            loss = torch.nn.functional.cross_entropy(torch.tanh(x @ p["w1"] + p["b1"]) @ p["w2"], labels)
            optimizer.zero_grad()
            loss.backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(list(p.values()), clip)
            optimizer.step()
            losses.append(loss.item())
        return losses, {name: value.detach().double().numpy() for name, value in p.items()}

    def check(self, options, make, clip=None):
        for precision, dtype, near in ("f64", torch.float64, 1e-12), ("f32", torch.float32, 2e-5):
            with self.subTest(precision):
                losses, weights = self.ours(precision, options)
                their_losses, their_weights = self.theirs(dtype, make, clip)
                np.testing.assert_allclose(losses, their_losses, rtol=near, atol=near)
                for name in SHAPES:
                    np.testing.assert_allclose(weights[name], their_weights[name], rtol=near, atol=near, err_msg=name)
                    self.assertGreater(abs(weights[name] - self.weights[name]).max(), 1e-2, "it has moved")

    def test_formulas(self):
        for name, (options, make) in OPTIMIZERS.items():
            with self.subTest(name):
                self.check(options, make)

    def test_clipping(self):
        """Tests a norm that all steps exceed, and one that only some exceed."""
        for clip in 0.02, 0.3:
            for name in "momentum", "adamw":
                options, make = OPTIMIZERS[name]
                with self.subTest(name, clip=clip):
                    self.check([*options, f"--clip-norm={clip}"], make, clip)


if __name__ == "__main__":
    command.main()
