"""The largest batch of public models on cards of 8, 12 and 24 GB, by planning alone: plain, with the models' own checkpointing, and with Isthmus.

No card is needed, no weights are loaded and nothing is run. The models are those of their packages (transformers, peft, diffusers, timm, monai,
dynamic-network-architectures), with the sizes of the published ones written here. Rows whose package is not installed, or that are no single graph, are
named.

Usage: cards.py [--totals=8GB,12GB,24GB] [NAME ...]
"""

import argparse
import contextlib
import sys
import time
from dataclasses import dataclass
from typing import Any, Callable

import torch

import isthmus
import isthmus.torch

HALF = torch.bfloat16


@dataclass
class Row:
    """A model to train: its module on the device "meta", with its own checkpointing on, its inputs for a batch, and its loss."""

    name: str
    make: Callable[[], torch.nn.Module]
    inputs: Callable[[int], Any]
    loss: Callable[..., Any] | None = None
    optimizer: Any = torch.optim.AdamW


def tokens(length):
    def inputs(batch):
        ids = torch.zeros(batch, length, dtype=torch.long)
        return {"input_ids": ids, "labels": ids}

    return inputs


def of_transformers(kind, config, dtype=None, **settings):
    import transformers

    made = getattr(transformers, kind)(getattr(transformers, config)(**settings))
    made = made if dtype is None else made.to(dtype)
    made.config.use_cache = False
    made.gradient_checkpointing_enable({"use_reentrant": False})
    if hasattr(made, "_require_grads_hooks"):  # only reentrant checkpoints need inputs with gradients, and PyTorch's tracer ends a graph there
        made.disable_input_require_grads()
    return made.train()


def with_lora(model, targets, rank=16):
    import peft

    for p in model.parameters():
        p.requires_grad_(False)
    made = peft.inject_adapter_in_model(peft.LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules=targets), model)
    for name, p in made.named_parameters():
        p.requires_grad_("lora_" in name)
    return made


def llama(hidden, layers, heads, keys, middle, words, **more):
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": keys}
    return {**sizes, "intermediate_size": middle, "vocab_size": words, "max_position_embeddings": 8192, "attn_implementation": "sdpa", **more}


ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]


def llama_1b():
    sizes = llama(2048, 16, 32, 8, 8192, 128256, head_dim=64, tie_word_embeddings=True, rope_theta=500000.0)
    return with_lora(of_transformers("LlamaForCausalLM", "LlamaConfig", HALF, **sizes), ATTENTION)


def qwen_7b():
    sizes = llama(3584, 28, 28, 4, 18944, 152064, rope_theta=1000000.0)
    return with_lora(of_transformers("Qwen2ForCausalLM", "Qwen2Config", HALF, **sizes), ATTENTION)


def gpt2(width, layers, heads, dtype=HALF):
    sizes = {"n_embd": width, "n_layer": layers, "n_head": heads, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return of_transformers("GPT2LMHeadModel", "GPT2Config", dtype, attn_implementation="sdpa", **sizes)


def bert_large():
    sizes = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096, "attention_probs_dropout_prob": 0.0}
    return of_transformers("BertForMaskedLM", "BertConfig", attn_implementation="sdpa", **sizes)


def t5_large():
    sizes = {"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16, "d_kv": 64, "decoder_start_token_id": 0}
    return of_transformers("T5ForConditionalGeneration", "T5Config", HALF, **sizes)


def of_timm(name, **settings):
    import timm

    made = timm.create_model(name, pretrained=False, **settings)
    made.set_grad_checkpointing(True)
    return made.train()


def sdxl():
    import diffusers

    made = diffusers.UNet2DConditionModel(
        sample_size=128,
        block_out_channels=(320, 640, 1280),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=(1, 2, 10),
        attention_head_dim=(5, 10, 20),
        cross_attention_dim=2048,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=2816,
    ).to(HALF)
    made.enable_gradient_checkpointing()
    return with_lora(made, ["to_q", "to_k", "to_v", "to_out.0"]).train()


def sd15():
    import diffusers

    made = diffusers.UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8)
    made.enable_gradient_checkpointing()
    return made.train()


def latents(size, width, words, **more):
    def inputs(batch):
        noise = torch.zeros(batch, 4, size, size, dtype=HALF)
        added = {name: torch.zeros(batch, n, dtype=HALF) for name, n in more.items()}
        return noise, torch.zeros(batch, dtype=torch.long), torch.zeros(batch, words, width, dtype=HALF), added

    return inputs


def of_noise(model, noise, steps, text, added):
    named = {"added_cond_kwargs": added} if added else {}
    return torch.nn.functional.mse_loss(model(noise, steps, text, **named).sample.float(), noise.float())


def in_halves(loss):
    def of(*arguments, **named):
        with torch.autocast("cpu", HALF):
            return loss(*arguments, **named)

    return of


def of_classes(model, pictures, classes):
    return torch.nn.functional.cross_entropy(model(pictures).float(), classes)


