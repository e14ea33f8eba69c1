#include "passes/chunk/chunk.h"

#include "ir/builder.h"
#include "ir/check.h"
#include "ir/factors.h"
#include "ir/op_registry.h"
#include "ir/parts.h"
#include "ir/provenance.h"
#include "passes/rebuild.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"

namespace isthmus {
namespace {

constexpr int64_t kAlignment = 64; // of a part (ir/ops/parts.cc)

class Chunking {
public:
  Chunking(const Graph &g, const ChunkRegion &region, int64_t chunks, llvm::ArrayRef<int64_t> only,
           Rounding rounding)
      : g_(g), region_(region), chunks_(chunks), only_(only),
        leastInPlace_(rounding == Rounding::InPlace ? (bytesOfShortSums(g, region) + 1) / 2
                                                    : INT64_MAX),
        r_(g), isEmitted_(unsigned(g.numNodes())), readWhole_(unsigned(g.numValues())),
        originals_(g.numValues()) {}

  Graph run() {
    r_.copyInputs();
    for (const Input &i : g_.inputs())
      originals_[i.value.index] = r_.map(i.value);
    findTurns();
    findReadWhole();
    countSums();
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      if (!region_.has(NodeId(i)))
        emit(NodeId(i));
      else if (const uint32_t turn = turnOf_.lookup(NodeId(i)); lastOf_[turn] == NodeId(i))
        emitTurn(turn);
    keepReplaced();
    return finish();
  }

private:
  // --- Turns: a node is in the turn after all nodes on which it depends by way of nodes outside.

  void findTurns() {
    std::vector<uint32_t> after(g_.numNodes(), 0); // by node: the first turn that may depend on it
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const bool isIn = region_.has(NodeId(i));
      uint32_t turn = 0;
      for (ValueId v : g_.node(NodeId(i)).operands)
        if (const NodeId def = g_.value(v).def; def && !Graph::isReplaced(def))
          turn = std::max(turn, after[def.index] + (!isIn && region_.has(def)));
      after[i] = turn;
      if (!isIn)
        continue;
      turnOf_[NodeId(i)] = turn;
      if (lastOf_.size() <= turn)
        lastOf_.resize(turn + 1);
      lastOf_[turn] = NodeId(i);
    }
  }

  // --- The order

  // Emits a node outside of the region, after those that it needs and that come later in the order.
  void emit(NodeId first) {
    std::vector<NodeId> stack{first};
    while (!stack.empty()) {
      const NodeId id = stack.back();
      if (isEmitted_.test(id.index)) {
        stack.pop_back();
        continue;
      }
      const size_t before = stack.size();
      for (ValueId v : g_.node(id).operands)
        if (const NodeId def = g_.value(v).def; def && !Graph::isReplaced(def)) {
          if (region_.has(def))
            emitTurn(turnOf_.lookup(def));
          else if (!isEmitted_.test(def.index))
            stack.push_back(def);
        }
      if (stack.size() > before)
        continue;
      copy(id);
      stack.pop_back();
    }
  }

  void copy(NodeId id) {
    isEmitted_.set(id.index);
    const NodeId now = r_.copyNode(id);
    for (uint32_t k = 0; k < g_.node(id).numResults; ++k)
      originals_[g_.node(id).result(k).index] = r_.to().node(now).result(k);
    r_.to().editNode(now).from.sourceIndex = sourceOf(id);
  }

  std::optional<uint32_t> sourceOf(NodeId id) const {
    const Node &n = g_.node(id);
    return n.isStandIn() ? n.from.sourceIndex
                         : std::optional<uint32_t>(n.from.sourceIndex.value_or(id.index));
  }

