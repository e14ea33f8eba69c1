// Gathers and scatters whose indices are tensors. Updates of one element are combined in their
// order.

#include "kernels/cuda/copy.h"
#include "kernels/cuda/register.h"
#include "kernels/cuda/scatter.h"
#include "kernels/element/arithmetic.h"
#include "kernels/element/indexing.h"

namespace isthmus::cuda {

// --- Updates with targets

Combining combiningOf(const OpCall &call) {
  const std::string &how = call.attrs->getString("reduction");
  return how == "add"   ? Combining::Add
         : how == "mul" ? Combining::Mul
         : how == "max" ? Combining::Maximum
         : how == "min" ? Combining::Minimum
                        : Combining::Replace;
}

namespace {

template <typename C> ISTHMUS_GPU C combined(Combining how, C a, C b) {
  switch (how) {
  case Combining::Add:
    return Add()(a, b);
  case Combining::Mul:
    return Mul()(a, b);
  case Combining::Maximum:
    return Maximum()(a, b);
  case Combining::Minimum:
    return Minimum()(a, b);
  default:
    return b;
  }
}

constexpr int64_t kPiece = 32; // sorted updates that one thread combines

// The workspace: targets; the updates' positions in the order of targets; and two rows per piece.
// `before` holds the combined updates whose target the piece shares with pieces before it, `behind`
// those whose target it shares only with pieces after it.
struct ScatterSpace {
  int64_t *targets;
  Place *places;
  char *before, *behind;
  int64_t bytes;

