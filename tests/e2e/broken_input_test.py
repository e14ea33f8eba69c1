"""Tests everything that can be wrong with a command line, a file or a folder.

Each case must give the right exit code and a helpful message on stderr. It must print nothing to stdout, leave no file
behind, and neither crash nor take long nor need disproportionate memory.
"""

import os
import struct
import unittest

import command
import onnx_file
from command import npy
from onnx_file import field, node, tensor, value_info

MLP = """isthmus 1
graph @mlp {
  input %x : f32[4, 3]
  param %w1 : f32[3, 5] = normal {std = 0.5, seed = 1}
  param %w2 : f32[5, 2] = normal {std = 0.5, seed = 2}
  %h = matmul(%x, %w1) : f32[4, 5]
  %a = tanh(%h) : f32[4, 5]
  %y = matmul(%a, %w2) : f32[4, 2]
  output %y
}
"""


def graph(*lines):
    return "isthmus 1\ngraph @g {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def relu_model(**kwargs):
    return onnx_file.model([node("Relu", ["x"], ["y"])], [value_info("x", [2, 3])], [value_info("y", [2, 3])], **kwargs)


class Broken(command.TestCase):
    seconds = 60 if command.IS_SANITIZED else 10

    def fails(self, code, phrases, *args, **kwargs):
        """Checks that the call exits with `code`, prints each of `phrases` to stderr, and leaves all files as they
        were."""
        before = self.files()
        kwargs.setdefault("memory_limit", 4096)
        result = command.run(*args, cwd=self.dir, **kwargs)
        shown = f"isthmus {' '.join(map(str, args))}\n{result}"
        codes = code if isinstance(code, tuple) else (code,)
        self.assertIn(result.code, codes, shown)
        self.assertEqual(result.out, b"", shown)
        self.assertIn("error: ", result.err, shown)
        for phrase in [phrases] if isinstance(phrases, str) else phrases:
            self.assertIn(phrase, result.err, shown)
        self.assertNotIn("internal", result.err, shown)
        for line in result.err.splitlines():
            message = line.partition("error: ")[2]
            self.assertFalse(message.endswith(".") and not message.endswith("..."), f"a full stop: {line}")
        self.assertEqual(sorted(self.files()), sorted(before), "files were left behind or removed\n" + shown)
        self.assertEqual(self.files(), before, "files were changed\n" + shown)
        self.assertLess(result.seconds, self.seconds, shown)
        return result

    def fails_on(self, text, phrases, verb="import", code=1, name="m.isth", args=()):
        """Makes the same checks with a model of this content."""
        return self.fails(code, phrases, verb, self.write(name, text), *args)

    def mlp(self):
        return self.write("mlp.isth", MLP)


