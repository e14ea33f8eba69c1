// Parses the text form into a graph. docs/language.md defines the language.
#pragma once

#include "ir/graph.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

// Finds the tensor `key` of the weights file that the text names. The file must have the digest
// that the text gives.
using WeightLookup = llvm::function_ref<llvm::Expected<Tensor>(
    llvm::StringRef file, llvm::StringRef digest, llvm::StringRef key)>;

// Errors are located and quote the line; several are reported at a time. Without `lookup`, data in
// a weights file is left empty: enough for printing and for passes that do not run the graph. Takes
// memory and time in proportion to the text, whatever sizes it declares.
llvm::Expected<Graph> parseGraph(llvm::StringRef text, llvm::StringRef fileName,
                                 WeightLookup lookup = nullptr);

// One use of an op without a graph, as the op table's examples have it: "sum(f64[2, 3]) {axes =
// [0]}".
struct CallText {
  const OpDef *op = nullptr;
  std::vector<Type> operands;
  Attrs attrs; // with the defaults filled in
};
llvm::Expected<CallText> parseCall(llvm::StringRef text);

// Parses the initializer of an input: "normal {std = 0.1}". Data is an error.
llvm::Expected<Initializer> parseInitializer(llvm::StringRef text);

// "{policy = memory}"
llvm::Expected<GraphRecord> parseRecord(llvm::StringRef text);

llvm::Expected<Type> parseType(llvm::StringRef text);

} // namespace isthmus
