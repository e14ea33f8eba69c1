#include "passes/differentiate/mode.h"

#include "tests/passes/small_graphs.h"
#include "tools/zoo/zoo.h"
#include <gtest/gtest.h>

namespace isthmus {
namespace {

using Names = std::vector<std::string>;

int countOps(const Graph &g, llvm::StringRef op) {
  int count = 0;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    count += g.node(NodeId(i)).op->name == op;
  return count;
}

// How many nodes depend on the mode, and how many of them train.
std::pair<int, int> training(const Graph &g) {
  std::pair<int, int> count;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (const Node &n = g.node(NodeId(i)); n.op->is(kDependsOnMode)) {
      ++count.first;
      count.second += n.attrs.getBool("training");
    }
  return count;
}

TEST(Mode, EvalStopsLearningAboutBatches) {
  Graph g =
      llvm::cantFail(buildZoo("resnet", {{"depth", "8"}, {"shape", "3x32x32"}, {"batch", "2"}}));
  EXPECT_EQ(training(g), std::pair(9, 9));
  ASSERT_EQ(countOps(g, "running_average"), 18);
  Graph eval = withMode(g, Mode::Eval);
  EXPECT_EQ(training(eval), std::pair(9, 0));
  EXPECT_EQ(countOps(eval, "running_average"), 0);
  EXPECT_EQ(eval.numNodes(), g.numNodes() - 18);
  EXPECT_EQ(outputNames(eval), Names{"y"});
  EXPECT_EQ(eval.inputs().size(), g.inputs().size());

  // And back: the averages are moved again.
  Graph again = withMode(eval, Mode::Training);
  EXPECT_EQ(training(again), std::pair(9, 9));
  EXPECT_EQ(countOps(again, "running_average"), 18);
  EXPECT_EQ(outputNames(again), outputNames(g));
}

TEST(Mode, TrainingLeavesATrainingGraphAlone) {
  Graph g = llvm::cantFail(buildZoo("mobilenetv2", {{"shape", "3x32x32"}, {"batch", "2"}}));
  Graph same = withMode(g, Mode::Training);
  EXPECT_EQ(nodeNames(same), nodeNames(g));
  EXPECT_EQ(outputNames(same), outputNames(g));
  EXPECT_GT(training(g).first, 50);
}

// Only an update of a state goes: an output that is merely called so stays.
TEST(Mode, EvalKeepsOtherOutputs) {
  Graph g;
  ValueId x = addInput(g, "x", Type(DType::F32, {4}));
  Builder b(g);
  g.addOutput(b.create("dropout", {x}, {{"ratio", 0.5}, {"stream", 1}}, "state.mine"));
  b.phase = Phase::Update;
  g.addOutput(b.create("neg", {x}, {}, "new_weight"));
  Graph eval = withMode(g, Mode::Eval);
  EXPECT_EQ(outputNames(eval), (Names{"state.mine", "new_weight"}));
  EXPECT_EQ(training(eval), std::pair(1, 0));
}

} // namespace
} // namespace isthmus