class Usage(Broken):
    def test_no_verb(self):
        self.fails(2, ["no verb", "opt, run", "isthmus --help"])

    def test_unknown_verb(self):
        self.fails(2, ["'optt'", "did you mean 'opt'"], "optt", "m.isth")

    def test_unknown_option(self):
        self.fails(2, ["--polcy", "did you mean '--policy'"], "opt", self.mlp(), "--loss=mean", "--polcy=memory")

    def test_no_model(self):
        self.fails(2, "MODEL", "opt")

    def test_two_models(self):
        self.fails(2, "other.isth", "opt", self.mlp(), "other.isth", "--loss=mean")

    def test_option_without_its_value(self):
        self.fails(2, "--policy", "opt", self.mlp(), "--policy")

    def test_policy_and_checkpoints(self):
        self.fails(2, ["--policy", "--checkpoints"], "opt", self.mlp(), "--loss=mean", "--policy=memory", "--checkpoints=%a")

    def test_policy_and_budget(self):
        self.fails(2, "--budget", "opt", self.mlp(), "--loss=mean", "--policy=memory", "--budget=50%")

    def test_negative_budget(self):
        self.fails(2, "--budget", "opt", self.mlp(), "--loss=mean", "--budget=-5")

    def test_unknown_policy(self):
        self.fails(2, ["memori", "none, speed, memory, collection", "did you mean 'memory'"],
                   "opt", self.mlp(), "--loss=mean", "--policy=memori")

    def test_unknown_loss(self):
        self.fails(2, ["cross_entrpy", "did you mean 'cross_entropy'"], "opt", self.mlp(), "--loss=cross_entrpy")

    def test_words_of_the_option_parser(self):
        model = self.mlp()
        for args, says in (
            (["explain", model, "--loss=mean", "--top=-1"], "--top: expected a whole number from 0 to 2147483647, got '-1'"),
            (["verify", model, model, "--max-inverse-error=-1"], "--max-inverse-error: expected a number from 0 on, got '-1'"),
            (["verify", model, model, "--max-inverse-error=nan"], "--max-inverse-error: expected a number from 0 on, got 'nan'"),
            (["run", model, "--loss=mean", "--microbatches=0"], "--microbatches: expected a whole number from 1 to 2^40, got '0'"),
            (["train", model, "--data=d.npz", "--lr=fast"], "--lr: expected a number, got 'fast'"),
            (["run", model, "--budget=1GiB", "--budget=2GiB"], "--budget: expected one value, got 2"),
            (["run", model, "--report"], "--report: expected a value, got none"),
        ):
            with self.subTest(args):
                self.fails(2, says, *args)

    def test_loss_without_its_kind(self):
        self.fails(2, ["a loss is one of", "got ':%y'"], "opt", self.mlp(), "--loss=:%y")

    def test_unknown_precision(self):
        self.fails(2, ["--precision", "f31", "bf16"], "run", self.mlp(), "--loss=mean", "--precision=f31")

    def test_unknown_layout(self):
        self.fails(2, ["--layout", "nhwc", "channels-last"], "run", self.mlp(), "--loss=mean", "--layout=nhwc")

    def test_precision_of_integers(self):
        self.fails(2, ["--precision", "i32"], "run", self.mlp(), "--loss=mean", "--precision=i32")

    def test_threads(self):
        for bad in "0", "-1", "many", "1.5", "4097", "99999999999999999999":
            with self.subTest(bad):
                self.fails(2, "--threads", "run", self.mlp(), "--loss=mean", f"--threads={bad}")

    def test_seed(self):
        for bad in "-1", "many", "1.5", "99999999999999999999":
            with self.subTest(bad):
                self.fails(2, ["--seed", "a whole number from 0", bad], "run", self.mlp(), "--loss=mean", f"--seed={bad}")

    def test_effort(self):
        for bad in "nan", "inf", "-inf", "0", "-1", "x", "1e999":
            with self.subTest(bad):
                self.fails(2, ["--effort", "a number above 0", bad], "opt", self.mlp(), "--loss=mean", "--budget=50%",
                           f"--effort={bad}")

    def test_short_messages(self):
        result = self.fails(2, "--threads: expected a whole number from 1 to 4096, got '0'", "run", self.mlp(), "--threads=0")
        self.assertNotIn("e-308", result.err)

    def test_empty_names_of_files(self):
        for verb, option in (("opt", "-o"), ("opt", "--weights"), ("opt", "--dot"), ("opt", "--report"), ("run", "--outputs"),
                             ("run", "--inputs"), ("import", "-o"), ("dot", "-o")):
            with self.subTest(f"{verb} {option}"):
                args = [] if verb in ("import", "dot") else ["--loss=mean"]
                self.fails(2, "expected a name, got an empty one", verb, self.mlp(), *args, option, "")

    def test_weights_on_stdout(self):
        self.fails(2, ["--weights", "'-'"], "import", self.mlp(), "--weights=-")

    def test_steps(self):
        for bad in "0", "-1", "x":
            with self.subTest(bad):
                self.fails(2, "--steps", "run", self.mlp(), "--loss=mean", f"--steps={bad}")
        for large in "2147483648", "9000000000000000000", "9e18":
            with self.subTest(large):
                self.fails(2, ["--steps", "from 1 to 2147483647"], "run", self.mlp(), "--loss=mean", f"--steps={large}")

    def test_seed(self):
        self.fails(2, "--seed", "run", self.mlp(), "--loss=mean", "--seed=abc")

    def test_class_axis_that_is_no_number(self):
        self.fails(2, "--class-axis", "run", self.mlp(), "--loss=cross_entropy", "--class-axis=one")

    def test_malformed_dim(self):
        self.write("m.onnx", relu_model())
        for bad in "N", "N=", "=5", "N=x", "N=0", "N=-3", "N=1.5", "N=99999999999999999999":
            with self.subTest(bad):
                self.fails(2, ["--dim", "--dim N=8", bad], "import", "m.onnx", "--dim", bad)

    def test_two_sizes_of_one_name(self):
        self.write("m.onnx", onnx_file.model([node("Relu", ["x"], ["y"])], [value_info("x", ["N", 4])], [value_info("y", ["N", 4])]))
        self.fails(2, ["--dim expects one size for 'N', got 3 and 4"], "run", "m.onnx", "--dim", "N=3", "--dim", "N=4")
        self.run_ok("run", "m.onnx", "--dim", "N=3", "--dim", "N=3")

    def test_dim_of_text_form(self):
        self.fails(2, "--dim", "run", self.mlp(), "--loss=mean", "--dim", "N=8")

    def test_unknown_device(self):
        self.fails(2, ["'gpu'", "cpu", "cuda"], "run", self.mlp(), "--loss=mean", "--device=gpu")

    def test_device_with_near_name(self):
        self.fails(2, "did you mean 'counting'", "run", self.mlp(), "--loss=mean", "--device=countin")

    def test_cuda_is_missing(self):
        listed = command.run("devices").out.decode()
        if any(line.startswith("cuda") and "not available" not in line for line in listed.splitlines()):
            self.skipTest("NOT RUN: this machine has a CUDA device")
        for device in "cuda", "cuda:0", "cuda:7":
            with self.subTest(device):
                self.fails(5, [device, "not available", "--device=cpu"], "run", self.mlp(), "--loss=mean",
                           f"--device={device}")

    def test_output_of_unknown_kind(self):
        self.fails(2, [".isth", "out.txt"], "opt", self.mlp(), "--loss=mean", "-o", "out.txt")

    def test_picture_of_unknown_kind(self):
        self.fails(2, [".svg", "g.png"], "opt", self.mlp(), "--loss=mean", "--dot=g.png")
        self.fails(2, [".svg", "g.png"], "dot", self.mlp(), "-o", "g.png")

    def test_eval_as_written(self):
        self.fails(2, ["--eval", "--as-written"], "run", self.mlp(), "--loss=mean", "--eval", "--as-written")

    def test_unknown_progress(self):
        self.fails(2, ["--progress", "fancy"], "run", self.mlp(), "--loss=mean", "--progress=fancy")

    def test_ys_without_xs(self):
        self.fails(2, ["--xs", "missing"], "grad", self.mlp(), "--ys=%y")
        self.fails(2, ["--ys", "missing"], "grad", self.mlp(), "--xs=%w1")

    def test_ys_and_loss(self):
        self.fails(2, ["--loss", "--ys"], "grad", self.mlp(), "--ys=%y", "--xs=%w1", "--loss=mean")

    def test_grad_ys_without_ys(self):
        self.fails(2, "--grad-ys", "grad", self.mlp(), "--loss=mean", "--grad-ys=inputs")

    def test_kinds_in_a_list_of_values_to_differentiate_by(self):
        self.fails(1, ["mlp.isth: error: ", "'params'", "stand alone", "all is both"], "opt", self.mlp(), "--loss=mean",
                   "--wrt=params,inputs", "-o", "out.isth")

    def test_a_model_without_parameters_is_named(self):
        self.write("none.isth", "isthmus 2\ngraph @g {\n  input %x : f32[2]\n  %y = relu(%x) : f32[2]\n  output %y\n}\n")
        self.fails(1, ["none.isth: error: ", "no floating-point parameter", "--wrt"], "verify", self.mlp(), "none.isth", "--loss=mean")

    def test_onnx_of_a_graph_without_outputs(self):
        text = "isthmus 2\ngraph @g {\n  input %x : f32[2]\n  %y = relu(%x) : f32[2]\n}\n"
        self.fails_on(text, ["m.isth: error: ", "no outputs", "`output %y`"], args=["-o", "out.onnx"])

    def test_grad_ys_of_unknown_kind(self):
        self.fails(2, ["--grad-ys", "twos"], "grad", self.mlp(), "--ys=%y", "--xs=%w1", "--grad-ys=twos")

    def test_loss_of_a_differentiated_graph(self):
        self.run_ok("opt", self.mlp(), "--loss=mean", "-o", "d.isth")
        for verb in "opt", "run":
            for option in "--loss=mse", "--wrt=inputs":
                with self.subTest(f"{verb} {option}"):
                    self.fails(2, ["differentiated already", "isthmus grad"], verb, "d.isth", option)

    def test_loss_where_both_are_differentiated(self):
        self.run_ok("opt", self.mlp(), "--loss=mean", "-o", "d.isth")
        self.fails(2, "differentiated already", "verify", "d.isth", "d.isth", "--loss=mse")

    def test_both_models_from_stdin(self):
        self.fails(2, "standard input", "verify", "-", "-", stdin=MLP.encode())

    def test_outputs_of_a_device_that_only_counts(self):
        self.fails(2, ["--outputs", "counts"], "run", self.mlp(), "--loss=mean", "--device=counting", "--outputs=o")

    def test_verify_on_a_device_that_only_counts(self):
        self.fails(2, "counts", "verify", self.mlp(), "mlp.isth", "--loss=mean", "--device=counting")

    def test_zoo_of_unknown_name(self):
        self.fails(1, ["resnett", "did you mean 'resnet'"], "zoo", "resnett")

    def test_zoo_options(self):
        for option in ("--depth=0", "--depth=-1", "--depth=x", "--batch=0", "--shape=3x", "--shape=3x32", "--shape=axbxc",
                       "--depth=51", "--shape=3x0x32", "--batch=99999999999999999999"):
            with self.subTest(option):
                self.fails(2, option.split("=")[0], "zoo", "resnet", option)

    def test_zoo_option_of_another_model(self):
        self.fails(2, ["--tokens", "resnet"], "zoo", "resnet", "--tokens=5")


