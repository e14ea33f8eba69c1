// The programs of a graph whose nodes run on several devices: one graph a device, which its session
// runs beside the others.
#pragma once

#include "ir/place.h"

namespace isthmus {

struct Program {
  std::string device;
  Graph graph; // the device's nodes, in order, with the names that they have in the whole
  // By index of its inputs and outputs: that of the whole graph's.
  std::vector<uint32_t> inputs, outputs;
};

// `g` has a message wherever a node reads what another device made (messages.h). A receive loses
// the token of its send, which is in another program. Provenance is left out: what a node stands
// for is in the whole graph. An output that is a graph input itself is in the program of its first
// reader.
std::vector<Program> programsOf(const Graph &g);

} // namespace isthmus
