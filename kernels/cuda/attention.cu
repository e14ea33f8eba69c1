// Attention by matrix products, on chunks of the scores. A chunk is several heads, or, if one head
// has more scores than a chunk may have, some of its query rows. Scores are in the compute type.
// The backward pass recomputes a chunk's weights from its scores and lse. If a head has several
// chunks, they are added to the gradients of its keys and values one after another.

#include "ir/op_registry.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/grid_kernel.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/register.h"
#include "kernels/cuda/strided.h"
#include "kernels/element/attention.h"
#include "kernels/element/functions.h"
#include <map>

namespace isthmus::cuda {
namespace {

// Query rows [begin, begin + rows) of heads [head, head + heads), and the number of keys that they
// are multiplied by.
struct Chunk {
  int64_t head, heads, begin, rows, keys;
};

int64_t roundedUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

std::vector<Chunk> chunksOf(const AttentionShape &s, int64_t mostScores) {
  std::vector<Chunk> chunks;
  if (s.queries * s.keys <= mostScores) {
    int64_t together = std::max<int64_t>(mostScores / std::max<int64_t>(s.queries * s.keys, 1), 1);
    for (int64_t head = 0; head < s.heads; head += together)
      chunks.push_back({head, std::min(together, s.heads - head), 0, s.queries, s.keys});
    return chunks;
  }
  int64_t rows = std::max<int64_t>(mostScores / s.keys, 1);
  if (rows >= 64)
    rows = rows / 64 * 64;
  // Keys that no row sees are omitted in coarse steps, because each number of keys needs a product
  // of its own.
  const int64_t step = roundedUp((s.keys + 7) / 8, 64);
  for (int64_t head = 0; head < s.heads; ++head)
    for (int64_t begin = 0; begin < s.queries; begin += rows) {
      int64_t end = std::min(begin + rows, s.queries);
      int64_t keys = std::min(roundedUp(s.seenBefore(end), step), s.keys);
      chunks.push_back({head, 1, begin, end - begin, keys});
    }
  return chunks;
}

// --- Kernels on the rows of a chunk's scores, [heads, rows, keys]

// Scores, computed from products of queries and keys.
template <typename T> struct Scores {
  using C = Compute<T>;
  const C *products;
  const T *mask; // or null
  Strided<1> maskHeads;
  int64_t maskRow, maskColumn;
  C scale;
  bool causal;
  Chunk chunk;
  Divisor byRows;

  struct Row {
    const C *products;
    const T *mask;
    int64_t seen, place; // number of keys, and the row's index among all queries of all heads
  };
  ISTHMUS_GPU Row row(int64_t t, int64_t queries) const {
    int64_t r, head = chunk.head + byRows(t, &r), query = chunk.begin + r, at[1];
    Row row{products + t * chunk.keys, nullptr, chunk.keys, head * queries + query};
    if (causal && query + 1 < row.seen)
      row.seen = query + 1;
    if (mask) {
      maskHeads.at(head, at);
      row.mask = mask + at[0] + query * maskRow;
    }
    return row;
  }
  ISTHMUS_GPU C score(const Row &row, int64_t j) const {
    C s = row.products[j] * scale;
    return row.mask ? s + C(row.mask[j * maskColumn]) : s;
  }
};

// Computes weights and lse. `weights` may alias the products.
template <typename T> struct Weigh {
  using C = Compute<T>;
  Scores<T> scores;
  int64_t queries;
  T *weights;
  C *lse;

  ISTHMUS_GPU void operator()(int64_t t, const Team &team) const {
    const auto row = scores.row(t, queries);
    C largest = team.reduce(
        row.seen, -std::numeric_limits<C>::infinity(),
        [&](C most, int64_t j) {
          C s = scores.score(row, j);
          return s > most ? s : most;
        },
        [](C a, C b) { return a > b ? a : b; });
    // inf - inf would be NaN. `largest` may miss a NaN; the sum is NaN anyway.
    const C base = std::isfinite(largest) ? largest : C(0);
    const C sum = team.reduce(
        row.seen, C(0), [&](C sum, int64_t j) { return sum + expOf(scores.score(row, j) - base); },
        [](C a, C b) { return a + b; });
    if (team.isFirst())
      lse[row.place] = C(std::log(double(sum)) + double(base));
    const C factor = factorOf(sum);
    T *to = weights + t * scores.chunk.keys;
    team.forEach(scores.chunk.keys, [&](int64_t j) {
      to[j] = T(j < row.seen ? expOf(scores.score(row, j) - base) * factor : C(0));
    });
  }
};

// Computes weights from lse, and slopes, the gradients of the products of queries and keys, from
// products of g and the values. `weights` may alias scores.products, and `slopes` may alias
// `products`.
template <typename T> struct Slope {
  using C = Compute<T>;
  Scores<T> scores;
  int64_t queries, width;
  const T *g, *y;
  const C *lse, *products; // products: of g and values
  T *weights, *slopes;

  ISTHMUS_GPU void operator()(int64_t t, const Team &team) const {
    const auto row = scores.row(t, queries);
    const T *gRow = g + row.place * width, *yRow = y + row.place * width;
    const C dot = team.reduce(
        width, C(0), [&](C sum, int64_t e) { return sum + C(gRow[e]) * C(yRow[e]); },
        [](C a, C b) { return a + b; });
    const C base = baseOf(lse[row.place]);
    const int64_t at = t * scores.chunk.keys;
    team.forEach(scores.chunk.keys, [&](int64_t j) {
      C weight = j < row.seen ? expOf(scores.score(row, j) - base) : C(0);
      C slope = j < row.seen ? weight * (products[at + j] - dot) * scores.scale : C(0);
      weights[at + j] = T(weight);
      slopes[at + j] = T(slope);
    });
  }
};

// Adds up the chunks of a head: `sums` starts with the first chunk, and the last chunk writes the
// total to `to`. A chunk contributes to the first `count` of `n` elements.
template <typename T>
void addChunk(const Queue &queue, int64_t n, int64_t count, const Compute<T> *part,
              Compute<T> *sums, T *to, bool first, bool last) {
  using C = Compute<T>;
  forEach(queue, n, [=] ISTHMUS_GPU(int64_t i) {
    C sum = first ? C(0) : sums[i];
    if (i < count)
      sum += part[i];
    if (last)
      to[i] = T(sum);
    else
      sums[i] = sum;
  });
}

// --- The kernels of the table

// Lays out scratch memory, piece by piece.
class Memory {
public:
  int64_t add(int64_t bytes) { // returns the piece's offset
    int64_t at = bytes_;
    bytes_ += roundedUp(bytes, 64);
    return at;
  }
  int64_t bytes() const { return bytes_; }

private:
  int64_t bytes_ = 0;
};

class AttentionKernel : public PreparedKernel {
public:
  AttentionKernel(const OpCall &call, const Queue &queue, int64_t mostScores)
      : queue_(queue), shape_(call), type_(call.operands[0].dtype),
        wide_(type_ == DType::F64 ? DType::F64 : DType::F32), narrow_(type_ != wide_),
        chunks_(chunksOf(shape_, mostScores)), maskHeads_(shape_.maskHeads()) {}

