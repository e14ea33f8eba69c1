"""Networks that tests and measurements share."""

import torch
import torch.nn.functional as F
from torch import nn


class UNet(nn.Module):
    """Levels down and up again. level: makes one, of the channels that it reads and those that it makes; widths: those that it reads, and
    those of each level."""

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
