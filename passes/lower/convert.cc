#include "passes/lower/convert.h"

#include "ir/builder.h"
#include "ir/check.h"
#include "ir/element.h"
#include "passes/rebuild.h"
#include "llvm/ADT/BitVector.h"

namespace isthmus {
namespace {

Tensor converted(const Tensor &from, DType to) {
  if (from.type.dtype == to)
    return from;
  return Tensor::make(from.type.with(to), [&](char *data) {
    for (int64_t i = 0, n = from.type.elements(); i < n; ++i)
      setElement(to, data, i, elementAsDouble(from, i));
  });
}

// By convention of the op table, the attribute `type` names the element type of the result.
Attrs converted(Attrs attrs, DType to) {
  const Attr *type = attrs.find("type");
  if (type && kindOf(*type) == AttrKind::String)
    if (auto named = parseDType(std::get<std::string>(*type)); named && isFloat(*named))
      attrs.set("type", dtypeName(to).str());
  return attrs;
}

// Nodes that must stay because an output, the loss, a clone, a mark or an `after` edge refers to
// them.
llvm::BitVector neededNodes(const Graph &g) {
  llvm::BitVector needed(static_cast<unsigned>(g.numNodes()));
  for (ValueId v : g.outputs())
    if (g.value(v).def)
      needed.set(g.value(v).def.index);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (n.isClone()) {
      needed.set(i);
      needed.set(n.from.origin.index);
    }
    if (!n.marks.empty() || !n.from.after.empty())
      needed.set(i);
    for (NodeId before : n.from.after)
      needed.set(before.index);
  }
  if (g.loss && g.value(g.loss).def)
    needed.set(g.value(g.loss).def.index);
  return needed;
}

bool isFloatCast(const Graph &g, const Node &n) {
  return n.op->name == "cast" && isFloat(g.type(n.operands[0]).dtype) &&
         isFloat(g.type(n.firstResult).dtype);
}

// The operands to cast so that the op accepts their types: as few as possible, and rather to f32
// than from it. Empty if no casts help.
llvm::SmallVector<ValueId, 4> operandsToCast(Rebuilder &r, const Node &n, const Attrs &attrs,
                                             llvm::function_ref<Type(ValueId)> castType) {
  llvm::SmallVector<ValueId, 4> floats, best; // each operand once
  for (ValueId v : n.operands)
    if (isFloat(castType(v).dtype) && !llvm::is_contained(floats, v))
      floats.push_back(v);
  constexpr size_t kMost = 8;
  for (uint32_t mask = 1; floats.size() <= kMost && mask < 1u << floats.size(); ++mask) {
    llvm::SmallVector<ValueId, 4> cast;
    for (size_t i = 0; i < floats.size(); ++i)
      if (mask >> i & 1)
        cast.push_back(floats[i]);
    auto narrowed = [&](const llvm::SmallVector<ValueId, 4> &of) {
      return llvm::count_if(of, [&](ValueId v) { return castType(v).dtype != DType::F32; });
    };
    if (!best.empty() &&
        std::pair(cast.size(), narrowed(cast)) >= std::pair(best.size(), narrowed(best)))
      continue;
    std::vector<Type> types;
    for (ValueId v : n.operands)
      types.push_back(llvm::is_contained(cast, v) ? castType(v) : r.to().type(r.map(v)));
    if (auto results = inferTypes(*n.op, attrs, types))
      best = std::move(cast);
    else
      llvm::consumeError(results.takeError());
  }
  return best;
}

// Copies a node that does not accept its operands' new types: a row may take a statistic or the
// gradient of a loss in f32 beside 16-bit operands. Casts such operands.
llvm::Expected<NodeId> copyWithCasts(Rebuilder &r, NodeId id, const Attrs &attrs, DType to) {
  const Node &n = r.from().node(id);
  auto castType = [&](ValueId v) {
    const Type &now = r.to().type(r.map(v));
    return !isFloat(now.dtype) ? now : now.with(now.dtype == DType::F32 ? to : DType::F32);
  };
  Builder b(r.to(), n.phase);
  llvm::SmallVector<std::pair<ValueId, ValueId>, 4> before;
  for (ValueId v : operandsToCast(r, n, attrs, castType)) {
    before.push_back({v, r.map(v)});
    r.setMap(v, b.cast(r.map(v), castType(v).dtype));
  }
  auto copy = r.copyNodeWith(id, attrs);
  for (auto [v, now] : before)
    r.setMap(v, now);
  return copy;
}

} // namespace

llvm::Expected<Graph> withPrecision(const Graph &g, DType to) {
  ISTHMUS_CHECK(isFloat(to), "a precision that is no float type");
  Rebuilder r(g);
  for (const Input &input : g.inputs()) {
    Type type = g.type(input.value);
    Initializer init = input.init;
    if (isFloat(type.dtype) && type.dtype != to) {
      type = type.with(to);
      if (init.kind == Initializer::Kind::Data) {
        if (!init.data)
          return makeError(
              "the values of '{0}' cannot be converted to {1}: the weights file was not read",
              g.valueName(input.value), dtypeName(to));
        init.data = converted(init.data, to);
        init.key.clear(); // the weights file has the old type
      }
    }
    r.copyInput(input, type, std::move(init));
  }
  llvm::BitVector needed = neededNodes(g);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (isFloatCast(g, n) && !needed.test(i)) {
      r.setMap(n.firstResult, r.map(n.operands[0]));
      continue;
    }
    auto copy = r.copyNodeWith(NodeId(i), converted(n.attrs, to));
    if (!copy && n.op->viewOffset) { // the part does not begin at a place that the new type allows
      llvm::consumeError(copy.takeError());
      Builder b(r.to(), n.phase);
      ExpandContext context{b, n.attrs, {r.map(n.operands[0])}};
      r.setMap(n.firstResult, n.op->expand(context)[0]);
      continue;
    }
    if (!copy) {
      llvm::consumeError(copy.takeError());
      copy = copyWithCasts(r, NodeId(i), converted(n.attrs, to), to); // or the same error
    }
    if (!copy)
      return addNote(locate(copy.takeError(), g.whereIs(NodeId(i))),
                     llvm::formatv("while converting the graph to {0}", dtypeName(to)).str());
  }
  return r.finish();
}

} // namespace isthmus
