"""Tests steps over several GPUs, which a library emulates on the CPU: messages go by NCCL, for which another library stands
in, or through the host's memory. Bits and peaks are those of one GPU; failures end all devices."""

import json
import os
import re
import shutil
import unittest

import command
from cli_cases import Case
from mpi_cases import MPIRUN, mpirun
from training import NET, examples, npz

GPU = os.path.abspath("kernels/cuda/libisthmus_cuda_emulation.so")  # tests run in the root of the runfiles
NCCL = os.path.abspath("tests/runtime/libnccl_stand_in.so")
NO_NCCL = "/no/such/libnccl.so"

NETS = {
    "mlp": ["mlp", "--depth=6", "--width=48", "--batch=12", "--dropout=0.3"],
    "unet": ["unet", "--depth=2", "--width=8", "--batch=4", "--shape=3x16x16"],  # long skips
    "gpt2": ["gpt2", "--depth=3", "--width=32", "--heads=4", "--batch=4", "--tokens=16", "--vocab=64"],  # a tied head
}


class GpuCase(Case):
    def environment(self, nccl=NCCL, **more):
        return {"ISTHMUS_CUDA_LIBRARY": GPU, "ISTHMUS_NCCL_LIBRARY": nccl, "ISTHMUS_STAND_IN_LOG": self.path("nccl.log"),
                "ISTHMUS_STAND_IN_FOLDER": self.dir, **more}

    def net(self, name):
        self.run_ok("zoo", *NETS[name], "-o", f"{name}.isth")
        return [f"{name}.isth", "--loss=cross_entropy", "--device=cuda", "--seed=5"]

    def moved(self):
        """The messages that went by NCCL since the last call, those of both ends."""
        text = self.read("nccl.log").decode() if os.path.exists(self.path("nccl.log")) else ""
        self.write("nccl.log", "")
        self.assertEqual(re.findall(r"/\S*nccl-\w+", " ".join(os.listdir(self.dir))), [])
        return sum(int(n) for n in re.findall(r": (\d+) messages", text))

    def report_of(self, name="r.json"):
        report = json.loads(self.read(name))
        for stage in report.get("stages", []):
            self.assertEqual(stage["measured_peak_bytes"], stage["predicted_peak_bytes"])
        return report


class SameBits(GpuCase):
    def check(self, name, *options, stages=2, microbatches=4):
        """Gradients and losses of one GPU, of several by NCCL, and of several through the host's memory."""
        run = [*self.net(name), f"--microbatches={microbatches}", "--steps=2", "--report=r.json", *options]
        want = self.outputs(*run, "--devices=cuda:0", f"--stages={stages}", env=self.environment())
        self.assertTrue(any(name.startswith("grad") for name in want))
        loss = self.report_of()["loss"]
        several = [*run, f"--stages={stages}", *([] if stages == 2 else ["--devices=cuda:0,cuda:1"])]
        self.assertEqual(self.moved(), 0)
        for nccl in NCCL, NO_NCCL:
            with self.subTest(nccl):
                self.assert_same(self.outputs(*several, env=self.environment(nccl)), want)
                report = self.report_of()
                self.assertEqual(report["loss"], loss)
                self.assertEqual([s["device"] for s in report["stages"]], ["cuda:0", "cuda:1"])
                self.assertEqual(self.moved() > 0, nccl == NCCL)
                notes = [note for note in report["device_notes"] if "NCCL was not found" in note]
                self.assertEqual(len(notes), int(nccl != NCCL), report["device_notes"])

    def test_mlp(self):
        for mode in "never", "always":
            self.check("mlp", f"--checkpoint={mode}", "--schedule=1f1b")

    def test_unet(self):
        self.check("unet", "--schedule=gpipe", microbatches=2)

    def test_gpt2(self):
        self.check("gpt2", "--budget=80%", "--effort=0.3")

    def test_several_stages_on_a_gpu(self):
        self.check("mlp", "--schedule=interleaved", stages=4)

    def test_each_program_is_on_its_gpu(self):
        """Also where the first stage is on the second GPU: on one GPU, nothing would go by NCCL."""
        self.run_ok("run", *self.net("mlp"), "--devices=cuda:1,cuda:0", "--stages=2", "--report=r.json", env=self.environment())
        self.assertEqual({s["device"] for s in self.report_of()["stages"]}, {"cuda:0", "cuda:1"})
        self.assertGreater(self.moved(), 0)

    def test_training(self):
        x, y = examples(48)
        data = self.write("d.npz", npz(x_train=x, y_train=y, x_test=x, y_test=y))
        model = self.write("net.isth", NET.format(batch=16))
        args = ["train", model, "--loss=cross_entropy", f"--data={data}", "--steps=9", "--report=r.json", "--optimizer=adam",
                "--microbatches=2", "--batch-norm=micro", "--device=cuda", "--stages=2", "--save=w.safetensors"]
        saved = []
        for devices in [], ["--devices=cuda:0"]:
            self.run_ok(*args, *devices, env=self.environment())
            saved.append((json.loads(self.read("r.json"))["loss"], self.read("w.safetensors")))
        self.assertEqual(saved[0], saved[1])
        self.assertGreater(self.moved(), 0)


class Failures(GpuCase):
    def fails(self, said, *options, code=5, **faults):
        result = command.run("run", *self.net("mlp"), "--microbatches=4", *options, cwd=self.dir, env=self.environment(**faults))
        self.assertEqual(result.code, code, result)
        self.assertRegex(result.err, said)

    def test_nccl_fails(self):
        for fault, doing in ("open", "opening a channel to another GPU"), ("send", "starting a message to or from another GPU"):
            self.fails(rf"node '%[^']+' \(wait\): error: cuda:[01]: {doing}: the stand-in was told to fail", "--stages=2",
                       ISTHMUS_STAND_IN_FAULT=fault)

    def test_too_few_gpus(self):
        self.fails(r"there is no GPU 2: 2 found; run several stages on each of those that there are with --devices=cuda:0", "--stages=3")

    def test_a_gpu_and_a_cpu(self):
        self.fails("the graph has nodes on 'cpu:1', and the step runs on GPUs; expected devices cuda:0, cuda:1", "--stages=2",
                   "--devices=cuda:0,cpu:1")


@unittest.skipUnless(shutil.which(MPIRUN), "there is no mpirun; `tools/setup` installs it, Debian's openmpi-bin")
class Processes(GpuCase):
    def test_each_process_has_a_gpu(self):
        """Two processes have one each. Of three, two share one and send through the host's memory."""
        for ranks in 2, 3:
            for nccl in NCCL, NO_NCCL:
                with self.subTest(f"{ranks} {nccl}"):
                    run = ["run", *self.net("mlp"), "--microbatches=4", "--report=r.json"]
                    self.run_ok(*run, "--devices=cuda:0", f"--stages={ranks}", env=self.environment())
                    loss = self.report_of()["loss"]
                    result = mpirun(ranks, *run, cwd=self.dir, env=self.environment(nccl))
                    self.assertEqual(result.code, 0, result)
                    report = self.report_of()
                    self.assertEqual(report["loss"], loss)
                    self.assertEqual(len(report["stages"]), ranks)
                    self.assertEqual(self.moved() > 0, nccl == NCCL)

    def test_one_process_fails(self):
        result = mpirun(2, "run", *self.net("mlp"), "--microbatches=4", cwd=self.dir,
                        env=self.environment(ISTHMUS_STAND_IN_FAULT="send"))
        self.assertEqual(result.code, 5, result)
        self.assertIn("the stand-in was told to fail", result.err)
        self.assertLess(result.seconds, 60)


if __name__ == "__main__":
    command.main()
