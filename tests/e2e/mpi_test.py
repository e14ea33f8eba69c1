"""Tests steps whose devices are processes that mpirun started: they give the bits of the same step on threads, one process
writes the files, and if one process dies, all end. So it is on one host and on two."""

import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import command
from mpi_cases import MPIRUN, START, environment, mpirun
from training import TrainCase, tensors

GPU = os.path.abspath("kernels/cuda/libisthmus_cuda_emulation.so")  # tests run in the root of the runfiles
NCCL = os.path.abspath("tests/runtime/libnccl_stand_in.so")
TWO_HOSTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "two_hosts")
ENDS_WITHIN = 5  # seconds, from the death of a process to the end of the last

NETS = {
    "mlp": ["mlp", "--depth=6", "--width=48", "--batch=12", "--dropout=0.3"],
    "unet": ["unet", "--batch=2", "--shape=1x32x32", "--width=8", "--depth=2"],
    "gpt2": ["gpt2", "--depth=3", "--width=32", "--heads=4", "--batch=4", "--tokens=16", "--vocab=64"],  # tied head, dropout
}


def children(pid):
    """The processes that this one started and that have not ended."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    state, parent = file.read().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == pid and state != "Z":
                found.append(int(name))
    return found


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class MpiCase(TrainCase):
    def mpi_ok(self, ranks, *args, **kwargs):
        result = mpirun(ranks, *args, cwd=self.dir, **kwargs)
        self.assertEqual(result.code, 0, f"mpirun -n {ranks} isthmus {' '.join(map(str, args))}\n{result}")
        return result

    def mpi_fails(self, code, ranks, *args, **kwargs):
        result = mpirun(ranks, *args, cwd=self.dir, **kwargs)
        self.assertEqual(result.code, code, result)
        return result.err

    def zoo_net(self, name):
        self.run_ok("zoo", *NETS[name], "-o", f"{name}.isth")
        return f"{name}.isth"

    def folder(self, name):
        found = {}
        for file in os.listdir(self.path(name)):
            found[file] = self.read(os.path.join(name, file))
        return found


class SameBits(MpiCase):
    def check(self, name, ranks, *more):
        """Losses, gradients and peaks of threads and of processes."""
        args = ["run", self.zoo_net(name), "--loss=cross_entropy", "--threads=1", "--steps=2", "--seed=5", *more]
        for folder in "threads", "processes":
            shutil.rmtree(self.path(folder), ignore_errors=True)
        self.run_ok(*args, f"--stages={ranks}", "--outputs=threads", "--report=threads.json")
        self.mpi_ok(ranks, *args, "--outputs=processes", "--report=processes.json")
        want, got = (json.loads(self.read(f"{kind}.json")) for kind in ("threads", "processes"))
        self.assertEqual(len(want["stages"]), ranks)
        self.assertEqual(got["loss"], want["loss"])
        self.assertEqual(got["kernels"], want["kernels"])
        for key in "device", "measured_peak_bytes", "predicted_peak_bytes":
            self.assertEqual([s[key] for s in got["stages"]], [s[key] for s in want["stages"]], key)
        self.assertTrue(all(s["busy_seconds"] > 0 for s in got["stages"]))
        outputs = self.folder("threads")
        self.assertGreater(sum(file.startswith("grad.") for file in outputs), 3)
        self.assertEqual(self.folder("processes"), outputs)

    def test_mlp(self):
        for ranks in 2, 3:
            with self.subTest(ranks):
                self.check("mlp", ranks, "--microbatches=4")

    def test_unet(self):
        for ranks in 2, 3:
            with self.subTest(ranks):
                self.check("unet", ranks)

    def test_gpt2(self):
        for ranks in 2, 3:
            with self.subTest(ranks):
                self.check("gpt2", ranks, "--microbatches=2")

    def test_recomputes(self):
        self.check("mlp", 2, "--microbatches=3", "--checkpoint=always")
        self.check("gpt2", 2, "--microbatches=2", "--budget=80%", "--effort=0.3")

    def test_devices_of_the_file(self):
        """A file that was divided before, and the same file against the whole step in `verify`."""
        self.zoo_net("mlp")
        self.run_ok("opt", "mlp.isth", "--loss=cross_entropy", "--threads=1", "--stages=3", "--microbatches=2", "-o", "three.isth")
        loss = self.report("run", "three.isth", "--threads=1")["loss"]
        self.mpi_ok(3, "run", "three.isth", "--threads=1", "--report=r.json")
        self.assertEqual(json.loads(self.read("r.json"))["loss"], loss)
        # (With micro-batches sums are in another order.)
        self.run_ok("opt", "mlp.isth", "--loss=cross_entropy", "--threads=1", "--stages=2", "-o", "two.isth")
        said = self.mpi_ok(2, "verify", "mlp.isth", "two.isth", "--loss=cross_entropy", "--threads=1").err
        self.assertEqual(said.count("outputs are equal bit for bit"), 1, said)

    def test_opt_writes_once(self):
        self.zoo_net("mlp")
        args = ["opt", "mlp.isth", "--loss=cross_entropy", "--threads=1", "--microbatches=2"]
        self.run_ok(*args, "--stages=2", "-o", "want.isth", "--dot=want.dot")
        result = self.mpi_ok(2, *args, "-o", "got.isth", "--dot=got.dot")
        self.assertEqual(self.read("got.isth"), self.read("want.isth"))
        self.assertEqual(self.read("got.dot"), self.read("want.dot"))
        self.assertEqual(len(re.findall("^peak .* -> ", result.err, re.MULTILINE)), 1, result.err)
        self.assertEqual(self.mpi_ok(2, *args, "-o", "-").out, self.run_ok(*args, "--stages=2", "-o", "-").out)

    def test_one_rank(self):
        """mpirun of one process is a run without mpirun."""
        self.zoo_net("mlp")
        args = ["run", "mlp.isth", "--loss=cross_entropy", "--threads=1", "--stages=2", "--microbatches=2"]
        loss = self.report(*args)["loss"]
        self.mpi_ok(1, *args, "--report=r.json")
        self.assertEqual(json.loads(self.read("r.json"))["loss"], loss)

    def test_counting(self):
        self.zoo_net("mlp")
        self.mpi_ok(2, "run", "mlp.isth", "--loss=cross_entropy", "--device=counting", "--threads=1", "--report=r.json")
        report = json.loads(self.read("r.json"))
        self.assertIsNone(report["loss"])
        self.assertEqual([s["measured_peak_bytes"] for s in report["stages"]],
                         [s["predicted_peak_bytes"] for s in report["stages"]])


class Training(MpiCase):
    def run_of(self, *more):
        return ["train", self.net(), "--loss=cross_entropy", f"--data={self.data()}", "--threads=1", "--seed=3", "--lr=0.01", *more]

    def test_as_on_threads(self):
        run = self.run_of("--steps=14")
        self.run_ok(*run, "--stages=2", "--save=want.safetensors", "--report=want.json")
        result = self.mpi_ok(2, *run, "--save=got.safetensors", "--report=got.json")
        want, got = (json.loads(self.read(f"{name}.json")) for name in ("want", "got"))
        for key in "loss", "evaluations", "learning_rate", "measured_peak_bytes":
            self.assertEqual(got[key], want[key], key)
        self.assertEqual(len(got["loss"]), 14)
        self.assertEqual(self.read("got.safetensors"), self.read("want.safetensors"))
        self.assertEqual(result.err.count("saved"), 1, result.err)

    def test_resumes_on_other_numbers_of_processes(self):
        run = self.run_of()
        self.mpi_ok(2, *run, "--steps=13", "--save=whole.safetensors")
        self.mpi_ok(2, *run, "--steps=5", "--save=part.safetensors")
        self.mpi_ok(3, *run, "--steps=9", "--resume=part.safetensors", "--save=part.safetensors")
        self.run_ok(*run, "--steps=11", "--resume=part.safetensors", "--save=part.safetensors")
        self.mpi_ok(2, *run, "--steps=13", "--resume=part.safetensors", "--save=part.safetensors")
        self.assertEqual(self.read("part.safetensors"), self.read("whole.safetensors"))


class Errors(MpiCase):
    def run_of(self, *more):
        self.zoo_net("mlp")
        return ["run", "mlp.isth", "--loss=cross_entropy", "--threads=1", *more]

    def test_wrong_number_of_ranks(self):
        said = self.mpi_fails(1, 3, *self.run_of("--stages=2"))
        self.assertRegex(said, r"rank \d on \S+: error: the step runs on 2 devices \(cpu:0, cpu:1\), and mpirun started 3 processes; "
                               r"start it with mpirun -n 2")
        self.assertIn("--stages=3", said)

    def test_different_targets(self):
        """One process has other threads."""
        run = self.run_of()
        more = [a if a != "--threads=1" else "--threads=2" for a in run]
        said = self.mpi_fails(1, 1, *run, ":", "-n", "1", command.BINARY, *more)
        self.assertRegex(said, r"rank 1 on \S+ has compiled the step for '.*threads=2', and rank 0 on \S+ for '.*threads=1'")

    def test_different_steps(self):
        said = self.mpi_fails(1, 1, *self.run_of(), ":", "-n", "1", command.BINARY, *self.run_of("--microbatches=2"))
        self.assertIn(f"rank 1 on {socket.gethostname()} has compiled another step than rank 0", said)

    def test_different_data(self):
        data = ["train", self.net(), "--loss=cross_entropy", "--threads=1", "--steps=3"]
        other = self.write("other.npz", self.read(self.data(count=101)))
        said = self.mpi_fails(1, 1, *data, f"--data={self.data()}", ":", "-n", "1", command.BINARY, *data, f"--data={other}")
        self.assertRegex(said, r"rank 1 on \S+ has other data or options than rank 0 on \S+ the array 'x\S*' of --data is not the same")

    def on_two(self, first, second):
        """Two ranks with a command line each: all fail, and nothing is written."""
        said = self.mpi_fails(1, 1, *first, "--outputs=out", ":", "-n", "1", command.BINARY, *second, "--outputs=out")
        self.assertFalse(os.path.exists(self.path("out")))
        return said

    def test_other_inputs(self):
        """Processes that were given other seeds, inputs or weights name the tensor and what each was given."""
        run = self.run_of()
        said = self.on_two([*run, "--seed=1"], [*run, "--seed=2"])
        self.assertRegex(said, r"'%x' is not the same in all processes: rank 0 on \S+ has it drawn with --seed=1; "
                               r"rank 1 on \S+ has it drawn with --seed=2 \(1 other of its inputs differ too\)")
        self.run_ok(*run, "--outputs=i1", "--wrt=%x")
        for folder, number in ("i1", 1), ("i2", 2):
            os.makedirs(self.path(folder), exist_ok=True)
            for name in os.listdir(self.path(folder)):
                os.remove(self.path(f"{folder}/{name}"))
            numpy_bytes = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little")
            header = "{'descr': '<i8', 'fortran_order': False, 'shape': (12,), }"
            self.write(f"{folder}/labels.npy", numpy_bytes + header.ljust(117).encode() + b"\n" + bytes([number] + [0] * 7) * 12)
        said = self.on_two([*run, "--inputs=i1"], [*run, "--inputs=i2"])
        self.assertRegex(said, r"'%labels' is not the same .*'i1/labels.npy'.*'i2/labels.npy'")
        # One bit of the weights differs.
        text = self.read("mlp.isth").decode()
        drawn = re.search(r"param %\S+ : f32\[48\] = (.*)", text)[0]
        for folder, value in ("a", "0.5"), ("b", "0.50000006"):
            os.makedirs(self.path(folder))
            self.write(f"{folder}/mlp.isth", text.replace(drawn, drawn.split(" = ")[0] + f" = fill {{value = {value}}}"))
        said = self.on_two(["run", "a/mlp.isth", *run[2:]], ["run", "b/mlp.isth", *run[2:]])
        self.assertRegex(said, r"'%\S+' is not the same .*as 'a/mlp.isth' gives it.*as 'b/mlp.isth' gives it")

    def test_report_of_a_budget_that_cannot_be_met(self):
        """All processes fail, and the first one writes its report before it ends."""
        said = self.mpi_fails(3, 2, *self.run_of("--budget=1000", "--report=r.json"))
        self.assertIn("rank 0 on ", said)
        self.assertGreater(json.loads(self.read("r.json"))["smallest_budget_bytes"], 1000)

    def test_one_process_fails_alone(self):
        """The first process cannot write what the others do not write."""
        start = time.monotonic()
        said = self.mpi_fails(1, 2, *self.run_of("--report=/dev/full"))
        self.assertLess(time.monotonic() - start, 30)
        self.assertRegex(said, r"rank 0 on \S+: error: cannot write '/dev/full'")
        self.assertNotIn("rank 1 on", said)

    def test_one_process_fails_in_the_midst(self):
        """The others wait for its next message."""
        start = time.monotonic()
        said = self.mpi_fails(1, 2, "train", self.net(), "--loss=cross_entropy", f"--data={self.data(tests=0)}", "--threads=1",
                              "--steps=10000000", "--save=/dev/full", "--save-every=3")
        self.assertLess(time.monotonic() - start, 30)
        self.assertRegex(said, r"rank 0 on \S+: error: cannot write '/dev/full'")
        self.assertNotIn("rank 1 on", said)

    def test_command_line(self):
        self.assertIn("there is no option '--stage'", self.mpi_fails(2, 2, *self.run_of("--stage=2")))
        self.assertIn("standard input", self.mpi_fails(2, 2, "run", "-", "--loss=mean"))

    def test_library_of_another_installation(self):
        """The library does not find the processes that mpirun started: here, as there is no mpirun."""
        result = command.run(*self.run_of(), cwd=self.dir, env={"OMPI_COMM_WORLD_SIZE": "2"})
        self.assertEqual(result.code, 5, result)
        self.assertIn("mpirun started 2 processes, and OpenMPI's library finds 1", result.err)

    def test_profile(self):
        said = self.mpi_fails(2, 2, "profile", *self.run_of()[1:])
        self.assertIn("profile looks at a step that is whole, and this one runs in stages on 2 devices", said)

    def test_without_the_library(self):
        said = self.mpi_fails(5, 2, *self.run_of(), env={"ISTHMUS_MPI_LIBRARY": "/no/libmpi.so.40"})
        for word in "/no/libmpi.so.40", "openmpi-bin", "libopenmpi3", "tools/setup --mpi":
            self.assertIn(word, said)
        said = self.mpi_fails(5, 2, *self.run_of(), env={"ISTHMUS_MPI_LIBRARY": "libz.so.1"})
        self.assertIn("it has no MPI_Init_thread", said)


class Death(MpiCase):
    """A process is killed at a random moment."""

    def start_run(self, ranks, *args):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        err = tempfile.TemporaryFile()
        self.addCleanup(err.close)
        process = subprocess.Popen([MPIRUN, *START, "-n", str(ranks), command.BINARY, *args], cwd=self.dir, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=err, env=environment(folder.name))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, err

    def ranks_of(self, process, ranks):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = sorted(children(process.pid))
            if len(found) == ranks:
                return found
            time.sleep(0.002)
        self.fail("mpirun did not start the processes")

    def wait_for_end(self, pids, start):
        while any(map(is_alive, pids)):
            self.assertLess(time.monotonic() - start, ENDS_WITHIN, "processes are still there")
            time.sleep(0.005)
        return time.monotonic() - start

    def check_files(self):
        """A checkpoint is whole or absent, and nothing else is left, except a whole one that a kill met before it took its place."""
        for name in os.listdir(self.dir):
            if ".tmp" in name:
                tensors(self.read(name))
                os.remove(self.path(name))
        self.assertFalse(os.path.exists(self.path("r.json")))
        if os.path.exists(self.path("w.safetensors")):
            found, metadata = tensors(self.read("w.safetensors"))
            self.assertIn("w1", found)
            return int(metadata["isthmus.step"])
        return 0

    def test_killed(self):
        draws = random.Random(1)
        took, run = [], ["train", self.net(), "--loss=cross_entropy", f"--data={self.data(tests=0)}", "--threads=1",
                         "--steps=10000000", "--save=w.safetensors", "--save-every=1", "--report=r.json"]
        steps = []
        for number in range(24 if os.environ.get("ISTHMUS_FULL") else 6):
            ranks = 2 + number % 2
            resume = ["--resume=w.safetensors"] if os.path.exists(self.path("w.safetensors")) else []
            process, err = self.start_run(ranks, *run, *resume)
            pids = self.ranks_of(process, ranks)
            time.sleep(draws.uniform(0, 3))
            victim = draws.randrange(ranks)
            start = time.monotonic()
            os.kill(pids[victim], signal.SIGKILL)
            took.append(self.wait_for_end([process.pid, *pids], start))
            self.assertNotEqual(process.wait(), 0)
            err.seek(0)
            said = err.read().decode()
            self.assertRegex(said, rf"rank {victim} with PID \d+ on node {socket.gethostname()} exited on\s+signal 9")
            steps.append(self.check_files())
        print(f"    all had ended {min(took):.2f} to {max(took):.2f} s after a kill; checkpoints at {steps}")
        self.assertGreater(steps[-1], 0)

    def test_stopped(self):
        """A process that stops without dying is noticed after the deadline; a long computation is none."""
        process, err = self.start_run(3, "train", self.net(), "--loss=cross_entropy", f"--data={self.data(tests=0)}", "--threads=1",
                                      "--steps=10000000", "--save=w.safetensors", "--save-every=1", "--deadline=2")
        pids = self.ranks_of(process, 3)
        self.wait_for("w.safetensors", process)
        time.sleep(3)  # longer than the deadline
        self.assertTrue(is_alive(process.pid))
        start = time.monotonic()
        os.kill(pids[1], signal.SIGSTOP)
        while any(map(is_alive, [process.pid, *pids])):
            self.assertLess(time.monotonic() - start, 2 + ENDS_WITHIN, "processes are still there")
            time.sleep(0.005)
        self.assertEqual(process.wait(), 5)
        err.seek(0)
        self.assertRegex(err.read().decode(), rf"rank [02] on \S+: .*error: rank 1 on {socket.gethostname()} has given no sign of life for 2 seconds")
        self.check_files()

    def test_crash(self):
        process, err = self.start_run(2, "train", self.net(), "--loss=cross_entropy", f"--data={self.data(tests=0)}", "--threads=1",
                                      "--steps=10000000", "--save=w.safetensors", "--save-every=1")
        pids = self.ranks_of(process, 2)
        self.wait_for("w.safetensors", process)
        start = time.monotonic()
        os.kill(pids[1], signal.SIGSEGV)
        self.wait_for_end([process.pid, *pids], start)
        self.assertEqual(process.wait(), 5)
        err.seek(0)
        self.assertRegex(err.read().decode(), r"rank 1 on \S+: error: internal: the program crashed")
        self.check_files()

    def test_mpirun_is_killed(self):
        """Nobody is left to end the others."""
        process, _ = self.start_run(2, "train", self.net(), "--loss=cross_entropy", f"--data={self.data(tests=0)}", "--threads=1",
                                    "--steps=10000000", "--save=w.safetensors", "--save-every=1")
        pids = self.ranks_of(process, 2)
        self.wait_for("w.safetensors", process)
        start = time.monotonic()
        process.kill()
        print(f"    both had ended {self.wait_for_end([process.pid, *pids], start):.2f} s after mpirun was killed")
        self.check_files()

    def test_interrupted(self):
        """Ctrl-C saves a checkpoint of one step, which goes on."""
        run = ["train", self.net(), "--loss=cross_entropy", f"--data={self.data(tests=0)}", "--threads=1", "--save=w.safetensors"]
        process, err = self.start_run(2, *run, "--steps=10000000", "--save-every=1")
        pids = self.ranks_of(process, 2)
        self.wait_for("w.safetensors", process)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        self.wait_for_end([process.pid, *pids], start)
        self.assertNotEqual(process.wait(), 0)
        step = self.check_files()
        self.assertGreater(step, 0)
        self.mpi_ok(2, *run, f"--steps={step + 3}", "--resume=w.safetensors")
        self.run_ok(*run[:-1], f"--steps={step + 3}", "--stages=2", "--save=want.safetensors")
        self.assertEqual(self.read("w.safetensors"), self.read("want.safetensors"))


class TwoHosts(MpiCase):
    """Two network namespaces with names of their own, between which OpenMPI sends by TCP."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.room = folder.name
        self.env = {**environment(self.room), "PWD": self.dir}

    def on_both(self, args, more=()):
        """The words of a command that runs `isthmus ARGS` with a process on each host."""
        return [MPIRUN, *START, *more, "--mca", "plm_rsh_agent", f"{self.room}/agent", "--host", "node1,node2", "-n", "2",
                command.BINARY, *args]

    def room_of(self, *words):
        process = subprocess.run([TWO_HOSTS, self.room, *words], cwd=self.dir, env=self.env, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=command.TIMEOUT)
        return process.returncode, process.stdout.decode(errors="backslashreplace")

    def test_trains_as_on_threads(self):
        run = ["train", self.net(), "--loss=cross_entropy", f"--data={self.data()}", "--threads=1", "--seed=3", "--steps=9"]
        self.run_ok(*run, "--stages=2", "--save=want.safetensors")
        code, said = self.room_of(*self.on_both([*run, "--save=got.safetensors", "--report=got.json"]))
        self.assertEqual(code, 0, said)
        self.assertEqual(self.read("got.safetensors"), self.read("want.safetensors"))

    def test_errors_name_the_host(self):
        code, said = self.room_of(*self.on_both(["run", self.net(), "--loss=cross_entropy", "--threads=1", "--stages=3"]))
        self.assertNotEqual(code, 0)
        for host in "rank 0 on node1", "rank 1 on node2":
            self.assertIn(f"{host}: error: the step runs on 3 devices", said)

    def test_a_host_that_vanishes(self):
        """By the settings of docs/stages.md, both hosts' processes end soon after nothing more comes through."""
        keepalive = [word for setting in ("time 2", "intvl 1", "probes 3")
                     for word in ("--mca", *f"oob_tcp_keepalive_{setting}".split())]
        run = self.on_both(["train", self.net(), "--loss=cross_entropy", f"--data={self.data(tests=0)}", "--threads=1",
                            "--steps=100000000", "--save=w.safetensors", "--save-every=1"], keepalive)
        unplugged = shlex.join(run) + " & until [ -f w.safetensors ]; do sleep 0.1; done; " + f"{self.room}/unplug; wait $!"
        code, said = self.room_of("bash", "-c", unplugged)
        self.assertNotEqual(code, 0)
        self.assertRegex(said, r"lost communication with a remote daemon[^\0]+ on node node2")
        tensors(self.read("w.safetensors"))


class Contract(MpiCase):
    def test_transport(self):
        """The tests of the thread transport, on MPI's, and between emulated GPUs over it."""
        test = os.path.join(os.path.dirname(command.BINARY), "..", "tests", "runtime", "transport_test")
        for ranks in 2, 3:
            with self.subTest(ranks):
                result = self.mpi_ok(ranks, program=test,
                                     env={"GTEST_COLOR": "no", "XML_OUTPUT_FILE": "", "ISTHMUS_CUDA_LIBRARY": GPU,
                                          "ISTHMUS_NCCL_LIBRARY": NCCL})
                passed = re.findall(r"\[  PASSED  \] (\d+) tests", result.out.decode())
                self.assertEqual(len(passed), ranks, result)
                self.assertGreaterEqual(int(passed[0]), 21)


if __name__ == "__main__":
    if not shutil.which(MPIRUN):
        print("NOT RUN: there is no mpirun; `tools/setup` installs it, Debian's openmpi-bin")
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(0)
    command.main()