class Names(Broken):
    """Names on the command line that match nothing."""

    def test_class_axis_out_of_range(self):
        for axis in "2", "-3", "99999":
            with self.subTest(axis):
                self.fails(1, ["--class-axis", "f32[4, 2]"], "run", self.mlp(), "--loss=cross_entropy",
                           f"--class-axis={axis}")

    def test_mse_of_integers(self):
        text = graph("input %x : i64[4]", "param %w : f32[4]", "%y = cast(%w) {type = i64} : i64[4]", "output %y")
        for loss in "mse", "mean", "cross_entropy":
            with self.subTest(loss):
                self.fails_on(text, ["%y", "i64[4]", "floating-point"], "run", args=[f"--loss={loss}"])

    def test_loss_of_a_scalar_needs_classes(self):
        text = graph("param %w : f32[4]", "%y = sum(%w)", "output %y")
        self.fails_on(text, "--class-axis", "run", args=["--loss=cross_entropy"])

    def test_no_outputs(self):
        text = graph("param %w : f32[4]", "%y = exp(%w) : f32[4]")
        self.fails_on(text, "--loss=%value", "opt", args=["--loss=mean"])

    def test_no_loss(self):
        self.fails(1, "--loss=cross_entropy", "opt", self.mlp())

    def test_unknown_loss_value(self):
        self.fails(1, ["'%yy'", "did you mean"], "run", self.mlp(), "--loss=%yy")

    def test_unknown_wrt(self):
        self.fails(1, ["w11", "did you mean", "w1"], "run", self.mlp(), "--loss=mean", "--wrt=%w11")

    def test_wrt_of_integers(self):
        text = graph("input %i : i64[4]", "param %w : f32[8, 2]", "%y = gather(%w, %i) {axis = 0}", "output %y")
        self.fails_on(text, "--wrt", "run", args=["--loss=mean", "--wrt=inputs"])
        self.fails_on(text, ["%i", "i64"], "run", args=["--loss=mean", "--wrt=%i"])

    def test_unknown_ys(self):
        self.fails(1, ["hh", "did you mean"], "grad", self.mlp(), "--ys=%hh", "--xs=%w1")

    def test_unknown_xs(self):
        self.fails(1, "nothing_like_it", "grad", self.mlp(), "--ys=%y", "--xs=%nothing_like_it")

    def test_checkpoints_without_match(self):
        self.fails(1, ["hh", "did you mean 'h'"], "opt", self.mlp(), "--loss=mean", "--checkpoints=%hh")

    def test_checkpoint_pattern_without_match(self):
        self.fails(1, "conv*", "opt", self.mlp(), "--loss=mean", "--checkpoints=conv*")

    def test_one_of_several_checkpoints_without_match(self):
        self.fails(1, "nope", "opt", self.mlp(), "--loss=mean", "--checkpoints=%h,nope,%a")

    def test_empty_checkpoints(self):
        for args in (["--checkpoints="], ["--checkpoints=", "--report=r.json"]):
            self.fails(2, "--checkpoints: expected a value", "opt", self.mlp(), "--loss=mean", *args)
        for empty in "", " ", ",", "%":
            self.fails(2, "--checkpoints expects names", "opt", self.mlp(), "--loss=mean", "--checkpoints", empty)

    def test_options_without_a_value(self):
        """The next argument is not taken in its place."""
        for option in "--loss=", "--budget=", "--policy=", "--wrt=", "--report=":
            self.fails(2, f"{option[:-1]}: expected a value", "opt", self.mlp(), option, "--loss=mean")

    def test_checkpoints_that_are_all_inputs(self):
        self.fails(1, "1 graph input, 1 output", "opt", self.mlp(), "--loss=mean", "--keep-outputs", "--checkpoints=%x,%y")

    def test_collection_without_marks(self):
        self.fails(1, ["#checkpoint", "--checkpoints"], "opt", self.mlp(), "--loss=mean", "--policy=collection")

    def test_speed_without_contractions(self):
        text = graph("param %w : f32[4]", "%y = exp(%w) : f32[4]", "output %y")
        self.fails_on(text, ["convolution or matrix product", "--policy=memory"], "opt",
                      args=["--loss=mean", "--policy=speed"])

    def test_not_differentiable(self):
        text = graph("param %w : f32[4]", "input %i : i64[4]", "%y = add(%i, %i) : i64[4]", "output %y")
        self.fails_on(text, "%y", "grad", args=["--ys=%y", "--xs=%w"])


class Files(Broken):
    def test_missing_model(self):
        for name in "no.isth", "no.onnx", "no/such/folder.isth":
            with self.subTest(name):
                self.fails(1, [name, "No such file"], "run", name, "--loss=mean")

    def test_directory_as_model(self):
        for name in "d.isth", "d.onnx":
            with self.subTest(name):
                os.mkdir(self.path(name))
                self.fails(1, [name, "irectory"], "run", name, "--loss=mean")

    def test_wrong_extension(self):
        self.write("m.txt", MLP)
        self.fails(1, ["m.txt", ".onnx", ".isth"], "run", "m.txt", "--loss=mean")

    def test_empty_name(self):
        self.fails(1, ".onnx", "run", "", "--loss=mean")

    def test_import_of_missing_other_model(self):
        self.fails(1, "no.isth", "verify", self.mlp(), "no.isth", "--loss=mean")

    def test_empty_stdin(self):
        self.fails(1, "isthmus 2", "run", "-", "--loss=mean")

    def test_garbage_on_stdin(self):
        self.fails(1, "isthmus 2", "run", "-", "--loss=mean", stdin=bytes(range(256)) * 64)

    def test_closed_stdin(self):
        self.fails(1, "standard input", "run", "-", "--loss=mean", stdin=None, close=[0])

    def test_output_in_missing_folder(self):
        self.fails(1, ["no/such/out.isth", "No such file"], "opt", self.mlp(), "--loss=mean", "-o", "no/such/out.isth")

    def test_output_below_a_file(self):
        self.fails(1, ["mlp.isth/out.isth", "Not a directory"], "opt", self.mlp(), "--loss=mean", "-o", "mlp.isth/out.isth")

    def test_output_is_a_folder(self):
        os.mkdir(self.path("out.isth"))
        self.fails(1, ["out.isth", "irectory"], "opt", self.mlp(), "--loss=mean", "-o", "out.isth")

    def test_output_to_a_full_disk(self):
        """The output is a link to a device, so that a program which replaces its output files cannot harm the
        device."""
        for verb, link, args in (
            ("opt", "out.isth", ["-o", "out.isth"]),
            ("opt", "r.json", ["--report=r.json"]),
            ("opt", "g.dot", ["--dot=g.dot"]),
            ("run", "r2.json", ["--report=r2.json"]),
        ):
            with self.subTest(f"{verb} {args}"):
                os.symlink("/dev/full", self.path(link))
                self.fails(1, [link, "No space left"], verb, self.mlp(), "--loss=mean", *args)

    def test_stdout_to_a_full_disk(self):
        for args in (["import", self.mlp()], ["zoo", "mlp"], ["zoo"], ["ops"], ["dot", "mlp.isth"]):
            with self.subTest(args[0]), open("/dev/full", "wb") as full:
                self.fails(1, ["standard output", "No space left"], *args, stdout=full)

    def test_closed_stdout(self):
        self.fails(1, "standard output", "import", self.mlp(), stdout=None, close=[1])

    def test_report_in_missing_folder(self):
        for verb in "opt", "run":
            with self.subTest(verb):
                self.fails(1, "no/r.json", verb, self.mlp(), "--loss=mean", "--report=no/r.json")

    def test_picture_in_missing_folder(self):
        for name in "no/g.dot", "no/g.svg":
            with self.subTest(name):
                self.fails(1, name, "dot", self.mlp(), "-o", name)

    def test_outputs_is_a_file(self):
        self.fails(1, ["--outputs", "mlp.isth"], "run", self.mlp(), "--loss=mean", "--outputs=mlp.isth")

    def test_weights_in_missing_folder(self):
        self.fails(1, "no/w.safetensors", "import", self.big_weights(), "-o", "out.isth", "--weights=no/w.safetensors")

    def big_weights(self):
        """Writes a model whose weights are too large for the text."""
        values = [float(i % 7) for i in range(512 * 1024)]
        return self.write("big.onnx", onnx_file.model(
            [node("Mul", ["x", "w"], ["y"])], [value_info("x", [512, 1024])], [value_info("y", [512, 1024])],
            [tensor("w", [512, 1024], values)]))

    def test_inputs_folder_missing(self):
        self.fails(1, ["no_such", "--inputs"], "run", self.mlp(), "--loss=mean", "--inputs=no_such")

    def test_inputs_folder_is_a_file(self):
        self.fails(1, ["mlp.isth", "--inputs"], "run", self.mlp(), "--loss=mean", "--inputs=mlp.isth")


