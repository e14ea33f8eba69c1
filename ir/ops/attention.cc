// Scaled dot product attention (Vaswani et al. 2017) as one op. Of the scores, a tokens by tokens
// matrix, it keeps one logarithm per row, from which the backward pass recomputes them (Dao et al.
// 2022). Kept memory grows with the number of tokens, not with its square.
//
// The backward row takes y and lse as independent operands, as other backward rows take their
// statistics. Its own gradients, and that of a mask, differentiate the expansion, which writes out
// the scores.

#include "ir/factors.h"
#include "ir/ops/families.h"
#include "ir/ops/norm.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

int64_t rowsOf(const Type &t) { return t.dims[t.dims.size() - 2]; }
llvm::ArrayRef<int64_t> leadOf(const Type &t) { return llvm::makeArrayRef(t.dims).drop_back(2); }
Dims withLead(const Type &t, llvm::ArrayRef<int64_t> last) {
  Dims dims(leadOf(t).begin(), leadOf(t).end());
  dims.append(last.begin(), last.end());
  return dims;
}

// --- Shape rules

// Checks queries, keys and values, the operands from `first` on.
llvm::Error expectHeads(const InferContext &c, size_t first) {
  for (size_t i = first; i < first + 3; ++i) {
    if (llvm::Error e = c.expectFloat(i))
      return e;
    if (llvm::Error e = c.expectRank(i, 2, 64))
      return e;
  }
  const Type &q = c.operand(first), &k = c.operand(first + 1), &v = c.operand(first + 2);
  if (q.dtype != k.dtype || q.dtype != v.dtype)
    return c.error("expects operands of one element type, got '{0}', '{1}' and '{2}'", q.str(),
                   k.str(), v.str());
  if (leadOf(q) != leadOf(k) || leadOf(q) != leadOf(v))
    return c.error("expects queries, keys and values that agree in all but their last two sizes, "
                   "got '{0}', '{1}' and '{2}'",
                   q.str(), k.str(), v.str());
  if (q.dims.back() != k.dims.back())
    return c.error("expects queries and keys of one last size, got '{0}' and '{1}'", q.str(),
                   k.str());
  if (rowsOf(k) != rowsOf(v))
    return c.error("expects a value for each key, got keys '{0}' and values '{1}'", k.str(),
                   v.str());
  return llvm::Error::success();
}

// Checks the mask, which is operand `i` if given, against the scores of `q` and `k`.
llvm::Error expectMask(const InferContext &c, size_t i, const Type &q, const Type &k) {
  if (!c.has(i))
    return llvm::Error::success();
  const Type &mask = c.operand(i), scores = q.with(withLead(q, {rowsOf(q), rowsOf(k)}));
  bool fits = mask.dtype == q.dtype && mask.rank() <= scores.rank();
  for (int64_t a = 1; fits && a <= mask.rank(); ++a) {
    int64_t size = mask.dims[size_t(mask.rank() - a)];
    fits = size == 1 || size == scores.dims[size_t(scores.rank() - a)];
  }
  if (!fits)
    return c.error("expects a mask that broadcasts to '{0}', got '{1}'", scores.str(), mask.str());
  return llvm::Error::success();
}

Type attended(const Type &q, const Type &v) {
  return q.with(withLead(q, {rowsOf(q), v.dims.back()}));
}
Type statistics(const Type &q) {
  return Type(statisticsType(q.dtype), llvm::makeArrayRef(q.dims).drop_back());
}

llvm::Expected<TypeList> inferAttention(const InferContext &c) {
  if (llvm::Error e = expectHeads(c, 0))
    return e;
  if (llvm::Error e = expectMask(c, 3, c.operand(0), c.operand(1)))
    return e;
  return TypeList{attended(c.operand(0), c.operand(2)), statistics(c.operand(0))};
}

llvm::Expected<TypeList> inferAttentionGrad(const InferContext &c) {
  if (llvm::Error e = expectHeads(c, 1))
    return e;
  const Type &q = c.operand(1), &k = c.operand(2), &v = c.operand(3);
  const std::pair<size_t, Type> wanted[] = {
      {0, attended(q, v)}, {4, attended(q, v)}, {5, statistics(q)}};
  for (const auto &[i, want] : wanted)
    if (c.operand(i) != want)
      return c.error("expects '{0}' of type '{1}', got '{2}'", c.op.operandNames[i], want.str(),
                     c.operand(i).str());
  if (llvm::Error e = expectMask(c, 6, q, k))
    return e;
  return TypeList{q, k, v};
}

