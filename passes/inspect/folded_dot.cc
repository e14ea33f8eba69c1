// The folded picture of a graph. Each module at the depth that is drawn has a box in each column in
// which it has nodes; modules above that depth are frames around their boxes.

#include "passes/inspect/dot.h"

#include "ir/units.h"
#include "passes/inspect/dot_style.h"
#include "passes/inspect/markup.h"
#include "passes/inspect/module_tree.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <map>

namespace isthmus {
namespace {

using namespace dot_style;

constexpr unsigned kMostBoxes = 40; // of a picture whose depth is chosen here

// Which modules are alike: of modules in a row, each belongs to a run, which repeats `period`
// modules several times; those at the same place in the period are alike.
struct AlikeModules {
  std::vector<uint32_t> leader;            // by module: the first that is alike, or itself
  std::vector<std::vector<uint32_t>> like; // by leader: all that are alike, itself included

  AlikeModules(const Graph &g, const ModuleTree &t);

private:
  void findRuns(llvm::ArrayRef<uint32_t> siblings, llvm::ArrayRef<size_t> contents);
};

// A number for what lies in each module: the columns, ops and types of all its nodes, in order.
std::vector<size_t> contentsOf(const Graph &g, const ModuleTree &t) {
  std::vector<size_t> contents(t.modules.size(), 0);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    const size_t own = llvm::hash_combine(size_t(columnOf(n)), n.op->name,
                                          g.type(n.firstResult).str(), n.numResults);
    for (uint32_t m = t.moduleOf[i]; m != Module::kRoot; m = t.modules[m].parent)
      contents[m] = llvm::hash_combine(contents[m], own);
  }
  return contents;
}

AlikeModules::AlikeModules(const Graph &g, const ModuleTree &t) {
  const std::vector<size_t> contents = contentsOf(g, t);
  std::vector<std::vector<uint32_t>> children(t.modules.size());
  for (uint32_t m = 0; m < t.modules.size(); ++m) {
    leader.push_back(m);
    like.push_back({m});
    if (m != Module::kRoot)
      children[t.modules[m].parent].push_back(m);
  }
  for (const std::vector<uint32_t> &siblings : children)
    findRuns(siblings, contents);
}

// At each place the period is taken whose run is the longest.
void AlikeModules::findRuns(llvm::ArrayRef<uint32_t> siblings, llvm::ArrayRef<size_t> contents) {
  constexpr size_t kLongestPeriod = 8;
  auto isAlike = [&](size_t i, size_t k) { return contents[siblings[i]] == contents[siblings[k]]; };
  for (size_t at = 0; at < siblings.size();) {
    size_t best = 1, length = 1;
    for (size_t period = 1; period <= kLongestPeriod; ++period) {
      size_t end = at + period;
      while (end < siblings.size() && isAlike(end, end - period))
        ++end;
      const size_t whole = end > siblings.size() ? 0 : (end - at) / period * period;
      if (whole >= 2 * period && whole > length) {
        best = period;
        length = whole;
      }
    }
    for (size_t i = at + best; i < at + length; ++i) {
      const uint32_t first = siblings[at + (i - at) % best];
      leader[siblings[i]] = first;
      like[first].push_back(siblings[i]);
    }
    at += length;
  }
}

class FoldedDrawing {
public:
  FoldedDrawing(const Graph &g, const FoldOptions &o)
      : g_(g), o_(o), tree_(modulesOf(g, /*mostChildren=*/SIZE_MAX)), alike_(g, tree_),
        kept_(keptValues(g)), os_(text_) {
    children_.resize(tree_.modules.size());
    for (uint32_t m = 1; m < tree_.modules.size(); ++m)
      children_[tree_.modules[m].parent].push_back(m);
    for (uint32_t m = 0; m < tree_.modules.size(); ++m)
      depth_.push_back(m == Module::kRoot ? 0 : depth_[tree_.modules[m].parent] + 1);
    findCounterparts();
    fold(o.depth ? o.depth : 1);
    for (unsigned depth = 2; !o.depth && depth <= deepest(); ++depth) {
      const auto before = boxes_;
      const std::vector<uint32_t> drawnBefore = drawn_;
      fold(depth);
      if (boxes_.size() > kMostBoxes) {
        boxes_ = before;
        drawn_ = drawnBefore;
        break;
      }
    }
  }

