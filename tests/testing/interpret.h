// Runs a graph node by node on host tensors, in order. Each result has memory of its own. Only the
// kernels are shared with the executor, so that the executor can be compared with the interpreter.
#pragma once

#include "ir/graph.h"
#include "runtime/kernel.h"
#include "llvm/ADT/DenseMap.h"

namespace isthmus {

struct InterpretOptions {
  int threads = 1;
  RandomKey random;
};

// The results of one call; those of a view share the operand's bytes. Error: there is no kernel for
// the call.
llvm::Expected<std::vector<Tensor>> interpretCall(const KernelTable &kernels, const OpCall &call,
                                                  llvm::ArrayRef<Tensor> operands,
                                                  const InterpretOptions &options = {});

// The values of the graph's outputs, in their order. `inputs` must hold every graph input.
llvm::Expected<std::vector<Tensor>> interpret(const KernelTable &kernels, const Graph &g,
                                              const llvm::DenseMap<ValueId, Tensor> &inputs,
                                              const InterpretOptions &options = {});

// Makes these the graph's only outputs.
inline void setOutputs(Graph &g, llvm::ArrayRef<ValueId> outputs) {
  const std::vector<ValueId> all(outputs.begin(), outputs.end()); // they may be the graph's own
  g.clearOutputs();
  for (ValueId v : all)
    g.addOutput(v);
}

} // namespace isthmus
