#include "ir/chunk_pieces.h"

#include "ir/factors.h"
#include "ir/parts.h"
#include "ir/rank.h"
#include "ir/spelling.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

namespace isthmus {
namespace {

using Piece = ChunkPiece;

class Pieces {
public:
  explicit Pieces(const Graph &g) : g_(g) {
    out_.of.resize(g.numValues());
    out_.rounds.resize(unsigned(g.numValues()));
  }

  ChunkPieces run() {
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      if (const Node &n = g_.node(NodeId(i)); n.is(StandIn::Chunk))
        findOf(NodeId(i));
      else if (n.isClone() && g_.node(n.from.origin).is(StandIn::Chunk))
        copyOf(n);
      else if ((n.is(StandIn::Boundary) || n.is(StandIn::Transfer)) && !n.operands.empty())
        out_.of[n.firstResult.index] = out_.of[n.operands[0].index];
    return std::move(out_);
  }

private:
  // The piece that `v` is; a value that is no chunk's is the whole of what it stands for.
  Piece pieceOf(ValueId v) const {
    if (out_.of[v.index].kind != Piece::None)
      return out_.of[v.index];
    const NodeId def = g_.value(v).def;
    if (!def)
      return {Piece::Whole, v};
    const Node &n = g_.node(def);
    if (n.isClone())
      return pieceOf(g_.node(n.from.origin).result(g_.value(v).resultIndex));
    if (n.is(StandIn::Chunk))
      return {};
    if (!n.isRestoring())
      return {Piece::Whole, v};
    // An encoding or an inverse of a chunk is read in place of the chunk. A value that comes later
    // in the graph is none of this graph's chunks, whatever the file says.
    return n.from.restores.index < v.index ? pieceOf(n.from.restores)
                                           : Piece{Piece::Whole, n.from.restores};
  }
  bool isWhole(ValueId v, ValueId of) const {
    const Piece p = pieceOf(v);
    return p.kind == Piece::Whole && p.of == of;
  }

  void copyOf(const Node &clone) {
    const Node &origin = g_.node(clone.from.origin);
    for (uint32_t r = 0; r < clone.numResults; ++r) {
      out_.of[clone.result(r).index] = out_.of[origin.result(r).index];
      out_.rounds[clone.result(r).index] = out_.rounds[origin.result(r).index];
    }
  }

  void findOf(NodeId id) {
    const Node &n = g_.node(id);
    const bool isRight = (isPart(n) && cut(n)) || (n.op->name == "write_part" && written(n)) ||
                         (n.op->name == "add" && summed(n)) ||
                         (n.op->name == "full" && isSumOfNone(n)) ||
                         (n.op->name == "cast" && (widened(n) || rounded(n))) ||
                         (n.op->name == "shorten" && rounded(n)) || inFront(n) ||
                         (n.op->name == "reshape" && splitOrJoined(n)) || computed(id);
    if (!isRight)
      out_.wrong.push_back(
          {id,
           llvm::formatv("'{0}' is in chunk {1} of '{2}', but '{3}' of these operands is neither "
                         "a part of it nor puts parts of it together",
                         valueText(g_.nodeName(id)), n.from.chunk,
                         valueText(g_.valueName(n.from.restores)), n.op->name)
               .str()});
  }

  void set(const Node &n, uint32_t result, Piece p) {
    const bool isAll = p.kind == Piece::Sum ? isOfAll(p) && !p.isWide
                       : p.kind == Piece::Written || p.kind == Piece::Cut
                           ? p.begin == 0 && p.end == p.cut.innerOf(g_.type(p.of))
                           : p.kind != Piece::Front && p.kind != Piece::Split;
    if (isAll)
      p.kind = p.isSplit ? Piece::Split : Piece::Whole;
    out_.of[n.result(result).index] = p;
  }

  static bool isOfAll(const Piece &sum) { return sum.end == sum.length; }

  // --- Parts of a whole

