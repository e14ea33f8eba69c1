"""Exports modules of pictures and signals with both of PyTorch's exporters, and compares loss and gradients with PyTorch's, also at the kinks of
functions."""

import command

command.with_python_of_torch()

import json  # noqa: E402
import os  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch_export import export  # noqa: E402
from torch_modules import IMAGE, SIGNAL, Function, ModuleCase, seq  # noqa: E402


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        return torch.relu(x + self.b(torch.relu(self.norm(self.a(x)))))


class Pictures(ModuleCase):
    cases = {
        "conv": (seq(nn.Conv2d(4, 6, 3)), IMAGE, "mse"),
        "conv_padded": (seq(nn.Conv2d(4, 6, 3, padding=1)), IMAGE, "mse"),
        "conv_strided": (seq(nn.Conv2d(4, 6, 3, stride=2, padding=1)), IMAGE, "mse"),
        "conv_strides_differ": (seq(nn.Conv2d(4, 6, (3, 2), stride=(1, 3), padding=(0, 1))), IMAGE, "mse"),
        "conv_dilated": (seq(nn.Conv2d(4, 6, 3, dilation=2, padding=2)), IMAGE, "mse"),
        "conv_groups": (seq(nn.Conv2d(4, 6, 3, groups=2)), IMAGE, "mse"),
        "conv_depthwise": (seq(nn.Conv2d(4, 8, 3, groups=4, padding=1, bias=False)), IMAGE, "mse"),
        "conv_pointwise": (seq(nn.Conv2d(4, 7, 1)), IMAGE, "cross_entropy"),
        "conv1d": (seq(nn.Conv1d(4, 6, 3, dilation=2, padding=3)), SIGNAL, "mse"),
        "conv3d": (seq(nn.Conv3d(2, 3, 3, padding=1, stride=(1, 2, 2))), (1, 2, 4, 6, 5), "mse"),
        "conv_transpose": (seq(nn.ConvTranspose2d(4, 3, 2, stride=2)), IMAGE, "mse"),
        "conv_transpose_padded": (seq(nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)), IMAGE, "mse"),
        "conv_transpose1d": (seq(nn.ConvTranspose1d(4, 3, 4, stride=3, dilation=2, bias=False)), SIGNAL, "mse"),
        "max_pool": (seq(nn.Conv2d(4, 4, 1), nn.MaxPool2d(2)), IMAGE, "mse"),
        "max_pool_padded": (seq(nn.Conv2d(4, 4, 1), nn.MaxPool2d(3, stride=2, padding=1)), IMAGE, "mse"),
        "max_pool_ceil": (seq(nn.Conv2d(4, 4, 1), nn.MaxPool2d(2, ceil_mode=True)), IMAGE, "mse"),
        "max_pool1d": (seq(nn.Conv1d(4, 4, 1), nn.MaxPool1d(3, stride=2)), SIGNAL, "mse"),
        "avg_pool": (seq(nn.Conv2d(4, 4, 1), nn.AvgPool2d(2)), IMAGE, "mse"),
        "avg_pool_padded": (seq(nn.Conv2d(4, 4, 1), nn.AvgPool2d(3, stride=2, padding=1)), IMAGE, "mse"),
        "avg_pool_padding_not_counted": (seq(nn.Conv2d(4, 4, 1), nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False)), IMAGE, "mse"),
        "global_pool": (seq(nn.Conv2d(4, 5, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 3)), IMAGE, "cross_entropy"),
        "batch_norm": (seq(nn.Conv2d(4, 5, 3, bias=False), nn.BatchNorm2d(5), nn.ReLU()), IMAGE, "mse"),
        "residual": (Residual, IMAGE, "mse"),
        "pad_reflect": (seq(nn.Conv2d(4, 4, 1), nn.ReflectionPad2d((1, 2, 3, 0))), IMAGE, "mse"),
        "pad_edge": (seq(nn.Conv2d(4, 4, 1), nn.ReplicationPad2d((1, 2, 3, 0))), IMAGE, "mse"),
        "pad_wrap": (seq(nn.Conv2d(4, 4, 1), nn.CircularPad2d((1, 2, 3, 0))), IMAGE, "mse"),
        "resize_nearest": (seq(nn.Conv2d(4, 4, 1), nn.Upsample(scale_factor=2)), IMAGE, "mse"),
        "resize_bilinear": (seq(nn.Conv2d(4, 4, 1), nn.Upsample(size=(13, 5), mode="bilinear")), IMAGE, "mse"),
        "resize_corners": (seq(nn.Conv2d(4, 4, 1), nn.Upsample(size=(13, 5), mode="bilinear", align_corners=True)), IMAGE, "mse"),
        "resize_bicubic": (seq(nn.Conv2d(4, 4, 1), nn.Upsample(size=(5, 13), mode="bicubic")), IMAGE, "mse"),
        "resize_trilinear": (seq(nn.Conv3d(2, 2, 1), nn.Upsample(size=(3, 8, 5), mode="trilinear")), (1, 2, 4, 6, 5), "mse"),
        **{
            f"grid_sample_{mode}_{padding}{'_corners' * corners}": (
                lambda mode=mode, padding=padding, corners=corners: Function(
                    lambda m, x: F.grid_sample(x, m.grid, mode, padding, bool(corners)), grid=[2, 5, 6, 2]),
                IMAGE, "mse")
            for mode, padding, corners in [("bilinear", "zeros", 0), ("bilinear", "border", 1), ("bilinear", "reflection", 0),
                                           ("nearest", "zeros", 1), ("bicubic", "zeros", 1), ("bicubic", "reflection", 0)]
        },
        "avg_pool_ceil": (seq(nn.Conv2d(4, 4, 1), nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True)), IMAGE, "mse"),
        "adaptive_pool": (seq(nn.Conv2d(4, 4, 1), nn.AdaptiveAvgPool2d((3, 2))), IMAGE, "mse"),
        "pixel_shuffle": (seq(nn.Conv2d(4, 4, 1), nn.PixelShuffle(2)), IMAGE, "mse"),
        "group_norm": (seq(nn.Conv2d(4, 4, 1), nn.GroupNorm(2, 4)), IMAGE, "mse"),
        "instance_norm": (seq(nn.Conv2d(4, 4, 1), nn.InstanceNorm2d(4, affine=True)), IMAGE, "mse"),
    }


