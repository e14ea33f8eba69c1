// Tests the reducer on failures whose smallest graphs are known.

#include "ir/builder.h"
#include "ir/verifier.h"
#include "passes/rebuild.h"
#include "tests/testing/reduce_graph.h"
#include "tools/random/random_table_graph.h"
#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>

using namespace isthmus;

namespace {

size_t count(const Graph &g, llvm::StringRef op) {
  size_t n = 0;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    n += g.node(NodeId(i)).op->name == op;
  return n;
}

// Whether a tanh reads a sigmoid's result, directly or through one other node. No graph of fewer
// than two nodes has that.
bool hasTanhOfSigmoid(const Graph &g) {
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (n.op->name != "tanh")
      continue;
    NodeId before = g.value(n.operands[0]).def;
    if (!before)
      continue;
    if (g.node(before).op->name == "sigmoid")
      return true;
    for (ValueId v : g.node(before).operands)
      if (NodeId d = g.value(v).def; d && g.node(d).op->name == "sigmoid")
        return true;
  }
  return false;
}

TEST(Reduce, OneNodeOfManyIsLeft) {
  size_t reduced = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Graph g = randomTableGraph({.seed = seed, .steps = 20}).graph;
    auto fails = [](const Graph &g) { return count(g, "affine") > 0; };
    if (!fails(g))
      continue;
    Graph small = reduce(g, fails);
    EXPECT_FALSE(bool(verify(small)));
    EXPECT_EQ(small.numNodes(), 1u) << "seed " << seed;
    EXPECT_EQ(count(small, "affine"), 1u);
    EXPECT_EQ(small.inputs().size(), 1u);
    EXPECT_EQ(small.outputs().size(), 1u);
    EXPECT_TRUE(bool(small.loss));
    ++reduced;
  }
  EXPECT_GT(reduced, 6u);
}

TEST(Reduce, TwoOfAKindAreLeft) {
  Graph g = randomTableGraph({.seed = 5, .steps = 30}).graph;
  auto fails = [](const Graph &g) { return count(g, "tanh") >= 2; };
  ASSERT_TRUE(fails(g));
  Graph small = reduce(g, fails);
  EXPECT_FALSE(bool(verify(small)));
  EXPECT_LE(small.numNodes(), 3u); // two, and the loss if it is another
  EXPECT_EQ(count(small, "tanh"), 2u);
}

TEST(Reduce, WhatLiesBetweenIsBypassed) {
  Graph g;
  Builder b(g);
  ValueId x = llvm::cantFail(g.addInput(InputKind::Input, "x", Type(DType::F64, {2, 3})));
  ValueId v = b.create("sigmoid", {b.create("exp", {x})});
  ValueId w = b.add(b.neg(v), b.create("cos", {x}));
  g.addOutput(b.create("sum", {b.mul(b.create("tanh", {w}), x)}));
  ASSERT_FALSE(hasTanhOfSigmoid(g));
  g.addOutput(b.create("mean", {b.create("square", {b.create("tanh", {b.neg(v)})})}));
  ASSERT_TRUE(hasTanhOfSigmoid(g));
  Graph small = reduce(g, hasTanhOfSigmoid);
  EXPECT_FALSE(bool(verify(small)));
  EXPECT_EQ(small.numNodes(), 2u);
  EXPECT_EQ(small.inputs().size(), 1u);
}

// A failure that does not depend on the nodes: all are removed except one, which makes the output.
TEST(Reduce, AlwaysFailing) {
  Graph g = randomTableGraph({.seed = 3, .steps = 20}).graph;
  size_t calls = 0;
  Graph small = reduce(g, [&](const Graph &) { return ++calls > 0; });
  EXPECT_EQ(small.numNodes(), 1u);
  EXPECT_LT(calls, 2 * g.numNodes());
}

// A result that nothing reads must not keep the reducer running for ever.
TEST(Reduce, OpsOfSeveralResults) {
  Graph g;
  Builder b(g);
  ValueId x = llvm::cantFail(g.addInput(InputKind::Input, "x", Type(DType::F64, {3})));
  ValueId y = llvm::cantFail(g.addInput(InputKind::Input, "y", Type(DType::F64, {3})));
  NodeId n = b.createNode("top_k", {b.add(x, y)}, {{"k", int64_t(3)}});
  g.addOutput(g.node(n).result(1));
  Graph small = reduce(g, [](const Graph &g) { return count(g, "top_k") == 1; });
  EXPECT_EQ(small.numNodes(), 1u);
}

// The reduced graph fails, whatever the predicate.
TEST(Reduce, TheResultFails) {
  Graph g = randomTableGraph({.seed = 8, .steps = 20}).graph;
  auto fails = [](const Graph &g) { return g.numNodes() % 7 == 3 && count(g, "mul") > 0; };
  while (!fails(g)) {
    Builder b(g);
    b.create("mul", {g.loss, g.loss});
  }
  Graph small = reduce(g, fails);
  EXPECT_TRUE(fails(small));
  EXPECT_FALSE(bool(verify(small)));
}

} // namespace
