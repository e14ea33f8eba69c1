// The executor checks layouts by itself: if a layout would overwrite a tensor that is still needed,
// whoever made the layout, the error names both values. The executor also ends what it starts, and
// frees what it allocates.

#include "ir/storage.h"
#include "ir/text/parser.h"
#include "kernels/cpu.h"
#include "passes/place/place.h"
#include "runtime/cpu_device.h"
#include "runtime/executor.h"
#include "tools/random/draw.h"
#include <chrono>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

Graph parsed(const std::string &lines) {
  return llvm::cantFail(
      parseGraph("isthmus 2\ngraph @g {\n  input %x : f32[16, 16]\n" + lines + "}\n", "g"));
}

// Runs two steps of `g` with `layout`. Returns the error's text, or "". Each step is checked anew.
std::string errorOf(const Graph &g, const Layout &layout, Device &device) {
  auto executor = Executor::create(g, layout, device);
  if (!executor)
    return llvm::toString(executor.takeError());
  for (const Input &in : g.inputs())
    llvm::cantFail((*executor)->feed(in.value, draw(g.type(in.value), 1)));
  const std::string error = llvm::toString((*executor)->step({}));
  EXPECT_EQ(llvm::toString((*executor)->step({})), error);
  return error;
}

struct WrongLayout {
  const char *name;
  std::string lines;
  const char *over, *under; // `over` is placed over `under`
  const char *message;      // empty if the layout is correct
};

const WrongLayout kWrongLayouts[] = {
    {"ElementwiseOverADyingOperand", "  %a = exp(%x)\n  %b = relu(%a)\n  output %b\n", "b", "a",
     ""},
    {"ElementwiseOverAnOperandReadTwice", "  %a = exp(%x)\n  %b = mul(%a, %a)\n  output %b\n", "b",
     "a", ""},
    {"MatmulOverAnOperand", "  %a = exp(%x)\n  %b = matmul(%a, %x)\n  output %b\n", "b", "a",
     "the layout has '%b' at bytes [0, 1024) of the arena, and '%a', which is in use and must not "
     "be overwritten, at [0, 1024)"},
    {"SumOverItsOperand",
     "  %a = exp(%x)\n  %b = reshape(%a) {dims = [256, 1]}\n  %c = sum(%b) {axes = [1]}\n"
     "  output %c\n",
     "c", "a", "'%c' at bytes [0, 1024) of the arena, and '%a', which is in use"},
    // softmax_grad may overwrite one operand if the other lies elsewhere.
    {"OverOneOfTwoOperandsThatAreOne",
     "  %a = exp(%x)\n  %b = reshape(%a) {dims = [16, 16]}\n  %c = softmax_grad(%a, %b)\n"
     "  output %c\n",
     "c", "a", "'%c' at bytes [0, 1024) of the arena, and '%a', which is in use"},
    {"OverAnOperandThatIsReadAgain",
     "  %a = exp(%x)\n  %b = relu(%a)\n  %c = sum(%a)\n  output %b\n  output %c\n", "b", "a",
     "'%b' at bytes [0, 1024) of the arena, and '%a', which is in use"},
    {"OverAnOperandWhoseViewIsReadAgain",
     "  %a = exp(%x)\n  %v = reshape(%a) {dims = [256]}\n  %b = relu(%a)\n  %c = sum(%v)\n"
     "  output %b\n  output %c\n",
     "b", "a", "'%b' at bytes [0, 1024) of the arena, and '%a', which is in use"},
    {"OverAnOutput", "  %a = exp(%x)\n  %b = relu(%a)\n  output %a\n  output %b\n", "b", "a",
     "'%b' at bytes [0, 1024) of the arena, and '%a', which is in use"},
    {"TwoHostCopiesAtOnePlace",
     "  %a = exp(%x)\n  %b = neg(%x)\n"
     "  %a.host, %a.sent = copy_to_host(%a)\n  %b.host, %b.sent = copy_to_host(%b)\n"
     "  %a.kept = wait(%a.host, %a.sent, %a)\n  %b.kept = wait(%b.host, %b.sent, %b)\n"
     "  %c, %c.got = copy_to_device(%a.kept)\n  %c.again = wait(%c, %c.got, %a.kept)\n"
     "  %d, %d.got = copy_to_device(%b.kept)\n  %d.again = wait(%d, %d.got, %b.kept)\n"
     "  output %c.again\n  output %d.again\n",
     "b.host", "a.host",
     "'%b.host' at bytes [0, 1024) of the host's memory, and '%a.host', which is in use"},
    // Until the wait has run, the transfer may still read.
    {"OverWhatIsBeingCopied",
     "  %a = exp(%x)\n  %h, %sent = copy_to_host(%a)\n  %b = relu(%a)\n"
     "  %kept = wait(%h, %sent, %a)\n  %back, %got = copy_to_device(%kept)\n"
     "  %again = wait(%back, %got, %kept)\n  output %b\n  output %again\n",
     "b", "a", "'%b' at bytes [0, 1024) of the arena, and '%a', which is in use"},
    {"OverWhatIsComingBack",
     "  %a = exp(%x)\n  %h, %sent = copy_to_host(%a)\n  %kept = wait(%h, %sent, %a)\n"
     "  %back, %got = copy_to_device(%kept)\n  %b = neg(%x)\n"
     "  %again = wait(%back, %got, %kept)\n  output %b\n  output %again\n",
     "b", "back", "'%b' at bytes [0, 1024) of the arena, and '%back', which is in use"},
};