  void emitTurn(uint32_t turn) {
    if (!turnsEmitted_.insert(turn).second)
      return;
    std::vector<NodeId> nodes;
    for (NodeId id : region_.nodes)
      if (turnOf_.lookup(id) == turn)
        nodes.push_back(id);
    for (NodeId id : nodes)
      for (ValueId v : g_.node(id).operands)
        if (const NodeId def = g_.value(v).def; def && !Graph::isReplaced(def)) {
          if (!region_.has(def))
            emit(def);
          else if (turnOf_.lookup(def) < turn)
            emitTurn(turnOf_.lookup(def));
        }
    for (number_ = 0; number_ < numChunks(); ++number_) {
      parts_.clear();
      for (NodeId id : nodes)
        emitChunk(id, only_.empty() ? int64_t(number_) : only_[number_]);
    }
  }

  // --- Chunks

  size_t numChunks() const { return only_.empty() ? size_t(chunks_) : only_.size(); }
  bool isLast() const { return number_ + 1 == numChunks(); }

  struct Range {
    int64_t start, size;
  };
  // Chunk k of a cut of `length` elements.
  Range rangeOf(int64_t k, int64_t length) const {
    const int64_t block = length / region_.units, from = beginOfPart(region_.units, chunks_, k),
                  to = beginOfPart(region_.units, chunks_, k + 1);
    return {from * block, (to - from) * block};
  }
  Range rangeOf(int64_t k, ValueId v) const {
    const int64_t length = cutOf(v).innerOf(g_.type(v));
    if (region_.isPerChunk.count(v))
      return {k * (length / chunks_), length / chunks_};
    return rangeOf(k, length);
  }

  bool isCut(ValueId v) const { return region_.cuts.count(v) > 0; }
  AxisCut cutOf(ValueId v) const { return region_.cuts.find(v)->second; }
  bool isMade(ValueId v) const {
    const NodeId def = g_.value(v).def;
    return def && region_.has(def);
  }

  void emitChunk(NodeId id, int64_t k) {
    const Node &n = g_.node(id);
    const ValueId total = region_.totalOf(n.firstResult);
    if (isTotal(n))
      return; // its operands add up to it
    Builder b(r_.to(), n.phase);
    b.device = n.device;
    b.loc = n.loc;
    ValueList operands;
    for (ValueId v : n.operands)
      operands.push_back(!isCut(v)   ? r_.map(v)
                         : isMade(v) ? chunksOf_[v][number_]
                                     : part(v, k, n.device));
    Attrs attrs = n.attrs;
    if (isCut(n.firstResult)) {
      const Range range = rangeOf(k, n.firstResult);
      attrs = attrsOfChunk(g_.call(id), cutOf(n.firstResult), range.start, range.size);
    }
    const bool isInF32 = goesOnInF32(id);
    if (isInF32 && !sums_.count(total))
      sums_[total] = zeros(b, n.firstResult, k);
    const bool goesOn =
        isInF32 || (sums_.count(total) && isAccumulated(n) && !isShort(n.firstResult));
    if (goesOn)
      operands.insert(operands.begin() + n.op->accumulation.operand, sums_.lookup(total));
    const NodeId made = b.createNode(goesOn ? n.op->accumulation.op : n.op->name, operands, attrs,
                                     chunkName(n.firstResult, k));
    mark(made, goesOn ? addedTo(n.firstResult) : n.firstResult, k);
    const Factors f = n.numResults > 1 ? factorsOf(g_.call(id)) : Factors();
    for (uint32_t i = 0; i < n.numResults; ++i)
      if (const ValueId now = r_.to().node(made).result(i); !f.isRepeated(i) || isCut(n.result(i)))
        take(b, n.result(i), now, k, goesOn);
      else if (number_ == 0) // every chunk gives all of it
        r_.setMap(n.result(i), now);
  }

  // Whether the node adds sums of the region.
  bool isTotal(const Node &n) const {
    auto isSum = [&](ValueId v) { return region_.totals.count(v) > 0; };
    return isSum(n.firstResult) && llvm::all_of(n.operands, isSum);
  }

