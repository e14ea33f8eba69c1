// Tests the CUDA device as a program sees it: how its library is found or rejected, and, with the
// emulation of a GPU on the CPU, how faults are handled. What it has in common with other devices
// is tested in device_contract_test.cc.

#include "runtime/cuda_device.h"

#include "ir/text/parser.h"
#include "kernels/plain/register.h"
#include "passes/place/place.h"
#include "runtime/cpu_device.h"
#include "runtime/executor.h"
#include "tools/random/draw.h"
#include <cstdlib>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

void useLibrary(const std::string &name) {
  setenv("ISTHMUS_CUDA_LIBRARY", name.c_str(), 1); // tests run in the root of the runfiles
}
constexpr const char *kEmulation = "kernels/cuda/libisthmus_cuda_emulation.so";

std::unique_ptr<Device> emulation() {
  useLibrary(kEmulation);
  return llvm::cantFail(makeCudaDevice({}));
}

std::string whyNot(const std::string &library, int index = 0) {
  useLibrary(library);
  auto device = makeCudaDevice({index});
  return device ? "" : llvm::toString(device.takeError());
}

void expectPart(const std::string &whole, const std::string &part) {
  EXPECT_NE(whole.find(part), std::string::npos) << whole;
}

TEST(CudaLibrary, SaysWhyItCannotBeUsed) {
  expectPart(whyNot("no/such/library.so"), "there is no no/such/library.so");
  expectPart(whyNot("tests/runtime/no_library.txt"), "cannot be loaded");
  expectPart(whyNot("tests/runtime/libno_symbol.so"), "has no isthmus_cuda_interface");
  expectPart(whyNot("tests/runtime/libother_version.so"), "is of interface version 1000000");
  expectPart(whyNot(kEmulation, 2), "there is no GPU 2: 2 found");
  EXPECT_EQ(whyNot(kEmulation, 1), "");
}

constexpr const char *kGraph = R"(isthmus 1
graph @g {
  input %x : f32[100, 30]
  input %b : f32[30]
  %h = add(%x, %b)
  %s = mul(%h, %h)
  %c = clamp(%s) {min = 0.25, max = 2.0}
  output %h
  output %c
})";

struct Running {
  Graph graph;
  std::unique_ptr<Executor> executor;

  explicit Running(Device &device, const char *text = kGraph)
      : graph(llvm::cantFail(parseGraph(text, "test", nullptr))) {
    executor = llvm::cantFail(
        Executor::create(graph, llvm::cantFail(place(graph, device.target())), device));
  }
  std::vector<Tensor> step(uint64_t seed) {
    for (const Input &in : graph.inputs())
      llvm::cantFail(executor->feed(in.value, draw(graph.type(in.value), seed)));
    llvm::cantFail(executor->step({}));
    std::vector<Tensor> out;
    for (ValueId v : graph.outputs())
      out.push_back(llvm::cantFail(executor->fetch(v)));
    return out;
  }
};

// Makes the emulation produce these faults until the object is destroyed.
class Faults {
public:
  explicit Faults(const std::string &names) {
    setenv("ISTHMUS_EMULATION_FAULTS", names.c_str(), 1);
  }
  ~Faults() { unsetenv("ISTHMUS_EMULATION_FAULTS"); }
};

std::vector<Tensor> onCpu(const char *graph, uint64_t seed) {
  KernelTable kernels;
  registerPlainKernels(kernels);
  auto cpu = makeCpuDevice(kernels, {1});
  return Running(*cpu, graph).step(seed);
}

void expectSame(llvm::ArrayRef<Tensor> got, llvm::ArrayRef<Tensor> want) {
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_TRUE(sameBits(got[i], want[i])) << "output " << i;
}

// A step that cannot be recorded runs nevertheless, and so do all later steps. A note is given
// once.
TEST(CudaDevice, RunsStepsThatCannotBeRecorded) {
  for (const char *fault : {"start-recording", "end-recording", "replay"}) {
    SCOPED_TRACE(fault);
    auto device = emulation();
    Running running(*device);
    Faults faults(fault);
    for (uint64_t seed : {1, 2, 3, 4})
      expectSame(running.step(seed), onCpu(kGraph, seed));
    std::vector<std::string> notes = device->takeNotes();
    ASSERT_EQ(notes.size(), 1u);
    expectPart(notes[0], "run kernel by kernel, because recording one failed: cuda:0: ");
    EXPECT_TRUE(device->takeNotes().empty());
  }
}

