// Tests that a step simulated from a few of its micro-batches has the figures of the step that is
// built: times, peaks of every device, messages and nodes.

#include "passes/compile/compile.h"
#include "tools/zoo/zoo.h"

#include <gtest/gtest.h>

namespace isthmus {
namespace {

struct Net {
  const char *name;
  ZooOptions options;
  uint32_t stages;
  int64_t microBatches;
  // Of times, as a share: parts of inputs that begin at no multiple of 64 bytes are copied, and those
  // of other micro-batches may not be.
  double tolerance = 0;
};

const Net kNets[] = {
    {"mlp", {{"depth", "12"}, {"width", "64"}, {"batch", "160"}, {"dropout", "0.1"}}, 4, 20},
    {"gpt2",
     {{"depth", "6"}, {"width", "32"}, {"heads", "4"}, {"batch", "24"}, {"tokens", "16"},
      {"vocab", "300"}, {"dropout", "0.1"}},
     4, 12, 0.003}, // interleaved, it settles after more micro-batches than are sampled
    {"unet", {{"depth", "2"}, {"width", "8"}, {"batch", "18"}, {"shape", "3x32x32"}}, 3, 9},
    {"mlp", {{"depth", "12"}, {"width", "64"}, {"batch", "45"}}, 5, 14, 0.06}, // sizes 3 and 4
};

Figures figuresOf(const Net &net, StageOrder order, CheckpointMode mode, bool isBuilt) {
  auto g = buildZoo(net.name, net.options);
  EXPECT_TRUE(bool(g));
  CompileOptions o;
  o.step.loss = cantFail(parseLoss("cross_entropy"));
  o.microBatches = net.microBatches;
  o.mostNodes = isBuilt ? INT64_MAX : 0;
  o.stages.emplace();
  o.stages->stages = net.stages;
  o.stages->order = order;
  o.stages->checkpoint = mode;
  if (order == StageOrder::Interleaved) {
    o.stages->stages = 4;
    o.stages->machine.add({"cpu:0", std::nullopt, 1});
    o.stages->machine.add({"cpu:1", std::nullopt, 2});
  }
  auto c = compile(std::move(*g), o, Target());
  if (!c) {
    ADD_FAILURE() << llvm::toString(c.takeError());
    return {};
  }
  EXPECT_EQ(c->programs.empty(), !isBuilt);
  return c->figures;
}

constexpr double kPeakTolerance = 0.03;

void expectAlike(const Figures &built, const Figures &sampled, double tolerance) {
  auto expectNear = [&](double want, double got, const char *what) {
    EXPECT_NEAR(got, want, (tolerance + 1e-9) * want) << what;
  };
  expectNear(built.simulatedSeconds, sampled.simulatedSeconds, "seconds");
  EXPECT_NEAR(built.recomputeOverhead, sampled.recomputeOverhead, tolerance + 1e-9);
  if (built.clones == 0) // else the graph has boundaries too
    expectNear(double(built.nodes), double(sampled.nodes), "nodes");
  EXPECT_NEAR(double(built.clones), double(sampled.clones), 4 * tolerance * double(built.clones));
  EXPECT_EQ(built.messages, sampled.messages);
  ASSERT_EQ(built.stages.size(), sampled.stages.size());
  for (size_t i = 0; i < built.stages.size(); ++i) {
    const StageFigures &want = built.stages[i], &got = sampled.stages[i];
    EXPECT_EQ(want.device, got.device);
    EXPECT_EQ(want.persistentBytes, got.persistentBytes);
    EXPECT_EQ(want.outputBytes, got.outputBytes);
    EXPECT_NEAR(double(want.baselinePeakBytes), double(got.baselinePeakBytes),
                kPeakTolerance * double(want.baselinePeakBytes));
    EXPECT_NEAR(double(want.predictedPeakBytes), double(got.predictedPeakBytes),
                kPeakTolerance * double(want.predictedPeakBytes));
    expectNear(want.busySeconds, got.busySeconds, "busy");
  }
}

TEST(SampledStep, HasTheFiguresOfTheStepThatIsBuilt) {
  for (const Net &net : kNets)
    for (StageOrder order : kStageOrders)
      for (CheckpointMode mode :
           {CheckpointMode::Always, CheckpointMode::ExceptLast, CheckpointMode::Never}) {
        SCOPED_TRACE(std::string(net.name) + ", " + stageOrderName(order).str() + ", " +
                     checkpointModeName(mode).str());
        expectAlike(figuresOf(net, order, mode, true), figuresOf(net, order, mode, false),
                    net.tolerance);
      }
}

// The memory of a device decides between modes, and then on the cut.
TEST(SampledStep, FitsTheMemoryOfDevices) {
  auto compiled = [](int64_t memory, bool isBuilt) {
    const Net &net = kNets[0];
    auto g = buildZoo(net.name, net.options);
    CompileOptions o;
    o.step.loss = cantFail(parseLoss("cross_entropy"));
    o.microBatches = net.microBatches;
    o.mostNodes = isBuilt ? INT64_MAX : 0;
    o.effort = 0.1;
    o.stages.emplace();
    o.stages->stages = 2;
    o.stages->order = StageOrder::OneFOneB;
    o.stages->machine.add({"cpu:0", std::nullopt, 1});
    o.stages->machine.add({"cpu:1", memory, 1});
    return compile(std::move(*g), o, Target());
  };
  auto free = compiled(INT64_MAX / 2, false);
  ASSERT_TRUE(bool(free)) << llvm::toString(free.takeError());
  const StageFigures &last = free->figures.stages[1];
  const int64_t memory = (last.persistentBytes + last.predictedPeakBytes) * 6 / 10;
  for (bool isBuilt : {false, true}) {
    auto c = compiled(memory, isBuilt);
    ASSERT_TRUE(bool(c)) << llvm::toString(c.takeError());
    const StageFigures &s = c->figures.stages[1];
    EXPECT_LE(s.persistentBytes + s.arenaBytes, memory);
    EXPECT_GT(c->figures.cut->slowest, 1.1 * c->figures.cut->mean);
    EXPECT_EQ(c->figures.cut->slowestStage, 0u);
  }
  auto none = compiled(1, false);
  EXPECT_FALSE(bool(none));
  EXPECT_NE(llvm::toString(none.takeError()).find("does not suffice"), std::string::npos);
}

} // namespace
} // namespace isthmus