// --- The scores written out, in the type of the statistics, in which the kernels compute

struct Scores {
  Builder &b;
  const Attrs &attrs;
  Type type; // of q
  ValueId q, k, v, mask;

  Scores(Builder &b, const Attrs &attrs, llvm::ArrayRef<ValueId> operands)
      : b(b), attrs(attrs), type(b.type(operands[0])), q(wide(operands[0])), k(wide(operands[1])),
        v(wide(operands[2])), mask(operands.size() > 3 ? wide(operands[3]) : ValueId()) {}

  ValueId wide(ValueId x) const { return b.cast(x, statisticsType(type.dtype)); }
  ValueId narrow(ValueId x) const { return b.cast(x, type.dtype); }
  ValueId scaled(ValueId x) const { return b.scale(x, attrs.getFloat("scale")); }
  ValueId product(ValueId x, bool tx, ValueId y, bool ty) const {
    return b.create("matmul", {x, y}, {{"transpose_a", tx}, {"transpose_b", ty}});
  }
  // Reshapes a value of lse's shape, to broadcast against the scores.
  ValueId each(ValueId x) const { return b.reshape(x, withLead(type, {rowsOf(type), 1})); }

  ValueId scores() const {
    ValueId s = product(scaled(q), false, k, true);
    if (mask)
      s = b.add(s, mask);
    if (!attrs.getBool("causal"))
      return s;
    ValueId ones = b.full(Type(DType::F32, {rowsOf(type), rowsOf(b.type(k))}), 1);
    ValueId seen = b.cast(b.create("trilu", {ones}, {{"upper", false}}), DType::Bool);
    return b.create("where", {seen, s, b.full(Type(b.type(s).dtype, {}), -INFINITY)});
  }
  // Whether each row of the scores sees a key.
  ValueId seesKeys(ValueId lse) const {
    return b.create("greater", {each(lse), constant(lse, -INFINITY)});
  }
  ValueId constant(ValueId like, double x) const { return b.full(Type(b.type(like).dtype, {}), x); }
  ValueId weights(ValueId lse) const {
    ValueId base = b.create("where", {seesKeys(lse), each(lse), constant(lse, 0)});
    return b.create("exp", {b.sub(scores(), base)});
  }
  // The gradient of the scores, from the gradient g of y.
  ValueId slope(ValueId weights, ValueId g, ValueId y) const {
    ValueId dot = b.sum(b.mul(wide(g), wide(y)), {-1}, /*keepDims=*/true);
    return b.mul(weights, b.sub(product(wide(g), false, v, true), dot));
  }
};

ValueList expandAttention(ExpandContext &c) {
  Scores s(c.b, c.attrs, c.operands);
  ValueId scores = s.scores();
  ValueId weights =
      c.b.create("softmax", {scores}, {{"axis", int64_t(-1)}, {"zero_if_masked", true}});
  ValueId lse = c.b.create("logsumexp", {scores}, {{"axes", Ints{-1}}, {"keepdims", false}});
  return {s.narrow(s.product(weights, false, s.v, false)), lse};
}

ValueList expandAttentionGrad(ExpandContext &c) {
  ValueList in(c.operands.begin() + 1, c.operands.begin() + 4); // q, k, v
  in.append(c.operands.begin() + 6, c.operands.end());
  Scores s(c.b, c.attrs, in);
  ValueId g = c.operands[0], weights = s.weights(c.operands[5]);
  ValueId slope = s.slope(weights, g, c.operands[4]);
  return {s.narrow(s.scaled(s.product(slope, false, s.k, false))),
          s.narrow(s.scaled(s.product(slope, true, s.q, false))),
          s.narrow(s.product(weights, true, s.wide(g), false))};
}

// --- Gradients

