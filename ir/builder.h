// Appends nodes to a graph. Building an invalid node is a bug of the caller and fails an
// ISTHMUS_CHECK. Input from files goes through Graph::addNode, which returns errors.
#pragma once

#include "ir/graph.h"
#include "ir/op_registry.h"

namespace isthmus {

class Builder {
public:
  explicit Builder(Graph &g, Phase phase = Phase::Forward) : phase(phase), g_(g) {}

  // These apply to all nodes created from now on.
  Phase phase;
  std::string device;
  Loc loc;
  NodeId gradientOf;  // Provenance::gradientOf
  std::string prefix; // prepended to each node's name, which is the op's by default

  Graph &graph() { return g_; }
  const Type &type(ValueId v) const { return g_.type(v); }

  // `create` appends a node and returns its first result. `createNode` returns the node, for ops
  // with several results.
  ValueId create(llvm::StringRef op, llvm::ArrayRef<ValueId> operands, Attrs attrs = {},
                 llvm::StringRef name = {});
  NodeId createNode(llvm::StringRef op, llvm::ArrayRef<ValueId> operands, Attrs attrs = {},
                    llvm::StringRef name = {});

  // Shorthands for gradients. Elementwise ones take equal shapes, or scalars of rank 0 to
  // broadcast.
  ValueId add(ValueId a, ValueId b) { return create("add", {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return create("sub", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return create("mul", {a, b}); }
  ValueId div(ValueId a, ValueId b) { return create("div", {a, b}); }
  ValueId neg(ValueId a) { return create("neg", {a}); }
  ValueId scale(ValueId a, double by); // a * by
  ValueId shift(ValueId a, double by); // a + by
  ValueId full(const Type &type, double value);
  ValueId zeros(const Type &type) { return full(type, 0); }
  ValueId reshape(ValueId a, llvm::ArrayRef<int64_t> dims); // `a` itself if its dims are `dims`
  ValueId transpose(ValueId a, llvm::ArrayRef<int64_t> perm);
  ValueId broadcastTo(ValueId a, llvm::ArrayRef<int64_t> dims); // numpy's rule
  ValueId sumTo(ValueId a, llvm::ArrayRef<int64_t> dims);       // the transpose of broadcastTo
  ValueId sum(ValueId a, llvm::ArrayRef<int64_t> axes, bool keepDims);
  ValueId cast(ValueId a, DType to);

private:
  Graph &g_;
};

// The permutation of the transpose that undoes a transpose by `perm`.
Ints inversePermutation(const Ints &perm);

} // namespace isthmus
