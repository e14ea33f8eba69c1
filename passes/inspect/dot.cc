#include "passes/inspect/dot.h"

#include "passes/inspect/changes.h"
#include "passes/inspect/dot_style.h"
#include "passes/inspect/markup.h"
#include "passes/rewrite/original.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/Support/raw_ostream.h"
#include <array>
#include <map>

namespace isthmus {
namespace {

using namespace dot_style;

// Graphs with more nodes are laid out fast rather than well: dot then takes a minute for 10,000
// nodes.
constexpr size_t kLargeGraph = 3000;

// Frames of nodes that differ from those of another graph.
constexpr const char *kNewLine = "#0B6E2E", *kChangedLine = "#B45309", *kGoneLine = "#7B8794";

class Drawing {
public:
  Drawing(const Graph &g, const DotOptions &options)
      : g_(g), os_(text_), kept_(static_cast<unsigned>(g.numValues())),
        outputs_(static_cast<unsigned>(g.numValues())),
        shown_(static_cast<unsigned>(g.numNodes()), options.only.empty()), uses_(g),
        isLarge_((options.only.empty() ? g.numNodes() : options.only.size()) > kLargeGraph) {
    for (NodeId n : options.only)
      shown_.set(n.index);
    if (options.other) {
      other_ = options.other;
      changes_ = changesOf(g, *options.other);
    }
    for (ValueId v : options.kept)
      kept_.set(v.index);
    const std::vector<bool> kept = keptValues(g);
    for (unsigned v = 0; v < kept.size(); ++v)
      if (kept[v])
        kept_.set(v);
    for (ValueId v : g.outputs())
      outputs_.set(v.index);
    groupUpdates();
  }

  std::string draw() {
    begin();
    for (const Input &input : g_.inputs())
      if (isDrawn(input))
        drawInput(input);
    for (Role role : kColumns)
      drawColumn(role);
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      if (boxes_[i] == NodeId(i) && shown_.test(i))
        drawEdges(NodeId(i));
    os_ << columnOrder(framed_);
    drawGone();
    drawLegend();
    os_ << "}\n";
    return std::move(os_.str());
  }

private:
  // Draws updates of one op without readers that read results of one node, such as running
  // averages, as one box.
  void groupUpdates() {
    llvm::BitVector isRead(static_cast<unsigned>(g_.numNodes()));
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      for (ValueId v : g_.node(NodeId(i)).operands)
        if (NodeId def = g_.value(v).def)
          isRead.set(def.index);
    std::map<std::pair<const OpDef *, NodeId>, NodeId> first; // never iterated
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      NodeId id(i);
      boxes_.push_back(id);
      const Node &n = g_.node(id);
      if (roleOf(n) != Role::Update || isRead.test(i) || !n.from.after.empty() || !shown_.all())
        continue;
      NodeId source;
      for (ValueId v : n.operands)
        if (NodeId def = g_.value(v).def)
          source = def;
      if (!source)
        continue;
      boxes_[i] = first.try_emplace({n.op, source}, id).first->second;
      members_[boxes_[i]].push_back(id);
    }
  }

  // Whether the input has a box of its own: inputs that are fed, and inputs that are outputs too.
  bool isDrawn(const Input &i) const {
    if (!shown_.all() &&
        llvm::none_of(uses_.of(i.value), [&](NodeId n) { return shown_.test(n.index); }))
      return false;
    return i.kind == InputKind::Input || outputs_.test(i.value.index);
  }

  bool isKept(const Node &n) const {
    for (uint32_t i = 0; i < n.numResults; ++i)
      if (kept_.test(n.result(i).index))
        return true;
    return false;
  }
  bool isOutput(const Node &n) const {
    for (uint32_t i = 0; i < n.numResults; ++i)
      if (outputs_.test(n.result(i).index))
        return true;
    return false;
  }

  void begin() {
    os_ << "// " << markupText(g_.name) << ", drawn by isthmus\n"
        << "digraph G {\n"
        << "  graph [rankdir=TB, newrank=true, fontname=\"Helvetica\", fontsize=16, labelloc=t, "
           "nodesep=0.25, "
        << "ranksep=0.3, outputorder=edgesfirst, label=<<b>" << markupText(g_.name) << "</b>: ";
    if (!shown_.all())
      os_ << shown_.count() << " of ";
    os_ << g_.numNodes() << " nodes>";
    if (isLarge_)
      os_ << ", splines=line, nslimit=0.1, nslimit1=0.1, mclimit=0.01";
    os_ << "]\n"
        << "  node [shape=box, style=\"filled,rounded\", fontname=\"Helvetica\", fontsize=11, "
           "margin=\"0.1,0.04\", "
        << "height=0.3]\n"
        << "  edge [color=\"#55606A\", arrowsize=0.6]\n";
  }

