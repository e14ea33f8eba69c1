// Colours and columns of nodes, which the drawings of dot.h share.
#pragma once

#include "ir/graph.h"
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

// Shortens long names in the middle; their ends tell them apart.
std::string shortened(llvm::StringRef name);

} // namespace isthmus::dot_style
