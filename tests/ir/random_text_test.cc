// Random graphs with random clauses stay equal when they are printed and parsed.

#include "ir/equal_graphs.h"
#include "ir/op_registry.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"
#include "tools/random/random_graph.h"
#include <gtest/gtest.h>

using namespace isthmus;

namespace {

// Adds what differentiation and rewrites add: nodes of gradients, some before their forward nodes,
// and clones behind boundaries, `after` edges, source indices, devices and marks.
void decorate(Graph &g, uint64_t seed) {
  Random random(seed);
  const uint32_t originals = uint32_t(g.numNodes());
  for (uint32_t i = 0; i < originals; ++i)
    if (const NodeId of(uint32_t(random.below(originals)));
        g.node(NodeId(i)).phase == Phase::Forward && random.oneIn(8)) {
      g.editNode(NodeId(i)).phase = Phase::Backward;
      g.editNode(NodeId(i)).from.gradientOf = of;
    }
  for (uint32_t i = 0; i < originals; ++i) // of a forward node that has stayed one
    if (NodeId &of = g.editNode(NodeId(i)).from.gradientOf;
        of && g.node(of).phase != Phase::Forward)
      of = NodeId();
  const OpDef &stop = OpRegistry::get().at("stop_gradient");
  for (int i = 0; i < 8; ++i) {
    NodeId origin(uint32_t(random.below(originals)));
    const Node &n = g.node(origin);
    llvm::SmallVector<ValueId, 4> operands = n.operands;
    for (ValueId &v : operands)
      if (random.oneIn(2)) {
        NodeId boundary =
            llvm::cantFail(g.addNode(stop, {v}, {}, g.valueName(v).str() + ".sg", Phase::Backward));
        g.editNode(boundary).standFor(v, StandIn::Boundary);
        v = g.node(boundary).firstResult;
      }
    NodeId clone = llvm::cantFail(
        g.addNode(*n.op, operands, n.attrs, g.nodeName(origin).str() + ".re", Phase::Backward));
    Node &c = g.editNode(clone);
    c.standFor(origin);
    for (size_t a = random.below(3); a > 0; --a)
      c.from.after.push_back(NodeId(uint32_t(random.below(clone.index))));
    if (random.oneIn(2))
      c.from.sourceIndex = origin.index;
    if (random.oneIn(3))
      c.device = "cpu:" + std::to_string(random.below(2));
    if (random.oneIn(3))
      c.marks = {"b", "a"};
  }
  g.record.policy = random.oneIn(2) ? PlannedBy::Memory : PlannedBy::Nothing;
  g.record.channelsLast = random.oneIn(2);
  if (random.oneIn(2))
    g.record.budgetBytes = int64_t(random.below(1 << 20)) + 1;
  for (uint32_t i = 0; i < g.outputs().size(); ++i)
    if (const ValueId v = g.outputs()[i]; random.oneIn(3) && g.role(i).kind == OutputKind::Result)
      g.setRole(i, {OutputKind::Gradient, v, i + 1, random.oneIn(2)});
  g.meta["seed \"\n"] = std::to_string(seed);
}

TEST(RandomText, RoundTrips) {
  size_t nodes = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Graph g = randomGraph({.seed = seed,
                           .steps = unsigned(1 + seed % 40),
                           .dtype = seed % 2 ? DType::F32 : DType::F64});
    decorate(g, seed);
    ASSERT_EQ(llvm::toString(verify(g)), "") << "seed " << seed;
    std::string text = graphText(g);
    auto back = parseGraph(text, "random.isth");
    ASSERT_TRUE(bool(back)) << "seed " << seed << "\n"
                            << llvm::toString(back.takeError()) << "\n"
                            << text;
    std::string reason;
    ASSERT_TRUE(equalGraphs(g, *back, &reason)) << "seed " << seed << ": " << reason << "\n"
                                                << text;
    ASSERT_EQ(graphText(*back), text);
    nodes += g.numNodes();
  }
  EXPECT_GT(nodes, 30000u);
}

TEST(RandomText, TheSameSeedGivesTheSameGraph) {
  EXPECT_EQ(graphText(randomGraph({.seed = 7})), graphText(randomGraph({.seed = 7})));
  EXPECT_NE(graphText(randomGraph({.seed = 7})), graphText(randomGraph({.seed = 8})));
}

// The comparison of graphs finds a difference in any part that the printer writes.
TEST(RandomText, EqualityFindsEveryDifference) {
  const std::string text = R"(isthmus 2
weights "w"
record {policy = memory}
meta a = "1"
graph @g {
  input %x : f32[2]
  param %w : f32[2] = normal
  const %c : f32[2] = [1.0, 2.0]
  param %f : f32[2] = file "f"
  %a = affine(%x) {shift = 0.0} : f32[2]
  %b = affine(%x) : f32[2] backward from(clone(%a), after(%a), at(0)) @cpu:0 #m
  %s = stop_gradient(%a) : f32[2] backward from(boundary(%a))
  %e = neg(%a) : f32[2] backward(%a)
  %d = add(%w, %c) : f32[2] from(at(5))
  loss %d
  output %a gradient(%x)
}
)";
  const std::pair<const char *, const char *> edits[] = {
      {"\"w\"", "\"v\""},
      {"a = \"1\"", "a = \"2\""},
      {"@g", "@h"},
      {"input %x", "const %x"},
      {"= normal", "= normal {seed = 1}"},
      {"= normal", "= uniform"},
      {"1.0, 2.0", "1.0, -2.0"},
      {"file \"f\"", "file \"g\""},
      {"clone(%a), after(%a), at(0)", "after(%a)"},
      {"after(%a), ", ""},
      {"at(5)", "at(6)"},
      {"@cpu:0", "@cpu:1"},
      {"#m", "#n"},
      {"backward from(clone", "update from(clone"},
      {" from(boundary(%a))", ""},
      {"add(%w, %c)", "sub(%w, %c)"},
      {"add(%w, %c)", "add(%c, %w)"},
      {"%d = add", "%dd = add"},
      {"loss %d", "loss %a"},
      {"output %a", "output %s"},
      {"  output %a gradient(%x)\n", ""},
      {" gradient(%x)", ""},
      {"gradient(%x)", "gradient(%x, 2)"},
      {"gradient(%x)", "next(%w)"},
      {"gradient(%x)", "gradient(%w)"},
      {"policy = memory", "policy = speed"},
      {"backward(%a)", "backward"},
      {"{shift = 0.0}", "{shift = -0.0}"}};
  Graph a = llvm::cantFail(parseGraph(text, "a"));
  for (auto [from, to] : edits) {
    std::string other = text;
    for (size_t at = 0; (at = other.find(from, at)) != std::string::npos; at += strlen(to)) {
      other.replace(at, strlen(from), to);
      if (from != std::string("%d = add"))
        break;
    }
    if (std::string(to) == "%dd = add")
      other.replace(other.find("loss %d"), 7, "loss %dd");
    if (std::string(to) == "{shift = -0.0}")
      other.replace(other.find("%b = affine(%x)"), 15, "%b = affine(%x) {shift = -0.0}");
    auto b = parseGraph(other, "b");
    ASSERT_TRUE(bool(b)) << llvm::toString(b.takeError());
    std::string reason;
    EXPECT_FALSE(equalGraphs(a, *b, &reason)) << from << " -> " << to;
    EXPECT_FALSE(reason.empty());
  }
}

} // namespace
