// Tests how a graph is rebuilt with some of its nodes replaced or left out.

#include "passes/rebuild.h"

#include "ir/builder.h"
#include <gtest/gtest.h>

namespace isthmus {
namespace {

// x -> a = exp(x) -> b = tanh(a), with a clone of `a` behind a boundary on x, read by c =
// neg(clone), and a node d = neg(c) of the gradient of b.
struct Rewritten {
  Graph g{"rewritten"};
  ValueId x, a, b, boundary, clone, c, d;

  Rewritten() {
    x = llvm::cantFail(g.addInput(InputKind::Input, "x", Type(DType::F32, {4})));
    Builder build(g);
    a = build.create("exp", {x}, {}, "a");
    b = build.create("tanh", {a}, {}, "b");
    boundary = build.create("stop_gradient", {x}, {}, "x.boundary");
    clone = build.create("exp", {boundary}, {}, "a.clone");
    c = build.create("neg", {clone}, {}, "c");
    build.phase = Phase::Backward;
    build.gradientOf = node(b);
    d = build.create("neg", {c}, {}, "d");
    g.editNode(node(boundary)).standFor(x, StandIn::Boundary);
    g.editNode(node(boundary)).from.after = {node(b)};
    g.editNode(node(clone)).standFor(node(a));
    g.editNode(node(clone)).phase = Phase::Backward;
    g.editNode(node(b)).marks = {"checkpoint"};
    g.editNode(node(b)).device = "cpu:1";
    g.editNode(node(b)).loc = {7, 3};
    g.editNode(node(c)).from.sourceIndex = 2;
    g.record.policy = PlannedBy::Memory;
    g.addOutput(c);
    g.addOutput(b);
    g.loss = b;
  }
  NodeId node(ValueId v) const { return g.value(v).def; }
};

TEST(Rebuild, OutputsAndTheLossAreNamed) {
  Rewritten w;
  w.g.loss = w.a;
  llvm::BitVector named = namedValues(w.g);
  EXPECT_EQ(named.count(), 3u);
  for (ValueId v : {w.a, w.b, w.c})
    EXPECT_TRUE(named.test(v.index)) << w.g.valueName(v).str();
}

TEST(Rebuild, CopiesEverythingThatANodeCarries) {
  Rewritten w;
  Rebuilder r(w.g);
  r.copyInputs();
  for (uint32_t i = 0; i < w.g.numNodes(); ++i)
    r.copyNode(NodeId(i));
  Graph g = r.finish();

  ASSERT_EQ(g.numNodes(), w.g.numNodes());
  ASSERT_EQ(g.numValues(), w.g.numValues());
  for (uint32_t i = 0; i < g.numValues(); ++i) {
    EXPECT_EQ(g.valueName(ValueId(i)), w.g.valueName(ValueId(i)));
    EXPECT_EQ(g.type(ValueId(i)), w.g.type(ValueId(i)));
  }
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &now = g.node(NodeId(i)), &old = w.g.node(NodeId(i));
    EXPECT_EQ(now.op, old.op);
    EXPECT_EQ(now.operands, old.operands);
    EXPECT_EQ(now.attrs, old.attrs);
    EXPECT_EQ(now.phase, old.phase);
    EXPECT_EQ(now.from.gradientOf, old.from.gradientOf);
    EXPECT_EQ(now.from.origin, old.from.origin);
    EXPECT_EQ(now.from.restores, old.from.restores);
    EXPECT_EQ(now.from.after, old.from.after);
    EXPECT_EQ(now.from.sourceIndex, old.from.sourceIndex);
    EXPECT_EQ(now.marks, old.marks);
    EXPECT_EQ(now.device, old.device);
    EXPECT_EQ(now.loc.line, old.loc.line);
    EXPECT_EQ(now.loc.column, old.loc.column);
  }
  EXPECT_EQ(g.name, "rewritten");
  EXPECT_EQ(g.record, w.g.record);
  EXPECT_EQ(g.loss, w.g.loss);
  EXPECT_EQ(g.outputs().vec(), w.g.outputs().vec());
}

// `b` is left out. The `after` edge to it and the loss are removed; a node that has moved and had
// no source index gets one.
TEST(Rebuild, DropsEdgesToNodesLeftOut) {
  Rewritten w;
  Rebuilder r(w.g);
  r.copyInputs();
  for (uint32_t i = 0; i < w.g.numNodes(); ++i)
    if (NodeId(i) != w.node(w.b))
      r.copyNode(NodeId(i));
  Graph g = r.finish({{w.c, {}}});

  EXPECT_EQ(g.numNodes(), 5u);
  EXPECT_FALSE(g.find("b"));
  EXPECT_FALSE(g.loss);
  const Node &boundary = g.node(g.value(g.find("x.boundary")).def);
  EXPECT_TRUE(boundary.from.after.empty());
  EXPECT_EQ(boundary.from.restores, g.find("x"));
  const Node &clone = g.node(g.value(g.find("a.clone")).def);
  EXPECT_EQ(clone.from.origin, g.value(g.find("a")).def);
  EXPECT_EQ(clone.from.sourceIndex, std::nullopt);
  EXPECT_EQ(g.node(g.value(g.find("c")).def).from.sourceIndex, 2u);
}

// The gradient of a node that is left out is that of the node that makes its value now, or, if none
// does, its operand.
TEST(Rebuild, KeepsOfWhoseGradientANodeIs) {
  for (bool isReplaced : {false, true}) {
    Rewritten w;
    Rebuilder r(w.g);
    r.copyInputs();
    for (uint32_t i = 0; i < w.g.numNodes(); ++i)
      if (NodeId(i) != w.node(w.b))
        r.copyNode(NodeId(i));
      else if (isReplaced)
        r.setMap(w.b, Builder(r.to()).create("sigmoid", {r.map(w.a)}, {}, "other"));
    Builder b(r.to());
    r.standWith(b, w.node(w.d));
    const ValueId beside = b.create("neg", {r.map(w.d)}, {}, "beside");
    Graph g = r.finish({{w.c, {}}});
    const NodeId of = g.value(g.find(isReplaced ? "other" : "a")).def;
    EXPECT_EQ(g.node(g.value(g.find("d")).def).from.gradientOf, of);
    EXPECT_EQ(g.node(g.value(beside).def).from.gradientOf, of);
    EXPECT_EQ(g.node(g.value(beside).def).phase, Phase::Backward);
  }
}

// Restores the original: clones map to their origins, and boundaries to the values that they pass.
TEST(Rebuild, MapsOneValueToAnother) {
  Rewritten w;
  Rebuilder r(w.g);
  r.copyInputs();
  for (uint32_t i = 0; i < w.g.numNodes(); ++i) {
    const Node &n = w.g.node(NodeId(i));
    if (n.isClone())
      r.setMap(NodeId(i), r.map(n.from.origin));
    else if (n.is(StandIn::Boundary))
      r.setMap(n.firstResult, r.map(n.from.restores));
    else
      r.copyNode(NodeId(i));
  }
  Graph g = r.finish();
  EXPECT_EQ(g.numNodes(), 4u);
  EXPECT_FALSE(g.hasClones());
  EXPECT_EQ(g.node(g.value(g.find("c")).def).operands[0], g.find("a"));
}

// A pass that adds a node called `b`, or `b.2`, before the old `b` is copied does not rename the
// old one.
TEST(Rebuild, NewNodesGiveWayToOldNames) {
  Rewritten w;
  Rebuilder r(w.g);
  r.copyInputs();
  Builder build(r.to());
  ValueId one = build.create("neg", {r.map(w.x)}, {}, "b");
  ValueId two = build.create("neg", {r.map(w.x)}, {}, "b");
  EXPECT_EQ(r.to().valueName(two), "b.2");
  for (uint32_t i = 0; i < w.g.numNodes(); ++i)
    r.copyNode(NodeId(i));
  ValueId three = build.create("neg", {r.map(w.x)}, {}, r.freshName("c"));
  Graph g = r.finish();
  EXPECT_EQ(g.find("b"), r.map(w.b));
  EXPECT_EQ(g.node(g.value(g.find("b")).def).op->name, "tanh");
  EXPECT_EQ(g.valueName(two), "b.2");
  EXPECT_EQ(g.valueName(one), "b.3");
  EXPECT_EQ(g.valueName(three), "c.2");
}

TEST(Rebuild, OtherAttributesAreChecked) {
  Graph g;
  ValueId x = llvm::cantFail(g.addInput(InputKind::Input, "x", Type(DType::F32, {4})));
  ValueId y = Builder(g).create("affine", {x}, {{"scale", 2.0}}, "y");
  g.addOutput(y);
  Rebuilder r(g);
  r.copyInputs();
  auto wrong = r.copyNodeWith(NodeId(0), {{"slope", 1.0}});
  ASSERT_FALSE(bool(wrong));
  EXPECT_NE(llvm::toString(wrong.takeError()).find("no attribute 'slope'"), std::string::npos);
  ASSERT_TRUE(bool(r.copyNodeWith(NodeId(0), {{"scale", 3.0}})));
  Graph out = r.finish();
  EXPECT_EQ(out.node(NodeId(0)).attrs.getFloat("scale"), 3.0);
  EXPECT_EQ(out.node(NodeId(0)).attrs.getFloat("shift"), 0.0);
}

} // namespace
} // namespace isthmus
