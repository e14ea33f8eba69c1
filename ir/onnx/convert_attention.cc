// Attention (opset 23) and FlexAttention (a preview): the row `attention` if it computes the same,
// else matrix products and a softmax.

#include "ir/onnx/numbers.h"
#include "ir/onnx/op_table.h"
#include <cmath>

namespace isthmus::onnx_import {
namespace {

// Reshapes [B, T, H * D] to [B, H, T, D]. An operand of rank 4 is returned unchanged.
Operand splitHeads(NodeContext &n, size_t i, int64_t heads) {
  const Type &x = n.in(i).type;
  if (n.failed() || x.rank() == 4)
    return n.in(i);
  if (x.rank() != 3 || heads < 1 || x.dims[2] % heads != 0) {
    n.fail("expects operands of rank 4, or of rank 3 with numbers of heads that divide the last "
           "axis, got '{0}' and {1} heads",
           x.str(), heads);
    return {};
  }
  Operand split = n.reshape(n.in(i), {x.dims[0], x.dims[1], heads, x.dims[2] / heads});
  return n.transpose(split, {0, 2, 1, 3});
}

// Queries [B, Hq, T, D], keys [B, Hk, S, D] and values [B, Hk, S, E]. With fewer key heads than
// query heads, each key head serves several consecutive query heads. Their queries become rows of
// one product, so that no key is copied.
struct Heads {
  NodeContext &n;
  Operand q, k, v;
  int64_t batch = 0, heads = 0, keyHeads = 0, queries = 0, keys = 0, depth = 0;

