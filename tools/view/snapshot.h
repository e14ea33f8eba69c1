// A snapshot of PyTorch's allocator on a GPU, as torch.cuda.memory._dump_snapshot writes it.
#pragma once

#include "tools/view/step_table.h"
#include <optional>

namespace isthmus {

struct Snapshot {
  enum class Action : uint8_t {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    Other // out of memory, notes
  };
  // What asked for the memory: lines of the program, the innermost last, divided by kDivider.
  struct Event {
    Action action = Action::Other;
    std::string text; // of the action
    uint64_t address = 0;
    int64_t bytes = 0, timeUs = 0;
    std::string path;
  };
  struct Block {
    uint64_t address = 0;
    int64_t bytes = 0;
    bool isFreed = false; // a stream may still use it
    std::string path;
  };
  struct Segment {
    uint64_t address = 0;
    int64_t bytes = 0;
    std::vector<Block> blocks; // that are in use
  };
  static constexpr char kDivider = '\n';

  size_t device = 0; // that with the most bytes
  size_t devices = 0;
  std::vector<Segment> segments; // at the end
  std::vector<Event> trace;
};

// Reads a pickle. Errors tell the place, what was expected and what was found.
llvm::Expected<Snapshot> readSnapshot(llvm::StringRef data);

// The figures of a snapshot.
struct SnapshotFigures {
  int64_t reservedBytes = 0;  // the most that segments took
  int64_t allocatedBytes = 0; // the most that was in use
  int64_t unusedBytes = 0;    // of segments where they took most
  size_t segments = 0;        // at the end
  size_t outOfMemory = 0;     // events
  size_t unmatched = 0;       // events that do not fit what was there before
};

struct SnapshotStep {
  StepTable step; // a node for each event, after one for the beginning of the recording
  SnapshotFigures figures;
};
// Errors: sizes that add up to more than 2^53 bytes.
llvm::Expected<SnapshotStep> stepOf(const Snapshot &s);

// Whether a file is a snapshot, by its name.
bool isSnapshotName(llvm::StringRef path);

} // namespace isthmus
