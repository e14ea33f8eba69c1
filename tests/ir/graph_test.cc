// Queries of a graph: storages, rewritten nodes, and the memory in which values lie.
#include "ir/storage.h"
#include "ir/text/parser.h"
#include "ir/verifier.h"
#include <gtest/gtest.h>

namespace isthmus {
namespace {

Graph parsed(llvm::StringRef body) {
  std::string text = "isthmus 2\ngraph @g {\n" + body.str() + "}\n";
  auto g = parseGraph(text, "g.isth");
  EXPECT_TRUE(bool(g)) << llvm::toString(g.takeError());
  return std::move(*g);
}

std::string rootOf(const Graph &g, llvm::StringRef name) {
  return g.valueName(storageRoots(g)[g.find(name).index]).str();
}

TEST(Storage, AViewLiesWhereItsOperandDoes) {
  Graph g = parsed("  input %x : f32[2, 3]\n"
                   "  %a = exp(%x)\n"
                   "  %b = reshape(%a) {dims = [6]}\n"
                   "  %c = reshape(%b) {dims = [3, 2]}\n"
                   "  %d = exp(%c)\n"
                   "  %e = reshape(%x) {dims = [6]}\n"
                   "  output %d\n"
                   "  output %e\n");
  EXPECT_EQ(rootOf(g, "b"), "a");
  EXPECT_EQ(rootOf(g, "c"), "a");
  EXPECT_EQ(rootOf(g, "d"), "d");
  EXPECT_EQ(rootOf(g, "e"), "x");
}

TEST(Storage, AnUpdateLiesInTheInputThatNobodyReadsAfterIt) {
  const std::string inputs = "  input %x : f32[4]\n"
                             "  input %rate : f64[]\n"
                             "  param %w : f32[4] = fill {value = 1.0}\n"
                             "  %g = neg(%x) : f32[4] backward\n",
                    update = "  %now = sgd(%w, %g, %rate) : f32[4] update\n",
                    reader = "  %v = reshape(%w) {dims = [2, 2]}\n  %d = exp(%v)\n",
                    outputs = "  output %d\n  output %now next(%w)\n";
  Graph after = parsed(inputs + reader + update + outputs);
  EXPECT_EQ(rootOf(after, "now"), "w");
  ASSERT_EQ(possibleOverwrites(after).size(), 1u);
  EXPECT_TRUE(possibleOverwrites(after)[0].isInPlace());
  Graph before = parsed(inputs + update + reader + outputs);
  EXPECT_EQ(rootOf(before, "now"), "now");
  ASSERT_EQ(possibleOverwrites(before).size(), 1u);
  EXPECT_EQ(before.nodeName(possibleOverwrites(before)[0].lastReader), "d");
  EXPECT_EQ(rootOf(parsed(inputs + reader + update + outputs + "  output %w\n"), "now"), "now");
  EXPECT_EQ(
      rootOf(parsed(inputs + reader + update + "  %e = exp(%now)\n  output %e\n" + outputs), "now"),
      "now");
  EXPECT_EQ(rootOf(parsed(inputs + reader + update + "  output %d\n  output %now\n"), "now"),
            "now");
  // A running average does not overwrite its state, as the nodes that make its operand may be
  // recomputed after it.
  EXPECT_EQ(rootOf(parsed("  input %x : f32[4]\n  state %m : f32[4] = fill {value = 0.0}\n"
                          "  %now = running_average(%m, %x) : f32[4] update\n"
                          "  output %now next(%m)\n"),
                   "now"),
            "now");
}

TEST(Graph, IsRewrittenWhereNodesStandForThoseOfAnother) {
  Graph g = parsed("  input %x : f32[2]\n"
                   "  %a = exp(%x)\n"
                   "  %b = exp(%a)\n"
                   "  output %b\n");
  EXPECT_FALSE(g.isRewritten());
  Graph moved = g;
  moved.editNode(NodeId(1)).from.sourceIndex = 0;
  EXPECT_TRUE(moved.isRewritten());
  EXPECT_FALSE(moved.hasClones());
  Graph cloned = g;
  cloned.editNode(NodeId(1)).standFor(NodeId(0));
  EXPECT_TRUE(cloned.isRewritten());
  EXPECT_TRUE(cloned.hasClones());
  Graph fetched = g;
  fetched.editNode(NodeId(1)).standFor(g.find("a"), StandIn::Transfer);
  EXPECT_TRUE(fetched.isRewritten());
  EXPECT_FALSE(fetched.hasClones());
}

// The loss and the outputs must lie in the device's memory. The parser reports a violation at its
// line.
TEST(Graph, GivesWhatIsOnTheDevice) {
  Graph g = parsed("  input %x : f32[2]\n"
                   "  %h, %sent = copy_to_host(%x)\n"
                   "  %kept = wait(%h, %sent, %x)\n"
                   "  %y = neg(%x)\n"
                   "  output %y\n");
  EXPECT_TRUE(violationsOf(g).empty());
  g.loss = g.find("kept");
  g.addOutput(g.find("kept"));
  g.addOutput(g.find("sent"));
  std::vector<std::string> messages;
  for (const Violation &v : violationsOf(g))
    messages.push_back(v.message);
  EXPECT_EQ(messages,
            (std::vector<std::string>{
                "the loss '%kept' is to be a tensor in the device's memory, and is host f32[2]",
                "output '%kept' is to be a tensor in the device's memory, and is host f32[2]",
                "output '%sent' is to be a tensor in the device's memory, and is token[]"}));
}

} // namespace
} // namespace isthmus
