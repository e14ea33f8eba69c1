"""Public programs whose authors say where to checkpoint, for `against_pytorch.py` and `first_step.py`.

Each function returns a model and the function of its loss. With saves=True, that function first turns on the checkpoints of the model's authors; of
nanoGPT, which has none, each block is checkpointed.

    pip install transformers peft diffusers timm monai einops
"""

import functools

import torch
import torch.nn.functional as F
from programs import NanoGPT
from torch.utils.checkpoint import checkpoint


def checkpointed(model, kind):
    """Returns a wrapper of a loss function. With saves=True, the wrapped function checkpoints the modules of this kind."""
    assert any(type(m).__name__ == kind for m in model.modules()), kind

    def step(loss_of):
        def with_or_without(m, saves=False):
            own = [b for b in m.modules() if type(b).__name__ == kind] if saves else []
            for b in own:
                b.forward = functools.partial(checkpoint, functools.partial(type(b).forward, b), use_reentrant=False)
            try:
                return loss_of(m)
            finally:
                for b in own:
                    del b.forward

        return with_or_without

    return step


def switched(turn_on):
    """Returns a wrapper of a loss function. With saves=True, the wrapped function turns on the model's own checkpoints, which stay on."""

    def step(loss_of):
        def with_or_without(m, saves=False):
            if saves:
                turn_on(m)
            return loss_of(m)

        return with_or_without

    return step


def nano_gpt():
    """The model that nanoGPT trains on Shakespeare's letters: 6 layers of width 384, with dropout 0.2; 2 texts of its 64."""
    model, ids = NanoGPT(words=65, width=384, heads=6, blocks=6, length=256, dropout=0.2, drops_attention=True), torch.randint(0, 65, (2, 256))
    return model, checkpointed(model, "NanoBlock")(lambda m: m(ids))


def lora_llama():
    import peft
    import transformers

    sizes = {"hidden_size": 384, "num_hidden_layers": 8, "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 1024, "vocab_size": 4000}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
    model.config.use_cache = False
    settings = peft.LoraConfig(r=8, lora_dropout=0.05, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model, ids = peft.get_peft_model(model, settings).train(), torch.randint(0, 4000, (2, 256))

    def turn_on(m):
        if not m.base_model.model.is_gradient_checkpointing:
            m.base_model.model.gradient_checkpointing_enable({"use_reentrant": False})

    return model, switched(turn_on)(lambda m: m(input_ids=ids, labels=ids).loss)


def unet_of_diffusers():
    """A small sibling of Stable Diffusion's U-Net: the same blocks, three levels of two layers, noise of 2 x 4 x 32 x 32 and 77 words."""
    import diffusers

    model = diffusers.UNet2DConditionModel(
        sample_size=32,
        block_out_channels=(32, 64, 128),
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=128,
        attention_head_dim=4,
    ).train()
    noise, steps, text = torch.randn(2, 4, 32, 32), torch.tensor([10, 500]), torch.randn(2, 77, 128)
    return model, switched(lambda m: m.enable_gradient_checkpointing())(lambda m: F.mse_loss(m(noise, steps, text).sample, noise))


def efficientnet():
    import timm

    model = timm.create_model("efficientnet_b0", pretrained=False, drop_rate=0.2, drop_path_rate=0.2).train()
    x, y = torch.randn(4, 3, 160, 160), torch.randint(0, 1000, (4,))
    return model, switched(lambda m: m.set_grad_checkpointing(True))(lambda m: F.cross_entropy(m(x), y))


def swin_unetr():
    from monai.networks import nets

    model, x, y = nets.SwinUNETR(in_channels=1, out_channels=3, feature_size=12).train(), torch.randn(1, 1, 64, 32, 32), torch.randint(0, 3, (1, 64, 32, 32))

    def turn_on(m):
        for part in m.swinViT.modules():
            if hasattr(part, "use_checkpoint"):
                part.use_checkpoint = True  # as the argument use_checkpoint=True has it

    return model, switched(turn_on)(lambda m: F.cross_entropy(m(x), y))


PROGRAMS = {
    "nanogpt": nano_gpt,
    "lora_llama": lora_llama,
    "diffusers_unet": unet_of_diffusers,
    "efficientnet": efficientnet,
    "swin_unetr": swin_unetr,
}
SEVERAL_GRAPHS = {"swin_unetr"}
"""Programs that PyTorch's tracer takes apart, so that they cannot be compiled with fullgraph=True."""
