// What runs a compiled step: the executors of its devices, the contents of its inputs, and what it
// measures.
#pragma once

#include "runtime/executor.h"
#include "runtime/process_group.h"

namespace isthmus {

// What one device of a step runs. Inputs and outputs are those of the whole graph, by index.
struct SessionProgram {
  std::string device;
  const Graph *graph;
  const Layout *layout;
  llvm::ArrayRef<uint32_t> inputs, outputs;
};

class Session {
public:
  // Allocates all memory and, if the device computes, feeds all inputs: with `inputs`, in the
  // graph's order, or where these are null or left out with their defaults (ir/default_input.h).
  // `seed` is that of random ops and of inputs that are drawn. `graph` and `device` must outlive
  // the session. Errors: those of Executor::create and of defaultInput.
  static llvm::Expected<std::unique_ptr<Session>> open(const Graph &graph, const Layout &layout,
                                                       Device &device, uint64_t seed,
                                                       std::vector<Tensor> inputs = {});
  // The same for the programs of `graph`, which run beside one another, each on a thread of its
  // own: that of `device`'s name on it, the others on devices like it. Programs must outlive the
  // session. Errors also: a device that is of another kind.
  //
  // With a group, each process runs one program, that of its rank, on `device`, and all processes
  // open the same programs. Then opening, `step`, `loss`, `fetch` and `anyOf` are collective (process_group.h),
  // and all processes get the same results. The group must outlive the session. Errors also: more
  // or fewer programs than processes.
  static llvm::Expected<std::unique_ptr<Session>>
  open(const Graph &graph, std::vector<SessionProgram> programs, Device &device, uint64_t seed,
       std::vector<Tensor> inputs = {}, ProcessGroup *group = nullptr);
  ~Session();

  // Runs the graph. Random ops draw by the seed and `number`. Checks that the measured peaks are
  // those that the layouts have. `progress`, if set, is called with the number of nodes done. If a
  // device fails, the others end too, and the error is that of the first.
  llvm::Error step(uint64_t number, const std::function<void(size_t)> &progress = {});
  double stepSeconds() const { return stepSeconds_; } // of the last step
  // By device: the seconds of the last step in which it did not wait for messages.
  std::vector<double> busySeconds() const;

  // After a step: the sum of the loss's elements; none if no output is the loss, or the device does
  // not compute.
  llvm::Expected<std::optional<double>> loss();

  // Inputs and outputs of the whole graph, as the executor of a device has them (executor.h).
  llvm::Error feed(ValueId v, const Tensor &t);
  llvm::Expected<Tensor> fetch(ValueId v);
  llvm::Error carryState();

  // Whether it is so in any of the processes.
  llvm::Expected<bool> anyOf(bool isSo);

  // After a step.
  KernelCounts kernelCounts() const;
  std::vector<int64_t> measuredPeakBytes() const; // by device
  int64_t largestMeasuredPeak() const;

  // The only device's.
  Executor &executor();

private:
  struct Part;
  class Workers;
  Session(const Graph &graph, Device &device, uint64_t seed, ProcessGroup *group);
  llvm::Error addPart(const SessionProgram &program, size_t numPrograms,
                      std::unique_ptr<Transport> transport, llvm::ArrayRef<Tensor> inputs);
  bool isWhole() const;
  llvm::Error feedDefaults(llvm::ArrayRef<Tensor> inputs);
  llvm::Error stepAll(uint64_t number, const std::function<void(size_t)> &progress);
  llvm::Error stepOwn(uint64_t number, const std::function<void(size_t)> &progress);
  llvm::Error shareFigures();
  llvm::Error shareKernelCounts();
  llvm::Expected<Tensor> fetchFrom(size_t part, ValueId v, ValueId own);

  const Graph &graph_;
  Device &device_;
  const uint64_t seed_;
  ProcessGroup *const group_;                // null: this process runs all programs
  std::vector<std::unique_ptr<Part>> parts_; // by device
  std::unique_ptr<Workers> workers_;         // null with one device, or one in this process
  bool hasSharedCounts_ = false;
  double stepSeconds_ = 0;
};

} // namespace isthmus
