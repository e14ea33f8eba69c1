// A graph as a program gave it, the contents that it set, and the session that runs it.
#pragma once

#include "passes/compile/compile.h"
#include "tools/session/open.h"
#include <map>

namespace isthmus {

struct GraphSessionOptions {
  int threads = 0;     // 0: one for each core
  bool lowers = false; // an original may be computed with another rounding
  uint64_t seed = 0;
};

class GraphSession {
public:
  // `g` is verified.
  GraphSession(Graph g, const GraphSessionOptions &options);

  const Graph &graph() const { return graph_; } // as it was given

  // Sets the contents of an input for this and later steps. Errors: the type or shape does not fit.
  llvm::Error set(const Input &input, Tensor given);
  // The first step compiles the graph and allocates all memory.
  llvm::Error step(uint64_t number);
  bool hasRun() const { return hasRun_; }
  // After a step: an output by its index in the graph, and figures.
  llvm::Expected<Tensor> get(size_t output) const;
  const Figures &figures() const { return compiled_->figures; }
  int64_t measuredPeakBytes() const { return session_->largestMeasuredPeak(); }
  double stepSeconds() const { return session_->stepSeconds(); }

private:
  llvm::Error prepare();

  const Graph graph_;
  const GraphSessionOptions options_;
  std::unique_ptr<Device> device_;
  std::map<std::string, Tensor> given_; // inputs set before the session exists
  std::optional<Compiled> compiled_;
  std::unique_ptr<Session> session_; // over compiled_ and device_
  bool hasRun_ = false;
};

} // namespace isthmus
