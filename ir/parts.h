// Parts of a number of elements that are as equal as can be.
#pragma once

#include <cstdint>

namespace isthmus {

// Where part k of `parts` begins among n elements, from 1 to n parts; k = parts gives n. Ten
// elements in four parts are 2, 3, 2 and 3.
inline int64_t beginOfPart(int64_t n, int64_t parts, int64_t k) { return n * k / parts; }

// The number of parts that begin before element `at`.
inline int64_t partsBefore(int64_t n, int64_t parts, int64_t at) {
  return n == 0 ? 0 : (at * parts + n - 1) / n;
}

} // namespace isthmus
