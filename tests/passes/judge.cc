// Prints plan::evaluate's judgement of schedules, to be compared with that of another judge.
//
// Reads a problem as JSON on one line, then one line of JSON for each of its schedules, and an
// empty line; then the next problem. Prints a line for each schedule: the peak, cost, overhead,
// number of recomputations and number of transfers; or "invalid: " and the reason.

#include "passes/inspect/joint_graph.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <iostream>
#include <string>

using namespace isthmus;

static std::string judged(const JointGraph &g, const std::string &line, double baseline) {
  auto s = parseSchedule(line, "schedule", g.name);
  if (!s)
    return "invalid: " + toString(s.takeError());
  plan::Evaluation e = plan::evaluate(g.problem, *s);
  if (!e.error.empty())
    return "invalid: " + e.error;
  return llvm::formatv("{0} {1:F9} {2:F12} {3} {4}", e.peakBytes, e.cost,
                       plan::overhead(e.cost, baseline), e.recomputed, e.transfers);
}

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    auto g = parseJointGraph(line, "problem");
    std::string why = g ? "" : "invalid: " + toString(g.takeError());
    double baseline = g ? plan::evaluate(g->problem, plan::sourceOrder(g->problem)).cost : 0;
    while (std::getline(std::cin, line) && !line.empty())
      llvm::outs() << (why.empty() ? judged(*g, line, baseline) : why) << "\n";
  }
  return 0;
}