  static bool isPart(const Node &n) { return n.op->name == "part" || n.op->name == "slice"; }

  // Whether the node cuts the whole along one axis; the one that is split, along its second axis.
  bool cut(const Node &n) {
    const Piece from = pieceOf(n.operands[0]);
    if (from.of != n.from.restores || (from.kind != Piece::Whole && from.kind != Piece::Split))
      return false;
    const std::optional<uint32_t> axis = axisThatIsCut(n);
    if (!axis)
      return false;
    Piece p{Piece::Cut, from.of, {*axis}};
    if (from.kind == Piece::Split) {
      if (*axis != from.cut.axis + 1)
        return false;
      p.cut = from.cut;
      p.isSplit = true;
    }
    if (n.op->name == "part") {
      p.begin = n.attrs.getInt("start");
    } else {
      const Ints &steps = n.attrs.getInts("steps");
      if (!llvm::all_of(steps, [](int64_t s) { return s == 1; }))
        return false;
      p.begin = n.attrs.getInts("starts")[*axis];
    }
    p.end = p.begin + g_.type(n.firstResult).dims[*axis];
    set(n, 0, p);
    return true;
  }
  // The one axis on which the result is smaller.
  std::optional<uint32_t> axisThatIsCut(const Node &n) const {
    const Dims &whole = g_.type(n.operands[0]).dims, &part = g_.type(n.firstResult).dims;
    std::optional<uint32_t> axis;
    for (size_t i = 0; i < whole.size(); ++i)
      if (whole[i] != part[i]) {
        if (axis)
          return std::nullopt;
        axis = uint32_t(i);
      }
    return axis;
  }

  // --- Axes that are two, so that a part of the second may be taken or written

  bool splitOrJoined(const Node &n) {
    Piece p = pieceOf(n.operands[0]);
    if (p.of != n.from.restores)
      return false;
    const Dims &from = g_.type(n.operands[0]).dims, &to = g_.type(n.firstResult).dims;
    if (p.kind == Piece::Split) {
      if (to != g_.type(p.of).dims)
        return false;
      p = {Piece::Whole, p.of};
    } else if (p.kind == Piece::Whole) {
      const std::optional<AxisCut> cut = cutThatSplits(from, to);
      if (!cut)
        return false;
      p = {Piece::Split, p.of, *cut};
    } else if (p.kind == Piece::Cut && p.isSplit) {
      if (cutThatSplits(to, from) != p.cut)
        return false;
      p.isSplit = false;
    } else if (p.kind == Piece::Cut) {
      const std::optional<AxisCut> cut = cutThatSplits(from, to);
      const std::optional<Share> share = cut ? shareOf(p, *cut) : std::nullopt;
      if (!share)
        return false;
      p.cut = *cut;
      p.end = share->end;
      p.isSplit = true;
    } else {
      return false;
    }
    set(n, 0, p);
    return true;
  }
  // The cut of whose axis the second dims have two.
  static std::optional<AxisCut> cutThatSplits(const Dims &one, const Dims &two) {
    if (two.size() != one.size() + 1)
      return std::nullopt;
    for (uint32_t axis = 0; axis < one.size(); ++axis)
      if (two[axis] > 0 && one[axis] % two[axis] == 0 && one[axis] / two[axis] == two[axis + 1] &&
          llvm::makeArrayRef(one).take_front(axis) == llvm::makeArrayRef(two).take_front(axis) &&
          llvm::makeArrayRef(one).drop_front(axis + 1) ==
              llvm::makeArrayRef(two).drop_front(axis + 2))
        return AxisCut{axis, two[axis]};
    return std::nullopt;
  }

  // --- Parts put together