// The gradient of lse, where h_i is the gradient of lse_i: d lse_i / d s_ij is the weight p_ij. So
// the gradient of q_i is scale h_i sum_j p_ij k_j, an attention with the keys as values. The
// gradient of k_j is sum_i p_ij (scale h_i q_i), the gradient of those values if scale h q is the
// gradient of the result.
void addGradientsOfLse(VjpContext &c, ValueList &out) {
  Builder &b = c.b;
  ValueId q = c.operand(0), k = c.operand(1);
  const Type type = c.type(q);
  ValueList in = {q, k, k};
  if (c.numOperands() > 3)
    in.push_back(c.operand(3));
  ValueId seen = b.create("attention", in, c.attrs);
  ValueId each =
      b.reshape(b.scale(c.grad(1), c.attrs.getFloat("scale")), withLead(type, {rowsOf(type), 1}));
  ValueId slope = b.cast(each, type.dtype);
  auto add = [&](size_t i, ValueId more) { out[i] = out[i] ? b.add(out[i], more) : more; };
  if (c.wants(0))
    add(0, b.mul(seen, slope));
  if (c.wants(1)) {
    in.insert(in.begin(), b.mul(q, slope));
    in.insert(in.begin() + 4, {seen, c.result(1)});
    add(1, b.graph().node(b.createNode("attention_grad", in, c.attrs)).result(2));
  }
}

ValueId gradientOfMask(VjpContext &c) {
  ValueList in;
  for (size_t i = 0; i < 4; ++i)
    in.push_back(c.operand(i));
  Scores s(c.b, c.attrs, in);
  ValueId weights = s.weights(c.result(1)), sum;
  if (c.hasGrad(0))
    sum = s.slope(weights, c.grad(0), c.result(0));
  if (c.hasGrad(1)) {
    ValueId more = c.b.mul(weights, s.each(c.grad(1)));
    sum = sum ? c.b.add(sum, more) : more;
  }
  return s.narrow(c.b.sumTo(sum, c.type(c.operand(3)).dims));
}

ValueList vjpAttention(VjpContext &c) {
  ValueList out(4);
  bool heads = c.wants(0) || c.wants(1) || c.wants(2);
  if (heads && c.hasGrad(0)) {
    ValueList in = {c.grad(0), c.operand(0), c.operand(1), c.operand(2), c.result(0), c.result(1)};
    if (c.numOperands() > 3)
      in.push_back(c.operand(3));
    NodeId grad = c.b.createNode("attention_grad", in, c.attrs);
    for (unsigned i = 0; i < 3; ++i)
      if (c.wants(i))
        out[i] = c.b.graph().node(grad).result(i);
  }
  if (c.hasGrad(1) && (c.wants(0) || c.wants(1)))
    addGradientsOfLse(c, out);
  if (c.wants(3))
    out[3] = gradientOfMask(c);
  return out;
}

// --- Cost: that of the products; causal attention counts only the keys that each row sees

Cost costOf(const OpCall &c, size_t q, double flopsOfKeys, double flopsOfValues, double flopsEach) {
  Cost cost;
  for (const Type &t : c.operands)
    cost.bytes += double(t.bytes());
  for (const Type &t : c.results)
    cost.bytes += double(t.bytes());
  const Type &queries = c.operands[q], &values = c.operands[q + 2];
  double rows = double(rowsOf(queries)), keys = double(rowsOf(values)), pairs = rows * keys;
  if (c.attrs->getBool("causal")) {
    double both = std::min(rows, keys);
    pairs = both * (both + 1) / 2 + (rows - both) * keys;
  }
  for (int64_t d : leadOf(queries))
    pairs *= double(d);
  cost.flops = pairs * (flopsOfKeys * double(queries.dims.back()) +
                        flopsOfValues * double(values.dims.back()) + flopsEach);
  return cost;
}
Cost costAttention(const OpCall &c) { return costOf(c, 0, 2, 2, 10); }
Cost costAttentionGrad(const OpCall &c) { return costOf(c, 1, 6, 4, 14); }

const AttrDef kScale = {
    "scale", AttrKind::Float, {}, "the factor of the products of queries and keys"};
const AttrDef kCausal = {"causal", AttrKind::Bool, false, "whether query i sees keys 0 to i only"};

