#include "passes/cse.h"

#include "tests/passes/small_graphs.h"
#include <gtest/gtest.h>

namespace isthmus {
namespace {

using Names = std::vector<std::string>;
const Type kVector(DType::F32, {4});

// x, y = a + b, and what a test does with a and b, two equal nodes.
struct Twins {
  Graph g;
  ValueId x, a, b, y;
  Twins() {
    x = addInput(g, "x", kVector);
    Builder build(g);
    a = build.create("exp", {x}, {}, "a");
    b = build.create("exp", {x}, {}, "b");
    y = build.create("add", {a, b}, {}, "y");
    g.addOutput(y);
  }
};

TEST(Cse, MergesEqualNodesAndThenTheirReaders) {
  Graph g;
  ValueId x = addInput(g, "x", kVector);
  Builder b(g);
  ValueId a1 = b.create("affine", {x}, {{"scale", 2.0}}, "a1");
  ValueId b1 = b.create("tanh", {a1}, {}, "b1");
  ValueId a2 = b.create("affine", {x}, {{"scale", 2.0}, {"shift", 0.0}}, "a2");
  ValueId b2 = b.create("tanh", {a2}, {}, "b2");
  g.addOutput(b.create("mul", {b1, b2}, {}, "y"));
  Graph out = withoutEqualNodes(g);
  EXPECT_EQ(nodeNames(out), (Names{"a1", "b1", "y"}));
  EXPECT_EQ(nodeOf(out, "y").operands[0], nodeOf(out, "y").operands[1]);
}

TEST(Cse, ComparesAttributesAndDevice) {
  Graph g;
  ValueId x = addInput(g, "x", kVector);
  Builder b(g);
  ValueId sum = b.create("affine", {x}, {{"shift", 0.0}}, "zero");
  sum = b.add(sum, b.create("affine", {x}, {{"shift", -0.0}}, "minus_zero"));
  ValueId there = b.create("affine", {x}, {}, "there");
  nodeOf(g, there).device = "cpu:1";
  g.addOutput(b.add(sum, there));
  EXPECT_EQ(withoutEqualNodes(g).numNodes(), g.numNodes());
}

// Equal streams draw equal numbers.
TEST(Cse, MergesRandomNodesOfOneStreamOnly) {
  Graph g;
  ValueId x = addInput(g, "x", kVector);
  Builder b(g);
  ValueId a = b.create("dropout", {x}, {{"ratio", 0.5}, {"stream", 1}}, "a");
  ValueId same = b.create("dropout", {x}, {{"ratio", 0.5}, {"stream", 1}}, "same");
  ValueId other = b.create("dropout", {x}, {{"ratio", 0.5}, {"stream", 2}}, "other");
  g.addOutput(b.create("concat", {a, same, other}, {{"axis", 0}}, "y"));
  EXPECT_EQ(nodeNames(withoutEqualNodes(g)), (Names{"a", "other", "y"}));
}

// A rewrite recomputes `a` for the backward pass, twice; boundaries and clones are all equal to one
// another or to what was there before, and all stay.
TEST(Cse, LeavesARewrittenGraphAlone) {
  Graph g;
  ValueId x = addInput(g, "x", kVector);
  Builder b(g);
  ValueId cut = b.create("stop_gradient", {x}, {}, "users_own");
  ValueId a = b.create("exp", {cut}, {}, "a");
  ValueId sum = a;
  b.phase = Phase::Backward;
  for (int i = 0; i < 2; ++i) {
    ValueId boundary = b.create("stop_gradient", {x}, {}, "boundary");
    nodeOf(g, boundary).passes = x;
    ValueId clone = b.create("exp", {boundary}, {}, "clone");
    nodeOf(g, clone).origin = g.value(a).def;
    // One that reads the original itself: equal to `a` but for being a clone.
    ValueId again = b.create("exp", {cut}, {}, "again");
    nodeOf(g, again).origin = g.value(a).def;
    sum = b.create("add", {sum, clone}, {}, "sum");
    sum = b.create("add", {sum, again}, {}, "sum");
  }
  g.addOutput(sum);
  Graph out = withoutEqualNodes(g);
  EXPECT_EQ(nodeNames(out), nodeNames(g));
  EXPECT_TRUE(out.hasClones());
}

// An ordinary node is not merged into a clone either: the clone would live as long as an original.
TEST(Cse, DoesNotMergeIntoClones) {
  Twins t;
  nodeOf(t.g, t.b).origin = t.g.value(t.a).def;
  Builder b(t.g);
  t.g.addOutput(b.create("neg", {b.create("tanh", {t.b}, {}, "c")}, {}, "z"));
  nodeOf(t.g, t.g.find("c")).origin = t.g.value(t.a).def;
  t.g.addOutput(b.create("tanh", {t.b}, {}, "d"));
  EXPECT_EQ(nodeNames(withoutEqualNodes(t.g)), (Names{"a", "b", "y", "c", "z", "d"}));
}

TEST(Cse, RefersToTheOneThatStayed) {
  Twins t;
  Builder b(t.g);
  ValueId clone = b.create("exp", {t.x}, {}, "clone");
  nodeOf(t.g, clone).origin = t.g.value(t.b).def;
  nodeOf(t.g, clone).after = {t.g.value(t.b).def};
  t.g.addOutput(clone);
  Graph out = withoutEqualNodes(t.g);
  EXPECT_EQ(nodeNames(out), (Names{"a", "y", "clone"}));
  EXPECT_EQ(nodeOf(out, "clone").origin, out.value(out.find("a")).def);
  EXPECT_EQ(nodeOf(out, "clone").after[0], out.value(out.find("a")).def);
}

TEST(Cse, KeepsMarksEdgesOutputsAndTheLoss) {
  {
    Twins t;
    nodeOf(t.g, t.b).marks = {"checkpoint"};
    EXPECT_EQ(withoutEqualNodes(t.g).numNodes(), 3u);
  }
  {
    Twins t;
    nodeOf(t.g, t.b).after = {t.g.value(t.a).def};
    EXPECT_EQ(withoutEqualNodes(t.g).numNodes(), 3u);
  }
  {
    Twins t;
    t.g.addOutput(t.b);
    EXPECT_EQ(outputNames(withoutEqualNodes(t.g)), (Names{"y", "b"}));
  }
  {
    Twins t;
    t.g.loss = t.b;
    Graph out = withoutEqualNodes(t.g);
    EXPECT_EQ(out.valueName(out.loss), "b");
  }
  {
    Twins t; // the first of the two may have them
    nodeOf(t.g, t.a).marks = {"checkpoint"};
    t.g.addOutput(t.a);
    EXPECT_EQ(nodeNames(withoutEqualNodes(t.g)), (Names{"a", "y"}));
  }
}

TEST(Cse, NoNodeReadsALaterPhase) {
  {
    Twins t; // backward into forward
    nodeOf(t.g, t.b).phase = Phase::Backward;
    nodeOf(t.g, t.y).phase = Phase::Backward;
    EXPECT_EQ(nodeNames(withoutEqualNodes(t.g)), (Names{"a", "y"}));
  }
  {
    Twins t; // never forward into backward
    nodeOf(t.g, t.a).phase = Phase::Backward;
    nodeOf(t.g, t.y).phase = Phase::Backward;
    EXPECT_EQ(withoutEqualNodes(t.g).numNodes(), 3u);
  }
}

} // namespace
} // namespace isthmus
