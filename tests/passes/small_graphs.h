// Helpers that the tests of small passes share.
#pragma once

#include "ir/builder.h"
#include <string>
#include <vector>

namespace isthmus {

inline ValueId addInput(Graph &g, llvm::StringRef name, Type type,
                        InputKind kind = InputKind::Input, Initializer init = {}) {
  return llvm::cantFail(g.addInput(kind, name, type, std::move(init)));
}

inline Node &nodeOf(Graph &g, ValueId v) { return g.editNode(g.value(v).def); }
inline const Node &nodeOf(const Graph &g, llvm::StringRef name) {
  return g.node(g.value(g.find(name)).def);
}

inline std::vector<std::string> nodeNames(const Graph &g) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    names.push_back(g.nodeName(NodeId(i)).str());
  return names;
}

inline std::vector<std::string> outputNames(const Graph &g) {
  std::vector<std::string> names;
  for (ValueId v : g.outputs())
    names.push_back(g.valueName(v).str());
  return names;
}

} // namespace isthmus
