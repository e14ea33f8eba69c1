// Tests the promises of runtime/device.h on every device: the CPU, the counting device, and the
// CUDA device with the emulation of a GPU. Another program runs the tests on a GPU. What only one
// device has is tested elsewhere (cuda_device_test.cc).

#include "ir/text/parser.h"
#include "kernels/cpu.h"
#include "passes/place/place.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda_device.h"
#include "runtime/executor.h"
#include "runtime/profile.h"
#include "tests/testing/example.h"
#include "tools/random/draw.h"
#include <cstdlib>
#include <gtest/gtest.h>
#include <regex>
#include <set>

namespace isthmus {
namespace {

// --- The devices

llvm::Expected<std::unique_ptr<Device>> cudaOf(const char *library) {
  setenv("ISTHMUS_CUDA_LIBRARY", library, 1); // tests run in the root of the runfiles
  return makeCudaDevice({});
}

struct Maker {
  const char *name;
  llvm::Expected<std::unique_ptr<Device>> (*make)();
};

const std::vector<Maker> kComputing = {
#ifdef ISTHMUS_ON_A_GPU
    {"cuda", [] { return cudaOf("kernels/cuda/libisthmus_cuda.so"); }},
#else
    {"cpu",
     []() -> llvm::Expected<std::unique_ptr<Device>> { return makeCpuDevice(cpuKernels(), {2}); }},
    {"cuda_emulation", [] { return cudaOf("kernels/cuda/libisthmus_cuda_emulation.so"); }},
#endif
};

std::vector<Maker> all() {
  std::vector<Maker> makers = kComputing;
#ifndef ISTHMUS_ON_A_GPU
  makers.push_back({"counting", []() -> llvm::Expected<std::unique_ptr<Device>> {
                      return makeCountingDevice(cpuKernels(), {2});
                    }});
#endif
  return makers;
}

class EveryDevice : public testing::TestWithParam<Maker> {
protected:
  void SetUp() override {
    auto made = GetParam().make();
    if (!made)
      GTEST_SKIP() << llvm::toString(made.takeError());
    device = std::move(*made);
  }
  std::unique_ptr<Device> another() { return llvm::cantFail(GetParam().make()); }

