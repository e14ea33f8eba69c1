"""Tests the library in a process that has another LLVM, another protobuf, and functions with the names of ours."""

import os
import subprocess
import sys
import tempfile
import unittest

LIBRARY, HEADER, C_TEST_SOURCE, HPP_TEST, ISTHMUS = (os.path.abspath(p) for p in sys.argv[1:6])
FOLDER = os.environ["TEST_TMPDIR"]

# The host loads LLVM's and protobuf's own libraries first, with global symbols, and uses them before, between and after calls of ours.
HOST = r"""
#include "isthmus.hpp"
#include <cassert>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <llvm-c/Core.h>

static std::string byLlvm() {
  LLVMContextRef context = LLVMContextCreate();
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("mine", context);
  LLVMTypeRef number = LLVMInt32TypeInContext(context);
  LLVMAddFunction(module, "f", LLVMFunctionType(number, &number, 1, 0));
  char *text = LLVMPrintModuleToString(module);
  std::string out = text;
  LLVMDisposeMessage(text);
  LLVMDisposeModule(module);
  LLVMContextDispose(context);
  return out;
}

static std::string byProtobuf() {
  google::protobuf::Arena arena;
  auto *message = google::protobuf::Arena::CreateMessage<google::protobuf::Struct>(&arena);
  (*message->mutable_fields())["a"].set_number_value(2);
  google::protobuf::Struct read;
  std::string json;
  if (!read.ParseFromString(message->SerializeAsString()))
    return "unread";
  google::protobuf::util::MessageToJsonString(read, &json);
  return json + google::protobuf::DescriptorPool::generated_pool()->FindFileByName("google/protobuf/struct.proto")->name();
}

static std::string byIsthmus(const std::string &folder) {
  const isthmus::Graph step = isthmus::Graph::parse(
      "isthmus 2\ngraph @g {\n  input %x : f32[64, 256]\n  param %w : f32[256, 256] = normal {std = 0.1, seed = 1}\n"
      "  %a = matmul(%x, %w)\n  %b = gelu(%a)\n  %c = matmul(%b, %w)\n  %d = gelu(%c)\n  output %d\n}\n").differentiate("mean");
  step.save(folder + "/step.onnx");
  isthmus::CompileOptions options;
  options.policy = ISTHMUS_BUDGET;
  options.budgetShare = 0.9;
  options.effort = 0.05;
  std::string out = isthmus::Graph::load(folder + "/step.onnx").compile(options).graph().text();
  try {
    isthmus::Graph::parse("isthmus 2\ngraph @g {\n  %x = nosuch()\n}\n");
  } catch (const isthmus::Error &e) {
    out += e.what();
  }
  return out;
}

int main(int, char **argv) {
  const std::string llvm = byLlvm(), protobuf = byProtobuf(), isthmus = byIsthmus(argv[1]);
  for (int i = 0; i < 3; ++i)
    if (byLlvm() != llvm || byProtobuf() != protobuf || byIsthmus(argv[1]) != isthmus)
      return 1;
  // Handlers of signals are the host's affair.
  for (int signal : {SIGINT, SIGTERM, SIGSEGV, SIGABRT, SIGPIPE, SIGHUP}) {
    struct sigaction now;
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_DFL)
      return 2;
  }
  std::printf("%s\n%s\n%s\n", llvm.c_str(), protobuf.c_str(), isthmus.c_str());
}
"""


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


class Host(unittest.TestCase):
    def c_test(self):
        """A program in C, which needs no C++ library of its own."""
        program = os.path.join(FOLDER, "c_test")
        root = os.path.dirname(os.path.dirname(os.path.dirname(HEADER)))
        self.good(["gcc", "-std=c99", C_TEST_SOURCE, "-I" + root, LIBRARY, "-lm", "-Wl,-rpath," + os.path.dirname(LIBRARY), "-o", program])
        return program

    def good(self, command, **options):
        done = run(command, **options)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        return done.stdout

    def test_beside_another_llvm_and_another_protobuf(self):
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "host.cc")
            with open(source, "w") as file:
                file.write(HOST)
            program = os.path.join(folder, "host")
            llvm = "/usr/lib/llvm-14"
            self.good(["g++", "-std=c++17", source, "-o", program, "-I" + os.path.dirname(HEADER), f"-I{llvm}/include", f"-L{llvm}/lib",
                       "-lLLVM-14", "-lprotobuf", LIBRARY, "-Wl,-rpath," + os.path.dirname(LIBRARY)])
            out = self.good([program, folder])
        for part in ("declare i32 @f(i32)", '{"a":2}google/protobuf/struct.proto', "clone(", "nosuch"):
            self.assertIn(part, out)

    def test_names_with_other_meanings(self):
        """All that the library holds of LLVM, protobuf and the C++ library, by names of which each crashes who calls it."""
        archives = ["/usr/lib/llvm-14/lib/libLLVMSupport.a", "/usr/lib/llvm-14/lib/libLLVMDemangle.a"]
        for name in ("libprotobuf-lite.a", "libstdc++.a"):
            archives.append(self.good(["gcc", "-print-file-name=" + name]).strip())
        out = self.good(["nm", "--defined-only", "--extern-only", "--format=posix", "--quiet", *archives])
        names = {line.split()[0] for line in out.splitlines() if line.count(" ") > 1 and line.split()[1] in "TWV"}
        names = {n for n in names if n.startswith(("_Z", "__cxa_", "__gxx", "LLVM")) and "@" not in n}
        self.assertGreater(len(names), 5000)
        source, library = os.path.join(FOLDER, "other.s"), os.path.join(FOLDER, "other.so")
        with open(source, "w") as file:
            file.write(".text\n" + "".join(f'.globl "{n}"\n.type "{n}", @function\n"{n}": ud2\n' for n in sorted(names)))
        self.good(["gcc", "-shared", "-nostdlib", source, "-o", library])
        env = {**os.environ, "LD_PRELOAD": library}
        self.assertIn("all as expected", self.good([self.c_test()], env=env))
        self.assertLess(run([ISTHMUS, "ops"], env=env).returncode, 0)  # which has the C++ library's names from outside

    def test_helgrind_finds_no_race(self):
        done = run(["valgrind", "--tool=helgrind", "--history-level=approx", "--error-exitcode=9", HPP_TEST, "--gtest_filter=*ThreadsCallAgain"])
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertIn("[  PASSED  ] 1 test", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
