#include "passes/rewrite/inverse_errors.h"

#include "ir/builder.h"
#include "passes/rebuild.h"
#include "passes/rewrite/original.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

// The largest absolute value of an element, in f64 whatever the element type.
ValueId largest(Builder &b, ValueId v) {
  return b.create("max", {b.create("abs", {b.cast(v, DType::F64)})});
}

// At most `most` elements of `v`, at even distances: a copy, or `v` itself if it has no more.
ValueId sampled(Builder &b, ValueId v, int64_t most) {
  const int64_t elements = b.type(v).elements();
  if (elements <= most)
    return v;
  const int64_t step = (elements - 1) / most + 1;
  return b.create("slice", {b.reshape(v, {elements})},
                  {{"starts", Ints{0}}, {"limits", Ints{elements}}, {"steps", Ints{step}}});
}

// Tracks the entries whose rebuilt values a node depends on.
class Sources {
public:
  explicit Sources(const Graph &g) : g_(g), of_(g.numNodes()) {}

  // Call it for the nodes in order. A node that reads a rebuilt value depends on its entry alone,
  // not on the entries behind that.
  const std::vector<size_t> &at(NodeId id) {
    std::vector<size_t> &all = of_[id.index];
    for (ValueId v : g_.node(id).operands)
      if (NodeId def = g_.value(v).def) {
        if (auto entry = entries_.find(def); entry != entries_.end())
          all.push_back(entry->second);
        else if (g_.node(def).isStandIn())
          llvm::append_range(all, of_[def.index]);
      }
    llvm::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }
  void setEntry(NodeId id, size_t entry) { entries_[id] = entry; }

private:
  const Graph &g_;
  std::vector<std::vector<size_t>> of_;
  llvm::DenseMap<NodeId, size_t> entries_;
};

} // namespace

InverseErrors withInverseErrors(const Graph &g, int64_t mostElements) {
  InverseErrors out;
  Rebuilder r(g);
  r.copyInputs();
  Sources sources(g);
  Builder b(r.to(), Phase::Backward);
  llvm::BitVector isInverse{unsigned(g.numNodes())};
  llvm::DenseMap<ValueId, ValueId> samples; // of the originals, in the new graph
  for (NodeId id : inversesIn(g)) {
    isInverse.set(id.index);
    samples[g.node(id).from.restores] = {};
  }
  std::vector<ValueId> asked;
  uint32_t endOfSource = 0; // the nodes that measure come last in the source order
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (!g.node(NodeId(i)).isStandIn())
      endOfSource = std::max(endOfSource, sourceIndex(g, NodeId(i)) + 1);
  auto placeLast = [&](uint32_t firstAdded) {
    for (uint32_t i = firstAdded; i < r.to().numNodes(); ++i)
      r.to().editNode(NodeId(i)).from.sourceIndex = endOfSource++;
  };
  auto takeSample = [&](ValueId original) {
    const uint32_t firstAdded = uint32_t(r.to().numNodes());
    samples[original] = sampled(b, r.map(original), mostElements);
    placeLast(firstAdded);
  };
  for (const Input &input : g.inputs())
    if (samples.count(input.value))
      takeSample(input.value);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const NodeId id(i);
    r.copyNode(id);
    for (uint32_t k = 0; k < g.node(id).numResults; ++k)
      if (samples.count(g.node(id).result(k)))
        takeSample(g.node(id).result(k));
    const std::vector<size_t> &from = sources.at(id);
    const ValueId made = g.node(id).firstResult, value = g.node(id).from.restores;
    if (!isInverse.test(i) || !isFloat(g.type(made).dtype))
      continue;
    sources.setEntry(id, out.all.size());
    InverseErrors::Of of{value, id, {}, {}, from};
    const uint32_t firstAdded = uint32_t(r.to().numNodes());
    of.most = largest(b, b.sub(sampled(b, r.map(made), mostElements), samples[value]));
    of.scale = largest(b, samples[value]);
    asked.push_back(of.most);
    asked.push_back(of.scale);
    out.all.push_back(std::move(of));
    placeLast(firstAdded);
  }
  out.graph = r.finish(llvm::ArrayRef<Rebuilder::OldOutput>());
  out.graph.loss = {};
  out.graph.record.budgetBytes.reset(); // it was the budget of `g` alone
  for (ValueId v : asked)
    out.graph.addOutput(v, {});
  return out;
}

} // namespace isthmus
