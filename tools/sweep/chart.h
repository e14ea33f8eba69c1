// Lines over an axis, as SVG: panels side by side, with one legend. Whoever points at a mark is
// told what it stands for.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace isthmus {

enum class ChartUnit { Count, Bytes, Seconds, Percent };

struct ChartMark {
  double x = 0;
  std::optional<double> y; // none: there is nothing to draw but that it was tried
  std::string text;        // a line for each thing to tell
};

struct ChartPanel {
  std::string title;
  ChartUnit unit = ChartUnit::Count;
  std::vector<std::vector<ChartMark>> lines; // by series
  std::optional<double> limit;               // a line across
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
