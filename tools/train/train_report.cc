#include "tools/train/train_report.h"

#include "ir/file.h"
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

} // namespace

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
  return writeFileAtomically(path, jsonText(j, 2) + "\n");
}

} // namespace isthmus
