// Rows that loop over steps, as standard operators: the body of a Scan is one step.

#include "ir/builder.h"
#include "ir/onnx/export/body.h"
#include "ir/onnx/tensor_data.h"
#include "ir/rank.h"
#include <cmath>

namespace isthmus::onnx_export {
namespace {

using Names = std::vector<Name>;

// The scanned operands, with the scan's axis first and the first step first. Not every evaluator
// supports other axes and directions.
struct Along {
  const RowWriter &w;
  Ints perm;
  int64_t length;
  Dims rest; // without the axis
  bool reverse;

  explicit Along(const RowWriter &w) : w(w), reverse(w.attrs.getBool("reverse")) {
    const Type &x = w.type(0);
    int64_t axis = axisFromFront(w.attrs.getInt("axis"), x.rank());
    length = x.dims[size_t(axis)];
    rest = x.dims;
    rest.erase(rest.begin() + axis);
    perm = sequence(0, x.rank());
    perm.erase(perm.begin() + axis);
    perm.insert(perm.begin(), axis);
  }
  Name turned(const Name &v) const {
    return reverse ? w.slice(v, {-1}, {-length - 1}, {0}, {-1}) : v;
  }
  Name in(const Name &v) const { return turned(w.transpose(v, perm)); }
  Name out(const Name &v) const { return w.transpose(turned(v), inversePermutation(perm)); }
};

Names cumProd(const RowWriter &w) {
  if (w.type(0).elements() == 0)
    return {w.b.emit("Identity", {w.x(0)})};
  Along along(w);
  bool exclusive = w.attrs.getBool("exclusive");
  Name one = w.b.emit("Expand", {w.number(1), w.b.ints(along.rest)});
  Names all = w.b.scan({one}, {along.in(w.x(0))}, [&](Body &b, const Names &in) -> Names {
    Name next = b.emit("Mul", {in[0], in[1]});
    return {next, exclusive ? in[0] : next};
  });
  return {along.out(all[1])};
}

// The first result is the first element itself, because its factor may be infinite. An element
// whose factor is cut is its own result too.
Names recurrence(const RowWriter &w) {
  Along along(w);
  if (w.type(0).elements() == 0 || along.length == 1)
    return {w.b.emit("Identity", {w.x(0)})};
  bool previous = w.attrs.getBool("previous");
  Name b = along.in(w.x(0)), a = along.in(w.x(1));
  Name first = w.slice(b, {0}, {1}, {0}), terms = w.slice(b, {1}, {along.length}, {0});
  auto inner = [&](const Name &v) {
    return w.slice(v, {previous ? 0 : 1}, {along.length - previous}, {0});
  };
  Names over = {terms, inner(a)};
  if (w.has(2))
    over.push_back(inner(along.in(w.x(2))));
  Names all = w.b.scan({w.reshape(first, along.rest)}, over, [](Body &b, const Names &in) -> Names {
    Name next = b.emit("Add", {in[1], b.emit("Mul", {in[2], in[0]})});
    if (in.size() > 3)
      next = b.emit("Where", {in[3], in[1], next});
    return {next, next};
  });
  return {along.out(w.b.emit("Concat", {first, all[1]}, {{"axis", int64_t(0)}}))};
}

// Gauss-Jordan elimination of [x, 1], with row pivoting. A pivot of zero becomes NaN, and so does
// its whole matrix.
Names inverse(const RowWriter &w) {
  const Type &x = w.type(0);
  int64_t n = x.dims.back();
  if (x.elements() == 0)
    return {w.b.emit("Identity", {w.x(0)})};
  int64_t count = x.elements() / (n * n);
  std::vector<double> ones(size_t(n * n), 0);
  for (int64_t i = 0; i < n; ++i)
    ones[size_t(i * (n + 1))] = 1;
  Name unit = w.b.emit("Expand", {w.b.tensor(onnx_import::floatsTensor(x.with({n, n}), ones)),
                                  w.b.ints({count, n, n})});
  Name start = w.b.emit("Concat", {w.reshape(w.x(0), {count, n, n}), unit}, {{"axis", int64_t(2)}});
  auto turn = [&](Body &b, const Names &in) -> Names {
    Name state = in[0], k = in[1], rows = b.ints(sequence(0, n));
    auto column = [&](const Name &m) { // k, as [count, n, 1]
      return b.emit("Gather", {m, b.emit("Unsqueeze", {k, b.ints({0})})}, {{"axis", int64_t(2)}});
    };
    Name sizes = b.emit("Squeeze", {b.emit("Abs", {column(state)}), b.ints({2})});
    Name open = b.emit("Where", {b.emit("Less", {rows, k}), b.number(x.dtype, -1), sizes});
    Name best = b.emit("ArgMax", {open}, {{"axis", int64_t(1)}, {"keepdims", int64_t(1)}});
    Name atK = b.emit("Equal", {rows, k}), atBest = b.emit("Equal", {rows, best});
    Name order = b.emit("Where", {atK, best, b.emit("Where", {atBest, k, rows})});
    Name wide =
        b.emit("Expand", {b.emit("Unsqueeze", {order, b.ints({2})}), b.ints({count, n, 2 * n})});
    Name swapped = b.emit("GatherElements", {state, wide}, {{"axis", int64_t(1)}});
    Name row =
        b.emit("Gather", {swapped, b.emit("Unsqueeze", {k, b.ints({0})})}, {{"axis", int64_t(1)}});
    Name pivot = column(row);
    Name isZero = b.emit("Equal", {pivot, b.number(x.dtype, 0)});
    row = b.emit("Div", {row, b.emit("Where", {isZero, b.number(x.dtype, NAN), pivot})});
    Name less = b.emit("Sub", {swapped, b.emit("Mul", {column(swapped), row})});
    Name isRow = b.emit("Unsqueeze", {atK, b.ints({1})});
    return {b.emit("Where", {isRow, row, less})};
  };
  Name done = w.b.scan({start}, {w.b.ints(sequence(0, n))}, turn)[0];
  return {w.reshape(w.slice(done, {n}, {2 * n}, {2}), x.dims)};
}

constexpr ExportRow kRows[] = {
    {"cumprod", cumProd},
    {"recurrence", recurrence, /*mayIgnore=*/true}, // with one element, the factor is unused
    {"inverse", inverse},
};

} // namespace

ExportRows scanRows() { return kRows; }

} // namespace isthmus::onnx_export
