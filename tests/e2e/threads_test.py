"""Runs commands whose steps use several threads: kernels of every library, with transfers at the same time.

Results hardly depend on the number of threads. ThreadSanitizer finds races: `tools/test --tsan`.
"""

import command
from cli_cases import ZOO
from training import TrainCase

MANY = "--threads=4"  # perhaps more threads than cores, which vary the order
# Rounding depends on the number of threads, and random numbers do not.
RELATIVE, ABSOLUTE = 1e-3, 1e-5


class Threads(TrainCase):
    def assert_alike(self, *args):
        """Compares the losses of the steps with one thread and with many."""
        one, many = (self.report(*args, threads)["loss"] for threads in ("--threads=1", MANY))
        self.assertEqual(len(one), len(many))
        self.assertGreater(len(one), 0)
        for a, b in zip(one, many):
            self.assertAlmostEqual(a, b, delta=ABSOLUTE + RELATIVE * abs(a))

    def test_steps(self):
        for name in ZOO:
            with self.subTest(name):
                model, loss = self.zoo(name)
                self.assert_alike("run", model, *loss, "--steps=2")

    def test_copies_to_the_host_beside_the_kernels(self):
        model, loss = self.zoo("resnet")
        report = self.report("opt", model, *loss, "--budget=70%", "--allow=recompute,fetch", "--effort=0.2", MANY, "-o", "small.isth")
        self.assertGreater(report["transfers"], 0)
        self.assert_alike("run", "small.isth", "--steps=3")

    def test_training(self):
        self.assert_alike("train", self.net(), "--loss=cross_entropy", f"--data={self.data(tests=0)}", "--optimizer=adam", "--steps=8")

    def test_sweep(self):
        self.run_ok("sweep", "zoo:cnn", "--loss=cross_entropy", "--batch=4,8", "--policies=linear", "--run", "--steps=2", MANY,
                    "-o", "sweep.csv")
        self.assertEqual(len(self.read("sweep.csv").decode().splitlines()), 3)


if __name__ == "__main__":
    command.main()
