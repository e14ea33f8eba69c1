// The results of a sweep: a row for each plan.
#pragma once

#include "passes/compile/figures.h"
#include "tools/sweep/axis.h"

namespace isthmus {

struct SweepRow {
  enum class State : uint8_t { Planned, NotMet, Failed };

  std::string at;   // the point on the axis, as typed: "16", "70%"
  std::string mode; // the line to which the row belongs
  double x = 0;     // on the axis: the number, or the budget as a share of the baseline or in bytes
  State state = State::Failed;
  bool isPlanned = false;                   // also if its run failed
  std::string problem;                      // why there is no plan, or no run
  Figures figures;                          // all with a plan; otherwise those known
  std::optional<int64_t> measuredPeakBytes; // if it ran
  std::optional<double> stepSeconds;        // if it ran: the median of its steps
  std::optional<bool> fits;                 // in the bytes of --fit

  int64_t totalBytes() const { return figures.arenaBytes + figures.persistentBytes; }
};

struct SweepTable {
  SweepAxis axis = SweepAxis::Budget;
  std::string model, options, device; // for titles
  bool isOfShares = false; // over budgets: every one is a share of the baseline, or `min`
  std::optional<int64_t> fitBytes;
  std::vector<std::string> modes; // in the order of the command line
  std::vector<SweepRow> rows;
};

} // namespace isthmus
