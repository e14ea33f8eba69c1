// One sweep over the nodes. A value of three axes or more has up to two forms in the new graph: its
// original form with channels first, and its twin with channels last. Each node makes one form; the
// other is made by a transpose at its first use.

#include "passes/lower/channels_last.h"

#include "ir/builder.h"
#include "ir/check.h"
#include "ir/ops/channels.h"
#include "ir/rank.h"
#include "passes/rebuild.h"
#include "passes/simplify/dce.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"

namespace isthmus {
namespace {

bool hasForms(const Type &t) { return t.rank() > 2; }

bool canMove(const Node &n) { return n.op->attr(kChannelsLast) && !isChannelsLast(n.attrs); }

// --- Axes in attributes

// The index of an axis in the channels-last form; `axis` may be negative (counted from the end).
int64_t moved(int64_t axis, int64_t rank) {
  axis = axisFromFront(axis, rank);
  return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

// The same for a list with one entry for each axis.
Ints movedEntries(const Ints &entries) {
  Ints to = entries;
  for (size_t a = 0; a < entries.size(); ++a)
    to[size_t(moved(int64_t(a), int64_t(entries.size())))] = entries[a];
  return to;
}

// Attributes for the same computation on twins, if all operands and results have `rank` axes; none
// if the op table does not say how.
std::optional<Attrs> movedAttrs(const Node &n, int64_t rank) {
  Attrs attrs = n.attrs;
  bool hasAxes = false;
  for (const AttrDef &a : n.op->attrs) {
    const bool isEach = a.axes == AxisRole::EachAxis || a.axes == AxisRole::Limits;
    hasAxes |= isEach || a.axes == AxisRole::Axis;
    if (a.axes == AxisRole::Axis)
      attrs.set(a.name, moved(attrs.getInt(a.name), rank));
    else if (isEach)
      attrs.set(a.name, movedEntries(attrs.getInts(a.name)));
  }
  return hasAxes ? std::optional<Attrs>(std::move(attrs)) : std::nullopt;
}

bool isReduction(const OpDef &op) {
  return op.operandNames.size() == 1 && op.attr("axes") && op.attr("keepdims");
}

// A reduction of a twin: its axes, and whether its result is a twin.
struct Reduced {
  Ints axes;
  bool isTwin;
};

// None if the result would have neither form.
std::optional<Reduced> movedReduction(const Node &n, int64_t rank) {
  Reduced to = {{}, false};
  llvm::SmallVector<bool, 8> isGone(size_t(rank), n.attrs.getInts("axes").empty());
  for (int64_t a : n.attrs.getInts("axes")) {
    isGone[size_t(axisFromFront(a, rank))] = true;
    to.axes.push_back(moved(a, rank));
  }
  bool placesStay = llvm::is_contained(llvm::makeArrayRef(isGone).drop_front(2), false);
  to.isTwin = n.attrs.getBool("keepdims") || (!isGone[1] && placesStay);
  if (to.isTwin && isGone[0] && !n.attrs.getBool("keepdims"))
    return std::nullopt;
  return to;
}

// --- The sweep

class Mover {
public:
  explicit Mover(const Graph &g)
      : g_(g), r_(g), b_(r_.to()), twins_(g.numValues()), isNamed_(namedValues(g)) {}

  Graph run() {
    r_.copyInputs();
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      reader_ = NodeId(i);
      if (!works(reader_) && !follows(reader_) && !reduces(reader_) && !undoes(reader_))
        copy(reader_, g_.node(reader_).attrs, /*asTwin=*/false, /*givesTwins=*/false);
    }
    return withoutDeadNodes(r_.finish());
  }

private:
  const Type &type(ValueId v) const { return g_.type(v); }

  // The builder for nodes that make `of` available to the current node, and stand with that node.
  // If it is an update (running averages stand among forward nodes), they stand with `of`'s own
  // node, because other nodes may read the value too.
  Builder &builder(ValueId of) {
    const bool isUpdate = g_.node(reader_).phase == Phase::Update;
    const NodeId def = g_.value(of).def;
    r_.standWith(b_, isUpdate && def ? def : reader_);
    if (isUpdate && !def)
      b_.phase = Phase::Forward;
    return b_;
  }

  // Transposes `v`, a value of the new graph. If only axes of size one change places, a reshape (a
  // view) suffices.
  ValueId transposed(ValueId v, const Ints &perm, const std::string &name) {
    const Dims &dims = b_.type(v).dims;
    Ints to, order; // `order`: the axes longer than one
    for (int64_t a : perm) {
      to.push_back(dims[size_t(a)]);
      if (dims[size_t(a)] != 1)
        order.push_back(a);
    }
    if (llvm::is_sorted(order))
      return b_.create("reshape", {v}, {{"dims", to}}, name);
    return b_.create("transpose", {v}, {{"perm", perm}}, name);
  }

  // The original form of a value.
  ValueId first(ValueId v) {
    if (!r_.map(v)) {
      builder(v);
      std::string name = r_.freshName(g_.valueName(v).str() + ".channels_first");
      r_.setMap(v, transposed(twins_[v.index], toChannelsFirst(type(v).rank()), name));
    }
    return r_.map(v);
  }

  // The channels-last form; the value itself if it has fewer than three axes.
  ValueId last(ValueId v) {
    if (!hasForms(type(v)))
      return first(v);
    ValueId &twin = twins_[v.index];
    if (!twin) {
      builder(v);
      std::string name = r_.freshName(g_.valueName(v).str() + ".channels_last");
      twin = spreadAnew(v, name);
      if (!twin)
        twin = transposed(r_.map(v), toChannelsLast(type(v).rank()), name);
    }
    return twin;
  }

  // Makes the twin of a constant or broadcast value by a second `full` or `broadcast` rather than a
  // transpose. Null for other values.
  ValueId spreadAnew(ValueId v, const std::string &name) {
    NodeId def = g_.value(v).def;
    if (!def || !g_.node(def).marks.empty())
      return {};
    const Node &n = g_.node(def);
    if (n.op->name != "full" && n.op->name != "broadcast")
      return {};
    Attrs attrs = n.attrs;
    attrs.set("dims", movedEntries(attrs.getInts("dims")));
    llvm::SmallVector<ValueId, 1> from;
    for (ValueId x : n.operands)
      from.push_back(beside(x, type(v).rank()));
    return builder(v).create(n.op->name, from, attrs, name);
  }

  // The operand in a form that broadcasts against twins of `rank` axes.
  ValueId beside(ValueId v, int64_t rank) {
    const Type &t = type(v);
    if (t.rank() == rank)
      return last(v);
    if (t.elements() == 1)
      return first(v);
    ValueId &wide = besides_[{v, rank}];
    if (!wide) {
      Dims dims(size_t(rank - t.rank()), 1);
      dims.append(t.dims.begin(), t.dims.end());
      ValueId from = first(v);
      std::string name = r_.freshName(g_.valueName(v).str() + ".channels_last");
      builder(v);
      if (Type all = t.with(dims); isView(all))
        wide = b_.create("reshape", {from}, {{"dims", intsOf(channelsLast(all).dims)}}, name);
      else
        wide = transposed(b_.reshape(from, dims), toChannelsLast(rank), name);
    }
    return wide;
  }

  // Whether a transpose to channels last keeps the order of elements.
  static bool isView(const Type &t) {
    return t.dims[1] == 1 || t.elements() == t.dims[0] * t.dims[1];
  }
  static Ints intsOf(llvm::ArrayRef<int64_t> a) { return Ints(a.begin(), a.end()); }

  // Copies a node with operands in their original form, or, `asTwin`, as twins and values that
  // broadcast against them. If `givesTwins`, results of three axes or more are twins.
  void copy(NodeId id, Attrs attrs, bool asTwin, bool givesTwins) {
    const Node &n = g_.node(id);
    int64_t rank = n.numResults > 0 ? type(n.firstResult).rank() : 0;
    bool spreads = asTwin && n.op->is(kElementwise);
    llvm::SmallVector<ValueId, 4> operands, before;
    for (ValueId v : n.operands)
      operands.push_back(spreads ? beside(v, rank) : asTwin ? last(v) : first(v));
    for (size_t i = 0; i < operands.size(); ++i) {
      before.push_back(r_.map(n.operands[i]));
      r_.setMap(n.operands[i], operands[i]);
    }
    auto made = r_.copyNodeWith(id, std::move(attrs));
    if (!made)
      ISTHMUS_CHECK(false,
                    "a node does not work with channels last: " + llvm::toString(made.takeError()));
    for (size_t i = operands.size(); i-- > 0;)
      r_.setMap(n.operands[i], before[i]);
    for (uint32_t i = 0; givesTwins && i < n.numResults; ++i)
      if (hasForms(type(n.result(i))))
        giveTwin(n.result(i));
  }

  // Makes the copy of `v` its twin. If `v` is an output or the loss, a transpose to the original
  // form is added, which keeps the name.
  void giveTwin(ValueId v) {
    ValueId twin = twins_[v.index] = r_.map(v);
    ISTHMUS_CHECK(r_.to().type(twin) == channelsLast(type(v)),
                  "'" + g_.valueName(v).str() + "' has neither form");
    r_.setMap(v, ValueId());
    if (!isNamed_.test(v.index))
      return;
    std::string name = g_.valueName(v).str();
    r_.to().rename(twin, r_.freshName(name + ".channels_last"));
    r_.standWith(b_, reader_);
    r_.setMap(v, transposed(twin, toChannelsFirst(type(v).rank()), name));
  }

  // Handles nodes whose row has the attribute `channels_last`.
  bool works(NodeId id) {
    const Node &n = g_.node(id);
    if (!canMove(n) || llvm::none_of(n.operands, [&](ValueId v) { return hasForms(type(v)); }))
      return false;
    Attrs attrs = n.attrs;
    attrs.set(kChannelsLast, true);
    copy(id, std::move(attrs), /*asTwin=*/true, /*givesTwins=*/true);
    return true;
  }

  // Handles nodes that compute the same on twins, if an operand has a twin. Updates are excluded:
  // parameters keep their form.
  bool follows(NodeId id) {
    const Node &n = g_.node(id);
    if (n.numResults == 0 || n.phase == Phase::Update || !hasForms(type(n.firstResult)))
      return false;
    const Type &result = type(n.firstResult);
    bool isSame = n.op->is(kView) && n.operands.size() == 1 && type(n.operands[0]) == result;
    std::optional<Attrs> attrs = n.attrs;
    if (!n.op->is(kElementwise) && !isSame) {
      auto hasRank = [&](ValueId v) { return type(v).rank() == result.rank(); };
      attrs = llvm::all_of(n.operands, hasRank) ? movedAttrs(n, result.rank()) : std::nullopt;
    }
    auto isThere = [&](ValueId v) {
      return twins_[v.index] && (!n.op->is(kElementwise) || type(v).dims == result.dims);
    };
    if (!attrs || llvm::none_of(n.operands, isThere))
      return false;
    copy(id, std::move(*attrs), /*asTwin=*/true, /*givesTwins=*/true);
    return true;
  }

  bool reduces(NodeId id) {
    const Node &n = g_.node(id);
    if (!isReduction(*n.op) || !twins_[n.operands[0].index])
      return false;
    auto to = movedReduction(n, type(n.operands[0]).rank());
    if (!to)
      return false;
    Attrs attrs = n.attrs;
    attrs.set("axes", to->axes);
    copy(id, std::move(attrs), /*asTwin=*/true, to->isTwin);
    return true;
  }

  // Handles transposes from one form to the other, which models put around ops on the last axis:
  // the result is the operand's twin, or the operand becomes the result's twin.
  bool undoes(NodeId id) {
    const Node &n = g_.node(id);
    if (n.op->name != "transpose" || !hasForms(type(n.firstResult)) || !n.marks.empty() ||
        isNamed_.test(n.firstResult.index))
      return false;
    const Ints &perm = n.attrs.getInts("perm");
    ValueId x = n.operands[0];
    if (perm == toChannelsLast(int64_t(perm.size())) && twins_[x.index])
      r_.setMap(n.firstResult, twins_[x.index]);
    else if (perm == toChannelsFirst(int64_t(perm.size())))
      twins_[n.firstResult.index] = first(x);
    else
      return false;
    return true;
  }

  const Graph &g_;
  Rebuilder r_;
  Builder b_;
  std::vector<ValueId> twins_; // by old id
  llvm::DenseMap<std::pair<ValueId, int64_t>, ValueId> besides_;
  llvm::BitVector isNamed_; // outputs and the loss
  NodeId reader_;           // the current node
};

} // namespace

bool convolvesChannelsFirst(const Graph &g, llvm::ArrayRef<DType> types) {
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (n.op->is(kContraction) && canMove(n) &&
        llvm::is_contained(types, g.type(n.operands[0]).dtype))
      return true;
  }
  return false;
}

Graph withChannelsLast(const Graph &g) {
  constexpr DType kFloats[] = {DType::F64, DType::F32, DType::BF16, DType::F16};
  if (g.isRewritten() || !convolvesChannelsFirst(g, kFloats))
    return g;
  return Mover(g).run();
}

} // namespace isthmus
