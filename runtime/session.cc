#include "runtime/session.h"

#include "ir/default_input.h"
#include "ir/element.h"
#include "ir/loss_value.h"
#include "llvm/ADT/STLExtras.h"
#include <chrono>

namespace isthmus {

llvm::Expected<std::unique_ptr<Session>> Session::open(const Graph &graph, const Layout &layout,
                                                       Device &device, uint64_t seed,
                                                       std::vector<Tensor> inputs) {
  std::unique_ptr<Session> s(new Session(graph, layout, device, seed));
  inputs.resize(device.computes() ? graph.inputs().size() : 0);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i])
      inputs[i] = graph.inputs()[i].init.data; // read in place
  if (llvm::Error e = Executor::create(graph, layout, device, inputs).moveInto(s->executor_))
    return e;
  // Default inputs are drawn after the memory for them was allocated.
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i])
      continue;
    const Input &input = graph.inputs()[i];
    auto t = defaultInput(graph, input, seed);
    if (!t)
      return t.takeError();
    if (llvm::Error e = s->executor_->feed(input.value, *t))
      return e;
  }
  return s;
}

llvm::Error Session::step(uint64_t number, const std::function<void(size_t)> &progress) {
  const auto start = std::chrono::steady_clock::now();
  if (llvm::Error e = executor_->step({seed_, number}, progress))
    return e;
  stepSeconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (executor_->measuredPeakBytes() != peakBytes_)
    return internalError("the measured peak is {0} bytes, the predicted one {1}",
                         executor_->measuredPeakBytes(), peakBytes_);
  return llvm::Error::success();
}

llvm::Expected<std::optional<double>> Session::loss() {
  const ValueId loss = lossOf(graph_);
  if (!loss || !device_.computes() || !isFloat(graph_.type(loss).dtype) ||
      !llvm::is_contained(graph_.outputs(), loss))
    return std::nullopt;
  auto value = executor_->fetch(loss);
  if (!value)
    return value.takeError();
  double sum = 0;
  for (int64_t i = 0, n = value->type.elements(); i < n; ++i)
    sum += elementAsDouble(*value, i);
  return sum;
}

} // namespace isthmus
