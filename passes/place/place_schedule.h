// Placement for a problem that has no graph: an offset for all that a schedule makes.
#pragma once

#include "passes/place/place.h"
#include "passes/plan/problem.h"

namespace isthmus {

struct ScheduleLayout {
  std::vector<plan::Instance> instances; // in the order in which steps make them
  std::vector<int64_t> instanceOffset;   // by instance; one with donated bytes has its giver's
  std::vector<int64_t> workspaceOffset;  // by step; 0 where there is none
  int64_t arenaBytes = 0;
};

// Of a valid schedule of this peak. INT64_MAX bytes, and no offsets, where `assignOffsets` finds
// none.
ScheduleLayout placeSchedule(const plan::Problem &p, const plan::Schedule &s, int64_t peakBytes,
                             const OffsetOptions &options = {});

} // namespace isthmus