  Heads(NodeContext &n, Operand q, Operand k, Operand v)
      : n(n), q(std::move(q)), k(std::move(k)), v(std::move(v)) {
    if (n.failed())
      return;
    const Dims &a = this->q.type.dims, &b = this->k.type.dims, &c = this->v.type.dims;
    if (a.size() != 4 || b.size() != 4 || c.size() != 4) {
      n.fail("expects queries, keys and values of rank 4, got '{0}', '{1}' and '{2}'",
             this->q.type.str(), this->k.type.str(), this->v.type.str());
      return;
    }
    batch = a[0];
    heads = a[1];
    queries = a[2];
    depth = a[3];
    keyHeads = b[1];
    keys = b[2];
    if (keyHeads == 0 || heads % keyHeads != 0 || c[1] != keyHeads)
      n.fail("expects a number of query heads that is a multiple of that of keys and values, got "
             "{0}, {1} and {2}",
             heads, keyHeads, c[1]);
  }
  // Whether sizes and types fit an attention. If not, a matrix product reports the error.
  bool agree() const {
    return k.type.dims[0] == batch && v.type.dims[0] == batch && k.type.dims[3] == depth &&
           v.type.dims[2] == keys && k.type.dtype == q.type.dtype && v.type.dtype == q.type.dtype;
  }
  Operand scores(double scale) { // [B, Hq, T, S]
    Operand rows =
        n.reshape(n.affine(q, scale, 0), {batch, keyHeads, heads / keyHeads * queries, depth});
    Operand s = n.emit("matmul", {rows, k}, {{"transpose_b", true}});
    return n.reshape(s, {batch, heads, queries, keys});
  }
  Operand weighted(const Operand &probabilities) { // [B, Hq, T, E]
    if (n.failed())
      return {};
    Operand rows = n.reshape(probabilities, {batch, keyHeads, heads / keyHeads * queries, keys});
    return n.reshape(n.emit("matmul", {rows, v}), {batch, heads, queries, v.type.dims[3]});
  }
  double scaleOr(double given) const {
    return given != 0 || depth == 0 ? given : 1 / std::sqrt(double(depth));
  }
  // Copies keys or values for each query head.
  Operand repeated(const Operand &x) {
    if (keyHeads == heads)
      return x;
    Dims each = {batch, keyHeads, 1, keys, x.type.dims[3]}, all = each;
    all[2] = heads / keyHeads;
    return n.reshape(n.broadcast(n.reshape(x, each), all), {batch, heads, keys, each[4]});
  }
  // The row `attention`. `mask` is added to the scores; it may be left out.
  Operand attention(double scale, const Operand &mask, bool causal) { // [B, Hq, T, E]
    OperandList in;
    if (causal || mask.isValid())
      in = {q, repeated(k), repeated(v)};
    else // without a mask, the queries of one key head can be rows of one product
      in = {n.reshape(q, {batch, keyHeads, heads / keyHeads * queries, depth}), k, v};
    if (mask.isValid())
      in.push_back(mask);
    Operand y = n.emit("attention", in, {{"scale", scale}, {"causal", causal}});
    return n.reshape(y, {batch, heads, queries, v.type.dims[3]});
  }
};

// Whether the row computes the softmax at least in this precision.
bool isPrecise(DType type, int64_t precision) {
  return precision != onnx::TensorProto::DOUBLE || type == DType::F64;
}

// Whether the row accepts the mask: the mask must broadcast to the scores, not the scores to the
// mask.
bool fitsScores(const Type &mask, const Heads &h) {
  const int64_t scores[] = {h.batch, h.heads, h.queries, h.keys};
  if (mask.rank() > 4 || (mask.dtype != DType::Bool && mask.dtype != h.q.type.dtype))
    return false;
  for (int64_t a = 1; a <= mask.rank(); ++a)
    if (int64_t d = mask.dims[size_t(mask.rank() - a)]; d != 1 && d != scores[4 - a])
      return false;
  return true;
}

// The mask as a summand of the scores: -inf where a bool mask is false.
Operand additive(NodeContext &n, const Operand &mask, DType type) {
  if (n.failed() || mask.type.dtype != DType::Bool)
    return mask;
  return n.emit("where", {mask, n.scalarConstant(type, 0), n.scalarConstant(type, -INFINITY)});
}

// A summand of the scores: where `allowed` is true, `mask` or zero; elsewhere -inf.
Operand masked(NodeContext &n, const Operand &mask, const Operand &allowed, DType type) {
  Operand inside = mask.isValid() ? mask : n.scalarConstant(type, 0);
  return n.emit("where", {allowed, inside, n.scalarConstant(type, -INFINITY)});
}

// Whether query i may see key j: j <= i + past. It is made by rows, so that it is folded, or stays
// a node if it is huge.
Operand causal(NodeContext &n, int64_t queries, int64_t keys, int64_t past) {
  Operand ones = n.full(Type(DType::F32, {queries, keys}), 1);
  return n.cast(n.emit("trilu", {ones}, {{"k", past}, {"upper", false}}), DType::Bool);
}

// Whether key j is below the number of keys of each batch element, operand i: [B, 1, 1, S].
Operand notPadded(NodeContext &n, size_t i, const Heads &h) {
  const Operand &counts = n.in(i);
  if (counts.type.rank() != 1 || counts.type.dims[0] != h.batch) {
    n.fail("expects one number of keys for each of {0} rows, got '{1}'", h.batch,
           counts.type.str());
    return {};
  }
  Operand index = counting(n, counts.type.dtype, h.keys);
  return n.emit("less", {index, n.reshape(counts, {h.batch, 1, 1, 1})});
}

// Extends the mask to all keys. The keys that it lacks are masked.
Operand wholeMask(NodeContext &n, const Operand &mask, int64_t keys) {
  const Type &t = mask.type;
  if (t.rank() == 0 || t.dims.back() >= keys || t.dims.back() == 1)
    return mask;
  if (t.dtype == DType::Bool) {
    Operand whole = wholeMask(n, n.cast(mask, DType::U8), keys);
    return n.cast(whole, DType::Bool);
  }
  Ints low(size_t(t.rank()), 0), high = low;
  high.back() = keys - t.dims.back();
  return n.emit("pad", {mask},
                {{"low", low}, {"high", high}, {"value", isFloat(t.dtype) ? -INFINITY : 0.0}});
}

// `now` after the past keys or values, operand i.
Operand afterPast(NodeContext &n, size_t i, const Operand &now) {
  if (n.failed() || !n.has(i) || n.in(i).type.elements() == 0)
    return now;
  return n.emit("concat", {n.in(i), now}, {{"axis", int64_t(2)}});
}

// The softmax in the requested precision. The row already computes 16-bit elements in f32, so only
// f64 needs a cast. A query that sees no key gets zeros.
Operand softmax(NodeContext &n, const Operand &scores, int64_t precision) {
  DType type = scores.type.dtype;
  bool isDouble = precision == onnx::TensorProto::DOUBLE;
  Operand x = isDouble ? n.cast(scores, DType::F64) : scores;
  return n.cast(n.emit("softmax", {x}, {{"axis", int64_t(-1)}, {"zero_if_masked", true}}), type);
}

void convertAttention(NodeContext &n) {
  int64_t mode = n.intAttr("qk_matmul_output_mode", 0),
          precision = n.intAttr("softmax_precision", 0);
  bool isCausal = n.intAttr("is_causal", 0) != 0;
  double scale = n.floatAttr("scale", 0), softcap = n.floatAttr("softcap", 0);
  if (mode < 0 || mode > 3)
    n.fail("expects a qk_matmul_output_mode from 0 to 3, got {0}", mode);
  if (n.has(4) != n.has(5))
    n.fail("expects past keys and past values, or neither");
  Operand q = splitHeads(n, 0, n.intAttr("q_num_heads", 0));
  int64_t keyHeads = n.intAttr("kv_num_heads", 0);
  Operand k = afterPast(n, 4, splitHeads(n, 1, keyHeads));
  Operand v = afterPast(n, 5, splitHeads(n, 2, keyHeads));
  Heads h(n, q, k, v);
  if (n.failed())
    return;
  int64_t past = n.has(4) && n.in(4).type.rank() == 4 ? n.in(4).type.dims[2] : 0;
  DType type = h.q.type.dtype;
  Operand mask; // a summand of the scores; may be invalid
  if (n.has(3))
    mask = additive(n, wholeMask(n, n.in(3), h.keys), type);
  if (n.has(6))
    mask = masked(n, mask, notPadded(n, 6, h), type);
  if (isCausal && past > 0)
    mask = masked(n, mask, causal(n, h.queries, h.keys, past), type);
  if (n.failed())
    return;
  auto finish = [&](Operand y) {
    if (n.failed())
      return;
    if (n.in(0).type.rank() == 3) {
      Dims d = y.type.dims;
      y = n.reshape(n.transpose(y, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]});
    }
    n.result(0, y);
    n.result(1, k);
    n.result(2, v);
  };
  if (softcap == 0 && !n.wants(3) && isPrecise(type, precision) && h.agree() &&
      (!mask.isValid() || fitsScores(mask.type, h)))
    return finish(h.attention(h.scaleOr(scale), mask, isCausal && past == 0));

