// Placement for a problem without a graph: offsets for all instances and workspaces of a schedule.
#pragma once

#include "passes/place/place.h"
#include "passes/plan/problem.h"

namespace isthmus {

struct ScheduleLayout {
  std::vector<plan::Instance> instances; // in the order in which steps make them
  std::vector<int64_t> instanceOffset;   // by instance; donated bytes keep their offset
  std::vector<int64_t> workspaceOffset;  // by step; 0 for steps without a workspace
  int64_t arenaBytes = 0;
};

// Places a valid schedule with this peak. Returns INT64_MAX bytes, and no offsets, if
// `assignOffsets` finds none.
ScheduleLayout placeSchedule(const plan::Problem &p, const plan::Schedule &s, int64_t peakBytes,
                             const OffsetOptions &options = {});

} // namespace isthmus