Pictures.add_tests()


class Kinks(command.TestCase):
    """If several subgradients exist, the program chooses as PyTorch does."""

    # The inputs are small whole numbers.
    CASES = {
        "relu": F.relu, "relu6": lambda x: F.relu6(6 * x), "hardtanh": lambda x: F.hardtanh(x, -1, 2), "abs": torch.abs,
        "clamp": lambda x: x.clamp(-1, 2), "clamp_min": lambda x: x.clamp(min=1), "clamp_max": lambda x: x.clamp(max=1),
        "hardswish": lambda x: F.hardswish(3 * x), "hardsigmoid": lambda x: F.hardsigmoid(3 * x), "leaky_relu": F.leaky_relu,
        "hardswish_by_hand": lambda x: 3 * x * F.relu6(3 * x + 3) / 6, "elu": F.elu, "softshrink": lambda x: F.softshrink(x, 1.0),
        "maximum": lambda x: torch.maximum(x, x.flip(-1)) * torch.arange(6.0, dtype=x.dtype),
        "minimum_of_a_constant": lambda x: torch.minimum(x, torch.ones_like(x)),
        "max_of_all": lambda x: x.max(), "min_of_all": lambda x: x.min(), "amax_of_several": lambda x: x.amax((1, 2)),
        "max_of_one": lambda x: x.max(1)[0], "min_of_one": lambda x: x.min(2, keepdim=True)[0],
        "max_pool": lambda x: F.max_pool2d(x.relu(), 3, 2, 1), "adaptive_max_pool": lambda x: F.adaptive_max_pool2d(x, 1),
        "max_pool_ceil": lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True),
    }
    # For these, the older exporter writes the same nodes as for other functions.
    NOTED = {"amax": lambda x: x.amax(1), "amin": lambda x: x.amin(-1, keepdim=True), "detach": lambda x: x * x.detach(),
             "adaptive_avg_pool": lambda x: F.adaptive_avg_pool2d(x, (2, 4)),
             "straight_through": lambda x: (torch.round(x / 2) - x).detach() + x}

    def test_by_both_exporters(self):
        for name, body in self.CASES.items():
            for exporter in "ts17", "dynamo20":
                with self.subTest(f"{name} {exporter}"):
                    self.check(body, exporter)

    def test_what_the_newer_exporter_notes(self):
        for name, body in self.NOTED.items():
            with self.subTest(name):
                self.check(body, "dynamo20")

    def check(self, body, exporter):
        random = np.random.default_rng(7)
        x = torch.tensor(random.integers(-2, 3, (2, 4, 5, 6)), dtype=torch.float32)
        export(Function(lambda m, x: body(x)).eval(), x, self.path("m.onnx"), exporter)
        wide = x.double().requires_grad_()
        y = body(wide)
        seed = torch.tensor(random.normal(size=y.shape))
        os.makedirs(self.path("in"), exist_ok=True)
        np.save(self.path("in/x.npy"), wide.detach().numpy())
        np.save(self.path("in/seed.y.npy"), seed.numpy())
        self.run_ok("grad", "m.onnx", "--ys=y", "--xs=x", "--grad-ys=inputs", "-o", "g.isth")
        self.run_ok("run", "g.isth", "--precision=f64", "--inputs=in", "--outputs=out")
        files = {n: f for f, n in json.loads(self.read("out/names.json")).items()}
        want = torch.autograd.grad(y, wide, seed)[0].numpy()
        np.testing.assert_allclose(np.load(self.path(f"out/{files['grad.x']}")), want, rtol=1e-6, atol=1e-7)


if __name__ == "__main__":
    command.main()
