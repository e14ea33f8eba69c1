// Whether processes that run one step together mean the same step, and hold the same for it.
#pragma once

#include "ir/graph.h"
#include "ir/tensor.h"
#include "runtime/process_group.h"

namespace isthmus {

// Collective. An error, in all processes, if one of them compiled another graph than `g`, or for
// another target; it names the processes and what differs.
llvm::Error checkAllCompiled(const Graph &g, llvm::StringRef target, ProcessGroup &group);

// Collective. An error, in all processes, if two of them hold other bytes for an input of `g`, or
// run with another `seed`; it names the input, the processes, and what each was given. `inputs` are
// in the graph's order; those that are null are not held here. `sources` say where each one is
// from, for the message: "drawn with --seed=1". Their bytes are hashed, at the speed of memory. No
// error where graphs have other inputs: checkAllCompiled finds that.
llvm::Error checkAllHold(const Graph &g, llvm::ArrayRef<Tensor> inputs,
                         llvm::ArrayRef<std::string> sources, uint64_t seed, ProcessGroup &group);

// A fact about a run that all of its processes must share.
struct NamedFact {
  std::string name;
  std::string value;     // a number, a word, or the digest of contents
  std::string from = {}; // for messages: the file of these contents
};

// Collective. An error, in all processes, if they have other facts; it names the first that
// differs. `what` says what they are facts of: "data or options".
llvm::Error checkAllHave(llvm::ArrayRef<NamedFact> facts, llvm::StringRef what,
                         ProcessGroup &group);

} // namespace isthmus
