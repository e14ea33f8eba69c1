// Example models, made in memory: `isthmus zoo NAME --depth=50`.
//
// A model is a forward graph. Its inputs are `x` (or `ids`), its first output is `y`; batch norm's
// new averages are outputs `state.NAME`. It has no loss, except for models that need one: vae, and
// flows, whose outputs are the loss `nll` (mean negative log-likelihood, nats an example), its
// parts `logdet` and `latent` (nll = latent - logdet), and `z`. Initializers draw the parameters
// with seeds that follow from their names, so that a model is the same on every machine.
#pragma once

#include "ir/graph.h"
#include <map>

namespace isthmus {

struct ZooOption {
  std::string name;      // "depth"
  std::string byDefault; // as the user would write it
  std::string doc;
};

struct ZooModel {
  std::string name;
  std::string doc; // one line
  std::vector<ZooOption> options;
};

// All models, in the order in which to list them.
llvm::ArrayRef<ZooModel> zooModels();

// Option names without dashes, and the user's values: {"depth", "50"}, {"shape", "3x224x224"}.
using ZooOptions = std::map<std::string, std::string>;

// Errors: no such model (exit 1); an option that the model does not have, a malformed number, or
// inconsistent sizes (exit 2).
llvm::Expected<Graph> buildZoo(llvm::StringRef name, const ZooOptions &options = {});

// The depths of a model, each giving a deeper network of the same family, from the least to `most`.
// Errors: those of buildZoo, and a model without a --depth.
llvm::Expected<std::vector<int64_t>> zooDepths(llvm::StringRef name, const ZooOptions &options,
                                               int64_t most);

// A model as text: a line, then its options with their defaults and meanings.
std::string zooText(const ZooModel &m);
// All of them.
std::string zooText();

} // namespace isthmus
