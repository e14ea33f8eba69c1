#include "passes/lower/batch.h"

#include "passes/rebuild.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

std::optional<int64_t> batchOf(const Graph &g) {
  for (const Input &input : g.inputs())
    if (input.kind == InputKind::Input && g.type(input.value).rank() > 0)
      return g.type(input.value).dims[0];
  return std::nullopt;
}

class Resizing {
public:
  Resizing(const Graph &g, int64_t from, int64_t to) : g_(g), from_(from), to_(to), r_(g) {}

  llvm::Expected<Graph> run() {
    for (const Input &input : g_.inputs()) {
      Type type = g_.type(input.value);
      if (input.kind == InputKind::Input && type.rank() > 0 && type.dims[0] == from_)
        type.dims[0] = to_;
      if (!type.isValid())
        return makeError("'%{0}' would have over 2^60 bytes: {1}", g_.valueName(input.value),
                         type.str());
      r_.copyInput(input, type, input.init);
    }
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      auto copy = r_.copyNodeWith(NodeId(i), resized(g_.node(NodeId(i))));
      if (!copy)
        return addNote(
            locate(copy.takeError(), g_.whereIs(NodeId(i))),
            llvm::formatv("the model is of {0} examples, and was to be one of {1}", from_, to_)
                .str());
    }
    return r_.finish();
  }

private:
  bool isChanged(ValueId old) { return r_.to().type(r_.map(old)) != g_.type(old); }

  // Whether the first dimension of the node's result is proportional to the batch size.
  bool resultChanges(const Node &n, const Dims &dims) {
    if (dims.empty() || dims[0] * to_ % from_ != 0)
      return false;
    if (llvm::any_of(n.operands, [&](ValueId v) { return isChanged(v); }))
      return true;
    // True for a bias that is broadcast over the examples and for noise, but not for a reshaped
    // weight.
    const bool isReshaped = llvm::any_of(n.operands, [&](ValueId v) {
      return g_.type(v).elements() == g_.type(n.firstResult).elements();
    });
    return dims[0] == from_ && !isReshaped;
  }

  Attrs resized(const Node &n) {
    Attrs attrs = n.attrs;
    const Dims &dims = g_.type(n.firstResult).dims;
    const Attr *spelled = attrs.find("dims");
    const auto *sizes = spelled ? std::get_if<Ints>(spelled) : nullptr;
    if (sizes && llvm::makeArrayRef(*sizes) == llvm::makeArrayRef(dims) && resultChanges(n, dims)) {
      Ints now = *sizes;
      now[0] = now[0] * to_ / from_;
      attrs.set("dims", now);
    }
    const Attr *limits = attrs.find("limits"); // a slice of all examples still takes all
    if (limits && isChanged(n.operands[0])) {
      Ints now = std::get<Ints>(*limits);
      if (!now.empty() && now[0] == g_.type(n.operands[0]).dims[0])
        now[0] = r_.to().type(r_.map(n.operands[0])).dims[0];
      attrs.set("limits", now);
    }
    return attrs;
  }

  const Graph &g_;
  const int64_t from_, to_;
  Rebuilder r_;
};

} // namespace

llvm::Expected<Graph> withBatch(const Graph &g, int64_t batch) {
  if (g.hasBackward() || g.wasPlanned())
    return locate(makeError("the graph has gradients, which are for its own number of examples; "
                            "expected the forward graph that they were made of"),
                  g.sourceFile);
  auto from = batchOf(g);
  if (!from || *from < 1)
    return locate(makeError("no input of the graph has a first size that could count examples"),
                  g.sourceFile);
  return *from == batch ? Graph(g) : Resizing(g, *from, batch).run();
}

} // namespace isthmus