  std::unique_ptr<Device> device;
};
// The devices that compute values.
class Computing : public EveryDevice {};

std::string nameOf(const testing::TestParamInfo<Maker> &info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(On, EveryDevice, testing::ValuesIn(all()), nameOf);
INSTANTIATE_TEST_SUITE_P(On, Computing, testing::ValuesIn(kComputing), nameOf);

// --- Graphs on a device, without an executor: every value has its own memory

class Bench {
public:
  Bench(Device &device, const std::string &lines)
      : device_(device),
        g_(llvm::cantFail(parseGraph("isthmus 2\ngraph @g {\n" + lines + "}\n", "test"))) {
    for (uint32_t v = 0; v < g_.numValues(); ++v)
      at_.push_back(llvm::cantFail(device.allocate(g_.type(ValueId(v)).bytes())));
    for (uint32_t n = 0; n < g_.numNodes(); ++n) {
      kernels_.push_back(llvm::cantFail(device.prepare(g_.call(NodeId(n)))));
      scratch_.push_back(llvm::cantFail(device.allocate(kernels_.back()->workspaceBytes())));
    }
  }
  ~Bench() {
    recording_.reset();
    for (DeviceAddress address : at_)
      device_.release(address);
    for (DeviceAddress address : scratch_)
      device_.release(address);
  }

  void write(const char *name, const Tensor &t) {
    llvm::cantFail(device_.write(at_[g_.find(name).index], t.data, t.bytes()));
  }
  Tensor read(const char *name) const {
    ValueId v = g_.find(name);
    return Tensor::make(g_.type(v), [&](char *to) {
      llvm::cantFail(device_.read(to, at_[v.index], g_.type(v).bytes()));
    });
  }
  DeviceAddress at(const char *name) const { return at_[g_.find(name).index]; }
  llvm::Error launch(const char *name) { return launch(g_.value(g_.find(name)).def); }
  llvm::Error launchAll() {
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      if (llvm::Error e = launch(NodeId(i)))
        return e;
    return llvm::Error::success();
  }
  // Runs a step kernel by kernel.
  void step(RandomKey key) {
    llvm::cantFail(device_.begin(key));
    llvm::cantFail(launchAll());
    llvm::cantFail(device_.finish());
  }
  // Runs a step as the executor does; `launches` replaces launchAll.
  llvm::Error recordedStep(RandomKey key, llvm::function_ref<llvm::Error()> launches) {
    llvm::cantFail(device_.begin(key));
    if (recording_) {
      llvm::cantFail(recording_->replay());
    } else {
      auto made = device_.record(kernels_, launches);
      if (!made)
        return made.takeError();
      recording_ = std::move(*made);
    }
    return device_.finish();
  }

private:
  llvm::Error launch(NodeId id) {
    const Node &n = g_.node(id);
    llvm::SmallVector<const void *, 4> operands;
    llvm::SmallVector<void *, 2> results;
    for (ValueId v : n.operands)
      operands.push_back(at_[v.index]);
    for (uint32_t r = 0; r < n.numResults; ++r)
      results.push_back(at_[n.result(r).index]);
    return device_.launch(*kernels_[id.index], {operands, results, scratch_[id.index], nullptr});
  }

  Device &device_;
  Graph g_;
  std::vector<DeviceAddress> at_, scratch_; // by value; by node
  std::vector<PreparedKernel *> kernels_;
  std::unique_ptr<Recording> recording_;
};

Tensor floats(std::initializer_list<double> values) {
  return fromDoubles(Type(DType::F32, {int64_t(values.size())}), values);
}

// --- Memory

TEST_P(EveryDevice, AllocatesNothingToo) {
  DeviceAddress none = llvm::cantFail(device->allocate(0)),
                more = llvm::cantFail(device->allocate(0));
  char byte = 7;
  llvm::cantFail(device->write(none, &byte, 0));
  llvm::cantFail(device->read(&byte, more, 0));
  EXPECT_EQ(byte, 7);
  device->release(none);
  device->release(more);
}

TEST_P(EveryDevice, AlignsWhatItAllocates) {
  for (int64_t bytes : {0, 1, 63, 4097}) {
    DeviceAddress address = llvm::cantFail(device->allocate(bytes));
    EXPECT_EQ(uintptr_t(address) % uintptr_t(device->target().alignment), 0u) << bytes;
    device->release(address);
  }
}

TEST_P(Computing, ReadsBackWhatWasWrittenAnywhere) {
  constexpr int64_t kBytes = 5000;
  DeviceAddress memory = llvm::cantFail(device->allocate(kBytes));
  std::string want(kBytes, '\0'), got(kBytes, '\1');
  llvm::cantFail(device->write(memory, want.data(), kBytes));
  char next = 0;
  for (int64_t offset : {0, 1, 63, 64, 1021, 4093})
    for (int64_t bytes : {907, 64, 3, 1}) { // each piece beside the one before it
      std::string piece(size_t(bytes), ++next);
      want.replace(size_t(offset), piece.size(), piece);
      llvm::cantFail(device->write(memory + offset, piece.data(), bytes));
      llvm::cantFail(device->read(piece.data(), memory + offset, bytes));
      EXPECT_EQ(piece, std::string(size_t(bytes), next)) << bytes << " at " << offset;
    }
  llvm::cantFail(device->read(got.data(), memory, kBytes));
  EXPECT_EQ(got, want) << "what lies beside was written too";
  device->release(memory);
}

// The counting device allocates no memory, so that large models can be counted on small machines.
TEST_P(EveryDevice, SaysHowMuchWasAskedForAndGoesOn) {
  constexpr int64_t kHuge = int64_t(1) << 60;
  auto huge = device->allocate(kHuge);
  ASSERT_EQ(bool(huge), !device->computes());
  if (!huge)
    llvm::handleAllErrors(huge.takeError(), [&](const DiagError &e) {
      EXPECT_EQ(e.kind, ErrorKind::OutOfMemory);
      const std::string &text = e.diags[0].message;
      std::smatch found;
      ASSERT_TRUE(std::regex_match(
          text, found,
          std::regex(R"((.+): out of memory: ([\d.]+) MiB asked for, ([\d.]+) .*MiB \w+( \(.+\))?)")))
          << text;
      EXPECT_EQ(found[1], device->name());
      EXPECT_EQ(std::stod(found[2]), double(kHuge >> 20));
      EXPECT_GT(std::stod(found[3]), 0);
    });
  Bench bench(*device, "input %x : f32[3]\n%y = affine(%x) {scale = 2.0}\noutput %y\n");
  bench.write("x", floats({1, 2, 3}));
  bench.step({});
  if (device->computes()) {
    EXPECT_TRUE(sameBits(bench.read("y"), floats({2, 4, 6})));
  }
}

// All memory that a device takes for itself, for kernels and for its callers is freed. The first
// round loads what libraries keep.
TEST_P(EveryDevice, GivesAllMemoryBack) {
  if (!llvm::cantFail(device->memory()))
    GTEST_SKIP() << device->name() << " shares its memory, or has none";
  auto freeBytes = [&] { return llvm::cantFail(device->memory())->freeBytes; };
  EXPECT_LE(freeBytes(), llvm::cantFail(device->memory())->totalBytes);
  constexpr int64_t kBytes = int64_t(64) << 20;
  int64_t before = 0;
  for (int round : {0, 1}) {
    before = freeBytes();
    auto other = another();
    Bench bench(*other, "input %x : f32[64, 64]\n%y = matmul(%x, %x)\noutput %y\n");
    for (uint64_t step : {0, 1, 2})
      llvm::cantFail(bench.recordedStep({0, step}, [&] { return bench.launchAll(); }));
    DeviceAddress much = llvm::cantFail(other->allocate(kBytes));
    if (round == 1) {
      EXPECT_LE(freeBytes(), before - kBytes);
    }
    other->release(much);
  }
  EXPECT_EQ(freeBytes(), before);
}

// --- Kernels

TEST_P(EveryDevice, PreparesEqualCallsOnce) {
  auto prepared = [&](const char *text) {
    return llvm::cantFail(device->prepare(parseExample(text)->call));
  };
  PreparedKernel *kernel = prepared("affine(f32[3]) {scale = 2}");
  EXPECT_EQ(prepared("affine(f32[3]) {scale = 2}"), kernel);
  EXPECT_NE(prepared("affine(f32[3]) {scale = 3}"), kernel);
  EXPECT_NE(prepared("affine(f32[4]) {scale = 2}"), kernel);
  EXPECT_NE(prepared("affine(f64[3]) {scale = 2}"), kernel);
}

TEST_P(EveryDevice, NamesAnOpThatHasNoKernel) {
  OpDef op;
  op.name = "no_such_op";
  Attrs none;
  OpCall call;
  call.op = &op;
  call.attrs = &none;
  std::string messages[2];
  if (auto kernel = device->prepare(call); !kernel)
    messages[0] = llvm::toString(kernel.takeError());
  if (auto bytes = device->target().workspaceBytes(call); !bytes)
    messages[1] = llvm::toString(bytes.takeError());
  for (const std::string &m : messages)
    EXPECT_NE(m.find("'no_such_op'"), std::string::npos) << m;
  llvm::cantFail(device->prepare(parseExample("exp(f32[3])")->call)); // the device still works
}

// The planner's workspaces are the target's, and those of the run are the kernels'. They must be
// equal.
TEST_P(EveryDevice, PlansWithTheWorkspacesOfItsKernels) {
  int64_t most = 0;
  for (const char *text :
       {"exp(f32[100])", "matmul(f32[64, 64], f32[64, 64])", "softmax(f32[64, 64])",
        "conv(f32[2, 8, 20, 20], f32[16, 8, 3, 3])",
        "conv_weight_grad(f32[2, 16, 18, 18], f32[2, 8, 20, 20]) {kernel = [3, 3]}",
        "attention(f32[2, 70, 16], f32[2, 70, 16], f32[2, 70, 16]) {scale = 0.25}",
        "top_k(f32[10, 1000]) {k = 3}", "cumsum(f32[10, 1000])"}) {
    auto e = parseExample(text);
    int64_t bytes = llvm::cantFail(device->target().workspaceBytes(e->call));
    EXPECT_EQ(bytes, llvm::cantFail(device->prepare(e->call))->workspaceBytes()) << text;
    most = std::max(most, bytes);
  }
  EXPECT_GT(most, 0) << "no kernel here has a workspace";
}

// --- Steps

// Each launch reads what earlier launches wrote, without waits between them.
TEST_P(Computing, RunsLaunchesInTheirOrder) {
  std::string lines = "input %v0 : f32[4]\n";
  std::vector<double> want = {1, 2, 3, 4};
  for (int i = 0; i < 40; ++i) {
    std::string from = "%v" + std::to_string(i), to = "%v" + std::to_string(i + 1);
    lines += to + (i % 2 ? " = affine(" + from + ") {shift = -7.0}\n"
                         : " = affine(" + from + ") {scale = -0.5, shift = 3.0}\n");
    for (double &w : want)
      w = i % 2 ? double(float(w - 7)) : double(float(-0.5 * w + 3));
  }
  Bench bench(*device, lines + "output %v40\n");
  bench.write("v0", floats({1, 2, 3, 4}));
  bench.step({});
  std::vector<double> got = toDoubles(bench.read("v40"));
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_FLOAT_EQ(float(got[i]), float(want[i])) << i;
}

TEST_P(Computing, DrawsByTheKeyOfTheStep) {
  Bench bench(*device, "%a = uniform() {dims = [500], stream = 0}\n"
                       "%b = uniform() {dims = [500], stream = 1}\noutput %a\noutput %b\n");
  auto drawn = [&](RandomKey key) {
    bench.step(key);
    return bench.read("a");
  };
  Tensor first = drawn({1, 0}), other = bench.read("b");
  EXPECT_FALSE(sameBits(first, other)) << "by stream";
  EXPECT_FALSE(sameBits(first, drawn({2, 0}))) << "by seed";
  EXPECT_FALSE(sameBits(first, drawn({1, 1}))) << "by step";
  EXPECT_TRUE(sameBits(first, drawn({1, 0})));
  // Another device of the same kind draws the same numbers.
  auto second = another();
  Bench again(*second, "%a = uniform() {dims = [500], stream = 0}\noutput %a\n");
  again.step({1, 0});
  EXPECT_TRUE(sameBits(first, again.read("a")));
}

constexpr const char *kDropsAndMultiplies = "input %x : f32[5, 30]\ninput %w : f32[30, 4]\n"
                                            "%d = dropout(%x) {stream = 3}\n"
                                            "%p = matmul(%d, %w)\n%y = exp(%p)\noutput %y\n";

void feed(Bench &bench, uint64_t seed) {
  bench.write("x", draw(Type(DType::F32, {5, 30}), seed));
  bench.write("w", draw(Type(DType::F32, {30, 4}), seed + 1));
}

// A recording runs the same kernels on the current inputs and the current key.
TEST_P(Computing, RecordsStepsOfTheSameBits) {
  auto second = another();
  Bench recorded(*device, kDropsAndMultiplies), plain(*second, kDropsAndMultiplies);
  for (uint64_t step = 0; step < 5; ++step) {
    feed(recorded, step);
    feed(plain, step);
    llvm::cantFail(recorded.recordedStep({9, step}, [&] { return recorded.launchAll(); }));
    plain.step({9, step});
    EXPECT_TRUE(sameBits(recorded.read("y"), plain.read("y"))) << "step " << step;
  }
}

// Launches that fail are an error of `record`, or run a second time without being recorded. In both
// cases the device still works. A note is given once.
TEST_P(Computing, GoesOnAfterLaunchesThatFail) {
  auto second = another();
  Bench bench(*device, kDropsAndMultiplies), plain(*second, kDropsAndMultiplies);
  for (uint64_t step = 0; step < 5; ++step) {
    feed(bench, step);
    feed(plain, step);
    plain.step({9, step});
    int calls = 0;
    llvm::Error e = bench.recordedStep({9, step}, [&]() -> llvm::Error {
      if (++calls == 1 && step == 1) // the second step, after kernels have run
        return makeError("the test's launches fail");
      return bench.launchAll();
    });
    const bool failed = bool(e);
    const std::string message = llvm::toString(std::move(e));
    EXPECT_EQ(failed, step == 1 && calls == 1);
    EXPECT_LE(calls, step == 1 ? 2 : 1);
    if (failed) {
      EXPECT_NE(message.find("the test's launches fail"), std::string::npos) << message;
    } else {
      EXPECT_TRUE(sameBits(bench.read("y"), plain.read("y"))) << "step " << step;
    }
    std::vector<std::string> notes = device->takeNotes();
    EXPECT_EQ(notes.size(), step == 1 && !failed ? 1u : 0u);
    EXPECT_TRUE(device->takeNotes().empty());
  }
}

// --- Transfers

// Copies a value to the host, overwrites it, and copies it back. A copy starts after earlier
// launches, and launches after its wait see its result.
TEST_P(EveryDevice, CopiesToTheHostAndBack) {
  EXPECT_GT(device->target().linkBytesPerSecond, 0);
  Bench bench(*device, "input %x : f32[3]\n%y = affine(%x) {scale = 2.0}\n"
                       "%z = affine(%y) {shift = 1.0}\noutput %z\n");
  DeviceAddress host = llvm::cantFail(device->allocateOnHost(12));
  for (uint32_t step : {0, 1, 2}) { // each step uses the same ids
    bench.write("x", floats({1, 2, double(step)}));
    llvm::cantFail(device->begin({0, step}));
    llvm::cantFail(bench.launch("y"));
    llvm::cantFail(device->startTransfer({.id = 4,
                                          .direction = TransferDirection::ToHost,
                                          .to = host,
                                          .from = bench.at("y"),
                                          .bytes = 12}));
    llvm::cantFail(device->waitForTransfer(4));
    bench.write("y", floats({0, 0, 0}));
    llvm::cantFail(device->startTransfer({.id = 5,
                                          .direction = TransferDirection::ToDevice,
                                          .to = bench.at("y"),
                                          .from = host,
                                          .bytes = 12}));
    llvm::cantFail(device->waitForTransfer(5));
    llvm::cantFail(bench.launch("z"));
    llvm::cantFail(device->finish());
    if (device->computes()) {
      EXPECT_TRUE(sameBits(bench.read("z"), floats({3, 5, 2.0 * step + 1}))) << "step " << step;
    }
  }
  device->releaseOnHost(host);
}

// --- Whole graphs

constexpr const char *kOddSizes = R"(isthmus 2
graph @g {
  input %x : f32[1, 3, 11, 9]
  param %w : f32[5, 3, 3, 3]
  input %few : bool[3]
  %c = conv(%x, %w) {pads = [1, 1, 1, 1]}
  %r = relu(%c)
  %p = max_pool(%r) {kernel = [2, 2]}
  %n = not(%few)
  %s = mean(%p)
  output %s
  output %n
  output %r
})";

// The measured peak is the layout's, wherever buffers lie in the arena; also if all are moved up by
// one place.
TEST_P(EveryDevice, NeedsThePeakOfTheLayout) {
  Graph g = llvm::cantFail(parseGraph(kOddSizes, "test"));
  const int64_t place = device->target().alignment;
  Layout layout = llvm::cantFail(isthmus::place(g, device->target()));
  for (int64_t up : {int64_t(0), place}) {
    layout.arenaBytes += up;
    for (std::vector<int64_t> *offsets : {&layout.valueOffset, &layout.workspaceOffset})
      for (int64_t &offset : *offsets)
        offset += offset < 0 ? 0 : up;
    auto executor = llvm::cantFail(Executor::create(g, layout, *device));
    for (const Input &in : g.inputs())
      llvm::cantFail(executor->feed(in.value, draw(g.type(in.value), 1, {0, 1, 2})));
    for (uint64_t step : {0, 1, 2})
      llvm::cantFail(executor->step({0, step}));
    EXPECT_EQ(executor->measuredPeakBytes(), layout.peakBytes);
    EXPECT_EQ(executor->arenaBytes(), layout.arenaBytes);
  }
}

constexpr const char *kThereAndBack = R"(isthmus 2
graph @g {
  input %x : f32[33, 7]
  %h = exp(%x)
  %h.host, %h.sent = copy_to_host(%h)
  %a = neg(%h)
  %h.kept = wait(%h.host, %h.sent, %h)
  %b = mul(%a, %a)
  %h.back, %h.got = copy_to_device(%h.kept)
  %c = sum(%b)
  %h.again = wait(%h.back, %h.got, %h.kept)
  %d = mul(%h.again, %b)
  output %c
  output %d
})";

// A value that was copied to the host and back has the same bits, and its place in the arena was
// free in between.
TEST_P(EveryDevice, RunsGraphsWithTransfers) {
  EXPECT_GT(device->target().linkBytesPerSecond, 0);
  Graph g = llvm::cantFail(parseGraph(kThereAndBack, "test"));
  const Layout layout = llvm::cantFail(place(g, device->target()));
  const int64_t bytes = device->target().rounded(4 * 33 * 7);
  EXPECT_EQ(layout.hostBytes, bytes);
  EXPECT_EQ(layout.peakBytes, 2 * bytes + device->target().rounded(4));
  auto executor = llvm::cantFail(Executor::create(g, layout, *device));
  EXPECT_EQ(executor->hostBytes(), bytes);
  for (uint64_t step : {0, 1, 2}) {
    const Tensor x = draw(g.type(g.inputs()[0].value), step);
    llvm::cantFail(executor->feed(g.inputs()[0].value, x));
    llvm::cantFail(executor->step({0, step}));
    EXPECT_EQ(executor->measuredPeakBytes(), layout.peakBytes);
    if (!device->computes())
      continue;
    Bench plain(*device, "input %x : f32[33, 7]\n%h = exp(%x)\n%a = neg(%h)\n%b = mul(%a, %a)\n"
                         "%d = mul(%h, %b)\noutput %d\n");
    plain.write("x", x);
    plain.step({0, step});
    EXPECT_TRUE(sameBits(llvm::cantFail(executor->fetch(g.find("d"))), plain.read("d")));
  }
}

// Each node ends before the next one starts. The step has the same bits and the same peak, and does
// not affect later steps.
TEST_P(EveryDevice, RunsNodeByNode) {
  Graph g = llvm::cantFail(parseGraph(kThereAndBack, "test"));
  const Layout layout = llvm::cantFail(place(g, device->target()));
  auto executor = llvm::cantFail(Executor::create(g, layout, *device));
  llvm::cantFail(executor->feed(g.inputs()[0].value, draw(g.type(g.inputs()[0].value), 1)));
  llvm::cantFail(executor->step({0, 1}));
  Tensor whole;
  if (device->computes())
    whole = llvm::cantFail(executor->fetch(g.find("d")));
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::vector<uint32_t> ran;
    int64_t most = 0;
    llvm::cantFail(executor->stepByNode({0, 1}, [&](const Executor::NodeRun &run) {
      ran.push_back(run.node.index);
      most = std::max(most, run.liveBytes);
    }));
    ASSERT_EQ(ran.size(), g.numNodes());
    EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
    EXPECT_EQ(most, layout.peakBytes);
    if (device->computes()) {
      EXPECT_TRUE(sameBits(llvm::cantFail(executor->fetch(g.find("d"))), whole));
    }
    llvm::cantFail(executor->step({0, 1}));
    if (device->computes()) {
      EXPECT_TRUE(sameBits(llvm::cantFail(executor->fetch(g.find("d"))), whole));
    }
  }
}

