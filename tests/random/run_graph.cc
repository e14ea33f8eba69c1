#include "tests/random/run_graph.h"

#include "kernels/cpu.h"
#include "kernels/plain/register.h"
#include "passes/place/place.h"
#include "runtime/cpu_device.h"
#include "runtime/executor.h"
#include "tests/testing/interpret.h"
#include <cmath>

namespace isthmus {
namespace {

const RandomKey kKey = {7, 1};

std::string differs(const Tensor &got, const Tensor &want, double tolerance) {
  std::vector<double> a = toDoubles(got), b = toDoubles(want);
  double largest = 1;
  for (double v : b)
    largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::fabs(a[i] - b[i]) <= tolerance * largest))
      return llvm::formatv("element {0} is {1}, expected {2}", i, floatText(a[i]), floatText(b[i]));
  return "";
}

std::string output(const Graph &g, size_t i) {
  return "output '" + g.valueName(g.outputs()[i]).str() + "'";
}

} // namespace

std::string valuesDiffer(const Graph &g, llvm::ArrayRef<Tensor> got, llvm::ArrayRef<Tensor> want,
                         double tolerance) {
  for (size_t i = 0; i < want.size(); ++i) {
    std::string d = differs(got[i], want[i], isFloat(want[i].type.dtype) ? tolerance : 0);
    if (!d.empty())
      return output(g, i) + ": " + d;
  }
  return "";
}

std::string bitsDiffer(const Graph &g, llvm::ArrayRef<Tensor> got, llvm::ArrayRef<Tensor> want) {
  for (size_t i = 0; i < want.size(); ++i)
    if (!sameBits(got[i], want[i])) {
      std::string d = differs(got[i], want[i], 0);
      return output(g, i) + " has other bits: " + (d.empty() ? "a sign of zero" : d);
    }
  return "";
}

std::string notFinite(const Graph &g, llvm::ArrayRef<Tensor> values) {
  for (size_t i = 0; i < values.size(); ++i)
    for (double v : toDoubles(values[i]))
      if (!std::isfinite(v))
        return output(g, i) + " is not finite";
  return "";
}

std::string errorsOf(Outputs &a, Outputs &b) {
  std::string what = a ? "" : llvm::toString(a.takeError());
  return what + (b ? "" : llvm::toString(b.takeError()));
}

GraphRunner::GraphRunner() {
  registerPlainKernels(plain_);
  plainDevice_ = makeCpuDevice(plain_, {2});
  fastDevice_ = makeCpuDevice(cpuKernels(), {2});
}

Outputs GraphRunner::reference(const Graph &g, const NamedTensors &inputs) {
  return interpret(plain_, g, byValue(g, inputs), {1, kKey});
}

RandomKey GraphRunner::key() { return kKey; }

Outputs GraphRunner::execute(const Graph &g, Device &device, const NamedTensors &inputs,
                             std::optional<int64_t> peak) {
  auto layout = place(g, device.target());
  if (!layout)
    return layout.takeError();
  if (peak && layout->peakBytes != *peak)
    return makeError("the layout's peak is {0}, predicted were {1}", layout->peakBytes, *peak);
  auto e = Executor::create(g, *layout, device);
  if (!e)
    return e.takeError();
  for (const Input &i : g.inputs())
    if (llvm::Error error = (*e)->feed(i.value, inputs.at(g.valueName(i.value).str())))
      return error;
  for (int step = 0; step < 2; ++step)
    if (llvm::Error error = (*e)->step(kKey))
      return error;
  if ((*e)->measuredPeakBytes() != layout->peakBytes)
    return makeError("the measured peak is {0}, that of the layout {1}", (*e)->measuredPeakBytes(),
                     layout->peakBytes);
  std::vector<Tensor> out;
  for (ValueId v : g.outputs()) {
    auto t = (*e)->fetch(v);
    if (!t)
      return t.takeError();
    out.push_back(*t);
  }
  return out;
}

std::string GraphRunner::executorDiffers(const Graph &g, const NamedTensors &inputs) {
  auto want = reference(g, inputs), got = execute(g, plain(), inputs);
  if (!want || !got)
    return errorsOf(want, got);
  return bitsDiffer(g, *got, *want);
}

} // namespace isthmus
