"""Compares losses and gradients of the zoo's flows, reversible networks and their single layers with the same models in
PyTorch."""

import command

command.with_python_of_torch()

import json  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

torch.set_num_threads(2)

LIPSCHITZ = 0.9  # of a convolution of i-ResNet


def log_scaled(x, log_scale):
    """Returns x times exp(log_scale) by channel, and the log-determinant."""
    return x * log_scale.exp(), log_scale.sum() * x[0, 0].numel()


def couple(p, x, name, net, o, moves_first=False):
    """Returns the result, and the log-determinant summed over the batch."""
    additive, couplings = o["coupling"] == "additive", o["depth"] * o.get("levels", 1)
    half = x.shape[1] // 2
    first, second = x[:, :half], x[:, half:]
    stays, moves = (second, first) if moves_first else (first, second)
    by = net(stays, f"{name}.net.")
    logdet = by.new_zeros(())
    if not additive:
        parts = by.shape[1] // 2
        log_scale = torch.tanh(by[:, parts:]) * min(1, 16 / couplings)
        logdet = log_scale.sum()
        moves, by = moves * log_scale.exp(), by[:, :parts]
    moves = moves + by
    return torch.cat([moves, stays] if moves_first else [stays, moves], 1), logdet


def likelihood(z, of_data, of_weights):
    latent = 0.5 * (z * z).sum() / len(z) + 0.5 * z.shape[1] * math.log(2 * math.pi)
    logdet = of_data / len(z) + of_weights
    return {"nll": latent - logdet, "logdet": logdet, "latent": latent, "z": z}


def nice(p, x, o):
    x = x.flatten(1)
    of_data = 0

    def net(h, name):
        for i in 1, 2:
            h = torch.relu(h @ p[f"{name}fc{i}.weight"] + p[f"{name}fc{i}.bias"])
        return h @ p[f"{name}fc3.weight"] + p[f"{name}fc3.bias"]

    for i in range(1, o["depth"] + 1):
        x, logdet = couple(p, x, f"coupling{i}", net, o, i % 2 == 0)
        of_data += logdet
    z, of_weights = log_scaled(x, p["scaling.log_scale"])
    return likelihood(z, of_data, of_weights)


