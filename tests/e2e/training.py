"""Data sets and models for tests of `isthmus train`."""

import io
import json
import os
import random
import signal
import struct
import subprocess
import time
import zipfile

import command
from cli_cases import Case

# A network with all state that must be reproduced: weights, a norm with running averages, and random numbers.
NET = """isthmus 2
graph @net {{
  input %x : f32[{batch}, 12]
  param %w1 : f32[12, 32] = normal {{std = 0.3, seed = 1}}
  param %b1 : f32[32] = fill {{value = 0}}
  param %scale : f32[32] = fill {{value = 1}}
  param %shift : f32[32] = fill {{value = 0}}
  state %mean : f32[32] = fill {{value = 0}}
  state %var : f32[32] = fill {{value = 1}}
  param %w2 : f32[32, 4] = normal {{std = 0.2, seed = 2}}
  %h = matmul(%x, %w1)
  %s = add(%h, %b1)
  %n, %now_mean, %now_var = batch_norm(%s, %scale, %shift, %mean, %var)
  %a = tanh(%n)
  %d = dropout(%a) {{ratio = 0.2, stream = 7}}
  %y = matmul(%d, %w2)
  output %y
}}
"""


def npz(compression=zipfile.ZIP_STORED, **arrays):
    """Returns the bytes of an .npz file; each array is a tuple of the arguments of command.npy."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:  # as NumPy does
                member.write(command.npy(*array))
    return content.getvalue()


def examples(count, seed=0):
    """Returns arrays x and y: the label is the index of the largest of the first four of twelve numbers."""
    draws = random.Random(seed)
    rows = [[draws.gauss(0, 1) for _ in range(12)] for _ in range(count)]
    labels = [max(range(4), key=row.__getitem__) for row in rows]
    return ("f32", (count, 12), [v for row in rows for v in row]), ("i64", (count,), labels)


def tensors(content):
    """Returns (type, shape, bytes) by name of a safetensors file, and its metadata."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__", {})
    data = content[8 + length:]
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}, metadata


def with_metadata(content, change):
    """Returns a safetensors file with the metadata that `change` makes of the file's own."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    header["__metadata__"] = change(header["__metadata__"])
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)
    return struct.pack("<Q", len(text)) + text + content[8 + length:]


class TrainCase(Case):
    def net(self, batch=16):
        return self.write("net.isth", NET.format(batch=batch))

    def data(self, count=100, tests=40, **kwargs):
        x, y = examples(count)
        more = dict(zip(("x_test", "y_test"), examples(tests, seed=1))) if tests else {}
        return self.write("data.npz", npz(x_train=x, y_train=y, **more, **kwargs))

    def flow(self):
        """Writes a small flow and pictures for it, and returns arguments of the verb."""
        self.run_ok("zoo", "glow", "--depth=12", "--levels=1", "--width=8", "--batch=32", "--shape=1x8x8", "-o", "flow.isth")
        numbers = [(i * i + i // 7) % 17 for i in range(70 * 64)]
        data = self.write("pictures.npz", npz(x_train=("u8", (70, 1, 8, 8), numbers)))
        return ["flow.isth", f"--data={data}", "--levels=17", "--optimizer=sgd", "--lr=1e-4"]

    def digits(self):
        return command.shared_folder("data", "digits.npz")

    def classifier(self, batch=64, width=8, depth=14):
        """Writes a residual network for pictures of 8 x 8, of 15 convolutions by default."""
        self.run_ok("zoo", "resnet", f"--depth={depth}", "--shape=1x8x8", f"--width={width}", f"--batch={batch}", "--classes=10",
                    "-o", "classifier.isth")
        return "classifier.isth"

    def train(self, model, data, *args, code=0, loss="cross_entropy", **kwargs):
        """Runs `train`, and returns the result, and the report if one was written."""
        losses = [f"--loss={loss}"] if loss else []
        result = command.run("train", model, *losses, f"--data={data}", "--threads=1", "--report=report.json", *args, cwd=self.dir,
                             **kwargs)
        self.assertEqual(result.code, code, result)
        report = {}
        if os.path.exists(self.path("report.json")):
            report = json.loads(self.read("report.json"))
            os.remove(self.path("report.json"))
        return result, report

    def start(self, *args, **kwargs):
        """Starts a run without waiting for it."""
        process = subprocess.Popen([command.BINARY, "train", *args], cwd=self.dir, stderr=subprocess.PIPE,
                                   **kwargs)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, name, process):
        """Waits until the run has written this file."""
        end = time.monotonic() + 60
        while not os.path.exists(self.path(name)) and time.monotonic() < end and process.poll() is None:
            time.sleep(0.001)
        self.assertTrue(os.path.exists(self.path(name)), f"no {name}, and the run has ended with {process.poll()}")

    def kill_and_resume(self, kills, run, steps, seed=0):
        """Kills a run of `run`, the arguments of the verb, at random moments, and resumes it each time. Returns the
        bytes of the last checkpoint, and how often the run was killed before it had ended."""
        draws = random.Random(seed)
        ended, resume, every = 0, [], ["--save=killed.safetensors", "--save-every=1", f"--steps={steps}"]
        for _ in range(kills):
            process = self.start(*run, *every, *resume)
            if not resume:
                self.wait_for("killed.safetensors", process)
            time.sleep(draws.uniform(0, 0.1))
            process.send_signal(signal.SIGKILL)
            ended += process.wait() == -signal.SIGKILL
            resume = ["--resume=killed.safetensors"]
            tensors(self.read("killed.safetensors"))  # it must be complete
        self.run_ok("train", *run, *every, *resume)
        return self.read("killed.safetensors"), ended
