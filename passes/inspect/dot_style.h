// Colours and columns of nodes, which the drawings of dot.h share.
#pragma once

#include "ir/graph.h"
#include <array>
#include <string>

namespace isthmus::dot_style {

// Determines the style and the column of a node.
enum class Role : uint8_t {
  Input,
  Forward,
  Boundary,
  Clone,
  Backward,
  Update,
  Transfer,
  Encoded,
  Inverse,
  Chunk
};
constexpr size_t kRoles = 10;
Role roleOf(const Node &n);
// Forward, Clone, Backward or Update. Boundaries, prefetched values and rebuilt values stand in the
// column of clones.
Role columnOf(const Node &n);
constexpr Role kColumns[] = {Role::Forward, Role::Clone, Role::Backward, Role::Update};
const char *phaseTag(Role column); // "forward", "recomputed", "backward", "update"

struct Style {
  const char *title; // of the column and in the legend
  const char *fill, *line;
  const char *extra; // attributes of the node
};
const Style &styleOf(Role r);
constexpr const char *kKeptFill = "#BFE6B5", *kKeptLine = "#2F7D22";

// By value: whether a picture shows it as kept: a mark, or a boundary that passes it, says so.
std::vector<bool> keptValues(const Graph &g);

// A point in a column's frame. Points of frames are arranged by columnOrder.
std::string columnAnchor(Role column);
// Puts the frames of these columns beside one another, in the order of kColumns, whatever the
// arrows between them.
std::string columnOrder(llvm::ArrayRef<Role> framed);

// The legend: a row for each role that is used, one for kept values, and then `others`, rows of
// HTML. "" if there would be none, as Graphviz rejects an empty table.
using UsedRoles = std::array<bool, kRoles>;
std::string legend(const UsedRoles &used, bool hasKept, llvm::ArrayRef<std::string> others = {});
// A row of a legend: a box with a frame, and a text; `style` is "rounded" or "dashed".
std::string legendRow(const char *fill, const char *line, const char *text,
                      const char *style = "rounded");
// A row whose sign is a word.
std::string legendRow(const char *word, const char *text);

// Shortens long names in the middle; their ends tell them apart.
std::string shortened(llvm::StringRef name);

} // namespace isthmus::dot_style
