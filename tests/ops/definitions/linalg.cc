// Matrix products, determinants and inverses.

#include "tests/ops/definitions/definitions.h"

namespace isthmus::definitions {
namespace {

// Element `at` of the product of the matrices in the last two axes of a and b.
Number productAt(const OpCall &call, const Numbers &a, const Numbers &b, const Index &at) {
  const bool turnA = call.attrs->getBool("transpose_a"), turnB = call.attrs->getBool("transpose_b");
  const Sizes lead = llvm::makeArrayRef(at).drop_back(2);
  const int64_t i = at[lead.size()], j = at[lead.size() + 1],
                inner = a.size(a.type.rank() - (turnA ? 2 : 1));
  Number sum = 0;
  for (int64_t k = 0; k < inner; ++k)
    sum += a.broadcast(joined(lead, turnA ? Index{k, i} : Index{i, k})) *
           b.broadcast(joined(lead, turnB ? Index{j, k} : Index{k, j}));
  return sum;
}

void matmul(const OpCall &call, Operands x, Results y) {
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    y[0][at] = productAt(call, x[0], x[1], at) + (x.size() > 2 ? x[2].broadcast(at) : 0);
  });
}
void matmulAdd(const OpCall &call, Operands x, Results y) {
  forEachIndex(y[0].type.dims,
               [&](const Index &at) { y[0][at] = x[0][at] + productAt(call, x[1], x[2], at); });
}

using Matrix = std::vector<std::vector<Number>>;

Matrix matrixAt(const Numbers &x, Sizes lead) {
  const size_t n = size_t(x.type.dims.back());
  Matrix m(n, std::vector<Number>(n));
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j)
      m[i][j] = x[joined(lead, {int64_t(i), int64_t(j)})];
  return m;
}

// Turns m into the identity by operations on rows, the largest pivot first, and applies them to the
// rows of `also`. Returns the determinant; at zero it stops.
Number eliminate(Matrix &m, Matrix &also) {
  Number det = 1;
  for (size_t k = 0; k < m.size(); ++k) {
    size_t p = k;
    for (size_t i = k; i < m.size(); ++i)
      p = std::fabs(m[i][k]) > std::fabs(m[p][k]) ? i : p;
    std::swap(m[k], m[p]);
    std::swap(also[k], also[p]);
    const Number pivot = m[k][k];
    det *= p == k ? pivot : -pivot;
    if (pivot == 0)
      return 0;
    for (size_t i = 0; i < m.size(); ++i) {
      const Number factor = m[i][k] / pivot;
      for (size_t j = 0; j < m.size() && i != k; ++j) {
        m[i][j] -= factor * m[k][j];
        also[i][j] -= factor * also[k][j];
      }
    }
    for (size_t j = 0; j < m.size(); ++j) {
      m[k][j] /= pivot;
      also[k][j] /= pivot;
    }
  }
  return det;
}

template <bool logarithm> void determinant(const OpCall &, Operands x, Results y) {
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    Matrix m = matrixAt(x[0], at), also = m;
    const Number det = eliminate(m, also);
    y[0][at] = logarithm ? std::log(std::fabs(det)) : det;
  });
}

void inverse(const OpCall &, Operands x, Results y) {
  const Type &t = x[0].type;
  forEachIndex(Sizes(t.dims).drop_back(2), [&](const Index &lead) {
    Matrix m = matrixAt(x[0], lead), out(m.size(), std::vector<Number>(m.size()));
    for (size_t i = 0; i < m.size(); ++i)
      out[i][i] = 1;
    const bool singular = eliminate(m, out) == 0;
    for (size_t i = 0; i < m.size(); ++i)
      for (size_t j = 0; j < m.size(); ++j)
        y[0][joined(lead, {int64_t(i), int64_t(j)})] = singular ? kNaN : out[i][j];
  });
}

} // namespace

void defineLinalg(Table &t) {
  t["matmul"] = {matmul};
  t["matmul_add"] = {matmulAdd};
  t["det"] = {determinant<false>, Accuracy::Sensitive};
  t["logabsdet"] = {determinant<true>, Accuracy::Sensitive};
  t["inverse"] = {inverse, Accuracy::Sensitive};
}

} // namespace isthmus::definitions
