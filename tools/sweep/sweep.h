// Plans, and optionally runs, a model at every point of an axis in every mode.
#pragma once

#include "tools/cli/console.h"
#include "tools/cli/interrupt.h"
#include "tools/sweep/trial.h"

namespace isthmus {

struct SweepSpec {
  SweepAxis axis = SweepAxis::Budget;
  std::vector<SweepBudget> budgets; // the points, over budgets
  std::vector<int64_t> counts;      // or over sizes
  ModelSizes fixed;                 // the size that is not swept
  std::vector<SweepMode> modes;
  bool runs = false;
  int steps = 1; // timed ones, of each row

  size_t points() const { return axis == SweepAxis::Budget ? budgets.size() : counts.size(); }
  ModelSizes sizesAt(int64_t count) const;
};

class Sweeping {
public:
  // All must outlive the sweep.
  Sweeping(const SweepSpec &spec, SweepSubject &subject, Device &device, SweepTable &table)
      : spec_(spec), subject_(subject), device_(device), table_(table),
        bar_("sweeping", spec.points() * spec.modes.size()) {}

  // Adds a row to the table for each plan. After an error or an interrupt, the table has the rows
  // that were complete.
  llvm::Error run();

private:
  struct Planned { // to be run
    size_t row;    // of the table
    Compiled plan;
    std::vector<double> seconds;
  };
  llvm::Error checkPoints();
  llvm::Error planPoint(size_t point, std::vector<Planned> &planned);
  llvm::Error planAt(size_t point, const SweepMode &mode, std::vector<Planned> &planned);
  llvm::Error runAll(std::vector<Planned> &planned);
  llvm::Error runOnce(Planned &p);
  void place(SweepRow &row, const std::optional<Compiled> &plan) const;

  const SweepSpec &spec_;
  SweepSubject &subject_;
  Device &device_;
  SweepTable &table_;
  InterruptNoted interrupt_;
  ProgressBar bar_;
};

} // namespace isthmus
