#include "tools/view/problem_page.h"

#include "ir/units.h"
#include "tools/view/curve.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

namespace isthmus {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostTold = 300; // tensors whose decision is told

// What a plan does with an op of the forward phase.
struct Decision {
  uint32_t value = 0; // of the op's first run
  int64_t bytes = 0;
  uint32_t runs = 0, fetches = 0;
  double us = 0, linkUs = 0;
};

std::vector<Decision> decisionsOf(const plan::Problem &p, const plan::Schedule &s,
                                  const StepTable &t) {
  std::vector<Decision> all(p.ops.size());
  for (uint32_t k = 0; k < s.size(); ++k) {
    const plan::Op &op = p.ops[s[k]];
    if (op.startsTransfer()) {
      const plan::OpIndex moved =
          op.transfer == plan::Op::Transfer::StartOffload && !op.inputs.empty() ? op.inputs[0].op
                                                                                : plan::Op::kNone;
      if (moved != plan::Op::kNone)
        all[moved].linkUs += op.transferTime;
      continue;
    }
    if (op.transfer == plan::Op::Transfer::WaitPrefetch && op.of != plan::Op::kNone) {
      ++all[op.of].fetches;
      all[op.of].linkUs += p.ops[op.inputs[0].op].transferTime;
      continue;
    }
    Decision &d = all[op.of == plan::Op::kNone ? s[k] : op.of];
    if (d.runs++)
      d.us += op.cost;
    else
      d.value = t.nodes[k].firstResult;
  }
  for (plan::OpIndex i = 0; i < p.ops.size(); ++i)
    for (int64_t bytes : p.ops[i].outputBytes)
      all[i].bytes += p.rounded(bytes);
  return all;
}

std::string timesText(const char *what, uint32_t times) {
  return times == 1   ? llvm::formatv("{0} once", what).str()
         : times == 2 ? llvm::formatv("{0} twice", what).str()
                      : llvm::formatv("{0} {1} times", what, times).str();
}

std::string textOf(const Decision &d, double stepUs) {
  std::string text;
  if (d.runs > 1)
    text = llvm::formatv("{0}, +{1} ({2:F2} % of a step)", timesText("recomputed", d.runs - 1),
                         secondsText(1e-6 * d.us), stepUs > 0 ? 100 * d.us / stepUs : 0);
  if (d.fetches)
    text += (text.empty() ? "" : "; ") + timesText("fetched", d.fetches);
  return text;
}

// The tensors of the forward that the plan does not keep, the largest first.
Json decisions(const plan::Problem &p, const plan::PlanResult &plan, const StepTable &t) {
  std::vector<Decision> all = decisionsOf(p, plan.schedule, t), told;
  for (plan::OpIndex i = 0; i < p.ops.size(); ++i)
    if (p.ops[i].phase == plan::OpPhase::Forward && all[i].bytes > 0 &&
        (all[i].runs > 1 || all[i].fetches))
      told.push_back(all[i]);
  std::stable_sort(told.begin(), told.end(),
                   [](const Decision &a, const Decision &b) { return a.bytes > b.bytes; });
  if (told.size() > kMostTold)
    told.resize(kMostTold);
  Json out = Json::array();
  for (const Decision &d : told)
    out.push_back({{"value", d.value},
                   {"kept", false},
                   {"bytes", d.bytes},
                   {"saved_bytes", d.bytes},
                   {"us", d.us},
                   {"link_us", d.linkUs},
                   {"text", textOf(d, plan.baseline.cost)},
                   {"why", ""}});
  return out;
}

Figures figures(const plan::Problem &p, const plan::PlanResult &plan, const StepTable &t,
                int64_t reserved) {
  Figures f = figuresOf(p, plan);
  f.predictedPeakBytes += reserved;
  f.baselinePeakBytes += reserved;
  for (std::optional<int64_t> *bytes : {&f.smallestBudgetBytes, &f.lowerBoundBytes})
    if (*bytes)
      **bytes += reserved;
  f.arenaBytes = t.timeline.arenaBytes;
  return f;
}

} // namespace

Page pageOf(const plan::Problem &p, const ProblemPage &o, const ProblemLabels &labels) {
  Page page(o.title, o.title, o.graph, o.target);
  page.facts["budget_bytes"] = o.budgetBytes ? Json(*o.budgetBytes) : Json();
  page.facts["offsets"] = "as Isthmus would place them; an allocator places them otherwise";
  StepTable step = stepTableOf(p, o.plan.schedule, labels);
  page.facts["decisions"] = decisions(p, o.plan, step);
  const Figures f = figures(p, o.plan, step, labels.reservedBytes);
  page.add(o.title, std::move(step), Detail::Whole, &f);
  Figures withKnee = f;
  if (!f.knee && !o.curve.empty()) {
    std::vector<plan::PricePoint> curve = o.curve;
    curve.push_back({f.baselinePeakBytes, f.baselineCost});
    withKnee.knee = plan::kneeOf(std::move(curve));
  }
  addCurve(page, withKnee, o.curve);
  if (!o.beside)
    return page;
  page.add(samePlaces(p, o.plan.schedule, *o.beside));
  plan::SearchOptions anyBudget;
  anyBudget.smallest = true;
  const plan::PlanResult beside = plan::judgedPlan(p, *o.beside, anyBudget);
  StepTable other = stepTableOf(p, *o.beside, labels);
  const Figures g = figures(p, beside, other, labels.reservedBytes);
  page.add(o.besideName, std::move(other), Detail::Whole, &g);
  return page;
}

} // namespace isthmus
