// The rules of legal graphs.
#pragma once

#include "ir/graph.h"

namespace isthmus {

struct Violation {
  NodeId node; // none if the violation is in no single node
  std::string message;
  std::optional<size_t> output; // the index of the output that it is in, if any
};

struct VerifyOptions {
  bool inferTypes = true; // also run every shape rule again
};

// All violations of `g`, in the order of its nodes. The rules:
//   - names are unique and not empty; operands and `after` nodes come before the node; types are
//     what the rows infer, and attributes what the rows take;
//   - a clone's origin is an earlier node of the same op, attributes and result types, and no clone
//     itself;
//   - a stand-in restores an earlier value, which no clone or stand-in made;
//   - what clones and stand-ins are said to stand for agrees with what they compute, and the source
//     order with the operands (provenance.h);
//   - a result that comes with a token is read only by waits for that token, at least one node
//     waits for it, and each wait holds the operands of the node that made the token;
//   - the loss and the outputs exist and lie in device memory, and no output is listed twice; the
//     value that a role names has the output's type, and no two outputs have the same role;
//   - marks and devices have only characters that the text form can write.
std::vector<Violation> violationsOf(const Graph &g, VerifyOptions options = {});

// The violations as an error, with one diagnostic each.
llvm::Error verify(const Graph &g);

} // namespace isthmus
