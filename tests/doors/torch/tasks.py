"""Small models with the data and losses that tests train them with, and what comes of a training."""

import uuid

import torch
import torch.nn.functional as F
from torch import nn

import isthmus.torch
from networks import UNet, conv
from training import train, with_isthmus


class DenseNet(nn.Module):
    def __init__(self, layers=6, growth=8):
        super().__init__()
        self.layers = nn.ModuleList([conv(3 + growth * i, growth) for i in range(layers)])
        self.head = nn.Linear(3 + growth * layers, 4)

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.head(x.mean((2, 3)))


class Transformer(nn.Module):
    def __init__(self, width=64, layers=3):
        super().__init__()
        self.tokens = nn.Embedding(100, width)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True) for _ in range(layers)])
        self.head = nn.Linear(width, 100)

    def forward(self, x):
        x = self.tokens(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Recurrent(nn.Module):
    """Runs an LSTM cell over a sequence, so that each weight is read at every step."""

    def __init__(self, width=32):
        super().__init__()
        self.tokens, self.cell, self.head = nn.Embedding(50, width), nn.LSTMCell(width, width), nn.Linear(width, 50)

    def forward(self, x):
        state, outputs = None, []
        for token in self.tokens(x).unbind(1):
            state = self.cell(token, state)
            outputs.append(state[0])
        return self.head(torch.stack(outputs, 1))


def own_cache():
    """Lets inductor find no graph that was compiled before. Its `fresh_cache` would also compile PyTorch's headers again, which takes longer."""
    return torch.compiler.config.patch(cache_key_tag=uuid.uuid4().hex)


class Outcome:
    """The results of three training steps, and the peak of a further step."""

    def __init__(self, model, loss_of, budget, kernels="aot_eager", **options):
        compiled = {} if budget is None else {"compiled": with_isthmus(budget, kernels=kernels, **options)}
        self.trained = train(model, lambda m: [loss_of(m)], **compiled)
        self.measured, self.gradients = self.trained.peak, self.trained.gradients
        self.graphs = isthmus.torch.report().graphs


def image_task(model, batch=4, size=32):
    x, y = torch.randn(batch, 3, size, size), torch.randint(0, 4, (batch,))
    return model, lambda m: F.cross_entropy(m(x), y)


def token_task(model, tokens=50, length=24):
    x, y = torch.randint(0, tokens, (4, length)), torch.randint(0, tokens, (4, length))
    return model, lambda m: F.cross_entropy(m(x).flatten(0, 1), y.flatten())


def vector_task(model):
    x = torch.randn(32, 64)
    return model, lambda m: m(x).square().mean()


def segmentation_task():
    x, y = torch.randn(2, 3, 32, 32), torch.randint(0, 2, (2, 32, 32))
    return UNet(conv, [3, 8, 16, 32]), lambda m: F.cross_entropy(m(x), y)