class Arrays(Broken):
    """The .npy files of --inputs."""

    def fails_with(self, content, phrases, name="x.npy"):
        self.write("in/" + name, content)
        return self.fails(1, phrases, "run", self.mlp(), "--loss=mean", "--inputs=in")

    def good(self):
        return npy("f32", (4, 3), [0.5] * 12)

    def test_of_no_input(self):
        self.fails_with(self.good(), ["ww1.npy", "did you mean", "w1"], "ww1.npy")

    def test_wrong_element_type(self):
        self.fails_with(npy("i64", (4, 3), [1] * 12), ["x.npy", "f32[4, 3]", "i64[4, 3]", "convert its elements to f32"])

    def test_wrong_shape(self):
        self.fails_with(npy("f32", (3, 4), [0.5] * 12), ["x.npy", "f32[4, 3]", "f32[3, 4]"])

    def test_wrong_rank(self):
        self.fails_with(npy("f32", (12,), [0.5] * 12), ["x.npy", "f32[4, 3]", "f32[12]"])

    def test_wrong_shape_of_a_parameter(self):
        self.fails_with(npy("f32", (5, 3), [0.5] * 15), ["w1.npy", "f32[3, 5]", "f32[5, 3]"], "w1.npy")

    def test_cut_short(self):
        self.fails_with(self.good()[:-5], ["x.npy", "48 bytes", "43"])

    def test_too_long(self):
        self.fails_with(self.good() + b"abc", ["x.npy", "48 bytes", "51"])

    def test_cut_in_the_header(self):
        for size in 0, 1, 5, 8, 9, 11, 12, 40, 100, 127:
            with self.subTest(size):
                self.fails_with(self.good()[:size], "x.npy")

    def test_no_npy(self):
        self.fails_with(b"PK\x03\x04 this is a zip file, perhaps an .npz", ["x.npy", ".npy"])

    def test_fortran_order(self):
        self.fails_with(npy("f32", (4, 3), [0.5] * 12, fortran_order=True), ["x.npy", "Fortran", "ascontiguousarray"])

    def test_big_endian(self):
        self.fails_with(npy("f32", (4, 3), [0.5] * 12, descr=">f4"), ["x.npy", ">f4", "little-endian"])

    def test_objects(self):
        self.fails_with(npy("f32", (4, 3), [0.5] * 12, descr="|O"), ["x.npy", "|O"])

    def test_complex_numbers(self):
        self.fails_with(npy("f64", (4, 3), [0.5] * 12, descr="<c16"), ["x.npy", "<c16"])

    def test_header_of_garbage(self):
        for header in b"{}", b"{'descr': '<f4'}", b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, -3), }", b"\xff" * 30, \
                b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999, 9999999999999, 9999999999999), }", \
                b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999), }", \
                b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3", b"{'descr': '<f4', 'fortran_order': False, 'shape': 12}":
            with self.subTest(header):
                self.fails_with(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(48), "x.npy")

    def test_repeated_keys(self):
        for header in b"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }", \
                b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), 'shape': (12,), }":
            with self.subTest(header):
                self.fails_with(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(48), ["x.npy", "twice"])

    def test_header_with_more(self):
        for header in b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), 'x': 1}", \
                b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3)} + {}", \
                b"'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), ":
            with self.subTest(header):
                self.fails_with(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(48), ["x.npy", "dictionary"])

    def test_unknown_version(self):
        content = self.good()
        self.fails_with(content[:6] + b"\x09" + content[7:], "x.npy")

    def test_header_that_claims_gigabytes(self):
        self.fails_with(b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFFF) + bytes(100), "x.npy")

    def test_folder_for_a_file(self):
        os.makedirs(self.path("in/x.npy"))
        self.fails(1, "x.npy", "run", self.mlp(), "--loss=mean", "--inputs=in")

    def test_labels_out_of_range(self):
        for label in 2, -3, 10**12, -(10**18):
            with self.subTest(label):
                self.write("in/labels.npy", npy("i64", (4,), [0, 1, label, 1]))
                self.fails(1, ["labels", str(label)], "run", self.mlp(), "--loss=cross_entropy", "--inputs=in")

    def test_negative_labels_do_not_count_from_the_end(self):
        self.write("in/labels.npy", npy("i64", (4,), [0, -1, 1, 1]))
        self.fails(1, ["labels", "element 1", "-1"], "run", self.mlp(), "--loss=cross_entropy", "--inputs=in")

    def test_ignored_labels_are_no_error(self):
        model = self.write("g.isth", graph(
            "input %l : i64[3]", "param %x : f32[3, 2] = normal",
            "%y, %lse = cross_entropy(%x, %l) {ignore = [-1]} : f32[], f32[3]", "output %y"))
        self.write("in/l.npy", npy("i64", (3,), [0, -1, 1]))
        self.run_ok("run", model, "--inputs=in")
        self.write("in/l.npy", npy("i64", (3,), [0, -2, 1]))
        self.fails(1, ["%l", "element 1", "-2"], "run", model, "--inputs=in")

    def test_indices_out_of_range(self):
        model = self.write("g.isth", graph(
            "input %i : i64[3]", "param %table : f32[8, 2] = normal", "%y = gather(%table, %i) {axis = 0} : f32[3, 2]",
            "output %y"))
        for index in 8, -9, 10**15:
            with self.subTest(index):
                self.write("in/i.npy", npy("i64", (3,), [0, index, 7]))
                self.fails(1, ["%i", str(index)], "run", model, "--loss=mean", "--inputs=in")