  Operand scores = h.scores(h.scaleOr(scale)), shown = scores;
  if (softcap != 0) // before the masks; tanh would make -inf finite
    scores = n.affine(n.emit("tanh", {n.affine(scores, 1 / softcap, 0)}), softcap, 0);
  if (mode == 1)
    shown = scores;
  if (isCausal && past == 0)
    mask = masked(n, mask, causal(n, h.queries, h.keys, past), type);
  if (mask.isValid())
    scores = n.emit("add", {scores, mask});
  if (mode == 2)
    shown = scores;
  if (n.failed())
    return;
  Operand probabilities = softmax(n, scores, precision);
  if (mode == 3)
    shown = probabilities;
  finish(h.weighted(probabilities));
  n.result(3, shown);
}

// The result of the node's graph `name` on `x`, of the type of `x`; `x` itself if the node has no
// such graph.
Operand modified(NodeContext &n, const char *name, const Operand &x) {
  if (n.failed() || !n.hasAttr(name))
    return x;
  const onnx::GraphProto *body = n.graphAttr(name);
  if (n.failed())
    return x;
  auto results = n.translate(*body, {x}, name, std::string(name) + ".");
  if (!results)
    return x;
  if (results->size() != 1 || (*results)[0].type != x.type) {
    n.fail("expects '{0}' to give one result of type '{1}'", name, x.type.str());
    return x;
  }
  return (*results)[0];
}

// By definition the probabilities are computed in f32 or f64 here.
void convertFlexAttention(NodeContext &n) {
  double scale = n.floatAttr("scale", 0);
  int64_t precision = n.intAttr("softmax_precision", 0);
  Heads h(n, n.in(0), n.in(1), n.in(2));
  if (n.failed())
    return;
  DType type = h.q.type.dtype;
  if (!n.hasAttr("score_mod") && !n.hasAttr("prob_mod") && isPrecise(type, precision) && h.agree())
    return n.result(0, h.attention(h.scaleOr(scale), {}, /*causal=*/false));
  bool isDouble = type == DType::F64 || precision == onnx::TensorProto::DOUBLE;
  Operand scores = n.cast(h.scores(h.scaleOr(scale)), isDouble ? DType::F64 : DType::F32);
  scores = modified(n, "score_mod", scores);
  Operand probabilities = n.emit("softmax", {scores}, {{"axis", int64_t(-1)}});
  probabilities = modified(n, "prob_mod", probabilities);
  n.result(0, h.weighted(n.cast(probabilities, type)));
}

// Rotary position embedding (Su et al. 2021): rotates pairs of elements of a head by angles that
// depend on the position. The elements of a pair are neighbours, or half of the rotated elements
// apart.
void convertRotaryEmbedding(NodeContext &n) {
  bool neighbours = n.intAttr("interleaved", 0) != 0;
  int64_t turned = n.intAttr("rotary_embedding_dim", 0), heads = n.intAttr("num_heads", 0);
  const Type &given = n.in(0).type;
  if (given.rank() != 4 && (given.rank() != 3 || heads < 1 || given.dims[2] % heads != 0))
    return n.fail("expects an operand of rank 4, or of rank 3 with a number of heads that divides "
                  "the last axis, got '{0}' and {1} heads",
                  given.str(), heads);
  Operand x = n.in(0);
  if (given.rank() == 3)
    x = n.reshape(x, {given.dims[0], given.dims[1], heads, given.dims[2] / heads});
  int64_t headAxis = given.rank() == 3 ? 2 : 1;
  Dims d = x.type.dims;
  if (turned == 0)
    turned = d[3];
  int64_t half = turned / 2;
  if (turned < 0 || turned > d[3] || turned % 2 != 0)
    return n.fail("expects an even number of elements to turn, of {0} at most, got {1}", d[3],
                  turned);
  auto angles = [&](size_t i) { // of each position, shaped to broadcast to a half of x
    Operand cache = n.has(3) ? n.emit("gather", {n.in(i), n.in(3)}) : n.in(i);
    if (n.failed())
      return cache;
    Dims to = cache.type.dims;
    if (to.size() != 3 || to[2] != half) {
      n.fail("expects angles of {0} elements for each position, got '{1}'", half, cache.type.str());
      return cache;
    }
    to.insert(to.begin() + headAxis, 1);
    return n.reshape(cache, to);
  };
  Operand cosine = angles(1), sine = angles(2), rest;
  if (turned < d[3]) {
    auto parts =
        n.emitAll("split", {x}, {{"axis", int64_t(3)}, {"sizes", Ints{turned, d[3] - turned}}});
    x = parts[0];
    rest = parts[1];
  }
  int64_t axis = neighbours ? 4 : 3;
  if (neighbours)
    x = n.reshape(x, {d[0], d[1], d[2], half, 2});
  Ints sizes = neighbours ? Ints{1, 1} : Ints{half, half};
  auto pair = n.emitAll("split", {x}, {{"axis", axis}, {"sizes", sizes}});
  Dims flat = {d[0], d[1], d[2], half};
  Operand a = n.reshape(pair[0], flat), b = n.reshape(pair[1], flat);
  Operand real = n.emit("sub", {n.emit("mul", {a, cosine}), n.emit("mul", {b, sine})});
  Operand imaginary = n.emit("add", {n.emit("mul", {a, sine}), n.emit("mul", {b, cosine})});
  if (neighbours) {
    Dims apart = {d[0], d[1], d[2], half, 1};
    real = n.reshape(real, apart);
    imaginary = n.reshape(imaginary, apart);
  }
  Operand y = n.emit("concat", {real, imaginary}, {{"axis", axis}});
  y = n.reshape(y, {d[0], d[1], d[2], turned});
  if (rest.isValid())
    y = n.emit("concat", {y, rest}, {{"axis", int64_t(3)}});
  n.result(0, n.reshape(y, given.dims));
}

constexpr OnnxOp kOps[] = {
    {"Attention", 23, 3, 7, 4, convertAttention, 1u << 6},
    {"ai.onnx.preview.FlexAttention", 1, 3, 3, 1, convertFlexAttention},
    {"RotaryEmbedding", 23, 3, 4, 1, convertRotaryEmbedding, kAllButFirst},
};

} // namespace

OpRows attentionOps() { return kOps; }

} // namespace isthmus::onnx_import