def pictures(size):
    return lambda batch: (torch.zeros(batch, 3, size, size), torch.zeros(batch, dtype=torch.long))


def swin_unetr():
    import monai.networks.nets as nets

    with torch.device("cpu"):  # it reads numbers of tensors while it is made, which "meta" has not
        return nets.SwinUNETR(in_channels=1, out_channels=14, feature_size=48, use_checkpoint=True).train()


def resenc_l():
    from dynamic_network_architectures.architectures.unet import ResidualEncoderUNet

    return ResidualEncoderUNet(
        input_channels=1,
        n_stages=6,
        features_per_stage=(32, 64, 128, 256, 320, 320),
        conv_op=torch.nn.Conv3d,
        kernel_sizes=3,
        strides=(1, 2, 2, 2, 2, 2),
        n_blocks_per_stage=(1, 3, 4, 6, 6, 6),
        num_classes=3,
        n_conv_per_stage_decoder=1,
        conv_bias=True,
        norm_op=torch.nn.InstanceNorm3d,
        norm_op_kwargs={"eps": 1e-5, "affine": True},
        nonlin=torch.nn.LeakyReLU,
        nonlin_kwargs={"inplace": True},
        deep_supervision=False,
    ).train()


def volumes(size):
    return lambda batch: (torch.zeros(batch, 1, *size), torch.zeros(batch, *size, dtype=torch.long))


def transformers_loss(model, **named):
    return model(**named).loss


SGD = lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.99, nesterov=True)  # noqa: E731
ROWS = [
    Row("Llama-3.2-1B, LoRA, 4,096 tokens", llama_1b, tokens(4096), transformers_loss),
    Row("Qwen2-7B, LoRA, 4,096 tokens", qwen_7b, tokens(4096), transformers_loss),
    Row("GPT-2 XL, 16 bits, 1,024 tokens", lambda: gpt2(1600, 48, 25), tokens(1024), transformers_loss),
    Row("GPT-2 medium, autocast, 1,024 tokens", lambda: gpt2(1024, 24, 16, None), tokens(1024), in_halves(transformers_loss)),
    Row("BERT large, autocast, 512 tokens", bert_large, tokens(512), in_halves(transformers_loss)),
    Row("T5 large, 16 bits, 512 tokens", t5_large, tokens(512), transformers_loss),
    Row("ViT-L/16, autocast, 224 x 224", lambda: of_timm("vit_large_patch16_224"), pictures(224), in_halves(of_classes)),
    Row("ConvNeXt-L, autocast, 224 x 224", lambda: of_timm("convnext_large"), pictures(224), in_halves(of_classes)),
    Row("SDXL U-Net, LoRA, 1,024 x 1,024", sdxl, latents(128, 2048, 77, text_embeds=1280, time_ids=6), of_noise),
    Row("SD 1.5 U-Net, autocast, 512 x 512", sd15, latents(64, 768, 77), in_halves(of_noise)),
    Row("SwinUNETR, autocast, 96 x 96 x 96", swin_unetr, volumes((96, 96, 96)), in_halves(of_classes)),
    Row("nnU-Net ResEnc, autocast, 128 x 128 x 128", resenc_l, volumes((128, 128, 128)), in_halves(of_classes), SGD),
]


def cell(way, added=True):
    if way is None:
        return ""
    return "none" if not way.size else f"{way.size}{f' (+{way.added_cost:.0%})' if added else ''}"


def run(row, totals):
    with torch.device("meta"):
        model = row.make()
    count = sum(p.numel() for p in model.parameters())
    print(f"{row.name}: {count / 1e6:.0f} million parameters", file=sys.stderr, flush=True)
    start = time.time()
    loss = {} if row.loss is None else {"loss": row.loss}
    forecasts = isthmus.torch.plan_for(totals, model, row.inputs, optimizer=row.optimizer, **loss)
    print(f"planned in {time.time() - start:.0f} s", file=sys.stderr, flush=True)
    for total, forecast in zip(totals, forecasts, strict=True):
        print(f"{forecast}\n", file=sys.stderr, flush=True)
        ways = {way.name: way for way in forecast.ways}
        same = next((way for name, way in ways.items() if name.startswith("isthmus at")), None)
        cells = cell(ways["plain"], False), cell(ways.get("its own checkpoints")), cell(ways["isthmus"]), cell(same)
        print(f"| {row.name if total == totals[0] else ''} | {total} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--totals", default="8GB,12GB,24GB")
    parser.add_argument("names", nargs="*", help="rows whose names contain one of these")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| model | card | plain | its own checkpoints | Isthmus | Isthmus, that size |\n| --- | --- | --- | --- | --- | --- |", flush=True)
    for row in ROWS:
        if options.names and not any(name.lower() in row.name.lower() for name in options.names):
            continue
        try:
            run(row, options.totals.split(","))
        except (ImportError, isthmus.BadInput) as e:
            print(f"{row.name}: {e}", flush=True)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
