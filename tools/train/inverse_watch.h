// The step that is trained, and a watch over the errors of its inverses.
//
// An inverse that is accurate on the first step need not stay so: the parameters change. The watch
// measures the errors again at intervals. If one is above the limit, the step is planned again
// without that inverse, before the step is run that would have used it.
#pragma once

#include "passes/compile/accurate_inverses.h"
#include "tools/train/checkpoint.h"
#include "tools/train/train_report.h"

namespace isthmus {

struct TrainedStep {
  Compiled compiled;
  std::unique_ptr<Session> session; // runs `compiled`
  ValueId rate;                     // the input that receives the learning rate
};

class InverseWatch {
public:
  struct Options {
    CompileOptions compile; // of the step that is trained, with the first step that was measured
    uint64_t seed = 0;
    int64_t every = 0; // steps; 0: never again
    int64_t steps = 0; // of the whole run
  };
  // `step` is the step before it is planned, with its updates. All must outlive the watch.
  InverseWatch(const Graph &step, Device &device, Options o)
      : step_(step), device_(device), o_(std::move(o)) {}

  // Call it before each step, when all inputs are fed. After every `every` steps it measures, and
  // replaces `now` by a plan without the inverses that are too inaccurate; all inputs keep their
  // contents. The last step is measured too, but leads to no other plan: a longer run does not stop
  // there, and must plan anew at the same steps. Errors: those of the step that measures, and of
  // compile. If no session could be opened for the new plan, `now` has none.
  llvm::Error beforeStep(TrainedStep &now, RunState &state, TrainReport &report);

private:
  llvm::Expected<InverseMeasurement> measure(const TrainedStep &now, const RunState &state,
                                             llvm::ArrayRef<NamedTensor> inputs, bool all,
                                             TrainReport &report) const;
  llvm::Error planWithout(llvm::ArrayRef<std::string> values, TrainedStep &now, RunState &state,
                          llvm::ArrayRef<NamedTensor> inputs, TrainReport &report);

  const Graph &step_;
  Device &device_;
  Options o_;
};

} // namespace isthmus
