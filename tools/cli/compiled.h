// Runs the library's pipeline for a user: a bar during the search for a plan, Ctrl-C that ends the
// search with the best plan so far, notes on the console, and a report in any case.
#pragma once

#include "passes/compile/compile.h"
#include "tools/cli/console.h"
#include "tools/cli/feeds.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/options.h"
#include <map>

namespace isthmus {

struct Report : Figures {
  std::vector<int64_t> measuredPeakBytes;   // of the run; empty if nothing ran
  std::optional<int64_t> deviceMemoryBytes; // taken by the run, by the device's own count
  std::vector<double> stepSeconds, loss;
  struct {
    std::vector<int64_t> peakBytes;
    std::vector<double> busySeconds; // of the last step
  } measured; // by device
  std::map<std::string, size_t> kernels;   // of the run: the number of nodes by library
  std::optional<size_t> substituteKernels; // nodes on a slow kernel that replaces a library's
  std::vector<std::string> deviceNotes;

  Report() = default;
  explicit Report(const Figures &f) : Figures(f) {}
};

// The number of inverses, and their largest error on the first step.
std::string inversesText(const Report &r);

// Writes it whole or not at all; an empty path writes nothing.
llvm::Error writeReport(const Report &r, const std::string &path);

// The options of the library for the flags. `given` decides the type of the labels.
llvm::Expected<CompileOptions> compileOptions(const ModelOptions &model, const PlanFlags &plan,
                                              const GivenInputs &given);

// Runs compile() with a bar and notes. If no plan is found, the figures known until then go to
// `reportPath`, unless it is empty.
llvm::Expected<Compiled> compiled(Graph g, CompileOptions o, const Target &target,
                                  const std::string &reportPath = "");

// An error where the step runs on several devices, for a verb that looks at one.
llvm::Error checkOneDevice(const Compiled &c, llvm::StringRef verb);

// Shows the progress of a search for a plan, and notes an interrupt. Must outlive the search.
class WatchedSearch {
public:
  WatchedSearch() : bar_("planning", kParts) {}
  bool wasInterrupted() const { return interrupt_.happened(); }
  // To be called after the search: what follows an interrupt then takes the time that it needs.
  void ended() { interrupt_.setHasResult(true); }
  // The function returns false after an interrupt.
  std::function<bool(const plan::SearchProgress &)> progress();

private:
  InterruptNoted interrupt_;
  static constexpr size_t kParts = 1000;
  ProgressBar bar_;
};

// The error to return after the results of an interrupted search are written.
llvm::Error interruptedError();

} // namespace isthmus
