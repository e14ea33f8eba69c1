#include "passes/lower/fuse_bias.h"

#include "ir/builder.h"
#include "passes/rebuild.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"

namespace isthmus {
namespace {

// Values that are referred to otherwise than as operands: outputs, the loss, and nodes in `after`
// edges.
llvm::BitVector namedOtherwise(const Graph &g) {
  llvm::BitVector named = namedValues(g);
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    for (NodeId before : g.node(NodeId(i)).from.after)
      named.set(g.node(before).firstResult.index);
  return named;
}

// Whether a value is the same for every row of a product: one element for each column.
bool isRow(const Type &t, const Type &product) {
  return t.rank() > 0 && t.dims.back() == product.dims.back() &&
         t.elements() == product.dims.back();
}

class FuseBias {
public:
  explicit FuseBias(const Graph &g) : g_(g), uses_(g), named_(namedOtherwise(g)), r_(g) {}

  Graph run() {
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      findSum(NodeId(i));
    r_.copyInputs();
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      auto found = sums_.find(i);
      if (found == sums_.end())
        r_.copyNode(NodeId(i));
      else if (const Sum &s = found->second; !r_.map(s.add) && r_.map(s.bias))
        fuse(s); // at the product's position or, if the bias is made later, at the add's
    }
    return r_.finish();
  }

private:
  struct Sum {
    NodeId product, add;
    ValueId bias;
  };

  void findSum(NodeId id) {
    const Node &n = g_.node(id);
    if (n.op->name != "add" || !n.from.after.empty())
      return;
    for (size_t side : {0, 1}) {
      ValueId y = n.operands[side], bias = n.operands[1 - side];
      if (!canAddTo(y, n) || !isRow(g_.type(bias), g_.type(y)))
        continue;
      NodeId product = g_.value(y).def;
      sums_[product.index] = sums_[id.index] = {product, id, bias};
      return;
    }
  }

  bool canAddTo(ValueId y, const Node &add) const {
    NodeId def = g_.value(y).def;
    if (!def)
      return false;
    const Node &product = g_.node(def);
    return product.op->name == "matmul" && product.operands.size() == 2 &&
           g_.type(y) == g_.type(add.firstResult) && uses_.of(y).size() == 1 &&
           !named_.test(y.index) && product.marks.empty() && product.from.after.empty() &&
           product.phase == add.phase && product.device == add.device;
  }

  void fuse(const Sum &s) {
    const Node &add = g_.node(s.add), &product = g_.node(s.product);
    const std::string name = g_.nodeName(s.add).str();
    Builder b(r_.to());
    r_.standWith(b, s.add);
    ValueId bias = r_.map(s.bias);
    const int64_t columns = b.type(bias).dims.back();
    if (b.type(bias).rank() > 1)
      bias = b.create("reshape", {bias}, {{"dims", Ints{columns}}}, r_.freshName(name + ".bias"));
    NodeId fused =
        b.createNode("matmul", {r_.map(product.operands[0]), r_.map(product.operands[1]), bias},
                     product.attrs, name);
    r_.to().editNode(fused).marks = add.marks;
    r_.setMap(s.product, fused); // its gradient is now that of the fused node
    r_.setMap(s.add, fused);
  }

  const Graph &g_;
  const Uses uses_;
  const llvm::BitVector named_;
  Rebuilder r_;
  llvm::DenseMap<uint32_t, Sum> sums_; // by index of product and of add
};

} // namespace

Graph withFusedBias(const Graph &g) { return g.isRewritten() ? g : FuseBias(g).run(); }

} // namespace isthmus