  bool written(const Node &n) {
    const Piece part = pieceOf(n.operands[0]);
    const int64_t axis = axisFromFront(n.attrs.getInt("axis"), g_.type(n.firstResult).rank());
    const int64_t start = n.attrs.getInt("start"), size = g_.type(n.operands[0]).dims[size_t(axis)];
    if (part.of != n.from.restores || part.kind != Piece::Cut ||
        int64_t(part.cut.axis) + part.isSplit != axis ||
        (part.begin != start && part.begin != Piece::kAnywhere))
      return false;
    const AxisCut cut = part.isSplit ? part.cut : AxisCut{part.cut.axis};
    const Type &whole = g_.type(part.of);
    if (!shareOf(part, cut))
      return false;
    if (g_.type(n.firstResult) != whole.with(part.isSplit ? splitDims(whole, cut) : whole.dims))
      return false;
    const Piece before = n.operands.size() > 1 ? pieceOf(n.operands[1]) : Piece{};
    const bool isNext = n.operands.size() == 1
                            ? start == 0
                            : before.of == part.of && before.kind == Piece::Written &&
                                  before.cut == cut && before.isSplit == part.isSplit &&
                                  before.end == start;
    if (isNext)
      set(n, 0,
          {.kind = Piece::Written,
           .of = part.of,
           .cut = cut,
           .end = start + size,
           .isSplit = part.isSplit});
    return isNext;
  }

  // --- Sums

  // The places over which a value is summed, of a cut of the first operand that is cut.
  struct Share {
    int64_t begin = ChunkPiece::kAnywhere, end = 0, length = 1; // or `end` places anywhere
    AxisCut cut = {};
    int64_t period = 1; // of places anywhere

    bool isAnywhere() const { return begin == ChunkPiece::kAnywhere; }
    int64_t places() const { return isAnywhere() ? end : end - begin; }
    bool isAll() const { return begin <= 0 && end == length; }
  };
  // A sum to which shares of one value, or of several which the original adds, are added one after
  // the other.
  struct Total {
    llvm::DenseMap<ValueId, Share> shares; // by value
    size_t numAll = 0;                     // values whose share is all of them
    uint32_t steps = 0;
  };

  // Sets the piece of a node's result: what `before` is, if it is anything, and a share of `v`.
  bool addShare(const Node &n, uint32_t result, const Piece &before, ValueId v, const Share &share,
                bool isWide) {
    const bool isFirst = before.kind == Piece::None;
    if (isFirst)
      totals_.emplace_back();
    else if (!before.total || before.isWide != isWide ||
             before.step != totals_[*before.total].steps)
      return false;
    const uint32_t id = isFirst ? uint32_t(totals_.size() - 1) : *before.total;
    Total &total = totals_[id];
    auto [it, isNew] = total.shares.insert({v, share});
    Share &now = it->second;
    if (!isNew) {
      total.numAll -= now.isAll();
      if (!goesOn(now, share))
        return false;
      if (share.isAnywhere())
        now.end = placeOf(now.end, {0, 0, now.length}, share.length) + share.end;
      else
        now.end = share.end;
      now.begin = 0;
      now.length = share.length;
    }
    total.numAll += now.isAll();
    ++total.steps;
    if (total.shares.size() > 1)
      out_.rounds.set(n.result(result).index);
    const ValueId restored = n.numResults > 1 ? v : n.from.restores;
    const bool isAll = isAllOf(total, restored);
    set(n, result,
        {.kind = Piece::Sum,
         .of = isAll ? restored : v,
         .end = isAll,
         .length = 1,
         .total = id,
         .step = total.steps,
         .isWide = isWide});
    return isAll || restored == v;
  }
  // Whether a share is of the places behind those of another one, along the same cut.
  static bool goesOn(const Share &before, const Share &share) {
    return before.begin <= 0 && before.cut == share.cut &&
           (share.isAnywhere() ||
            __int128(before.end) * share.length == __int128(share.begin) * before.length);
  }

