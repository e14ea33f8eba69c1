#include "tools/view/stages_svg.h"

#include "ir/units.h"
#include "passes/inspect/markup.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

namespace isthmus {
namespace {

constexpr double kWidth = 960, kLeft = 110, kRight = 16, kTop = 58; // pixels
constexpr double kBarHeight = 18, kLiveHeight = 40, kRowHeight = 76;
constexpr size_t kMostMessages = 2000; // more would hide the rest

constexpr const char *kStyle = R"(<style>
text { font: 11px system-ui, sans-serif; fill: #1d2329; }
.title { font-size: 14px; font-weight: 600; }
.faint { fill: #68737d; }
.page { fill: #ffffff; }
.wait { fill: #eceff2; }
.forward { fill: #3f74ae; }
.backward { fill: #d9776a; }
.update { fill: #6f5fa8; }
.recompute { fill: #e0a526; }
.transfer { fill: #1f9488; }
.live { fill: #a9c8ea; }
.number { fill: #ffffff; text-anchor: middle; font-size: 10px; }
.recompute + .number { fill: #14181c; }
.message, .axis { stroke: #68737d; stroke-width: 0.6; fill: none; opacity: 0.7; }
.axis { opacity: 0.25; }
.budget { stroke: #c2261d; stroke-dasharray: 6 3; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e8ec; }
  .faint { fill: #97a2ad; }
  .page { fill: #14181c; }
  .wait { fill: #242b32; }
  .live { fill: #35587d; }
  .message, .axis { stroke: #97a2ad; }
  .budget { stroke: #ff7b70; }
}
</style>
)";

class SchedulePicture {
public:
  SchedulePicture(const StepByPlace &s, const Figures &f) : s_(s), f_(f) {}

  llvm::Expected<std::string> run(const Target &target) {
    const double height = kTop + kRowHeight * double(s_.places.size()) + 30;
    out_ = llvm::formatv("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:F0} {1:F0}\" "
                         "width=\"{0:F0}\" height=\"{1:F0}\">\n",
                         kWidth, height)
               .str();
    out_ += kStyle;
    rect("page", 0, 0, kWidth, height);
    text("title", 12, 22, titleText());
    axis(height - 30);
    std::vector<Timeline> timelines;
    for (const PlacePart &p : s_.places) {
      auto t = timelineOf(p.graph, &p.layout, target, &p.nodes);
      if (!t)
        return t.takeError();
      timelines.push_back(std::move(*t));
      top_ = std::max(top_, timelines.back().live.empty()
                                ? 0
                                : timelines.back().live[timelines.back().peakNode()]);
      top_ = std::max(top_, p.budgetBytes.value_or(0));
    }
    for (uint32_t i = 0; i < s_.places.size(); ++i)
      place(i, timelines[i]);
    messages();
    legend(height - 12);
    return out_ + "</svg>\n";
  }

private:
  double xOf(double seconds) const {
    const double all = std::max(s_.times.seconds, 1e-12);
    return kLeft + seconds / all * (kWidth - kLeft - kRight);
  }
  static double yOf(uint32_t place) { return kTop + kRowHeight * place; }

  void rect(llvm::StringRef kind, double x, double y, double width, double height) {
    out_ += llvm::formatv("<rect class=\"{0}\" x=\"{1:F2}\" y=\"{2:F1}\" width=\"{3:F2}\" "
                          "height=\"{4:F1}\"/>\n",
                          kind, x, y, width, height)
                .str();
  }
  void text(llvm::StringRef kind, double x, double y, const std::string &what) {
    out_ += llvm::formatv("<text class=\"{0}\" x=\"{1:F1}\" y=\"{2:F1}\">{3}</text>\n", kind, x, y,
                          markupText(what))
                .str();
  }
  void line(llvm::StringRef kind, double x0, double y0, double x1, double y1) {
    out_ += llvm::formatv("<path class=\"{0}\" d=\"M{1:F2} {2:F1}L{3:F2} {4:F1}\"/>\n", kind, x0,
                          y0, x1, y1)
                .str();
  }

  std::string titleText() const {
    std::string order = f_.schedule.empty() ? "" : f_.schedule + ", checkpoints " + f_.checkpoint;
    return llvm::formatv("{0}{1}by simulation a step takes {2}, and devices wait {3:F1} % of it",
                         order, order.empty() ? "" : ": ", secondsText(s_.times.seconds),
                         100 * s_.times.bubble())
        .str();
  }

  // The next of 1, 2, 5, 10, 20 ...
  static double nice(double least) {
    const double scale = std::pow(10, std::floor(std::log10(least)));
    for (double f : {1, 2, 5})
      if (f * scale >= least)
        return f * scale;
    return 10 * scale;
  }

  void axis(double bottom) {
    const double step = nice(std::max(s_.times.seconds, 1e-12) / 8);
    for (int i = 0; i * step <= s_.times.seconds; ++i) {
      line("axis", xOf(i * step), kTop - 8, xOf(i * step), bottom);
      if (xOf(i * step) + 60 < kWidth)
        text("faint", xOf(i * step) + 3, kTop - 12, i ? secondsText(i * step) : "0");
    }
  }

  void place(uint32_t i, const Timeline &t) {
    const PlacePart &p = s_.places[i];
    const double y = yOf(i);
    text("", 12, y + 13, p.device);
    const int64_t peak = t.live.empty() ? 0 : t.live[t.peakNode()];
    text("faint", 12, y + kBarHeight + 18, "peak " + bytesText(peak));
    text("faint", 12, y + kBarHeight + 32, "busy " + percent(s_.times.places[i].busy));
    rect("wait", kLeft, y, kWidth - kLeft - kRight, kBarHeight);
    for (const WorkBar &b : s_.bars)
      if (b.place == i)
        bar(b, y);
    live(p, t, y + kBarHeight + 4 + kLiveHeight);
    if (p.budgetBytes) {
      const double at = y + kBarHeight + 4 + kLiveHeight * (1 - share(*p.budgetBytes));
      line("budget", kLeft, at, kWidth - kRight, at);
    }
  }

  std::string percent(double seconds) const {
    return llvm::formatv("{0:F1} %", 100 * seconds / std::max(s_.times.seconds, 1e-12)).str();
  }
  double share(int64_t bytes) const { return double(bytes) / double(std::max<int64_t>(1, top_)); }

  void bar(const WorkBar &b, double y) {
    const double x = xOf(b.begin), width = xOf(b.end) - x;
    const std::string number = b.batch ? std::to_string(*b.batch + 1) : "";
    out_ += llvm::formatv("<g><title>{0}{1}, {2} of {3}, {4}</title>", workKindName(b.kind),
                          b.batch ? " of micro-batch " + number : "", secondsText(b.end - b.begin),
                          markupText(s_.places[b.place].device), nodesText(b))
                .str();
    // A gap of a fraction of a pixel tells neighbours apart.
    rect(workKindName(b.kind), x, y, std::max(0.3, width - (width > 2 ? 0.5 : 0)), kBarHeight);
    if (b.batch && width > 7 * double(number.size()) + 3)
      text("number", x + width / 2, y + 13, number);
    out_ += "</g>\n";
  }

  std::string nodesText(const WorkBar &b) const {
    const WholeNodes &n = s_.places[b.place].nodes;
    return markupText(llvm::formatv("{0} nodes from {1} to {2}", b.count,
                                    n.whole.nodeName(n.of[b.first]),
                                    n.whole.nodeName(n.of[b.first + b.count - 1]))
                          .str());
  }

  // The most bytes that are live within each pixel, as an area above `bottom`.
  void live(const PlacePart &p, const Timeline &t, double bottom) {
    const size_t columns = size_t(kWidth - kLeft - kRight);
    std::vector<int64_t> most(columns, 0);
    for (uint32_t i = 0; i < t.live.size(); ++i) {
      const double from = xOf(begin(p, i)) - kLeft;
      const double to = i + 1 < t.live.size() ? xOf(begin(p, i + 1)) - kLeft : double(columns);
      for (size_t c = size_t(from); c < std::min(columns, size_t(std::ceil(to))); ++c)
        most[c] = std::max(most[c], t.live[i]);
    }
    std::string path = llvm::formatv("M{0:F0} {1:F1}", kLeft, bottom).str();
    int64_t last = -1;
    for (size_t c = 0; c < columns; ++c) {
      if (most[c] != last)
        path += llvm::formatv("H{0:F0}V{1:F1}", kLeft + double(c),
                              bottom - kLiveHeight * share(most[c]))
                    .str();
      last = most[c];
    }
    path += llvm::formatv("H{0:F0}V{1:F1}Z", kWidth - kRight, bottom).str();
    out_ += "<path class=\"live\" d=\"" + path + "\"/>\n";
  }

  double begin(const PlacePart &p, uint32_t node) const {
    return s_.times.nodes[p.nodes.of[node].index].begin;
  }

  void messages() {
    if (s_.times.messages.size() > kMostMessages)
      return;
    for (const MessageTime &m : s_.times.messages) {
      const bool isDown = m.from < m.to;
      line("message", xOf(m.begin), yOf(m.from) + (isDown ? kBarHeight : 0), xOf(m.end),
           yOf(m.to) + (isDown ? 0 : kBarHeight));
    }
  }

  void legend(double y) {
    double x = 12;
    auto key = [&](llvm::StringRef kind, const char *what) {
      rect(kind, x, y - 9, 10, 10);
      text("faint", x + 14, y, what);
      x += 28 + 6.2 * double(llvm::StringRef(what).size());
    };
    for (size_t k = 0; k < kNumWorkKinds; ++k)
      if (llvm::any_of(s_.bars, [&](const WorkBar &b) { return size_t(b.kind) == k; }))
        key(workKindName(WorkKind(k)), workKindName(WorkKind(k)).data());
    key("wait", "waits");
    key("live", "live bytes");
    if (llvm::any_of(s_.places, [](const PlacePart &p) { return p.budgetBytes.has_value(); }))
      text("faint", x, y, "dashed: budget");
  }

  const StepByPlace &s_;
  const Figures &f_;
  int64_t top_ = 0; // bytes at the top of the areas
  std::string out_;
};

} // namespace

llvm::Expected<std::string> scheduleSvg(const StepByPlace &steps, const Figures &figures,
                                        const Target &target) {
  return SchedulePicture(steps, figures).run(target);
}

} // namespace isthmus
