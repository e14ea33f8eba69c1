// Tests that a step over several devices gives its bits and its peaks however late messages are,
// and that all devices end where one fails. With ISTHMUS_FULL=1, a thousand steps run.

#include "ir/default_input.h"
#include "kernels/cpu.h"
#include "passes/compile/compile.h"
#include "runtime/cpu_device.h"
#include "runtime/executor.h"
#include "runtime/thread_transport.h"
#include "tools/random/draw.h"
#include "tools/zoo/zoo.h"
#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>
#include <optional>
#include <random>
#include <thread>

namespace isthmus {
namespace {

using llvm::cantFail;

// Sleeps at random before each call of the end that it stands before, or fails in one wait.
class Delayed : public Transport {
public:
  Delayed(Transport &end, uint64_t seed, std::optional<uint64_t> failingWait)
      : end_(end), draws_(seed), failingWait_(failingWait) {}

  llvm::Expected<uint64_t> isend(llvm::StringRef to, int64_t tag, const void *data,
                                 int64_t bytes) override {
    sleepSome();
    return end_.isend(to, tag, data, bytes);
  }
  llvm::Expected<uint64_t> irecv(llvm::StringRef from, int64_t tag, void *data,
                                 int64_t bytes) override {
    sleepSome();
    return end_.irecv(from, tag, data, bytes);
  }
  llvm::Error wait(uint64_t message) override {
    sleepSome();
    if (failingWait_ && waits_++ == *failingWait_)
      return makeError("the link is down");
    return end_.wait(message);
  }
  llvm::Expected<bool> test(uint64_t message) override { return end_.test(message); }
  llvm::Error progress() override { return end_.progress(); }
  void abort(llvm::StringRef why) override { end_.abort(why); }
  double takeWaited() override { return end_.takeWaited(); }

private:
  // Most calls are on time, so that devices run at once; a few are late by much.
  void sleepSome() {
    const uint64_t draw = draws_();
    if (draw % 8 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds((draw >> 8) % 400));
    else if (draw % 2)
      std::this_thread::yield();
  }

  Transport &end_;
  std::mt19937_64 draws_;
  const std::optional<uint64_t> failingWait_;
  uint64_t waits_ = 0;
};

struct Net {
  const char *name;
  ZooOptions options;
};
const Net kNets[] = {
    {"mlp", {{"depth", "6"}, {"width", "16"}, {"batch", "12"}, {"dropout", "0.2"}}},
    {"gpt2",
     {{"depth", "3"},
      {"width", "16"},
      {"heads", "2"},
      {"batch", "6"},
      {"tokens", "4"},
      {"vocab", "11"},
      {"dropout", "0.1"}}},
    {"unet", {{"depth", "2"}, {"width", "2"}, {"batch", "4"}, {"shape", "3x16x16"}}},
};

// A step that was compiled, and what its devices run it with.
class Step {
public:
  Step(const Net &net, uint32_t stages, int64_t microBatches, StageOrder order,
       CheckpointMode mode) {
    CompileOptions o;
    o.step.loss = cantFail(parseLoss("cross_entropy"));
    o.microBatches = microBatches;
    o.stages.emplace();
    o.stages->stages = stages;
    o.stages->order = order;
    o.stages->checkpoint = mode;
    CpuOptions one;
    one.threads = 1;
    first_ = makeCpuDevice(cpuKernels(), one);
    compiled_ = cantFail(compile(cantFail(buildZoo(net.name, net.options)), o, first_->target()));
    for (const Input &i : compiled_.graph.inputs())
      inputs_.push_back(i.init.data ? i.init.data
                                    : cantFail(defaultInput(compiled_.graph, i, kSeed)));
  }

  size_t numDevices() const { return compiled_.programs.size(); }