  // Whether the value is the sum of the shares, and each is all of its value.
  bool isAllOf(const Total &total, ValueId v) {
    if (total.numAll != total.shares.size())
      return false;
    size_t number = 0;
    for (ValueId leaf : addedTo(v, &total.shares)) {
      if (!total.shares.count(leaf))
        return false;
      ++number;
    }
    return number == total.shares.size();
  }
  // The values that the original adds up to `v`, and to nothing else; itself, if none is. None of
  // `until` is taken apart.
  llvm::SmallVector<ValueId, 2> addedTo(ValueId v, const llvm::DenseMap<ValueId, Share> *until) {
    llvm::SmallVector<ValueId, 2> leaves;
    llvm::SmallVector<ValueId, 4> open{v};
    while (!open.empty()) {
      const ValueId now = open.pop_back_val();
      const NodeId def = g_.value(now).def;
      const bool isSum =
          def && Graph::isReplaced(def) && g_.node(def).op->name == "add" &&
          !(until && until->count(now)) &&
          llvm::all_of(g_.node(def).operands, [&](ValueId o) { return sumWith(o) == now; });
      if (isSum)
        open.append(g_.node(def).operands.begin(), g_.node(def).operands.end());
      else
        leaves.push_back(now);
    }
    return leaves;
  }
  // What the original adds the value to, if it is one value.
  ValueId sumWith(ValueId v) {
    if (!sums_) {
      sums_.emplace();
      for (size_t i = 0; i < g_.numReplaced(); ++i) {
        const Node &n = g_.node(g_.replaced(i));
        if (n.op->name != "add" || n.operands[0] == n.operands[1])
          continue;
        for (ValueId o : n.operands)
          if (g_.type(o) == g_.type(n.firstResult))
            if (auto [it, isNew] = sums_->insert({o, n.firstResult}); !isNew)
              it->second = ValueId();
      }
    }
    return sums_->lookup(v);
  }

  bool summed(const Node &n) {
    const Piece a = pieceOf(n.operands[0]), b = pieceOf(n.operands[1]);
    if (b.kind != Piece::Sum || !b.total || a.kind == Piece::None || a.isWide != b.isWide ||
        totals_[*b.total].shares.size() != 1)
      return false;
    const auto [v, share] = *totals_[*b.total].shares.begin();
    if (!addShare(n, 0, a, v, share, a.isWide))
      return false;
    out_.rounds.set(n.firstResult.index);
    return true;
  }

  // --- Sums in f32 of a value of 16 bits

  bool isShort(ValueId v) const { return dtypeBytes(g_.type(v).dtype) == 2; }
  bool isWideTypeOf(const Type &t, ValueId v) const {
    return isShort(v) && t.dtype == DType::F32 && t.dims == g_.type(v).dims;
  }

  bool isSumOfNone(const Node &n) {
    if (!isWideTypeOf(g_.type(n.firstResult), n.from.restores) || n.attrs.getFloat("value") != 0)
      return false;
    totals_.emplace_back();
    set(n, 0,
        {.kind = Piece::Sum,
         .of = n.from.restores,
         .length = 1,
         .total = uint32_t(totals_.size() - 1),
         .isWide = true});
    return true;
  }
  bool widened(const Node &n) {
    Piece p = pieceOf(n.operands[0]);
    if (p.kind != Piece::Sum || p.isWide || p.of != n.from.restores ||
        !isWideTypeOf(g_.type(n.firstResult), p.of))
      return false;
    p.isWide = true;
    set(n, 0, p);
    return true;
  }
  bool rounded(const Node &n) {
    const Piece p = pieceOf(n.operands[0]);
    if (p.kind != Piece::Sum || !p.isWide || p.step != totals_[*p.total].steps ||
        !isAllOf(totals_[*p.total], n.from.restores) ||
        g_.type(n.firstResult).dtype != g_.type(p.of).dtype)
      return false;
    set(n, 0, {n.op->name == "cast" ? Piece::Whole : Piece::Front, n.from.restores});
    return true;
  }
  // Whether the node takes the whole from the front of a tensor, or a smaller tensor with it.
  bool inFront(const Node &n) {
    if (n.operands.empty())
      return false;
    const Piece p = pieceOf(n.operands[0]);
    const Type &t = g_.type(n.firstResult);
    if (p.kind != Piece::Front || p.of != n.from.restores ||
        t.elements() < g_.type(p.of).elements() ||
        !(n.op->name == "reshape" || (n.op->name == "part" && n.attrs.getInt("start") == 0)))
      return false;
    set(n, 0, {t == g_.type(p.of) ? Piece::Whole : Piece::Front, p.of});
    return true;
  }