  // Whether the node is a sum over the chunks that its row can go on from.
  bool isAccumulated(const Node &n) const {
    return n.numResults == 1 && !isCut(n.firstResult) && !n.op->accumulation.op.empty();
  }
  // Whether the sum is of 16-bit values, and its row goes on from a sum in f32.
  bool goesOnInF32(NodeId id) const {
    const Node &n = g_.node(id);
    if (!isAccumulated(n) || !isShort(n.firstResult))
      return false;
    llvm::SmallVector<Type, 4> operands = g_.call(id).operands;
    operands.insert(operands.begin() + n.op->accumulation.operand,
                    Type(DType::F32, g_.type(n.firstResult).dims));
    auto types = inferTypes(OpRegistry::get().at(n.op->accumulation.op), n.attrs, operands);
    if (!types)
      llvm::consumeError(types.takeError());
    return bool(types);
  }
  bool isShort(ValueId v) const { return dtypeBytes(g_.type(v).dtype) == 2; }

  std::string chunkName(ValueId v, int64_t k) const {
    return r_.freshName(g_.valueName(v).str() + ".c" + std::to_string(k));
  }

  void mark(NodeId made, ValueId v, int64_t k) { marked_.push_back({made, v, uint32_t(k)}); }

  // Takes chunk k of a value: as a chunk, into its place in the whole, or into the sum.
  void take(Builder &b, ValueId v, ValueId made, int64_t k, bool isSum) {
    if (!isCut(v))
      return addUp(b, v, made, k, isSum);
    chunksOf_[v].push_back(made);
    if (!readWhole_.test(v.index))
      return;
    const AxisCut cut = cutOf(v);
    const bool isSplit = cut.outer > 1;
    ValueList operands{made};
    if (isSplit)
      operands[0] = reshaped(b, made, splitDims(r_.to().type(made), cut), v, k);
    if (number_ > 0)
      operands.push_back(r_.map(v));
    r_.setMap(v, helper(b, "write_part", operands,
                        {{"axis", int64_t(cut.axis) + isSplit},
                         {"start", rangeOf(k, v).start},
                         {"size", cut.innerOf(g_.type(v))}},
                        v, k));
    if (isSplit && isLast())
      r_.setMap(v, reshaped(b, r_.map(v), g_.type(v).dims, v, k));
  }

  // What a node makes that adds a chunk of the sum: the total, if it is the last of it.
  ValueId addedTo(ValueId v) const {
    const ValueId total = region_.totalOf(v);
    return openSums_.lookup(total) == 1 && !isShort(v) ? total : v;
  }

  // Adds chunk k of a sum to its total.
  void addUp(Builder &b, ValueId v, ValueId made, int64_t k, bool isSum) {
    const ValueId total = region_.totalOf(v);
    if (isShort(v) && !isSum)
      made = castTo(b, DType::F32, made, v, k);
    auto before = sums_.find(total);
    if (before != sums_.end() && !isSum)
      made = helper(b, "add", {before->second, made}, {}, addedTo(v), k);
    sums_[total] = made;
    const bool isComplete = --openSums_[total] == 0;
    if (isShort(v) && isComplete)
      made = rounded(b, made, total, k);
    r_.setMap(v, made);
    r_.setMap(total, made);
  }

  // The sum in f32 of no chunk.
  ValueId zeros(Builder &b, ValueId v, int64_t k) {
    const Dims &dims = g_.type(v).dims;
    return helper(b, "full", {},
                  {{"dims", Ints(dims.begin(), dims.end())},
                   {"value", 0.0},
                   {"type", dtypeName(DType::F32).str()}},
                  v, k);
  }
  // The sum of all chunks in the value's type.
  ValueId rounded(Builder &b, ValueId sum, ValueId v, int64_t k) {
    const Type &type = g_.type(v);
    if (type.bytes() < leastInPlace_)
      return castTo(b, type.dtype, sum, v, k);
    const ValueId front =
                      helper(b, "shorten", {sum}, {{"type", dtypeName(type.dtype).str()}}, v, k),
                  part = helper(b, "part", {front}, {{"start", int64_t(0)}, {"size", int64_t(1)}},
                                v, k);
    return reshaped(b, part, type.dims, v, k);
  }
  ValueId reshaped(Builder &b, ValueId x, const Dims &dims, ValueId v, int64_t k) {
    return helper(b, "reshape", {x}, {{"dims", Ints(dims.begin(), dims.end())}}, v, k);
  }
  ValueId castTo(Builder &b, DType type, ValueId x, ValueId v, int64_t k) {
    return helper(b, "cast", {x}, {{"type", dtypeName(type).str()}}, v, k);
  }
  ValueId helper(Builder &b, const char *op, llvm::ArrayRef<ValueId> operands, Attrs attrs,
                 ValueId v, int64_t k) {
    const NodeId id = b.createNode(op, operands, std::move(attrs),
                                   r_.freshName(g_.valueName(v).str() + ".to" + std::to_string(k)));
    mark(id, v, k);
    return r_.to().node(id).firstResult;
  }

