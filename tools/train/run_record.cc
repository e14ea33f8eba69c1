#include "tools/train/run_record.h"

#include "ir/spelling.h"
#include "ir/text/printer.h"
#include "llvm/Support/xxhash.h"

namespace isthmus {
namespace {

constexpr const char *kPlansInverses = "the plan's inverses", *kPlansChunks = "the plan's chunks";

std::string hex(llvm::StringRef bytes) {
  return llvm::formatv("{0:x-16}", llvm::xxHash64(bytes)).str();
}

std::string contentText(const Tensor &t) {
  return t ? hex(llvm::StringRef(t.data, size_t(t.bytes()))) : "";
}

std::string initializerText(const Initializer &init) {
  std::string text = initializerName(init.kind).str() + contentText(init.data);
  for (const auto &[name, value] : init.args)
    text += " " + name + "=" + attrText(value);
  return text;
}

std::string numberText(const std::optional<double> &number, const char *otherwise) {
  return number ? floatText(*number) : otherwise;
}
std::string wordText(const std::string &word, const char *otherwise) {
  return word.empty() ? otherwise : word;
}
const char *flagText(bool is) { return is ? "given" : "not given"; }

std::string digestOf(const GivenInputs &given) {
  std::string text;
  for (const auto &[name, input] : given)
    text += name + " " + contentText(input.tensor) + "\n";
  return text.empty() ? "none" : hex(text);
}

// Rounding depends on a plan that rebuilds values by inverses.
std::string inversesIn(const Compiled &step) {
  return step.figures.inversions ? digestOf(step.graph) : "none";
}

// Sums over chunks round otherwise than one over all. Also chunks and micro-batches that nobody
// asked for by name.
std::string chunksIn(const Compiled &step) {
  const int64_t count = step.figures.chunks;
  return count ? std::to_string(count) + " nodes" : "none";
}

std::string chunksIn(llvm::ArrayRef<ChunkRequest> chunks) {
  std::string text;
  for (const ChunkRequest &c : chunks)
    text +=
        llvm::formatv("{0}%{1}:axis={2},chunks={3}{4}", text.empty() ? "" : " ", c.value, c.axis,
                      c.chunks, c.rounding == Rounding::InPlace ? ",rounding=in-place" : "")
            .str();
  return wordText(text, "none");
}

} // namespace

std::string digestOf(const Graph &g) {
  std::string text;
  for (const Input &i : g.inputs()) {
    const bool isCarried = i.kind == InputKind::Param || i.kind == InputKind::State;
    text += inputKindName(i.kind).str() + " " + g.valueName(i.value).str() + " " +
            g.type(i.value).str() + " " + (isCarried ? "" : initializerText(i.init)) + "\n";
  }
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    text += nodeText(g, NodeId(i)) + "\n";
  for (ValueId v : g.outputs())
    text += g.valueName(v).str() + "\n";
  return hex(text + (g.loss ? g.valueName(g.loss).str() : ""));
}

RunRecord recordOf(const TrainFlags &f, const RunParts &parts) {
  const OptimizerOptions o = optimizerOf(f.optimizer);
  const LearningRate &rate = parts.trainer.rate;
  const bool dependsOnLength = f.schedule != "constant";
  return {
      {"the model", parts.model},
      {"the data", parts.data.digest()},
      {"the data of --inputs", digestOf(parts.given)},
      {"--loss", wordText(f.model.loss, "the model's")},
      {"--class-axis", std::to_string(f.model.classAxis)},
      {"--ignore-index", f.model.ignoreIndex ? std::to_string(*f.model.ignoreIndex) : "none"},
      {"--wrt", wordText(f.model.wrt, "params")},
      {"--precision", wordText(f.model.precision, "the model's")},
      {"--eval", flagText(f.model.eval)},
      {"--as-written", flagText(f.model.asWritten)},
      {"--microbatches", f.plan.microBatches ? std::to_string(*f.plan.microBatches) : "none"},
      {"--batch-norm", wordText(f.plan.batchNorm, "whole")},
      {"--chunk", chunksIn(f.plan.chunks)},
      {"--levels", f.levels ? std::to_string(f.levels) : "none"},
      {"--lr", floatText(rate.most)},
      {"--lr-schedule", f.schedule},
      {"--warmup", std::to_string(f.warmup)},
      {"the schedule's length", dependsOnLength ? std::to_string(rate.steps) : "any"},
      {"--momentum", floatText(o.momentum)},
      {"--nesterov", flagText(o.nesterov)},
      {"--betas", floatText(o.beta1) + "," + floatText(o.beta2)},
      {"--eps", floatText(o.epsilon)},
      {"--weight-decay", floatText(o.weightDecay)},
      {"--clip-norm", numberText(f.optimizer.clipNorm, "none")},
      {"the target", parts.step.graph.record.target},
      {"the layout", parts.step.graph.record.channelsLast ? "channels-last" : "the model's"},
      {kPlansInverses, inversesIn(parts.step)},
      {kPlansChunks, chunksIn(parts.step)},
      {"--measure-inverses",
       parts.step.figures.inversions ? std::to_string(f.measureInverses) : "any"},
  };
}

void recordPlan(RunRecord &record, const Compiled &step) {
  for (auto &[name, value] : record)
    if (name == kPlansInverses)
      value = inversesIn(step);
    else if (name == kPlansChunks)
      value = chunksIn(step);
}

std::string differencesOf(const RunRecord &was, const RunRecord &now) {
  std::string text;
  const std::map<std::string, std::string> old(was.begin(), was.end());
  for (const auto &[name, value] : now)
    if (auto it = old.find(name); it != old.end() && it->second != value)
      text += (text.empty() ? "" : "; ") + name + " was " + it->second + " and is " + value;
  return text;
}

} // namespace isthmus
