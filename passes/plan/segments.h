// A training step as segments, one within the other: what the first segment of a network does in
// the forward part comes before all that the others do, and what it does in the backward part after
// that. Standard library only.
#pragma once

#include "passes/plan/storage_graph.h"

#include <optional>

namespace isthmus::plan {

// Segments are numbered from 1. Each has two times: its number, for its forward part, and as much
// before the end, for its backward part.
struct Segments {
  uint32_t num = 0;
  std::vector<std::vector<TaskId>> tasksAt; // by time; original tasks in source order
  // By segment: what segments after it read of what it or one before it has made; and what it or
  // one before it reads of what segments after it make. Segment 0 stands for what is outside of the
  // step.
  std::vector<std::vector<StorageId>> in, out;
  // By segment: bytes that segments after it make, that it and those before it do not read, and
  // that live to the end.
  std::vector<int64_t> passing;
  IdVector<StorageId, uint32_t> lastRead; // time; 0: no original task reads it

  uint32_t backwardOf(uint32_t segment) const { return 2 * num + 1 - segment; }
  uint32_t end() const { return 2 * num + 1; }
};

// Each segment but the last ends where the fewest bytes go on to later forward tasks, after
// `leastTasks` of them at least and twice as many at most. None where the step has one segment
// only, or no order in which forward tasks read forward tasks alone. Linear in tasks, reads, and
// what goes on from segment to segment, but that for each backward task those are looked at that
// are up to eight reads before it.
std::optional<Segments> segmentsOf(const StorageGraph &g, uint32_t leastTasks);

} // namespace isthmus::plan