  int64_t workspaceBytes() const override { return memory_.bytes(); }
  bool isSubstitute() const override {
    return llvm::any_of(all_, [](const PreparedKernel *p) { return p->isSubstitute(); });
  }

protected:
  using Product = std::unique_ptr<PreparedKernel>;

  // Calls body(tag of the element type, chunk) for each chunk in order.
  template <typename Body> void forEachChunk(Body body) const {
    dispatchFloat(type_, [&](auto tag) {
      for (const Chunk &c : chunks_)
        body(tag, c);
    });
  }
  // Whether a chunk has all rows of its heads.
  bool wholeHeads() const { return chunks_.empty() || chunks_[0].rows == shape_.queries; }
  int64_t mostScoresOfAChunk() const {
    int64_t most = 0;
    for (const Chunk &c : chunks_)
      most = std::max(most, c.heads * c.rows * c.keys);
    return most;
  }
  int64_t bytes(DType t, int64_t elements) const { return elements * dtypeBytes(t); }

  // Prepares the product of x [heads, a, b] and y [heads, c, d], each of them optionally
  // transposed.
  Product prepare(const Type &x, bool tx, const Type &y, bool ty, DType to) {
    Attrs attrs = {{"transpose_a", tx}, {"transpose_b", ty}};
    OpCall call;
    call.op = &OpRegistry::get().at("matmul");
    call.attrs = &attrs;
    call.operands = {x, y};
    call.results = {Type(to, {x.dims[0], x.dims[tx ? 2 : 1], y.dims[ty ? 1 : 2]})};
    Product p = prepareProduct(call, queue_, alignment());
    productBytes_ = std::max(productBytes_, p->workspaceBytes());
    all_.push_back(p.get());
    return p;
  }
  void multiply(const Product &p, const void *x, const void *y, void *to,
                const KernelArgs &args) const {
    p->run({{x, y}, {to}, at<char>(args, productMemory_)});
  }
  // To be called after all products are prepared.
  void endOfMemory() { productMemory_ = memory_.add(productBytes_); }

