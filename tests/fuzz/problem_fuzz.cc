// Reads any bytes as a problem of the planner. The result is an error that names the file, or a
// problem with consistent numbers. Small problems are also planned.
//
// FUZZ: sources=passes/cheapest_steps.cc passes/inspect/joint_graph.cc passes/plan/**/*.cc

#include "ir/check.h"
#include "ir/diagnostics.h"
#include "passes/inspect/joint_graph.h"
#include "passes/plan/bound.h"
#include "passes/plan/planner.h"

using namespace isthmus;

namespace {

// Plans take time, so only some of the small problems are planned.
constexpr size_t kMostPlanned = 12, kOneOf = 16;

void checkPlan(const plan::Problem &p, const plan::Evaluation &baseline) {
  plan::SearchOptions options;
  options.budgetBytes = baseline.peakBytes / 4 * 3;
  options.effort = 1e-4;
  plan::PlanResult found = plan::planWithin(p, options);
  plan::Evaluation planned = plan::evaluate(p, found.schedule);
  ISTHMUS_CHECK(planned.error.empty(), "a plan that is not valid: " + planned.error);
  ISTHMUS_CHECK(planned.peakBytes == found.planned.peakBytes, "a plan's peak");
  ISTHMUS_CHECK(!found.isWithin || planned.peakBytes <= options.budgetBytes, "a plan's budget");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto g = parseJointGraph(llvm::StringRef(reinterpret_cast<const char *>(data), size), "fuzz");
  if (!g) {
    std::string message = llvm::toString(g.takeError());
    ISTHMUS_CHECK(message.find("fuzz: ") != std::string::npos, "a message: " + message);
    return 0;
  }
  const plan::Problem &p = g->problem;
  plan::Evaluation baseline = plan::evaluate(p, plan::sourceOrder(p));
  if (!baseline.error.empty())
    return 0;
  ISTHMUS_CHECK(plan::lowestPeak(p) <= baseline.peakBytes, "the bound is above a schedule");
  if (p.ops.size() <= kMostPlanned && size % kOneOf == 0)
    checkPlan(p, baseline);
  return 0;
}
