// The figures of a step over several devices, part by part.
#pragma once

#include "passes/compile/divided_step.h"

namespace isthmus {

// The bytes of the inputs and outputs of a device's program.
void setInputsAndOutputs(StageFigures &s, const Graph &program, const Target &target);
// The peaks, arena and bytes of the whole: the largest of `f.stages`.
void setLargest(Figures &f);
// What `times` says of the step and, in the same order, of `f.stages`.
void setTimes(Figures &f, const StepTimes &times);
void setCut(Figures &f, const DividedStep &step);
void setCheckpoint(Figures &f, StageOrder order, std::optional<CheckpointMode> mode);

} // namespace isthmus
