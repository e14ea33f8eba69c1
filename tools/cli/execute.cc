#include "tools/cli/execute.h"

#include "tools/cli/console.h"
#include "tools/cli/processes.h"

namespace isthmus {

llvm::Expected<std::unique_ptr<Session>> fedSession(const Compiled &c, Device &device,
                                                    const ExecuteOptions &o) {
  std::vector<Tensor> inputs;
  if (device.computes())
    if (llvm::Error e = makeInputs(c.graph, o.inputs, o.seed).moveInto(inputs))
      return e;
  std::vector<std::string> sources;
  if (processGroup())
    sources = sourcesOfInputs(c.graph, o.inputs, o.seed);
  return openSession(c, device, o.seed, std::move(inputs), processGroup(), sources);
}

llvm::Expected<std::unique_ptr<Session>> execute(const Compiled &c, Device &device,
                                                 const ExecuteOptions &o, Report &report) {
  auto before = device.memory();
  if (!before)
    return before.takeError();
  auto s = fedSession(c, device, o);
  if (!s)
    return s.takeError();
  auto tell = [&] {
    for (const std::string &note : device.takeNotes()) {
      Console::get().note(note);
      report.deviceNotes.push_back(note);
    }
  };
  ProgressBar bar("running", c.graph.numNodes() * size_t(o.steps));
  for (int step = 0; step < o.steps; ++step) {
    auto progress = [&](size_t done) { bar.at(c.graph.numNodes() * size_t(step) + done); };
    // Repeats the same step: random ops are keyed by step 0.
    llvm::Error failed = (*s)->step(0, progress);
    tell();
    if (failed)
      return failed;
    report.stepSeconds.push_back((*s)->stepSeconds());
    auto loss = (*s)->loss();
    if (!loss)
      return loss.takeError();
    if (*loss)
      report.loss.push_back(**loss);
  }
  auto after = device.memory();
  if (!after)
    return after.takeError();
  if (*before && *after)
    report.deviceMemoryBytes = (*before)->freeBytes - (*after)->freeBytes;
  report.measuredPeakBytes = {(*s)->largestMeasuredPeak()};
  report.measured = {(*s)->measuredPeakBytes(), (*s)->busySeconds()};
  KernelCounts counts = (*s)->kernelCounts();
  report.kernels = std::move(counts.byLibrary);
  report.substituteKernels = counts.substitutes;
  return s;
}

} // namespace isthmus
