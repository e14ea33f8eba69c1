// The report, a contract with who reads it: keys are only ever added.

#include "ir/file.h"
#include "ir/json.h"
#include "tools/cli/compiled.h"
#include <cmath>

namespace isthmus {
namespace {

using Json = nlohmann::ordered_json;

Json number(double d) {
  if (std::isfinite(d))
    return d;
  return std::isnan(d) ? "nan" : d < 0 ? "-inf" : "inf";
}

Json numbers(const std::vector<double> &list) {
  if (list.empty())
    return nullptr;
  Json out = Json::array();
  for (double d : list)
    out.push_back(number(d));
  return out;
}

Json orNull(const std::optional<int64_t> &n) { return n ? Json(*n) : Json(); }

Json asJson(const Report &r) {
  Json j;
  j["schema"] = "isthmus.report/1";
  j["baseline_peak_bytes"] = r.baselinePeakBytes;
  j["predicted_peak_bytes"] = r.predictedPeakBytes;
  j["arena_bytes"] = r.arenaBytes;
  j["persistent_bytes"] = r.persistentBytes;
  j["output_bytes"] = r.outputBytes;
  j["recompute_overhead"] = number(r.recomputeOverhead);
  j["lower_bound_overhead"] = r.lowerBoundOverhead ? number(*r.lowerBoundOverhead) : Json();
  j["lower_bound_bytes"] = orNull(r.lowerBoundBytes);
  j["bound_model"] = r.boundModel;
  j["smallest_budget_bytes"] = orNull(r.smallestBudgetBytes);
  j["policy_used"] = r.policyUsed;
  j["mode"] = r.mode.empty() ? Json() : Json(r.mode);
  j["nodes"] = r.nodes;
  j["clones"] = r.clones;
  j["transfers"] = r.transfers;
  j["host_bytes"] = r.hostBytes;
  j["plan_seconds"] = number(r.planSeconds);
  j["measured_peak_bytes"] =
      r.measuredPeakBytes.empty() ? Json() : Json(r.measuredPeakBytes.front());
  j["device_memory_bytes"] = orNull(r.deviceMemoryBytes);
  j["step_seconds"] = numbers(r.stepSeconds);
  j["loss"] = numbers(r.loss);
  j["kernels"] = r.kernels.empty() ? Json() : Json(r.kernels);
  j["substitute_kernels"] = r.substituteKernels ? Json(*r.substituteKernels) : Json();
  j["device_notes"] = r.deviceNotes;
  return j;
}

} // namespace

llvm::Error writeReport(const Report &r, const std::string &path) {
  if (path.empty())
    return llvm::Error::success();
  return writeFileAtomically(path, jsonText(asJson(r), 2) + "\n");
}

} // namespace isthmus
