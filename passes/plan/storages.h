// Who makes and who reads which storage: what the search and the bounds build on. Views are merged
// into the storages that they refer to, what is always there and what nothing needs is left out,
// sizes are rounded. Standard library only.
#pragma once

#include "passes/plan/problem.h"

namespace isthmus::plan {

// The ops that the outputs need, forward outputs included, by what they read.
std::vector<char> neededOps(const Problem &p);

struct Storages {
  struct Storage {
    int64_t bytes = 0;
    uint32_t maker = 0;    // the op here that makes it
    bool lives = false;    // to the end
    bool isPinned = false; // a view of it may not run again, so that there is no other copy
  };

  // Numbered anew, in source order; optional ones, if any, after all others.
  struct Op {
    OpIndex source = 0; // of Problem::ops
    double cost = 0;
    int64_t workspace = 0;
    bool mayRepeat = true;
    bool isBackward = false;
    std::vector<uint32_t> reads; // storages, each once
    uint32_t firstMade = 0, numMade = 0;
    struct Donation {
      uint32_t made, read; // storages
    };
    std::vector<Donation> donations; // `made` is no larger than `read`

    // A copy to the host stands where its wait does, and makes a storage of 0 bytes, which is what
    // is on the host; one back stands where its start does. `source` is that end.
    enum class Bus : uint8_t { None, ToHost, ToDevice };
    Bus bus = Bus::None;
    double transferTime = 0;
    OpIndex otherEnd = 0; // of Problem::ops
  };

  std::vector<Op> ops;
  std::vector<Storage> storages; // those of one op are neighbours

protected:
  // A view may read more than its base, and may be one that must not run again. Either a reader of
  // it needs only its base, and its base's maker may run again all the same; or a reader needs all
  // that the view read, and nothing that it read is made again.
  enum class Views : uint8_t { NeedBase, NeedAll };
  Storages(const Problem &p, Views views);

  static constexpr uint32_t kNone = ~0u;
  // Of a read: its storage; kNone for what is always there, or not needed.
  uint32_t storageOf(const Problem &p, const Read &r) const {
    return firstOf_[r.op] == kNone ? kNone : firstOf_[r.op] + (p.ops[r.op].isView() ? 0 : r.output);
  }
  // All that the op reads, each storage once.
  std::vector<uint32_t> readsOf(const Problem &p, const plan::Op &op) const;
  // Pairs of its outputs, the first of which is `firstMade`, and of what it reads.
  std::vector<Op::Donation> reuseOf(const Problem &p, const plan::Op &op, uint32_t firstMade) const;

  // The last time that `readsOf` met each storage, and how often it was called.
  mutable std::vector<uint32_t> metAt_;
  mutable uint32_t numCalls_ = 0;

  std::vector<char> needed_;                   // by Problem::ops
  std::vector<uint32_t> firstOf_;              // its first storage, or what its view refers to
  std::vector<std::vector<uint32_t>> touches_; // by view: what else reading it needs
};

} // namespace isthmus::plan
