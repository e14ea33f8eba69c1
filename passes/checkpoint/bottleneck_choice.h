// Which bottlenecks the policy `memory` keeps, and why it leaves out the others.
#pragma once

#include "ir/graph.h"

namespace isthmus {

struct BottleneckChoice {
  enum class Decision : uint8_t {
    Taken,
    NotForward,  // not made by a node of the forward phase
    Small,       // fewer elements than the limit
    KindOfOp,    // a loss, a norm, dropout, a cast (kNotACheckpoint)
    SameStorage, // a view of a bottleneck before it
    NotRead,     // the backward pass does not read it, and it reads enough others
    InSegment,   // inside a segment: only every `step`-th bottleneck is taken
  };
  struct Candidate {
    ValueId value;
    Decision decision;
  };
  std::vector<Candidate> candidates; // all bottlenecks, in order
  double target = 0;                 // approximate number to take: sqrt(numRead)
  size_t numRead = 0;                // large forward tensors that the backward pass reads
  size_t step = 1;                   // every `step`-th remaining candidate is taken
  bool isEnough = false;             // there are at least `target`, and they divide the network

  std::vector<ValueId> taken() const;
};

// The limit of the original.
constexpr int64_t kSmallestCheckpoint = 1024; // elements

// The rules of the original: candidates are the bottlenecks among the tensors that the backward
// pass reads or, if these are fewer than sqrt(N), all bottlenecks. Of the candidates every k-th is
// taken, so that about sqrt(N) are. `roots`: storageRoots of the graph. `smallest`: the number of
// elements that a checkpoint has at least.
BottleneckChoice chooseBottlenecks(const Graph &g, llvm::ArrayRef<ValueId> roots,
                                   int64_t smallest = kSmallestCheckpoint);

} // namespace isthmus