TEST_P(EveryDevice, IsProfiled) {
  Graph g = llvm::cantFail(parseGraph(kThereAndBack, "test"));
  const Layout layout = llvm::cantFail(place(g, device->target()));
  auto executor = llvm::cantFail(Executor::create(g, layout, *device));
  llvm::cantFail(executor->feed(g.inputs()[0].value, draw(g.type(g.inputs()[0].value), 1)));
  size_t progressed = 0;
  const auto nodes = llvm::cantFail(profileNodes(
      g, *executor, *device,
      {.steps = 2, .random = {}, .progress = [&](size_t done) { EXPECT_EQ(done, ++progressed); }}));
  EXPECT_EQ(progressed, 3 * g.numNodes());
  ASSERT_EQ(nodes.size(), g.numNodes());
  int64_t most = 0;
  for (const NodeProfile &n : nodes) {
    EXPECT_GE(n.seconds, 0);
    most = std::max(most, n.liveBytes);
  }
  EXPECT_EQ(most, layout.peakBytes);
  // Transfers have no costs by call.
  const MeasuredCosts costs = measuredCosts(g, nodes, device->target());
  EXPECT_EQ(costs.target, device->target().name);
  std::set<std::string> calls;
  for (const char *value : {"h", "a", "b", "c", "d"})
    calls.insert(callKey(g.call(g.value(g.find(value)).def)));
  std::set<std::string> measured;
  for (const auto &[call, seconds] : costs.seconds)
    measured.insert(call);
  EXPECT_EQ(measured, calls);
}