// A kernel that was prepared and never launched, such as one of a run that lacked memory, must not
// keep other steps from being recorded.
TEST(CudaDevice, RecordsBesideKernelsThatNeverRan) {
  auto device = emulation();
  auto g = llvm::cantFail(parseGraph(R"(isthmus 1
graph @g {
  input %x : f32[7]
  %y = exp(%x)
  output %y
})",
                                     "test", nullptr));
  llvm::cantFail(device->prepare(g.call(NodeId(0))));
  Running running(*device);
  Faults faults("replay"); // its note shows that there was a recording
  running.step(1);
  EXPECT_TRUE(device->takeNotes().empty());
  running.step(2);
  EXPECT_EQ(device->takeNotes().size(), 1u);
}

constexpr const char *kProduct = R"(isthmus 1
graph @g {
  input %x : f32[5, 30]
  input %w : f32[30, 4]
  %y = matmul(%x, %w)
  %z = exp(%y)
  output %z
})";

// A library's first choice of a kernel may fail: then its next choice runs, and at last our own
// kernel, which is counted and noted once. Clones and later steps use the kernel that ran first.
TEST(CudaDevice, FallsBackFromLibrariesThatFail) {
  struct Case {
    const char *faults, *library;
    std::vector<std::string> notes;
  };
  const Case cases[] = {
      {"", "emulation", {}},
      {"first-product", "emulation", {"so its next choice runs"}},
      {"first-product second-product",
       "cuda",
       {"so its next choice runs", "so our own kernel, which is slow, runs"}},
      {"refuse-products", "cuda", {"was told to refuse"}},
  };
  for (const Case &c : cases) {
    SCOPED_TRACE(c.faults);
    Faults faults(c.faults);
    auto device = emulation();
    Running running(*device, kProduct);
    for (uint64_t seed : {1, 2, 3})
      expectSame(running.step(seed), onCpu(kProduct, seed));
    KernelCounts counts = running.executor->kernelCounts();
    bool isOwn = std::string(c.library) == "cuda";
    EXPECT_EQ(counts.byLibrary[c.library], isOwn ? 2u : 1u); // exp is our own kernel
    EXPECT_EQ(counts.substitutes, isOwn ? 1u : 0u);
    std::vector<std::string> notes = device->takeNotes();
    ASSERT_EQ(notes.size(), c.notes.size());
    for (size_t i = 0; i < notes.size(); ++i) {
      expectPart(notes[i], "cuda:0: matmul(f32[5, 30], f32[30, 4]): ");
      expectPart(notes[i], c.notes[i]);
    }
  }
}

// A kernel's fault is found after the launch: the error names the step and, if each launch is
// waited for, the node.
TEST(CudaDevice, NamesTheStepOfAFault) {
  auto faultOf = [](Device &device) {
    Running running(device);
    running.step(1);
    Faults faults("kernel");
    llvm::Error e = running.executor->step({});
    EXPECT_TRUE(bool(e));
    return llvm::toString(std::move(e));
  };
  auto device = emulation();
  std::string later = faultOf(*device);
  expectPart(later,
             "cuda:0: step 2: waiting for the step: the emulation was told to fail a kernel");
  expectPart(later, "ISTHMUS_CUDA_SYNC=1");
  setenv("ISTHMUS_CUDA_SYNC", "1", 1);
  device = emulation();
  std::string atOnce = faultOf(*device);
  unsetenv("ISTHMUS_CUDA_SYNC");
  expectPart(atOnce, "test:5:");
  expectPart(atOnce, "step 2: running a kernel: the emulation was told to fail a kernel");
  EXPECT_EQ(atOnce.find("ISTHMUS_CUDA_SYNC"), std::string::npos);
}

} // namespace
} // namespace isthmus
