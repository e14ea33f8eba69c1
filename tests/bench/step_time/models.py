"""The zoo's networks in PyTorch, layer for layer, as PyTorch's users write them.

With `checkpointed` set, the backward pass recomputes their blocks (torch.utils.checkpoint), as users do to save memory.
"""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

checkpointed = False


def block(module, *x):
    return checkpoint(module, *x, use_reentrant=False) if checkpointed else module(*x)


class Blocks(nn.Sequential):
    def forward(self, x):
        for module in self:
            x = block(module, x)
        return x


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width
        self.path = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.skip = nn.Identity()
        if stride != 1 or channels != out:
            self.skip = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu(self.path(x) + self.skip(x), inplace=True)


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels, blocks = 64, []
    for stage, number in enumerate([3, 4, 6, 3]):
        for i in range(number):
            blocks.append(Bottleneck(channels, 64 << stage, 2 if stage and not i else 1))
            channels = 4 * (64 << stage)
    return nn.Sequential(*layers, Blocks(*blocks), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class DenseLayer(nn.Module):
    def __init__(self, channels, growth):
        super().__init__()
        self.path = nn.Sequential(
            nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.Conv2d(channels, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(inplace=True), nn.Conv2d(4 * growth, growth, 3, 1, 1, bias=False),
        )  # fmt: skip

    def forward(self, *features):
        return self.path(torch.cat(features, 1))


class DenseBlock(nn.Module):
    def __init__(self, channels, growth, layers):
        super().__init__()
        self.layers = nn.ModuleList(DenseLayer(channels + i * growth, growth) for i in range(layers))

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(block(layer, *features))
        return torch.cat(features, 1)


def densenet121(growth=32):
    channels = 2 * growth
    layers = [nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]  # fmt: skip
    for number in [6, 12, 24, 16]:
        layers.append(DenseBlock(channels, growth, number))
        channels += number * growth
        layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
        if number != 16:
            layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2, 2)]
            channels //= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))

class Unet(nn.Module):
    def __init__(self, shape, width=64, depth=4, classes=2):
        super().__init__()

        def double(channels, out):
            return nn.Sequential(
                nn.Conv2d(channels, out, 3, 1, 1), nn.ReLU(inplace=True), nn.Conv2d(out, out, 3, 1, 1), nn.ReLU(inplace=True)
            )

        widths = [width << i for i in range(depth + 1)]
        self.down = nn.ModuleList(double(a, b) for a, b in zip([shape[0], *widths], widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[:-1])
        self.joined = nn.ModuleList(double(2 * w, w) for w in widths[:-1])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for layer in self.down[:-1]:
            skips.append(block(layer, x))
            x = F.max_pool2d(skips[-1], 2)
        x = block(self.down[-1], x)
        for skip, up, joined in zip(reversed(skips), reversed(self.up), reversed(self.joined), strict=True):
            x = block(joined, torch.cat([skip, up(x)], 1))
        return self.head(x)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (p.view(b, t, self.heads, w // self.heads).transpose(1, 2) for p in self.qkv(self.ln1(x)).split(w, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, w))
        return x + self.mlp(self.ln2(x))


class Gpt2(nn.Module):
    def __init__(self, depth=12, width=768, heads=12, tokens=1024, vocab=50257):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(tokens, width)
        self.blocks = Blocks(*[Block(width, heads) for _ in range(depth)])
        self.ln = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe.weight
        return (self.ln(self.blocks(x)) @ self.wte.weight.T).flatten(0, 1)
