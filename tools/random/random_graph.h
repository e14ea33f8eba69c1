// Random training graphs, the same for the same options: for round trips, and for running before
// and after a pass.
//
// All values and gradients stay finite for inputs drawn from [-6, 6] or a standard normal
// distribution: the generator tracks a bound of each value's magnitude and squashes operands whose
// result would exceed the limit.
#pragma once

#include "ir/graph.h"
#include "ir/splitmix64.h"

namespace isthmus {

struct RandomGraphOptions {
  uint64_t seed = 0;
  unsigned steps = 20;       // a step makes one to four nodes
  DType dtype = DType::F64;  // F32 or F64
  bool random = true;        // dropout, uniform, normal
  bool updates = true;       // batch norm with running averages, made by nodes of phase update
  bool marks = true;         // some nodes are marked #checkpoint
  bool oddNames = true;      // some names need quotes
  int64_t mostElements = 48; // of any value
};

// A forward graph with inputs, shared parameters, fan-out, skips, views, ops of several results,
// and dead nodes. `loss` is a scalar mean and the first output; it depends on some of the nodes.
Graph randomGraph(const RandomGraphOptions &options);

class Random {
public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() { return nextSplitMix64(state_); }
  size_t below(size_t n) { return next() % n; }
  bool oneIn(size_t n) { return below(n) == 0; }
  template <typename List> const auto &of(const List &l) { return l[below(std::size(l))]; }

private:
  uint64_t state_;
};

} // namespace isthmus
