#include "runtime/profile.h"

#include "ir/text/parser.h"
#include <gtest/gtest.h>

namespace isthmus {
namespace {

// Nodes with equal calls have one cost, their mean. Views and nodes that are not computed have
// none.
TEST(MeasuredCosts, AreMeansByCall) {
  Graph g = llvm::cantFail(parseGraph(R"(isthmus 2
graph @g {
  input %x : f32[4, 3]
  %a = tanh(%x)
  %b = reshape(%a) {dims = [12]}
  %c = tanh(%a)
  %d = exp(%b)
  output %c
  output %d
})",
                                      "test"));
  Target target;
  target.name = "some";
  target.launchSeconds = 1; // so long that other estimates do not matter
  const MeasuredCosts costs =
      measuredCosts(g, {{.seconds = 2}, {.seconds = 100}, {.seconds = 4}, {.seconds = 9}}, target);
  EXPECT_EQ(costs.target, "some");
  const std::map<std::string, double> expected = {{callKey(g.call(NodeId(0))), 3},
                                                  {callKey(g.call(NodeId(3))), 9}};
  EXPECT_EQ(costs.seconds, expected);
  EXPECT_NEAR(costs.perEstimate, (2 + 4 + 9) / 3.0, 1e-6);
}

} // namespace
} // namespace isthmus