  // What each device ended with: the bits of its outputs, or the error.
  struct Ended {
    std::vector<Tensor> outputs;
    int64_t peakBytes = 0;
    std::string error;
  };
  std::vector<Ended> run(uint64_t seed, size_t failingDevice, std::optional<uint64_t> failingWait) {
    std::vector<std::string> names;
    for (const CompiledProgram &p : compiled_.programs)
      names.push_back(p.device);
    const auto ends = makeThreadTransport(names);
    std::vector<Ended> out(numDevices());
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<std::unique_ptr<Delayed>> delayed;
    std::vector<std::unique_ptr<Executor>> executors;
    for (size_t i = 0; i < numDevices(); ++i) {
      const CompiledProgram &p = compiled_.programs[i];
      std::vector<Tensor> own;
      for (uint32_t k : p.inputs)
        own.push_back(inputs_[k]);
      devices.push_back(cantFail(first_->another(p.device)));
      delayed.push_back(std::make_unique<Delayed>(*ends[i], seed * 64 + i,
                                                  i == failingDevice ? failingWait : std::nullopt));
      executors.push_back(
          cantFail(Executor::create(p.graph, p.layout, *devices[i], own, delayed[i].get())));
    }
    std::vector<std::thread> threads;
    for (size_t i = 0; i < numDevices(); ++i)
      threads.emplace_back([&, i] {
        if (llvm::Error e = executors[i]->step({kSeed, 0})) {
          out[i].error = llvm::toString(std::move(e));
          delayed[i]->abort("the step failed on " + names[i]);
        }
      });
    for (std::thread &t : threads)
      t.join();
    for (size_t i = 0; i < numDevices(); ++i) {
      out[i].peakBytes = executors[i]->measuredPeakBytes();
      if (out[i].error.empty())
        for (ValueId v : compiled_.programs[i].graph.outputs())
          out[i].outputs.push_back(cantFail(executors[i]->fetch(v)));
    }
    return out;
  }

  int64_t predictedPeak(size_t device) const { return compiled_.programs[device].layout.peakBytes; }

private:
  static constexpr uint64_t kSeed = 7;
  std::unique_ptr<Device> first_;
  Compiled compiled_;
  std::vector<Tensor> inputs_;
};

int numRuns(int sampled, int all) { return std::getenv("ISTHMUS_FULL") ? all : sampled; }

template <typename Body> void forEachStep(Body body) {
  uint64_t number = 0;
  for (const Net &net : kNets)
    for (StageOrder order : {StageOrder::GPipe, StageOrder::OneFOneB, StageOrder::ZeroBubble}) {
      const CheckpointMode mode = CheckpointMode(number % 3);
      const uint32_t stages = 2 + uint32_t(number % 3);
      SCOPED_TRACE(std::string(net.name) + ", " + stageOrderName(order).str() + ", " +
                   checkpointModeName(mode).str());
      Step step(net, stages, 4, order, mode);
      body(step, ++number << 32);
    }
}

TEST(DelayedMessages, ChangeNoBitAndNoPeak) {
  forEachStep([](Step &step, uint64_t seed) {
    const auto want = step.run(seed, 0, std::nullopt);
    for (int run = 1; run < numRuns(8, 112); ++run) {
      const auto got = step.run(seed + uint64_t(run), 0, std::nullopt);
      for (size_t i = 0; i < step.numDevices(); ++i) {
        ASSERT_EQ(got[i].error, "");
        EXPECT_EQ(got[i].peakBytes, step.predictedPeak(i));
        ASSERT_EQ(got[i].outputs.size(), want[i].outputs.size());
        for (size_t k = 0; k < want[i].outputs.size(); ++k)
          EXPECT_TRUE(sameBits(got[i].outputs[k], want[i].outputs[k])) << "device " << i;
      }
    }
  });
}

// The step ends; a device that waits for nothing more may have ended before.
TEST(DelayedMessages, AFailureEndsAllDevices) {
  forEachStep([](Step &step, uint64_t seed) {
    for (int run = 0; run < numRuns(3, 20); ++run) {
      const size_t failing = size_t(run) % step.numDevices();
      const auto ended = step.run(seed + uint64_t(run), failing, uint64_t(run % 6));
      EXPECT_NE(ended[failing].error.find("the link is down"), std::string::npos);
      for (size_t i = 0; i < ended.size(); ++i)
        if (i != failing && !ended[i].error.empty()) {
          EXPECT_NE(ended[i].error.find("the step failed on "), std::string::npos);
        }
    }
  });
}

} // namespace
} // namespace isthmus
