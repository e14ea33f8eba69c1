"""Trains public programs as their users do, plain and within two budgets, and prints a table: peaks, times and whether the bits are the same.

The loss of a model is compiled as it is written, without `fullgraph`, so a program may be several graphs. Each row trains a copy by SGD, from the same
state of the random generator, and measures the peak of a later step. Times are processor seconds of a step beside those of the plain one, the median
of rounds in which all take turns. Programs whose package is not installed are named. The program exits with 1 if bits differ, if a measured peak is
above its budget, or if a program fails. Where a model computes otherwise when it is compiled, whatever the backend, bits are compared with those of
`torch.compile`'s own backends `eager`, which runs the captured ops, and `aot_eager`.

Usage: programs.py [--budgets=60%,min] [--rounds=5] [--list] [NAME ...]
    pip install transformers peft diffusers timm segmentation-models-pytorch monai torch-geometric dynamic-network-architectures torchvision
It needs the environment of against_pytorch.py besides.
"""

import argparse
import copy
import gc
import os
import statistics
import sys
import time
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doors", "torch"))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import isthmus.torch  # noqa: E402
from training import differences, refusal, train  # noqa: E402

MIB = 1 << 20
LOSSES = 4  # a step of several graphs has its own plan from the third on
SLACK = 1.01
PROGRAMS = {}


def program(name):
    """Adds a program: a function that returns a model and the function of its loss."""

    def add(make):
        PROGRAMS[name] = make
        return make

    return add


def programs(names, make):
    for name in names:
        PROGRAMS[name] = lambda name=name: make(name)


def classified(model, size, classes=10, batch=4):
    x, y = torch.randn(batch, 3, size, size), torch.randint(0, classes, (batch,))
    return model, lambda m: F.cross_entropy(m(x), y)


def segmented(model, size, classes=3, batch=2, channels=1):
    x, y = torch.randn(batch, channels, *size), torch.randint(0, classes, (batch, *size))
    return model, lambda m: F.cross_entropy(m(x), y)


# --- Language models


