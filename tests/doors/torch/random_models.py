"""Makes random models from a seed: layers for tokens or for pictures, with ops that are hard to split into two modules and to recompute.

GRUs are left out: PyTorch's tracing decomposes them into ops that round otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from networks import Sine

WIDTH, TOKENS, CHANNELS, SIDE = 48, 64, 16, 24


class Layer(nn.Module):
    """A layer that calls a function of itself and a tensor; its modules, parameters and buffers are attributes."""

    def __init__(self, function: Callable[..., torch.Tensor], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


# --- layers for tokens or pictures


def dropout(r: random.Random, width: int) -> nn.Module:
    return nn.Dropout(r.choice([0.1, 0.5]), inplace=r.random() < 0.3)


def activation(r: random.Random, width: int) -> nn.Module:
    return r.choice([nn.GELU(), nn.SiLU(), nn.Tanh(), nn.ReLU(), nn.Hardswish(), nn.LeakyReLU(0.1), nn.PReLU(), nn.Softplus(), nn.ELU()])


def in_place(r: random.Random, width: int) -> nn.Module:
    def function(self: Layer, x: torch.Tensor) -> torch.Tensor:
        y = x * 1.5
        y.add_(x)
        y[:, ::2].mul_(0.5)
        y[..., 1:3] = x[..., :2]
        return y.relu_() if relu else y.sub_(y.mean())

    relu = r.random() < 0.5
    return Layer(function)


def custom_function(r: random.Random, width: int) -> nn.Module:
    return Layer(lambda self, x: Sine.apply(x * 0.5) + x)


def doubles(r: random.Random, width: int) -> nn.Module:
    return Layer(lambda self, x: x + 0.1 * x.double().cumsum(1).tanh().float())


def halves(r: random.Random, width: int) -> nn.Module:
    return Layer(lambda self, x: x + F.silu(x.bfloat16() * 0.5).float())


def autocast(r: random.Random, width: int) -> nn.Module:
    def function(self: Layer, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = self.linear(x.flatten(1)[:, :64])
        return x + y.float().mean()

    return Layer(function, linear=nn.Linear(64, 32))


def buffers(r: random.Random, width: int) -> nn.Module:
    def function(self: Layer, x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x) * (self.scale * 1.5)
        self.scale.mul_(0.9).add_(0.1 * x.detach().abs().mean())
        self.count.add_(1)
        return y * (1 + 0.1 * self.count) if late else y

    late = r.random() < 0.5
    return Layer(function, scale=torch.ones(1), count=torch.zeros(()))


def where(r: random.Random, width: int) -> nn.Module:
    return Layer(lambda self, x: torch.where(x > 0, x, 0.5 * x.exp().clamp(max=2)).masked_fill(x.abs() < 0.05, 0.01))


def noise(r: random.Random, width: int) -> nn.Module:
    kind = r.choice(["randn", "bernoulli", "rrelu", "uniform"])

    def function(self: Layer, x: torch.Tensor) -> torch.Tensor:
        if kind == "randn":
            return x + 0.1 * torch.randn_like(x) * x
        if kind == "bernoulli":
            return x * torch.bernoulli(torch.full_like(x, 0.8))
        if kind == "rrelu":
            return F.rrelu(x, training=True)
        return x * torch.empty_like(x).uniform_(0.9, 1.1)

    return Layer(function)


def outer_parameter(r: random.Random, width: int) -> nn.Module:
    return Layer(lambda self, x: x * self.p.expand_as(x) + self.p.view(1, -1).sum(), p=nn.Parameter(torch.full((1,), 0.9)))


BOTH = [dropout, activation, in_place, custom_function, doubles, halves, autocast, buffers, where, noise, outer_parameter]


# --- layers for tokens: [batch, tokens, width]


def linear(r: random.Random, width: int) -> nn.Module:
    return nn.Linear(width, width, bias=r.random() < 0.7)


def mlp(r: random.Random, width: int) -> nn.Module:
    inner = nn.Sequential(nn.Linear(width, 4 * width), r.choice([nn.GELU(), nn.ReLU(inplace=True)]), nn.Dropout(0.1), nn.Linear(4 * width, width))
    return Layer(lambda self, x: x + self.inner(x), inner=inner)


def layer_norm(r: random.Random, width: int) -> nn.Module:
    return r.choice([nn.LayerNorm(width), nn.RMSNorm(width), nn.LayerNorm(width, elementwise_affine=False)])


def attention(r: random.Random, width: int) -> nn.Module:
    drop, causal, heads = r.choice([0.0, 0.1]), r.random() < 0.5, r.choice([2, 4])

    def function(self: Layer, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, heads, d // heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=causal)
        return x + self.out(y.transpose(1, 2).reshape(b, t, d))

    return Layer(function, qkv=nn.Linear(width, 3 * width), out=nn.Linear(width, width))


def written_out_attention(r: random.Random, width: int) -> nn.Module:
    def function(self: Layer, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = torch.einsum("bid,bjd->bij", q, k) / 7
        return x + F.dropout((scores + self.bias).softmax(-1), 0.1) @ v

    return Layer(function, qkv=nn.Linear(width, 3 * width), bias=nn.Parameter(torch.zeros(TOKENS, TOKENS)))


def views(r: random.Random, width: int) -> nn.Module:
    def function(self: Layer, x: torch.Tensor) -> torch.Tensor:
        a, b, c = x.split([16, 16, 16], -1)
        m = x.mean(-1, keepdim=True).expand_as(x)
        y = torch.cat([c, a * b, a], -1) + m
        parts = y.permute(1, 0, 2).chunk(2)
        z = torch.cat([parts[1], parts[0]]).transpose(0, 1)
        rows = torch.stack([t.squeeze(1) for t in z[:, :2].split(1, 1)], 1)
        return torch.cat([rows.relu(), z[:, 2:]], 1).reshape(x.shape)

    return Layer(function)


def unfolded(r: random.Random, width: int) -> nn.Module:
    return Layer(lambda self, x: x + 0.1 * F.pad(x, (1, 1)).unfold(-1, 3, 1).amax(-1) + x.flatten(1).as_strided(x.shape, x.stride()).cos())


def gather(r: random.Random, width: int) -> nn.Module:
    def function(self: Layer, x: torch.Tensor) -> torch.Tensor:
        best, places = x.topk(4, 1)
        y = x.index_select(1, self.order) + x[:, self.order] * 0.5
        y = y.scatter_add(1, places, best)
        return y + torch.gather(x, 2, x.detach().argsort(-1)) * 0.1

    return Layer(function, order=torch.randperm(TOKENS, generator=torch.Generator().manual_seed(r.randrange(99))))


def index_put(r: random.Random, width: int) -> nn.Module:
    def function(self: Layer, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:, self.some] = x[:, self.some] * 2
        y.index_add_(1, self.some, x[:, : len(self.some)])
        return y

    return Layer(function, some=torch.tensor([3, 1, 7]))


def recurrence(r: random.Random, width: int) -> nn.Module:
    def function(self: Layer, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros_like(x[:, 0])
        states = []
        for k in range(5):
            h = torch.tanh(self.cell(torch.cat([x[:, k], h], -1)))
            states.append(h)
        return x + F.pad(torch.stack(states, 1), (0, 0, 0, TOKENS - 5))

    return Layer(function, cell=nn.Linear(2 * width, width))


def transposed_linear(r: random.Random, width: int) -> nn.Module:
    return Layer(lambda self, x: torch.baddbmm(x, x @ self.w, self.w.t().expand(x.shape[0], -1, -1), alpha=0.1), w=nn.Parameter(torch.randn(width, width) / 10))


TOKEN_LAYERS = [linear, mlp, mlp, layer_norm, attention, attention, written_out_attention, views, unfolded, gather, index_put, recurrence, transposed_linear]


# --- layers for pictures: [batch, channels, side, side]


def conv(r: random.Random, width: int) -> nn.Module:
    groups = r.choice([1, 1, 4])
    return nn.Conv2d(width, width, 3, padding=1, groups=groups, bias=r.random() < 0.5)


def conv_norm_relu(r: random.Random, width: int) -> nn.Module:
    inner = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
    return inner if r.random() < 0.5 else Layer(lambda self, x: (self.inner(x) * 2).add_(x), inner=inner)


def norm(r: random.Random, width: int) -> nn.Module:
    return r.choice([nn.BatchNorm2d(width), nn.GroupNorm(4, width), nn.InstanceNorm2d(width, affine=True, track_running_stats=True)])


def channel_dropout(r: random.Random, width: int) -> nn.Module:
    return nn.Dropout2d(0.2)


def pooled(r: random.Random, width: int) -> nn.Module:
    def function(self: Layer, x: torch.Tensor) -> torch.Tensor:
        y, places = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(y.tanh(), places, 2) + x

    return Layer(function)


def resized(r: random.Random, width: int) -> nn.Module:
    mode = r.choice(("nearest", "bilinear", "bicubic"))
    return Layer(lambda self, x: x + F.interpolate(F.avg_pool2d(x, 2), scale_factor=2, mode=mode))


def branches(r: random.Random, width: int) -> nn.Module:
    return Layer(
        lambda self, x: self.join(torch.cat([self.left(x), self.right(x).relu_(), x[:, :4]], 1)),
        left=nn.Conv2d(width, 8, 1),
        right=nn.Conv2d(width, 8, 3, padding=1),
        join=nn.Conv2d(20, width, 1),
    )


def down_and_up(r: random.Random, width: int) -> nn.Module:
    return Layer(
        lambda self, x: x + self.up(self.down(x).relu()), down=nn.Conv2d(width, 2 * width, 3, 2, 1), up=nn.ConvTranspose2d(2 * width, width, 2, 2)
    )


def shuffled(r: random.Random, width: int) -> nn.Module:
    return Layer(lambda self, x: F.pixel_unshuffle(F.pixel_shuffle(x.flip(-1), 2).roll(1, 2), 2) + x.movedim(1, -1).contiguous().movedim(-1, 1))


def gate(r: random.Random, width: int) -> nn.Module:
    return Layer(lambda self, x: x * self.fc(x.mean((2, 3))).sigmoid()[:, :, None, None], fc=nn.Linear(width, width))


def channels_last(r: random.Random, width: int) -> nn.Module:
    return Layer(lambda self, x: self.inner(x.to(memory_format=torch.channels_last)), inner=nn.Conv2d(width, width, 3, padding=1))


PICTURE_LAYERS = [conv, conv_norm_relu, conv_norm_relu, norm, channel_dropout, pooled, resized, branches, down_and_up, shuffled, gate, channels_last]


class RandomModel(nn.Module):
    """A random model. Some layers run twice with the same weights, and the results of some have losses of their own."""

    def __init__(self, seed: int, most_layers: int = 14) -> None:
        super().__init__()
        r = random.Random(seed)
        torch.manual_seed(seed)
        self.of_tokens = r.random() < 0.5
        depth = r.randint(4, most_layers)
        width = WIDTH if self.of_tokens else CHANNELS
        kinds = TOKEN_LAYERS if self.of_tokens else PICTURE_LAYERS
        made: list[nn.Module] = []
        self.names: list[str] = []
        for _ in range(depth):
            if made and r.random() < 0.15:
                k = r.randrange(len(made))
                made.append(made[k])
                self.names.append(f"again {k}")
            else:
                kind = r.choice(kinds if r.random() < 0.65 else BOTH)
                made.append(kind(r, width))
                self.names.append(kind.__name__)
        self.layers = nn.ModuleList(made)
        self.losses = sorted(r.sample(range(depth), r.randint(0, min(2, depth - 1))))
        self.skips = {k: r.randrange(k) for k in range(1, depth) if r.random() < 0.2}
        batch = r.choice([4, 8])
        if self.of_tokens:
            self.start: nn.Module = nn.Embedding(50, WIDTH)
            self.head = nn.Linear(WIDTH, 50, bias=False)
            if r.random() < 0.4:
                self.head.weight = self.start.weight
            self.x = torch.randint(0, 50, (batch, TOKENS))
            self.y = torch.randint(0, 50, (batch, TOKENS))
        else:
            self.start = nn.Conv2d(3, CHANNELS, 3, padding=1)
            self.head = nn.Linear(CHANNELS, 10)
            self.x = torch.randn(batch, 3, SIDE, SIDE)
            self.y = torch.randint(0, 10, (batch,))

    def forward(self) -> list[torch.Tensor]:
        """Returns the losses."""
        h = self.start(self.x)
        seen, losses = [], []
        for k, layer in enumerate(self.layers):
            h = layer(h)
            if k in self.skips:
                h = h + seen[self.skips[k]]
            seen.append(h)
            if k in self.losses:
                losses.append(0.1 * h.float().square().mean())
            h = h.clone() if self._written_by_next(k) else h
        h = h if self.of_tokens else h.mean((2, 3))
        out = self.head(h)
        losses.append(F.cross_entropy(out.flatten(0, -2), self.y.flatten()))
        return losses + [out.detach().argmax(-1).float().mean()]

    def _written_by_next(self, k: int) -> bool:
        """Returns True if the next layer works in place, and so needs a copy of its operand."""
        following = self.layers[k + 1] if k + 1 < len(self.layers) else None
        return isinstance(following, nn.Dropout) and following.inplace
