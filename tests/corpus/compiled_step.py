"""A detection model in a step of torch.compile: PyTorch's tracer breaks it into many graphs, which share one budget."""

import copy
import os
import sys

import torch
import torchvision
from checks import Row

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "python"))

NAME, KIND = "torchvision.faster_rcnn", "compiled"
STEPS = 4  # the first compiles, the second is measured, the third plans


def drawn():
    torch.manual_seed(0)
    few = dict(min_size=96, max_size=128, rpn_pre_nms_top_n_train=50, rpn_post_nms_top_n_train=20, num_classes=4)
    model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, **few)
    pictures = [torch.rand(3, 96, 128) for _ in range(2)]
    boxes = torch.tensor([[10.0, 10.0, 60.0, 60.0], [30.0, 20.0, 90.0, 80.0]])
    return model.train(), pictures, [{"boxes": boxes, "labels": torch.tensor([1, 2])} for _ in pictures]


class Training:
    def __init__(self, **compiled):
        torch._dynamo.reset()
        self.model, pictures, targets = drawn()
        self.loss = torch.compile(lambda: sum(self.model(copy.copy(pictures), targets).values()), **compiled)

    def step(self):
        self.model.zero_grad()
        torch.manual_seed(1)
        self.loss().backward()

    def run(self):
        for _ in range(STEPS):
            self.step()
        return [p.grad.clone() for p in self.model.parameters() if p.grad is not None]


def ask(name, options):
    import isthmus.torch

    torch.set_num_threads(1)
    row = Row(name, KIND)
    # Every backend first adds the gradients of values that several graphs read within each graph.
    want = Training(backend="aot_eager").run()
    training = Training(backend=isthmus.torch.backend, options={"budget": "85%"})
    got = training.run()
    if len(want) != len(got) or not all(map(torch.equal, want, got)):
        row.fail("train", "gradients are other ones than those of the backend aot_eager")
    report = isthmus.torch.report()
    if len(report.steps) != 1 or len(report.steps[0].parts) < 2:
        row.fail("budget", f"expected one plan of a step of several graphs, found\n{report}")
        yield row
        return
    (plan,) = report.steps
    training.model.zero_grad()
    measured = isthmus.torch.measured_peak(training.step)
    row.figures.update(
        nodes=sum(part.ops for part in plan.parts), memory=plan.planned_peak_bytes / plan.baseline_peak_bytes, budget=measured / plan.budget_bytes
    )
    if measured > 1.05 * plan.planned_peak_bytes or plan.planned_peak_bytes > plan.budget_bytes:
        row.fail("budget", f"{measured} bytes measured, {plan.planned_peak_bytes} planned, {plan.budget_bytes} asked for")
    yield row
