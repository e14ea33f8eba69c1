#include "tools/sweep/chart.h"

#include "passes/inspect/markup.h"
#include "tools/sweep/scale.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>

namespace isthmus {
namespace {

constexpr double kWidth = 1060, kHeight = 470; // of the picture
constexpr double kTop = 108, kBottom = 412;    // of the plot area of a panel
constexpr double kLeft = 78, kRight = 22;      // beside a plot area
constexpr double kLetter = 6.2;                // about the width of a small letter
constexpr const char *kColours[] = {"#3f74ae", "#c8552d", "#2f7d22",
                                    "#7b3f98", "#b08a10", "#1f7a72"};
constexpr const char *kInk = "#222", *kFaint = "#667", *kGrid = "#e3e6ea";

const char *colourOf(size_t series) { return kColours[series % std::size(kColours)]; }

std::string number(double d) { return llvm::formatv("{0:F1}", d).str(); }

class Drawing {
public:
  explicit Drawing(const Chart &chart) : c_(chart), os_(out_) {}

  std::string text() {
    os_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kWidth << ' ' << kHeight
        << "\" width=\"" << kWidth << "\" height=\"" << kHeight
        << "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"" << kInk << "\">\n"
        << "<style>.mark:hover { stroke: #000; stroke-width: 3; opacity: 1 }</style>\n"
        << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    write(16, 28, c_.title, "font-size=\"17\" font-weight=\"bold\"");
    write(16, 48, fitting(c_.subtitle, kWidth - 32), fill(kFaint));
    legend();
    const double each = kWidth / double(std::max<size_t>(1, c_.panels.size()));
    for (size_t i = 0; i < c_.panels.size(); ++i)
      panel(c_.panels[i], each * double(i) + kLeft, each * double(i + 1) - kRight);
    os_ << "</svg>\n";
    return os_.str();
  }

private:
  static std::string fill(const char *colour) { return std::string("fill=\"") + colour + "\""; }

  void write(double x, double y, const std::string &text, const std::string &attributes = "") {
    os_ << "<text x=\"" << number(x) << "\" y=\"" << number(y) << "\" " << attributes << ">"
        << markupText(text) << "</text>\n";
  }

  void line(double x0, double y0, double x1, double y1, const std::string &attributes) {
    os_ << "<path d=\"M" << number(x0) << ',' << number(y0) << 'L' << number(x1) << ','
        << number(y1) << "\" " << attributes << "/>\n";
  }

  // Cuts a text that is too long for the width, and appends dots.
  static std::string fitting(const std::string &text, double width) {
    const auto most = static_cast<size_t>(width / kLetter);
    return text.size() <= most ? text : text.substr(0, most - 3) + "...";
  }

  void legend() {
    double x = 16;
    for (size_t i = 0; i < c_.series.size() && c_.series.size() > 1; ++i) {
      line(x, 66, x + 22, 66, strokeOf(i));
      mark(x + 11, 66, i, 4, true, "");
      const std::string name = fitting(c_.series[i], 200);
      write(x + 28, 70, name);
      x += 28 + kLetter * double(name.size()) + 24;
    }
    auto isMissing = [](const ChartMark &m) { return !m.y; };
    for (const ChartPanel &p : c_.panels)
      if (llvm::any_of(p.lines,
                       [&](const auto &marks) { return llvm::any_of(marks, isMissing); })) {
        cross(x + 8, 66, kFaint, "");
        return write(x + 20, 70, "no figure: point at it for the reason");
      }
  }

  // The first lines are wider, so that lines that coincide are all visible.
  std::string strokeOf(size_t series) const {
    const double width = 1.6 + 1.4 * double(c_.series.size() - 1 - series);
    return llvm::formatv("fill=\"none\" stroke=\"{0}\" stroke-width=\"{1:F1}\" "
                         "stroke-linejoin=\"round\"",
                         colourOf(series), std::min(width, 6.0))
        .str();
  }

  // Each series has a shape of its own, so that colours need not be distinguished. If there are
  // many marks only the line is visible, and each mark appears under the pointer.
  void mark(double x, double y, size_t series, double r, bool isSeen, const std::string &tip) {
    const double d = series % 3 == 0 ? r : series % 3 == 1 ? 0.9 * r : 1.2 * r;
    const char *shape = series % 3 == 0   ? "M{0},{1}a{2},{2} 0 1,0 {3},0a{2},{2} 0 1,0 -{3},0z"
                        : series % 3 == 1 ? "M{0},{4}h{3}v{3}h-{3}z"
                                          : "M{0},{1}l{2},-{2}l{2},{2}l-{2},{2}z";
    os_ << "<path class=\"mark\" d=\""
        << llvm::formatv(shape, number(x - d), number(y), number(d), number(2 * d), number(y - d))
        << "\" fill=\"" << colourOf(series) << "\" stroke=\"white\" stroke-width=\"0.8\""
        << (isSeen ? ">" : " opacity=\"0\">");
    title(tip);
    os_ << "</path>\n";
  }