  // Chunk k of a value from outside, for nodes on a device.
  ValueId part(ValueId v, int64_t k, const std::string &device) {
    ValueId &made = parts_[{v.index, device}];
    if (made)
      return made;
    const NodeId def = g_.value(v).def;
    Builder b(r_.to(), def ? g_.node(def).phase : Phase::Forward);
    b.device = device;
    const AxisCut cut = cutOf(v);
    if (cut.outer == 1)
      return made = partAlong(b, r_.map(v), cut.axis, v, k);
    ValueId &split = splits_[{v.index, device}];
    if (!split)
      split = reshaped(b, r_.map(v), splitDims(g_.type(v), cut), v, k);
    const ValueId part = partAlong(b, split, cut.axis + 1, v, k);
    Dims dims = g_.type(v).dims;
    dims[cut.axis] = cut.outer * rangeOf(k, v).size;
    return made = reshaped(b, part, dims, v, k);
  }
  // Chunk k of `v`, taken from `whole`, along an axis of it.
  ValueId partAlong(Builder &b, ValueId whole, uint32_t axis, ValueId v, int64_t k) {
    const Range range = rangeOf(k, v);
    const Type &type = r_.to().type(whole);
    const int64_t step = type.bytes() / type.dims[axis];
    const bool liesThere = range.start * step % kAlignment == 0 &&
                           llvm::all_of(llvm::makeArrayRef(type.dims).take_front(axis),
                                        [](int64_t d) { return d == 1; });
    Attrs attrs;
    if (liesThere) {
      attrs = {{"axis", int64_t(axis)}, {"start", range.start}, {"size", range.size}};
    } else {
      Ints starts(type.dims.size(), 0), limits(type.dims.begin(), type.dims.end());
      starts[axis] = range.start;
      limits[axis] = range.start + range.size;
      attrs = {{"starts", starts}, {"limits", limits}};
    }
    const NodeId id =
        b.createNode(liesThere ? "part" : "slice", {whole}, std::move(attrs), chunkName(v, k));
    mark(id, v, k);
    return r_.to().node(id).firstResult;
  }

  void countSums() {
    for (NodeId id : region_.nodes)
      for (uint32_t i = 0; i < g_.node(id).numResults; ++i)
        if (const ValueId v = g_.node(id).result(i); !isCut(v) && !isTotal(g_.node(id)))
          openSums_[region_.totalOf(v)] += int64_t(numChunks());
  }

  void findReadWhole() {
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      if (!region_.has(NodeId(i)))
        for (ValueId o : g_.node(NodeId(i)).operands)
          readWhole_.set(o.index);
    for (ValueId o : g_.outputs())
      readWhole_.set(o.index);
  }

  // --- What was replaced

  // Copies the region's nodes, and those that were replaced before, as nodes that do not run. An
  // output that chunks make has the name; the value that it replaces has another.
  void keepReplaced() {
    std::vector<std::pair<uint32_t, NodeId>> all; // in the source order
    for (size_t i = 0; i < g_.numReplaced(); ++i)
      all.emplace_back(*g_.node(g_.replaced(i)).from.sourceIndex, g_.replaced(i));
    for (NodeId id : region_.nodes)
      all.emplace_back(*sourceOf(id), id);
    llvm::sort(all);
    for (const auto &[v, total] : region_.totals)
      r_.setMap(v, r_.map(total)); // which nobody reads
    for (const auto &[place, id] : all)
      keepReplaced(id);
    for (const Marked &m : marked_) {
      Node &n = r_.to().editNode(m.node);
      n.standFor(original(m.value), StandIn::Chunk);
      n.from.chunk = m.chunk;
    }
    for (ValueId v : g_.outputs())
      if (isMade(v)) {
        const std::string name = g_.valueName(v).str();
        r_.to().rename(originals_[v.index], r_.freshName(name + ".whole"));
        r_.to().rename(r_.map(v), name);
      }
  }