  std::string draw() {
    os_ << "// " << markupText(g_.name) << ", drawn by isthmus\n"
        << "digraph G {\n"
        << "  graph [rankdir=TB, newrank=true, fontname=\"Helvetica\", fontsize=16, labelloc=t, "
           "nodesep=0.25, ranksep=0.3, outputorder=edgesfirst, label=<<b>"
        << markupText(g_.name) << "</b>: " << g_.numNodes() << " nodes in " << boxes_.size()
        << " boxes>]\n"
        << "  node [shape=box, style=\"filled,rounded\", fontname=\"Helvetica\", fontsize=11, "
           "margin=\"0.1,0.04\", height=0.3]\n"
        << "  edge [color=\"#55606A\", arrowsize=0.6]\n";
    for (Role column : kColumns)
      drawColumn(column);
    drawEdges();
    os_ << columnOrder(framed_);
    drawLegend();
    os_ << "}\n";
    return std::move(os_.str());
  }

private:
  struct Box {
    size_t nodes = 0;
    int64_t bytes = 0;
    double us = 0;
    size_t kept = 0; // values
    int64_t keptBytes = 0;
  };
  // A module that is drawn, and a column. Boundaries have a box of their own in the column of
  // clones.
  using Key = std::pair<uint32_t, Role>;
  static Role columnOf(const Key &k) { return k.second == Role::Boundary ? Role::Clone : k.second; }
  static Role roleInBox(const Node &n) {
    return n.is(StandIn::Boundary) ? Role::Boundary : dot_style::columnOf(n);
  }

  unsigned deepest() const { return *std::max_element(depth_.begin(), depth_.end()); }

  // What lies in a module for which another one stands has its counterpart at the same place there.
  void findCounterparts() {
    std::vector<uint32_t> place(tree_.modules.size(), 0); // among the children of the parent
    for (const std::vector<uint32_t> &siblings : children_)
      for (uint32_t i = 0; i < siblings.size(); ++i)
        place[siblings[i]] = i;
    counterpart_.push_back(Module::kRoot);
    member_.push_back(Module::kRoot);
    for (uint32_t m = 1; m < tree_.modules.size(); ++m) {
      const uint32_t up = tree_.modules[m].parent;
      const std::vector<uint32_t> &there = children_[counterpart_[up]];
      counterpart_.push_back(place[m] < there.size() ? alike_.leader[there[place[m]]]
                                                     : counterpart_[up]);
      member_.push_back(alike_.like[alike_.leader[m]].size() > 1 ? m : member_[up]);
    }
  }

  // Decides which module is drawn for each module at this depth, and adds up the boxes.
  void fold(unsigned depth) {
    drawn_ = counterpart_;
    boxes_.clear();
    for (uint32_t m = 1; m < tree_.modules.size(); ++m)
      if (depth_[m] > depth)
        drawn_[m] = drawn_[tree_.modules[m].parent];
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      Box &b = boxes_[keyOf(NodeId(i))];
      ++b.nodes;
      b.us += o_.us.empty() ? 0 : o_.us[i];
      for (uint32_t r = 0; r < n.numResults; ++r) {
        const int64_t bytes = g_.type(n.result(r)).bytes();
        b.bytes += n.op->is(kView) ? 0 : bytes;
        b.kept += kept_[n.result(r).index];
        b.keptBytes += kept_[n.result(r).index] ? bytes : 0;
      }
    }
  }
  Key keyOf(NodeId n) const { return {drawn_[tree_.moduleOf[n.index]], roleInBox(g_.node(n))}; }
  static std::string nameOf(const Key &k) {
    return "m" + std::to_string(k.first) +
           (k.second == Role::Boundary ? "boundary" : phaseTag(k.second));
  }

  void drawColumn(Role column) {
    const bool isUsed =
        llvm::any_of(boxes_, [&](const auto &b) { return columnOf(b.first) == column; });
    if (!isUsed)
      return;
    const Style &s = styleOf(column);
    os_ << "  subgraph cluster_" << phaseTag(column) << " {\n    label=\"" << s.title
        << "\"; color=\"" << s.line << "\"; fontcolor=\"" << s.line
        << "\"; style=\"rounded\"; penwidth=0.8; margin=12;\n"
        << columnAnchor(column);
    framed_.push_back(column);
    drawModule(Module::kRoot, column);
    os_ << "  }\n";
  }

  // Draws the box of a module, and a frame around those of the modules in it.
  void drawModule(uint32_t m, Role column) {
    const bool isFramed = m != Module::kRoot && hasBoxWithin(m, column);
    if (isFramed)
      os_ << "    subgraph cluster_" << phaseTag(column) << m << " {\n    label=<"
          << markupText(title(m)) << ">; style=\"dotted\"; margin=8;\n";
    for (Role role : {column, Role::Boundary})
      if (const Key k{m, role}; columnOf(k) == column && boxes_.count(k))
        drawBox(k);
    for (uint32_t child : children_[m])
      drawModule(child, column);
    if (isFramed)
      os_ << "    }\n";
  }
  bool hasBoxWithin(uint32_t m, Role column) const {
    return llvm::any_of(children_[m], [&](uint32_t c) {
      return boxes_.count({c, column}) || hasBoxWithin(c, column) ||
             (column == Role::Clone && boxes_.count({c, Role::Boundary}));
    });
  }

