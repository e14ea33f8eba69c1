#include "passes/simplify/late_updates.h"

#include "ir/storage.h"
#include "passes/rebuild.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

Graph withLateUpdates(Graph g) {
  llvm::DenseMap<NodeId, NodeId> waitsFor;
  for (const Overwrite &o : possibleOverwrites(g))
    if (NodeId &last = waitsFor[o.node]; !last || last.index < o.lastReader.index)
      last = o.lastReader;
  if (llvm::all_of(waitsFor, [](const auto &w) { return w.first == w.second; }))
    return g;
  std::vector<std::vector<NodeId>> waiting(g.numNodes()); // by the node that they wait for
  for (const auto &[update, last] : waitsFor)
    if (last != update)
      waiting[last.index].push_back(update);
  Rebuilder r(g);
  r.copyInputs();
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    if (auto w = waitsFor.find(NodeId(i)); w == waitsFor.end() || w->second == NodeId(i))
      r.copyNode(NodeId(i));
    llvm::sort(waiting[i]);
    for (NodeId update : waiting[i])
      r.copyNode(update);
  }
  return r.finish();
}

} // namespace isthmus