class Text(Broken):
    """Errors in .isth files are located by file, line and column."""

    def test_empty(self):
        self.fails_on("", ["m.isth:1:1: error: ", "isthmus 2"])

    def test_random_bytes(self):
        state, content = 1, bytearray()
        for _ in range(20000):
            state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
            content.append(state >> 56)
        self.fails_on(bytes(content), ["m.isth:1:1: error: ", "isthmus 2"])
        self.fails_on(b"isthmus 1\ngraph @g {\n" + bytes(content), "m.isth:")

    def test_newer_version(self):
        self.fails_on("isthmus 3\ngraph @g {\n}\n", ["m.isth:1:9: error: ", "version 1 or 2", "'3'"])

    def test_no_graph(self):
        self.fails_on("isthmus 1\n", ["m.isth:2:1: error: ", "graph @name {"])

    def test_every_cut(self):
        """A text that ends at any byte is parsed up to there, and the error says what is missing."""
        for size in range(1, len(MLP) - 1, 7):
            with self.subTest(size):
                self.fails_on(MLP[:size], "m.isth:")

    def test_not_closed(self):
        self.fails_on(MLP.rstrip().rstrip("}"), "'}' to close the graph")

    def test_more_after_the_graph(self):
        self.fails_on(MLP + "graph @second {\n}\n", ["m.isth:11:1: error: ", "a file has one"])

    def test_unknown_statement(self):
        self.fails_on(graph("inptu %x : f32[4]"), ["m.isth:3:3: error: ", "'inptu'", "did you mean 'input'"])

    def test_unknown_op(self):
        result = self.fails_on(graph("input %x : f32[4]", "%y = rleu(%x) : f32[4]", "output %y"),
                               ["m.isth:4:8: error: ", "no op is called 'rleu'", "did you mean 'relu'"])
        lines = result.err.splitlines()
        self.assertIn("  %y = rleu(%x) : f32[4]", lines)
        self.assertEqual(lines[lines.index("  %y = rleu(%x) : f32[4]") + 1].rstrip(), " " * 7 + "^~~~")

    def test_wrong_declared_type(self):
        self.fails_on(graph("input %x : f32[4]", "%y = relu(%x) : f32[5]", "output %y"),
                      ["m.isth:4:19: error: ", "f32[4]", "f32[5]"])

    def test_wrong_number_of_types(self):
        self.fails_on(graph("input %x : f32[4]", "%y = relu(%x) : f32[4], f32[4]"), ["m.isth:4:", "one for each result"])

    def test_wrong_number_of_results(self):
        self.fails_on(graph("input %x : f32[4]", "%y, %z = relu(%x) : f32[4], f32[4]"), ["m.isth:4:", "1 result"])

    def test_wrong_number_of_operands(self):
        self.fails_on(graph("input %x : f32[4]", "%y = add(%x) : f32[4]"), ["m.isth:4:8: error: ", "add"])
        self.fails_on(graph("input %x : f32[4]", "%y = relu(%x, %x) : f32[4]"), ["m.isth:4:8: error: ", "relu"])
        self.fails_on(graph("%y = concat() {axis = 0}"), ["m.isth:3:8: error: ", "concat"])

    def test_undefined_operand(self):
        self.fails_on(graph("input %value : f32[4]", "%y = relu(%valeu) : f32[4]"),
                      ["m.isth:4:13: error: ", "no value '%valeu'", "did you mean '%value'"])

    def test_use_before_definition(self):
        self.fails_on(graph("input %x : f32[4]", "%a = relu(%b) : f32[4]", "%b = exp(%x) : f32[4]"),
                      ["m.isth:4:13: error: ", "'%b'", "comes before"])

    def test_cycle(self):
        self.fails_on(graph("%a = relu(%b) : f32[4]", "%b = relu(%a) : f32[4]", "output %a"), ["m.isth:3:13: error: ", "'%b'"])

    def test_defined_twice(self):
        self.fails_on(graph("input %x : f32[4]", "%x = relu(%x) : f32[4]"),
                      ["m.isth:4:3: error: ", "'%x'", "m.isth:3:9: note: "])

    def test_inner_sizes(self):
        self.fails_on(graph("input %x : f32[8, 16]", "input %w : f32[32, 4]", "%h = matmul(%x, %w) : f32[8, 4]"),
                      ["m.isth:5:8: error: ", "f32[8, 16]", "f32[32, 4]", "m.isth:3:9: note: ", "m.isth:4:9: note: "])

    def test_shapes_that_do_not_broadcast(self):
        self.fails_on(graph("input %x : f32[2, 3]", "input %w : f32[4]", "%h = add(%x, %w)"), ["m.isth:5:8: error: ", "f32[4]"])

    def test_element_types_that_differ(self):
        self.fails_on(graph("input %x : f32[2]", "input %w : f64[2]", "%h = add(%x, %w)"), ["f32[2]", "f64[2]"])

    def test_unknown_element_type(self):
        self.fails_on(graph("input %x : float[2]"), ["m.isth:3:14: error: ", "float"])

    def test_negative_size(self):
        self.fails_on(graph("input %x : f32[-2]"), ["m.isth:3:", "-2"])

    def test_sizes_over_64_bits(self):
        for dims in "4611686018427387904, 8", "9223372036854775807", "99999999999999999999", "1048576, 1048576, 1048576, 1048576":
            with self.subTest(dims):
                self.fails_on(graph(f"input %x : f32[{dims}]"), "m.isth:3:")

    def test_results_over_64_bits(self):
        big = "input %x : f32[1048576, 1]"
        for line in ("%y = broadcast(%x) {dims = [1048576, 1048576, 1048576, 1048576]}",
                     "%y = full() {dims = [4611686018427387904, 16], type = f32, value = 1.0}",
                     "%y = pad(%x) {low = [9223372036854775807, 0], high = [9223372036854775807, 0]}",
                     "%y = full() {dims = [-3], type = f32, value = 1.0}",
                     "%y = reshape(%x) {dims = [-1, -1]}",
                     "%y = normal() {dims = [4611686018427387904, 16]}"):
            with self.subTest(line):
                self.fails_on(graph(big, line), "m.isth:4:")

    def test_sizes_together_over_64_bits(self):
        lines = ["input %x : f32[288230376151711744]", *(f"%y{i} = exp(%x)" for i in range(8)),
                 *(f"output %y{i}" for i in range(8))]
        self.fails_on(graph(*lines), ["m.isth:7:", "all tensors together need over 2^62 bytes"], verb="run", args=["--device=counting"])

    def test_ranks_out_of_proportion(self):
        ones = ", ".join(["1"] * 100_000)
        for text in (graph(f"input %x : f32[{ones}]"),
                     graph("input %x : f32[1]", f"%y = reshape(%x) {{dims = [{ones}]}}"),
                     graph("input %x : f32[1]", f"%y = neg(%x) : f32[{ones}]")):
            self.fails_on(text, [f"m.isth:{text.count(chr(10)) - 1}:", "at most", "axes"])
        few = ", ".join(["1"] * 40)
        self.fails_on(graph(f"input %x : f32[{few}]"), ["m.isth:3:", "40 axes; at most 32"])
        self.fails_on(graph("input %x : f32[1]", f"%y = reshape(%x) {{dims = [{few}]}}"), ["m.isth:4:", "40 axes; at most 32"])

    def test_nan_attributes(self):
        x, vector = "input %x : f32[2, 3, 4, 4]", "input %v : f32[3]"
        for line in ("%y = affine(%x) {scale = nan}",
                     "%y = clamp(%x) {min = nan, max = 1.0}",
                     "%y = leaky_relu(%x) {alpha = nan}",
                     "%y = dropout(%x) {ratio = nan, stream = 1}",
                     "%y, %m, %s = batch_norm(%x, %v, %v, %v, %v) {epsilon = nan}"):
            with self.subTest(line):
                self.fails_on(graph(x, vector, line), ["m.isth:5:", "nan"])

    def test_nan_initializer(self):
        self.fails_on(graph("param %w : f32[4] = normal {std = nan}"), ["m.isth:3:", "nan"])

    def test_ratio_outside(self):
        for ratio in "1.0", "-0.5", "1.5", "inf":
            with self.subTest(ratio):
                self.fails_on(graph("input %x : f32[4]", f"%y = dropout(%x) {{ratio = {ratio}, stream = 1}}"),
                              ["m.isth:4:", "ratio", "[0, 1)"])

    def test_epsilon_outside(self):
        self.fails_on(graph("input %x : f32[4, 4]", "input %s : f32[4]", "%y, %m, %r = layer_norm(%x, %s, %s) {epsilon = -1.0}"),
                      ["m.isth:5:", "epsilon"])

    def test_unknown_attribute(self):
        self.fails_on(graph("input %x : f32[4]", "%y = leaky_relu(%x) {alhpa = 0.1}"),
                      ["m.isth:4:", "alhpa", "did you mean", "alpha"])

    def test_attribute_of_the_wrong_kind(self):
        self.fails_on(graph("input %x : f32[4]", "%y = leaky_relu(%x) {alpha = [1, 2]}"), ["m.isth:4:", "alpha"])
        self.fails_on(graph("input %x : f32[4]", '%y = softmax(%x) {axis = "one"}'), ["m.isth:4:", "axis"])

    def test_attribute_twice(self):
        self.fails_on(graph("input %x : f32[4]", "%y = leaky_relu(%x) {alpha = 0.1, alpha = 0.2}"), ["m.isth:4:", "alpha"])

    def test_attribute_missing(self):
        self.fails_on(graph("input %x : f32[4]", "%y = reshape(%x)"), ["m.isth:4:", "dims"])

    def test_attribute_out_of_range(self):
        x = "input %x : f32[2, 3]"
        for line, word in (("%y = softmax(%x) {axis = 2}", "axis"), ("%y = sum(%x) {axes = [0, 0]}", "ax"),
                           ("%y = sum(%x) {axes = [7]}", "ax"), ("%y = transpose(%x) {perm = [0, 0]}", "perm"),
                           ("%y = transpose(%x) {perm = [0]}", "perm"),
                           ("%y = slice(%x) {starts = [0, 5], limits = [2, 9], steps = [1, 1]}", "slice"),
                           ("%y = slice(%x) {starts = [0, 0], limits = [2, 3], steps = [0, 1]}", "step"),
                           ("%y = reshape(%x) {dims = [7]}", "7"), ("%y = concat(%x, %x) {axis = 5}", "axis"),
                           ("%a, %b = split(%x) {axis = 1, sizes = [1, 1]}", "sizes")):
            with self.subTest(line):
                self.fails_on(graph(x, line), ["m.isth:4:", word])

    def test_convolutions(self):
        x, w = "input %x : f32[1, 4, 8, 8]", "input %w : f32[6, 3, 3, 3]"
        for line in ("%y = conv(%x, %w)",
                     "%y = conv(%x, %w) {groups = 0}",
                     "%y = conv(%x, %x) {strides = [0, 1]}",
                     "%y = conv(%x, %x) {pads = [0, 0, 0]}",
                     "%y = conv(%x, %x) {dilations = [9, 9]}",
                     "%y = max_pool(%x) {kernel = [0, 2]}",
                     "%y = max_pool(%x) {kernel = [99, 99]}",
                     "%y = avg_pool(%x) {kernel = [2, 2], pads = [5, 5, 5, 5]}"):
            with self.subTest(line):
                self.fails_on(graph(x, w, line), "m.isth:5:")

    def test_unknown_output(self):
        self.fails_on(graph("input %x : f32[4]", "output %z"), ["m.isth:4:10: error: ", "'%z'"])

    def test_output_twice(self):
        self.fails_on(graph("input %x : f32[4]", "output %x", "output %x"), ["m.isth:5:10: error: ", "already"])

    def test_loss_twice(self):
        self.fails_on(graph("input %x : f32[]", "%y = exp(%x)", "loss %y", "loss %y"), ["m.isth:6:", "already"])

    def test_wrong_number_of_elements(self):
        self.fails_on(graph("const %c : f32[2, 2] = [1, 2, 3]"), ["m.isth:3:", "4", "3"])
        self.fails_on(graph("const %c : f32[2, 2] = [[1, 2, 3], [4, 5, 6]]"), "m.isth:3:")

    def test_element_out_of_range(self):
        self.fails_on(graph("const %c : u8[1] = [256]"), ["m.isth:3:", "256"])
        self.fails_on(graph("const %c : i32[1] = [3000000000]"), ["m.isth:3:", "3000000000"])

    def test_clone_of_nothing(self):
        self.fails_on(graph("input %x : f32[4]", "%y = relu(%x) : f32[4] backward clone(%x)"), ["m.isth:4:", "%x"])

    def test_unknown_clause(self):
        self.fails_on(graph("input %x : f32[4]", "%y = relu(%x) : f32[4] backwards"), ["m.isth:4:", "backwards"])

    def test_unknown_device(self):
        self.fails_on(graph("input %x : f32[4]", "%y = relu(%x) : f32[4] @cpu/0"), ["m.isth:4:", "@cpu/0"])

    def test_several_errors_at_once(self):
        result = self.fails_on(
            graph("input %x : f32[4]", "%a = rleu(%x) : f32[4]", "%b = exp(%x) : f32[5]", "%c = relu(%nope) : f32[4]",
                  "%d = relu(%a) : f32[4]"),
            ["m.isth:4:8: error: ", "m.isth:5:18: error: ", "m.isth:6:13: error: "])
        self.assertEqual(result.err.count("error: "), 3, "what follows from an error is none\n" + result.err)

    def test_deep_nesting(self):
        for bracket in "[", "(", "{":
            with self.subTest(bracket):
                self.fails_on(graph("const %c : f32[1] = " + bracket * 200000), "m.isth:3:")

    def test_long_line(self):
        result = self.fails_on(graph("input %x : f32[4]", "%y = " + "a" * 1000000 + "(%x)"), "m.isth:4:8: error: ")
        self.assertLess(len(result.err), 10000, "an excerpt of a long line is cut")

    def test_bytes_that_are_no_text(self):
        self.fails_on(graph("input %x : f32[4]").encode() + b"\x00\xff\xfe", "m.isth:")
        self.fails_on(b"\xff\xfei\x00s\x00t\x00h\x00", "m.isth:1:1")

    def test_unfinished_string(self):
        self.fails_on('isthmus 1\nweights "w.safetensors\ngraph @g {\n}\n', "m.isth:2:")