  void drawBox(const Key &k) {
    const Box &b = boxes_.find(k)->second;
    const Style &s = styleOf(k.second);
    used_[size_t(k.second)] = true;
    hasKept_ |= b.kept > 0;
    os_ << "    " << nameOf(k) << " [fillcolor=\"" << (b.kept ? kKeptFill : s.fill)
        << "\", color=\"" << (b.kept ? kKeptLine : s.line) << "\""
        << (b.kept ? ", penwidth=2.5" : "");
    if (*s.extra)
      os_ << ", " << s.extra;
    os_ << ", label=<<b>" << markupText(title(k.first)) << "</b>" << line("#4A4A4A", figures(k, b));
    if (b.kept)
      os_ << line(kKeptLine, std::to_string(b.kept) + " kept, " + bytesText(b.keptBytes));
    os_ << ">]\n";
  }
  static std::string line(const char *color, const std::string &text) {
    return std::string("<br/><font point-size=\"9\" color=\"") + color + "\">" + text + "</font>";
  }

  std::string figures(const Key &k, const Box &b) const {
    if (k.second == Role::Boundary)
      return std::to_string(b.nodes) + (b.nodes == 1 ? " boundary" : " boundaries");
    return std::to_string(b.nodes) + (b.nodes == 1 ? " node, " : " nodes, ") + bytesText(b.bytes) +
           (o_.us.empty() ? "" : ", " + secondsText(1e-6 * b.us));
  }

  void drawLegend() {
    std::vector<std::string> others;
    if (hasNext_)
      others.push_back(legendRow("dashed arrow", "to the next of those that are alike"));
    os_ << legend(used_, hasKept_, others);
  }

  // "h0", or "h1 to h10, 10 alike".
  std::string title(uint32_t m) const {
    if (m == Module::kRoot)
      return g_.name;
    const std::vector<uint32_t> &like = alike_.like[m];
    const std::string first = shortened(tree_.modules[m].name);
    if (like.size() == 1)
      return first;
    return llvm::formatv("{0} to {1}, {2} alike", first, shortened(tree_.modules[like.back()].name),
                         like.size());
  }

  struct Edge {
    Key from, to;
    bool isToNext; // from a module to another one that is alike
    friend bool operator<(const Edge &a, const Edge &b) {
      return std::tie(a.from, a.to, a.isToNext) < std::tie(b.from, b.to, b.isToNext);
    }
  };
  Edge edgeOf(NodeId from, NodeId to) const {
    const uint32_t a = member_[tree_.moduleOf[from.index]], b = member_[tree_.moduleOf[to.index]];
    const Key source = keyOf(from), target = keyOf(to);
    return {source, target,
            a != b && alike_.leader[a] == alike_.leader[b] && source.second == target.second};
  }

  void drawEdges() {
    llvm::MapVector<Edge, int64_t, std::map<Edge, unsigned>> bytes;
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      for (ValueId v : g_.node(NodeId(i)).operands)
        if (NodeId def = g_.value(v).def; def && !Graph::isReplaced(def))
          if (const Edge edge = edgeOf(def, NodeId(i)); edge.from != edge.to)
            bytes[edge] += g_.type(v).bytes();
    for (const auto &[edge, sum] : bytes) {
      const auto &[from, to, isToNext] = edge;
      std::string width = llvm::formatv("penwidth={0:F1}", widthOf(sum));
      if (isToNext)
        width += ", style=dashed, constraint=false";
      hasNext_ |= isToNext;
      if (from.second == Role::Backward && to.second == Role::Backward) // drawn upwards, as dot.cc
        os_ << "  " << nameOf(to) << " -> " << nameOf(from) << " [dir=back, " << width << "]\n";
      else if (columnOf(from) == columnOf(to))
        os_ << "  " << nameOf(from) << " -> " << nameOf(to) << " [" << width << "]\n";
      else
        os_ << "  " << nameOf(from) << " -> " << nameOf(to) << " [minlen=0, color=\""
            << (to.second == Role::Boundary ? kKeptLine : "#B5BCC4") << "\", "
            << (columnOf(to) == Role::Clone ? "constraint=false, " : "") << width << "]\n";
    }
  }
  static double widthOf(int64_t bytes) {
    return 0.6 + 0.25 * std::log2(1 + double(bytes) / double(1 << 20));
  }

  const Graph &g_;
  const FoldOptions &o_;
  const ModuleTree tree_;
  const AlikeModules alike_;
  std::vector<std::vector<uint32_t>> children_; // by module
  std::vector<unsigned> depth_;                 // by module
  std::vector<uint32_t> counterpart_;           // by module: where it is drawn if it is not folded
  std::vector<uint32_t> member_; // by module: the module, or one around it, that others are like
  std::vector<uint32_t> drawn_;  // by module: the module whose boxes show it
  llvm::MapVector<Key, Box, std::map<Key, unsigned>> boxes_;
  const std::vector<bool> kept_; // by value
  UsedRoles used_{};
  std::vector<Role> framed_; // columns
  bool hasKept_ = false, hasNext_ = false;
  std::string text_;
  llvm::raw_string_ostream os_;
};

} // namespace

std::string foldedDotText(const Graph &g, const FoldOptions &options) {
  return FoldedDrawing(g, options).draw();
}

} // namespace isthmus
