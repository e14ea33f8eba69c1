// The errors of a plan's inverses, measured on a step, and plans whose inverses are accurate
// enough.
#pragma once

#include "passes/compile/compile.h"

namespace isthmus {

// After this many plans all inaccurate inverses are excluded at once, not only the first of each
// chain.
constexpr int kRoundsOfFirsts = 6;

// By name of a value that is inverted: the largest error of its inverses, as a share of the value's
// largest element.
using ErrorsOfInverses = std::map<std::string, double>;

// The largest of all, NaN being larger than any number; null if there is none.
const ErrorsOfInverses::value_type *largestError(const ErrorsOfInverses &errors);

struct InverseMeasurement {
  ErrorsOfInverses errors;
  // The values whose inverse has an error above the limit: the first of each chain of inverses,
  // since it may cause the errors of the others; or all of them.
  std::vector<std::string> tooFar;
};
struct MeasureOptions {
  double most = 1e-3;               // the limit
  bool all = false;                 // `tooFar` has all values, not only the first of each chain
  int64_t mostElements = INT64_MAX; // that are compared of a value (withInverseErrors)
};
// `g` is a rewritten graph, and `run` runs the step with what measures. Errors: those of the step.
llvm::Expected<InverseMeasurement> measuredInverses(const Graph &g, const FirstStep &run,
                                                    const MeasureOptions &o);

// As `planned` (planning.h). If the plan has inverses, runs the first step of `o.firstStep` with
// and without them: values whose inverse is too inaccurate are excluded from inversion, and the
// plan is made again, until all are accurate. Errors: those of `planned` and of the step.
llvm::Expected<Compiled> plannedAccurately(Graph given, CompileOptions o, const Target &target);

} // namespace isthmus
