// The library's road as the user meets it: a bar while a plan is searched for, Ctrl-C that ends the
// search with the best so far, notes on the console, and a report in any case.
#pragma once

#include "passes/compile/compile.h"
#include "tools/cli/console.h"
#include "tools/cli/feeds.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/options.h"
#include <map>

namespace isthmus {

struct Report : Figures {
  std::vector<int64_t> measuredPeakBytes;   // empty, or of the run
  std::optional<int64_t> deviceMemoryBytes; // what the device had less after the run, by its count
  std::vector<double> stepSeconds, loss;
  std::map<std::string, size_t> kernels;   // of the run: nodes by the library that ran them
  std::optional<size_t> substituteKernels; // nodes on a slow kernel in place of a library's
  std::vector<std::string> deviceNotes;
  // Of what is rebuilt, by name: how far its inverse was from it on the first step, as a share of
  // its largest element.
  std::map<std::string, double> inverseErrors;

  Report() = default;
  explicit Report(const Figures &f) : Figures(f) {}
};

// How many inverses there are, and how far they were off on the first step.
std::string inversesText(const Report &r);

// Writes it whole or not at all; an empty path writes nothing.
llvm::Error writeReport(const Report &r, const std::string &path);

Wrt wrtOf(const std::string &text); // of --wrt

// What the flags ask of the library. `given` tells the type of the labels.
llvm::Expected<CompileOptions> compileOptions(const ModelOptions &model, const PlanFlags &plan,
                                              const GivenInputs &given);

// compile(), watched. What is known of a plan that was not found goes to `reportPath`, if that is
// not empty.
llvm::Expected<Compiled> compiled(Graph g, CompileOptions o, const Target &target,
                                  const std::string &reportPath = "");

// Shows a search for a plan, and notes an interrupt. Must outlive the search.
class WatchedSearch {
public:
  WatchedSearch() : bar_("planning", kParts) {}
  bool wasInterrupted() const { return interrupt_.happened(); }
  // False once there was an interrupt.
  std::function<bool(const plan::SearchProgress &)> progress();

private:
  InterruptNoted interrupt_;
  static constexpr size_t kParts = 1000;
  ProgressBar bar_;
};

// After the products of an interrupted search are written.
llvm::Error interruptedError();

} // namespace isthmus
