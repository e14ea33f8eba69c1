#include "passes/lower/convert.h"

#include "ir/builder.h"
#include "ir/check.h"
#include "ir/element.h"
#include "ir/provenance.h"
#include "passes/lower/held_constants.h"
#include "passes/rebuild.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

namespace isthmus {
namespace {

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

bool haveOtherTypes(const Graph &a, const Graph &b) {
  if (a.numValues() != b.numValues())
    return true;
  for (uint32_t i = 0; i < a.numValues(); ++i)
    if (!(a.type(ValueId(i)) == b.type(ValueId(i))))
      return true;
  return false;
}

class Conversion {
public:
  Conversion(const Graph &g, DType to)
      : g_(g), to_(to), r_(g), needed_(neededNodes(g)), constants_(to) {}

  llvm::Expected<Graph> run(const NoteSink &note) {
    for (const Input &input : g_.inputs())
      if (llvm::Error e = convertInput(input))
        return e;
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const uint32_t first = uint32_t(r_.to().numNodes());
      if (llvm::Error e = convertNode(NodeId(i)))
        return addNote(locate(std::move(e), g_.whereIs(NodeId(i))),
                       llvm::formatv("while converting the graph to {0}", dtypeName(to_)).str());
      for (NodeId made(first); made.index < r_.to().numNodes(); ++made.index)
        madeFor_.push_back(NodeId(i));
    }
    Graph out = r_.finish();
    if (hasAdded_ && g_.isRewritten())
      place(out);
    if (haveOtherTypes(g_, out))
      out.record.budgetBytes.reset();
    constants_.tell(note);
    return out;
  }

private:
  // By convention of the op table, the attribute `type` names the element type of the result.
  Attrs converted(const Node &n) {
    Attrs attrs = n.attrs;
    const Attr *type = attrs.find("type");
    if (type && kindOf(*type) == AttrKind::String)
      if (auto named = parseDType(std::get<std::string>(*type)); named && isFloat(*named))
        attrs.set("type", dtypeName(to_).str());
    const DType was = g_.type(n.firstResult).dtype;
    if (!isFloat(was) || was == to_)
      return attrs;
    HeldConstants ofCopies(to_); // not told again
    HeldConstants &held = n.isStandIn() ? ofCopies : constants_;
    for (const auto &[name, value] : n.attrs)
      if (kindOf(value) == AttrKind::Float)
        attrs.set(name, held.number(g_.valueName(n.firstResult), name, std::get<double>(value)));
    return attrs;
  }

  llvm::Error convertInput(const Input &input) {
    Type type = g_.type(input.value);
    Initializer init = input.init;
    if (isFloat(type.dtype) && type.dtype != to_) {
      type = type.with(to_);
      if (init.kind == Initializer::Kind::Data) {
        if (!init.data)
          return makeError(
              "the values of '{0}' cannot be converted to {1}: the weights file was not read",
              g_.valueName(input.value), dtypeName(to_));
        init.data = constants_.tensor(g_.valueName(input.value), init.data);
        init.key.clear(); // the weights file has the old type
      } else if (init.kind == Initializer::Kind::Fill)
        init.args.set("value", constants_.number(g_.valueName(input.value), "value",
                                                 init.args.getFloat("value")));
    }
    r_.copyInput(input, type, std::move(init));
    return llvm::Error::success();
  }

  llvm::Error convertNode(NodeId id) {
    const Node &n = g_.node(id);
    if (isFloatCast(g_, n) && !needed_.test(id.index)) {
      r_.setMap(n.firstResult, r_.map(n.operands[0]));
      return llvm::Error::success();
    }
    const Attrs attrs = converted(n);
    auto copy = r_.copyNodeWith(id, attrs);
    if (copy)
      return llvm::Error::success();
    if (n.op->viewOffset) { // the part does not begin at a place that the new type allows
      llvm::consumeError(copy.takeError());
      hasAdded_ = true;
      Builder b(r_.to());
      r_.standWith(b, id);
      ExpandContext context{b, n.attrs, {r_.map(n.operands[0])}};
      r_.setMap(n.firstResult, n.op->expand(context)[0]);
      return llvm::Error::success();
    }
    llvm::consumeError(copy.takeError());
    return copyWithCasts(id, attrs); // or the same error
  }

  // Copies a node that does not accept its operands' new types: a row may take a statistic or the
  // gradient of a loss in f32 beside 16-bit operands. Casts such operands; for a clone, by clones
  // of its origin's casts.
  llvm::Error copyWithCasts(NodeId id, const Attrs &attrs) {
    const Node &n = g_.node(id);
    auto castType = [&](ValueId v) {
      const Type &now = r_.to().type(r_.map(v));
      return !isFloat(now.dtype) ? now : now.with(now.dtype == DType::F32 ? to_ : DType::F32);
    };
    Builder b(r_.to());
    r_.standWith(b, id);
    llvm::SmallVector<std::pair<ValueId, ValueId>, 4> before;
    for (ValueId v : operandsToCast(r_, n, attrs, castType)) {
      before.push_back({v, r_.map(v)});
      const size_t operand = size_t(llvm::find(n.operands, v) - n.operands.begin());
      r_.setMap(v, b.cast(r_.map(v), castType(v).dtype));
      const NodeId cast = r_.to().value(r_.map(v)).def;
      casts_[{id.index, operand}] = cast;
      if (n.isClone())
        r_.to().editNode(cast).standFor(casts_[{n.from.origin.index, operand}]);
      hasAdded_ = true;
    }
    auto copy = r_.copyNodeWith(id, attrs);
    for (auto [v, now] : before)
      r_.setMap(v, now);
    return copy ? llvm::Error::success() : copy.takeError();
  }

  // Places added nodes in the source order, before the nodes that they are for.
  void place(Graph &out) const {
    std::vector<std::pair<uint32_t, NodeId>> order;
    for (uint32_t i = 0; i < out.numNodes(); ++i)
      if (const NodeId of = madeFor_[i]; !out.node(NodeId(i)).isStandIn())
        order.push_back({sourceIndex(g_, of), NodeId(i)});
    llvm::stable_sort(order, llvm::less_first());
    for (uint32_t at = 0; at < order.size(); ++at)
      out.editNode(order[at].second).from.sourceIndex = at;
    for (uint32_t i = 0; i < out.numNodes(); ++i)
      if (out.node(NodeId(i)).isStandIn())
        out.editNode(NodeId(i)).from.sourceIndex.reset();
  }

  const Graph &g_;
  const DType to_;
  Rebuilder r_;
  const llvm::BitVector needed_;
  HeldConstants constants_;
  std::vector<NodeId> madeFor_;                         // by new node: the old one
  bool hasAdded_ = false;                               // a node that is no copy
  std::map<std::pair<uint32_t, size_t>, NodeId> casts_; // by old node and operand
};

} // namespace

llvm::Expected<Graph> withPrecision(const Graph &g, DType to, const NoteSink &note) {
  ISTHMUS_CHECK(isFloat(to), "a precision that is no float type");
  return Conversion(g, to).run(note);
}

} // namespace isthmus
