#include "tests/testing/invert.h"

#include "ir/builder.h"
#include "ir/value_facts.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

using Known = llvm::DenseMap<ValueId, Tensor>;

class Derivation {
public:
  Derivation(const KernelTable &kernels, const Graph &g, Known known,
             const InterpretOptions &options)
      : kernels_(kernels), g_(g), facts_(g), known_(std::move(known)), options_(options) {}

  // Sweeps over the graph in both directions until a sweep finds no new value.
  llvm::Expected<Known> run() {
    size_t before;
    do {
      before = known_.size();
      for (uint32_t i = 0; i < g_.numNodes(); ++i)
        if (llvm::Error e = forwards(g_.node(NodeId(i)), NodeId(i)))
          return e;
      for (uint32_t i = uint32_t(g_.numNodes()); i-- > 0;)
        for (size_t operand = 0; operand < g_.node(NodeId(i)).operands.size(); ++operand)
          if (llvm::Error e = backwards(g_.node(NodeId(i)), operand))
            return e;
    } while (known_.size() > before);
    return std::move(known_);
  }

private:
  llvm::Error forwards(const Node &n, NodeId id) {
    if (known_.count(n.firstResult) || n.phase != Phase::Forward ||
        !llvm::all_of(n.operands, [&](ValueId v) { return known_.count(v); }))
      return llvm::Error::success();
    llvm::SmallVector<Tensor, 4> operands;
    for (ValueId v : n.operands)
      operands.push_back(known_[v]);
    auto results = interpretCall(kernels_, g_.call(id), operands, options_);
    if (!results)
      return results.takeError();
    for (uint32_t r = 0; r < n.numResults; ++r)
      known_[n.result(r)] = (*results)[r];
    return llvm::Error::success();
  }

  // Builds the rule's nodes in a graph of their own, and runs them if all values that they read are
  // known.
  llvm::Error backwards(const Node &n, size_t wanted) {
    ValueId v = n.operands[wanted];
    bool hasResult = false; // every rule reads a result
    for (uint32_t r = 0; r < n.numResults; ++r)
      hasResult |= known_.count(n.result(r)) != 0;
    if (known_.count(v) || !hasResult || !n.op->inverse || n.phase != Phase::Forward ||
        (n.op->inverseHolds && !n.op->inverseHolds(facts_, n, wanted)))
      return llvm::Error::success();
    Graph scratch;
    Builder b(scratch);
    InverseContext c{b, n.attrs, {}, {}, g_.type(v)};
    llvm::DenseMap<ValueId, ValueId> original; // by their inputs of the scratch graph
    auto standIn = [&](ValueId from) {
      ValueId to = llvm::cantFail(scratch.addInput(InputKind::Input, "v", g_.type(from)));
      original[to] = from;
      return to;
    };
    for (ValueId operand : n.operands)
      c.operands.push_back(operand == v ? ValueId() : standIn(operand));
    for (uint32_t r = 0; r < n.numResults; ++r)
      c.results.push_back(standIn(n.result(r)));
    ValueId back = n.op->inverse(c, wanted);
    if (!back)
      return llvm::Error::success();
    Known inputs;
    for (auto [to, from] : original) {
      bool isRead = back == to;
      for (uint32_t i = 0; i < scratch.numNodes(); ++i)
        isRead |= llvm::is_contained(scratch.node(NodeId(i)).operands, to);
      if (isRead && !known_.count(from))
        return llvm::Error::success();
      inputs[to] = isRead ? known_[from] : Tensor::make(g_.type(from), [](char *) {});
    }
    scratch.addOutput(back);
    auto found = interpret(kernels_, scratch, inputs, options_);
    if (!found)
      return found.takeError();
    known_[v] = (*found)[0];
    return llvm::Error::success();
  }

  const KernelTable &kernels_;
  const Graph &g_;
  ValueFacts facts_;
  Known known_;
  InterpretOptions options_;
};

} // namespace

llvm::Expected<Known> deriveValues(const KernelTable &kernels, const Graph &g, Known known,
                                   const InterpretOptions &options) {
  return Derivation(kernels, g, std::move(known), options).run();
}

} // namespace isthmus
