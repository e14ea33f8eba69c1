#include "ir/units.h"
#include "passes/plan/bound.h"
#include "tools/c/handles.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace isthmus;
using namespace isthmus::c;

void isthmus_plan_options_init(isthmus_plan_options *options, size_t size) {
  isthmus_plan_options all = {};
  all.size = sizeof all;
  all.budget_bytes = -1;
  if (options)
    std::memcpy(options, &all, std::min(size, sizeof all));
}

isthmus_status isthmus_plan_make(const isthmus_problem *problem,
                                 const isthmus_plan_options *options, isthmus_plan **plan,
                                 isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(plan);
    *plan = nullptr;
    ISTHMUS_NOT_NULL(problem);
    ISTHMUS_NOT_NULL(options);
    if (options->size != sizeof *options)
      return fail(ISTHMUS_BAD_CALL,
                  "'size' of isthmus_plan_options is not that of this library: "
                  "isthmus_plan_options_init sets it",
                  error);
    const bool isShare = options->budget_bytes < 0;
    if (!(options->budget_share >= 0) || std::isinf(options->budget_share) ||
        !(options->effort >= 0) || std::isinf(options->effort))
      return fail(ISTHMUS_BAD_CALL, "'budget_share' and 'effort' are to be numbers from 0 on",
                  error);
    const plan::Problem &p = problem->problem();
    const int64_t baseline = plan::evaluate(p, plan::sourceOrder(p)).peakBytes;
    plan::SearchOptions o;
    o.smallest = isShare && options->budget_share == 0;
    o.budgetBytes =
        isShare ? int64_t(options->budget_share * double(baseline)) : options->budget_bytes;
    o.effort = options->effort;
    o.seed = options->seed;
    bool isCancelled = false;
    if (options->progress)
      o.progress = [&](const plan::SearchProgress &now) {
        isCancelled |= !options->progress(options->user, now.share, now.cost);
        return !isCancelled;
      };
    plan::PlanResult r = plan::planWithin(p, o);
    const bool isWithin = r.isWithin;
    const int64_t least = r.smallestBytes;
    if (!isWithin && isCancelled)
      return fail(ISTHMUS_CANCELLED,
                  "cancelled before a plan within " + bytesText(o.budgetBytes) + " was found",
                  error);
    give(plan, std::move(r));
    if (isWithin)
      return ISTHMUS_OK;
    return fail(ISTHMUS_CANNOT_BE_MET,
                llvm::formatv("a budget of {0} ({1} bytes) cannot be met: the least peak that was "
                              "found is {2} ({3} bytes)",
                              bytesText(o.budgetBytes), o.budgetBytes, bytesText(least), least)
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
    const plan::Problem &p = problem->problem();
    plan::PlanResult r;
    r.schedule.assign(ops, ops + num_ops);
    r.planned = plan::evaluate(p, r.schedule);
    if (!r.planned.error.empty())
      return fail(ISTHMUS_BAD_INPUT, "the schedule is not valid: " + r.planned.error, error);
    r.baseline = plan::evaluate(p, plan::sourceOrder(p));
    r.arenaBytes = r.planned.peakBytes;
    r.isWithin = true;
    r.lowestPeak = plan::lowestPeak(p);
    r.leastCost = plan::leastCostAtAll(p);
    return give(plan, std::move(r));
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
      return fail(ISTHMUS_BAD_CALL, "'size' of isthmus_figures is not that of this library", error);
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
