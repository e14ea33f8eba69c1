// The learning rate of each step.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace isthmus {

enum class Schedule : uint8_t {
  Constant,
  Cosine, // half a cosine, down to 0 (Loshchilov and Hutter 2017, without restarts)
  Linear, // a line, down to 0
  Step    // a tenth from half of the run on, a hundredth from three quarters on (He et al. 2016)
};
llvm::ArrayRef<llvm::StringRef> scheduleNames();
std::optional<Schedule> parseSchedule(llvm::StringRef name);

struct LearningRate {
  double most = 0;
  Schedule schedule = Schedule::Constant;
  int64_t warmup = 0; // steps of a line up to `most`, before the schedule begins
  int64_t steps = 0;  // of the whole run

  double at(int64_t step) const; // `step` counts from 0
};

} // namespace isthmus