  static std::string small(const std::string &escapedText) {
    return "<br/><font point-size=\"9\" color=\"#4A4A4A\">" + escapedText + "</font>";
  }

  void drawInput(const Input &input) {
    bool kept = kept_.test(input.value.index);
    const Style &s = styleOf(Role::Input);
    used_[size_t(Role::Input)] = true;
    os_ << "  v" << input.value.index << " [" << s.extra << ", fillcolor=\""
        << (kept ? kKeptFill : s.fill) << "\", color=\"" << (kept ? kKeptLine : s.line)
        << "\", label=<<b>" << inputKindName(input.kind).str() << "</b> "
        << markupText(shortened(g_.valueName(input.value)))
        << small(markupText(g_.type(input.value).str())) << ">]\n";
    anyKept_ |= kept;
  }

  std::string label(NodeId id) {
    const Node &n = g_.node(id);
    // A boundary is named by the value that it passes and has its type.
    if (n.is(StandIn::Boundary))
      return "<b>boundary</b> of " + markupText(shortened(g_.valueName(n.from.restores)));
    auto group = members_.find(id);
    if (group != members_.end() && group->second.size() > 1) {
      std::string out =
          "<b>" + markupText(n.op->name) + "</b> x " + std::to_string(group->second.size());
      for (NodeId member : llvm::makeArrayRef(group->second).take_front(4))
        out += small(markupText(shortened(g_.nodeName(member))));
      return out + (group->second.size() > 4 ? small("...") : "");
    }
    std::string out = "<b>" + markupText(n.op->name) + "</b> " +
                      markupText(shortened(g_.valueName(n.firstResult)));
    std::string types;
    for (uint32_t i = 0; i < n.numResults && i < 4; ++i)
      types += (i == 0 ? "" : ", ") + markupText(g_.type(n.result(i)).str());
    if (n.numResults > 4)
      types += ", ...";
    out += small(types);
    if (const size_t hidden = hiddenNeighbours(n))
      out += small("and " + std::to_string(hidden) + " more neighbours");
    if (!isLarge_)
      for (InputKind kind :
           {InputKind::Input, InputKind::Param, InputKind::State, InputKind::Const})
        out += inputsLine(n, kind);
    return out;
  }

  // The nodes that are not drawn and that make an operand of the node or read a result.
  size_t hiddenNeighbours(const Node &n) const {
    if (shown_.all())
      return 0;
    llvm::SmallSet<uint32_t, 16> hidden;
    for (ValueId v : n.operands)
      if (NodeId def = g_.value(v).def; def && !shown_.test(def.index))
        hidden.insert(def.index);
    for (uint32_t r = 0; r < n.numResults; ++r)
      for (NodeId reader : uses_.of(n.result(r)))
        if (!shown_.test(reader.index))
          hidden.insert(reader.index);
    return hidden.size();
  }

  // "param .weight f32[64, 3, 7, 7], .bias f32[64]": a prefix equal to the node's name is left out.
  std::string inputsLine(const Node &n, InputKind kind) {
    std::string line;
    llvm::StringRef own =
        g_.valueName(n.isClone() ? g_.node(n.from.origin).firstResult : n.firstResult);
    for (ValueId v : n.operands) {
      const Input *input = g_.inputOf(v);
      if (!input || input->kind != kind || isDrawn(*input))
        continue;
      llvm::StringRef name = g_.valueName(v);
      if (name.startswith(own) && name.drop_front(own.size()).startswith("."))
        name = name.drop_front(own.size());
      line += (line.empty() ? "" : ", ") + markupText(shortened(name)) + " " +
              markupText(g_.type(v).str());
    }
    if (line.empty())
      return "";
    return "<br/><font point-size=\"9\" color=\"#7A6A3A\">" + inputKindName(kind).str() + " " +
           line + "</font>";
  }

  // All details of a node, shown under the mouse pointer.
  std::string tooltip(NodeId id) const {
    const Node &n = g_.node(id);
    std::string out = "#" + std::to_string(id.index) + " " + n.op->name + "(";
    for (size_t i = 0; i < n.operands.size() && i < 16; ++i)
      out += (i == 0 ? "%" : ", %") + g_.valueName(n.operands[i]).str();
    out += n.operands.size() > 16 ? ", ...)" : ")";
    for (const auto &[name, value] : n.attrs)
      out += " " + name + "=" + attrText(value);
    if (n.isClone())
      out += " recomputes %" + g_.nodeName(n.from.origin).str();
    for (const std::string &m : n.marks)
      out += " #" + m;
    if (!n.device.empty())
      out += " @" + n.device;
    return markupText(out);
  }

