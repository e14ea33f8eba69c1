// Random training graphs over every row of the op table, the same for the same options.
//
// A row's examples are templates: each operand type, unchanged or varied, is made from any value of
// the graph. A float value is cut or repeated to the number of elements, reshaped, and squashed
// smoothly into the row's interval, so that every row composes with every other and all values stay
// finite; integers are drawn or computed below the row's bound.
#pragma once

#include "tools/random/random_graph.h"
#include <map>
#include <string>

namespace isthmus {

struct RandomTableOptions {
  uint64_t seed = 0;
  unsigned steps = 10;       // a step inserts one call of a row, and the ops that make its operands
  DType dtype = DType::F64;  // F32 or F64
  bool mixed = false;        // also calls with results in other float types
  bool cuts = false;         // also rows that stop gradients
  bool marks = true;         // some nodes are marked #checkpoint
  bool oddNames = true;      // some names need quotes
  bool updates = true;       // state, renewed by nodes of phase update
  bool empty = true;         // also tensors of no elements
  int64_t mostElements = 96; // of any value, examples of rows apart
};

struct RandomTableGraph {
  Graph graph;
  std::map<std::string, size_t> calls; // by row, without those inside adapters
};

// A forward graph. Its loss is the sum of means over most values that nothing else reads; the other
// values without readers are outputs, or dead.
RandomTableGraph randomTableGraph(const RandomTableOptions &options);

// The options for each seed in tests of many graphs: sizes and features vary; most graphs are f64,
// in which differences are meaningful.
RandomTableOptions tableOptions(uint64_t seed);

} // namespace isthmus
