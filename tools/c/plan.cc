#include "ir/units.h"
#include "passes/compile/compile.h"
#include "passes/compile/figures_json.h"
#include "passes/compile/within_budget.h"
#include "tools/c/search.h"
#include <limits>

using namespace isthmus;
using namespace isthmus::c;

static isthmus_plan_options defaults() {
  isthmus_plan_options all = {};
  all.size = sizeof all;
  all.budget_bytes = -1;
  return all;
}

void isthmus_plan_options_init(isthmus_plan_options *options, size_t size) {
  initialize(options, size, defaults());
}

// Searches for a plan.
static isthmus_plan search(const plan::Problem &p, bool places, const plan::SearchOptions &o) {
  const auto start = std::chrono::steady_clock::now();
  isthmus_plan plan;
  if (places) {
    PlacedPlan found = planArena(p, o);
    plan.result = std::move(found.plan);
    plan.layout = std::move(found.layout);
  } else {
    plan.result = plan::planWithin(p, o);
  }
  plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

isthmus_status isthmus_plan_make(const isthmus_problem *problem,
                                 const isthmus_plan_options *options, isthmus_plan **plan,
                                 isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(plan);
    *plan = nullptr;
    ISTHMUS_NOT_NULL(problem);
    ISTHMUS_NOT_NULL(options);
    constexpr size_t kLeast = offsetof(isthmus_plan_options, place);
    const auto given = grown(*options, kLeast, defaults());
    if (!given)
      return wrongSize("isthmus_plan_options", options->size, kLeast, sizeof *options, error);
    if (isthmus_status s = checkNumbers({{"budget_share", given->budget_share},
                                         {"effort", given->effort},
                                         {"progress_seconds", given->progress_seconds}},
                                        error))
      return s;
    Watched watched(*given);
    if (!watched.begins())
      return fail(ISTHMUS_CANCELLED, "cancelled before the search began", error);
    const plan::Problem &p = problem->problem;
    const Budget budget = budgetOf(given->budget_bytes, given->budget_share);
    plan::SearchOptions o;
    o.smallest = budget.kind == Budget::Smallest;
    o.budgetBytes = budget.of(plan::evaluate(p, plan::sourceOrder(p)).peakBytes);
    o.effort = given->effort;
    o.seed = given->seed;
    if (watched.isAsked())
      o.progress = [&](const plan::SearchProgress &now) { return watched.goesOn(now); };
    isthmus_plan found = search(p, given->place, o);
    const bool isWithin = found.result.isWithin;
    const int64_t least = found.result.smallestBytes;
    if (!isWithin && watched.isCancelled())
      return fail(ISTHMUS_CANCELLED,
                  "cancelled before a plan within " + bytesText(o.budgetBytes) + " was found",
                  error);
    give(plan, std::move(found));
    if (isWithin)
      return ISTHMUS_OK;
    return fail(ISTHMUS_CANNOT_BE_MET,
                llvm::formatv("a budget of {0} ({1} bytes) cannot be met: the least {2} that was "
                              "found is {3} ({4} bytes)",
                              bytesText(o.budgetBytes), o.budgetBytes,
                              given->place ? "arena" : "peak", bytesText(least), least)
                    .str(),
                error);
  });
}

isthmus_status isthmus_plan_from_schedule(const isthmus_problem *problem, const uint32_t *ops,
                                          size_t num_ops, isthmus_plan **plan,
                                          isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(plan);
    *plan = nullptr;
    ISTHMUS_NOT_NULL(problem);
    if (num_ops > 0)
      ISTHMUS_NOT_NULL(ops);
    if (isthmus_status s = checkCount("num_ops", num_ops, kMostItems, error))
      return s;
    plan::SearchOptions anyBudget;
    anyBudget.smallest = true;
    isthmus_plan judged;
    judged.isGiven = true;
    judged.result =
        plan::judgedPlan(problem->problem, plan::Schedule(ops, ops + num_ops), anyBudget);
    if (const std::string &why = judged.result.planned.error; !why.empty())
      return fail(ISTHMUS_BAD_INPUT, "the schedule is not valid: " + why, error);
    return give(plan, std::move(judged));
  });
}

void isthmus_plan_free(isthmus_plan *plan) { delete plan; }

const uint32_t *isthmus_plan_schedule(const isthmus_plan *plan, size_t *num_ops) {
  if (num_ops)
    *num_ops = plan ? plan->result.schedule.size() : 0;
  return plan ? plan->result.schedule.data() : nullptr;
}

isthmus_status isthmus_plan_figures(const isthmus_plan *plan, isthmus_figures *figures,
                                    isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(plan);
    ISTHMUS_NOT_NULL(figures);
    if (figures->size != sizeof *figures)
      return wrongSize("isthmus_figures", figures->size, sizeof *figures, sizeof *figures, error);
    const plan::PlanResult &r = plan->result;
    figures->baseline_peak_bytes = r.baseline.peakBytes;
    figures->peak_bytes = r.planned.peakBytes;
    figures->output_bytes = r.planned.outputBytes;
    figures->lower_bound_bytes = r.lowestPeak;
    figures->smallest_peak_bytes = r.smallestBytes > 0 ? r.smallestBytes : -1;
    figures->baseline_cost = r.baseline.cost;
    figures->cost = r.planned.cost;
    figures->lower_bound_cost =
        r.leastCost ? *r.leastCost : std::numeric_limits<double>::quiet_NaN();
    figures->recomputed = r.planned.recomputed;
    figures->transfers = r.planned.transfers;
    return ISTHMUS_OK;
  });
}

isthmus_status isthmus::c::checkFits(const isthmus_problem &problem, const isthmus_plan &plan,
                                     isthmus_error **error) {
  const plan::Evaluation e = plan::evaluate(problem.problem, plan.result.schedule);
  if (e.error.empty() && e.peakBytes == plan.result.planned.peakBytes)
    return ISTHMUS_OK;
  return fail(ISTHMUS_BAD_CALL,
              "the plan is of another problem: " +
                  (e.error.empty() ? "its peak is not that of this one" : e.error),
              error);
}

isthmus_status isthmus_plan_report(const isthmus_problem *problem, const isthmus_plan *plan,
                                   isthmus_text **text, isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(text);
    *text = nullptr;
    ISTHMUS_NOT_NULL(problem);
    ISTHMUS_NOT_NULL(plan);
    if (isthmus_status status = checkFits(*problem, *plan, error))
      return status;
    Figures figures = figuresOf(problem->problem, plan->result);
    figures.planSeconds = plan->seconds;
    if (plan->isGiven)
      figures.policyUsed = PlannedBy::Given;
    nlohmann::ordered_json j = figuresJson(figures);
    j["arena_bytes"] = plan->layout ? nlohmann::ordered_json(plan->layout->arenaBytes) : nullptr;
    return give(text, jsonText(j, 2) + "\n");
  });
}
