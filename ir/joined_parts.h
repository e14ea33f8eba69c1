// Values that hold elements of another one, such as slices, and how they rebuild it together.
//
// Slices, splits and gathers with constant indices make such parts; a slice of a slice holds
// elements of the first value. Where parts cover a value, it is rebuilt by joining them: the halves
// x[:, :3] and x[:, 3:] by one concat, x[:, 0::2] and x[:, 1::2] by a concat and a gather. All
// elements keep their bits.
#pragma once

#include "ir/builder.h"
#include "ir/value_facts.h"
#include <optional>

namespace isthmus {

// Which elements of a tensor another one holds: the indices on each axis, none for a whole axis. It
// holds the elements at all combinations of them, in row-major order; its own dims may be others.
using Places = llvm::SmallVector<std::optional<Ints>, 4>;

struct Part {
  ValueId value;
  Places places;   // of its elements in the whole
  ValueId indices; // the operand that lists the places on the only axis that is cut; null: none
};

// A value and its parts, in the order of the graph.
struct Whole {
  ValueId value;
  std::vector<Part> parts;
};

// The values that have from 2 to `most` parts, which forward nodes make that are no stand-ins.
std::vector<Whole> wholesOf(const Graph &g, const ValueFacts &facts, size_t most);

// The places of all elements.
Places allPlaces(const Type &type);

struct JoinedParts {
  ValueId value;                  // null: the parts do not cover the places
  std::vector<const Part *> used; // the parts that it is made of
};

// Emits nodes that gather the elements at `places` of the whole from `parts`, and gives them
// `dims`. Of parts that hold the same element the first one is used. `given(v)` is the value of `b`
// for a part or its indices. Null also if the order of the elements is too irregular to be written
// down.
JoinedParts joinedParts(Builder &b, const Type &whole, const Places &places, const Dims &dims,
                        llvm::ArrayRef<const Part *> parts,
                        llvm::function_ref<ValueId(ValueId)> given);

} // namespace isthmus
