// What the devices of a step have room for.
#pragma once

#include "passes/compile/compile.h"

namespace isthmus {

struct StageLimits {
  struct Place {
    std::string device;
    int64_t persistentBytes = 0;        // parameters and inputs
    int64_t arenaBytes = INT64_MAX;     // the most that its arena may have
    std::optional<int64_t> memoryBytes; // of the machine
  };
  std::vector<Place> places;
  bool isSmallest = false; // the smallest arena was asked for

  int64_t largest() const {
    int64_t most = 0;
    for (const Place &p : places)
      most = std::max(most, p.arenaBytes);
    return most;
  }
  bool isTight() const { return largest() < INT64_MAX; }
  bool has(llvm::ArrayRef<int64_t> arenas) const {
    for (size_t i = 0; i < places.size(); ++i)
      if (arenas[i] > places[i].arenaBytes)
        return false;
    return true;
  }
  // What each device needs as a share of its memory, with the arena that it needs at the least.
  std::map<std::string, double> filledBy(llvm::ArrayRef<int64_t> arenas) const;
};

// Devices and the bytes that are always there: the limits that the options set. A budget is a share
// of `baselinePeak`.
StageLimits stageLimits(const std::vector<std::pair<std::string, int64_t>> &persistent,
                        const CompileOptions &o, const Machine &machine, int64_t baselinePeak);

// NotWithin, for the first device whose memory is too small for its least known arena; success if
// there is none.
llvm::Error memoryNotMet(const StageLimits &limits, llvm::ArrayRef<int64_t> leastArenas,
                         const Figures &f);

} // namespace isthmus
