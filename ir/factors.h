// Which axes of an op's operands and results belong together: how a call may be cut into chunks.
//
// The notation is that of einsum, and of the sharding rules of OpenXLA's Shardy: each axis of each
// operand and result names a factor. A matrix product is `[m, k] [k, n] -> [m, n]`. A factor that a
// result has is cut in operands and in that result. A result without a factor of the operands is a
// sum over it: chunks give partial results, which are added; unless it is repeated, which means
// that each chunk gives all of it. An axis without a factor is whole.
#pragma once

#include "ir/op_def.h"

namespace isthmus {

struct Factors {
  static constexpr uint32_t kWhole = ~0u;

  // An axis has `block` elements for each unit of its factor, and is only cut between them. Or it
  // has an element for each of some parts (parts.h) of the factor, which it does not divide evenly:
  // chunks are then these parts.
  struct Axis {
    uint32_t factor = kWhole;
    int64_t block = 1;
    bool isOfParts = false;
  };
  using Axes = llvm::SmallVector<Axis, 4>;
  llvm::SmallVector<Axes, 4> operands;
  llvm::SmallVector<Axes, 2> results;
  llvm::SmallVector<uint32_t, 2> repeated; // results that are no sums over a factor that they lack
  // Factors along which chunks have other bits than the whole, because they are summed in another
  // order.
  llvm::SmallVector<uint32_t, 2> rounding;

  bool isRepeated(uint32_t result) const;
  bool isCut(const Axes &axes, uint32_t factor) const { return axisOf(axes, factor).has_value(); }
  // The axis that has the factor; no two axes of a tensor have one.
  static std::optional<size_t> axisOf(const Axes &axes, uint32_t factor);
  uint32_t numFactors() const;
  static std::string name(uint32_t factor) { return std::string(1, char('a' + factor % 26)); }
  std::string str() const; // "[a, b] [b, c] -> [a, c]"; whole axes are dots, "=[a]" is repeated,
                           // "a*6" has a block, "a/" is of parts
};

// The factors of a call; those of rows without the cell follow from their traits. Axes of size one
// have none: nothing is cut there.
Factors factorsOf(const OpCall &call);

// The number of elements from one index of an axis to the next.
int64_t strideOf(const Dims &dims, size_t axis);

// --- For the rows' cells

// No axis has a factor.
Factors wholeFactors(const OpCall &call);
// Operands and results broadcast to the dims of result 0 by numpy's rule.
Factors broadcastFactors(const OpCall &call);
// The first `count` axes of these operands and results, which all have them.
Factors leadingFactors(const OpCall &call, size_t count, llvm::ArrayRef<size_t> operands,
                       llvm::ArrayRef<size_t> results);
// All axes but those in `whole`; operands and results have one order of axes.
Factors allButFactors(const OpCall &call, llvm::ArrayRef<int64_t> whole);
// All axes but that of the attribute `axis`, likewise.
Factors offAxisFactors(const OpCall &call);

} // namespace isthmus
