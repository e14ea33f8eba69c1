#include "passes/simplify/dce.h"

#include "tests/passes/small_graphs.h"
#include <gtest/gtest.h>

namespace isthmus {
namespace {

using Names = std::vector<std::string>;
const Type kVector(DType::F32, {4});

// x -> a -> b is the output; x -> dead -> dead2 goes nowhere.
TEST(Dce, DropsWhatReachesNoOutput) {
  Graph g;
  ValueId x = addInput(g, "x", kVector), unused = addInput(g, "unused", kVector);
  Builder b(g);
  ValueId a = b.create("exp", {x}, {}, "a");
  b.create("tanh", {b.create("tanh", {x}, {}, "dead")}, {}, "dead2");
  ValueId y = b.create("neg", {a}, {}, "b");
  g.addOutput(y);
  nodeOf(g, y).from.after = {g.value(g.find("dead")).def, g.value(a).def};

  Graph out = withoutDeadNodes(g);
  EXPECT_EQ(nodeNames(out), (Names{"a", "b"}));
  EXPECT_EQ(out.inputs().size(), 2u);
  EXPECT_EQ(out.valueName(out.inputs()[1].value), g.valueName(unused));
  EXPECT_EQ(nodeOf(out, "b").from.after.size(), 1u);
  EXPECT_EQ(nodeOf(out, "b").from.after[0], out.value(out.find("a")).def);
}

TEST(Dce, KeepsTheLossAndAllResultsOfALiveNode) {
  Graph g;
  ValueId x = addInput(g, "x", Type(DType::F32, {4, 6}));
  Builder b(g);
  NodeId parts = b.createNode("split", {x}, {{"axis", 1}, {"sizes", Ints{2, 4}}}, "parts");
  ValueId used = b.create("neg", {g.node(parts).result(1)}, {}, "used");
  ValueId loss = b.create("sum", {used}, {}, "nll");
  b.create("exp", {x}, {}, "dead");
  g.loss = loss;
  Graph out = withoutDeadNodes(g);
  EXPECT_EQ(nodeNames(out), (Names{"parts", "used", "nll"}));
  EXPECT_EQ(out.valueName(out.loss), "nll");
  EXPECT_EQ(nodeOf(out, "parts").numResults, 2u);
}

// Nothing reads `a` but the clone that says so.
TEST(Dce, KeepsWhatALiveCloneRefersTo) {
  Graph g;
  ValueId x = addInput(g, "x", kVector);
  Builder b(g);
  ValueId pre = b.create("exp", {x}, {}, "pre");
  ValueId a = b.create("tanh", {pre}, {}, "a");
  ValueId boundary = b.create("stop_gradient", {pre}, {}, "boundary");
  nodeOf(g, boundary).from.restores = pre;
  ValueId clone = b.create("tanh", {boundary}, {}, "clone");
  nodeOf(g, clone).from.origin = g.value(a).def;
  ValueId deadClone = b.create("tanh", {boundary}, {}, "dead");
  nodeOf(g, deadClone).from.origin = g.value(a).def;
  g.addOutput(clone);
  Graph out = withoutDeadNodes(g);
  EXPECT_EQ(nodeNames(out), (Names{"pre", "a", "boundary", "clone"}));
  EXPECT_EQ(nodeOf(out, "clone").from.origin, out.value(out.find("a")).def);
}

TEST(Dce, LeavesALiveGraphAlone) {
  Graph g;
  ValueId x = addInput(g, "x", kVector);
  Builder b(g);
  g.addOutput(b.create("neg", {b.create("exp", {x}, {}, "a")}, {}, "b"));
  EXPECT_EQ(liveNodes(g).count(), 2u);
  EXPECT_EQ(nodeNames(withoutDeadNodes(g)), nodeNames(g));
}

} // namespace
} // namespace isthmus
