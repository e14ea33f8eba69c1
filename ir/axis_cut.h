// How a cut of one value of a call cuts its other values: a call in chunks, along one of the axes
// of its values or along a part of such an axis.
//
// What is one axis of a value may be several of another: where a reshape merges [T, B] to [T * B],
// the batch is the inner part of the merged axis. So a cut names an axis and an outer part of it.
// How a row's axes belong together is its factors (factors.h); rows that divide axes otherwise have
// a cell of their own (OpDef::cuts).
#pragma once

#include "ir/op_def.h"

namespace isthmus {

struct Factors;

// A cut along `axis`, an axis of [outer, inner] elements, in the inner ones: chunk k is a share of
// each of the `outer` runs. One outer part is the whole axis.
struct AxisCut {
  uint32_t axis = 0;
  int64_t outer = 1;

  int64_t innerOf(const Type &t) const { return t.dims[axis] / outer; }
  bool operator==(const AxisCut &o) const { return axis == o.axis && outer == o.outer; }
  bool operator!=(const AxisCut &o) const { return !(*this == o); }
};

// A value of a call: operand or result `index`.
struct CallPlace {
  enum Kind : uint8_t { Operand, Result };
  Kind kind = Operand;
  size_t index = 0;
};

// How all values of a call are cut.
struct CallCuts {
  struct Of {
    AxisCut cut;
    int64_t places = 0; // the equal shares of `cut` in which it may be cut
    // The axis has an element for each of some parts (parts.h) of what is cut: chunks are then
    // these parts.
    bool isOfParts = false;
  };
  llvm::SmallVector<std::optional<Of>, 4> operands; // none: read whole
  llvm::SmallVector<std::optional<Of>, 2> results;  // none: a sum over the chunks, or repeated
  llvm::SmallVector<uint32_t, 2> repeated;          // results of which each chunk gives all
  // Whether chunks in their order give the bits of the whole, if a sum goes on from the chunks
  // before (OpDef::accumulation).
  bool keepsBits = true;

  const Of *at(CallPlace p) const; // null: not cut
  bool isRepeated(uint32_t result) const;
  bool isSum(uint32_t result) const { return !results[result] && !isRepeated(result); }
};

// None if the call cannot be cut where the value at `from` is.
std::optional<CallCuts> cutsOf(const OpCall &call, CallPlace from, AxisCut cut);

// The same of a call whose cuts follow from these factors, wherever its chunks lie: its op is not
// asked.
std::optional<CallCuts> cutsOf(const OpCall &call, const Factors &factors, CallPlace from,
                               AxisCut cut);

// The attributes for a chunk of result 0: of a cut, the elements from `begin` on, `size` of them in
// each outer part.
Attrs attrsOfChunk(const OpCall &call, AxisCut cut, int64_t begin, int64_t size);

// Where a chunk with these attributes begins in a cut along an axis of result 0, if an attribute
// tells; `call` is the whole.
std::optional<int64_t> beginOfChunk(const OpCall &call, uint32_t axis, const Attrs &chunk);

// The dims of a value whose cut axis is two, [outer, inner]: there a chunk is a part of the second.
Dims splitDims(const Type &t, AxisCut cut);

// --- For the rows' cells (OpDef::cuts)

// One operand and one result hold the same elements in the same order.
std::optional<CallCuts> cutsOfReshape(const OpCall &call, CallPlace from, AxisCut cut);

} // namespace isthmus
