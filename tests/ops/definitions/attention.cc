// Attention, with all scores written out.

#include "tests/ops/definitions/definitions.h"

namespace isthmus::definitions {
namespace {

Number dot(const Numbers &a, Sizes rowA, const Numbers &b, Sizes rowB) {
  Number sum = 0;
  for (int64_t e = 0; e < a.size(a.type.rank() - 1); ++e)
    sum += a[joined(rowA, {e})] * b[joined(rowB, {e})];
  return sum;
}

// Calls f(row of q, row of k, score) for all pairs that see each other. `x` begins with q, k, v;
// the mask is operand `mask`, if given.
template <typename F> void forEachScore(const OpCall &call, Operands x, size_t mask, F f) {
  const Numbers &q = x[0], &k = x[1];
  forEachIndex(Sizes(q.type.dims).drop_back(), [&](const Index &row) {
    for (int64_t j = 0; j < k.size(k.type.rank() - 2); ++j) {
      const Index key = with(row, int64_t(row.size()) - 1, j);
      Number score = call.attrs->getFloat("scale") * dot(q, row, k, key);
      if (mask < x.size())
        score += x[mask].broadcast(joined(row, {j}));
      if (!call.attrs->getBool("causal") || j <= row.back())
        f(row, key, score);
    }
  });
}
// to[toRow] += by * from[fromRow]
void addRow(Numbers &to, Sizes toRow, Number by, const Numbers &from, Sizes fromRow) {
  for (int64_t e = 0; e < to.size(to.type.rank() - 1); ++e)
    to[joined(toRow, {e})] += by * from[joined(fromRow, {e})];
}

void attention(const OpCall &call, Operands x, Results y) {
  forEachScore(call, x, 3, [&](const Index &row, const Index &, Number score) {
    y[1][row] += std::exp(score);
  });
  for (Number &v : y[1].values)
    v = std::log(v); // minus infinity for a row without keys
  forEachScore(call, x, 3, [&](const Index &row, const Index &key, Number score) {
    addRow(y[0], row, std::exp(score - y[1][row]), x[2], key);
  });
}
void attentionGrad(const OpCall &call, Operands x, Results y) { // x: g, q, k, v, y, lse, mask
  const Number scale = call.attrs->getFloat("scale");
  forEachScore(call, x.drop_front(), 5, [&](const Index &row, const Index &key, Number score) {
    const Number p = std::exp(score - x[5][row]),
                 ds = p * (dot(x[0], row, x[3], key) - dot(x[0], row, x[4], row));
    addRow(y[0], row, scale * ds, x[2], key);
    addRow(y[1], key, scale * ds, x[1], row);
    addRow(y[2], key, p, x[0], row);
  });
}

} // namespace

void defineAttention(Table &t) {
  t["attention"] = {attention};
  t["attention_grad"] = {attentionGrad};
}

} // namespace isthmus::definitions
