// Divides a training step into segments, each nested in the one before: the forward part of the
// first segment of a network comes before all of the others' tasks, and its backward part after
// them. Standard library only.
#pragma once

#include "passes/plan/storages/storage_graph.h"

#include <optional>

namespace isthmus::plan {

// Segments are numbered from 1. Each segment has two times: its number k for its forward part, and
// 2 * num + 1 - k for its backward part.
struct Segments {
  uint32_t num = 0;
  std::vector<std::vector<TaskId>> tasksAt; // by time; original tasks in source order
  // By segment. `in`: storages that it or an earlier segment makes and later segments read. `out`:
  // storages that later segments make and it or an earlier segment reads. Segment 0 stands for
  // everything outside the step.
  std::vector<std::vector<StorageId>> in, out;
  // By segment: bytes of storages that later segments make and that live to the end, but that
  // neither it nor earlier segments read.
  std::vector<int64_t> passing;
  IdVector<StorageId, uint32_t> lastRead; // a time; 0: no original task reads it

  uint32_t backwardOf(uint32_t segment) const { return 2 * num + 1 - segment; }
  uint32_t end() const { return 2 * num + 1; }
};

// Each segment but the last ends where the fewest bytes cross to later forward tasks, after
// `leastTasks` to twice as many forward tasks; with 0, each has one forward task. None if the step
// has only one segment, or if a task would read a storage made at a later time. Linear in tasks,
// reads and storages that cross segments, except that for each backward task the tasks up to eight
// reads before it are examined.
std::optional<Segments> segmentsOf(const StorageGraph &g, uint32_t leastTasks);

} // namespace isthmus::plan