  void drawNode(NodeId id) {
    const Node &n = g_.node(id);
    Role role = roleOf(n);
    const Style &s = styleOf(role);
    used_[size_t(role)] = true;
    bool kept = isKept(n), output = isOutput(n);
    const Change change = changes_.of.empty() ? Change::Same : changes_.of[id.index];
    const char *frame = change == Change::New       ? kNewLine
                        : change == Change::Changed ? kChangedLine
                        : kept                      ? kKeptLine
                                                    : s.line;
    os_ << "    n" << id.index << " [fillcolor=\"" << (kept ? kKeptFill : s.fill) << "\", color=\""
        << frame << '"';
    if (change != Change::Same)
      os_ << ", penwidth=4";
    else if (kept)
      os_ << ", penwidth=2.5";
    if (output)
      os_ << ", peripheries=2";
    if (*s.extra)
      os_ << ", " << s.extra;
    os_ << ", label=<" << label(id) << '>';
    if (!isLarge_)
      os_ << ", tooltip=\"" << tooltip(id) << '"';
    os_ << "]\n";
    anyKept_ |= kept;
    anyOutput_ |= output;
  }

  void drawColumn(Role column) {
    std::vector<NodeId> nodes;
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      if (boxes_[i] == NodeId(i) && shown_.test(i) && columnOf(g_.node(NodeId(i))) == column)
        nodes.push_back(NodeId(i));
    if (nodes.empty())
      return;
    const Style &s = styleOf(column);
    // A network with forward nodes alone needs no frame.
    bool framed = column != Role::Forward || nodes.size() != g_.numNodes();
    if (framed)
      os_ << "  subgraph cluster_" << phaseTag(column) << " {\n    label=\""
          << titleOf(column, nodes) << "\"; color=\"" << s.line << "\"; fontcolor=\"" << s.line
          << "\"; style=\"rounded\"; penwidth=0.8; margin=12;\n"
          << columnAnchor(column);
    for (NodeId id : nodes)
      drawNode(id);
    if (framed) {
      os_ << "  }\n";
      framed_.push_back(column);
    }
    if (column == Role::Clone)
      for (NodeId id : nodes)
        if (const Node &n = g_.node(id); n.isClone() && shown_.test(n.from.origin.index))
          sameHeight_.emplace_back(n.from.origin, id);
  }

  // The title of a column. Recomputed, fetched and rebuilt values share one.
  std::string titleOf(Role column, llvm::ArrayRef<NodeId> nodes) const {
    if (column != Role::Clone)
      return styleOf(column).title;
    bool recomputed = false, fetched = false, rebuilt = false;
    for (NodeId id : nodes) {
      const Role r = roleOf(g_.node(id));
      recomputed |= r == Role::Clone || r == Role::Boundary;
      rebuilt |= r == Role::Inverse;
      fetched |= r == Role::Transfer;
    }
    std::string title;
    for (auto [is, word] :
         {std::pair(recomputed, "recomputed"), {fetched, "fetched"}, {rebuilt, "rebuilt"}})
      if (is)
        title += (title.empty() ? "" : " or ") + std::string(word);
    return title;
  }

  void edge(const std::string &from, NodeId to, llvm::StringRef attrs) {
    os_ << "  " << from << " -> n" << to.index;
    if (!attrs.empty())
      os_ << " [" << attrs << ']';
    os_ << '\n';
  }

  void drawEdges(NodeId id) {
    const Node &n = g_.node(id);
    Role column = columnOf(n);
    llvm::SmallVector<std::pair<uint32_t, bool>, 8> drawn; // sources: one edge for repeated reads
    for (ValueId v : n.operands) {
      NodeId def = g_.value(v).def;
      if (const Input *input = g_.inputOf(v); input && !isDrawn(*input))
        continue;
      std::pair<uint32_t, bool> source(def ? def.index : v.index, bool(def));
      if (llvm::is_contained(drawn, source))
        continue;
      drawn.push_back(source);
      if (!def) {
        edge("v" + std::to_string(v.index), id,
             column == Role::Forward ? "" : "constraint=false, color=\"#B5BCC4\"");
        continue;
      }
      if (shown_.test(def.index))
        drawDataEdge(def, id, columnOf(g_.node(def)), column);
    }
    for (NodeId before : n.from.after) {
      if (!shown_.test(before.index))
        continue;
      anyAfter_ = true;
      edge("n" + std::to_string(boxes_[before.index].index), id,
           "style=dashed, color=\"#9AA3AB\", arrowhead=open, constraint=false");
    }
  }