class Weights(Broken):
    TEXT = 'isthmus 1\nweights "w.safetensors"\ngraph @g {\n  param %w : f32[2, 2] = file "w"\n' \
           "  %y = exp(%w) : f32[2, 2]\n  output %y\n}\n"

    def fails_with(self, content, phrases, text=TEXT):
        self.write("w.safetensors", content)
        return self.fails_on(text, phrases, "run", args=["--loss=mean"])

    @staticmethod
    def safetensors(header, data=b""):
        return struct.pack("<Q", len(header)) + header.encode() + data

    def entry(self, dtype="F32", shape="[2,2]", offsets="[0,16]", data=bytes(16), name="w"):
        return self.safetensors(f'{{"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}', data)

    def test_the_good_file_runs(self):
        """The unmodified file must work, as otherwise the other tests would prove nothing."""
        self.write("w.safetensors", self.entry())
        self.write("m.isth", self.TEXT)
        self.run_ok("run", "m.isth", "--loss=mean")

    def test_missing_file(self):
        self.fails_on(self.TEXT, ["w.safetensors", "No such file"], "run", args=["--loss=mean"])

    def test_not_named(self):
        self.fails_on(self.TEXT.replace('weights "w.safetensors"\n', ""), 'weights "FILE.safetensors"')

    def test_key_that_is_not_there(self):
        self.fails_with(self.entry(name="ww"), ["'w'", "did you mean 'ww'"])

    def test_wrong_type(self):
        self.fails_with(self.entry("F64", data=bytes(32), offsets="[0,32]"), ["f32[2, 2]", "f64[2, 2]"])
        self.fails_with(self.entry(shape="[4]"), ["f32[2, 2]", "f32[4]"])

    def test_empty(self):
        self.fails_with(b"", "w.safetensors")

    def test_short(self):
        self.fails_with(self.entry()[:-3], "w.safetensors")
        self.fails_with(self.entry()[:5], "w.safetensors")

    def test_huge_header(self):
        for size in (1 << 63) - 1, (1 << 64) - 1, 1 << 40:
            with self.subTest(size):
                self.fails_with(struct.pack("<Q", size) + b"{}", "w.safetensors")

    def test_header_of_garbage(self):
        for header in "{", "[]", "null", '{"w":3}', '{"w":{}}', '{"w":{"dtype":"F32","shape":[2,2]}}', "[" * 100000, "\x00\x01":
            with self.subTest(header[:40]):
                self.fails_with(self.safetensors(header, bytes(16)), "w.safetensors")

    def test_bad_offsets(self):
        for offsets in "[0,1000]", "[8,4]", "[-4,12]", "[0,15]", "[0]", "[0,18446744073709551632]", '["a","b"]', "[0.5,16]":
            with self.subTest(offsets):
                self.fails_with(self.entry(offsets=offsets), "w.safetensors")

    def test_bad_shape(self):
        for shape in "[-2,-2]", "[4611686018427387904,16]", '["2",2]', "2", "[2.5]":
            with self.subTest(shape):
                self.fails_with(self.entry(shape=shape), "w.safetensors")

    def test_unknown_element_type(self):
        self.fails_with(self.entry("F8_E4M3"), ["F8_E4M3"])

    def two(self, first, second, data):
        return self.safetensors(f'{{"w":{{"dtype":"F32","shape":[2,2],"data_offsets":{first}}},'
                                f'"v":{{"dtype":"F32","shape":[2,2],"data_offsets":{second}}}}}', bytes(data))

    def test_overlaps_holes_and_more_behind(self):
        self.fails_with(self.two("[0,16]", "[8,24]", 24), ["w.safetensors", "overlaps"])
        self.fails_with(self.two("[0,16]", "[20,36]", 36), ["w.safetensors", "a hole"])
        self.fails_with(self.two("[0,16]", "[16,32]", 36), ["w.safetensors", "byte 32 of 36"])

    def test_repeated_names(self):
        entry = '"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}'
        self.fails_with(self.safetensors("{" + entry + "," + entry + "}", bytes(16)), ["'w' is given twice"])


