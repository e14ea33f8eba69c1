#include "passes/chunk/region.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

namespace isthmus {
namespace {

bool mayBeCut(const Node &n) {
  return n.op->effect != Effect::Ordered && !n.op->runsOnce && !n.isStandIn() &&
         n.phase != Phase::Update;
}

bool isAddition(const Graph &g, const Node &n) {
  return n.op->name == "add" && !n.isStandIn() && n.phase != Phase::Update &&
         llvm::all_of(n.operands, [&](ValueId v) { return g.type(v) == g.type(n.firstResult); });
}

} // namespace

RegionGraph regionGraphOf(const Graph &g) {
  RegionGraph out;
  out.values.resize(g.numValues());
  for (uint32_t v = 0; v < g.numValues(); ++v) {
    const Type &type = g.type(ValueId(v));
    RegionGraph::Value &value = out.values[v];
    value.dims = type.dims;
    value.bytes = type.bytes();
    value.isFloat = isFloat(type.dtype);
  }
  for (ValueId v : g.outputs())
    out.values[v.index].isKept = true;
  if (g.loss)
    out.values[g.loss.index].isKept = true;
  llvm::StringMap<uint32_t> devices;
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    RegionGraph::Op op;
    for (ValueId v : n.operands)
      op.operands.push_back(v.index);
    for (uint32_t r = 0; r < n.numResults; ++r)
      op.results.push_back(n.result(r).index);
    op.mayBeCut = mayBeCut(n);
    op.isAddition = isAddition(g, n);
    op.goesOn = !n.op->accumulation.op.empty();
    op.device = devices.try_emplace(n.device, uint32_t(devices.size())).first->second;
    out.addOp(std::move(op));
  }
  out.cutsOf = [&g](uint32_t op, CallPlace place, AxisCut cut) {
    return cutsOf(g.call(NodeId(op)), place, cut);
  };
  return out;
}

std::optional<ChunkRegion> growRegion(const RegionGraph &g, ValueId v, AxisCut cut,
                                      const RegionOptions &o) {
  const GrownRegion grown = grownRegion(g, v.index, cut, o);
  if (grown.isWhole)
    return std::nullopt;
  ChunkRegion region;
  for (uint32_t op : grown.ops) {
    region.nodes.push_back(NodeId(op));
    region.isIn[NodeId(op)] = true;
  }
  for (const auto &[value, its] : grown.cuts)
    region.cuts[ValueId(value)] = its;
  region.units = grown.units;
  for (uint32_t value : grown.perChunk)
    region.isPerChunk[ValueId(value)] = true;
  region.parted = grown.parted;
  for (const auto &[sum, total] : grown.totals)
    region.totals[ValueId(sum)] = ValueId(total);
  return region;
}

} // namespace isthmus
