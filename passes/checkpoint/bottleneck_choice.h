// Which bottlenecks the policy `memory` keeps, and why it leaves out the others.
#pragma once

#include "ir/graph.h"

namespace isthmus {

struct BottleneckChoice {
  enum class Fate : uint8_t {
    Taken,
    NotForward,  // not made by a node of the forward phase
    Small,       // fewer elements than the original policy asks for
    KindOfOp,    // a loss, a norm, dropout, a cast (kNotACheckpoint)
    SameStorage, // a view of a bottleneck before it
    NotRead,     // the backward pass does not read it, and enough are left that it reads
    InSegment,   // between two that are taken: every so many are
  };
  struct Candidate {
    ValueId value;
    Fate fate;
  };
  std::vector<Candidate> candidates; // all bottlenecks, in order
  double target = 0;                 // about how many to take: sqrt(tensors that are read)
  size_t numRead = 0;                // large forward tensors that the backward pass reads
  size_t step = 1;                   // every so many of those left are taken
  bool isEnough = false;             // as many as wanted, and they divide the network

  std::vector<ValueId> taken() const;
};

constexpr int64_t kSmallCheckpointElements = 1024;

// The rules of the original: bottlenecks among the tensors that the backward pass reads; if these
// are fewer than sqrt(N), among all; every so many of them, so that about sqrt(N) stay. `roots` as
// storageRoots gives them.
BottleneckChoice chooseBottlenecks(const Graph &g, llvm::ArrayRef<ValueId> roots);

} // namespace isthmus
