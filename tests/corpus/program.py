"""Runs the program, and keeps each command line so that it can be repeated."""

import json
import os
import shlex
import subprocess
from dataclasses import dataclass

import numpy as np

TIMEOUT = 300
COMMON = ["--threads=1", "--progress=none"]


@dataclass
class Call:
    command: list
    code: int = 0  # negative: the signal that ended it; None: it exceeded the time limit
    talk: str = ""

    @property
    def line(self):
        return shlex.join(self.command)

    def notes(self):
        return [line for line in self.talk.splitlines() if line.startswith("note: ")]

    def error(self):
        """Returns the first error, or the last line."""
        if self.code is None:
            return f"no end after {TIMEOUT} s"
        lines = self.talk.strip().splitlines() or ["no message"]
        return f"exit {self.code}: " + next((line for line in lines if "error: " in line), lines[-1])[:400]


class Program:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        os.makedirs(folder, exist_ok=True)

    def call(self, verb, *args):
        common = COMMON if verb in ("run", "opt", "verify", "import") else []
        made = Call([self.binary, verb, *map(str, args), *common])
        try:
            done = subprocess.run(
                made.command, capture_output=True, timeout=TIMEOUT, env={**os.environ, "OMP_WAIT_POLICY": "passive"}
            )
            made.code, made.talk = done.returncode, done.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired:
            made.code = None
        return made

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_inputs(self, name, inputs):
        """Writes the inputs to a new folder, and returns the option --inputs for it."""
        folder = self.path(name)
        os.makedirs(folder, exist_ok=True)
        for name, value in inputs.items():
            np.save(os.path.join(folder, name.replace("/", "_").replace(":", "_") + ".npy"), value)
        return f"--inputs={folder}"


def outputs(folder):
    """Returns {name: array} of the files that --outputs wrote."""
    with open(os.path.join(folder, "names.json"), encoding="utf-8") as file:
        names = json.load(file)
    return {name: np.load(os.path.join(folder, file)) for file, name in names.items()}


def report(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)
