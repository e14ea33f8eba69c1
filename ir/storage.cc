#include "ir/storage.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

// A view may come before what it shows, if that is a value that chunks replace. In a wrong file,
// views may show each other.
std::vector<ValueId> rootsOfViews(const Graph &g) {
  std::vector<ValueId> roots(g.numValues());
  std::vector<ValueId> views; // of one root
  for (uint32_t i = 0; i < g.numValues(); ++i) {
    ValueId v(i);
    while (!roots[v.index]) {
      roots[v.index] = v;
      const NodeId def = g.value(v).def;
      if (!def || !g.node(def).op->is(kView))
        break;
      views.push_back(v);
      v = g.node(def).operands[0];
    }
    for (ValueId view : views)
      roots[view.index] = roots[v.index];
    views.clear();
  }
  return roots;
}

class Overwrites {
public:
  Overwrites(const Graph &g, llvm::ArrayRef<ValueId> roots)
      : g_(g), roots_(roots), isRead_(unsigned(g.numValues())), isOutput_(isRead_),
        isTaken_(isRead_), nextOf_(g.numValues()), lastReader_(g.numValues()) {}

  std::vector<Overwrite> find() {
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      if (const OutputRole &role = g_.role(i); role.kind == OutputKind::NextState)
        nextOf_[g_.outputs()[i].index] = role.of;
    if (llvm::none_of(nextOf_, [](ValueId v) { return bool(v); })) // the usual case
      return {};
    for (ValueId v : g_.outputs())
      isOutput_.set(roots_[v.index].index);
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      for (ValueId v : g_.node(NodeId(i)).operands) {
        isRead_.set(v.index);
        lastReader_[roots_[v.index].index] = NodeId(i);
      }
    const llvm::BitVector isOfGradients = valuesOfGradients(g_);
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      if (const Node &n = g_.node(NodeId(i));
          n.phase == Phase::Update && n.numResults > 0 && isOfGradients.test(n.firstResult.index))
        findOf(NodeId(i));
    return std::move(found_);
  }

private:
  void findOf(NodeId id) {
    const Node &n = g_.node(id);
    for (uint32_t r = 0; r < n.numResults; ++r)
      if (isRead_[n.result(r).index])
        return;
    for (const InPlace &pair : n.op->inPlace) {
      if (pair.operand >= n.operands.size())
        continue;
      const ValueId input = n.operands[pair.operand], now = n.result(pair.result);
      const auto sharing =
          llvm::count_if(n.operands, [&](ValueId v) { return roots_[v.index] == input; });
      if (nextOf_[now.index] != input || isOutput_[input.index] || isTaken_[input.index] ||
          isTaken_[now.index] || !g_.inputOf(input) || g_.type(input) != g_.type(now) ||
          (sharing > 1 && !n.op->is(kElementwise)))
        continue;
      isTaken_.set(input.index);
      isTaken_.set(now.index);
      found_.push_back({id, pair.result, pair.operand, lastReader_[input.index]});
    }
  }

  const Graph &g_;
  llvm::ArrayRef<ValueId> roots_;
  llvm::BitVector isRead_;         // by value
  llvm::BitVector isOutput_;       // by root: it or a view of it is an output
  llvm::BitVector isTaken_;        // by value: already paired, as input or as next value
  std::vector<ValueId> nextOf_;    // by value: the input whose next value it is
  std::vector<NodeId> lastReader_; // by root
  std::vector<Overwrite> found_;
};

} // namespace

// A node of the backward phase, or one that reads results of such nodes, depends on gradients. A
// clone is treated like its origin and a stand-in like the value that it restores, so a plan
// changes no answer.
llvm::BitVector valuesOfGradients(const Graph &g) {
  llvm::BitVector isOf(unsigned(g.numValues()));
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    const ValueId standsFor = n.isClone()            ? g.node(n.from.origin).firstResult
                              : n.is(StandIn::Chunk) ? ValueId() // what it restores has no bytes
                                                     : n.from.restores;
    if (standsFor ? isOf.test(standsFor.index)
                  : n.phase == Phase::Backward ||
                        llvm::any_of(n.operands, [&](ValueId v) { return isOf.test(v.index); }))
      isOf.set(n.firstResult.index, n.firstResult.index + n.numResults);
  }
  return isOf;
}

std::vector<Overwrite> possibleOverwrites(const Graph &g) {
  return Overwrites(g, rootsOfViews(g)).find();
}

std::vector<ValueId> storageRoots(const Graph &g) {
  std::vector<ValueId> roots = rootsOfViews(g);
  for (const Overwrite &o : Overwrites(g, roots).find())
    if (const Node &n = g.node(o.node); o.isInPlace())
      roots[n.result(o.result).index] = n.operands[o.operand];
  return roots;
}

std::vector<int64_t> storageOffsets(const Graph &g) {
  std::vector<int64_t> offsets(g.numValues(), 0);
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (const Node &n = g.node(NodeId(i)); n.op->is(kView))
      offsets[n.firstResult.index] = offsets[n.operands[0].index] + viewOffset(g.call(NodeId(i)));
  return offsets;
}

} // namespace isthmus
