#include "tools/train/train_report.h"

#include "ir/file.h"
#include "passes/compile/accurate_inverses.h"
#include "passes/compile/figures_json.h"
#include "tools/cli/report_json.h"

namespace isthmus {
namespace {

using Json = nlohmann::ordered_json;

Json orNull(const std::optional<double> &d) { return d ? jsonNumber(*d) : Json(); }

Json evaluationJson(const Evaluation &e) {
  return {{"epoch", e.epoch},
          {"step", e.step},
          {"loss", orNull(e.loss)},
          {"accuracy", orNull(e.accuracy)},
          {"bits_per_dimension", orNull(e.bitsPerDimension)}};
}

Json inverseErrorJson(const TrainReport::InverseError &e) {
  return {{"step", e.step}, {"error", jsonNumber(e.error)}, {"value", e.value}};
}

} // namespace

void TrainReport::addInverseErrors(int64_t step, const std::map<std::string, double> &errors) {
  if (const auto *largest = largestError(errors))
    inverseErrorsByStep.push_back({step, largest->second, largest->first});
}

const TrainReport::InverseError *TrainReport::largestInverseError() const {
  const InverseError *largest = nullptr;
  for (const InverseError &e : inverseErrorsByStep)
    if (!largest || !(e.error <= largest->error))
      largest = &e;
  return largest;
}

llvm::Error writeTrainReport(const TrainReport &r, const std::string &path) {
  if (path.empty())
    return llvm::Error::success();
  Json j = reportJson(r);
  j["optimizer"] = r.optimizer;
  j["optimizer_bytes"] = r.optimizerBytes;
  j["gradient_bytes"] = r.gradientBytes;
  j["holds_all_gradients"] = r.holdsAllGradients;
  j["examples"] = r.examples;
  j["batch"] = r.batch;
  j["first_step"] = r.firstStep;
  j["learning_rate"] = jsonNumbers(r.learningRate);
  j["bits_per_dimension"] = jsonNumbers(r.bitsPerDimension);
  j["outputs"] = Json::object();
  for (const auto &[name, figures] : r.outputs)
    j["outputs"][name] = jsonNumbers(figures);
  j["evaluations"] = Json::array();
  for (const Evaluation &e : r.evaluations)
    j["evaluations"].push_back(evaluationJson(e));
  j["evaluation_arena_bytes"] = r.evaluationArenaBytes;
  const TrainReport::InverseError *largest = r.largestInverseError();
  j["largest_inverse_error"] = largest ? inverseErrorJson(*largest) : Json();
  j["inverse_errors_by_step"] = Json::array();
  for (const TrainReport::InverseError &e : r.inverseErrorsByStep)
    j["inverse_errors_by_step"].push_back(inverseErrorJson(e));
  j["not_inverted"] = Json::array();
  for (const NotInverted &n : r.notInverted)
    j["not_inverted"].push_back({{"step", n.step}, {"value", n.value}});
  j["measuring_arena_bytes"] = r.measuringArenaBytes;
  return writeFileAtomically(path, jsonText(j, 2) + "\n");
}

} // namespace isthmus
