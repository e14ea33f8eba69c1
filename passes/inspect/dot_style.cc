#include "passes/inspect/dot_style.h"

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

std::string shortened(llvm::StringRef name) {
  constexpr size_t kMost = 40;
  return name.size() <= kMost ? name.str()
                              : (name.take_front(12) + "..." + name.take_back(kMost - 15)).str();
}

} // namespace isthmus::dot_style
