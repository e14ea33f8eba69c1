// Runs random graphs in two ways that share only the kernels, and compares results.
#pragma once

#include "ir/graph.h"
#include "runtime/device.h"
#include "tools/random/draw_inputs.h"
#include <memory>
#include <string>

namespace isthmus {

class GraphRunner {
public:
  GraphRunner();

  static RandomKey key(); // of all steps
  Device &plain() { return *plainDevice_; }
  Device &fast() { return *fastDevice_; }

  // The outputs by the interpreter on the plain kernels.
  llvm::Expected<std::vector<Tensor>> reference(const Graph &g, const NamedTensors &inputs);

  // The executor's outputs after two steps in one arena, so that the second step finds the bytes of
  // the first there. The layout's peak and the measured peak must be `peak`, if it is given.
  llvm::Expected<std::vector<Tensor>> execute(const Graph &g, Device &device,
                                              const NamedTensors &inputs,
                                              std::optional<int64_t> peak = {});

  // Returns "", or how the executor's outputs with the plain kernels differ from the interpreter's.
  std::string executorDiffers(const Graph &g, const NamedTensors &inputs);

private:
  KernelTable plain_;
  std::unique_ptr<Device> plainDevice_, fastDevice_;
};

// Each returns "", or at which output of `g` the tensors differ, and how.
// valuesDiffer  floats that differ by more than `tolerance` times the larger of 1 and the
// tensor's largest element; other elements that differ at all
// bitsDiffer    different bits
// notFinite     an infinity or a NaN
std::string valuesDiffer(const Graph &g, llvm::ArrayRef<Tensor> got, llvm::ArrayRef<Tensor> want,
                         double tolerance);
std::string bitsDiffer(const Graph &g, llvm::ArrayRef<Tensor> got, llvm::ArrayRef<Tensor> want);
std::string notFinite(const Graph &g, llvm::ArrayRef<Tensor> values);

// The errors of two runs.
using Outputs = llvm::Expected<std::vector<Tensor>>;
std::string errorsOf(Outputs &a, Outputs &b);

} // namespace isthmus
