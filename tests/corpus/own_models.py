"""Small models for what exporters do to parameters: shared, transposed, without dimensions, frozen."""

import torch
from model import Model, ids, rows
from torch import nn
from torch.nn import functional as F
from torchvision.ops import FrozenBatchNorm2d


class SharedLayer(nn.Module):
    """One layer that runs four times."""

    def __init__(self):
        super().__init__()
        self.start, self.layer, self.norm, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, x):
        h = self.start(x)
        for _ in range(4):
            h = self.norm(h + torch.tanh(self.layer(h)))
        return self.head(h)


class TiedHead(nn.Module):
    """A language model whose head is its embedding."""

    def __init__(self):
        super().__init__()
        self.embed, self.inner, self.head = nn.Embedding(13, 8), nn.Linear(8, 8), nn.Linear(8, 13, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(torch.tanh(self.inner(self.embed(tokens))))


class TwoTowers(nn.Module):
    """Two encoders, and a learned scale and shift without dimensions."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(6, 8), nn.Linear(5, 8)
        self.logit_scale, self.shift = nn.Parameter(torch.tensor(1.7)), nn.Parameter(torch.tensor(-0.3))

    def forward(self, a, b):
        a, b = F.normalize(self.left(a), dim=-1), F.normalize(self.right(b), dim=-1)
        return a @ b.T * self.logit_scale.exp() + self.shift


class ConstantsLikeWeights(nn.Module):
    """Float buffers in places where weights may be: a fixed projection, a table of positions, a mask, a running
    scale."""

    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(8, 8), nn.Linear(8, 5)
        self.gain = nn.Parameter(torch.rand(8) + 0.5)
        self.register_buffer("projection", torch.randn(6, 8))
        self.register_buffer("table", torch.randn(1, 7, 8))
        self.register_buffer("mask", torch.tril(torch.ones(7, 7)))
        self.register_buffer("scale", torch.tensor(0.7))

    def forward(self, x):
        h = x @ self.projection + self.table
        h = (self.mask @ self.inner(h)) * self.scale + torch.ones_like(h) * 0.1
        return self.out(F.gelu(h) * self.gain)


class FrozenNorm(nn.Module):
    """Batch norms that neither learn nor average: four buffers each."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.head = nn.Conv2d(3, 8, 3, bias=False), nn.Conv2d(8, 8, 3), nn.Linear(8, 4)
        self.norm1, self.norm2 = FrozenBatchNorm2d(8), FrozenBatchNorm2d(8)
        for norm in (self.norm1, self.norm2):
            for buffer in norm.buffers():
                buffer.copy_(torch.rand(8) + 0.5)

    def forward(self, x):
        h = F.relu(self.norm1(self.conv1(x)))
        return self.head(F.relu(self.norm2(self.conv2(h))).mean((2, 3)))


class EqualStart(nn.Module):
    """Parameters that are initially equal and are learned separately: scales of ones, shifts of zeros. They keep these
    values."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 8)
        self.norm1, self.norm2, self.out = nn.LayerNorm(8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.norm2(torch.tanh(self.b(self.norm1(self.a(x))))))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.net = kind(6, 5, batch_first=True, **options)
        self.head = nn.Linear(5 * (2 if options.get("bidirectional") else 1), 3)

    def forward(self, x):
        return self.head(self.net(x)[0])


class DecoderLoop(nn.Module):
    """A recurrent cell written as single operations and unrolled: each weight is read in every step."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], 8)
        found = []
        for i in range(x.shape[1]):
            h = self.cell(x[:, i], h)
            found.append(self.out(h))
        return torch.stack(found, 1)


class SmallUnet(nn.Module):
    def __init__(self):
        super().__init__()

        def block(i, o):
            return nn.Sequential(
                nn.Conv2d(i, o, 3, padding=1),
                nn.BatchNorm2d(o),
                nn.ReLU(),
                nn.Conv2d(o, o, 3, padding=1),
                nn.GroupNorm(2, o),
                nn.SiLU(),
            )

        self.down1, self.down2, self.middle = block(3, 8), block(8, 16), block(16, 16)
        self.up2, self.up1 = nn.ConvTranspose2d(16, 16, 2, stride=2), nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.join2, self.join1, self.head = block(32, 8), block(16, 8), nn.Conv2d(8, 3, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        b = self.join2(torch.cat([self.up2(c), b], 1))
        return self.head(self.join1(torch.cat([self.up1(b), a], 1)))


class Weighted(nn.Module):
    """Weights that are computed before they are used: normalised, masked, and a product of two."""

    def __init__(self):
        super().__init__()
        self.a = nn.utils.parametrizations.weight_norm(nn.Linear(6, 8))
        self.a.parametrizations.weight.original0.data.mul_(1.3)  # otherwise the weight would equal its own direction
        self.low, self.high, self.bias = (
            nn.Parameter(torch.randn(3, 2)),
            nn.Parameter(torch.randn(2, 8)),
            nn.Parameter(torch.randn(1, 3)),
        )
        self.register_buffer("keep", (torch.rand(8) > 0.3).float())

    def forward(self, x):
        return F.linear(torch.relu(self.a(x)), self.low @ self.high * self.keep) + self.bias


MODELS = [
    Model("own.shared_layer", SharedLayer, {"x": rows(4, 6)}),
    Model("own.tied_head", TiedHead, {"tokens": ids(13, 2, 7)}, loss="cross_entropy", class_axis=2),
    Model("own.two_towers", TwoTowers, {"a": rows(4, 6), "b": rows(4, 5)}, loss="cross_entropy"),
    Model("own.constants_like_weights", ConstantsLikeWeights, {"x": rows(2, 7, 6)}),
    Model("own.frozen_norm", FrozenNorm, {"x": rows(2, 3, 12, 12)}, loss="cross_entropy"),
    Model("own.equal_start", EqualStart, {"x": rows(4, 6)}, is_woken=False),
    Model("own.lstm", lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True), {"x": rows(2, 7, 6)}),
    Model("own.gru", lambda: Recurrent(nn.GRU), {"x": rows(2, 7, 6)}),
    Model("own.decoder_loop", DecoderLoop, {"x": rows(2, 6, 6)}),
    Model("own.unet", SmallUnet, {"x": rows(2, 3, 16, 16)}),
    Model("own.weighted", Weighted, {"x": rows(4, 6)}),
]
