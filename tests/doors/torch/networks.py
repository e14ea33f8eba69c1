"""Networks that tests and measurements share."""

import torch
import torch.nn.functional as F
from torch import nn


def conv(before, after):
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(inplace=True))


class ResNet(nn.Module):
    def __init__(self, width=16, blocks=4):
        super().__init__()
        self.stem = conv(3, width)
        self.blocks = nn.ModuleList([nn.Sequential(conv(width, width), nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)) for _ in range(blocks)])
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = F.relu(x + block(x))
        return self.head(x.mean((2, 3)))


class UNet(nn.Module):
    """A U-Net. level: makes the module of a level from its numbers of input and output channels. widths: the channels of the input and
    of each level."""

    def __init__(self, level, widths):
        super().__init__()
        self.down = nn.ModuleList([level(a, b) for a, b in zip(widths, widths[1:])])
        self.up = nn.ModuleList([level(3 * w, w) for w in widths[-2:0:-1]])
        self.head = nn.Conv2d(widths[1], 2, 1)

    def forward(self, x):
        kept = []
        for level, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for up, skip in zip(self.up, kept[-2::-1]):
            x = up(torch.cat([F.interpolate(x, scale_factor=2), skip], 1))
        return self.head(x)


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (x.sin() + x * x.cos())


class CustomFunction(nn.Module):
    """Calls a function with its own backward."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(5)])

    def forward(self, x):
        for layer in self.layers:
            x = x + Sine.apply(layer(x))
        return x


class Counter(nn.Module):
    """Overwrites buffers that its forward and backward read."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(4)])
        self.register_buffer("scale", torch.ones(64))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        for layer in self.layers:
            x = torch.sin(self.scale * 1.5) * layer(x) * (self.scale.view(8, 8) * 2).view(64)
        self.scale.add_(0.1 * x.detach().mean(0))
        self.count.add_(1)
        return x
