// A graph, the contents of its inputs, and the memory in which it runs.
#pragma once

#include "passes/compile/compile.h"
#include "runtime/executor.h"
#include <map>

namespace isthmus {

struct SessionOptions {
  int threads = 0;     // 0: one for each core
  bool lowers = false; // an original may be computed with another rounding
  uint64_t seed = 0;
};

class Session {
public:
  // `g` is verified.
  Session(Graph g, const SessionOptions &options);

  const Graph &graph() const { return graph_; } // as it was given

  // Sets the contents of an input for this and later steps. Errors: the type or shape does not fit.
  llvm::Error set(const Input &input, Tensor given);
  // The first step compiles the graph and allocates all memory.
  llvm::Error step(uint64_t number);
  bool hasRun() const { return hasRun_; }
  // The workspace of each node's kernel on this machine, in bytes, by node of the graph as it was
  // given.
  llvm::Expected<std::vector<int64_t>> workspaces() const;
  // After a step: an output by its index in the graph, and figures.
  llvm::Expected<Tensor> get(size_t output) const;
  const Figures &figures() const { return compiled_->figures; }
  int64_t measuredPeakBytes() const { return executor_->measuredPeakBytes(); }
  double stepSeconds() const { return stepSeconds_; }

private:
  llvm::Error prepare();

  const Graph graph_;
  const SessionOptions options_;
  std::unique_ptr<Device> device_;
  std::map<std::string, Tensor> given_; // inputs set before the executor exists
  std::optional<Compiled> compiled_;
  std::unique_ptr<Executor> executor_; // over compiled_ and device_
  bool hasRun_ = false;
  double stepSeconds_ = 0;
};

} // namespace isthmus