  // --- The node that makes the value, on shares of its operands

  // The last sum of several restores what they add up to.
  bool computed(NodeId id) {
    const Node &n = g_.node(id);
    return computes(n, n.from.restores) ||
           llvm::any_of(addedTo(n.from.restores, nullptr),
                        [&](ValueId v) { return v != n.from.restores && computes(n, v); });
  }
  bool computes(const Node &n, ValueId first) {
    const NodeId def = g_.value(first).def;
    if (!def || g_.node(def).firstResult != first)
      return false;
    const Node &whole = g_.node(def);
    const bool goesOn = n.op != whole.op || n.operands.size() != whole.operands.size();
    if (goesOn && (whole.op->accumulation.op != n.op->name || n.numResults != 1 ||
                   n.operands.size() != whole.operands.size() + 1))
      return false;
    llvm::SmallVector<ValueId, 4> operands(n.operands.begin(), n.operands.end());
    ValueId before;
    if (goesOn) {
      before = operands[whole.op->accumulation.operand];
      operands.erase(operands.begin() + whole.op->accumulation.operand);
    }
    const OpCall call = g_.call(def);
    for (const CallCuts &cuts : cutsThatMayBe(n, whole, call, operands))
      if (isAlong(n, whole, call, cuts, operands, before))
        return true;
    return false;
  }

  // How the node's whole may be cut: as its operands are; or, if they lie anywhere, as a result is.
  std::vector<CallCuts> cutsThatMayBe(const Node &n, const Node &whole, const OpCall &call,
                                      llvm::ArrayRef<ValueId> operands) const {
    std::vector<CallCuts> found;
    auto add = [&](CallPlace from, AxisCut cut) {
      if (auto cuts = cutsOf(call, from, cut))
        found.push_back(std::move(*cuts));
    };
    std::optional<std::pair<size_t, AxisCut>> anywhere;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Piece p = pieceOf(operands[i]);
      if (p.kind != Piece::Cut || p.of != whole.operands[i])
        continue;
      if (p.begin != Piece::kAnywhere) {
        add({CallPlace::Operand, i}, p.cut);
        return found;
      }
      if (anywhere)
        anywhere->second.outer = std::lcm(anywhere->second.outer, p.cut.outer);
      else
        anywhere = {i, p.cut};
    }
    if (anywhere)
      add({CallPlace::Operand, anywhere->first}, anywhere->second);
    const Type &type = g_.type(whole.firstResult), &own = g_.type(n.firstResult);
    for (uint32_t axis = 0; axis < type.dims.size() && own.rank() == type.rank(); ++axis) {
      if (own.dims[axis] == type.dims[axis])
        continue;
      const size_t before = found.size();
      add({CallPlace::Result, 0}, {axis});
      if (!anywhere || found.size() == before)
        continue;
      // The cut is inside of an outer part of the operand and of the result.
      if (const auto &of = found.back().operands[anywhere->first]; of)
        add({CallPlace::Operand, anywhere->first},
            {of->cut.axis, std::lcm(anywhere->second.outer, of->cut.outer)});
    }
    return found;
  }

