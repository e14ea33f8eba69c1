#include "tools/cli/stages_text.h"

#include "ir/units.h"
#include "tools/cli/table.h"

namespace isthmus {

std::string stagesText(const Report &r) {
  if (r.stages.empty())
    return "";
  const bool hasRun = !r.measured.peakBytes.empty();
  std::vector<bool> isNumber(hasRun ? 7 : 6, true);
  isNumber[0] = false;
  Table table(isNumber);
  std::vector<std::string> heads{"device", "baseline peak", "predicted peak", "arena",
                                 "parameters, inputs", "busy"};
  if (hasRun)
    heads.insert(heads.begin() + 3, "measured peak");
  table.row(heads);
  for (size_t i = 0; i < r.stages.size(); ++i) {
    const StageFigures &s = r.stages[i];
    std::vector<std::string> row{
        s.device,
        bytesText(s.baselinePeakBytes),
        bytesText(s.predictedPeakBytes),
        bytesText(s.arenaBytes),
        bytesText(s.persistentBytes),
        secondsText(hasRun ? r.measured.busySeconds[i] : s.busySeconds)};
    if (hasRun)
      row.insert(row.begin() + 3, bytesText(r.measured.peakBytes[i]));
    table.row(row);
  }
  std::string text = table.text("");
  if (!r.schedule.empty())
    text += llvm::formatv("order {0}, checkpoints {1}, {2} messages; by simulation a step takes "
                          "{3}, and devices wait {4:F1} % of it\n",
                          r.schedule, r.checkpoint, r.messages, secondsText(r.simulatedSeconds),
                          100 * r.bubble)
                .str();
  return text;
}

std::string boundText(const Report &r) {
  std::string text;
  if (r.cut && r.cut->mean > 0)
    text += llvm::formatv("stage {0} is the slowest, {1:F3} of the mean; in no cut of the forward "
                          "order is the slowest below {2:F3} of it\n",
                          r.cut->slowestStage, r.cut->slowest / r.cut->mean,
                          r.cut->least / r.cut->mean)
                .str();
  double before = 0, between = 0, after = 0;
  const StageFigures *busiest = &r.stages.front();
  for (const StageFigures &s : r.stages) {
    before += s.waitBefore;
    between += s.waitBetween;
    after += s.waitAfter;
    if (s.busySeconds > busiest->busySeconds)
      busiest = &s;
  }
  const double percent = r.simulatedSeconds > 0
                             ? 100 / (r.simulatedSeconds * double(r.stages.size()))
                             : 0;
  text += llvm::formatv("devices wait {0:F1} % of the step before their first node, {1:F1} % "
                        "between nodes and {2:F1} % behind their last one\n",
                        percent * before, percent * between, percent * after)
              .str();
  text += llvm::formatv("{0} works longest, {1}: no order of the micro-batches takes less\n",
                        busiest->device, secondsText(busiest->busySeconds))
              .str();
  return text;
}

} // namespace isthmus
