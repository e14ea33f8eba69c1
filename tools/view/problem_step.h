// A schedule of a problem as a step: for frameworks, whose graphs are not ours.
#pragma once

#include "passes/inspect/same_place.h"
#include "passes/plan/planner.h"
#include "tools/view/step_table.h"

namespace isthmus {

// What people call the ops of a problem. Each list is by op, or empty.
struct ProblemLabels {
  std::vector<std::string> names;              // dots and slashes divide them into modules
  std::vector<std::string> ops;                // what the op does: "aten.mm"
  std::vector<std::string> sources;            // the line of the program: "model.py:31 in forward"
  std::vector<std::vector<std::string>> types; // of outputs: "f32[8, 16]"
  std::vector<uint8_t> isChunk; // the op computes a part of a region, or puts parts together
  int64_t reservedBytes = 0;    // live at every step besides what the problem knows
};

// The valid schedule `s`. Offsets are ours: the framework's allocator places tensors otherwise.
StepTable stepTableOf(const plan::Problem &p, const plan::Schedule &s, const ProblemLabels &labels);

// Where two schedules of one problem are equally far: first runs of the same ops.
std::vector<SamePlace> samePlaces(const plan::Problem &p, const plan::Schedule &a,
                                  const plan::Schedule &b);

} // namespace isthmus