  // Whether two shares are one, or may be: that of `a` is then taken for both.
  static bool agree(Share &a, const Share &b) {
    if (!a.isAnywhere() && !b.isAnywhere())
      return __int128(a.begin) * b.length == __int128(b.begin) * a.length &&
             __int128(a.end) * b.length == __int128(b.end) * a.length;
    if (__int128(a.places()) * b.length != __int128(b.places()) * a.length)
      return false;
    if (a.isAnywhere() && b.isAnywhere())
      a.period = std::lcm(a.period, b.period);
    else if (a.isAnywhere())
      a = b;
    return true;
  }

  // The share that a piece is of a cut; none if it is none.
  std::optional<Share> shareOf(const Piece &p, AxisCut cut) const {
    const int64_t length = cut.innerOf(g_.type(p.of));
    if (p.begin != Piece::kAnywhere)
      return p.cut == cut ? std::optional<Share>({p.begin, p.end, length, cut}) : std::nullopt;
    const int64_t places = p.end * p.cut.outer; // of the axis
    if (p.cut.axis != cut.axis || cut.outer % p.cut.outer != 0 ||
        places % (cut.outer * p.period) != 0 || length % p.period != 0)
      return std::nullopt;
    return Share{p.begin, places / cut.outer, length, cut, p.period};
  }

  // Whether the node makes a share of the results, from equal shares of the operands. Sets the
  // pieces that it makes.
  bool isAlong(const Node &n, const Node &whole, const OpCall &call, const CallCuts &cuts,
               llvm::ArrayRef<ValueId> operands, ValueId before) {
    std::optional<Share> share;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Piece p = pieceOf(operands[i]);
      const std::optional<CallCuts::Of> &of = cuts.operands[i];
      if (p.of != whole.operands[i] || p.kind != (of ? Piece::Cut : Piece::Whole) || p.isSplit)
        return false;
      if (!of)
        continue;
      std::optional<Share> own = shareOf(p, of->cut);
      if (!own || (of->isOfParts && !takePart(*own, unitsOf(call, cuts))) ||
          (share && !agree(*share, *own)))
        return false;
      share = share ? share : own;
    }
    if (!share) { // no element depends on its place
      if (!cuts.results[0])
        return false;
      const uint32_t axis = cuts.results[0]->cut.axis;
      share = Share{Piece::kAnywhere, g_.type(n.firstResult).dims[axis],
                    g_.type(whole.firstResult).dims[axis]};
    }
    place(n, call, cuts, *share);
    if (const auto parts = partsOf(call, cuts); parts && !isOnePart(*share, *parts))
      return false;
    return hasAttrsOf(n, whole, call, cuts, *share) &&
           takeResults(n, whole, call, cuts, *share, before);
  }

  // --- Axes with an element for each of some uneven parts: a chunk is one of the parts

  static std::optional<int64_t> partsOf(const OpCall &call, const CallCuts &cuts) {
    for (size_t r = 0; r < call.results.size(); ++r)
      if (const auto &of = cuts.results[r]; of && of->isOfParts)
        return call.results[r].dims[of->cut.axis];
    return std::nullopt;
  }
  // The number of elements that such parts divide.
  static int64_t unitsOf(const OpCall &call, const CallCuts &cuts) {
    for (size_t i = 0; i < call.operands.size(); ++i)
      if (const auto &of = cuts.operands[i]; of && !of->isOfParts)
        return call.operands[i].dims[of->cut.axis];
    return 0;
  }
  // Turns a share of the parts into one of the units, if it is one part.
  static bool takePart(Share &share, int64_t units) {
    if (share.isAnywhere() || share.places() != 1)
      return false;
    share = {beginOfPart(units, share.length, share.begin),
             beginOfPart(units, share.length, share.end), units};
    return true;
  }
  // Whether the share of the units is the one part that the node makes.
  static bool isOnePart(const Share &share, int64_t parts) {
    const int64_t part = partsBefore(share.length, parts, share.begin);
    return !share.isAnywhere() && share.begin == beginOfPart(share.length, parts, part) &&
           share.end == beginOfPart(share.length, parts, part + 1);
  }