  template <typename T> static T *at(const KernelArgs &args, int64_t offset) {
    return reinterpret_cast<T *>(static_cast<char *>(args.workspace) + offset);
  }
  // Element `index` of an operand or a result.
  template <typename P> auto *element(P *p, int64_t index) const {
    using Byte = std::conditional_t<std::is_const_v<P>, const char, char>;
    return static_cast<Byte *>(p) + bytes(type_, index);
  }
  // The offset of a chunk's rows in a tensor of `width` columns, and of its heads in a tensor of
  // keys or values.
  int64_t rowsAt(const Chunk &c, int64_t width) const {
    return (c.head * shape_.queries + c.begin) * width;
  }
  int64_t keysAt(const Chunk &c, int64_t width) const { return c.head * shape_.keys * width; }
  Type queriesOf(const Chunk &c, int64_t width) const { return {type_, {c.heads, c.rows, width}}; }
  Type keysOf(const Chunk &c, int64_t width) const { return {type_, {c.heads, c.keys, width}}; }
  Type scoresOf(const Chunk &c) const { return {type_, {c.heads, c.rows, c.keys}}; }

  template <typename T>
  Scores<T> scores(const Chunk &c, const KernelArgs &args, const Compute<T> *products) const {
    auto *mask =
        shape_.isMasked() ? static_cast<const T *>(args.operands[shape_.maskOperand()]) : nullptr;
    return {products,
            mask,
            maskHeads_,
            shape_.maskRow(),
            shape_.maskColumn(),
            Compute<T>(shape_.scale),
            shape_.causal,
            c,
            Divisor(c.rows)};
  }

  const Queue &queue_;
  const AttentionShape shape_;
  const DType type_, wide_;
  const bool narrow_; // whether the compute type differs from the element type
  const std::vector<Chunk> chunks_;
  const Strided<1> maskHeads_;
  Memory memory_;

private:
  // A power of two that divides all addresses at which a chunk begins in an operand or a result.
  int64_t alignment() const {
    int64_t places = 64;
    for (const Chunk &c : chunks_)
      for (int64_t width : {shape_.depth, shape_.width})
        places |= bytes(type_, rowsAt(c, width)) | bytes(type_, keysAt(c, width));
    return places & -places;
  }

  int64_t productBytes_ = 0, productMemory_ = 0;
  std::vector<const PreparedKernel *> all_; // products
};

// Products for each size of a chunk.
template <typename Products> class BySize {
public:
  template <typename Make> void add(const Chunk &c, Make make) {
    auto [it, isNew] = all_.try_emplace({c.heads, c.rows, c.keys});
    if (isNew)
      it->second = make();
  }
  const Products &of(const Chunk &c) const { return all_.at({c.heads, c.rows, c.keys}); }

private:
  std::map<std::array<int64_t, 3>, Products> all_;
};

class Forward : public AttentionKernel {
public:
  Forward(const OpCall &call, const Queue &queue, int64_t mostScores)
      : AttentionKernel(call, queue, mostScores) {
    for (const Chunk &c : chunks_)
      products_.add(c, [&] {
        return Products{
            prepare(queriesOf(c, shape_.depth), false, keysOf(c, shape_.depth), true, wide_),
            prepare(scoresOf(c), false, keysOf(c, shape_.width), false, type_)};
      });
    int64_t n = mostScoresOfAChunk();
    scores_ = memory_.add(bytes(wide_, n));
    weights_ = narrow_ ? memory_.add(bytes(type_, n)) : scores_;
    endOfMemory();
  }

  void run(const KernelArgs &args) override {
    forEachChunk(
        [&](auto tag, const Chunk &c) { runChunk<typename decltype(tag)::type>(c, args); });
  }

  template <typename T> void runChunk(const Chunk &c, const KernelArgs &args) const {
    using C = Compute<T>;
    const int64_t depth = shape_.depth, width = shape_.width;
    const Products &products = products_.of(c);
    multiply(products.scores, element(args.operands[0], rowsAt(c, depth)),
             element(args.operands[1], keysAt(c, depth)), at<C>(args, scores_), args);
    forEachTeam(queue_, c.heads * c.rows, c.keys,
                Weigh<T>{scores<T>(c, args, at<C>(args, scores_)), shape_.queries,
                         at<T>(args, weights_), static_cast<C *>(args.results[1])});
    multiply(products.y, at<T>(args, weights_), element(args.operands[2], keysAt(c, width)),
             element(args.results[0], rowsAt(c, width)), args);
  }

private:
  struct Products {
    Product scores, y;
  };
  BySize<Products> products_;
  int64_t scores_, weights_;
};

class Backward : public AttentionKernel {
public:
  Backward(const OpCall &call, const Queue &queue, int64_t mostScores)
      : AttentionKernel(call, queue, mostScores) {
    const int64_t depth = shape_.depth, width = shape_.width;
    const DType sumType = wholeHeads() ? type_ : wide_;
    for (const Chunk &c : chunks_)
      products_.add(c, [&] {
        Type q = queriesOf(c, depth), k = keysOf(c, depth), g = queriesOf(c, width),
             v = keysOf(c, width), s = scoresOf(c);
        return Products{prepare(q, false, k, true, wide_), prepare(g, false, v, true, wide_),
                        prepare(s, false, k, false, type_), prepare(s, true, q, false, sumType),
                        prepare(s, true, g, false, sumType)};
      });
    int64_t n = mostScoresOfAChunk();
    scores_ = memory_.add(bytes(wide_, n));
    upstream_ = memory_.add(bytes(wide_, n));
    weights_ = narrow_ ? memory_.add(bytes(type_, n)) : scores_;
    slopes_ = narrow_ ? memory_.add(bytes(type_, n)) : upstream_;
    if (!wholeHeads()) {
      part_ = memory_.add(bytes(wide_, shape_.keys * std::max(depth, width)));
      sumsOfKeys_ = memory_.add(bytes(wide_, shape_.keys * depth));
      sumsOfValues_ = memory_.add(bytes(wide_, shape_.keys * width));
    }
    endOfMemory();
  }

