// The contents of a graph input that is not fed.
#pragma once

#include "ir/attr.h"
#include "ir/op_def.h"
#include "ir/tensor.h"

namespace isthmus {

struct Initializer {
  enum class Kind : uint8_t {
    None,    // drawn from the run's seed and the name
    Fill,    // {value}
    Normal,  // {mean, std, seed}
    Uniform, // {low, high, seed}
    Data     // `data`; in the text inline, or under `key` in the weights file
  };
  Kind kind = Kind::None;
  Attrs args;
  Tensor data;     // for Data; empty if the text was read without its weights file
  std::string key; // in the weights file; empty for inline data
};

// "fill", "normal", "uniform", "data", or "" for None.
llvm::StringRef initializerName(Initializer::Kind k);
// The arguments of a kind, in the form of the op table's attributes. Never destroyed.
llvm::ArrayRef<AttrDef> initializerArgs(Initializer::Kind k);

// Fills in missing arguments. An error if the arguments, or the data's type, do not suit an input
// of `type`.
llvm::Error completeInitializer(Initializer &init, const Type &type);

} // namespace isthmus
