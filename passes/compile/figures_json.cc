#include "passes/compile/figures_json.h"

#include <cmath>

namespace isthmus {

using Json = nlohmann::ordered_json;

Json jsonNumber(double d) {
  if (std::isfinite(d))
    return d;
  return std::isnan(d) ? "nan" : d < 0 ? "-inf" : "inf";
}

static Json orNull(const std::optional<int64_t> &n) { return n ? Json(*n) : Json(); }

Json kneeJson(const Figures &f) {
  if (!f.knee)
    return {};
  constexpr double kMiB = 1 << 20;
  Json j;
  j["peak_bytes"] = f.knee->at.peakBytes;
  j["overhead"] = jsonNumber(plan::overhead(f.knee->at.cost, f.baselineCost));
  j["us_per_mib_above"] = jsonNumber(f.knee->above * kMiB);
  j["us_per_mib_below"] = jsonNumber(f.knee->below * kMiB);
  return j;
}

static void addStages(Json &j, const Figures &f) {
  for (const StageFigures &s : f.stages) {
    Json stage;
    stage["device"] = s.device;
    stage["baseline_peak_bytes"] = s.baselinePeakBytes;
    stage["predicted_peak_bytes"] = s.predictedPeakBytes;
    stage["arena_bytes"] = s.arenaBytes;
    stage["persistent_bytes"] = s.persistentBytes;
    stage["busy_seconds"] = jsonNumber(s.busySeconds);
    stage["wait_before_seconds"] = jsonNumber(s.waitBefore);
    stage["wait_between_seconds"] = jsonNumber(s.waitBetween);
    stage["wait_after_seconds"] = jsonNumber(s.waitAfter);
    stage["nodes"] = s.nodes;
    j["stages"].push_back(std::move(stage));
  }
  j["schedule"] = f.schedule.empty() ? Json() : Json(f.schedule);
  j["checkpoint"] = f.checkpoint.empty() ? Json() : Json(f.checkpoint);
  j["messages"] = f.messages;
  j["predicted_step_seconds"] = jsonNumber(f.simulatedSeconds);
  j["bubble"] = jsonNumber(f.bubble);
  j["cut"] = nullptr;
  if (f.cut)
    j["cut"] = {{"slowest_stage", f.cut->slowestStage},
                {"slowest_seconds", jsonNumber(f.cut->slowest)},
                {"mean_seconds", jsonNumber(f.cut->mean)},
                {"forward_bound_seconds", jsonNumber(f.cut->least)},
                {"bound_seconds", jsonNumber(f.cut->bound)}};
}

// The keys stay, as null. Stages are sized one by one, and then these sums of bytes are not known.
static void eraseUnknown(Json &j, const Figures &f) {
  for (const char *key :
       {"predicted_peak_bytes", "arena_bytes", "recompute_overhead", "policy_used", "checkpoints",
        "nodes", "clones", "transfers", "inversions", "encodings", "chunks", "host_bytes"})
    j[key] = nullptr;
  if (f.persistentBytes == 0)
    j["persistent_bytes"] = nullptr;
  if (f.outputBytes == 0)
    j["output_bytes"] = nullptr;
}

Json figuresJson(const Figures &f) {
  Json j;
  j["schema"] = "isthmus.report/1";
  j["baseline_peak_bytes"] = f.baselinePeakBytes;
  j["predicted_peak_bytes"] = f.predictedPeakBytes;
  j["arena_bytes"] = f.arenaBytes;
  j["persistent_bytes"] = f.persistentBytes;
  j["output_bytes"] = f.outputBytes;
  j["recompute_overhead"] = jsonNumber(f.recomputeOverhead);
  j["lower_bound_overhead"] = f.lowerBoundOverhead ? jsonNumber(*f.lowerBoundOverhead) : Json();
  j["lower_bound_bytes"] = orNull(f.lowerBoundBytes);
  j["bound_model"] = f.boundModel;
  j["smallest_budget_bytes"] = orNull(f.smallestBudgetBytes);
  j["smallest_budget_overhead"] =
      f.smallestBudgetOverhead ? jsonNumber(*f.smallestBudgetOverhead) : Json();
  j["knee"] = kneeJson(f);
  j["policy_used"] = plannedByText(f.policyUsed).str();
  j["checkpoints"] = f.checkpoints;
  j["mode"] = f.mode.empty() ? Json() : Json(f.mode);
  j["costs"] = f.costs.empty() ? Json() : Json(f.costs);
  j["nodes"] = f.nodes;
  j["clones"] = f.clones;
  j["transfers"] = f.transfers;
  j["inversions"] = f.inversions;
  j["encodings"] = f.encodings;
  j["chunks"] = f.chunks;
  j["inverse_errors"] = nullptr;
  for (const auto &[name, error] : f.inverseErrors)
    j["inverse_errors"][name] = jsonNumber(error);
  j["host_bytes"] = f.hostBytes;
  j["plan_seconds"] = jsonNumber(f.planSeconds);
  if (!f.stages.empty())
    addStages(j, f);
  if (!f.hasPlan)
    eraseUnknown(j, f);
  return j;
}

} // namespace isthmus