  // A share that may lie anywhere lies where an attribute of the node says, such as the place of
  // the first element that a mask is drawn for. The attributes are held against it later.
  static void place(const Node &n, const OpCall &call, const CallCuts &cuts, Share &share) {
    if (!share.isAnywhere() || !cuts.results[0])
      return;
    const AxisCut cut = cuts.results[0]->cut;
    const std::optional<int64_t> begin = beginOfChunk(call, cut.axis, n.attrs);
    const int64_t size = cut.innerOf(call.results[0]);
    if (!begin || *begin < 0 || *begin > size || size == 0)
      return;
    share.begin = int64_t(__int128(*begin) * share.length / size);
    share.end += share.begin;
  }

  bool hasAttrsOf(const Node &n, const Node &whole, const OpCall &call, const CallCuts &cuts,
                  const Share &share) const {
    if (n.numResults != whole.numResults || !cuts.results[0])
      return n.numResults == whole.numResults && identical(whole.attrs, n.attrs);
    const AxisCut cut = cuts.results[0]->cut;
    const int64_t begin =
        share.isAnywhere() ? 0 : placeOf(share.begin, share, cut.innerOf(call.results[0]));
    return identical(attrsOfChunk(call, cut, begin, cut.innerOf(g_.type(n.firstResult))), n.attrs);
  }

  bool takeResults(const Node &n, const Node &whole, const OpCall &call, const CallCuts &cuts,
                   const Share &share, ValueId before) {
    for (uint32_t r = 0; r < n.numResults; ++r) {
      const ValueId v = whole.result(r);
      if (!cuts.keepsBits)
        out_.rounds.set(n.result(r).index);
      if (const auto &of = cuts.results[r]) {
        const int64_t size = of->cut.innerOf(g_.type(v));
        Piece p{Piece::Cut, v, of->cut};
        if (share.isAnywhere())
          p.period = periodOf(call, cuts, r, share.period);
        if (of->isOfParts) {
          p.begin = partsBefore(share.length, size, share.begin);
          p.end = p.begin + 1;
        } else {
          p.begin = share.isAnywhere() ? share.begin : placeOf(share.begin, share, size);
          p.end = placeOf(share.end, share, size);
        }
        set(n, r, p);
        continue;
      }
      if (cuts.isRepeated(r)) {
        set(n, r, {Piece::Whole, v});
        continue;
      }
      const Share summed{share.begin, share.end, share.length, cutOfOperands(cuts)};
      const bool isWide = before && isWideTypeOf(g_.type(n.result(r)), v);
      if (!addShare(n, r, before ? pieceOf(before) : Piece{}, v, summed, isWide) ||
          (before && pieceOf(before).kind == Piece::None))
        return false;
    }
    return true;
  }
  // The period of a result whose operands have one. A reshape has the same elements, so those of
  // the operand's axis that repeat lie as far apart in the result.
  static int64_t periodOf(const OpCall &call, const CallCuts &cuts, uint32_t r, int64_t period) {
    if (!call.op->cuts)
      return period;
    const int64_t from = strideOf(call.operands[0].dims, cuts.operands[0]->cut.axis),
                  to = strideOf(call.results[r].dims, cuts.results[r]->cut.axis);
    return period * from / std::gcd(period * from, to);
  }
  static AxisCut cutOfOperands(const CallCuts &cuts) {
    const auto first = llvm::find_if(cuts.operands, [](const auto &of) { return of.has_value(); });
    return first == cuts.operands.end() ? AxisCut() : (*first)->cut;
  }

  static int64_t placeOf(int64_t at, const Share &share, int64_t size) {
    return int64_t(__int128(at) * size / share.length);
  }

  const Graph &g_;
  ChunkPieces out_;
  std::vector<Total> totals_;
  std::optional<llvm::DenseMap<ValueId, ValueId>> sums_; // found by sumWith()
};

} // namespace

ChunkPieces chunkPiecesOf(const Graph &g) { return Pieces(g).run(); }

} // namespace isthmus
