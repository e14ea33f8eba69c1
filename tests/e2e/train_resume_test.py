"""Tests checkpoints of training: a run that was stopped at any moment continues to the bits of a run that was not
stopped."""

import json
import os
import signal
import struct

import command
from training import TrainCase, examples, npz, tensors, with_metadata

FULL = bool(os.environ.get("ISTHMUS_FULL"))


class Resume(TrainCase):
    def run_of(self, *more):
        return [self.net(), "--loss=cross_entropy", f"--data={self.data()}", "--threads=1", "--seed=3", *more]

    def saved(self, name, *args):
        self.run_ok("train", *args, f"--save={name}")
        return self.read(name)

    def test_goes_on(self):
        """Stops in the middle of an epoch and at its end, with every optimizer."""
        for optimizer in ["sgd", "--momentum=0.9"], ["adam"], ["adamw", "--clip-norm=0.5"]:
            run = self.run_of("--lr=0.01", f"--optimizer={optimizer[0]}", *optimizer[1:])
            want = self.saved("whole.safetensors", *run, "--steps=20")
            for stop in 1, 6, 13:
                with self.subTest(optimizer=optimizer, stop=stop):
                    self.saved("part.safetensors", *run, f"--steps={stop}")
                    got = self.saved("rest.safetensors", *[a for a in run if a != "--seed=3"], "--steps=20",
                                     "--resume=part.safetensors")
                    self.assertEqual(got, want)

    def test_schedule_and_memory_do_not_matter(self):
        """The rate depends only on the step, and the plan is no part of the state."""
        run = self.run_of("--lr-schedule=cosine", "--warmup=4", "--steps=20")
        want = self.saved("whole.safetensors", *run)
        process = self.start(*run, "--save=part.safetensors", "--save-every=1")
        self.wait_for("part.safetensors", process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertEqual(self.saved("part.safetensors", *run, "--resume=part.safetensors", "--memory=sqrt"), want)

    def test_with_inverses(self):
        """Rebuilt tensors are rounded in the same way after the stop, as the plan depends on the first step's
        examples."""
        run = [*self.flow(), "--threads=1", "--memory=constant", "--effort=0.5", "--precision=f32"]
        want = self.saved("whole.safetensors", *run, "--steps=12")
        self.saved("part.safetensors", *run, "--steps=7")
        self.assertEqual(self.saved("rest.safetensors", *run, "--steps=12", "--resume=part.safetensors"), want)

    def test_inverses_that_become_inaccurate(self):
        """Above the limit the next step is planned without the inverse, with the state as it was; so does a run that is resumed before or after."""
        _, data, levels, *_ = self.flow()
        self.run_ok("zoo", "glow", "--depth=4", "--levels=1", "--width=8", "--batch=32", "--shape=1x8x8", "-o", "small.isth")
        args = [levels, "--optimizer=adam", "--lr=0.05", "--memory=constant", "--allow=invert", "--effort=0.05", "--seed=3", "--measure-inverses=4"]

        def run(steps, name, *more):
            return self.train("small.isth", data.split("=")[1], *args, f"--steps={steps}", f"--save={name}", *more, loss=None)

        result, free = run(16, "w.safetensors", "--max-inverse-error=1")
        errors = {e["step"]: e["error"] for e in free["inverse_errors_by_step"]}
        self.assertEqual(list(errors), [0, 4, 8, 12, 15])
        self.assertEqual(free["largest_inverse_error"]["error"], max(errors.values()))
        self.assertEqual(free["not_inverted"], [])
        self.assertIn(f"after {free['largest_inverse_error']['step']} steps", result.err)
        grown = max(errors[step] for step in (4, 8, 12))
        self.assertGreater(grown, 1.1 * errors[0])
        limit = f"--max-inverse-error={(grown * errors[0]) ** 0.5}"
        result, report = run(16, "whole.safetensors", limit)
        self.assertIn("the next step is planned without them", result.err)
        self.assertEqual(report["measured_peak_bytes"], report["predicted_peak_bytes"])
        switch = report["not_inverted"][0]["step"]
        self.assertIn(switch, (4, 8, 12))
        self.assertEqual(report["loss"][:switch], free["loss"][:switch])
        want = self.read("whole.safetensors")
        for stop in switch - 1, switch + 1:
            with self.subTest(stop=stop):
                run(stop, "part.safetensors", limit)
                run(16, "rest.safetensors", limit, "--resume=part.safetensors")
                self.assertEqual(self.read("rest.safetensors"), want)

    def test_what_is_saved(self):
        self.saved("w.safetensors", *self.run_of("--steps=8"))
        found, metadata = tensors(self.read("w.safetensors"))
        parameters = {"w1", "b1", "scale", "shift", "w2"}
        self.assertEqual(set(found), parameters | {"mean", "var", "optimizer.step"} |
                         {f"optimizer.{s}.{p}" for s in ("mean", "square") for p in parameters})
        self.assertEqual(found["optimizer.step"][2], (8).to_bytes(8, "little"))
        want = {"step": "8", "epoch": "1", "position": "32", "seed": "3", "examples": "100", "batch": "16", "optimizer": "adam"}
        self.assertEqual({k: metadata.get(f"isthmus.{k}") for k in want}, want)

    def test_killed(self):
        kills, steps = (100, 4000) if FULL else (6, 3000)
        run = self.run_of("--lr=0.01")
        want = self.saved("whole.safetensors", *run, f"--steps={steps}")
        got, killed = self.kill_and_resume(kills, run, steps)
        print(f"    {killed} of {kills} kills came before the end")
        self.assertGreater(killed, kills // 2 if FULL else 0)
        self.assertEqual(got, want)

    def test_interrupt_saves(self):
        """After an interrupt, the checkpoint holds the last complete step, and the exit code is 130; also if
        checkpoints are rare."""
        for often in "--save-every=1", "--save-every=100000":
            with self.subTest(often):
                run = self.run_of("--lr=0.01")
                process = self.start(*run, "--steps=100000", "--save=part.safetensors", often, "--progress=plain")
                if often == "--save-every=1":
                    self.wait_for("part.safetensors", process)
                else:
                    process.stderr.readline()  # a note
                    process.stderr.readline()
                    process.stderr.readline()  # epoch 1: the run has started
                process.send_signal(signal.SIGINT)
                said = process.stderr.read().decode()
                self.assertEqual(process.wait(), 130, said)
                step = int(tensors(self.read("part.safetensors"))[1]["isthmus.step"])
                self.assertGreater(step, 0)
                self.assertIn(f"interrupted after step {step} of 100000; --resume=part.safetensors goes on from there", said)
                want = self.saved("whole.safetensors", *run, f"--steps={step + 5}")
                self.assertEqual(self.saved("rest.safetensors", *run, f"--steps={step + 5}", "--resume=part.safetensors"), want)
                os.remove(self.path("part.safetensors"))

    def test_nothing_left(self):
        run = self.run_of("--steps=4")
        want = self.saved("w.safetensors", *run)
        self.assertEqual(self.saved("again.safetensors", *run, "--resume=w.safetensors"), want)

    def test_of_another_run(self):
        """The error names the old and the new value. The exit code is 1, or 2 for a wrong option."""
        run = self.run_of("--steps=4")
        self.saved("w.safetensors", *run)
        resume = "--resume=w.safetensors"
        for change, words, code in ((run + ["--optimizer=sgd"], "--optimizer adam, and this run has sgd", 1),
                                    ([a.replace("=3", "=4") for a in run], "--seed=4 is not that of", 2)):
            with self.subTest(words):
                result = command.run("train", *change, resume, cwd=self.dir)
                self.assertEqual((result.code, words in result.err), (code, True), result)
        result = command.run("train", self.net(batch=10), "--loss=cross_entropy", "--data=data.npz", resume, cwd=self.dir)
        self.assertEqual(result.code, 1, result)
        self.assertIn("a batch of 16, and this run has 10", result.err)
        self.data(count=99)
        result = command.run("train", *run[:2], "--data=data.npz", resume, cwd=self.dir)
        self.assertIn("examples: 100, and this run has 99", self.read_error(result))

    def read_error(self, result):
        self.assertEqual(result.code, 1, result)
        return result.err

    def test_of_no_checkpoint(self):
        run = self.run_of("--steps=4")
        self.saved("w.safetensors", *run)
        whole = self.read("w.safetensors")
        for name, content in ("short", whole[:-1]), ("empty", b""), ("text", b"hello"):
            with self.subTest(name):
                self.write("bad.safetensors", content)
                self.read_error(command.run("train", *run, "--resume=bad.safetensors", cwd=self.dir))
        self.read_error(command.run("train", *run, "--resume=none.safetensors", cwd=self.dir))
        with self.subTest("metadata that contradict each other"):
            self.write("bad.safetensors", with_metadata(whole, lambda m: {
                **{k: v for k, v in m.items() if k != "isthmus.check"}, "isthmus.epoch": "7"}))
            self.assertIn("is not where its metadata says",
                          self.read_error(command.run("train", *run, "--resume=bad.safetensors", cwd=self.dir)))

    def test_of_damaged_bytes(self):
        """One bit that flips, in a parameter, a running average, the optimizer's state or the metadata, is an error."""
        run = self.run_of("--steps=4")
        self.saved("w.safetensors", *run)
        whole = self.read("w.safetensors")
        (length,) = struct.unpack("<Q", whole[:8])
        header = json.loads(whole[8:8 + length])
        for name in "w1", "var", "optimizer.mean.w2", "optimizer.step":
            with self.subTest(name):
                at = 8 + length + header[name]["data_offsets"][0]
                self.write("bad.safetensors", whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
                for args in ("train", *run, "--resume=bad.safetensors"), ("run", run[0], "--load=bad.safetensors"):
                    said = self.read_error(command.run(*args, cwd=self.dir))
                    self.assertIn("'bad.safetensors' does not hold the tensors that were written to it", said)
        for key in "isthmus.seed", "isthmus.step", "isthmus.run.--lr":
            with self.subTest(key):
                self.write("bad.safetensors", with_metadata(whole, lambda m, key=key: {**m, key: m[key] + "1"}))
                said = self.read_error(command.run("train", *run, "--resume=bad.safetensors", cwd=self.dir))
                self.assertIn("bad.safetensors: its metadata are not those that `train --save` wrote", said)

    def talk_of(self, *args):
        return self.run_ok("train", *args, "--save=rest.safetensors").err

    def test_other_options(self):
        """A note names each thing that the bits depend on and that is not as it was, with both values."""
        run = self.run_of("--steps=4")
        self.saved("w.safetensors", *run, "--lr=0.01")
        resume = [a for a in run if a not in ("--seed=3", "--steps=4")] + ["--steps=6", "--resume=w.safetensors"]
        self.assertNotIn("differs", self.talk_of(*resume, "--lr=0.01"))
        for option, words in (("--lr=0.1", "--lr was 0.01 and is 0.1"),
                              ("--clip-norm=0.5", "--clip-norm was none and is 0.5"),
                              ("--weight-decay=0.1", "--weight-decay was 0.0 and is 0.1"),
                              ("--betas=0.8,0.9", "--betas was 0.9,0.999 and is 0.8,0.9"),
                              ("--microbatches=2", "--microbatches was none and is 2"),
                              ("--eval", "--eval was not given and is given"),
                              ("--lr-schedule=cosine", "--lr-schedule was constant and is cosine; the schedule's length was any and is 6")):
            with self.subTest(option):
                said = self.talk_of(*resume, *([] if option.startswith("--lr") else ["--lr=0.01"]), option)
                self.assertIn("'w.safetensors' was saved by a run that differs", said)
                self.assertIn(words, said)
        with self.subTest("two at once"):
            self.assertIn("--lr was 0.01 and is 0.2; --eps was 1e-08 and is 1e-06", self.talk_of(*resume, "--lr=0.2", "--eps=1e-6"))

    def test_other_model_and_data(self):
        run = self.run_of("--steps=4")
        self.saved("w.safetensors", *run)
        resume = [*run, "--resume=w.safetensors"]
        self.assertNotIn("differs", self.talk_of(*resume))
        net = self.read("net.isth")
        with self.subTest("the contents of parameters do not matter"):
            self.write("net.isth", net.replace(b"seed = 2", b"seed = 5"))
            self.assertNotIn("differs", self.talk_of(*resume))
        with self.subTest("the model"):
            self.write("net.isth", net.replace(b"tanh", b"relu"))
            self.assertRegex(self.talk_of(*resume), "the model was [0-9a-f]{16} and is [0-9a-f]{16}\n")
        self.write("net.isth", net)
        with self.subTest("the data"):
            x, y = examples(100, seed=7)
            self.write("data.npz", npz(x_train=x, y_train=y))
            self.assertRegex(self.talk_of(*resume), "the data was [0-9a-f]{16} and is [0-9a-f]{16}\n")

    def test_levels(self):
        run = [*self.flow(), "--threads=1"]
        self.saved("w.safetensors", *run, "--steps=2")
        said = self.talk_of(*[a for a in run if a != "--levels=17"], "--levels=18", "--steps=3", "--resume=w.safetensors")
        self.assertIn("--levels was 17 and is 18", said)

    def test_seed(self):
        """A seed that is given is used or refused, also if it is the default; the one that is used is told."""
        run = self.run_of("--steps=4")
        self.saved("w.safetensors", *run)
        resume = [a for a in run if a != "--seed=3"] + ["--resume=w.safetensors"]
        self.assertIn("the seed is 3, with which the run of 'w.safetensors' began", self.talk_of(*resume))
        self.assertNotIn("the seed is", self.talk_of(*resume, "--seed=3"))
        result = command.run("train", *resume, "--seed=0", cwd=self.dir)
        self.assertEqual(result.code, 2, result)
        self.assertIn("--seed=0 is not that of 'w.safetensors', which began with 3", result.err)

    def test_of_an_older_version(self):
        """Its files say nothing of the run, and those of other tools have no digest; both are read."""
        run = self.run_of("--steps=4")
        want = self.saved("whole.safetensors", *run[:-1], "--steps=8")
        self.saved("w.safetensors", *run)
        old = with_metadata(self.read("w.safetensors"),
                            lambda m: {k: v for k, v in m.items() if not k.startswith(("isthmus.run.", "isthmus.check", "isthmus.digest"))})
        self.write("old.safetensors", old)
        said = self.talk_of(*run[:-1], "--steps=8", "--resume=old.safetensors")
        self.assertIn("'old.safetensors' does not say with which model, data and options it was saved", said)
        self.assertEqual(self.read("rest.safetensors"), want)
        self.run_ok("run", run[0], "--load=old.safetensors")


if __name__ == "__main__":
    command.main()
