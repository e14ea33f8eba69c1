#include "tools/sweep/picture.h"

#include "ir/units.h"
#include "passes/inspect/markup.h"
#include "tools/sweep/chart.h"
#include "tools/sweep/table.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace isthmus {
namespace {

// The text that a mark shows under the pointer.
std::string tipOf(const SweepRow &r, const SweepTable &t) {
  std::string text = r.mode + ", " + axisName(t.axis).str() + " " + r.at;
  if (!r.isPlanned)
    return text + "\n" + r.problem;
  const Figures &f = r.figures;
  text +=
      "\npeak " + bytesText(f.predictedPeakBytes) + " of " + bytesText(f.baselinePeakBytes) +
      "\narena " + bytesText(f.arenaBytes) + ", parameters and inputs " +
      bytesText(f.persistentBytes) +
      llvm::formatv("\nadded cost {0:F1} %, {1} clones", 100 * f.recomputeOverhead, f.clones).str();
  if (f.inversions)
    text += llvm::formatv(", {0} inverses", f.inversions).str();
  if (!r.problem.empty())
    text += "\n" + r.problem;
  if (r.stepSeconds)
    text += "\nstep time " + secondsText(*r.stepSeconds);
  return text;
}

// `figure` is the panel's value of a row, if it is known.
template <typename Figure>
ChartPanel panelOf(const SweepTable &t, std::string title, ChartUnit unit, Figure figure) {
  ChartPanel p;
  p.title = std::move(title);
  p.unit = unit;
  for (const std::string &mode : t.modes) {
    std::vector<ChartMark> &line = p.lines.emplace_back();
    for (const SweepRow &r : t.rows)
      if (r.mode == mode)
        line.push_back({r.x, r.isPlanned ? figure(r) : std::nullopt, tipOf(r, t)});
  }
  return p;
}

using Number = std::optional<double>;

Chart chartOf(const SweepTable &t) {
  Chart c;
  c.title = "Memory and time of " + t.model + " against " + axisName(t.axis).str();
  c.subtitle = t.options + (t.options.empty() ? "" : "; ") + t.device;
  c.series = t.modes;
  c.xTitle = axisName(t.axis).str();
  if (t.axis == SweepAxis::Budget) {
    c.xUnit = t.isOfShares ? ChartUnit::Percent : ChartUnit::Bytes;
    c.xTitle = t.isOfShares ? "budget, of the baseline's peak" : "budget";
  }
  if (t.fitBytes) {
    c.title = llvm::formatv("The largest {0} of {1} in {2}", axisName(t.axis), t.model,
                            bytesText(*t.fitBytes))
                  .str();
    c.panels.push_back(panelOf(t, "Arena, parameters and inputs", ChartUnit::Bytes,
                               [](const SweepRow &r) { return Number(double(r.totalBytes())); }));
    c.panels.back().limit = double(*t.fitBytes);
  } else {
    c.panels.push_back(
        panelOf(t, "Peak, without parameters and inputs", ChartUnit::Bytes,
                [](const SweepRow &r) { return Number(double(r.figures.predictedPeakBytes)); }));
  }
  const bool isTimed =
      llvm::any_of(t.rows, [](const SweepRow &r) { return r.stepSeconds.has_value(); });
  if (isTimed)
    c.panels.push_back(panelOf(t, "Step time, measured", ChartUnit::Seconds,
                               [](const SweepRow &r) { return r.stepSeconds; }));
  else
    c.panels.push_back(
        panelOf(t, "Added time, by the cost model", ChartUnit::Percent,
                [](const SweepRow &r) { return Number(100 * r.figures.recomputeOverhead); }));
  return c;
}

} // namespace

std::string pictureText(const SweepTable &t) { return svgText(chartOf(t)); }

std::string pageText(const SweepTable &t) {
  const Chart chart = chartOf(t);
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" +
      markupText(chart.title) + R"(</title>
<style>
body { font: 14px sans-serif; color: #222; margin: 24px; }
svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; margin: 16px; }
th, td { padding: 4px 12px; text-align: right; border-bottom: 1px solid #e3e6ea; white-space: nowrap; }
th:nth-child(-n+2), td:nth-child(-n+2), td.problem { text-align: left; }
td.problem { white-space: normal; color: #b00020; }
tr:hover td { background: #f3f6fa; }
</style>
</head>
<body>
)" + svgText(chart) +
      "<table>\n";
  const auto cells = cellsOf(t);
  for (size_t i = 0; i < cells.size(); ++i) {
    page += "<tr>";
    for (size_t k = 0; k < cells[i].size(); ++k) {
      const bool isProblem = i > 0 && cells.front()[k].empty();
      page += (i == 0      ? "<th>"
               : isProblem ? "<td class=\"problem\">"
                           : "<td>") +
              markupText(cells[i][k]) + (i == 0 ? "</th>" : "</td>");
    }
    page += "</tr>\n";
  }
  return page + "</table>\n</body>\n</html>\n";
}

} // namespace isthmus
