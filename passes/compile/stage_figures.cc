#include "passes/compile/stage_figures.h"

#include <cmath>

namespace isthmus {

void setInputsAndOutputs(StageFigures &s, const Graph &program, const Target &target) {
  s.persistentBytes = persistentBytes(program, target);
  for (ValueId v : program.outputs())
    s.outputBytes += target.rounded(program.type(v).bytes());
}

void setLargest(Figures &f) {
  for (const StageFigures &s : f.stages) {
    f.baselinePeakBytes = std::max(f.baselinePeakBytes, s.baselinePeakBytes);
    f.predictedPeakBytes = std::max(f.predictedPeakBytes, s.predictedPeakBytes);
    f.arenaBytes = std::max(f.arenaBytes, s.arenaBytes);
    f.persistentBytes = std::max(f.persistentBytes, s.persistentBytes);
    f.outputBytes = std::max(f.outputBytes, s.outputBytes);
  }
}

void setTimes(Figures &f, const StepTimes &times) {
  f.simulatedSeconds = times.seconds;
  f.bubble = times.bubble();
  for (size_t i = 0; i < f.stages.size(); ++i) {
    const PlaceTimes &p = times.places[i];
    StageFigures &s = f.stages[i];
    s.busySeconds = p.busy;
    s.waitBefore = p.begin;
    s.waitBetween = std::max(0.0, p.end - p.begin - p.busy);
    s.waitAfter = times.seconds - p.end;
  }
}

void setCut(Figures &f, const DividedStep &step) {
  if (!step.cut)
    return;
  const Cut &cut = *step.cut;
  f.cut = {cut.slowest(), cut.seconds[cut.slowest()], cut.meanSeconds, cut.leastSeconds,
           cut.boundSeconds};
}

void setCheckpoint(Figures &f, StageOrder order, std::optional<CheckpointMode> mode) {
  f.schedule = stageOrderName(order).str();
  f.checkpoint = mode ? checkpointModeName(*mode).str() : "auto";
}

} // namespace isthmus