class NanoBlock(nn.Module):
    def __init__(self, width, heads, dropout=0.1, drops_attention=False):
        super().__init__()
        self.of_attention = dropout if drops_attention else 0.0
        self.heads, self.first, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow, self.dropout = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(dropout)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.attention(self.first(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.of_attention).transpose(1, 2).reshape(batch, length, width)
        x = x + self.dropout(self.out(y))
        return x + self.dropout(self.narrow(F.gelu(self.wide(self.second(x)))))


class NanoGPT(nn.Module):
    """After nanoGPT's model.py, with its tied head and its dropout."""

    def __init__(self, words=512, width=128, heads=4, blocks=6, length=128, **dropout):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(words, width), nn.Embedding(length, width), nn.LayerNorm(width)
        self.blocks, self.head = nn.ModuleList([NanoBlock(width, heads, **dropout) for _ in range(blocks)]), nn.Linear(width, words, bias=False)
        self.words.weight = self.head.weight

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


@program("nanoGPT")
def nano_gpt():
    ids = torch.randint(0, 512, (8, 128))
    return NanoGPT(), lambda m: m(ids)


@program("LSTM language model")
def lstm_language_model():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.lstm, self.head = nn.Embedding(500, 96), nn.LSTM(96, 96, 2, dropout=0.2, batch_first=True), nn.Linear(96, 500)

        def forward(self, ids):
            return F.cross_entropy(self.head(self.lstm(self.words(ids))[0]).flatten(0, 1), ids.flatten())

    ids = torch.randint(0, 500, (8, 48))
    return Model(), lambda m: m(ids)


def of_transformers(kind, config, inputs, **sizes):
    import transformers

    model = getattr(transformers, kind)(getattr(transformers, config)(**sizes))
    model.config.use_cache = False
    return model.train(), lambda m: m(**inputs).loss


def text(words=256, batch=4, length=96):
    ids = torch.randint(2, words, (batch, length))
    return {"input_ids": ids, "labels": ids}


SMALL = {"hidden_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 256}
KEYS = {**SMALL, "num_key_value_heads": 2}
LANGUAGE = {
    "transformers GPT-2": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 96, "n_layer": 4, "n_head": 4, "vocab_size": 256, "bos_token_id": 0, "eos_token_id": 1}),
    "transformers Llama": ("LlamaForCausalLM", "LlamaConfig", KEYS),
    "transformers Qwen2": ("Qwen2ForCausalLM", "Qwen2Config", KEYS),
    "transformers Mistral": ("MistralForCausalLM", "MistralConfig", KEYS),
    "transformers Gemma": ("GemmaForCausalLM", "GemmaConfig", {**KEYS, "head_dim": 24}),
    "transformers Mixtral": ("MixtralForCausalLM", "MixtralConfig", {**KEYS, "num_local_experts": 4}),
    "transformers BERT": ("BertForMaskedLM", "BertConfig", SMALL),
    "transformers RoBERTa": ("RobertaForMaskedLM", "RobertaConfig", {**SMALL, "max_position_embeddings": 256}),
    "transformers T5": ("T5ForConditionalGeneration", "T5Config", {"d_model": 96, "d_ff": 256, "num_layers": 3, "num_heads": 4, "d_kv": 24, "vocab_size": 256, "decoder_start_token_id": 0}),
    "transformers Mamba": ("MambaForCausalLM", "MambaConfig", {"hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "vocab_size": 256}),
}
programs(LANGUAGE, lambda name: of_transformers(LANGUAGE[name][0], LANGUAGE[name][1], text(length=32 if "Mamba" in name else 96), **LANGUAGE[name][2]))


def with_lora(**checkpoints):
    import peft
    import transformers

    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**KEYS))
    model.config.use_cache = False
    if checkpoints:
        model.gradient_checkpointing_enable(checkpoints)
        model.disable_input_require_grads()
    settings = peft.LoraConfig(r=8, lora_dropout=0.05, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    made, inputs = peft.get_peft_model(model, settings).train(), text()
    if checkpoints:  # only reentrant checkpoints need inputs with gradients, and PyTorch's tracer takes minutes with them, whatever the backend
        model.disable_input_require_grads()
    return made, lambda m: m(**inputs).loss


PROGRAMS["PEFT LoRA Llama"] = with_lora
PROGRAMS["PEFT LoRA Llama, its own checkpoints"] = lambda: with_lora(use_reentrant=False)


# --- Speech, and pictures with transformers


@program("transformers Whisper")
def whisper():
    sizes = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "vocab_size": 256}
    sizes |= {"encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "max_source_positions": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    inputs = {"input_features": torch.randn(2, 80, 200), "labels": torch.randint(3, 256, (2, 24))}
    return of_transformers("WhisperForConditionalGeneration", "WhisperConfig", inputs, decoder_start_token_id=1, **sizes)


@program("transformers ViT")
def vit():
    inputs = {"pixel_values": torch.randn(4, 3, 96, 96), "labels": torch.randint(0, 2, (4,))}
    sizes = {"hidden_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 256, "image_size": 96, "patch_size": 8}
    return of_transformers("ViTForImageClassification", "ViTConfig", inputs, **sizes)


@program("transformers SegFormer")
def segformer():
    inputs = {"pixel_values": torch.randn(2, 3, 96, 96), "labels": torch.randint(0, 5, (2, 96, 96))}
    sizes = {"hidden_sizes": [16, 32, 64, 96], "depths": [1, 1, 1, 1], "decoder_hidden_size": 64, "num_labels": 5}
    return of_transformers("SegformerForSemanticSegmentation", "SegformerConfig", inputs, **sizes)


@program("transformers CLIP")
def clip():
    import transformers

    of_text = {**SMALL, "max_position_embeddings": 32, "projection_dim": 64}
    of_pictures = {"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 256, "image_size": 64, "patch_size": 8}
    config = transformers.CLIPConfig(text_config=of_text, vision_config=of_pictures, projection_dim=64)
    inputs = {"input_ids": torch.randint(2, 255, (8, 16)), "pixel_values": torch.randn(8, 3, 64, 64), "return_loss": True}
    return transformers.CLIPModel(config).train(), lambda m: m(**inputs).loss


# --- Diffusion


def noise_loss(model, sample, *more, **named):
    return lambda m: F.mse_loss(m(sample, torch.tensor([10, 500]), *more, **named).sample[:, : sample.shape[1]], sample)


@program("diffusers U-Net with text")
def unet_with_text():
    import diffusers

    sizes = {"block_out_channels": (32, 64), "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")}
    model = diffusers.UNet2DConditionModel(sample_size=32, cross_attention_dim=64, attention_head_dim=4, norm_num_groups=8, **sizes).train()
    return model, noise_loss(model, torch.randn(2, 4, 32, 32), torch.randn(2, 8, 64))


@program("diffusers U-Net")
def unet_of_diffusers():
    import diffusers

    sizes = {"block_out_channels": (32, 64), "down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
    model = diffusers.UNet2DModel(sample_size=32, norm_num_groups=8, **sizes).train()
    return model, noise_loss(model, torch.randn(2, 3, 32, 32))


@program("diffusers autoencoder")
def autoencoder():
    import diffusers

    kinds = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    model, x = diffusers.AutoencoderKL(block_out_channels=(16, 32), norm_num_groups=8, **kinds).train(), torch.randn(2, 3, 64, 64)
    return model, lambda m: F.mse_loss(m.decode(m.encode(x).latent_dist.mode()).sample, x)


@program("diffusers DiT")
def dit():
    import diffusers

    model = diffusers.DiTTransformer2DModel(num_attention_heads=4, attention_head_dim=24, in_channels=4, out_channels=8, num_layers=4, sample_size=16, norm_num_groups=4)
    return model.train(), noise_loss(model, torch.randn(2, 4, 16, 16), class_labels=torch.tensor([1, 2]))


# --- Pictures


def of_timm(name):
    import timm

    return classified(timm.create_model(name.removeprefix("timm "), pretrained=False, num_classes=10).train(), 224 if "vit" in name or "swin" in name or "mixer" in name else 96)


programs(
    ["timm resnet50", "timm efficientnet_b0", "timm convnext_atto", "timm mobilenetv3_small_100", "timm regnety_002", "timm vit_tiny_patch16_224", "timm swin_tiny_patch4_window7_224", "timm mixer_s32_224"],
    of_timm,
)


def of_smp(name):
    import segmentation_models_pytorch as smp

    kind = name.split()[-1]
    return segmented(getattr(smp, kind)(encoder_name="resnet18", encoder_weights=None, classes=3).train(), (96, 96), channels=3)


programs([f"segmentation_models_pytorch {kind}" for kind in ("Unet", "FPN", "DeepLabV3Plus", "Linknet")], of_smp)


def of_torchvision(name):
    import torchvision

    return classified(getattr(torchvision.models, name.split()[-1])(num_classes=10).train(), 96)


programs(["torchvision densenet121", "torchvision shufflenet_v2_x0_5"], of_torchvision)


@program("torchvision Faster R-CNN")
def faster_rcnn():
    import torchvision

    model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, num_classes=3).train()
    boxes = torch.tensor([[10.0, 10.0, 60.0, 60.0], [30.0, 20.0, 90.0, 80.0]])
    pictures, targets = [torch.rand(3, 128, 128) for _ in range(2)], [{"boxes": boxes, "labels": torch.tensor([1, 2])} for _ in range(2)]
    return model, lambda m: sum(m([p.clone() for p in pictures], targets).values())


# --- Medicine


def of_monai(name):
    from monai.networks import nets

    made = {
        "MONAI UNet": lambda: nets.UNet(spatial_dims=3, in_channels=1, out_channels=3, channels=(8, 16, 32), strides=(2, 2), num_res_units=2, dropout=0.1),
        "MONAI SegResNet": lambda: nets.SegResNet(spatial_dims=3, init_filters=8, in_channels=1, out_channels=3),
        "MONAI UNETR": lambda: nets.UNETR(in_channels=1, out_channels=3, img_size=(32, 32, 32), feature_size=8, hidden_size=48, mlp_dim=96, num_heads=4),
        "MONAI SwinUNETR": lambda: nets.SwinUNETR(in_channels=1, out_channels=3, feature_size=12),
        "MONAI DynUNet": lambda: nets.DynUNet(3, 1, 3, kernel_size=[3, 3, 3], strides=[1, 2, 2], upsample_kernel_size=[2, 2]),
    }
    is_swin = name == "MONAI SwinUNETR"  # which halves its volume five times
    return segmented(made[name]().train(), (64,) * 3 if is_swin else (32,) * 3, batch=1 if is_swin else 2)


programs([f"MONAI {kind}" for kind in ("UNet", "SegResNet", "UNETR", "SwinUNETR", "DynUNet")], of_monai)


@program("nnU-Net's residual encoder")
def resenc():
    from dynamic_network_architectures.architectures.unet import ResidualEncoderUNet

    blocks = {"n_stages": 4, "features_per_stage": (8, 16, 32, 32), "strides": (1, 2, 2, 2), "n_blocks_per_stage": (1, 2, 2, 2), "n_conv_per_stage_decoder": 1}
    norms = {"norm_op": nn.InstanceNorm3d, "norm_op_kwargs": {"affine": True}, "nonlin": nn.LeakyReLU, "nonlin_kwargs": {"inplace": True}}
    return segmented(ResidualEncoderUNet(1, conv_op=nn.Conv3d, kernel_sizes=3, num_classes=3, conv_bias=True, **blocks, **norms), (32, 32, 32))


# --- Graphs


def of_geometric(name):
    import torch_geometric.nn as geometric

    kind = name.split()[-1]
    model = getattr(geometric, kind)(in_channels=32, hidden_channels=64, num_layers=4, out_channels=7, dropout=0.2).train()
    x, edges, y = torch.randn(1000, 32), torch.randint(0, 1000, (2, 6000)), torch.randint(0, 7, (1000,))
    return model, lambda m: F.cross_entropy(m(x, edges), y)


programs([f"torch_geometric {kind}" for kind in ("GCN", "GAT", "GraphSAGE", "GIN")], of_geometric)


# --- Generators


def dcgan(width=32):
    def up(a, b):
        return nn.Sequential(nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True))

    def down(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2, inplace=True))

    first = nn.Sequential(nn.ConvTranspose2d(64, 4 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(True))
    makes = nn.Sequential(first, up(4 * width, 2 * width), up(2 * width, width), nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh())
    judges = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True), down(width, 2 * width), down(2 * width, 4 * width), nn.Conv2d(4 * width, 1, 4))
    return nn.ModuleDict({"makes": makes, "judges": judges})


