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

} // namespace isthmus
