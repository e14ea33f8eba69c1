#include "tools/sweep/table.h"

#include "ir/attr.h"
#include "ir/units.h"
#include "tools/cli/table.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <functional>

namespace isthmus {
namespace {

struct Column {
  std::string name;
  std::function<std::string(const SweepRow &)> cell;
};

std::string stateText(const SweepRow &r) {
  return r.state == SweepRow::State::Planned  ? "planned"
         : r.state == SweepRow::State::NotMet ? "cannot be met"
                                              : "failed";
}

// A column that is empty without a plan.
template <typename Text> auto ofPlan(Text text) {
  return [text](const SweepRow &r) { return r.isPlanned ? text(r) : std::string(); };
}

// A column that is known once the graph is compiled, with or without a plan.
template <typename Text> auto ofGraph(Text text) {
  return [text](const SweepRow &r) {
    return r.figures.baselinePeakBytes > 0 ? text(r.figures) : std::string();
  };
}

std::vector<Column> csvColumns(const SweepTable &t) {
  auto bytes = [](int64_t Figures::*figure) {
    return [figure](const SweepRow &r) { return std::to_string(r.figures.*figure); };
  };
  auto graphBytes = [](int64_t Figures::*figure) {
    return ofGraph([figure](const Figures &f) { return std::to_string(f.*figure); });
  };
  auto maybe = [](const std::optional<int64_t> &n) { return n ? std::to_string(*n) : ""; };
  return {
      {axisName(t.axis).str(), [](const SweepRow &r) { return r.at; }},
      {"policy", [](const SweepRow &r) { return r.mode; }},
      {"baseline_peak_bytes", graphBytes(&Figures::baselinePeakBytes)},
      {"predicted_peak_bytes", ofPlan(bytes(&Figures::predictedPeakBytes))},
      {"measured_peak_bytes", [maybe](const SweepRow &r) { return maybe(r.measuredPeakBytes); }},
      {"recompute_overhead",
       ofPlan([](const SweepRow &r) { return floatText(r.figures.recomputeOverhead); })},
      {"step_seconds",
       [](const SweepRow &r) { return r.stepSeconds ? floatText(*r.stepSeconds) : ""; }},
      {"arena_bytes", ofPlan(bytes(&Figures::arenaBytes))},
      {"persistent_bytes", graphBytes(&Figures::persistentBytes)},
      {"smallest_budget_bytes",
       [maybe](const SweepRow &r) { return maybe(r.figures.smallestBudgetBytes); }},
      {"policy_used",
       ofPlan([](const SweepRow &r) { return plannedByText(r.figures.policyUsed).str(); })},
      {"clones", ofPlan([](const SweepRow &r) { return std::to_string(r.figures.clones); })},
      {"inversions",
       ofPlan([](const SweepRow &r) { return std::to_string(r.figures.inversions); })},
      {"plan_seconds", ofPlan([](const SweepRow &r) { return floatText(r.figures.planSeconds); })},
      {"fits", [](const SweepRow &r) { return !r.fits   ? ""
                                              : *r.fits ? "yes"
                                                        : "no"; }},
      {"state", stateText},
      {"problem", [](const SweepRow &r) { return r.problem; }},
  };
}

std::vector<Column> columnsForEyes(const SweepTable &t) {
  auto bytes = [](int64_t Figures::*figure) {
    return [figure](const SweepRow &r) { return bytesText(r.figures.*figure); };
  };
  auto shareOfBaseline = [](const SweepRow &r) {
    const double all = double(r.figures.baselinePeakBytes);
    return all > 0
               ? llvm::formatv("{0:F1} %", 100 * double(r.figures.predictedPeakBytes) / all).str()
               : "";
  };
  return {
      {axisName(t.axis).str(), [](const SweepRow &r) { return r.at; }},
      {"policy", [](const SweepRow &r) { return r.mode; }},
      {"peak", ofPlan(bytes(&Figures::predictedPeakBytes))},
      {"of baseline", ofPlan(shareOfBaseline)},
      {"measured peak",
       [](const SweepRow &r) {
         return r.measuredPeakBytes ? bytesText(*r.measuredPeakBytes) : "";
       }},
      {"parameters, inputs",
       ofGraph([](const Figures &f) { return bytesText(f.persistentBytes); })},
      {"with the arena", ofPlan([](const SweepRow &r) {
         return r.fits ? bytesText(r.totalBytes()) : std::string();
       })},
      {"fits", [](const SweepRow &r) { return !r.fits   ? ""
                                              : *r.fits ? "yes"
                                                        : "no"; }},
      {"added cost", ofPlan([](const SweepRow &r) {
         return llvm::formatv("{0:F1} %", 100 * r.figures.recomputeOverhead).str();
       })},
      {"step time",
       [](const SweepRow &r) { return r.stepSeconds ? secondsText(*r.stepSeconds) : ""; }},
      {"", [](const SweepRow &r) { return r.problem; }},
  };
}

std::string csvCell(llvm::StringRef text) {
  if (text.find_first_of(",\"\r\n") == llvm::StringRef::npos)
    return text.str();
  std::string out = "\"";
  for (char c : text)
    out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

} // namespace

std::string csvText(const SweepTable &t) {
  const std::vector<Column> columns = csvColumns(t);
  auto line = [&](auto cell) {
    return llvm::join(llvm::map_range(columns, [&](const Column &c) { return csvCell(cell(c)); }),
                      ",") +
           "\n";
  };
  std::string text = line([](const Column &c) { return c.name; });
  for (const SweepRow &r : t.rows)
    text += line([&](const Column &c) { return c.cell(r); });
  return text;
}

std::vector<std::vector<std::string>> cellsOf(const SweepTable &t) {
  std::vector<std::vector<std::string>> cells(t.rows.size() + 1);
  for (const Column &c : columnsForEyes(t)) {
    std::vector<std::string> column = {c.name};
    for (const SweepRow &r : t.rows)
      column.push_back(c.cell(r));
    if (llvm::all_of(llvm::drop_begin(column), [](const std::string &s) { return s.empty(); }))
      continue;
    for (size_t i = 0; i < cells.size(); ++i)
      cells[i].push_back(std::move(column[i]));
  }
  return cells;
}

std::string alignedText(const SweepTable &t) {
  constexpr size_t kTexts = 2; // columns of text, aligned to the left, and numbers to the right
  const auto cells = cellsOf(t);
  std::vector<bool> right;
  for (const std::string &name : cells.front())
    right.push_back(right.size() >= kTexts && !name.empty()); // the column of errors has no name
  Table table(std::move(right));
  for (const auto &line : cells)
    table.row(line);
  return table.text("");
}

} // namespace isthmus
