// A graph, what its inputs hold, and the memory that it runs in.
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

  // What an input holds from now on. Errors: it does not suit.
  llvm::Error set(const Input &input, Tensor given);
  // Everything is compiled and allocated by the first one.
  llvm::Error step(uint64_t number);
  bool hasRun() const { return hasRun_; }
  // Of each node's kernel on this machine, as the graph was given.
  llvm::Expected<std::vector<int64_t>> workspaces() const;
  // After a step: an output by its place in the graph, and figures.
  llvm::Expected<Tensor> get(size_t output) const;
  const Figures &figures() const { return compiled_->figures; }
  int64_t measuredPeakBytes() const { return executor_->measuredPeakBytes(); }
  double stepSeconds() const { return stepSeconds_; }

private:
  llvm::Error prepare();

  const Graph graph_;
  const SessionOptions options_;
  std::unique_ptr<Device> device_;
  std::map<std::string, Tensor> given_; // until there is memory for them
  std::optional<Compiled> compiled_;
  std::unique_ptr<Executor> executor_; // over compiled_ and device_
  bool hasRun_ = false;
  double stepSeconds_ = 0;
};

} // namespace isthmus