  ScatterSpace(const Scatter &s, void *workspace) {
    int64_t pieces = (s.count + kPiece - 1) / kPiece;
    int64_t row = s.outer * s.length * std::max<int64_t>(4, dtypeBytes(s.dtype));
    int64_t targetBytes = s.count * int64_t(sizeof(int64_t));
    int64_t placeBytes = placesFor(s.count) * int64_t(sizeof(Place));
    auto *at = static_cast<char *>(workspace);
    targets = reinterpret_cast<int64_t *>(at);
    places = reinterpret_cast<Place *>(at + targetBytes);
    before = at + targetBytes + placeBytes;
    behind = before + pieces * row;
    bytes = targetBytes + placeBytes + 2 * pieces * row;
  }
};

// Sorted updates, for kernels. T: stored type. C: type that updates are combined in.
template <typename T, typename C> struct Updates {
  Scatter s;
  const int64_t *targets;
  const Place *places;
  const T *updates;
  T *y;
  C *before, *behind;
  Divisor byColumns, byLength;

  Updates(const Scatter &scatter, const void *from, void *to, const ScatterSpace &space)
      : s(scatter), targets(space.targets), places(space.places),
        updates(static_cast<const T *>(from)), y(static_cast<T *>(to)),
        before(reinterpret_cast<C *>(space.before)), behind(reinterpret_cast<C *>(space.behind)),
        byColumns(columns()), byLength(s.length) {}
  ISTHMUS_DEVICE int64_t columns() const { return s.outer * s.length; }
  int64_t pieces() const { return (s.count + kPiece - 1) / kPiece; }

  // The target of sorted update p; -1 before the first and after the last.
  ISTHMUS_GPU int64_t target(int64_t p) const {
    return p < 0 || p >= s.count ? -1 : targets[places[p]];
  }
  ISTHMUS_GPU C update(int64_t p, int64_t o, int64_t j) const {
    return C(updates[(o * s.count + places[p]) * s.length + j]);
  }
  ISTHMUS_GPU void combine(int64_t target, int64_t o, int64_t j, C value) const {
    T &to = y[(o * s.size + target) * s.length + j];
    to = T(combined(s.how, C(to), value));
  }

  // Combines the updates of piece `i / columns` in column `i % columns`.
  ISTHMUS_GPU void combinePiece(int64_t i) const {
    int64_t column, j, piece = byColumns(i, &column), o = byLength(column, &j);
    int64_t p = piece * kPiece, end = std::min(p + kPiece, s.count), now = target(p);
    bool begins = target(p - 1) != now;
    while (now >= 0 && p < end) {
      C value = update(p, o, j);
      int64_t next = target(++p);
      for (; next == now && p < end; next = target(++p))
        value = combined(s.how, value, update(p, o, j));
      if (!begins)
        before[i] = value;
      else if (next == now)
        behind[i] = value;
      else
        combine(now, o, j, value);
      now = next;
      begins = true;
    }
  }
  // Combines the parts of the target that begins in a piece and continues after it, if there is
  // one.
  ISTHMUS_GPU void combinePieces(int64_t i) const {
    int64_t column, j, piece = byColumns(i, &column), o = byLength(column, &j);
    int64_t first = piece * kPiece, last = first + kPiece - 1, now = target(last);
    bool begins = now != target(first) || now != target(first - 1);
    if (now < 0 || !begins || target(last + 1) != now)
      return;
    C value = behind[i];
    for (int64_t at = i, p = last + 1; target(p) == now; p += kPiece) {
      at += columns();
      value = combined(s.how, value, before[at]);
    }
    combine(now, o, j, value);
  }
};

template <typename T, typename C> void combineUpdates(const Queue &queue, const Updates<T, C> &u) {
  forEach(queue, u.pieces() * u.columns(), [=] ISTHMUS_GPU(int64_t i) { u.combinePiece(i); });
  forEach(queue, u.pieces() * u.columns(), [=] ISTHMUS_GPU(int64_t i) { u.combinePieces(i); });
}

// Calls f with tags of the stored type and of the type that updates are combined in.
template <typename F> void dispatchCombined(DType t, Combining how, F f) {
  if (how == Combining::Replace)
    dispatchSize(t, [&](auto tag) { f(tag, tag); });
  else
    dispatchNumber(t, [&](auto tag) { f(tag, TypeTag<Compute<typename decltype(tag)::type>>()); });
}

} // namespace

int64_t Scatter::bytes() const { return ScatterSpace(*this, nullptr).bytes; }

// Updates without a target (-1) come last, because targets compare as unsigned.
struct ByTarget {
  const int64_t *targets;
  int64_t count;
  ISTHMUS_GPU ByTarget of(int64_t column) const { return {targets + column * count, count}; }
  ISTHMUS_GPU bool operator()(Place a, Place b) const {
    uint64_t first = uint64_t(targets[a]), second = uint64_t(targets[b]);
    return first < second || (first == second && a < b);
  }
};
void sortByTarget(const Queue &queue, int64_t columns, int64_t count, const int64_t *targets,
                  Place *places) {
  sortPlaces(queue, columns, count, places, ByTarget{targets, count});
}

void scatterUpdates(const Queue &queue, const Scatter &s, const void *updates, void *y,
                    void *workspace) {
  if (s.count * s.outer * s.length == 0)
    return;
  ScatterSpace space(s, workspace);
  sortByTarget(queue, 1, s.count, space.targets, space.places);
  dispatchCombined(s.dtype, s.how, [&](auto tag, auto computeTag) {
    using T = typename decltype(tag)::type;
    using C = typename decltype(computeTag)::type;
    combineUpdates(queue, Updates<T, C>(s, updates, y, space));
  });
}

namespace {

Indices indicesOf(const Launch &l) { return Indices(l.args.operands[1], l.call.operands[1].dtype); }

// --- Elements along an axis

// Maps an element of the indices to the element of x that it points to. Both have the same position
// except along one axis.
struct Pointed {
  Strided<1> base;
  Indices indices;
  int64_t size, step;

