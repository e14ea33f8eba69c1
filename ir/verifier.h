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

// All violations of `g`, in the order of its nodes. The rules:
//   - names are unique and not empty; operands and `after` nodes come before the node; types are
//     what the rows infer, and attributes what the rows take;
//   - a clone's origin is an earlier node of the same op, attributes and result types, and no clone
//     itself;
//   - a stand-in restores an earlier value, which no clone or stand-in made, and has its type, in
//     either memory; or it encodes that value, or other stand-ins alone read it;
//   - a result that comes with a token is read only by waits for that token, at least one node
//     waits for it, and each wait holds the operands of the node that made the token;
//   - the loss and the outputs exist and lie in device memory, and no output is listed twice;
//   - marks and devices have only characters that the text form can write.
std::vector<Violation> violationsOf(const Graph &g, VerifyOptions options = {});

// The violations as an error, with one diagnostic each.
llvm::Error verify(const Graph &g);

} // namespace isthmus
