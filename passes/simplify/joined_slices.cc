#include "passes/simplify/joined_slices.h"

#include "ir/op_registry.h"
#include "passes/rebuild.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

// A slice that takes all elements on all axes but one, and a contiguous range [start, limit) on
// that one.
struct Part {
  NodeId node;
  size_t axis;
  int64_t start, limit;
};

std::optional<Part> partOf(const Graph &g, NodeId id) {
  const Node &n = g.node(id);
  if (n.op->name != "slice" || g.inputOf(n.operands[0]) || n.phase != Phase::Forward ||
      !n.marks.empty() || n.isStandIn() || !n.from.after.empty())
    return std::nullopt;
  const Dims &dims = g.type(n.operands[0]).dims;
  const Ints &starts = n.attrs.getInts("starts"), &limits = n.attrs.getInts("limits");
  if (llvm::any_of(n.attrs.getInts("steps"), [](int64_t step) { return step != 1; }))
    return std::nullopt;
  std::optional<Part> part;
  for (size_t a = 0; a < dims.size(); ++a) {
    if (starts[a] == 0 && limits[a] == dims[a])
      continue;
    if (part)
      return std::nullopt;
    part = Part{id, a, starts[a], limits[a]};
  }
  return part;
}

constexpr size_t kMostParts = 4; // the gates of an LSTM

// Whether the parts, once sorted, take each element of an axis of this size once.
bool takeAll(std::vector<Part> &parts, int64_t size) {
  if (parts.size() > kMostParts)
    return false;
  llvm::sort(parts, [](const Part &a, const Part &b) { return a.start < b.start; });
  int64_t at = 0;
  for (const Part &p : parts) {
    if (p.start != at || p.limit == p.start)
      return false;
    at = p.limit;
  }
  return at == size;
}

} // namespace

Graph withJoinedSlices(const Graph &g) {
  llvm::MapVector<std::pair<ValueId, size_t>, std::vector<Part>> groups;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (auto part = partOf(g, NodeId(i)))
      groups[{g.node(NodeId(i)).operands[0], part->axis}].push_back(*part);
  std::vector<const std::vector<Part> *> groupOf(g.numNodes()); // by index of its first node
  std::vector<bool> isJoined(g.numNodes());
  for (auto &[of, parts] : groups) {
    if (!takeAll(parts, g.type(of.first).dims[of.second]))
      continue;
    uint32_t first = parts[0].node.index;
    for (const Part &p : parts) {
      first = std::min(first, p.node.index);
      isJoined[p.node.index] = true;
    }
    groupOf[first] = &parts;
  }

  Rebuilder r(g);
  r.copyInputs();
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    if (const std::vector<Part> *parts = groupOf[i]) {
      const Node &first = g.node(NodeId(i));
      Ints sizes;
      std::vector<std::string> names;
      for (const Part &p : *parts) {
        sizes.push_back(p.limit - p.start);
        names.push_back(g.nodeName(p.node).str());
      }
      NodeId split = llvm::cantFail(
          r.to().addNode(OpRegistry::get().at("split"), {r.map(first.operands[0])},
                         {{"axis", int64_t(parts->front().axis)}, {"sizes", sizes}}, names));
      Node &made = r.to().editNode(split);
      made.device = first.device;
      made.loc = first.loc;
      for (size_t p = 0; p < parts->size(); ++p)
        r.setMap(g.node((*parts)[p].node).firstResult, made.result(uint32_t(p)));
    }
    if (!isJoined[i])
      r.copyNode(NodeId(i));
  }
  return r.finish();
}

} // namespace isthmus