  void run(const KernelArgs &args) override {
    forEachChunk(
        [&](auto tag, const Chunk &c) { runChunk<typename decltype(tag)::type>(c, args); });
  }

  template <typename T> void runChunk(const Chunk &c, const KernelArgs &args) const {
    using C = Compute<T>;
    const int64_t depth = shape_.depth, width = shape_.width;
    const Products &products = products_.of(c);
    const void *g = element(args.operands[0], rowsAt(c, width));
    const void *q = element(args.operands[1], rowsAt(c, depth));
    const void *k = element(args.operands[2], keysAt(c, depth));
    const void *v = element(args.operands[3], keysAt(c, width));
    multiply(products.scores, q, k, at<C>(args, scores_), args);
    multiply(products.upstream, g, v, at<C>(args, upstream_), args);
    forEachTeam(queue_, c.heads * c.rows, c.keys,
                Slope<T>{scores<T>(c, args, at<C>(args, scores_)), shape_.queries, width,
                         static_cast<const T *>(args.operands[0]),
                         static_cast<const T *>(args.operands[4]),
                         static_cast<const C *>(args.operands[5]), at<C>(args, upstream_),
                         at<T>(args, weights_), at<T>(args, slopes_)});
    addColumns<T>(c, products.dv, weights_, g, width, args.results[2], sumsOfValues_, args);
    addColumns<T>(c, products.dk, slopes_, q, depth, args.results[1], sumsOfKeys_, args);
    // Last, because dq may alias the chunk's rows of g, q or y.
    multiply(products.dq, at<T>(args, slopes_), k, element(args.results[0], rowsAt(c, depth)),
             args);
  }

  // The gradient of keys or values: x^T y of the chunk, or its sum over all chunks of a head.
  template <typename T>
  void addColumns(const Chunk &c, const Product &product, int64_t x, const void *y, int64_t columns,
                  void *result, int64_t sums, const KernelArgs &args) const {
    using C = Compute<T>;
    void *to = element(result, keysAt(c, columns));
    if (wholeHeads())
      return multiply(product, at<T>(args, x), y, to, args);
    multiply(product, at<T>(args, x), y, at<C>(args, part_), args);
    addChunk<T>(queue_, shape_.keys * columns, c.keys * columns, at<C>(args, part_),
                at<C>(args, sums), static_cast<T *>(to), c.begin == 0,
                c.begin + c.rows == shape_.queries);
  }

private:
  struct Products {
    Product scores, upstream, dq, dk, dv;
  };
  BySize<Products> products_;
  int64_t scores_, upstream_, weights_, slopes_; // offsets in the workspace
  int64_t part_ = 0, sumsOfKeys_ = 0, sumsOfValues_ = 0;
};

std::unique_ptr<PreparedKernel> prepareInChunks(const OpCall &call, const KernelOptions &options) {
  return prepareAttention(call, options, kMostScores);
}

} // namespace

std::unique_ptr<PreparedKernel> prepareAttention(const OpCall &call, const KernelOptions &options,
                                                 int64_t mostScores) {
  if (!Strided<1>::takes(AttentionShape(call).maskHeads()))
    return nullptr;
  if (call.op->name == "attention")
    return std::make_unique<Forward>(call, queueOf(options), mostScores);
  return std::make_unique<Backward>(call, queueOf(options), mostScores);
}

void registerAttention(KernelTable &table) {
  table.add({"attention", "cuda", prepareInChunks});
  table.add({"attention_grad", "cuda", prepareInChunks});
}

} // namespace isthmus::cuda
