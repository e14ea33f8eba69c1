"""The architectures of transformers: the library's classes in small configurations, with random weights. Nothing is
downloaded."""

import torch
import transformers as t
from model import Model, Picked, ids, rows
from vision_models import without_dropout

VOCABULARY = 40
WIDTH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
TEXT = {**WIDTH, "vocab_size": VOCABULARY, "max_position_embeddings": 32}
GATED = {**TEXT, "num_key_value_heads": 1, "head_dim": 16}
IMAGE = {**WIDTH, "image_size": 32, "patch_size": 8}


def logits(out):
    return out.logits


def make(model, config, names, pick, attention=None, **options):
    """`attention` selects the library's implementation; some of them make the newer exporter fail."""

    def build():
        settings = config(**options)
        settings.use_cache = False
        if attention:
            settings._attn_implementation = attention
        return Picked(without_dropout(model(settings)), names, pick)

    return build


def causal(name, model, config, options):
    """A language model from tokens to logits [batch, tokens, vocabulary]."""
    return Model(
        f"transformers.{name}",
        make(model, config, ("input_ids", "attention_mask"), logits, **options),
        {"tokens": ids(VOCABULARY, 2, 9), "mask": padding},
        loss="cross_entropy",
        class_axis=2,
    )


def encoder(name, model, config, options, pick=lambda out: out.last_hidden_state):
    """An encoder of text, with a mask for its padding."""
    return Model(
        f"transformers.{name}",
        make(model, config, ("input_ids", "attention_mask"), pick, **options),
        {"tokens": ids(VOCABULARY, 2, 9), "mask": padding},
    )


def padding():
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[1, 6:] = 0
    return mask


def seq2seq(name, model, config, options):
    return Model(
        f"transformers.{name}",
        make(model, config, ("input_ids", "decoder_input_ids"), logits, **options),
        {"tokens": ids(VOCABULARY, 2, 9), "targets": ids(VOCABULARY, 2, 5)},
        loss="cross_entropy",
        class_axis=2,
    )


def image(name, model, config, options, pick=logits, size=32, batch=2, loss="mse"):
    return Model(
        f"transformers.{name}",
        make(model, config, ("pixel_values",), pick, **options),
        {"image": rows(batch, 3, size, size)},
        loss=loss,
    )