// The axes before the last two, which all but the mask have; and the queries, of `q` and of those
// in `alike`, if each sees all keys. The mask broadcasts to the scores.
Factors factorsOfQueries(const OpCall &c, size_t q, llvm::ArrayRef<size_t> alike, size_t mask) {
  const Dims &dims = c.operands[q].dims;
  const uint32_t queries = uint32_t(dims.size() - 2);
  Factors f = wholeFactors(c);
  const bool isCausal = c.attrs->getBool("causal");
  auto name = [&](Factors::Axes &axes, bool hasQueries) {
    for (uint32_t i = 0; i < queries + (hasQueries && !isCausal); ++i)
      axes[i].factor = i;
  };
  for (size_t i = 0; i < mask && i < c.operands.size(); ++i)
    name(f.operands[i], i == q || llvm::is_contained(alike, i));
  for (size_t r = 0; r < c.results.size(); ++r)
    name(f.results[r], r == 0 || q == 0); // of the gradient's, only that of the queries
  if (mask >= c.operands.size())
    return f;
  const Dims &own = c.operands[mask].dims;
  for (size_t i = 0; i + (isCausal ? 2 : 1) < own.size(); ++i)
    if (const size_t at = dims.size() - own.size() + i; own[i] == dims[at])
      f.operands[mask][i].factor = uint32_t(at);
  return f;
}
Factors factorsOfAttention(const OpCall &c) { return factorsOfQueries(c, 0, {}, 3); }
Factors factorsOfAttentionGrad(const OpCall &c) { return factorsOfQueries(c, 1, {0, 4, 5}, 6); }

} // namespace

void registerAttentionOps(OpRegistry &r) {
  r.add({{.name = "attention",
          .doc = "softmax(scale q k^T + mask) v over the last two axes, and log(sum(exp)) of each "
                 "row of the scores, scale q k^T + mask. A row that sees no key is zero, and its "
                 "lse -inf.",
          .operands = "q k v mask?",
          .results = "y lse",
          .attrs = {kScale, kCausal},
          .traits = kContraction,
          .infer = inferAttention,
          .vjp = vjpAttention,
          .expand = expandAttention,
          .cost = costAttention,
          .inPlace = {{0, 0}},
          .factors = factorsOfAttention,
          .examples = {"attention(f64[3, 4], f64[3, 4], f64[3, 4]) {scale = 0.5}",
                       "attention(f64[3, 2], f64[4, 2], f64[4, 3], f64[4]) {scale = 0.7}",
                       "attention(f64[4, 2], f64[3, 2], f64[3, 1]) {scale = 1, causal = true}",
                       "attention(f64[2, 3, 4], f64[2, 5, 4], f64[2, 5, 2], f64[2, 3, 5]) "
                       "{scale = 0.5, causal = true}",
                       "attention(f64[2, 2, 4, 3], f64[2, 2, 4, 3], f64[2, 2, 4, 3]) "
                       "{scale = 0.6, causal = true}",
                       "attention(f64[2, 2, 3, 2], f64[2, 2, 2, 2], f64[2, 2, 2, 2], "
                       "f64[2, 1, 3, 1]) {scale = 0.7}",
                       "attention(f64[1, 1], f64[1, 1], f64[1, 1], f64[]) {scale = -1}"},
          .low = -1,
          .high = 1},
         {.name = "attention_grad",
          .doc = "The gradients of attention, from its results: with p = exp(scores - lse), "
                 "ds = p (g v^T - sum(g y)), dq = scale ds k, dk = scale ds^T q, dv = p^T g.",
          .operands = "g q k v y lse mask?",
          .results = "dq dk dv",
          .attrs = {kScale, kCausal},
          .traits = kContraction,
          .infer = inferAttentionGrad,
          .expand = expandAttentionGrad,
          .cost = costAttentionGrad,
          .inPlace = {{0, 0}, {0, 1}, {0, 4}},
          .factors = factorsOfAttentionGrad,
          .examples = {"attention_grad(f64[3, 4], f64[3, 4], f64[3, 4], f64[3, 4], f64[3, 4], "
                       "f64[3]) {scale = 0.5}",
                       "attention_grad(f64[3, 3], f64[3, 2], f64[4, 2], f64[4, 3], f64[3, 3], "
                       "f64[3], f64[4]) {scale = 0.7}",
                       "attention_grad(f64[4, 1], f64[4, 2], f64[3, 2], f64[3, 1], f64[4, 1], "
                       "f64[4]) {scale = 1, causal = true}",
                       "attention_grad(f64[2, 3, 2], f64[2, 3, 4], f64[2, 5, 4], f64[2, 5, 2], "
                       "f64[2, 3, 2], f64[2, 3], f64[2, 3, 5]) {scale = 0.5, causal = true}",
                       "attention_grad(f64[2, 2, 3, 2], f64[2, 2, 3, 2], f64[2, 2, 2, 2], "
                       "f64[2, 2, 2, 2], f64[2, 2, 3, 2], f64[2, 2, 3], f64[2, 1, 3, 1]) "
                       "{scale = 0.7}"},
          .low = -1,
          .high = 1}});
}

} // namespace isthmus
