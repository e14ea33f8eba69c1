// The tasks of a pipeline, and the order in which its devices run them.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <vector>

namespace isthmus {

enum class StageOrder : uint8_t {
  GPipe,       // all micro-batches forward, then all backward (Huang et al., GPipe, 2019)
  OneFOneB,    // backward as soon as possible (PipeDream-flush, Narayanan et al., 2021)
  Interleaved, // the same where a device has several stages (Megatron-LM, Narayanan et al., 2021)
  ZeroBubble   // gradients of weights wait for a bubble (H1 of Qi et al., Zero Bubble, 2023)
};
constexpr StageOrder kStageOrders[] = {StageOrder::GPipe, StageOrder::OneFOneB,
                                       StageOrder::Interleaved, StageOrder::ZeroBubble};
llvm::StringRef stageOrderName(StageOrder o); // "gpipe", "1f1b", "interleaved", "zero-bubble"

enum class TaskKind : uint8_t { Forward, Backward, Weights };

// The work of one kind of one stage on one micro-batch.
struct PipelineTask {
  uint32_t stage = 0, batch = 0;
  TaskKind kind = TaskKind::Forward;
  double seconds = 0;
};

// PipelineTasks, and what each needs: other tasks, and the time of the message from them.
struct PipelineTasks {
  struct Need {
    uint32_t task;
    double seconds;
  };
  std::vector<PipelineTask> all;
  std::vector<uint32_t> firstNeed{0}; // by task, and the end of the last one's
  std::vector<Need> needs;

  uint32_t add(const PipelineTask &t, llvm::ArrayRef<Need> its) {
    all.push_back(t);
    needs.insert(needs.end(), its.begin(), its.end());
    firstNeed.push_back(uint32_t(needs.size()));
    return uint32_t(all.size() - 1);
  }
  llvm::ArrayRef<Need> needsOf(uint32_t task) const {
    return llvm::ArrayRef<Need>(needs).slice(firstNeed[task],
                                             firstNeed[task + 1] - firstNeed[task]);
  }
};

// The tasks in the order in which they begin. Stage s runs on device s % devices. Each device runs
// its forward and backward tasks in the order of the schedule; tasks for weights fill its waits.
std::vector<uint32_t> tasksInOrder(const PipelineTasks &tasks, StageOrder order, uint32_t devices);

} // namespace isthmus
