// Prints a graph in the text form, which docs/language.md defines. Parsing the output gives an
// equal graph, and printing that graph gives the same bytes.
#pragma once

#include "ir/graph.h"
#include "llvm/Support/raw_ostream.h"

namespace isthmus {

// Where the data of inputs lies, in place of what the graph says: `keys` has one entry per input,
// empty for data that is printed inline.
struct WeightPlaces {
  std::string file, digest;
  std::vector<std::string> keys;
};

void printGraph(const Graph &g, llvm::raw_ostream &os, const WeightPlaces *places = nullptr);
std::string graphText(const Graph &g);

// The line of one node, without indentation and newline.
std::string nodeText(const Graph &g, NodeId n);

} // namespace isthmus
