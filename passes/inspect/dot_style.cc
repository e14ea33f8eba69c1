#include "passes/inspect/dot_style.h"

#include "llvm/ADT/STLExtras.h"

namespace isthmus::dot_style {

Role roleOf(const Node &n) {
  switch (n.from.kind) {
  case StandIn::Clone:
    return Role::Clone;
  case StandIn::Boundary:
    return Role::Boundary;
  case StandIn::Inverse:
  case StandIn::Helper:
    return Role::Inverse;
  case StandIn::Encoding:
    return Role::Encoded;
  case StandIn::Transfer:
    return Role::Transfer;
  case StandIn::Chunk:
    return Role::Chunk;
  case StandIn::None:
    break;
  }
  if (n.op->effect == Effect::Ordered) // a transfer of the model's own
    return Role::Transfer;
  return n.phase == Phase::Forward    ? Role::Forward
         : n.phase == Phase::Backward ? Role::Backward
                                      : Role::Update;
}

Role columnOf(const Node &n) {
  const Role r = roleOf(n);
  const bool isStandIn =
      r == Role::Boundary || r == Role::Transfer || r == Role::Encoded || r == Role::Inverse;
  if (r == Role::Chunk) // where the node stood
    return n.phase == Phase::Forward ? Role::Forward : Role::Backward;
  return !isStandIn ? r : n.phase == Phase::Forward ? Role::Forward : Role::Clone;
}

const char *phaseTag(Role column) {
  return column == Role::Forward    ? "forward"
         : column == Role::Clone    ? "recomputed"
         : column == Role::Backward ? "backward"
                                    : "update";
}

const Style &styleOf(Role r) {
  static constexpr Style kStyles[kRoles] = {
      {"input", "#FFFFFF", "#5A6570", "shape=box, style=\"filled,rounded\", penwidth=1.5"},
      {"forward", "#DDEAF8", "#3F74AE", ""},
      {"boundary (stop_gradient)", "#FFFFFF", "#C08A10", "style=\"filled,dashed\""},
      {"recomputed", "#FFEFC4", "#C08A10", ""},
      {"backward", "#F8DFDA", "#B4564A", ""},
      {"update", "#E9E6F2", "#7A6BA8", ""},
      {"copied to the host and back", "#CFEDEA", "#1F7A72", "style=\"filled,rounded,dashed\""},
      {"encoded", "#EDEDE4", "#6B6B45", "style=\"filled,rounded,dashed\""},
      {"rebuilt by an inverse", "#EAD9F2", "#7B3F98", "style=\"filled,rounded\""},
      {"in chunks", "#D9EFD2", "#4B7D3A", "style=\"filled,rounded\""},
  };
  return kStyles[size_t(r)];
}

std::vector<bool> keptValues(const Graph &g) {
  std::vector<bool> kept(g.numValues(), false);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (n.is(StandIn::Boundary))
      kept[n.from.restores.index] = true;
    if (n.hasMark("checkpoint"))
      kept[n.firstResult.index] = true;
  }
  return kept;
}

std::string columnAnchor(Role column) {
  return std::string("    column_") + phaseTag(column) +
         " [style=invis, shape=point, width=0.01, height=0.01, label=\"\"]\n";
}

std::string columnOrder(llvm::ArrayRef<Role> framed) {
  if (framed.size() < 2)
    return "";
  std::string chain;
  for (Role column : kColumns)
    if (llvm::is_contained(framed, column))
      chain += (chain.empty() ? "column_" : " -> column_") + std::string(phaseTag(column));
  return "  {rank=source; " + chain + " [style=invis]}\n";
}

std::string legendRow(const char *fill, const char *line, const char *text, const char *style) {
  return std::string("<tr><td border=\"1\" width=\"28\" height=\"12\" bgcolor=\"") + fill +
         "\" color=\"" + line + "\" style=\"" + style + "\"></td><td align=\"left\">" + text +
         "</td></tr>";
}

std::string legendRow(const char *word, const char *text) {
  return std::string("<tr><td>") + word + "</td><td align=\"left\">" + text + "</td></tr>";
}

std::string legend(const UsedRoles &used, bool hasKept, llvm::ArrayRef<std::string> others) {
  std::string rows;
  for (size_t r = 0; r < kRoles; ++r)
    if (used[r])
      rows += legendRow(styleOf(Role(r)).fill, styleOf(Role(r)).line, styleOf(Role(r)).title,
                        r == size_t(Role::Boundary) ? "dashed" : "rounded");
  if (hasKept)
    rows += legendRow(kKeptFill, kKeptLine, "kept (checkpoint)");
  for (const std::string &row : others)
    rows += row;
  if (rows.empty())
    return "";
  return "  legend [shape=plain, style=\"\", label=<<table border=\"0\" cellborder=\"0\" "
         "cellspacing=\"3\">" +
         rows + "</table>>]\n";
}

std::string shortened(llvm::StringRef name) {
  constexpr size_t kMost = 40;
  return name.size() <= kMost ? name.str()
                              : (name.take_front(12) + "..." + name.take_back(kMost - 15)).str();
}

} // namespace isthmus::dot_style
