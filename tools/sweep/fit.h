// Finds the largest batch, or the deepest network, that fits in a number of bytes, by bisection
// over plans. Parameters, inputs and arena count, as in a machine's memory. Nothing is run.
#pragma once

#include "tools/sweep/sweep.h"

namespace isthmus {

struct FitAnswer {
  std::string mode;
  std::optional<size_t> largest, next; // rows: the largest that fits, and the next larger one tried
};

class Fitting {
public:
  // The candidates are `spec.counts`, which ascend. All arguments must outlive the search.
  Fitting(const SweepSpec &spec, SweepSubject &subject, Device &device, SweepTable &table);

  // Adds a row to the table for each plan that was tried, those of a mode in the order of sizes.
  // After an error the table and the answers have the results until then.
  llvm::Error run();
  const std::vector<FitAnswer> &answers() const { return answers_; }

private:
  llvm::Error search(const SweepMode &mode);
  llvm::Expected<bool> fits(size_t index, const SweepMode &mode);
  void settle(const SweepMode &mode, size_t firstRow);

  const SweepSpec &spec_;
  SweepSubject &subject_;
  Device &device_;
  SweepTable &table_;
  std::vector<FitAnswer> answers_;
  InterruptNoted interrupt_;
  ProgressBar bar_;
};

// The rows that prove the answers, for people.
SweepTable proofsOf(const std::vector<FitAnswer> &answers, const SweepTable &t);

// "linear: batch 1217 fits, in 9996736 bytes of 10000000 (...); 1218 takes 10002944".
std::string answerText(const FitAnswer &a, const SweepTable &t);

} // namespace isthmus
