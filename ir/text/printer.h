// A graph in the text form: docs/language.md is the law. Parsing what was printed gives an equal
// graph, and printing that gives the same bytes.
#pragma once

#include "ir/graph.h"
#include "llvm/Support/raw_ostream.h"

namespace isthmus {

// Where data of inputs lies other than the graph says: `keys` has one entry for each input, empty
// for data that is printed inline.
struct WeightPlaces {
  std::string file, digest;
  std::vector<std::string> keys;
};

void printGraph(const Graph &g, llvm::raw_ostream &os, const WeightPlaces *places = nullptr);
std::string graphText(const Graph &g);

// One node as on its line, without indentation and newline.
std::string nodeText(const Graph &g, NodeId n);

} // namespace isthmus
