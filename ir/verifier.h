// The rules of legal graphs.
#pragma once

#include "ir/graph.h"

namespace isthmus {

struct Violation {
  NodeId node; // none if the violation is in no single node
  std::string message;
};

struct VerifyOptions {
  bool inferTypes = true; // also run every shape rule again
};

// All that is wrong with `g`, in the order of its nodes:
//   names are unique and not empty; operands and `after` nodes come before; types are what the rows
//   infer and attributes what they take; a clone's origin is an earlier node of the same op,
//   attributes and result types, and no clone itself; a boundary is a stop_gradient that stands for
//   an earlier value of its type, which no clone or boundary made; what comes with a token is
//   read by waits for that token alone, of which there is one or more and each holds what it is
//   made of; the loss and the outputs are there, in the device's memory, and no output is named
//   twice; marks and devices can be written.
std::vector<Violation> violationsOf(const Graph &g, VerifyOptions options = {});

// The same as an error with one diagnostic each.
llvm::Error verify(const Graph &g);

} // namespace isthmus
