"""Checks the registers and the memory of threads and blocks that our compiled GPU kernels need.

Reads the output of `ptxas -v` for each kernel, which the build stores beside the compiled code.
"""

import glob
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import command  # noqa: E402

FOLDER = "kernels/cuda/kernels"  # tests run in the root of the runfiles
MOST_LANES = 256  # kMaxLanes of kernels/cuda/threads.h: the most threads of a block
REGISTERS = 65536  # of one multiprocessor
SHARED = 48 << 10  # the bytes that a block may use without an opt-in
# Families whose kernels may spill a few registers: those that replace a library's kernels, elimination, and kernels
# that wait for scattered memory.
MAY_SPILL = {"conv", "indexing", "linalg", "loss"}


class Kernel:
    def __init__(self, family, text):
        self.family = family
        self.name = text.split("'", 2)[1]
        self.stack, self.stores, self.loads = (
            int(n) for n in re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", text).groups()
        )
        self.registers = int(re.search(r"Used (\d+) registers", text)[1])
        shared = re.search(r"(\d+) bytes smem", text)
        self.shared = int(shared[1]) if shared else 0

    def __str__(self):
        return (f"{self.family}: {self.name}: {self.registers} registers, {self.stack} bytes of stack, "
                f"{self.stores} and {self.loads} of spills, {self.shared} shared")  # fmt: skip


def kernels():
    found = []
    for path in sorted(glob.glob(f"{FOLDER}/*.cu.resources")):
        family = os.path.basename(path).split(".")[0]
        with open(path) as file:
            found += [Kernel(family, part) for part in file.read().split("Compiling entry function")[1:]]
    return found


class Resources(unittest.TestCase):
    def setUp(self):
        self.kernels = kernels()

    def expect(self, holds):
        wrong = [str(kernel) for kernel in self.kernels if not holds(kernel)]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_all_families_are_there(self):
        families = {kernel.family for kernel in self.kernels}
        self.assertGreater(len(self.kernels), 500)
        self.assertGreaterEqual(families, {"attention", "elementwise", "matmul", "norm", "reduce", "softmax"})
        self.assertTrue(any(kernel.shared for kernel in self.kernels))

    def test_registers(self):
        """The registers of a whole block must fit a multiprocessor."""
        self.expect(lambda kernel: kernel.registers * MOST_LANES <= REGISTERS)

    def test_shared_memory(self):
        self.expect(lambda kernel: kernel.shared <= SHARED)

    def test_no_spills_in_hot_kernels(self):
        self.expect(lambda kernel: kernel.family in MAY_SPILL or kernel.stores == kernel.loads == 0)

    def test_few_spills_elsewhere(self):
        self.expect(lambda kernel: max(kernel.stores, kernel.loads) <= 64)

    def test_no_arrays_in_local_memory(self):
        """Allows a few words, which the C library's sine and cosine need in f64."""
        self.expect(lambda kernel: kernel.stack <= 64)


if __name__ == "__main__":
    command.main()
