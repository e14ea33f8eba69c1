"""Exports modules of rows, tokens and indices with both of PyTorch's exporters, and compares loss and gradients with PyTorch's. Dropout and second
derivatives are compared too."""

import command

command.with_python_of_torch()

import json  # noqa: E402
import os  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch_export import export  # noqa: E402
from torch_modules import IDS, IMAGE, ROWS, TOKENS, Function, ModuleCase, seq, torch_loss  # noqa: E402


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.inner = nn.Linear(6, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(torch.tanh(self.inner(self.embed(ids))))


class Attention(nn.Module):
    """Causal attention with two heads, written as single operations."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x):
        batch, tokens, width = x.shape
        split = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = split[0], split[1], split[2]
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        places = torch.arange(tokens)
        weights = scores.masked_fill(places[:, None] < places, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, width))


class Outputs(nn.Module):
    """The outputs of a recurrent network, without its last state."""

    def __init__(self, kind, *args, **options):
        super().__init__()
        self.net = kind(*args, batch_first=True, **options)

    def forward(self, x):
        return self.net(x)[0]


class ClassLoss(nn.Module):
    """A loss over classes inside the model; its labels are constants."""

    def __init__(self, loss, classes=4, **options):
        super().__init__()
        self.inner = nn.Linear(6, classes)
        self.loss, self.options = loss, options
        self.register_buffer("labels", torch.tensor([1, 3, 0]))
        self.register_buffer("weight", torch.tensor([0.5, 1.0, 2.0, 0.25]))

    def forward(self, x):
        y = self.inner(x)
        if self.loss is F.nll_loss:
            y = y.log_softmax(1)
        return self.loss(y, self.labels, weight=self.weight if self.options.get("weighted") else None,
                         ignore_index=self.options.get("ignore", -100), reduction=self.options.get("reduction", "mean"))


def mlp(activation):
    return lambda: nn.Sequential(nn.Linear(6, 9), activation, nn.Linear(9, 5))


class Modules(ModuleCase):
    cases = {
        "linear": (seq(nn.Linear(6, 5)), ROWS, "mse"),
        "linear_no_bias": (seq(nn.Linear(6, 5, bias=False)), ROWS, "cross_entropy"),
        "linear_3d": (seq(nn.Linear(8, 5)), TOKENS, "mse"),
        **{
            f"mlp_{type(a).__name__.lower()}{suffix}": (mlp(a), ROWS, "mse")
            for a, suffix in [
                (nn.ReLU(), ""), (nn.Tanh(), ""), (nn.Sigmoid(), ""), (nn.SiLU(), ""), (nn.GELU(), ""), (nn.GELU("tanh"), "_tanh"),
                (nn.LeakyReLU(0.1), ""), (nn.Softplus(), ""), (nn.ELU(), ""), (nn.ReLU6(), ""), (nn.Hardtanh(-0.7, 0.4), ""),
                (nn.Softmax(-1), ""), (nn.LogSoftmax(-1), ""), (nn.Hardswish(), ""), (nn.Hardsigmoid(), ""), (nn.Identity(), ""),
            ]
        },
        "exp_log": (lambda: Function(lambda m, x: torch.log(1 + torch.exp(m.a * x)), a=[6]), ROWS, "mse"),
        "sqrt_div": (lambda: Function(lambda m, x: x / torch.sqrt(m.a * m.a + 1), a=[6]), ROWS, "mse"),
        "powers": (lambda: Function(lambda m, x: (x * m.a) ** 2 + (m.a.abs() + 0.5) ** 1.5, a=[6]), ROWS, "mse"),
        "sin_cos": (lambda: Function(lambda m, x: torch.sin(m.a * x) - torch.cos(x), a=[6]), ROWS, "mse"),
        "where": (lambda: Function(lambda m, x: torch.where(x > 0.1, m.a * x, -m.a), a=[6]), ROWS, "mse"),
        "minimum_maximum": (lambda: Function(lambda m, x: torch.maximum(m.a, x) * torch.minimum(m.b, x), a=[6], b=[6]), ROWS, "mse"),
        # For these, the exporters' optimizers make two tensors from one parameter.
        "gate": (lambda: Function(lambda m, x: x * m.a + torch.tanh(x) * (1 - m.a), a=[1, 6]), ROWS, "mse"),
        "there_and_back": (lambda: Function(lambda m, x: x + (1 / m.a) * torch.sin(m.a * x) ** 2, a=[6]), ROWS, "mse"),
        "broadcast": (lambda: Function(lambda m, x: x * m.a + m.b, a=[3, 1], b=[1]), ROWS, "mse"),
        "reductions": (lambda: Function(lambda m, x: (m.a * x).mean(1, keepdim=True) + (m.a * x).sum(0) + (m.a * x).amax(1, keepdim=True), a=[6]),
                       ROWS, "mse"),
        "lstm": (lambda: Outputs(nn.LSTM, 8, 5), TOKENS, "mse"),
        "lstm_two_ways": (lambda: Outputs(nn.LSTM, 8, 3, num_layers=2, bidirectional=True), TOKENS, "mse"),
        "gru": (lambda: Outputs(nn.GRU, 8, 5), TOKENS, "mse"),
        "gru_two_ways": (lambda: Outputs(nn.GRU, 8, 3, num_layers=2, bidirectional=True), TOKENS, "mse"),
        "rnn_relu": (lambda: Outputs(nn.RNN, 8, 5, nonlinearity="relu", bias=False), TOKENS, "mse"),
        "inner_cross_entropy": (lambda: ClassLoss(F.cross_entropy, ignore=3), ROWS, "mse"),
        "inner_cross_entropy_weighted": (lambda: ClassLoss(F.cross_entropy, weighted=True, ignore=0), ROWS, "mse"),
        "inner_nll": (lambda: ClassLoss(F.nll_loss, weighted=True, reduction="sum"), ROWS, "mse"),
        "inner_nll_each": (lambda: ClassLoss(F.nll_loss, ignore=1, reduction="none"), ROWS, "mse"),
        "batch_norm1d": (seq(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh()), ROWS, "mse"),
        "layer_norm": (seq(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3)), TOKENS, "mse"),
        "layer_norm_two_axes": (seq(nn.LayerNorm((5, 8)), nn.Linear(8, 3)), TOKENS, "mse"),
        "layer_norm_plain": (seq(nn.Linear(8, 8), nn.LayerNorm(8, elementwise_affine=False)), TOKENS, "mse"),
        "embedding": (lambda: nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 4)), IDS, "mse"),
        "tied_weights": (Tied, IDS, "cross_entropy"),
        "attention": (Attention, TOKENS, "mse"),
        "softmax": (lambda: Function(lambda m, x: (m.a * x).softmax(0), a=[6]), ROWS, "mse"),
        "concat": (lambda: Function(lambda m, x: torch.cat([m.a * x, x, m.a * m.a * x], 1), a=[6]), ROWS, "mse"),
        "split": (lambda: Function(lambda m, x: (lambda p: p[0] * p[1] + p[2])((m.a * x).split(2, 1)), a=[6]), ROWS, "mse"),
        "chunks_of_different_size": (lambda: Function(lambda m, x: (lambda p: p[0].sum(1, keepdim=True) * p[1])((m.a * x).split([4, 2], 1)), a=[6]),
                                     ROWS, "mse"),
        "slices": (lambda: Function(lambda m, x: (m.a * x)[:, 1:5:2] * (m.a * x)[1:, -2:].sum(), a=[6]), ROWS, "mse"),
        "reshape_permute": (lambda: Function(lambda m, x: (m.a * x).permute(2, 0, 1).reshape(8, -1).unsqueeze(1), a=[8]), TOKENS, "mse"),
        "expand_repeat": (lambda: Function(lambda m, x: (m.a.expand(3, 6) * x).repeat(2, 1), a=[1, 6]), ROWS, "mse"),
        "pad": (lambda: Function(lambda m, x: F.pad(m.a * x, (1, 2), value=0.5), a=[6]), ROWS, "mse"),
        "pad_negative": (lambda: Function(lambda m, x: F.pad(m.a * x, (-1, 2)), a=[6]), ROWS, "mse"),
        "matmul": (lambda: Function(lambda m, x: m.a @ x @ m.b, a=[5, 5], b=[2, 8, 3]), TOKENS, "mse"),
        "gather_rows": (lambda: Function(lambda m, x: (m.a * x)[torch.tensor([2, 0, 2])], a=[6]), ROWS, "mse"),
        "glu": (seq(nn.Linear(6, 8), nn.GLU()), ROWS, "mse"),
        # PyTorch treats a scalar as a vector of one element, and the exporters write its axis.
        "axes_of_scalars": (
            lambda: Function(lambda m, x: (lambda s: s.logsumexp(0, keepdim=True) + s.cumsum(-1) + s.norm(dim=0) + s.topk(1)[0] * s.softmax(0)
                                           + s.max(0)[0] + s.index_select(0, torch.tensor([0])) * x[0].mean())((m.a * x).sum()), a=[6]),
            ROWS, "mse"),
        "loss_of_one_sample": (lambda: Function(lambda m, x: F.cross_entropy((m.a * x)[0], torch.tensor(2)), a=[6]), ROWS, "mse"),
        "norm_of_zeros": (lambda: Function(lambda m, x: F.normalize(F.pad(m.a * x, (0, 0, 0, 2)), dim=-1), a=[6]), ROWS, "mse"),
        "stft": (lambda: Function(lambda m, x: torch.stft(m.a * x, 4, 2, window=x.new_ones(4), center=False, return_complex=False), a=[6]),
                 ROWS, "mse"),
        # An Identity of a parameter, or of a constant, is no parameter of its own.
        "clone_of_a_parameter": (lambda: Function(lambda m, x: m.a.clone() * x + m.a * torch.tensor([1.0, 2, 3, 4, 5, 6]), a=[6]), ROWS, "mse"),
    }


Modules.add_tests()


def drop_path(x, keep=0.8):
    return x * x.new_empty((x.shape[0],) + (1,) * (x.dim() - 1)).bernoulli_(keep).div_(keep)


def older_drop_path(x, keep=0.8):
    return x.div(keep) * torch.floor(keep + torch.rand((x.shape[0],) + (1,) * (x.dim() - 1)))


class Dropouts(command.TestCase):
    """Dropout works in training and not in evaluation, however the exporter writes it; gradients are compared too."""

    WRITTEN_OUT = [
        ("of_places", lambda: Function(lambda m, x: F.dropout(m.a * x, 0.25, m.training, inplace=True), a=[8])),
        ("of_signals", lambda: nn.Dropout1d(0.3)),
        ("alpha", lambda: nn.AlphaDropout(0.3)),
        ("alpha_of_signals", lambda: nn.FeatureAlphaDropout(0.4)),
        ("paths", lambda: Function(lambda m, x: x + drop_path(m.a * x) if m.training else x + m.a * x, a=[8])),
        ("paths_by_floor", lambda: Function(lambda m, x: x + older_drop_path(m.a * x) if m.training else x + m.a * x, a=[8])),
        ("bernoulli", lambda: Function(lambda m, x: m.a * x * torch.empty_like(x).bernoulli_(0.7) / 0.7 if m.training else m.a * x, a=[8])),
        ("compared", lambda: Function(lambda m, x: m.a * x * (torch.rand_like(x) > 0.3) * (1 / 0.7) if m.training else m.a * x, a=[8])),
        ("filled", lambda: Function(
            lambda m, x: (m.a * x / 0.7).masked_fill(torch.rand(x.shape) < 0.3, 0.0) if m.training else m.a * x, a=[8])),
    ]
    BY_OLDER = {"paths", "paths_by_floor", "bernoulli", "compared", "filled"}  # the older exporter rejects the rest

    def test_written_out(self):
        for name, maker in self.WRITTEN_OUT:
            for exporter in ["dynamo20", "default"] + ["ts17"] * (name in self.BY_OLDER):
                with self.subTest(f"{name} {exporter}"):
                    self.check(nn.Sequential(nn.Linear(8, 8), maker(), nn.Linear(8, 3)), torch.randn(TOKENS), exporter)

    def test_of_channels(self):
        for layer, shape in (nn.Dropout2d(0.3), IMAGE), (nn.Dropout3d(0.3), (1, 4, 3, 5, 2)):
            with self.subTest(type(layer).__name__):
                conv = {4: nn.Conv2d, 5: nn.Conv3d}[len(shape)]
                self.check(nn.Sequential(conv(4, 5, 1), layer, conv(5, 2, 1)), torch.randn(shape), "dynamo20")

    def check(self, module, x, exporter):
        older = {"training": torch.onnx.TrainingMode.PRESERVE} if exporter.startswith("ts") else {}
        export(module.train(), x, self.path("m.onnx"), exporter, **older)
        y = module.eval()(x)
        target = torch.randn(y.shape)
        loss = F.mse_loss(y, target)
        last = list(module.named_parameters())[-1][0]  # some exporters transpose weights; biases stay as they are
        want = {"y": y, "loss": loss, f"grad.{last}": torch.autograd.grad(loss, [dict(module.named_parameters())[last]])[0]}
        os.makedirs(self.path("in"), exist_ok=True)
        np.save(self.path("in/x.npy"), x.numpy())
        np.save(self.path("in/target.npy"), target.numpy())
        self.run_ok("import", "m.onnx", "-o", "m.isth")
        for file in "m.onnx", "m.isth":
            got = self.outputs(file, "--eval")
            for name, tensor in want.items():
                np.testing.assert_allclose(got[name], tensor.detach().numpy(), rtol=1e-4, atol=1e-5, err_msg=f"{file} {name}")
            self.assertFalse(np.allclose(self.outputs(file)["y"], got["y"], atol=1e-3), "nothing was dropped in training")

    def outputs(self, file, *options):
        self.run_ok("run", file, "--loss=mse", "--inputs=in", "--outputs=out", *options)
        return {n: np.load(self.path(f"out/{f}")) for f, n in json.loads(self.read("out/names.json")).items()}


class SecondDerivatives(command.TestCase):
    """Compares Hessian-vector products, by `isthmus grad` twice, with torch.autograd."""

    def test_mlp(self):
        torch.manual_seed(5)
        for activation in nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SiLU(), nn.Softplus(), nn.ReLU():
            with self.subTest(type(activation).__name__):
                self.check(nn.Sequential(nn.Linear(6, 9), activation, nn.Linear(9, 4)), torch.randn(3, 6), "mse", torch.randn(3, 4))

    def test_cross_entropy(self):
        torch.manual_seed(6)
        self.check(nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 4)), torch.randn(3, 6), "cross_entropy", torch.tensor([1, 3, 0]))

    def test_layer_norm_and_softmax(self):
        torch.manual_seed(7)
        self.check(nn.Sequential(nn.Linear(6, 9), nn.LayerNorm(9), nn.Softmax(-1), nn.Linear(9, 4)), torch.randn(3, 6), "mse", torch.randn(3, 4))

    def test_convolution(self):
        torch.manual_seed(8)
        self.check(nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(3, 2, 2, stride=2)),
                   torch.randn(2, 2, 8, 8), "mse", torch.randn(2, 2, 2, 2))

    def check(self, module, x, kind, extra):
        export(module.eval(), x, self.path("m.onnx"), "ts17")
        names = [n for n, _ in module.named_parameters()]
        key = "labels" if kind == "cross_entropy" else "target"
        os.makedirs(self.path("in"), exist_ok=True)
        for old in os.listdir(self.path("in")):
            os.remove(self.path(f"in/{old}"))
        double = module.double()
        parameters = dict(double.named_parameters())
        vectors = {n: torch.randn(p.shape) for n, p in parameters.items()}
        np.save(self.path("in/x.npy"), x.double().numpy())
        np.save(self.path(f"in/{key}.npy"), extra.numpy() if kind == "cross_entropy" else extra.double().numpy())
        for n, v in vectors.items():
            np.save(self.path(f"in/seed.grad.{n}.npy"), v.double().numpy())

        self.run_ok("grad", "m.onnx", f"--loss={kind}", "-o", "first.isth")
        listed = ",".join(f'"grad.{n}"' for n in names), ",".join(f'"{n}"' for n in names)
        self.run_ok("grad", "first.isth", f"--ys={listed[0]}", f"--xs={listed[1]}", "--grad-ys=inputs", "-o", "second.isth")
        self.run_ok("run", "second.isth", "--precision=f64", "--inputs=in", "--outputs=out")

        loss = torch_loss(kind, double(x.double()), extra if kind == "cross_entropy" else extra.double())
        first = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
        product = sum((g * vectors[n].double()).sum() for g, n in zip(first, names, strict=True))
        second = torch.autograd.grad(product, list(parameters.values()), allow_unused=True)
        of_file = {n: f for f, n in json.loads(self.read("out/names.json")).items()}
        for n, g, h in zip(names, first, second, strict=True):
            for output, w in (f"grad.{n}", g), (f"grad2.{n}", torch.zeros_like(g) if h is None else h):
                got = np.load(self.path(f"out/{of_file[output]}"))
                w = w.detach().numpy()
                off = np.abs(got - w).max()
                relative = 1e-7 if any(isinstance(m, nn.GELU) for m in module.modules()) else 1e-9
                self.assertLessEqual(off, relative * max(1e-3, np.abs(w).max()), f"{output}: off by {off}")


class SpecialNumbers(command.TestCase):
    """Values and gradients at NaN, infinities and ties, of rows that docs/ops.md says nothing else of."""

    NUMBERS = [float("nan"), float("inf"), float("-inf"), 0.0, 1.5, -1.5]
    OF_NUMBERS = {  # the op of a number, and PyTorch's
        "abs(%x)": torch.abs, "sign(%x)": torch.sign, "relu(%x)": F.relu, "elu(%x)": F.elu,
        "elu(%x) {alpha = 1.6732632423543772, scale = 1.0507009873554805}": F.selu, "leaky_relu(%x) {alpha = 0.25}": lambda x: F.leaky_relu(x, 0.25),
        "clamp(%x) {min = -1.0, max = 1.0}": lambda x: x.clamp(-1, 1), "clamp(%x) {min = 0.5}": lambda x: x.clamp(min=0.5),
        "clamp(%x) {max = 0.5}": lambda x: x.clamp(max=0.5), "gelu(%x)": F.gelu, "gelu(%x) {approximate = tanh}": lambda x: F.gelu(x, approximate="tanh"),
        "silu(%x)": F.silu, "sigmoid(%x)": torch.sigmoid, "tanh(%x)": torch.tanh, "softplus(%x)": F.softplus, "softsign(%x)": F.softsign,
        "mish(%x)": F.mish, "hard_swish(%x)": F.hardswish, "exp(%x)": torch.exp, "square(%x)": torch.square, "erf(%x)": torch.erf,
        "maximum(%x, %two)": lambda x: torch.maximum(x, torch.tensor(2.0)), "minimum(%x, %two)": lambda x: torch.minimum(x, torch.tensor(2.0)),
    }
    ROWS = [[float("nan"), 1, 2], [1, float("nan"), float("nan")], [float("inf"), float("inf"), 1], [float("inf"), float("-inf"), 0],
            [float("-inf")] * 3, [float("-inf"), 1, 2], [1, 2, 2]]
    OF_ROWS = {
        "softmax(%x) {axis = 1}": lambda x: x.softmax(1), "log_softmax(%x) {axis = 1}": lambda x: x.log_softmax(1),
        "max(%x) {axes = [1], share_ties = true}": lambda x: x.amax(1), "min(%x) {axes = [1], share_ties = true}": lambda x: x.amin(1),
        "max(%x) {axes = [1]}": lambda x: x.max(1)[0], "logsumexp(%x) {axes = [1]}": lambda x: x.logsumexp(1),
        "max_pool(%r) {kernel = [3]}": lambda x: F.max_pool1d(x[:, None], 3),
        **{f"cross_entropy(%x, %label{c}) {{axis = 1, reduction = none}}": lambda x, c=c: F.cross_entropy(x, torch.full([len(x)], c), reduction="none")
           for c in (0, 1)},
    }

    def compare(self, rows, numbers):
        count = len(rows)
        x = np.array(numbers, dtype=np.float32)
        dims = ", ".join(map(str, x.shape))
        lines = ["isthmus 2", "graph @special {"]
        lines += [f"  input %x{i} : f32[{dims}]" for i in range(count)]
        lines += ["  const %two : f32[] = [2.0]"] + [f"  const %label{c} : i64[{len(numbers)}] = [{', '.join([str(c)] * len(numbers))}]" for c in (0, 1)]
        for i, op in enumerate(rows):
            if "%r" in op:
                lines.append(f"  %r{i} = reshape(%x{i}) {{dims = [{x.shape[0]}, 1, {x.shape[1]}]}}")
            results = f"%y{i}, %rest{i}" if op.startswith("cross_entropy") else f"%y{i}"
            lines += [f"  {results} = {op.replace('%x', f'%x{i}').replace('%r', f'%r{i}')}", f"  %s{i} = sum(%y{i})"]
        lines.append("  %t0 = identity(%s0)")
        lines += [f"  %t{i} = add(%t{i - 1}, %s{i})" for i in range(1, count)]
        lines += [f"  output %y{i}" for i in range(count)] + [f"  output %t{count - 1}", "}"]
        self.write("special.isth", "\n".join(lines) + "\n")
        os.makedirs(self.path("in"))
        for i in range(count):
            np.save(self.path(f"in/x{i}.npy"), x)
        self.run_ok("run", "special.isth", f"--loss=%t{count - 1}", "--wrt=inputs", "--inputs=in", "--outputs=out", "--keep-outputs")
        for i, (op, function) in enumerate(rows.items()):
            with self.subTest(op):
                at = torch.tensor(x, requires_grad=True)
                y = function(at)
                y.sum().backward()
                np.testing.assert_allclose(np.load(self.path(f"out/y{i}.npy")).reshape(y.shape), y.detach().numpy(), rtol=1e-5, atol=1e-6)
                np.testing.assert_allclose(np.load(self.path(f"out/grad.x{i}.npy")), at.grad.numpy(), rtol=1e-5, atol=1e-6)

    def test_numbers(self):
        self.compare(self.OF_NUMBERS, self.NUMBERS)

    def test_rows(self):
        self.compare(self.OF_ROWS, self.ROWS)


if __name__ == "__main__":
    command.main()
