// What a graph input holds when nothing is fed.
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
  Tensor data;     // of Data; empty where a text was read without its weights file
  std::string key; // in the weights file; empty for inline data
};

// "fill", "normal", "uniform", "data", or "" for None.
llvm::StringRef initializerName(Initializer::Kind k);
// The arguments of a kind, as the op table lists attributes. Lives for ever.
llvm::ArrayRef<AttrDef> initializerArgs(Initializer::Kind k);

// Fills in missing arguments. An error if they, or the data's type, do not suit an input of `type`.
llvm::Error completeInitializer(Initializer &init, const Type &type);

} // namespace isthmus