#ifndef ISTHMUS_ON_A_GPU

// The counting device therefore counts what the CPU needs.
TEST(CountingDevice, IsTheCpuToPlans) {
  auto cpu = makeCpuDevice(cpuKernels(), {2}), counting = makeCountingDevice(cpuKernels(), {2});
  Graph g = llvm::cantFail(parseGraph(kOddSizes, "test"));
  EXPECT_EQ(counting->target().name, cpu->target().name);
  EXPECT_EQ(llvm::cantFail(place(g, counting->target())).peakBytes,
            llvm::cantFail(place(g, cpu->target())).peakBytes);
  EXPECT_EQ(counting->target().seconds(g.call(NodeId(0))),
            cpu->target().seconds(g.call(NodeId(0))));
}

// A kernel that records the addresses of its buffers, and needs a workspace of 100 bytes.
std::vector<const void *> places;

class Noting : public PreparedKernel {
public:
  int64_t workspaceBytes() const override { return 100; }
  void run(const KernelArgs &args) override {
    for (const void *p : args.operands)
      places.push_back(p);
    for (void *p : args.results)
      places.push_back(p);
    places.push_back(args.workspace);
  }
};

// Tensors and workspaces of all sizes are aligned as the target requires.
TEST(Executor, AlignsWhatKernelsSee) {
  KernelTable kernels;
  for (const char *op : {"neg", "concat"})
    kernels.add(
        {op, "test", [](const OpCall &, const KernelOptions &) -> std::unique_ptr<PreparedKernel> {
           return std::make_unique<Noting>();
         }});
  auto cpu = makeCpuDevice(kernels, {1});
  Graph g = llvm::cantFail(parseGraph(R"(isthmus 2
graph @g {
  input %x : f32[3]
  input %y : bool[1]
  input %z : f64[5]
  %a = neg(%x)
  %b = neg(%z)
  %c = concat(%a, %x)
  %d = concat(%b, %z)
  output %c
  output %d
})",
                                      "test"));
  Layout layout = llvm::cantFail(place(g, cpu->target()));
  auto executor = llvm::cantFail(Executor::create(g, layout, *cpu));
  for (const Input &in : g.inputs())
    llvm::cantFail(executor->feed(in.value, draw(g.type(in.value), 1, {0, 1, 2})));
  llvm::cantFail(executor->step({}));
  EXPECT_EQ(places.size(), 14u);
  for (const void *p : places) {
    EXPECT_NE(p, nullptr);
    EXPECT_EQ(uintptr_t(p) % uintptr_t(cpu->target().alignment), 0u);
  }
  EXPECT_EQ(executor->measuredPeakBytes(), layout.peakBytes);
}

#endif

} // namespace
} // namespace isthmus
