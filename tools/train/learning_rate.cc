#include "tools/train/learning_rate.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>

namespace isthmus {
namespace {
constexpr llvm::StringRef kNames[] = {"constant", "cosine", "linear", "step"};
}

llvm::ArrayRef<llvm::StringRef> scheduleNames() { return kNames; }

std::optional<Schedule> parseSchedule(llvm::StringRef name) {
  const auto *found = llvm::find(kNames, name);
  if (found == std::end(kNames))
    return std::nullopt;
  return static_cast<Schedule>(found - std::begin(kNames));
}

double LearningRate::at(int64_t step) const {
  if (step < warmup)
    return most * double(step + 1) / double(warmup);
  const double share = double(step - warmup) / double(std::max<int64_t>(1, steps - warmup));
  switch (schedule) {
  case Schedule::Constant:
    return most;
  case Schedule::Cosine:
    return most * (1 + std::cos(M_PI * share)) / 2;
  case Schedule::Linear:
    return most * (1 - share);
  case Schedule::Step:
    return share < 0.5 ? most : share < 0.75 ? most / 10 : most / 100;
  }
  return most;
}

} // namespace isthmus
