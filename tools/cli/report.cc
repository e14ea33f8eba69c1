// The report. Its readers depend on its keys: keys are only ever added.

#include "ir/file.h"
#include "passes/compile/accurate_inverses.h"
#include "passes/compile/figures_json.h"
#include "tools/cli/report_json.h"

namespace isthmus {

using Json = nlohmann::ordered_json;

Json jsonNumbers(const std::vector<double> &list) {
  if (list.empty())
    return nullptr;
  Json out = Json::array();
  for (double d : list)
    out.push_back(jsonNumber(d));
  return out;
}

Json reportJson(const Report &r) {
  Json j = figuresJson(r);
  j["measured_peak_bytes"] =
      r.measuredPeakBytes.empty() ? Json() : Json(r.measuredPeakBytes.front());
  for (size_t i = 0; i < r.stages.size() && i < r.measured.peakBytes.size(); ++i) {
    j["stages"][i]["measured_peak_bytes"] = r.measured.peakBytes[i];
    j["stages"][i]["measured_busy_seconds"] = jsonNumber(r.measured.busySeconds[i]);
  }
  j["device_memory_bytes"] = r.deviceMemoryBytes ? Json(*r.deviceMemoryBytes) : Json();
  j["step_seconds"] = jsonNumbers(r.stepSeconds);
  j["loss"] = jsonNumbers(r.loss);
  j["kernels"] = r.kernels.empty() ? Json() : Json(r.kernels);
  j["substitute_kernels"] = r.substituteKernels ? Json(*r.substituteKernels) : Json();
  j["device_notes"] = r.deviceNotes;
  return j;
}

std::string inversesText(const Report &r) {
  const auto *most = largestError(r.inverseErrors);
  return llvm::formatv("{0}, off by {1:e1} at most", r.inversions, most ? most->second : 0).str();
}

llvm::Error writeReport(const Report &r, const std::string &path) {
  if (path.empty())
    return llvm::Error::success();
  return writeFileAtomically(path, jsonText(reportJson(r), 2) + "\n");
}

} // namespace isthmus
