"""torchvision's architectures, with random weights, on small images."""

from model import Model, Picked, rows
from torch import nn
from torchvision import models


def classifier(name, size=64, batch=4, **options):
    """Returns a model from images to `y` [batch, 10]. Dropout is off, as PyTorch's random numbers are not ours. Images
    are large enough for batch norms to average over many numbers; with a handful, rounding would decide."""
    make = getattr(models, name)
    return Model(
        f"torchvision.{name}",
        lambda: without_dropout(make(weights=None, num_classes=10, **options)),
        {"image": rows(batch, 3, size, size)},
        loss="cross_entropy",
    )


def without_dropout(module):
    for part in module.modules():
        kind = type(part).__name__
        if "Dropout" in kind:
            part.p = 0.0
        if kind == "StochasticDepth":
            part.p = 0.0
        if "DropPath" in kind:
            part.drop_prob = 0.0
        if isinstance(getattr(part, "dropout", None), float):
            part.dropout = 0.0
    return module


def segmenter(name, argument="x", **options):
    def make():
        net = getattr(models.segmentation, name)(weights=None, weights_backbone=None, num_classes=4, **options)
        return Picked(without_dropout(net), (argument,), lambda found: found["out"])

    return Model(f"torchvision.{name}", make, {"image": rows(2, 3, 64, 64)}, loss="cross_entropy")


def vit():
    return models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=10
    )


def swin():
    return models.SwinTransformer(
        patch_size=[2, 2], embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4], num_classes=10
    )


def densenet():
    return models.DenseNet(growth_rate=8, block_config=(2, 3, 2), num_init_features=16, num_classes=10)


def convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 2)], num_classes=10)


def resnext():
    from torchvision.models.resnet import Bottleneck, ResNet

    return ResNet(Bottleneck, [1, 1, 1, 1], num_classes=10, groups=4, width_per_group=8)


def frozen_resnet():
    from torchvision.models.resnet import BasicBlock, ResNet
    from torchvision.ops import FrozenBatchNorm2d

    return ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10, norm_layer=FrozenBatchNorm2d)


def vgg():
    features = models.vgg.make_layers([16, "M", 32, "M", 32, 32, "M"], batch_norm=True)
    net = models.VGG(features, num_classes=10, init_weights=False)
    net.classifier = nn.Sequential(nn.Linear(32 * 49, 32), nn.ReLU(True), nn.Linear(32, 10))
    return net


def own(name, make, size=32, batch=2):
    return Model(
        f"torchvision.{name}", lambda: without_dropout(make()), {"image": rows(batch, 3, size, size)}, loss="cross_entropy"
    )


MODELS = [
    classifier("resnet18"),
    own("resnext", resnext, size=64, batch=4),
    own("frozen_resnet", frozen_resnet, size=64),
    classifier("mobilenet_v2"),
    classifier("mobilenet_v3_small"),
    classifier("efficientnet_b0"),
    classifier("mnasnet0_5"),
    classifier("shufflenet_v2_x0_5"),
    classifier("squeezenet1_1"),
    classifier("regnet_y_400mf"),
    classifier("googlenet", aux_logits=False, init_weights=False),
    own("vgg", vgg, size=56, batch=4),
    own("vit", vit),
    own("swin", swin),
    own("densenet", densenet, size=64, batch=4),
    own("convnext", convnext),
    segmenter("lraspp_mobilenet_v3_large", argument="input"),
    segmenter("deeplabv3_mobilenet_v3_large"),
]