class Onnx(Broken):
    def fails_on_model(self, phrases, nodes, inputs=None, outputs=("y",), initializers=(), args=(), **kwargs):
        inputs = [value_info("x", [2, 3])] if inputs is None else inputs
        outputs = [field(1, o) if isinstance(o, str) else o for o in outputs]
        content = onnx_file.model(nodes, inputs, outputs, initializers, **kwargs)
        return self.fails_on(content, ["m.onnx", *([phrases] if isinstance(phrases, str) else phrases)], name="m.onnx", args=args)

    def test_the_good_model_is_read(self):
        """The unmodified file must work, as otherwise the other tests would prove nothing."""
        self.write("m.onnx", relu_model())
        self.run_ok("import", "m.onnx")

    def test_empty(self):
        self.fails_on(b"", ["m.onnx", "empty"], name="m.onnx")

    def test_random_bytes(self):
        self.fails_on(bytes(range(255, 0, -1)) * 50, ["m.onnx", "ONNX"], name="m.onnx")

    def test_text_as_onnx(self):
        self.fails_on(MLP, ["m.onnx", "ONNX"], name="m.onnx")

    def test_every_cut(self):
        content = relu_model()
        for size in range(1, len(content) - 1, 5):
            with self.subTest(size):
                self.fails_on(content[:size], "m.onnx", name="m.onnx")

    def test_every_bit_flipped(self):
        """Some of these files are valid, but none may crash or hang the program."""
        content = relu_model()
        for at in range(0, len(content), 3):
            broken = bytearray(content)
            broken[at] ^= 1 << at % 8
            self.write("m.onnx", bytes(broken))
            result = command.run("import", "m.onnx", cwd=self.dir, memory_limit=4096)
            self.assertIn(result.code, (0, 1), f"byte {at}: {result}")
            self.assertEqual(result.code == 0, "error: " not in result.err, f"byte {at}: {result}")

    def test_graph_that_is_missing(self):
        self.fails_on(field(1, 8) + field(8, field(2, 17)), ["m.onnx", "no graph"], name="m.onnx")

    def test_opset_that_is_missing(self):
        self.fails_on(relu_model(opset=None), ["m.onnx", "opset"], name="m.onnx")

    def test_opset_that_is_too_old(self):
        self.fails_on_model(["LayerNormalization", "opset 12"], [node("LayerNormalization", ["x", "x"], ["y"])], opset=12)

    def test_unbound_sizes_are_all_named(self):
        self.fails_on_model(["'N'", "'T'", "'H'", "--dim N=", "--dim T=", "--dim H="],
                            [node("Add", ["x", "z"], ["y"])],
                            [value_info("x", ["N", "T", 4]), value_info("z", ["N", "H", 4])])

    def test_one_unbound_size(self):
        result = self.fails_on_model("--dim T=", [node("Relu", ["x"], ["y"])], [value_info("x", ["N", "T"])],
                                     args=["--dim", "N=2"])
        self.assertNotIn("'N'", result.err)

    def test_a_name_that_a_shell_would_split(self):
        self.fails_on_model("; give --dim 'batch size=...'", [node("Relu", ["x"], ["y"])], [value_info("x", ["batch size", 4])])

    def test_dim_that_is_not_there(self):
        self.fails_on_model(["'Batch'", "did you mean 'batch'"], [node("Relu", ["x"], ["y"])], [value_info("x", ["batch", 3])],
                            args=["--dim", "batch=2", "--dim", "Batch=2"])

    def test_sizes_that_overflow(self):
        self.fails_on_model("x", [node("Relu", ["x"], ["y"])], [value_info("x", ["N", 1 << 40])], args=["--dim", f"N={1 << 40}"])

    def test_unsupported_ops_are_all_named(self):
        self.fails_on_model(["Frobnicate", "StringNormalizer", "TfIdfVectorizer"],
                            [node("Frobnicate", ["x"], ["a"]), node("Relu", ["a"], ["b"]),
                             node("StringNormalizer", ["b"], ["c"]), node("TfIdfVectorizer", ["c"], ["y"])])

    def test_unsupported_op_with_near_name(self):
        self.fails_on_model(["Rleu", "Relu"], [node("Rleu", ["x"], ["y"])])

    def test_foreign_domain(self):
        self.fails_on_model(["com.example", "Relu"], [node("Relu", ["x"], ["y"], domain="com.example")])

    def test_cycle(self):
        self.fails_on_model(["'b'", "order"], [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]),
                                               node("Relu", ["b"], ["y"])])

    def test_node_that_reads_itself(self):
        self.fails_on_model("'y'", [node("Add", ["x", "y"], ["y"])])

    def test_wrong_order(self):
        self.fails_on_model(["'a'", "order"], [node("Relu", ["a"], ["y"]), node("Relu", ["x"], ["a"])])

    def test_undefined_operand(self):
        self.fails_on_model(["'nope'", 'node "Relu_y" (Relu, #0)'], [node("Relu", ["nope"], ["y"])])

    def test_defined_twice(self):
        self.fails_on_model(["'a'", "twice"], [node("Relu", ["x"], ["a"]), node("Tanh", ["x"], ["a"]), node("Relu", ["a"], ["y"])])

    def test_output_of_nothing(self):
        self.fails_on_model("'z'", [node("Relu", ["x"], ["y"])], outputs=["z"])

    def test_no_outputs(self):
        self.fails_on_model("no outputs", [node("Relu", ["x"], ["y"])], outputs=[])

    def test_too_few_operands(self):
        self.fails_on_model('node "Add_y" (Add, #0)', [node("Add", ["x"], ["y"])])

    def test_too_many_operands(self):
        self.fails_on_model('node "Relu_y" (Relu, #0)', [node("Relu", ["x", "x"], ["y"])])

    def test_attribute_of_the_wrong_kind(self):
        self.fails_on_model("axis", [node("Softmax", ["x"], ["y"], axis="last")])

    def test_unknown_attribute(self):
        self.fails_on_model("sharpness", [node("Softmax", ["x"], ["y"], sharpness=3)])

    def test_nan_attribute(self):
        self.fails_on_model("nan", [node("LeakyRelu", ["x"], ["y"], alpha=float("nan"))])

    def test_axis_out_of_range(self):
        self.fails_on_model(["axis", "5"], [node("Softmax", ["x"], ["y"], axis=5)])

    def test_ratio(self):
        ratio, training = tensor("r", [], [1.0]), tensor("t", [], raw=b"\x01", dtype=onnx_file.BOOL)
        self.fails_on_model("ratio", [node("Dropout", ["x", "r", "t"], ["y"])], initializers=[ratio, training])

    def test_reshape_that_does_not_fit(self):
        self.fails_on_model(["Reshape", "#0"], [node("Reshape", ["x", "s"], ["y"])],
                            initializers=[tensor("s", [2], [4, 2], onnx_file.INT64)])

    def test_channels_that_do_not_fit(self):
        self.fails_on_model(["Conv", "[4, 5, 3, 3]"], [node("Conv", ["x", "w"], ["y"])], [value_info("x", [1, 3, 8, 8])],
                            initializers=[tensor("w", [4, 5, 3, 3], [0.0] * 180)])

    def test_wrong_declared_output(self):
        self.fails_on_model(["'y'", "f32[2, 3]"], [node("Relu", ["x"], ["y"])], outputs=[value_info("y", [2, 7])])

    def test_initializer_that_is_declared_otherwise(self):
        w = tensor("w", [3], [1.0, 2.0, 3.0])
        for dims, dtype, declared in ([4], onnx_file.FLOAT, "f32[4]"), ([1, 3], onnx_file.FLOAT, "f32[1, 3]"), ([3], onnx_file.DOUBLE, "f64[3]"):
            with self.subTest(declared):
                self.fails_on_model([f"the file declares the initializer 'w' as '{declared}', but it is 'f32[3]'"], [node("Add", ["x", "w"], ["y"])],
                                    inputs=[value_info("x", [2, 3]), value_info("w", dims, dtype)], initializers=[w])
        self.write("m.onnx", onnx_file.model([node("Add", ["x", "w"], ["y"])], [value_info("x", [2, 3]), value_info("w", ["any"])],
                                             [field(1, "y")], [w]))
        self.run_ok("import", "m.onnx")

    def test_initializer_that_is_too_short(self):
        self.fails_on_model(['"w"', "24 bytes"], [node("Add", ["x", "w"], ["y"])], initializers=[tensor("w", [2, 3], raw=bytes(20))])

    def test_initializer_of_huge_size(self):
        for dims in [1 << 40, 1 << 40], [-1, 3], [1 << 62], [1 << 33]:
            with self.subTest(dims):
                self.fails_on_model("w", [node("Add", ["x", "w"], ["y"])], initializers=[tensor("w", dims, raw=bytes(24))])

    def test_initializer_of_strings(self):
        self.fails_on_model("w", [node("Add", ["x", "w"], ["y"])], initializers=[tensor("w", [1], raw=b"", dtype=onnx_file.STRING)])

    def test_initializer_twice(self):
        w = tensor("w", [3], [1.0, 2.0, 3.0])
        self.fails_on_model(["'w'", "twice"], [node("Add", ["x", "w"], ["y"])], initializers=[w, w])

    def test_constant_of_huge_size(self):
        """A file of a hundred bytes that asks for a petabyte."""
        self.fails_on_model([], [node("ConstantOfShape", ["s"], ["c"]), node("Add", ["x", "c"], ["y"])],
                            initializers=[tensor("s", [2], [1 << 30, 1 << 30], onnx_file.INT64)])

    def external(self, phrases, **entries):
        self.write("weights.bin", bytes(24))
        self.fails_on_model(phrases, [node("Add", ["x", "w"], ["y"])], initializers=[tensor("w", [2, 3], external=entries)])

    def test_external_data_that_is_missing(self):
        self.external("no.bin", location="no.bin")

    def test_external_data_that_is_short(self):
        self.external(["weights.bin", "24"], location="weights.bin", offset=8, length=24)

    def test_external_data_outside(self):
        outside = os.path.join(os.path.dirname(self.dir), "outside.bin")
        with open(outside, "wb") as file:
            file.write(bytes(24))
        self.addCleanup(os.remove, outside)
        for location in "../outside.bin", outside, "sub/../../outside.bin", "/etc/passwd":
            with self.subTest(location):
                self.external("beside the model", location=location, length=24)

    def test_external_data_behind_a_link_that_leads_outside(self):
        os.symlink("/etc/passwd", self.path("link.bin"))
        self.external("link.bin", location="link.bin", length=24)

    def test_external_data_without_location(self):
        self.external("w", length=24)

    def test_external_data_with_bad_numbers(self):
        for entries in {"offset": "x"}, {"offset": -8}, {"length": "99999999999999999999"}, {"offset": (1 << 63) - 1}, {"length": 20}:
            with self.subTest(entries):
                self.external("w", location="weights.bin", **entries)

    def test_subgraph(self):
        branch = onnx_file.graph([node("Relu", ["x"], ["b"])], [], [value_info("b", [2, 3])])
        condition = tensor("c", [], raw=b"\x01", dtype=onnx_file.BOOL)
        body = field(1, "then_branch") + field(6, branch) + field(20, 5)
        self.fails_on_model("If", [node("If", ["c"], ["y"]) + field(5, body)], initializers=[condition])

    def test_nesting_without_end(self):
        inner = field(1, ["x"]) + field(4, "If")
        for _ in range(300):
            inner = field(1, ["x"]) + field(2, ["y"]) + field(4, "If") + field(5, field(1, "then_branch") + field(6, field(1, inner)) + field(20, 5))
        self.fails_on_model([], [inner])

    def test_several_errors_at_once(self):
        result = self.fails_on_model(["#0", "#1"], [node("Softmax", ["x"], ["a"], axis=5), node("Reshape", ["x", "s"], ["b"]),
                                                    node("Add", ["a", "b"], ["y"])],
                                     initializers=[tensor("s", [1], [7], onnx_file.INT64)])
        self.assertEqual(result.err.count("error: "), 2, "what follows from an error is none\n" + result.err)


