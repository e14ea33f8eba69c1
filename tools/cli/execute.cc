#include "tools/cli/execute.h"

#include "ir/element.h"
#include "passes/checkpoint/bottlenecks.h"
#include "tools/cli/console.h"
#include <chrono>

namespace isthmus {
namespace {

// The value that is differentiated if a loss has several elements.
double sumOf(const Tensor &t) {
  double sum = 0;
  for (int64_t i = 0, n = t.type.elements(); i < n; ++i)
    sum += elementAsDouble(t, i);
  return sum;
}

} // namespace

llvm::Expected<std::unique_ptr<Executor>> fedExecutor(const Compiled &c, Device &device,
                                                      const ExecuteOptions &o) {
  if (!device.computes())
    return Executor::create(c.graph, c.layout, device);
  auto inputs = makeInputs(c.graph, o.inputs, o.seed);
  if (!inputs)
    return inputs.takeError();
  return Executor::create(c.graph, c.layout, device, *inputs);
}

llvm::Expected<std::unique_ptr<Executor>> execute(const Compiled &c, Device &device,
                                                  const ExecuteOptions &o, Report &report) {
  auto before = device.memory();
  if (!before)
    return before.takeError();
  auto e = fedExecutor(c, device, o);
  if (!e)
    return e.takeError();

  ValueId loss = lossOf(c.graph);
  bool fetchesLoss = loss && device.computes() && isFloat(c.graph.type(loss).dtype) &&
                     llvm::is_contained(c.graph.outputs(), loss);
  auto tell = [&] {
    for (const std::string &note : device.takeNotes()) {
      Console::get().note(note);
      report.deviceNotes.push_back(note);
    }
  };
  ProgressBar bar("running", c.graph.numNodes() * size_t(o.steps));
  for (int step = 0; step < o.steps; ++step) {
    auto start = std::chrono::steady_clock::now();
    auto progress = [&](size_t done) { bar.at(c.graph.numNodes() * size_t(step) + done); };
    // Repeats the same step: random ops are keyed by step 0.
    llvm::Error failed = (*e)->step({o.seed, 0}, progress);
    tell();
    if (failed)
      return failed;
    report.stepSeconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (fetchesLoss) {
      auto value = (*e)->fetch(loss);
      if (!value)
        return value.takeError();
      report.loss.push_back(sumOf(*value));
    }
  }
  auto after = device.memory();
  if (!after)
    return after.takeError();
  if (*before && *after)
    report.deviceMemoryBytes = (*before)->freeBytes - (*after)->freeBytes;
  report.measuredPeakBytes = {(*e)->measuredPeakBytes()};
  KernelCounts counts = (*e)->kernelCounts();
  report.kernels = std::move(counts.byLibrary);
  report.substituteKernels = counts.substitutes;
  if ((*e)->measuredPeakBytes() != report.predictedPeakBytes)
    return internalError("the measured peak is {0} bytes, the predicted one {1}",
                         (*e)->measuredPeakBytes(), report.predictedPeakBytes);
  return e;
}

} // namespace isthmus
