// How random graphs are run, in two ways that share nothing but kernels, and how results compare.
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

  Device &plain() { return *plainDevice_; }
  Device &fast() { return *fastDevice_; }

  // The outputs by the interpreter on the plain kernels.
  llvm::Expected<std::vector<Tensor>> reference(const Graph &g, const NamedTensors &inputs);

  // The outputs by the executor, after two steps in one arena, so that the second finds what the
  // first left there. The layout's peak must be `peak`, where given, and the measured one too.
  llvm::Expected<std::vector<Tensor>> execute(const Graph &g, Device &device,
                                              const NamedTensors &inputs,
                                              std::optional<int64_t> peak = {});

  // "", or how the executor's outputs on the plain kernels differ from the interpreter's.
  std::string executorDiffers(const Graph &g, const NamedTensors &inputs);

private:
  KernelTable plain_;
  std::unique_ptr<Device> plainDevice_, fastDevice_;
};

// Each gives "", or at which output of `g` the tensors differ, and how.
//   valuesDiffer  floats apart by more than the share `tolerance` of the tensor's largest element,
//                 or of one; all others apart at all
//   bitsDiffer    other bits
//   notFinite     an infinity or a NaN
std::string valuesDiffer(const Graph &g, llvm::ArrayRef<Tensor> got, llvm::ArrayRef<Tensor> want,
                         double tolerance);
std::string bitsDiffer(const Graph &g, llvm::ArrayRef<Tensor> got, llvm::ArrayRef<Tensor> want);
std::string notFinite(const Graph &g, llvm::ArrayRef<Tensor> values);

// What went wrong in either of two runs.
using Outputs = llvm::Expected<std::vector<Tensor>>;
std::string errorsOf(Outputs &a, Outputs &b);

} // namespace isthmus