@program("DCGAN")
def dcgan_step():
    z, real = torch.randn(16, 64, 1, 1), torch.randn(16, 3, 32, 32)

    def loss(m):
        fake = m["makes"](z)
        of_real, of_fake = m["judges"](real).flatten(), m["judges"](fake).flatten()
        return F.binary_cross_entropy_with_logits(of_real, torch.ones(16)) + F.binary_cross_entropy_with_logits(of_fake, torch.zeros(16))

    return dcgan(), loss


@program("variational autoencoder")
def vae():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.mean, self.spread = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
            self.out = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))

        def forward(self, x):
            h = F.relu(self.into(x))
            mean, spread = self.mean(h), self.spread(h)
            made = self.out(mean + torch.randn_like(spread) * torch.exp(0.5 * spread))
            return F.binary_cross_entropy_with_logits(made, x) - 0.5 * torch.mean(1 + spread - mean.pow(2) - spread.exp())

    x = torch.rand(256, 784)
    return Model(), lambda m: m(x)


# --- Rows


def compiled(budget):
    return lambda f: torch.compile(f, backend="isthmus", options={"budget": budget})


def fresh():
    torch.compiler.reset()
    isthmus.torch.reset()
    gc.collect()


class Taken:
    """A step that is timed: of a copy of the model, within a budget or plain."""

    def __init__(self, model, loss_of, wrap=lambda f: f):
        self.model = copy.deepcopy(model)
        self.function, self.seconds = wrap(lambda: loss_of(self.model)), []

    def step(self):
        self.model.zero_grad(set_to_none=True)
        start = time.process_time()
        self.function().backward()
        self.seconds.append(time.process_time() - start)

    def time(self):
        return statistics.median(self.seconds[LOSSES:])