  // The value of the new graph's original. `v` may be what chunks of an earlier region put
  // together.
  ValueId original(ValueId v) const { return originals_[originalValue(g_, v).index]; }

  void keepReplaced(NodeId id) {
    const Node &n = g_.node(id);
    ValueList operands, whole;
    for (ValueId v : n.operands)
      operands.push_back(original(v));
    for (uint32_t i = 0; i < n.numResults; ++i)
      whole.push_back(r_.map(n.result(i)));
    const NodeId kept = r_.copyReplaced(id, operands);
    r_.to().editNode(kept).from.sourceIndex = sourceOf(id);
    for (uint32_t i = 0; i < n.numResults; ++i) {
      originals_[n.result(i).index] = r_.to().node(kept).result(i);
      if (!Graph::isReplaced(id)) // readers read what the chunks made
        r_.setMap(n.result(i), whole[i]);
    }
  }

  // Roles name the values of the original.
  Graph finish() {
    Graph out = r_.finish();
    for (size_t i = 0; i < g_.outputs().size(); ++i) {
      OutputRole role = g_.role(i);
      if (role.of)
        role.of = original(role.of);
      out.setRole(i, role);
    }
    return out;
  }

  struct Marked {
    NodeId node;
    ValueId value; // of `g`
    uint32_t chunk;
  };

  const Graph &g_;
  const ChunkRegion &region_;
  const int64_t chunks_;
  const llvm::ArrayRef<int64_t> only_; // the chunks that are emitted; empty: all
  const int64_t leastInPlace_;         // sums of these bytes, or more, are rounded in place
  size_t number_ = 0;                  // of the chunk that is emitted, among those that are
  Rebuilder r_;
  llvm::BitVector isEmitted_; // by node outside
  llvm::DenseMap<NodeId, uint32_t> turnOf_;
  std::vector<NodeId> lastOf_; // by turn: its last node
  llvm::SmallSet<uint32_t, 4> turnsEmitted_;
  llvm::DenseMap<ValueId, std::vector<ValueId>> chunksOf_;
  // Of the chunk that is emitted, by value and device.
  std::map<std::pair<uint32_t, std::string>, ValueId> parts_;
  // Of values that are cut inside of an outer part, with that part as an axis, by value and device.
  std::map<std::pair<uint32_t, std::string>, ValueId> splits_;
  llvm::DenseMap<ValueId, ValueId> sums_;     // by total: the sum of all chunks so far
  llvm::DenseMap<ValueId, int64_t> openSums_; // by total: how many chunks are still to be added
  llvm::BitVector readWhole_;                 // by value: outside of the region
  std::vector<ValueId> originals_;            // by value: the new graph's, replaced ones included
  std::vector<Marked> marked_;
};

} // namespace

Graph chunked(const Graph &g, const ChunkRegion &region, int64_t chunks,
              llvm::ArrayRef<int64_t> only, Rounding rounding) {
  ISTHMUS_CHECK(chunks >= 2 && chunks <= region.units, "a number of chunks that does not fit");
  return Chunking(g, region, chunks, only, rounding).run();
}

int64_t bytesOfShortSums(const Graph &g, const ChunkRegion &region) {
  int64_t bytes = 0;
  for (NodeId id : region.nodes)
    for (uint32_t r = 0; r < g.node(id).numResults; ++r)
      if (const ValueId v = g.node(id).result(r);
          !region.cuts.count(v) && dtypeBytes(g.type(v).dtype) == 2)
        bytes += g.type(v).bytes();
  return bytes;
}

} // namespace isthmus