MODELS = [
    encoder("bert", t.BertModel, t.BertConfig, TEXT, lambda out: (out.last_hidden_state, out.pooler_output)),
    encoder("bert_tied_head", t.BertForMaskedLM, t.BertConfig, TEXT, logits),
    encoder("albert", t.AlbertModel, t.AlbertConfig, {**TEXT, "embedding_size": 16, "num_hidden_layers": 4}),
    encoder("roberta", t.RobertaForSequenceClassification, t.RobertaConfig, TEXT, logits),
    encoder(
        "distilbert",
        t.DistilBertModel,
        t.DistilBertConfig,
        {"vocab_size": VOCABULARY, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 32},
    ),
    encoder(
        "deberta",
        t.DebertaV2Model,
        t.DebertaV2Config,
        {**TEXT, "relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"]},
    ),
    encoder(
        "funnel",
        t.FunnelModel,
        t.FunnelConfig,
        {
            "vocab_size": VOCABULARY,
            "block_sizes": [1, 1],
            "d_model": 32,
            "n_head": 2,
            "d_head": 16,
            "d_inner": 48,
            "num_decoder_layers": 1,
        },
    ),
    encoder("fnet", t.FNetModel, t.FNetConfig, TEXT),
    causal(
        "gpt2",
        t.GPT2LMHeadModel,
        t.GPT2Config,
        {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 16},
    ),
    causal("gpt_neox", t.GPTNeoXForCausalLM, t.GPTNeoXConfig, TEXT),
    causal("bloom", t.BloomForCausalLM, t.BloomConfig, {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 2}),
    causal("opt", t.OPTForCausalLM, t.OPTConfig, {**TEXT, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    causal("llama", t.LlamaForCausalLM, t.LlamaConfig, GATED),
    causal("gemma", t.GemmaForCausalLM, t.GemmaConfig, GATED),
    causal("qwen3", t.Qwen3ForCausalLM, t.Qwen3Config, GATED),
    causal(
        "mamba",
        t.MambaForCausalLM,
        t.MambaConfig,
        {"vocab_size": VOCABULARY, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2},
    ),
    seq2seq(
        "t5",
        t.T5ForConditionalGeneration,
        t.T5Config,
        {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2, "attention": "eager"},
    ),
    seq2seq(
        "bart",
        t.BartForConditionalGeneration,
        t.BartConfig,
        {
            "vocab_size": VOCABULARY,
            "d_model": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            "max_position_embeddings": 32,
        },
    ),
    Model(
        "transformers.clip",
        make(
            t.CLIPModel,
            t.CLIPConfig,
            ("input_ids", "pixel_values"),
            lambda out: (out.logits_per_image, out.text_embeds),
            text_config={**TEXT, "eos_token_id": 1},
            vision_config=IMAGE,
            projection_dim=16,
        ),
        {"tokens": ids(VOCABULARY, 3, 7), "image": rows(3, 3, 32, 32)},
        loss="cross_entropy",
    ),
    image("vit", t.ViTForImageClassification, t.ViTConfig, {**IMAGE, "num_labels": 5}, loss="cross_entropy"),
    image(
        "beit",
        t.BeitModel,
        t.BeitConfig,
        {**IMAGE, "use_relative_position_bias": True, "attention": "eager"},
        lambda out: out.last_hidden_state,
    ),
    image("dinov2", t.Dinov2Model, t.Dinov2Config, IMAGE, lambda out: out.last_hidden_state),
    image(
        "swin",
        t.SwinModel,
        t.SwinConfig,
        {
            "image_size": 32,
            "patch_size": 2,
            "embed_dim": 16,
            "depths": [2, 2],
            "num_heads": [2, 4],
            "window_size": 4,
            "attention": "eager",
        },
        lambda out: out.last_hidden_state,
    ),
    image(
        "segformer",
        t.SegformerForSemanticSegmentation,
        t.SegformerConfig,
        {
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [8, 16, 24, 32],
            "num_attention_heads": [1, 2, 2, 4],
            "decoder_hidden_size": 16,
            "num_labels": 4,
        },
        loss="cross_entropy",
    ),
    image(
        "convnextv2",
        t.ConvNextV2Model,
        t.ConvNextV2Config,
        {"hidden_sizes": [8, 16], "depths": [1, 2], "num_stages": 2},
        lambda out: out.last_hidden_state,
    ),
    image(
        "levit",
        t.LevitForImageClassification,
        t.LevitConfig,
        {
            "image_size": 128,
            "hidden_sizes": [16, 24, 32],
            "num_attention_heads": [2, 2, 2],
            "depths": [1, 1, 1],
            "key_dim": [8, 8, 8],
            "num_labels": 5,
        },
        size=128,
        batch=4,
        loss="cross_entropy",
    ),
    image(
        "mobilevit",
        t.MobileViTForImageClassification,
        t.MobileViTConfig,
        {
            "image_size": 64,
            "hidden_sizes": [16, 24, 32],
            "neck_hidden_sizes": [8, 8, 16, 16, 16, 16, 32],
            "num_attention_heads": 2,
            "num_labels": 5,
        },
        size=64,
        loss="cross_entropy",
    ),
    image(
        "yolos",
        t.YolosForObjectDetection,
        t.YolosConfig,
        {**IMAGE, "image_size": [32, 32], "num_detection_tokens": 4, "num_labels": 5},
        lambda out: (out.pred_boxes, out.logits),
    ),
    image(
        "detr",
        t.DetrForObjectDetection,
        t.DetrConfig,
        {
            "use_timm_backbone": False,
            "use_pretrained_backbone": False,
            "backbone": None,
            "backbone_config": t.ResNetConfig(
                embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"], layer_type="basic"
            ),
            "d_model": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            "num_queries": 4,
            "num_labels": 5,
        },
        lambda out: (out.logits, out.pred_boxes),
    ),
    Model(
        "transformers.whisper",
        make(
            t.WhisperForConditionalGeneration,
            t.WhisperConfig,
            ("input_features", "decoder_input_ids", "decoder_attention_mask"),
            logits,
            vocab_size=VOCABULARY,
            num_mel_bins=8,
            d_model=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            max_source_positions=12,
            max_target_positions=16,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=1,
            decoder_start_token_id=1,
        ),
        {"sound": rows(2, 8, 24), "tokens": ids(VOCABULARY, 2, 9), "mask": padding},
        loss="cross_entropy",
        class_axis=2,
    ),
    Model(
        "transformers.wav2vec2",
        make(
            t.Wav2Vec2ForCTC,
            t.Wav2Vec2Config,
            ("input_values",),
            logits,
            **WIDTH,
            vocab_size=12,
            conv_dim=[16, 16, 16],
            conv_kernel=[10, 3, 2],
            conv_stride=[5, 2, 2],
            num_conv_pos_embeddings=8,
            num_conv_pos_embedding_groups=2,
            layerdrop=0.0,
            apply_spec_augment=False,
            mask_time_prob=0.0,
        ),
        {"sound": rows(2, 400)},
        loss="cross_entropy",
        class_axis=2,
    ),
    Model(
        "transformers.patchtst",
        make(
            t.PatchTSTForPrediction,
            t.PatchTSTConfig,
            ("past_values",),
            lambda out: out.prediction_outputs,
            num_input_channels=3,
            context_length=24,
            patch_length=6,
            patch_stride=6,
            d_model=16,
            num_attention_heads=2,
            ffn_dim=32,
            num_hidden_layers=2,
            prediction_length=5,
        ),
        {"past": rows(2, 24, 3)},
    ),
]
