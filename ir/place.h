// The devices on which the nodes of a graph run.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The device of nodes that name none.
constexpr llvm::StringLiteral kFirstDevice = "cpu:0";

inline llvm::StringRef deviceOf(const Node &n) {
  return n.device.empty() ? llvm::StringRef(kFirstDevice) : llvm::StringRef(n.device);
}

// The devices that nodes of the graph run on, numbered: by the letters of their names, then by the
// number at the end (cpu:2 before cpu:10). A graph without nodes has the first device.
class Places {
public:
  explicit Places(const Graph &g);

  size_t count() const { return names_.size(); }
  bool isOne() const { return count() == 1; }
  const std::vector<std::string> &names() const { return names_; }
  const std::string &name(uint32_t place) const { return names_[place]; }
  uint32_t of(NodeId n) const { return byNode_[n.index]; }
  std::optional<uint32_t> find(llvm::StringRef device) const;

private:
  std::vector<std::string> names_;
  std::vector<uint32_t> byNode_;
};

// Whether `a` comes before `b` in that order.
bool deviceBefore(llvm::StringRef a, llvm::StringRef b);

// Whether the graph has messages between its devices.
bool hasMessages(const Graph &g);

// Whether the node lets the sender of a value go on and overwrite it.
inline bool isWaitForSend(const Graph &g, const Node &n) {
  return n.op->is(kWait) && g.node(g.value(n.operands[1]).def).op->is(kSend);
}

} // namespace isthmus