class Layouts : public testing::TestWithParam<WrongLayout> {};

TEST_P(Layouts, AreHeldAgainstTheRows) {
  const WrongLayout &c = GetParam();
  auto device = makeCpuDevice(cpuKernels(), {.threads = 1});
  Graph g = parsed(c.lines);
  Layout layout = llvm::cantFail(place(g, device->target()));
  EXPECT_EQ(errorOf(g, layout, *device), "");

  // All values are placed apart, so that only the pair shares bytes.
  const std::vector<ValueId> roots = storageRoots(g);
  const ValueId over = g.find(c.over), under = g.find(c.under);
  for (uint32_t v = 0; v < g.numValues(); ++v)
    if (const ValueId root = roots[v]; layout.valueOffset[v] >= 0)
      layout.valueOffset[v] = root == over || root == under ? 0 : 1024 * (root.index + 1);
  layout.arenaBytes = layout.hostBytes = 1024 * (int64_t(g.numValues()) + 1);
  const std::string error = errorOf(g, layout, *device);
  EXPECT_EQ(error.empty(), !*c.message) << error;
  EXPECT_NE(error.find(c.message), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(Of, Layouts, testing::ValuesIn(kWrongLayouts),
                         [](const auto &info) { return info.param.name; });

TEST(Layouts, SayWhatLiesOutside) {
  auto device = makeCpuDevice(cpuKernels(), {.threads = 1});
  Graph g = parsed("  %a = exp(%x)\n  output %a\n");
  Layout layout = llvm::cantFail(place(g, device->target()));
  layout.valueOffset[g.find("a").index] = 64;
  EXPECT_NE(errorOf(g, layout, *device)
                .find("the layout has '%a' at bytes [64, 1088) of the arena, which has 1024"),
            std::string::npos);
}

TEST(Layouts, NameWorkspaces) {
  auto device = makeCpuDevice(cpuKernels(), {.threads = 1});
  Graph g = parsed("  %a = exp(%x)\n  %b, %i = top_k(%x) {k = 3}\n  output %a\n  output %b\n");
  Layout layout = llvm::cantFail(place(g, device->target()));
  int64_t &offset = layout.workspaceOffset[g.value(g.find("b")).def.index];
  ASSERT_GE(offset, 0) << "the op has no workspace here";
  offset = layout.valueOffset[g.find("a").index];
  const std::string error = errorOf(g, layout, *device);
  EXPECT_NE(error.find("the workspace of '%b' at bytes"), std::string::npos) << error;
}

// --- The host's memory

const char *kThereAndBack = "  %a = exp(%x)\n  %h, %sent = copy_to_host(%a)\n"
                            "  %kept = wait(%h, %sent, %a)\n"
                            "  %back, %got = copy_to_device(%kept)\n"
                            "  %again = wait(%back, %got, %kept)\n  output %again\n";

// The CPU device, with a count of live allocations.
class Counted : public Device {
public:
  std::string name() const override { return cpu_->name(); }
  llvm::Expected<std::unique_ptr<Device>> another(llvm::StringRef name) override {
    return cpu_->another(name);
  }
  std::unique_ptr<Transport> transportOver(std::unique_ptr<Transport> host) override {
    return cpu_->transportOver(std::move(host));
  }
  const Target &target() override { return cpu_->target(); }
  llvm::Expected<DeviceAddress> allocate(int64_t bytes) override {
    return counted(cpu_->allocate(bytes));
  }
  void release(DeviceAddress p) override {
    --held;
    cpu_->release(p);
  }
  llvm::Error write(DeviceAddress to, const void *from, int64_t bytes) override {
    return cpu_->write(to, from, bytes);
  }
  llvm::Error read(void *to, DeviceAddress from, int64_t bytes) override {
    return cpu_->read(to, from, bytes);
  }
  llvm::Expected<DeviceAddress> allocateOnHost(int64_t bytes) override {
    return counted(cpu_->allocateOnHost(bytes));
  }
  void releaseOnHost(DeviceAddress p) override {
    --held;
    cpu_->releaseOnHost(p);
  }
  llvm::Expected<PreparedKernel *> prepare(const OpCall &call) override {
    return cpu_->prepare(call);
  }
  llvm::Error begin(const RandomKey &key) override { return cpu_->begin(key); }
  llvm::Error launch(PreparedKernel &k, KernelArgs a) override { return cpu_->launch(k, a); }
  llvm::Error startTransfer(const TransferArgs &t) override { return cpu_->startTransfer(t); }
  llvm::Error waitForTransfer(uint32_t id) override { return cpu_->waitForTransfer(id); }
  llvm::Error finish() override { return cpu_->finish(); }

  int held = 0, most = 0;

private:
  llvm::Expected<DeviceAddress> counted(llvm::Expected<DeviceAddress> made) {
    held += bool(made);
    most = std::max(most, held);
    return made;
  }
  std::unique_ptr<Device> cpu_ = makeCpuDevice(cpuKernels(), {.threads = 1});
};

TEST(HostMemory, GoesBackWithTheRest) {
  Counted device;
  Graph g = parsed(kThereAndBack);
  EXPECT_EQ(errorOf(g, llvm::cantFail(place(g, device.target())), device), "");
  EXPECT_EQ(device.most, 3);
  EXPECT_EQ(device.held, 0);
}

TEST(HostMemory, ThatIsNotThereIsAnErrorWithFigures) {
  Counted device;
  Graph g = parsed(kThereAndBack);
  Layout layout = llvm::cantFail(place(g, device.target()));
  layout.hostBytes = int64_t(1) << 60;
  const std::string error = errorOf(g, layout, device);
  for (const char *part :
       {"cpu:0: out of memory: 1099511627776.0 MiB asked for, ", " MiB available",
        "the allocation that failed is for copies in the host's memory"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
  EXPECT_EQ(device.most, 2);
  EXPECT_EQ(device.held, 0);
}

// A transfer that is under way when a step fails must end before its memory is freed.
TEST(HostMemory, IsNotWrittenAfterAStepThatFailed) {
  constexpr double kRate = 1e4, kSeconds = 1024 / kRate;
  auto device = makeCpuDevice(cpuKernels(), {.threads = 1, .linkBytesPerSecond = kRate});
  Graph g = parsed("  %a = exp(%x)\n  %h, %sent = copy_to_host(%a)\n  %b = matmul(%a, %x)\n"
                   "  %kept = wait(%h, %sent, %a)\n  output %b\n");
  Layout layout = llvm::cantFail(place(g, device->target()));
  layout.valueOffset[g.find("b").index] = layout.valueOffset[g.find("a").index];
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(errorOf(g, layout, *device).find("'%a', which is in use"), std::string::npos);
  EXPECT_GE(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
            kSeconds);
}

// w' = w - rate g, in place of w.
TEST(Executor, FeedsAgainWhatAStepOverwrites) {
  Graph g = parsed("  input %rate : f64[]\n  param %w : f32[16, 16] = fill {value = 1.0}\n"
                   "  %g = neg(%x) : f32[16, 16] backward\n"
                   "  %now = sgd(%w, %g, %rate) : f32[16, 16] update\n  output %now next(%w)\n");
  auto device = makeCpuDevice(cpuKernels(), {});
  const Layout layout = cantFail(place(g, device->target()));
  EXPECT_EQ(layout.arenaBytes, 1024); // the gradient
  auto e = cantFail(Executor::create(g, layout, *device));
  const ValueId w = g.find("w");
  const Tensor first = draw(g.type(w), 2);
  cantFail(e->feed(g.find("x"), draw(g.type(g.find("x")), 1)));
  cantFail(e->feed(g.find("rate"), draw(g.type(g.find("rate")), 3)));
  { // the caller's bytes do not outlive this block
    std::string bytes(first.data, size_t(first.bytes()));
    cantFail(e->feed(w, Tensor{first.type, nullptr, bytes.data()}));
  }
  auto now = [&] {
    const Tensor t = cantFail(e->fetch(g.find("now")));
    return std::string(t.data, size_t(t.bytes()));
  };
  cantFail(e->step({}));
  const std::string once = now();
  EXPECT_NE(once, std::string(first.data, size_t(first.bytes())));
  EXPECT_EQ(e->measuredPeakBytes(), 1024);
  cantFail(e->step({}));
  EXPECT_EQ(now(), once);
  cantFail(e->carryState());
  cantFail(e->step({}));
  const std::string twice = now();
  EXPECT_NE(twice, once);
  EXPECT_EQ(llvm::toString(e->step({})),
            "error: the last step overwrote '%w'; carry its state on, or feed it");
  cantFail(e->feed(w, first));
  cantFail(e->step({}));
  EXPECT_EQ(now(), once);
}

// Parameters are not copied where the device reads the host's memory, except for those that a step
// overwrites.
TEST(Executor, ReadsSharedTensorsInPlace) {
  Graph g = parsed("  input %rate : f64[]\n"
                   "  param %w : f32[16, 16] = fill {value = 1.0}\n"
                   "  %g = matmul(%x, %w) : f32[16, 16] backward\n"
                   "  %now = sgd(%w, %g, %rate) : f32[16, 16] update\n  output %now next(%w)\n");
  auto device = makeCpuDevice(cpuKernels(), {});
  const Layout layout = cantFail(place(g, device->target()));
  const Tensor x = draw(g.type(g.find("x")), 1), rate = draw(g.type(g.find("rate")), 3),
               w = draw(g.type(g.find("w")), 2);
  auto shared = cantFail(Executor::create(g, layout, *device, {x, rate, w}));
  auto fed = cantFail(Executor::create(g, layout, *device));
  EXPECT_GT(x.owner.use_count(), 1);
  const long uses = x.owner.use_count();
  cantFail(fed->feed(g.find("x"), x));
  cantFail(fed->feed(g.find("rate"), rate));
  cantFail(fed->feed(g.find("w"), w));
  EXPECT_EQ(x.owner.use_count(), uses) << "a tensor that is fed is copied";
  auto now = [&](Executor &e) {
    cantFail(e.step({}));
    const Tensor t = cantFail(e.fetch(g.find("now")));
    return std::string(t.data, size_t(t.bytes()));
  };
  const std::string before(w.data, size_t(w.bytes())), once = now(*shared);
  EXPECT_EQ(once, now(*fed));
  EXPECT_EQ(std::string(w.data, size_t(w.bytes())), before) << "steps overwrite a copy";
  // Bytes of the caller's are copied, also where a tensor was shared.
  {
    std::string bytes(size_t(x.bytes()), '\0');
    cantFail(shared->feed(g.find("x"), Tensor{x.type, nullptr, bytes.data()}));
  }
  cantFail(shared->feed(g.find("w"), w));
  EXPECT_EQ(now(*shared), before) << "the gradient is zero";
}

} // namespace
} // namespace isthmus