  explicit Pointed(const Launch &l, const Pairs &p)
      : base(Walk<1>(l.call.operands[1].dims, {p.stridesX})), indices(indicesOf(l)), size(p.size),
        step(p.stepX) {}
  ISTHMUS_GPU int64_t at(int64_t i) const { // -1 if out of range
    int64_t start[1], k = indices.at(i, size);
    base.at(i, start);
    return k < 0 ? -1 : start[0] + k * step;
  }
};

void findElements(const Launch &l, int64_t *targets) {
  Pointed pointed(l, Pairs(l.call));
  forEach(l.queue, l.call.operands[1].elements(),
          [=] ISTHMUS_GPU(int64_t i) { targets[i] = pointed.at(i); });
}

template <typename T> void gatherElements(const Launch &l) {
  Pointed pointed(l, Pairs(l.call));
  const T *x = l.operand<T>(0);
  T *y = l.result<T>(0), none = nothing<T>(l.call.results[0].dtype);
  forEach(l.queue, l.call.results[0].elements(), [=] ISTHMUS_GPU(int64_t i) {
    int64_t at = pointed.at(i);
    y[i] = at < 0 ? none : x[at];
  });
}

// --- Slices by tuples

struct FewSizes {
  static constexpr int kMost = 32;
  int64_t size[kMost];
  int count = 0;
  void push_back(int64_t s) { size[count++] = s; }
  ISTHMUS_DEVICE int64_t operator[](int64_t i) const { return size[i]; }
};
using GridSlices = Slices<FewSizes>;

void findSlices(const Launch &l, int64_t *targets) {
  GridSlices s(l.call);
  Indices indices = indicesOf(l);
  forEach(l.queue, s.count(), [=] ISTHMUS_GPU(int64_t t) { targets[t] = s.slice(indices, t); });
}

template <typename U>
void gatherSlices(const Launch &l, const GridSlices &s, int64_t length, const U *x, U none, U *y) {
  Divisor byLength(length);
  Indices indices = indicesOf(l);
  forEach(l.queue, s.count() * length, [=] ISTHMUS_GPU(int64_t i) {
    int64_t j, t = byLength(i, &j), from = s.slice(indices, t);
    y[i] = from < 0 ? none : x[from * length + j];
  });
}

void runGatherSlices(const Launch &l) {
  GridSlices s(l.call);
  int64_t bytes = dtypeBytes(l.call.results[0].dtype);
  int64_t unit = unitOf(
      bytes, {s.length * bytes, addressOf(l.args.operands[0]), addressOf(l.args.results[0])});
  uint64_t none = nothing<uint64_t>(l.call.results[0].dtype);
  dispatchUnit(unit, [&](auto tag) {
    using U = typename decltype(tag)::type;
    gatherSlices(l, s, s.length * bytes / unit, l.operand<U>(0), repeated<U>(&none, bytes),
                 l.result<U>(0));
  });
}

// --- Gathers with last_only: of equal indices only the last one reads. Sorting makes it the last
// of its run.

struct LastSpace {
  int64_t *targets;
  Place *places;
  LastSpace(int64_t count, void *workspace)
      : targets(static_cast<int64_t *>(workspace)),
        places(reinterpret_cast<Place *>(targets + count)) {}
  static int64_t bytes(int64_t count) {
    return count * int64_t(sizeof(int64_t)) + placesFor(count) * int64_t(sizeof(Place));
  }
};

template <typename T> void gatherLast(const Launch &l, int64_t count, int64_t length) {
  LastSpace space(count, l.args.workspace);
  sortByTarget(l.queue, 1, count, space.targets, space.places);
  const int64_t *targets = space.targets;
  const Place *places = space.places;
  const T *x = l.operand<T>(0);
  T *y = l.result<T>(0), none = nothing<T>(l.call.results[0].dtype);
  Divisor byLength(length);
  forEach(l.queue, count * length, [=] ISTHMUS_GPU(int64_t i) {
    int64_t j, p = byLength(i, &j), t = places[p], from = targets[t];
    bool last = p + 1 == count || targets[places[p + 1]] != from;
    y[t * length + j] = from < 0 ? none : last ? x[from * length + j] : T(0);
  });
}

bool lastOnly(const OpCall &call) { return call.attrs->getBool("last_only"); }

int64_t gatherElementsBytes(const OpCall &call) {
  return lastOnly(call) ? LastSpace::bytes(call.operands[1].elements()) : 0;
}
int64_t gatherNdBytes(const OpCall &call) {
  return lastOnly(call) ? LastSpace::bytes(GridSlices(call).count()) : 0;
}

void runGatherElements(const Launch &l) {
  bool last = lastOnly(l.call);
  if (last)
    findElements(l, l.workspace<int64_t>());
  dispatchSize(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    last ? gatherLast<T>(l, l.call.operands[1].elements(), 1) : gatherElements<T>(l);
  });
}

void runGatherNd(const Launch &l) {
  if (!lastOnly(l.call))
    return runGatherSlices(l);
  findSlices(l, l.workspace<int64_t>());
  GridSlices s(l.call);
  dispatchSize(l.call.results[0].dtype,
               [&](auto tag) { gatherLast<typename decltype(tag)::type>(l, s.count(), s.length); });
}

// --- Scatters

void copyData(const Launch &l) {
  if (l.args.operands[0] != l.args.results[0])
    copyDense(l.queue, l.call.results[0].bytes(), l.args.operands[0], l.args.results[0]);
}

// Columns of indices along the axis have disjoint targets. If there are many columns, or short
// ones, one thread processes each; otherwise the updates are sorted.
bool goesByColumns(const Pairs &p) {
  constexpr int64_t kShort = 256, kMany = 4096;
  return p.count <= kShort || product(p.columns) >= kMany;
}

template <typename T, typename C> void scatterColumns(const Launch &l, Combining how) {
  Pairs p(l.call);
  Walk<2> walk = p.walk();
  Strided<2> strided(walk);
  Indices indices = indicesOf(l);
  const T *updates = l.operand<T>(2);
  T *y = l.result<T>(0);
  int64_t count = p.count, size = p.size, step = p.step, stepY = p.stepX;
  forEach(l.queue, walk.elements(), [=] ISTHMUS_GPU(int64_t column) {
    int64_t start[2];
    strided.at(column, start);
    for (int64_t i = 0, at = start[1]; i < count; ++i, at += step) {
      int64_t k = indices.at(at, size);
      if (k < 0)
        continue;
      T &to = y[start[0] + k * stepY];
      to = T(combined(how, C(to), C(updates[at])));
    }
  });
}

Scatter scatterOfElements(const OpCall &call) {
  const Type &y = call.results[0];
  return {1, call.operands[1].elements(), y.elements(), 1, y.dtype, combiningOf(call)};
}
int64_t scatterElementsBytes(const OpCall &call) {
  return goesByColumns(Pairs(call)) ? 0 : scatterOfElements(call).bytes();
}

void runScatterElements(const Launch &l) {
  copyData(l);
  Scatter s = scatterOfElements(l.call);
  if (!goesByColumns(Pairs(l.call))) {
    findElements(l, l.workspace<int64_t>());
    return scatterUpdates(l.queue, s, l.args.operands[2], l.args.results[0], l.args.workspace);
  }
  dispatchCombined(s.dtype, s.how, [&](auto tag, auto computeTag) {
    scatterColumns<typename decltype(tag)::type, typename decltype(computeTag)::type>(l, s.how);
  });
}

Scatter scatterOfSlices(const OpCall &call) {
  GridSlices s(call);
  return {1, s.count(), s.batches * s.perBatch, s.length, call.results[0].dtype, combiningOf(call)};
}
int64_t scatterNdBytes(const OpCall &call) { return scatterOfSlices(call).bytes(); }

void runScatterNd(const Launch &l) {
  copyData(l);
  findSlices(l, l.workspace<int64_t>());
  scatterUpdates(l.queue, scatterOfSlices(l.call), l.args.operands[2], l.args.results[0],
                 l.args.workspace);
}

// Declines tuples of more indices than a kernel's arguments can hold.
template <GridFunction run, WorkspaceFunction workspace>
std::unique_ptr<PreparedKernel> prepareSlices(const OpCall &call, const KernelOptions &options) {
  return call.operands[1].dims.back() > FewSizes::kMost
             ? nullptr
             : prepareGrid<run, workspace>(call, options);
}

} // namespace

void registerIndexing(KernelTable &table) {
  table.add({"gather_elements", "cuda", prepareGrid<runGatherElements, gatherElementsBytes>});
  table.add({"gather_nd", "cuda", prepareSlices<runGatherNd, gatherNdBytes>});
  table.add({"scatter_elements", "cuda", prepareGrid<runScatterElements, scatterElementsBytes>});
  table.add({"scatter_nd", "cuda", prepareSlices<runScatterNd, scatterNdBytes>});
}

} // namespace isthmus::cuda
