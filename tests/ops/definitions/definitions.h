// The definition of each op as one obvious loop or formula. Nothing here is shared with the
// kernels, which are compared with these functions (definitions_test.cc).
#pragma once

#include "ir/op_def.h"
#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace isthmus::definitions {

// Holds every f64 and every i64 exactly, and rounds less than f64 does.
using Number = long double;
static_assert(std::numeric_limits<Number>::digits >= 64);
constexpr Number kInfinity = std::numeric_limits<Number>::infinity();
constexpr Number kNaN = std::numeric_limits<Number>::quiet_NaN();

using Index = llvm::SmallVector<int64_t, 6>; // a position: one number for each axis
using Sizes = llvm::ArrayRef<int64_t>;

// A tensor. Its elements are any numbers: the test rounds them to the type.
struct Numbers {
  Type type;
  std::vector<Number> values; // row-major

  explicit Numbers(const Type &t) : type(t), values(size_t(t.elements())) {}
  int64_t size(int64_t axis) const { return type.dims[size_t(axis)]; }
  Number &operator[](Sizes at) { return values[flat(at)]; }
  Number operator[](Sizes at) const { return values[flat(at)]; }
  // The element that numpy's broadcasting puts at a position of a larger tensor.
  Number broadcast(Sizes at) const;

private:
  size_t flat(Sizes at) const;
};

using Operands = llvm::ArrayRef<Numbers>;
using Results = llvm::MutableArrayRef<Numbers>; // zeros at first
using Definition = void (*)(const OpCall &, Operands, Results);

enum class Accuracy {
  Moves,    // elements of operands, with all their bits, or constants
  Exact,    // the number itself, whatever the sign of a zero
  Rounds,   // within rounding; integers are exact
  AddsUp,   // within rounding of many steps: sums in the type itself, differences of near numbers
  Sensitive // errors of rounding grow: small random operands only
};
struct Entry {
  Definition define = nullptr;
  Accuracy accuracy = Accuracy::Rounds;
};
using Table = std::map<std::string, Entry>;
const Table &table();

// Random ops draw by this seed and step.
constexpr uint64_t kSeed = 7, kStep = 3;

// --- The families, one file each

void defineAttention(Table &t);
void defineElementwise(Table &t);
void defineIndexing(Table &t);
void defineLinalg(Table &t);
void defineNorm(Table &t);
void defineOptimizer(Table &t);
void defineRandom(Table &t);
void defineReduce(Table &t);
void defineShape(Table &t);
void defineSoftmax(Table &t);
void defineWindow(Table &t);

// --- Loops

// Calls f(position) for all positions of a tensor of these sizes, in row-major order.
template <typename F> void forEachIndex(Sizes sizes, F f) {
  Index at(sizes.size(), 0);
  for (int64_t s : sizes)
    if (s == 0)
      return;
  for (;;) {
    f(at);
    size_t a = sizes.size();
    while (a > 0 && ++at[a - 1] == sizes[a - 1])
      at[--a] = 0;
    if (a == 0)
      return;
  }
}
// Calls f(position) for the first position of each line along an axis.
template <typename F> void forEachLine(const Numbers &x, int64_t axis, F f) {
  Index sizes(x.type.dims.begin(), x.type.dims.end());
  sizes[axis] = 1;
  forEachIndex(sizes, f);
}

// --- Positions

int64_t axisOf(const OpCall &call, int64_t rank); // the attribute `axis`, from the front
Index with(Sizes at, int64_t axis, int64_t i);
Index without(Sizes at, int64_t axis);
Index joined(Sizes a, Sizes b);
int64_t product(Sizes sizes);
int64_t flatOf(Sizes at, Sizes sizes); // its row-major number
std::vector<Number> line(const Numbers &x, Sizes first, int64_t axis);

// --- Numbers

// In integer types sums and products wrap round.
Number wrapped(DType t, uint64_t bits);
Number plus(DType t, Number a, Number b);
Number times(DType t, Number a, Number b);
Number least(DType t); // minus infinity for floats
Number greatest(DType t);
// Of floats: rounded towards zero, to the nearest end of the type's range; zero for NaN.
Number truncated(DType t, Number v);
// The dtype that the attribute `type` names.
DType typeOf(const OpCall &call);

} // namespace isthmus::definitions
