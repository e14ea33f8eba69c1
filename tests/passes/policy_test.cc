// Tests bottlenecks and the policy `memory` on graphs small enough to know the answers. The
// rewritten graphs of the policies are shown in golden/.

#include "ir/builder.h"
#include "passes/checkpoint/bottlenecks.h"
#include "passes/checkpoint/forward_part.h"
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

// A chain is one whatever its data are: constants, or drawn in the graph. What constants and draws
// do beside data, such as a mask, hides nothing either.
TEST(Bottlenecks, DataMayBeConstantOrDrawn) {
  const Type type(DType::F32, {512, 64});
  Net constant;
  ValueId data = cantFail(constant.g.addInput(InputKind::Const, "data", type));
  constant.close(constant.layer(constant.layer(data, "1"), "2"));
  EXPECT_EQ(names(constant.g, bottlenecks(constant.g)), (Names{"m1", "h1", "m2", "h2", "loss"}));

  Net drawn;
  auto draw = [](Net &n, const char *name, int64_t stream) {
    return n.b.create("normal", {}, {{"dims", Ints{512, 64}}, {"stream", stream}}, name);
  };
  drawn.close(drawn.layer(drawn.layer(draw(drawn, "data", 1), "1"), "2"));
  EXPECT_EQ(names(drawn.g, bottlenecks(drawn.g)), (Names{"data", "m1", "h1", "m2", "h2", "loss"}));

  Net both; // labels are an input, and a drawn mask meets each layer
  data = cantFail(both.g.addInput(InputKind::Const, "data", type));
  ValueId h = data;
  for (int i = 1; i <= 2; ++i)
    h = both.b.create("mul", {both.layer(h, std::to_string(i)), draw(both, nullptr, i)}, {},
                      "p" + std::to_string(i));
  both.close(both.b.create("sub", {h, both.x}, {}, "error"));
  EXPECT_EQ(names(both.g, bottlenecks(both.g)),
            (Names{"m1", "h1", "p1", "m2", "h2", "p2", "error", "loss"}));
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

// What is named splits the chain in two. The second half is read first by the backward part, so it
// is kept, and none of what is recomputed could be kept at the same peak.
TEST(Policy, NothingIsRecomputedThatLowersNoPeak) {
  Net n;
  ValueId h = n.x;
  for (int i = 1; i <= 6; ++i)
    h = n.b.create("exp", {n.layer(h, std::to_string(i))}, {}, "e" + std::to_string(i));
  n.close(h);
  const GraphProblem p = cantFail(extractProblem(n.g, Target()));
  const PolicyResult r = n.plan(Policy::Collection, "e3");
  EXPECT_LT(r.planned.peakBytes, r.baseline.peakBytes);
  std::vector<size_t> runs(p.problem.ops.size(), 0);
  for (plan::OpIndex op : r.schedule)
    ++runs[op];
  auto isRepeated = [&](const char *name) {
    return runs[p.opOf(n.g.value(n.g.find(name)).def)] > 1;
  };
  EXPECT_FALSE(isRepeated("h6"));
  EXPECT_FALSE(isRepeated("e6"));
  EXPECT_TRUE(isRepeated("h1"));
  std::string kept = "e3";
  for (uint32_t i = 0; i < n.g.numNodes(); ++i)
    if (n.g.node(NodeId(i)).phase == Phase::Forward && runs[p.opOf(NodeId(i))] == 1)
      kept += "," + n.g.nodeName(NodeId(i)).str();
  for (uint32_t i = 0; i < n.g.numNodes(); ++i)
    if (runs[p.opOf(NodeId(i))] > 1) {
      const std::string name = n.g.nodeName(NodeId(i)).str();
      EXPECT_GT(n.plan(Policy::Collection, kept + "," + name).planned.peakBytes,
                r.planned.peakBytes)
          << name;
    }
}

// Second gradients read what the first ones made, as much as the forward part.
TEST(Policy, FirstGradientsAreRecomputedForSecondOnes) {
  Net n;
  ValueId h = n.x;
  for (int i = 1; i <= 8; ++i)
    h = n.layer(h, std::to_string(i));
  n.g.loss = n.b.create("mean", {n.b.create("square", {h})}, {}, "first");
  ValueList by = {n.x};
  ValueId grad = cantFail(gradients(n.g, {n.g.loss}, by)).front();
  n.close(n.b.create("square", {grad}, {}, "penalty"));
  const PolicyResult r = n.plan(Policy::Memory);
  EXPECT_LT(double(r.planned.peakBytes), 0.8 * double(r.baseline.peakBytes));
  size_t backward = 0; // recomputed
  const GraphProblem p = cantFail(extractProblem(n.g, Target()));
  std::vector<bool> hasRun(p.problem.ops.size(), false);
  for (plan::OpIndex op : r.schedule) {
    backward += hasRun[op] && p.problem.ops[op].phase == plan::OpPhase::Backward;
    hasRun[op] = true;
  }
  EXPECT_GT(backward, 0u);
}

TEST(Policy, SmallBottlenecksAreToldFromNone) {
  Net n;
  ValueId h = n.b.create("slice", {n.x}, {{"starts", Ints{0, 0}}, {"limits", Ints{8, 64}}}, "few");
  for (int i = 1; i <= 4; ++i)
    h = n.layer(h, std::to_string(i));
  n.close(h);
  const PolicyResult r = n.plan(Policy::Memory);
  ASSERT_FALSE(r.notes.empty());
  EXPECT_NE(r.notes[0].text.find("bottlenecks is kept: all have fewer than 1024 elements"),
            std::string::npos)
      << r.notes[0].text;
  ASSERT_EQ(r.notes[0].remedies.size(), 1u);
  EXPECT_EQ(r.notes[0].remedies[0].option, "smallest-checkpoint");
  const GraphProblem p = cantFail(extractProblem(n.g, Target()));
  for (const Remark &note : cantFail(planPolicy(n.g, p, {Policy::Memory, "", 1})).notes)
    EXPECT_EQ(note.text.find("bottlenecks is kept"), std::string::npos) << note.text;
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
    return frontierCuts(n.g, storageRoots(n.g), forwardPart(n.g)).size();
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
