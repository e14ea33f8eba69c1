// What a sweep finds: a row for each plan.
#pragma once

#include "passes/compile/figures.h"
#include "tools/sweep/axis.h"

namespace isthmus {

struct SweepRow {
  enum class State : uint8_t { Planned, NotMet, Failed };

  std::string at;   // on the axis, as it was typed: "16", "70%"
  std::string mode; // the line that it is part of
  double x = 0; // where to draw it: the number, the budget as a share of the baseline or in bytes
  State state = State::Failed;
  bool isPlanned = false;                   // also where its run failed
  std::string problem;                      // why there is no plan, or no run
  Figures figures;                          // of a plan all, else what is known
  std::optional<int64_t> measuredPeakBytes; // where it ran
  std::optional<double> stepSeconds;        // likewise: the median of its steps
  std::optional<bool> fits;                 // in the bytes of --fit

  int64_t totalBytes() const { return figures.arenaBytes + figures.persistentBytes; }
};

struct SweepTable {
  SweepAxis axis = SweepAxis::Budget;
  std::string model, options, device; // for titles
  bool isOfShares = false; // over budgets: every one is a share of the baseline, or `min`
  std::optional<int64_t> fitBytes;
  std::vector<std::string> modes; // in the order in which they were asked for
  std::vector<SweepRow> rows;
};

} // namespace isthmus
