// The graph over which a region grows that may run chunk by chunk, and the growth.
//
// It knows no more of ops than how each may be cut, so that one growth serves the graphs of the IR
// (region.h) and those of other frameworks, which fill it in (tools/c/chunks.cc).
#pragma once

#include "ir/axis_cut.h"
#include "llvm/ADT/DenseMap.h"
#include <functional>
#include <optional>

namespace isthmus {

// Ops in an order in which they may run, and their values. Both are named by their numbers.
struct RegionGraph {
  static constexpr uint32_t kNone = ~0u;

  struct Value {
    uint32_t def = kNone;                   // the op that makes it; none: an input
    llvm::SmallVector<uint32_t, 2> readers; // ops in order, each once
    Dims dims;
    int64_t bytes = 0;
    bool isFloat = false; // sums of it can be added up
    bool isKept = false;  // it has to exist whole: an output
    // It is known after the forward only: the gradient of an output, or what follows from it. A
    // region that reads none of these but numbers can run its forward and its backward together.
    bool isLate = false;
  };

  struct Op {
    llvm::SmallVector<uint32_t, 4> operands; // values
    llvm::SmallVector<uint32_t, 2> results;
    bool mayBeCut = true;   // its result does not depend on how often it runs, nor on when
    bool isAddition = false; // of two values, which have the result's type
    bool goesOn = false;     // chunks of its sums can go on from the sum of the chunks before
    uint32_t device = 0;
  };

  std::vector<Value> values;
  std::vector<Op> ops;
  // How an op is cut where one of its values is; none if it cannot be.
  std::function<std::optional<CallCuts>(uint32_t op, CallPlace, AxisCut)> cutsOf;

  uint32_t addOp(Op op); // after the ops that it reads; its values are there already
};

// The cuts of value `v` from which a region may grow: along each of its axes, and within the parts of
// one that are an axis of an operand or a result of an op that makes or reads it.
std::vector<AxisCut> cutsToGrowFrom(const RegionGraph &g, uint32_t v);

struct RegionOptions {
  // Values of this share of the first one's bytes, or more, do not exist whole if they need not.
  double leastShare = 1.0 / 8;
  // A sum that would be rounded in parts stays outside if what it sums is smaller; bytes.
  int64_t leastSummed = 0;
  size_t mostOps = 4096;
  // The number of chunks, if it does not divide the units and a factor of parts may be cut: then
  // values of that many elements along the axis have one for each chunk.
  int64_t unevenParts = 0;
};

// What has grown from a value.
struct GrownRegion {
  bool isWhole = true; // the value has to exist whole; the rest is then how far the region grew
  std::vector<uint32_t> ops; // in order
  // How each value is cut that the ops read or make in chunks. Values that they read and that are
  // not here are read whole; results that are not here are sums over the chunks.
  llvm::DenseMap<uint32_t, AxisCut> cuts;
  int64_t units = 0; // the equal shares of all of these cuts; a chunk is some of them
  // Values with an element along their axis for each chunk, such as the statistics of uneven parts
  // of a batch (CallCuts::Of::isOfParts). If there are any, there is one number of chunks.
  llvm::SmallVector<uint32_t, 0> perChunk;
  std::vector<int64_t> parted; // the lengths of the axes that they divide: chunks are these parts
  // Sums over the chunks that are only read to be added to others of them: all are added up in one
  // total, as the gradients of a weight that several ops read. By such a sum, and by the ops that
  // add them, which are of the region, the last of these ops' result.
  llvm::DenseMap<uint32_t, uint32_t> totals;
  std::vector<uint32_t> stops; // ops that could not be cut, at which the region ends; each once
};

// The region that grows from value `v`, a result of an op, cut like this.
GrownRegion grownRegion(const RegionGraph &g, uint32_t v, AxisCut cut, const RegionOptions &o = {});

} // namespace isthmus
