// Line charts as SVG: panels side by side, with one legend. A mark shows its text under the
// pointer.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace isthmus {

enum class ChartUnit { Count, Bytes, Seconds, Percent };

struct ChartMark {
  double x = 0;
  std::optional<double> y; // none: the point was tried, and there is no value to draw
  std::string text;        // shown under the pointer, a line for each fact
};

struct ChartPanel {
  std::string title;
  ChartUnit unit = ChartUnit::Count;
  std::vector<std::vector<ChartMark>> lines; // by series
  std::optional<double> limit;               // a horizontal line
};

struct Chart {
  std::string title, subtitle, xTitle;
  ChartUnit xUnit = ChartUnit::Count;
  std::vector<std::string> series;
  std::vector<ChartPanel> panels;
};

// Names are escaped.
std::string svgText(const Chart &chart);

} // namespace isthmus
