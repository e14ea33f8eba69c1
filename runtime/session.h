// What runs a compiled step: its executor, the contents of its inputs, and what it measures.
#pragma once

#include "runtime/executor.h"

namespace isthmus {

class Session {
public:
  // Allocates all memory and, if the device computes, feeds all inputs: with `inputs`, in the
  // graph's order, or where these are null or left out with their defaults (ir/default_input.h).
  // `seed` is that of random ops and of inputs that are drawn. `graph` and `device` must outlive
  // the session. Errors: those of Executor::create and of defaultInput.
  static llvm::Expected<std::unique_ptr<Session>> open(const Graph &graph, const Layout &layout,
                                                       Device &device, uint64_t seed,
                                                       std::vector<Tensor> inputs = {});

  // Runs the graph. Random ops draw by the seed and `number`. Checks that the measured peak is the
  // one that the layout has.
  llvm::Error step(uint64_t number, const std::function<void(size_t)> &progress = {});
  double stepSeconds() const { return stepSeconds_; } // of the last step

  // After a step: the sum of the loss's elements; none if no output is the loss, or the device does
  // not compute.
  llvm::Expected<std::optional<double>> loss();

  Executor &executor() { return *executor_; }

private:
  Session(const Graph &graph, const Layout &layout, Device &device, uint64_t seed)
      : graph_(graph), peakBytes_(layout.peakBytes), device_(device), seed_(seed) {}

  const Graph &graph_;
  const int64_t peakBytes_;
  Device &device_;
  const uint64_t seed_;
  std::unique_ptr<Executor> executor_;
  double stepSeconds_ = 0;
};

} // namespace isthmus
