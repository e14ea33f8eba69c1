// Reductions of the losses that take labels.
#pragma once

#include "ir/attr.h"

namespace isthmus::element {

enum class Reduction { Mean, Sum, None };

inline Reduction reductionOf(const Attrs &attrs) {
  const std::string &r = attrs.getString("reduction");
  return r == "mean" ? Reduction::Mean : r == "sum" ? Reduction::Sum : Reduction::None;
}

} // namespace isthmus::element
