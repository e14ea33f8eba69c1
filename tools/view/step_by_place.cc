#include "tools/view/step_by_place.h"

#include "llvm/ADT/DenseMap.h"

namespace isthmus {
namespace {

// What the arena of a device may have: the budget, and what parameters and inputs leave of its
// memory.
std::optional<int64_t> budgetOf(const Compiled &c, const CompileOptions &o, const Machine &machine,
                                const StageFigures &s) {
  int64_t most = c.budgetBytes.value_or(INT64_MAX);
  if (o.memoryLimitBytes)
    most = std::min(most, *o.memoryLimitBytes - s.persistentBytes);
  if (const Machine::Device *d = machine.find(s.device); d && d->memoryBytes)
    most = std::min(most, *d->memoryBytes - s.persistentBytes);
  return most < INT64_MAX ? std::optional(most) : std::nullopt;
}

// The value of the whole graph that `v` is another instance of. Parts of a value are values of
// their own.
ValueId partStoodFor(const Graph &whole, ValueId v) {
  while (const NodeId def = whole.value(v).def) {
    const Node &n = whole.node(def);
    if (n.isClone())
      v = whole.node(n.from.origin).result(whole.value(v).resultIndex);
    else if (n.isRestoring() && !n.is(StandIn::Chunk))
      v = n.from.restores;
    else
      break;
  }
  return v;
}

class PlaceTable {
public:
  explicit PlaceTable(const PlacePart &p) : p_(p), whole_(p.nodes.whole), g_(p.graph) {}

  StepTable run() {
    addNodes();
    addValues();
    std::vector<ModulePath> paths;
    const std::vector<ModulePath> all = modulePathsOf(whole_);
    for (NodeId n : p_.nodes.of)
      paths.push_back(all[n.index]);
    t_.modules = modulesOf(paths);
    return std::move(t_);
  }

private:
  const Node &wholeNode(uint32_t i) const { return whole_.node(p_.nodes.of[i]); }

  void addNodes() {
    OpNumbers ops(t_.ops);
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i)), &w = wholeNode(i);
      // All nodes of a micro-batch are chunks, and its number is told beside.
      const StandIn kind = w.is(StandIn::Chunk) ? StandIn::None : w.from.kind;
      t_.nodes.push_back({ops(*n.op), w.phase, kind, n.firstResult.index});
      std::vector<uint32_t> &operands = t_.operands.emplace_back();
      for (ValueId v : n.operands)
        operands.push_back(v.index);
    }
  }

  void addValues() {
    TextNumbers types(t_.types);
    llvm::DenseMap<ValueId, uint32_t> first; // by value of the whole: its first instance here
    for (uint32_t i = 0; i < g_.numValues(); ++i) {
      const Value &v = g_.value(ValueId(i));
      const ValueId stoodFor = partStoodFor(whole_, valueOfWhole(ValueId(i)));
      t_.values.push_back({types(v.type.str()), v.def ? v.def.index + 1 : 0,
                           first.try_emplace(stoodFor, i).first->second, std::string(v.name)});
    }
    for (const Input &input : g_.inputs())
      t_.inputs.push_back({input.value.index, inputKindName(input.kind).str()});
  }

  ValueId valueOfWhole(ValueId v) const {
    const Value &value = g_.value(v);
    return value.def ? wholeNode(value.def.index).result(value.resultIndex)
                     : whole_.find(value.name);
  }

  const PlacePart &p_;
  const Graph &whole_, &g_;
  StepTable t_;
};

} // namespace

StepByPlace stepByPlace(const Compiled &c, const CompileOptions &o, const Target &target) {
  const Machine machine = o.stages ? o.stages->machine : Machine();
  const Places places(c.graph);
  StepByPlace out;
  std::vector<std::vector<NodeId>> nodes = nodesByPlace(c.graph, places);
  for (size_t i = 0; i < c.programs.size(); ++i) {
    const CompiledProgram &p = c.programs[i];
    out.places.push_back({p.device,
                          p.graph,
                          p.layout,
                          {c.graph, std::move(nodes[i])},
                          budgetOf(c, o, machine, c.figures.stages[i])});
  }
  if (c.programs.empty())
    out.places.push_back(
        {places.name(0), c.graph, c.layout, {c.graph, std::move(nodes[0])}, c.budgetBytes});
  out.times = simulateStep(c.graph, target, machine);
  out.bars = workBars(c.graph, places, out.times);
  return out;
}

llvm::Expected<StepTable> stepTableOf(const PlacePart &p, const Target &target) {
  auto timeline = timelineOf(p.graph, &p.layout, target, &p.nodes);
  if (!timeline)
    return timeline.takeError();
  StepTable t = PlaceTable(p).run();
  t.timeline = std::move(*timeline);
  return t;
}

} // namespace isthmus
