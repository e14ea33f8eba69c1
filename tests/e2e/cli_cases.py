"""Small models, and operations that tests make with them through the command line."""

import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import termios

import command

MLP = """isthmus 1
graph @mlp {
  input %x : f32[64, 32]
  param %w1 : f32[32, 128] = normal {std = 0.2, seed = 1}
  param %b1 : f32[128] = normal {std = 0.2, seed = 2}
  param %w2 : f32[128, 128] = normal {std = 0.1, seed = 3}
  param %w3 : f32[128, 10] = normal {std = 0.1, seed = 4}
  %h1 = matmul(%x, %w1) : f32[64, 128]
  %s1 = add(%h1, %b1) : f32[64, 128]
  %a1 = tanh(%s1) : f32[64, 128] #checkpoint
  %h2 = matmul(%a1, %w2) : f32[64, 128]
  %a2 = sigmoid(%h2) : f32[64, 128]
  %y = matmul(%a2, %w3) : f32[64, 10]
  output %y
}
"""


def chain(depth):
    """A chain of elementwise ops and products, in which every policy finds something to recompute."""
    lines = ["isthmus 1", "graph @chain {", "  input %x : f32[64, 64]"]
    lines += [f"  param %w{i} : f32[64, 64] = normal {{std = 0.1, seed = {i}}}" for i in range(depth)]
    last = "x"
    for i in range(depth):
        lines += [f"  %h{i} = matmul(%{last}, %w{i}) : f32[64, 64]", f"  %t{i} = tanh(%h{i}) : f32[64, 64]",
                  f"  %a{i} = sigmoid(%t{i}) : f32[64, 64]"]
        last = f"a{i}"
    return "\n".join([*lines, f"  output %{last}", "}"]) + "\n"


# Small networks of the zoo that cover different causes of errors: skips, batch norm, dropout, random numbers, inverses.
ZOO = {
    "mlp": ["mlp", "--batch=64", "--dropout=0.3"],
    "cnn": ["cnn", "--batch=2"],
    "resnet": ["resnet", "--depth=20", "--batch=2", "--shape=3x32x32"],
    "unet": ["unet", "--batch=1", "--shape=1x32x32", "--width=8"],
    "gpt2": ["gpt2", "--depth=2", "--width=64", "--heads=4", "--batch=1", "--tokens=32", "--vocab=128"],
    "gpt2_fused": ["gpt2", "--depth=2", "--width=64", "--heads=4", "--batch=1", "--tokens=32", "--vocab=128", "--fused=1",
                   "--dropout=0"],
    "vae": ["vae", "--batch=2"],
    "glow": ["glow", "--batch=2", "--depth=2", "--levels=2", "--width=8", "--shape=1x8x8"],
    "revnet": ["revnet", "--batch=2", "--depth=1", "--levels=2", "--width=8", "--shape=3x8x8"],
}


class Case(command.TestCase):
    def mlp(self):
        return self.write("mlp.isth", MLP)

    def chain(self):
        return self.write("chain.isth", chain(12))

    def zoo(self, name):
        """Returns the name of a forward graph of the zoo, and the options to train it with."""
        self.run_ok("zoo", *ZOO[name], "-o", f"{name}.isth")
        loss = "  loss %" in self.read(f"{name}.isth").decode()
        return f"{name}.isth", [] if loss else ["--loss=mean"]

    def report(self, *args, **kwargs):
        """Returns the report; its entry "talk" is the text on stderr."""
        result = self.run_ok(*args, "--report=report.json", **kwargs)
        return {**json.loads(self.read("report.json")), "talk": result.err}

    def outputs(self, *args, **kwargs):
        """Returns the bytes of the file of each output, by the output's name."""
        shutil.rmtree(self.path("outputs"), ignore_errors=True)
        self.run_ok("run", *args, "--outputs=outputs", **kwargs)
        names = json.loads(self.read("outputs/names.json"))
        self.assertEqual(sorted(os.listdir(self.path("outputs"))), sorted([*names, "names.json"]))
        return {name: self.read(f"outputs/{file}") for file, name in names.items()}

    def on_terminal(self, *args, env, columns=80):
        """Returns the exit code, and the text that the command writes to stderr if that is a terminal of this width."""
        primary, secondary = pty.openpty()
        fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([command.BINARY, *args], cwd=self.dir, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=secondary,
                                   env=env)
        os.close(secondary)
        output = b""
        while True:
            try:
                block = os.read(primary, 65536)
            except OSError:  # all other ends are closed
                break
            if not block:
                break
            output += block
        os.close(primary)
        return process.wait(), output

    def assert_same(self, a, b):
        """Compares two results of outputs() bit by bit."""
        self.assertEqual(sorted(a), sorted(b))
        self.assertEqual([name for name in a if a[name] != b[name]], [], "these differ")