def conv(p, x, name, **options):
    w = p[f"{name}.weight"]
    return F.conv2d(x, w, p.get(f"{name}.bias"), padding=w.shape[-1] // 2, **options)


def multi_scale(p, x, o, step):
    latents, of_data, of_weights = [], 0, 0
    for level in range(1, o["levels"] + 1):
        x = F.pixel_unshuffle(x, 2)
        for i in range(1, o["depth"] + 1):
            x, data, weights = step(x, i, f"level{level}.step{i}.")
            of_data, of_weights = of_data + data, of_weights + weights
        if level < o["levels"]:
            x, done = x.chunk(2, 1)
            latents.append(done.flatten(1))
    return likelihood(torch.cat([*latents, x.flatten(1)], 1), of_data, of_weights)


def realnvp(p, x, o):
    def net(h, name):
        h = conv(p, h, f"{name}conv1")
        r = conv(p, torch.relu(h), f"{name}conv2")
        h = torch.relu(h + conv(p, torch.relu(r), f"{name}conv3"))
        return conv(p, h, f"{name}conv4")

    def step(x, i, name):
        return (*couple(p, x, f"{name}coupling", net, o, i % 2 == 0), 0)

    return multi_scale(p, x, o, step)


def glow(p, x, o):
    def net(h, name):
        h = torch.relu(conv(p, h, f"{name}conv1"))
        return conv(p, torch.relu(conv(p, h, f"{name}conv2")), f"{name}conv3")

    def step(x, i, name):
        x, weights = log_scaled(x + p[f"{name}actnorm.bias"], p[f"{name}actnorm.log_scale"])
        w = p[f"{name}mix.weight"]
        x = F.conv2d(x, w[:, :, None, None])
        weights = weights + torch.linalg.slogdet(w)[1] * x[0, 0].numel()
        return (*couple(p, x, f"{name}coupling", net, o), weights)

    return multi_scale(p, x, o, step)


def norm_relu(p, x, name):
    return torch.relu(F.batch_norm(x, None, None, p[f"{name}.weight"], p[f"{name}.bias"], training=True))


def norm_conv(p, x, name, number):
    return conv(p, norm_relu(p, x, f"{name}bn{number}"), f"{name}conv{number}")


def classified(p, x):
    return {"y": norm_relu(p, x, "bn").mean((2, 3)) @ p["fc.weight"] + p["fc.bias"]}


def revnet(p, x, o):
    for stage in range(1, o["levels"] + 1):
        x = norm_relu(p, conv(p, x, f"stage{stage}.in.conv", stride=1 if stage == 1 else 2), f"stage{stage}.in.bn")
        first, second = x.chunk(2, 1)
        for block in range(1, o["depth"] + 1):
            def residual(v, part):
                name = f"stage{stage}.{block}.{part}."
                return norm_conv(p, norm_conv(p, v, name, 1), name, 2)

            first = first + residual(second, "f")
            second = second + residual(first, "g")
        x = torch.cat([first, second], 1)
    return classified(p, x)


def irevnet(p, x, o):
    first, second = F.pixel_unshuffle(x, 2).chunk(2, 1)
    for stage in range(1, o["levels"] + 1):
        if stage > 1:
            first, second = F.pixel_unshuffle(first, 2), F.pixel_unshuffle(second, 2)
        for block in range(1, o["depth"] + 1):
            h = second
            for number in 1, 2, 3:
                h = norm_conv(p, h, f"stage{stage}.{block}.", number)
            first, second = second, first + h
    return classified(p, torch.cat([first, second], 1))


def iresnet(p, x, o):
    def contraction(x, name):
        w = p[f"{name}.weight"]
        sizes = w.abs()
        bound = (sizes.sum((1, 2, 3)).max() * sizes.sum((0, 2, 3)).max()).sqrt()
        return F.conv2d(x, w * (LIPSCHITZ / bound.clamp(min=LIPSCHITZ)), p[f"{name}.bias"], padding=1)

    for stage in range(1, o["levels"] + 1):
        x = F.pixel_unshuffle(x, 2)
        for block in range(1, o["depth"] + 1):
            h = contraction(F.elu(x), f"stage{stage}.{block}.conv1")
            x = x + contraction(F.elu(h), f"stage{stage}.{block}.conv2")
    return classified(p, x)


FLOWS, CLASSIFIERS = (nice, realnvp, glow), (revnet, irevnet, iresnet)

# Each kind of layer alone: its text, and a loss that depends on the whole result and on the log-determinant.
LAYERS = {
    "actnorm": ("""
  input %x : f32[2, 4, 4, 4]
  param %b : f32[4, 1, 1]
  param %s : f32[4, 1, 1]
  %c = add(%x, %b)
  %e = exp(%s)
  %y = mul(%c, %e)
  %total = sum(%s)
  %logdet = affine(%total) {scale = 16.0}
""", lambda p, x: ((x + p["b"]) * p["s"].exp(), 16 * p["s"].sum())),
    "invertible1x1": ("""
  input %x : f32[2, 4, 4, 4]
  param %w : f32[4, 4]
  %f = reshape(%w) {dims = [4, 4, 1, 1]}
  %y = conv(%x, %f)
  %one = logabsdet(%w)
  %logdet = affine(%one) {scale = 16.0}
""", lambda p, x: (F.conv2d(x, p["w"][:, :, None, None]), 16 * torch.linalg.slogdet(p["w"])[1])),
    "squeeze": ("""
  input %x : f32[2, 3, 4, 6]
  param %w : f32[3, 1, 1]
  %m = mul(%x, %w)
  %a = reshape(%m) {dims = [2, 3, 2, 2, 3, 2]}
  %t = transpose(%a) {perm = [0, 1, 3, 5, 2, 4]}
  %y = reshape(%t) {dims = [2, 12, 2, 3]}
  %logdet = sum(%w)
""", lambda p, x: (F.pixel_unshuffle(x * p["w"], 2), p["w"].sum())),
    "split": ("""
  input %x : f32[2, 4, 4, 4]
  param %w : f32[4, 1, 1]
  %m = mul(%x, %w)
  %first, %second = split(%m) {axis = 1, sizes = [1, 3]}
  %turned = sin(%first)
  %y = concat(%second, %turned) {axis = 1}
  %logdet = sum(%second)
""", lambda p, x: (lambda m: (torch.cat([m[:, 1:], m[:, :1].sin()], 1), m[:, 1:].sum()))(x * p["w"])),
    "additive_coupling": ("""
  input %x : f32[2, 4, 4, 4]
  param %w : f32[2, 2, 3, 3]
  %first, %second = split(%x) {axis = 1, sizes = [2, 2]}
  %h = conv(%first, %w) {pads = [1, 1, 1, 1]}
  %t = tanh(%h)
  %moved = add(%second, %t)
  %y = concat(%first, %moved) {axis = 1}
  %logdet = sum(%w)
""", lambda p, x: (torch.cat([x[:, :2], x[:, 2:] + F.conv2d(x[:, :2], p["w"], padding=1).tanh()], 1), p["w"].sum())),
    "affine_coupling": ("""
  input %x : f32[2, 4, 4, 4]
  param %w : f32[4, 2, 3, 3]
  %first, %second = split(%x) {axis = 1, sizes = [2, 2]}
  %h = conv(%first, %w) {pads = [1, 1, 1, 1]}
  %shift, %raw = split(%h) {axis = 1, sizes = [2, 2]}
  %log = tanh(%raw)
  %scale = exp(%log)
  %scaled = mul(%second, %scale)
  %moved = add(%scaled, %shift)
  %y = concat(%first, %moved) {axis = 1}
  %logdet = sum(%log)
""", lambda p, x: (lambda h: (torch.cat([x[:, :2], x[:, 2:] * h[:, 2:].tanh().exp() + h[:, :2]], 1), h[:, 2:].tanh().sum()))(
        F.conv2d(x[:, :2], p["w"], padding=1))),
}

# Chains of each layer on 64 examples. Between layers the halves are swapped. Inverses save memory in such chains.
LENGTHS = {**dict.fromkeys(LAYERS, 16), "additive_coupling": 32, "affine_coupling": 8}  # values grow fast here
LEAST = {"f64": "min", "f32": "min"}
# With the smallest budget, clones of these networks need the least memory; with these budgets, inverses are cheaper.
BUDGETS = {"additive_coupling": {"f64": "25%", "f32": "35%"}, "affine_coupling": {"f64": "min", "f32": "50%"}}
TURN = """  %{k}.left, %{k}.right = split(%{k}.y) {{axis = 1, sizes = [2, 2]}}
  %{k}.next = concat(%{k}.right, %{k}.left) {{axis = 1}}
"""
# Unsqueezes, so that a layer can follow itself.
UNSQUEEZE = """
  %c = reshape(%y0) {dims = [64, 3, 2, 2, 2, 3]}
  %u = transpose(%c) {perm = [0, 1, 4, 2, 5, 3]}
  %y = reshape(%u) {dims = [64, 3, 4, 6]}
"""


def chain(name):
    """Returns the text of a graph, and the same function in PyTorch."""
    body, layer = LAYERS[name]
    turns = name != "squeeze"
    body = body.replace("[2, 4, 4, 4]", "[64, 4, 4, 4]").replace("[2, 3, ", "[64, 3, ").replace("[2, 12, ", "[64, 12, ")
    if not turns:
        body = body.replace("%y =", "%y0 =") + UNSQUEEZE
    head, nodes, last, logdet = [], [], "%x", None
    for k in range(LENGTHS[name]):
        for line in body.strip().splitlines():
            line = re.sub(r"%(?!x\b)(\w+)", rf"%{k}.\1", line.strip()).replace("%x", last)
            if line.startswith("input"):
                head += [line] if k == 0 else []
            else:
                (head if line.startswith("param") else nodes).append(line)
        nodes += TURN.format(k=k).splitlines() if turns else []
        last = f"%{k}.next" if turns else f"%{k}.y"
        nodes += [f"%sum{k} = add({logdet}, %{k}.logdet)"] if logdet else []
        logdet = f"%sum{k}" if logdet else f"%{k}.logdet"
    text = "isthmus 1\ngraph @chain {\n" + "\n".join(head + nodes)
    text += "\n" + LOSS_OF_A_LAYER.replace("%y", last).replace("%logdet", logdet) + "}\n"

    def wanted(p, x):
        total = 0
        for k in range(LENGTHS[name]):
            own = {n.removeprefix(f"{k}."): t for n, t in p.items() if n.startswith(f"{k}.")}
            x, more = layer(own, x)
            x = x.roll(2, 1) if turns else F.pixel_shuffle(x, 2)
            total = total + more
        return {"loss": x.sin().sum() - total}

    return text, wanted


LOSS_OF_A_LAYER = """  %wave = sin(%y)
  %sum = sum(%wave)
  %loss = sub(%sum, %logdet)
  loss %loss
  output %loss
"""


class Invertible(command.TestCase):
    def draw(self, model):
        """Draws values for the inputs and parameters of the file, exact in f32 and nonzero, so that every layer
        matters."""
        random = np.random.default_rng(7)
        found = {}
        for kind, name, dims in re.findall(r"(input|param) %(\S+) : f32\[(.*?)\]", self.read(model).decode()):
            shape = [int(d) for d in dims.split(", ")]
            drawn = random.standard_normal(shape)
            if kind == "param":
                is_matrix = len(shape) in (2, 4)
                fan = math.prod(shape[1:]) if len(shape) == 4 else shape[0]
                drawn *= fan**-0.5 if is_matrix else 0.3
                if re.search(r"(^|\.)bn\d?\.weight", name):
                    drawn += 1
                if name in ("w", "mix.weight") or name.endswith(".mix.weight"):
                    drawn = np.linalg.qr(drawn + 2 * np.eye(*shape))[0] if len(shape) == 2 else drawn
            found[name] = drawn.astype(np.float32)
        return found

    def check(self, model, wanted, loss_options, labels=None, inverts=None):
        """`wanted(parameters, x)` returns the outputs: "loss", or "nll", or "y" for the cross entropy. `inverts` holds
        budgets by precision, which are tested too; their plans rebuild tensors by inverses."""
        arrays = self.draw(model)
        tensors = {n: torch.tensor(v, dtype=torch.float64).requires_grad_() for n, v in arrays.items()}
        outputs = wanted(tensors, tensors["x"])
        loss = outputs.get("loss", outputs.get("nll"))
        if loss is None:
            outputs["loss"] = loss = F.cross_entropy(outputs["y"], torch.tensor(labels))
        loss.backward()
        want = {n: v.detach().numpy() for n, v in outputs.items()}
        want.update({f"grad.{n}": t.grad.numpy() for n, t in tensors.items()})
        for precision, kind, relative in ("f64", np.float64, 1e-9), ("f32", np.float32, 1e-4):
            os.makedirs(self.path(precision))
            for n, v in arrays.items():
                np.save(self.path(f"{precision}/{n}.npy"), v.astype(kind))
            if labels is not None:
                np.save(self.path(f"{precision}/labels.npy"), np.array(labels))
            options = [model, *loss_options, "--wrt=all", f"--precision={precision}", f"--inputs={precision}"]
            self.compare(want, options, precision, relative)
            if inverts:
                plan = [f"--budget={inverts[precision]}", "--allow=recompute,invert"]
                report = self.compare(want, [*options, *plan, "--effort=0.3"], precision, relative)
                if report["inversions"] == 0:  # recomputing needs less
                    plan = ["--budget=min", "--allow=invert"]
                    report = self.compare(want, [*options, *plan, "--effort=0.3"], precision, relative)
                self.assertGreater(report["inversions"], 0)

    def compare(self, want, options, precision, relative):
        self.run_ok("run", *options, "--outputs=out", "--report=report.json")
        names = json.loads(self.read("out/names.json"))
        got = {n: np.load(self.path(f"out/{file}")).astype(np.float64) for file, n in names.items()}
        self.assertEqual({n for n in got if n.startswith("grad.")}, {n for n in want if n.startswith("grad.")})
        for n, w in want.items():
            scale = max(1e-3 if precision == "f64" else 1e-2, float(np.abs(w).max()))
            off = float(np.abs(got[n] - w).max())
            self.assertLessEqual(off, relative * scale, f"{precision} {n}: off by {off}, of {scale}")
        return json.loads(self.read("report.json"))

    def check_zoo(self, net, batch=3, inverts=None, **options):
        model = f"{net.__name__}.isth"
        self.run_ok("zoo", net.__name__, f"--batch={batch}", *[f"--{n}={v}" for n, v in options.items()], "-o", model)
        if net in FLOWS:
            return self.check(model, lambda p, x: net(p, x, options), [], inverts=inverts)
        return self.check(model, lambda p, x: net(p, x, options), ["--loss=cross_entropy"], labels=[i % 3 for i in range(batch)],
                          inverts=inverts)

    def test_flows(self):
        for coupling in "affine", "additive":
            for net, sizes in (nice, {"shape": "9"}), (realnvp, {"shape": "3x8x8", "levels": 2}), (glow, {"shape": "3x8x8", "levels": 2}):
                with self.subTest(net=net.__name__, coupling=coupling):
                    self.setUp()
                    self.check_zoo(net, depth=3, width=6, coupling=coupling, **sizes)

    def test_couplings_of_deep_flows(self):
        self.check_zoo(nice, shape="6", depth=20, width=5, coupling="affine")

    def test_reversible_networks(self):
        for net in CLASSIFIERS:
            with self.subTest(net=net.__name__):
                self.setUp()
                self.check_zoo(net, depth=2, width=6, levels=2, classes=4, shape="3x8x8")

    def test_layers_alone(self):
        for name, (body, torch_layer) in LAYERS.items():
            with self.subTest(layer=name):
                self.setUp()
                text = "isthmus 1\ngraph @layer {" + body + LOSS_OF_A_LAYER + "}\n"
                self.write("layer.isth", text)

                def wanted(p, x):
                    y, logdet = torch_layer(p, x)
                    return {"loss": y.sin().sum() - logdet}

                self.check("layer.isth", wanted, [])

    def test_layers_by_inverses(self):
        for name in LAYERS:
            with self.subTest(layer=name):
                self.setUp()
                text, wanted = chain(name)
                self.write("chain.isth", text)
                self.check("chain.isth", wanted, [], inverts=BUDGETS.get(name, LEAST))

    def test_networks_by_inverses(self):
        """Couplings, actnorm, squeezes, 1x1 convolutions and splits together, and residual blocks of both kinds."""
        flat, pictures = {"shape": "32", "width": 16}, {"shape": "3x8x8", "width": 4, "levels": 2}
        # With the smallest budget, the NICE in f32 uses 62 inverses in a row, with an error of 1.2e-4, and the RealNVP
        # uses none.
        more = {"f64": "min", "f32": "40%"}
        for net, inverts, options in (
            (nice, LEAST, {**flat, "batch": 128, "depth": 24, "coupling": "additive"}),
            (nice, more, {**flat, "batch": 128, "depth": 12, "coupling": "affine"}),
            (realnvp, more, {**pictures, "batch": 32, "depth": 6, "coupling": "affine"}),
            (glow, LEAST, {**pictures, "batch": 32, "depth": 5, "coupling": "affine"}),
            (glow, LEAST, {**pictures, "batch": 32, "depth": 8, "coupling": "additive"}),
            (revnet, LEAST, {**pictures, "batch": 32, "depth": 5, "classes": 4}),
            (irevnet, {"f64": "25%", "f32": "30%"}, {**pictures, "batch": 32, "depth": 8, "classes": 4}),
        ):
            with self.subTest(net=net.__name__, **options):
                self.setUp()
                self.check_zoo(net, inverts=inverts, **options)


if __name__ == "__main__":
    command.main()