def rows_of(name, budgets, rounds):
    """Returns the table's rows of a program, and whether one has failed."""
    torch.manual_seed(0)
    model, loss_of = PROGRAMS[name]()

    def trained(wrap):
        fresh()
        return train(model, lambda m: [loss_of(m)], steps=LOSSES - 1, compiled=wrap)

    want = trained(lambda f: f)
    rows, failed, captured = [], False, {}
    for budget in budgets:
        try:
            got = trained(compiled(budget))
        except Exception as error:
            if not isinstance(refusal(error), isthmus.CannotBeMet):
                raise
            rows.append((budget, "", "", "", "cannot be met"))
            continue
        report = isthmus.torch.report()
        if not report.graphs:
            rows.append((budget, "", "", "", "PyTorch compiles nothing of it"))
            continue
        plan = report.steps[-1] if report.steps else max(report.graphs, key=lambda g: g.planned_peak_bytes)
        most = plan.planned_peak_bytes if plan.budget_bytes is None else plan.budget_bytes
        differs, graphs, beside = differences(want, got), len({g.name for g in report.graphs}), "the same"
        for other in ("eager", "aot_eager"):  # some models, such as transformers', compute otherwise as soon as anything compiles them
            if differs:
                captured[other] = captured.get(other) or trained(lambda f: torch.compile(f, backend=other))
                differs, beside = min(differs, differences(captured[other], got), key=len), f"the same as of `{other}`"
        above = got.peak > most * SLACK
        failed |= bool(differs) or above
        seconds = timed(model, loss_of, budget, rounds)
        bits = f"{'; '.join(differs[:2])} differ" if differs else beside
        rows.append((budget, f"{most / MIB:.2f}", f"{got.peak / MIB:.2f}{' ABOVE' if above else ''}", f"{seconds:.2f}", bits + (f", {graphs} graphs" if graphs > 1 else "")))
    for k, row in enumerate(rows):
        print(f"| {'' if k else name} | {'' if k else f'{want.peak / MIB:.2f}'} | {' | '.join(row)} |", flush=True)
    return failed


def timed(model, loss_of, budget, rounds):
    """Returns the time of a step within a budget beside that of the plain one."""
    fresh()
    both = Taken(model, loss_of), Taken(model, loss_of, compiled(budget))
    for _ in range(LOSSES + rounds):
        for each in both:
            each.step()
    plain, ours = (each.time() for each in both)
    return ours / plain


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", default="60%,min")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*", help="programs whose names contain one of these")
    options = parser.parse_args()
    names = [n for n in PROGRAMS if not options.names or any(part.lower() in n.lower() for part in options.names)]
    if options.list:
        print("\n".join(names))
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print("| program | plain, MiB | budget | budget, MiB | measured, MiB | time | bits |\n| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    failed, missing = [], []
    for name in names:
        print(f"{time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
        try:
            if rows_of(name, options.budgets.split(","), options.rounds):
                failed.append(name)
        except ImportError as error:
            missing.append(f"{name}: {error}")
        except Exception as error:  # the other programs run too
            inner = getattr(error, "inner_exception", error)
            failed.append(name)
            print(f"| {name} | | | | | | {type(inner).__name__}: {str(inner).strip().splitlines()[0][:200]} |", flush=True)
    print("\n".join(["", f"{len(names)} programs, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}", *missing]))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