  void drawDataEdge(NodeId def, NodeId id, Role from, Role to) {
    std::string source = "n" + std::to_string(def.index);
    if (from == to && to == Role::Backward) {
      // Drawn upwards: the layout sees the edge reversed.
      os_ << "  n" << id.index << " -> " << source << " [dir=back]\n";
      return;
    }
    if (from == to) {
      edge(source, id, "");
      return;
    }
    // An edge between columns: at the same height if possible.
    bool fromKept = isKept(g_.node(def));
    std::string attrs =
        std::string("minlen=0, color=\"") + (fromKept ? kKeptLine : "#B5BCC4") + '"';
    if (to == Role::Clone)
      attrs += ", constraint=false";
    edge(source, id, attrs);
  }

  // Draws the nodes that the other graph alone has, with arrows from what they read there.
  void drawGone() {
    if (!other_ || !shown_.all())
      return;
    constexpr size_t kMostGone = 500;
    const llvm::ArrayRef<NodeId> gone = llvm::makeArrayRef(changes_.gone).take_front(kMostGone);
    if (gone.empty())
      return;
    os_ << "  subgraph cluster_gone {\n    label=\"only in the other graph";
    if (changes_.gone.size() > gone.size())
      os_ << ", " << gone.size() << " of " << changes_.gone.size();
    os_ << "\"; style=\"dashed,rounded\"; margin=12;\n";
    for (NodeId id : gone)
      os_ << "    g" << id.index << " [style=\"dashed,rounded\", color=\"" << kGoneLine
          << "\", label=<<b>" << markupText(other_->node(id).op->name) << "</b> "
          << markupText(shortened(other_->nodeName(id))) << ">]\n";
    os_ << "  }\n";
    for (NodeId id : gone)
      drawGoneEdges(id, gone);
  }
  void drawGoneEdges(NodeId id, llvm::ArrayRef<NodeId> gone) {
    for (ValueId v : other_->node(id).operands) {
      const NodeId there = other_->value(v).def;
      const ValueId here = g_.find(other_->valueName(v));
      const NodeId def = here ? g_.value(here).def : NodeId();
      std::string from;
      if (def && !Graph::isReplaced(def))
        from = "n" + std::to_string(boxes_[def.index].index);
      else if (there && llvm::is_contained(gone, there))
        from = "g" + std::to_string(there.index);
      if (!from.empty())
        os_ << "  " << from << " -> g" << id.index << " [style=dashed, color=\"" << kGoneLine
            << "\", constraint=false]\n";
    }
  }

  void drawLegend() {
    for (auto [origin, clone] : sameHeight_)
      os_ << "  {rank=same; n" << origin.index << "; n" << clone.index << "}\n";
    std::vector<std::string> others;
    if (other_) {
      others.push_back(legendRow("#FFFFFF", kNewLine, "not in the other graph"));
      others.push_back(legendRow("#FFFFFF", kChangedLine, "otherwise in the other graph"));
    }
    if (anyOutput_)
      others.push_back(legendRow("double line", "graph output"));
    if (anyAfter_)
      others.push_back(legendRow("dashed arrow", "runs after, reads nothing"));
    os_ << legend(used_, anyKept_, others);
  }

  const Graph &g_;
  std::string text_;
  llvm::raw_string_ostream os_;
  llvm::BitVector kept_, outputs_; // by value
  llvm::BitVector shown_;          // by node
  const Uses uses_;
  std::vector<NodeId> boxes_;                     // by node: the node whose box shows it
  std::map<NodeId, std::vector<NodeId>> members_; // for boxes of updates
  const Graph *other_ = nullptr;                  // to compare with
  Changes changes_;                               // empty without another graph
  bool isLarge_;
  UsedRoles used_{};
  std::vector<Role> framed_; // columns
  bool anyKept_ = false, anyOutput_ = false, anyAfter_ = false;
  std::vector<std::pair<NodeId, NodeId>> sameHeight_;
};

} // namespace

std::string dotText(const Graph &g, const DotOptions &options) {
  return Drawing(g, options).draw();
}

} // namespace isthmus
