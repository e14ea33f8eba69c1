"""Runs the zoo's networks on two sides: ours, and PyTorch's."""

import json
import subprocess
import tempfile
import time

import models
import torch
from torch.nn import functional as F

GPT2 = ["gpt2", "--depth=12", "--fused=1", "--dropout=0"]
NETWORKS = {  # name: batch, zoo options, module, sizes of a picture or a number of tokens, classes
    "resnet50": (4, ["resnet", "--depth=50", "--shape=3x224x224"], models.resnet50, (3, 224, 224), 1000),
    "densenet121": (4, ["densenet", "--shape=3x224x224"], models.densenet121, (3, 224, 224), 1000),
    "unet": (2, ["unet", "--shape=1x256x256"], lambda: models.Unet((1, 256, 256)), (1, 256, 256), 2),
    "unet512": (1, ["unet", "--shape=3x512x512"], lambda: models.Unet((3, 512, 512)), (3, 512, 512), 2),
    "gpt2": (1, [*GPT2, "--tokens=1024"], models.Gpt2, 1024, 50257),
    "gpt2_512": (8, [*GPT2, "--tokens=512"], lambda: models.Gpt2(tokens=512), 512, 50257),
}
DTYPES = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16}


class Ours:
    def __init__(self, options, name, batch):
        self.options, self.folder = options, tempfile.TemporaryDirectory()
        self.model = f"{self.folder.name}/model.isth"
        subprocess.run([options.isthmus, "zoo", *NETWORKS[name][1], f"--batch={batch}", "-o", self.model], check=True)

    def run(self, *plan, steps=4):
        """Returns (report, exit code)."""
        report = f"{self.folder.name}/report.json"
        done = subprocess.run(
            [self.options.isthmus, "run", self.model, "--loss=cross_entropy", f"--device={self.options.device}", *plan,
             f"--precision={self.options.precision}", f"--steps={steps}", "--progress=none", f"--report={report}"],
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode not in (0, 3, 5):
            raise RuntimeError(f"exit {done.returncode}: {done.stderr}")
        with open(report) as file:
            return json.load(file), done.returncode

    def step(self, *plan):
        """Returns the seconds of the fastest of a few steps, and the report."""
        figures, code = self.run(*plan)
        if code != 0:
            raise RuntimeError(f"exit {code}: does the network fit?")
        return min(figures["step_seconds"][1:]), figures


def has_pictures(name):
    return not isinstance(NETWORKS[name][3], int)


class Theirs:
    """PyTorch's side. With `channels_last`, pictures have this memory format; `fastest` finds the faster format."""

    def __init__(self, options, name, batch, channels_last=False):
        _, _, module, shape, classes = NETWORKS[name]
        self.channels_last = channels_last
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
        self.device, dtype = options.device, DTYPES[options.precision]
        self.module = module().to(self.device, dtype)
        if channels_last:
            self.module = self.module.to(memory_format=torch.channels_last)
        self.call = torch.compile(self.module) if options.compile else self.module
        if has_pictures(name):
            self.x = torch.randn(batch, *shape, device=self.device, dtype=dtype)
            if channels_last:
                self.x = self.x.to(memory_format=torch.channels_last)
        else:
            self.x = torch.randint(classes, (batch, shape), device=self.device)
        with torch.no_grad():
            y = self.module(self.x)
        self.labels = torch.randint(classes, (y.shape[0], *y.shape[2:]), device=self.device)

    @classmethod
    def fastest(cls, options, name, batch):
        first = cls(options, name, batch)
        if not has_pictures(name):
            return first
        last = cls(options, name, batch, channels_last=True)
        return min(first, last, key=lambda theirs: theirs.step())

    def once(self):
        for p in self.module.parameters():
            p.grad = None
        F.cross_entropy(self.call(self.x).float(), self.labels).backward()
        if self.device == "cuda":
            torch.cuda.synchronize()

    def step(self):
        """Returns the seconds of the fastest of a few steps."""
        self.once()
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            self.once()
            seconds.append(time.perf_counter() - start)
        return min(seconds)

    def peak(self):
        if self.device != "cuda":
            return None
        for p in self.module.parameters():
            p.grad = None
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        self.once()
        return torch.cuda.max_memory_allocated() - before