class Sparse(Broken):
    """Files of a TiB that hold nothing: their errors take neither time nor memory."""

    def fails(self, code, phrases, *args):
        result = command.run(*args, cwd=self.dir)  # (the address space is not limited, and the files are not read)
        self.assertEqual(result.code, code, result)
        for phrase in [phrases] if isinstance(phrases, str) else phrases:
            self.assertIn(phrase, result.err, result)

    def sparse(self, name, start=b""):
        with open(self.path(name), "wb") as file:
            file.write(start)
            file.truncate(1 << 40)
        return name

    def test_models(self):
        self.fails(1, "2 GiB", "import", self.sparse("m.onnx"))
        self.fails(1, "m.isth:1:1: error: ", "import", self.sparse("m.isth"))

    def test_weights(self):
        text = 'isthmus 2\nweights "w.safetensors"\n' + graph("input %x : f32[4096]", "param %w : f32[4096]", "%y = mul(%x, %w)",
                                                              "output %y").split("\n", 1)[1]
        self.sparse("w.safetensors")
        text = text.replace("param %w : f32[4096]", 'param %w : f32[4096] = file "w"')
        self.fails(1, ["w.safetensors", "header"], "run", self.write("m.isth", text))

    def test_arrays(self):
        os.mkdir(self.path("in"))
        self.sparse("in/x.npy")
        self.fails(1, "no .npy file", "run", self.write("m.isth", graph("input %x : f32[4]", "%y = neg(%x)", "output %y")), "--inputs=in")

    def test_problems_and_costs(self):
        self.fails(1, "expected JSON", "plan", self.sparse("p.json"), "--budget=50%")
        self.fails(1, "expected JSON", "plan", self.sparse("p.json", b'{"name": "'), "--budget=50%")
        self.fails(1, "expected JSON", "opt", self.mlp(), "--loss=mean", "--budget=50%", f"--costs={self.sparse('c.json')}")

    def test_data_and_checkpoints(self):
        self.fails(1, "numpy.savez", "train", self.mlp(), "--loss=mean", f"--data={self.sparse('d.npz')}", "--steps=1")
        self.fails(1, "safetensors", "train", self.mlp(), "--loss=mean", "--data=d.npz", "--steps=1",
                   f"--resume={self.sparse('c.safetensors')}")


class Size(Broken):
    def test_more_memory_than_there_is(self):
        """The graph is legal, but its arena is too large for any machine."""
        text = graph("param %w : f32[1048576, 1]", "%b = broadcast(%w) {dims = [1048576, 8388608]}", "%y = exp(%b)",
                     "%s = sum(%y)", "output %s")
        self.fails_on(text, "memory", "run", code=5, args=["--loss=%s"])


if __name__ == "__main__":
    command.main()