  void cross(double x, double y, const char *colour, const std::string &tip) {
    os_ << llvm::formatv("<path d=\"M{0:F1},{1:F1}l8,8m0,-8l-8,8\" stroke=\"{2}\" "
                         "stroke-width=\"2\" fill=\"none\" class=\"mark\">",
                         x - 4, y - 4, colour);
    title(tip);
    os_ << "</path>\n";
  }

  void title(const std::string &tip) {
    if (tip.empty())
      return;
    llvm::SmallVector<llvm::StringRef, 8> lines;
    llvm::StringRef(tip).split(lines, '\n');
    os_ << "<title>"
        << llvm::join(llvm::map_range(lines, [](llvm::StringRef l) { return markupText(l); }), "\n")
        << "</title>";
  }

  // --- A panel, with its plot area from x0 to x1

  void panel(const ChartPanel &p, double x0, double x1) {
    std::vector<double> xs, ys;
    for (const auto &marks : p.lines)
      for (const ChartMark &m : marks) {
        xs.push_back(m.x);
        if (m.y)
          ys.push_back(*m.y);
      }
    if (p.limit)
      ys.push_back(*p.limit);
    std::sort(xs.begin(), xs.end());
    xs.erase(std::unique(xs.begin(), xs.end()), xs.end());
    const bool byRatio = growsByRatio(xs);
    const Scale x(xs, c_.xUnit, byRatio, /*fromZero=*/false);
    const bool isWide = !ys.empty() && *std::max_element(ys.begin(), ys.end()) >=
                                           8 * *std::min_element(ys.begin(), ys.end());
    const Scale y(ys, p.unit, byRatio && isWide, /*fromZero=*/true);
    auto atX = [&](double v) { return x0 + (x1 - x0) * x.at(v); };
    auto atY = [&](double v) { return kBottom - (kBottom - kTop) * y.at(v); };

    write(x0, kTop - 12, p.title, "font-weight=\"bold\"");
    axes(xs, x, y, p.unit, x0, x1);
    if (p.limit) {
      line(x0, atY(*p.limit), x1, atY(*p.limit),
           "fill=\"none\" stroke=\"#b00020\" stroke-dasharray=\"6 4\"");
      write(x1 - 4, atY(*p.limit) - 5, numberText(*p.limit, p.unit),
            "text-anchor=\"end\" fill=\"#b00020\"");
    }
    constexpr size_t kDense = 40;
    for (size_t i = 0; i < p.lines.size(); ++i)
      series(p.lines[i], i, xs.size() > kDense, atX, atY);
  }

  void axes(const std::vector<double> &xs, const Scale &x, const Scale &y, ChartUnit unit,
            double x0, double x1) {
    for (double tick : y.ticks(7)) {
      const double at = kBottom - (kBottom - kTop) * y.at(tick);
      line(x0, at, x1, at, "stroke=\"" + std::string(kGrid) + "\"");
      write(x0 - 8, at + 4, numberText(tick, unit), "text-anchor=\"end\" " + fill(kFaint));
    }
    line(x0, kBottom, x1, kBottom, "stroke=\"#99a\"");
    constexpr size_t kFew = 12; // up to so many points are all labelled, if there is room
    double free = x0 - 20;
    for (double tick : xs.size() <= kFew ? xs : x.ticks(8)) {
      const double at = x0 + (x1 - x0) * x.at(tick);
      const std::string text = numberText(tick, c_.xUnit);
      const double half = kLetter * double(text.size()) / 2;
      line(at, kBottom, at, kBottom + 4, "stroke=\"#99a\"");
      if (at - half < free)
        continue;
      write(at, kBottom + 18, text, "text-anchor=\"middle\" " + fill(kFaint));
      free = at + half + 6;
    }
    write((x0 + x1) / 2, kBottom + 40, c_.xTitle, "text-anchor=\"middle\"");
  }

  template <typename X, typename Y>
  void series(std::vector<ChartMark> marks, size_t index, bool isDense, X atX, Y atY) {
    llvm::stable_sort(marks, [](const ChartMark &a, const ChartMark &b) { return a.x < b.x; });
    std::string points;
    for (const ChartMark &m : marks)
      if (m.y)
        points += number(atX(m.x)) + "," + number(atY(*m.y)) + " ";
    os_ << "<polyline points=\"" << points << "\" " << strokeOf(index) << "/>\n";
    for (const ChartMark &m : marks) {
      if (m.y) {
        mark(atX(m.x), atY(*m.y), index, 4, !isDense, m.text);
        continue;
      }
      // Draws a cross at the bottom; the series are side by side.
      const double x = atX(m.x) + 9 * (double(index) - double(c_.series.size() - 1) / 2);
      cross(x, kBottom - 8, colourOf(index), m.text);
    }
  }

  const Chart &c_;
  std::string out_;
  llvm::raw_string_ostream os_;
};

} // namespace

std::string svgText(const Chart &chart) { return Drawing(chart).text(); }

} // namespace isthmus
