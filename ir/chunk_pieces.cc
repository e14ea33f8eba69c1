#include "ir/chunk_pieces.h"

#include "ir/factors.h"
#include "ir/parts.h"
#include "ir/rank.h"
#include "ir/spelling.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

using Piece = ChunkPiece;

class Pieces {
public:
  explicit Pieces(const Graph &g) : g_(g) { out_.of.resize(g.numValues()); }

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
    for (uint32_t r = 0; r < clone.numResults; ++r)
      out_.of[clone.result(r).index] = out_.of[origin.result(r).index];
  }

  void findOf(NodeId id) {
    const Node &n = g_.node(id);
    const bool isRight = (isPart(n) && cut(n)) || (n.op->name == "write_part" && written(n)) ||
                         (n.op->name == "add" && summed(n)) ||
                         (n.op->name == "full" && isSumOfNone(n)) ||
                         (n.op->name == "cast" && (widened(n) || rounded(n))) ||
                         (n.op->name == "shorten" && rounded(n)) || inFront(n) || computed(id);
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
    const Type &whole = g_.type(p.of);
    const bool isAll = p.kind == Piece::Sum ? isOfAll(p) && !p.isWide
                       : p.kind == Piece::Written || p.kind == Piece::Cut
                           ? p.begin == 0 && p.end == whole.dims[p.axis]
                           : p.kind != Piece::Front;
    if (isAll)
      p.kind = Piece::Whole;
    out_.of[n.result(result).index] = p;
  }

  static bool isOfAll(const Piece &sum) { return sum.begin <= 0 && sum.end == sum.length; }

  // --- Parts of a whole

  static bool isPart(const Node &n) { return n.op->name == "part" || n.op->name == "slice"; }

  // Whether the node cuts the whole along one axis.
  bool cut(const Node &n) {
    if (!isWhole(n.operands[0], n.from.restores))
      return false;
    const Type &whole = g_.type(n.operands[0]), &part = g_.type(n.firstResult);
    Piece p{Piece::None, n.from.restores};
    for (size_t i = 0; i < whole.dims.size(); ++i)
      if (whole.dims[i] != part.dims[i]) {
        if (p.kind == Piece::Cut)
          return false;
        p = {Piece::Cut, n.from.restores, uint32_t(i)};
      }
    if (p.kind != Piece::Cut)
      return false;
    if (n.op->name == "part") {
      p.begin = n.attrs.getInt("start");
    } else {
      const Ints &steps = n.attrs.getInts("steps");
      if (!llvm::all_of(steps, [](int64_t s) { return s == 1; }))
        return false;
      p.begin = n.attrs.getInts("starts")[p.axis];
    }
    p.end = p.begin + part.dims[p.axis];
    set(n, 0, p);
    return true;
  }

  // --- Parts put together

  bool written(const Node &n) {
    const Piece part = pieceOf(n.operands[0]);
    const int64_t axis = axisFromFront(n.attrs.getInt("axis"), g_.type(n.firstResult).rank());
    const int64_t start = n.attrs.getInt("start"), size = g_.type(n.operands[0]).dims[size_t(axis)];
    if (part.of != n.from.restores || part.kind != Piece::Cut || int64_t(part.axis) != axis ||
        (part.begin != start && part.begin != Piece::kAnywhere) ||
        g_.type(part.of) != g_.type(n.firstResult))
      return false;
    const Piece before = n.operands.size() > 1 ? pieceOf(n.operands[1]) : Piece{};
    const bool isNext = n.operands.size() == 1
                            ? start == 0
                            : before.of == part.of && before.kind == Piece::Written &&
                                  before.axis == part.axis && before.end == start;
    if (isNext)
      set(n, 0, {Piece::Written, part.of, part.axis, 0, start + size});
    return isNext;
  }

  bool summed(const Node &n) {
    const Piece a = pieceOf(n.operands[0]), b = pieceOf(n.operands[1]);
    if (a.kind != Piece::Sum || b.kind != Piece::Sum || a.of != n.from.restores || b.of != a.of ||
        a.isWide != b.isWide || a.begin > 0 || a.length != b.length ||
        (b.begin != Piece::kAnywhere && a.end != b.begin))
      return false;
    set(n, 0,
        sumOf(a.of, 0, b.begin == Piece::kAnywhere ? a.end + b.end : b.end, a.length, a.isWide));
    return true;
  }

  static Piece sumOf(ValueId v, int64_t begin, int64_t end, int64_t length, bool isWide) {
    return {Piece::Sum, v, 0, begin, end, length, isWide};
  }

  // --- Sums in f32 of a value of 16 bits

  bool isShort(ValueId v) const { return dtypeBytes(g_.type(v).dtype) == 2; }
  bool isWideTypeOf(const Type &t, ValueId v) const {
    return isShort(v) && t.dtype == DType::F32 && t.dims == g_.type(v).dims;
  }

  bool isSumOfNone(const Node &n) {
    if (!isWideTypeOf(g_.type(n.firstResult), n.from.restores) || n.attrs.getFloat("value") != 0)
      return false;
    set(n, 0, sumOf(n.from.restores, 0, 0, 1, /*isWide=*/true));
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
    if (p.kind != Piece::Sum || !p.isWide || !isOfAll(p) || p.of != n.from.restores ||
        g_.type(n.firstResult).dtype != g_.type(p.of).dtype)
      return false;
    set(n, 0, {n.op->name == "cast" ? Piece::Whole : Piece::Front, p.of});
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

  bool computed(NodeId id) {
    const Node &n = g_.node(id);
    const ValueId first = n.from.restores;
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
    const Factors f = factorsOf(g_.call(def));
    for (uint32_t factor = 0; factor < f.numFactors(); ++factor)
      if (isAlong(n, whole, f, factor, operands, before))
        return true;
    return false;
  }

  // Places from `begin` to `end` of `length`, or `end` places anywhere.
  struct Share {
    int64_t begin = ChunkPiece::kAnywhere, end = 0, length = 1;
    bool isAnywhere() const { return begin == ChunkPiece::kAnywhere; }
    int64_t places() const { return isAnywhere() ? end : end - begin; }
  };
  // Whether two shares are one, or may be: that of `a` is then taken for both.
  static bool agree(Share &a, const Share &b) {
    if (!a.isAnywhere() && !b.isAnywhere())
      return __int128(a.begin) * b.length == __int128(b.begin) * a.length &&
             __int128(a.end) * b.length == __int128(b.end) * a.length;
    if (__int128(a.places()) * b.length != __int128(b.places()) * a.length)
      return false;
    if (a.isAnywhere())
      a = b;
    return true;
  }

  // Whether the node makes a share of the results along the factor, from equal shares of the
  // operands. Sets the pieces that it makes.
  bool isAlong(const Node &n, const Node &whole, const Factors &f, uint32_t factor,
               llvm::ArrayRef<ValueId> operands, ValueId before) {
    std::optional<Share> share;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Piece p = pieceOf(operands[i]);
      const std::optional<size_t> axis = Factors::axisOf(f.operands[i], factor);
      if (p.of != whole.operands[i] || p.kind != (axis ? Piece::Cut : Piece::Whole))
        return false;
      if (!axis)
        continue;
      Share own{p.begin, p.end, g_.type(p.of).dims[*axis]};
      if (f.operands[i][*axis].isOfParts && !takePart(own, unitsOf(whole, f, factor)))
        return false;
      if (p.axis != *axis || (share && !agree(*share, own)))
        return false;
      share = share ? share : own;
    }
    if (!share) { // no element depends on its place
      const std::optional<size_t> axis = Factors::axisOf(f.results[0], factor);
      if (!axis)
        return false;
      share = Share{Piece::kAnywhere, g_.type(n.firstResult).dims[*axis],
                    g_.type(whole.firstResult).dims[*axis]};
    }
    place(n, whole, f, factor, *share);
    if (const auto parts = partsOf(whole, f, factor); parts && !isOnePart(*share, *parts))
      return false;
    return hasAttrsOf(n, whole, f, factor, *share) &&
           takeResults(n, whole, f, factor, *share, before);
  }

  // --- Factors with an element for each of some uneven parts: a chunk is one of the parts

  std::optional<int64_t> partsOf(const Node &whole, const Factors &f, uint32_t factor) const {
    for (uint32_t r = 0; r < f.results.size(); ++r)
      if (const auto axis = Factors::axisOf(f.results[r], factor);
          axis && f.results[r][*axis].isOfParts)
        return g_.type(whole.result(r)).dims[*axis];
    return std::nullopt;
  }
  // The number of units of such a factor.
  int64_t unitsOf(const Node &whole, const Factors &f, uint32_t factor) const {
    for (size_t i = 0; i < f.operands.size(); ++i)
      if (const auto axis = Factors::axisOf(f.operands[i], factor);
          axis && !f.operands[i][*axis].isOfParts)
        return g_.type(whole.operands[i]).dims[*axis];
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
  void place(const Node &n, const Node &whole, const Factors &f, uint32_t factor,
             Share &share) const {
    const std::optional<size_t> axis = Factors::axisOf(f.results[0], factor);
    if (!share.isAnywhere() || !axis)
      return;
    const OpCall call = g_.call(g_.value(whole.firstResult).def);
    const std::optional<int64_t> begin = beginOfChunk(call, *axis, n.attrs);
    const int64_t size = call.results[0].dims[*axis];
    if (!begin || *begin < 0 || *begin > size || size == 0)
      return;
    share.begin = int64_t(__int128(*begin) * share.length / size);
    share.end += share.begin;
  }

  bool hasAttrsOf(const Node &n, const Node &whole, const Factors &f, uint32_t factor,
                  const Share &share) const {
    const std::optional<size_t> axis = Factors::axisOf(f.results[0], factor);
    if (n.numResults != whole.numResults || !axis)
      return n.numResults == whole.numResults && identical(whole.attrs, n.attrs);
    const OpCall call = g_.call(g_.value(whole.firstResult).def);
    const int64_t begin =
        share.isAnywhere() ? 0 : placeOf(share.begin, share, call.results[0].dims[*axis]);
    return identical(attrsOfChunk(call, *axis, begin, g_.type(n.firstResult).dims[*axis]), n.attrs);
  }

  bool takeResults(const Node &n, const Node &whole, const Factors &f, uint32_t factor,
                   const Share &share, ValueId before) {
    for (uint32_t r = 0; r < n.numResults; ++r) {
      const ValueId v = whole.result(r);
      if (const std::optional<size_t> axis = Factors::axisOf(f.results[r], factor)) {
        const int64_t size = g_.type(v).dims[*axis];
        if (f.results[r][*axis].isOfParts) {
          const int64_t part = partsBefore(share.length, size, share.begin);
          set(n, r, {Piece::Cut, v, uint32_t(*axis), part, part + 1});
          continue;
        }
        set(n, r,
            {Piece::Cut, v, uint32_t(*axis),
             share.isAnywhere() ? share.begin : placeOf(share.begin, share, size),
             placeOf(share.end, share, size)});
        continue;
      }
      if (f.isRepeated(r)) {
        set(n, r, {Piece::Whole, v});
        continue;
      }
      Share sum = share;
      const bool isWide = before && isWideTypeOf(g_.type(n.result(r)), v);
      if (before) {
        const Piece p = pieceOf(before);
        if (p.kind != Piece::Sum || p.of != v || p.isWide != isWide || p.begin > 0 ||
            (!share.isAnywhere() &&
             __int128(p.end) * share.length != __int128(share.begin) * p.length))
          return false;
        sum.begin = 0;
        if (share.isAnywhere())
          sum.end += placeOf(p.end, {0, 0, p.length}, share.length);
      }
      set(n, r, sumOf(v, sum.begin, sum.end, sum.length, isWide));
    }
    return true;
  }

  static int64_t placeOf(int64_t at, const Share &share, int64_t size) {
    return int64_t(__int128(at) * size / share.length);
  }

  const Graph &g_;
  ChunkPieces out_;
};

} // namespace

ChunkPieces chunkPiecesOf(const Graph &g) { return Pieces(g).run(); }

} // namespace isthmus
