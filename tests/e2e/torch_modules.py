"""Shared by tests that export small modules with both of PyTorch's exporters, and compare loss and gradients with PyTorch's."""

import copy
import json
import os

import command
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch_export import EXPORTERS, export

torch.set_num_threads(2)
torch.manual_seed(0)


class Function(nn.Module):
    """A module that applies a function to the input and to parameters of these shapes."""

    def __init__(self, body, **shapes):
        super().__init__()
        self.body = body
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(torch.randn(shape)))

    def forward(self, x):
        return self.body(self, x)


def seq(*layers):
    return lambda: nn.Sequential(*layers)


IMAGE, SIGNAL, ROWS, TOKENS = (2, 4, 9, 8), (2, 4, 15), (3, 6), (2, 5, 8)
IDS = ("ids", 11, (3, 4))
# The exporter rounds constants (sqrt(2), 1/6) to f32, so that f64 results agree only to the digits of f32. The weights
# of a Resize also have the type of its operand in the file, f32.
CONSTANTS_IN_F32 = {"mlp_gelu", "mlp_gelu_tanh", "mlp_hardsigmoid",
                    "resize_bilinear", "resize_corners", "resize_bicubic", "resize_trilinear"}
# A tied parameter has one name in the file, which the exporter chooses.
NAMED_OTHERWISE = {"tied_weights": {"embed.weight": "head.weight"}}
# All cases use one exporter of each kind; cases whose nodes depend on the opset also use the others. With default
# options, the newer exporter folds batch norms and transposes weights, and the older one folds constants, so they are
# tested only on cases whose names stay.
EVERYWHERE = ("ts17", "dynamo20")
DEFAULTS = ("default", "ts_default")
BY_DEFAULT = {"linear", "mlp_relu", "conv", "conv_groups", "max_pool", "global_pool", "split", "slices", "chunks_of_different_size",
              "pad", "softmax", "matmul", "reductions", "reshape_permute", "gate", "there_and_back"}
BY_OPSET = {"linear_3d", "mlp_gelu", "mlp_gelu_tanh", "layer_norm", "reductions", "split", "slices", "pad", "attention", "batch_norm",
            "mlp_softmax", "tied_weights", "max_pool_padded", "group_norm"}


def torch_loss(kind, y, extra):
    return F.cross_entropy(y, extra) if kind == "cross_entropy" else F.mse_loss(y, extra)


class ModuleCase(command.TestCase):
    """Has a test for each case and exporter, which `add_tests` adds."""

    # By name: (maker of the module, shape of the input, loss). The ops are those for which exporters write different nodes by opset.
    cases = {}

    def make(self, name):
        """Returns the module, its input, and the loss's other operand, with values that are exact in f32."""
        torch.manual_seed(sum(map(ord, name)))
        maker, shape, kind = self.cases[name]
        module = copy.deepcopy(maker()).float()
        for buffer, value in module.named_buffers():
            if "running" in buffer:
                value.copy_(torch.rand_like(value) + 0.5)
        if shape[0] == "ids":
            x = torch.randint(0, shape[1], shape[2])
        else:
            x = torch.randn(shape)
        with torch.no_grad():
            y = module.eval()(x)
        if kind == "cross_entropy":
            extra = torch.randint(0, y.shape[1], [y.shape[0], *y.shape[2:]])
        else:
            extra = torch.randn(y.shape)
        return module, x, extra, kind

    def wanted(self, module, x, extra, kind, train):
        """Returns loss, output and gradients in f64, by name."""
        reference = copy.deepcopy(module).double().train(train)
        x = x.clone() if not x.is_floating_point() else x.double().requires_grad_()
        y = reference(x)
        loss = torch_loss(kind, y, extra.double() if extra.is_floating_point() else extra)
        loss.backward()
        found = {"loss": loss.detach(), "y": y.detach()}
        for name, p in reference.named_parameters():
            found[f"grad.{name}"] = p.grad
        if x.grad is not None:
            found["grad.x"] = x.grad
        return {name: value.numpy() for name, value in found.items()}

    def check(self, name, exporter):
        module, x, extra, kind = self.make(name)
        export(module.eval(), x, self.path("m.onnx"), exporter)
        key = "labels" if kind == "cross_entropy" else "target"
        for precision, kinds in ("f32", np.float32), ("f64", np.float64):
            folder = self.path(f"in_{precision}")
            os.makedirs(folder)
            for tensor, file in (x, "x"), (extra, key):
                array = tensor.numpy()
                np.save(f"{folder}/{file}.npy", array.astype(kinds) if array.dtype == np.float32 else array)
        has_modes = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in module.modules())
        for train in (False, True) if has_modes else (True,):
            want = self.wanted(module, x, extra, kind, train)
            if exporter.startswith("dynamo"):
                for torch_name, file_name in NAMED_OTHERWISE.get(name, {}).items():
                    want[f"grad.{file_name}"] = want.pop(f"grad.{torch_name}")
            for precision, relative in ("f64", 1e-7 if name in CONSTANTS_IN_F32 else 1e-9), ("f32", 2e-4):
                options = [] if train else ["--eval"]
                result = command.run("run", "m.onnx", f"--loss={kind}", "--wrt=all", f"--precision={precision}", *options,
                                     f"--inputs=in_{precision}", "--outputs=out", "--report=r.json", cwd=self.dir)
                self.assertEqual(result.code, 0, f"{name} {exporter} {precision}\n{result}")
                names = json.loads(self.read("out/names.json"))
                got = {n: np.load(self.path(f"out/{file}")) for file, n in names.items()}
                self.compare(got, want, relative, f"{precision} {'train' if train else 'eval'}")

    def compare(self, got, want, relative, what):
        gradients = {n for n in got if n.startswith("grad.")}
        for name, w in want.items():
            self.assertIn(name, got, what)
            g = got[name].astype(np.float64)
            self.assertEqual(g.shape, w.shape, f"{what} {name}")
            # The scale is that of the whole tensor, as elements that cancel have the rounding errors of their summands.
            # The gradient of a bias before a batch norm is only rounding.
            scale = max(1e-3 if what.startswith("f64") else 1e-2, float(np.abs(w).max(initial=0)))
            off = float(np.abs(g - w).max(initial=0))
            self.assertLessEqual(off, relative * scale, f"{what} {name}: off by {off}, of {scale}")
        self.assertEqual(gradients, {n for n in want if n.startswith("grad.")}, what)

    @classmethod
    def add_tests(cls):
        for name in cls.cases:
            exporters = [e for e in EXPORTERS if e not in DEFAULTS] if name in BY_OPSET else [*EVERYWHERE]
            for exporter in exporters + [*DEFAULTS] * (name in BY_DEFAULT):
                def body(self, name=name, exporter=exporter):
                    self.check(name, exporter)

                setattr(cls, f"test_{name}_{exporter}", body)
