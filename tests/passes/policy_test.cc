// Tests bottlenecks and the policy `memory` on graphs small enough to know the answers. The
// rewritten graphs of the policies are shown in golden/.

#include "ir/builder.h"
#include "passes/checkpoint/bottlenecks.h"
#include "passes/checkpoint/frontier.h"
#include "passes/checkpoint/policy.h"
#include "passes/differentiate/differentiate.h"
#include "passes/names.h"
#include "passes/rewrite/problem.h"
#include "gtest/gtest.h"

using namespace isthmus;

namespace {

// Activations of 128 KiB outweigh the weights' gradients of 16.
struct Net {
  Graph g{"net"};
  Builder b{g};
  ValueId x = cantFail(g.addInput(InputKind::Input, "x", Type(DType::F32, {512, 64})));
  ValueList params;

  ValueId param(const std::string &name, Dims dims) {
    params.push_back(cantFail(g.addInput(InputKind::Param, name, Type(DType::F32, dims))));
    return params.back();
  }
  ValueId layer(ValueId h, const std::string &n) {
    ValueId w = param("w" + n, {64, 64});
    return b.create("tanh", {b.create("matmul", {h, w}, {}, "m" + n)}, {}, "h" + n);
  }
  // Adds the mean of `h` as the loss, and gradients.
  void close(ValueId h) {
    g.loss = b.create("mean", {h}, {}, "loss");
    g.addOutput(g.loss);
    ValueList grads = cantFail(gradients(g, {g.loss}, params));
    addGradientOutputs(g, params, grads);
  }
  PolicyResult plan(Policy policy, const std::string &list = "") {
    return cantFail(planPolicy(g, cantFail(extractProblem(g, Target())), {policy, list}));
  }
};

std::vector<std::string> names(const Graph &g, llvm::ArrayRef<ValueId> vs) {
  std::vector<std::string> out;
  for (ValueId v : vs)
    out.push_back(g.valueName(v).str());
  return out;
}
using Names = std::vector<std::string>;

TEST(Bottlenecks, OfAChainAreAllItsValues) {
  Net n;
  n.close(n.layer(n.layer(n.x, "1"), "2"));
  EXPECT_EQ(names(n.g, bottlenecks(n.g)), (Names{"m1", "h1", "m2", "h2", "loss"}));
}

TEST(Bottlenecks, AreNotInsideABranch) {
  Net n;
  ValueId h1 = n.layer(n.x, "1");
  n.close(n.b.create("add", {n.layer(h1, "2"), h1}, {}, "sum"));
  EXPECT_EQ(names(n.g, bottlenecks(n.g)), (Names{"m1", "h1", "sum", "loss"}));
}

// Inputs are always live, so a skip from an input hides no bottleneck. A skip from a computed value
// hides those that it passes.
TEST(Bottlenecks, AreHiddenBySkipsFromValuesAlone) {
  Net n;
  ValueId h = n.layer(n.layer(n.x, "1"), "2");
  n.close(n.b.create("mul", {h, n.x}, {}, "gated"));
  EXPECT_EQ(names(n.g, bottlenecks(n.g)), (Names{"m1", "h1", "m2", "h2", "gated", "loss"}));

  Net skip;
  ValueId first = skip.layer(skip.x, "1");
  skip.close(skip.b.create("mul", {skip.layer(skip.layer(first, "2"), "3"), first}, {}, "gated"));
  EXPECT_EQ(names(skip.g, bottlenecks(skip.g)), (Names{"m1", "h1", "gated", "loss"}));
}

TEST(Bottlenecks, ParametersAndLabelsHideNone) {
  Net n;
  ValueId w = n.param("w", {64, 64});
  ValueId h1 = n.layer(n.x, "1");
  ValueId turned = n.b.create("transpose", {w}, {{"perm", Ints{1, 0}}}, "turned"); // a side branch
  ValueId h2 = n.b.create("matmul", {h1, turned}, {}, "h2");
  ValueId target = cantFail(n.g.addInput(InputKind::Input, "target", Type(DType::F32, {512, 64})));
  n.close(n.b.create("sub", {h2, target}, {}, "error"));
  EXPECT_EQ(names(n.g, bottlenecks(n.g)), (Names{"m1", "h1", "h2", "error", "loss"}));
}

// The backward pass reads h1 .. h16 and x: N = 16, so about 4 are kept, every 4th from the 5th on.
TEST(Policy, MemoryKeepsAboutSquareRootOfN) {
  Net n;
  ValueId h = n.x;
  for (int i = 1; i <= 16; ++i)
    h = n.layer(h, std::to_string(i));
  n.close(h);
  PolicyResult r = n.plan(Policy::Memory);
  EXPECT_EQ(r.policyUsed, PlannedBy::Memory);
  EXPECT_EQ(names(n.g, r.checkpoints), (Names{"h5", "h9", "h13"}));
  EXPECT_LT(r.planned.peakBytes, r.baseline.peakBytes);
  EXPECT_TRUE(r.notes.empty());
}

// Skips lead over all layers, as in a U-Net: whole frontiers are kept, and the peak never rises.
TEST(Policy, MemoryCutsFrontiersWhereThereIsNoBottleneck) {
  Net n;
  ValueList down;
  ValueId h = n.x;
  for (int i = 1; i <= 6; ++i) {
    h = n.layer(n.layer(h, std::to_string(i) + "a"), std::to_string(i) + "b");
    down.push_back(h);
  }
  for (int i = 5; i >= 1; --i)
    h = n.layer(n.b.add(h, down[i - 1]), std::to_string(i) + "c");
  n.close(h);
  PolicyResult r = n.plan(Policy::Memory);
  EXPECT_EQ(r.policyUsed, PlannedBy::Frontiers);
  EXPECT_LT(r.planned.peakBytes, r.baseline.peakBytes);
  ASSERT_EQ(r.notes.size(), 1u);
}

// With ten times the layers, a few more cuts are tried, and not sqrt(10) times as many.
TEST(Policy, MemoryTriesFewCutsOfDeepNetworks) {
  auto numCuts = [](int layers) {
    Net n;
    ValueId h = n.x;
    for (int i = 0; i < layers; ++i)
      h = n.layer(h, std::to_string(i));
    n.close(h);
    return frontierCuts(n.g, storageRoots(n.g)).size();
  };
  const size_t few = numCuts(300), many = numCuts(3000);
  EXPECT_GT(many, few);
  EXPECT_LT(many, 2 * few);
}

TEST(Policy, ListsTakeWildcardsAndQuotes) {
  Net n;
  ValueId h = n.x;
  for (int i = 1; i <= 4; ++i)
    h = n.layer(h, std::to_string(i));
  n.g.rename(n.g.find("h3"), "block/3:0");
  n.close(h);
  auto match = [&](const char *list) { return names(n.g, cantFail(matchValues(n.g, list))); };
  EXPECT_EQ(match("h?"), (Names{"h1", "h2", "h4"}));
  EXPECT_EQ(match("%m1, \"block/3:0\""), (Names{"m1", "block/3:0"}));
  EXPECT_EQ(match("bl*:0,h1,h1"), (Names{"h1", "block/3:0"}));
  auto none = matchValues(n.g, "hh*,m9");
  std::string message = llvm::toString(none.takeError());
  EXPECT_NE(message.find("no value or node matches 'hh*'; did you mean"), std::string::npos)
      << message;
  EXPECT_NE(message.find("no value or node is called 'm9'; did you mean 'm1'"), std::string::npos)
      << message;
}

} // namespace
