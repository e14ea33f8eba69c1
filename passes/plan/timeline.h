// An editable schedule: which op runs when, and the bytes that are live at every run, exact after
// every edit. A run may be put in or taken out anywhere; what reads what, and how long every copy
// of a storage lives, follows from the order alone: a read binds to the newest copy, and a copy
// lives from its run to its last read.
//
// An edit costs O(log n) and the reads of the op. Positions are chunks of a few dozen runs, with a
// tree of maxima above them.
#pragma once

#include "passes/plan/storage_graph.h"

namespace isthmus::plan {

class Timeline {
public:
  using RunId = uint32_t;  // of one run of one op; its number is used again after it was removed
  using CopyId = uint32_t; // of one storage that one run makes
  static constexpr uint32_t kNone = ~0u;

  explicit Timeline(const StorageGraph &g);
  // Runs in another order, or with repeats; any schedule that is valid.
  void assign(const std::vector<uint32_t> &ops);

  // `before` runs just after the new run; every storage that `op` reads has a copy there.
  RunId insert(uint32_t op, RunId before);
  // What it makes is read nowhere, or there is an older copy.
  void remove(RunId run);

  int64_t peak() const { return max_[1]; }
  RunId peakRun() const; // the first at the peak
  // Sum over stretches of the schedule, some hundreds, of what the highest run of each has beyond
  // the budget.
  int64_t excessOver(int64_t budget) { return excessOver(budget, 1, 0); }
  // With what is spent on waiting for copies to the host and back. `runCost` is without.
  double cost() const { return copyRuns_.empty() ? cost_ : cost_ + stalls(); }
  double runCost() const { return cost_; }
  // What the runs after `from` and before `to` cost.
  double costBetween(RunId from, RunId to) const;
  std::vector<uint32_t> ops() const; // in order

  // --- Runs
  uint32_t opOf(RunId r) const { return runs_[r].op; }
  uint32_t position(RunId r) const { return runs_[r].position; } // for comparisons
  RunId end() const { return end_; } // after all others; reads all that lives to the end
  RunId first() const;               // of all
  RunId next(RunId r) const;
  RunId previous(RunId r) const; // kNone at the first
  bool isFirst(RunId r) const;   // of its op
  int64_t liveAt(RunId r) const;
  // The most live bytes after `from` and before `to`; 0 if there is nothing between.
  int64_t maxBetween(RunId from, RunId to) const;

  // --- Copies
  CopyId made(RunId r, uint32_t output) const { return runs_[r].firstMade + output; }
  CopyId readCopy(RunId r, uint32_t input) const { return readCopies_[runs_[r].firstRead + input]; }
  RunId maker(CopyId c) const { return copies_[c].maker; }
  uint32_t storageOf(CopyId c) const { return copies_[c].storage; }
  const std::vector<RunId> &readers(CopyId c) const { return copies_[c].readers; } // in order
  // How many of its readers come before the position.
  uint32_t readerFrom(CopyId c, uint32_t position) const;
  // The last run at which it is there: its last reader, or its maker.
  RunId lastUse(CopyId c) const {
    return copies_[c].readers.empty() ? copies_[c].maker : copies_[c].readers.back();
  }
  const std::vector<CopyId> &copies(uint32_t storage) const {
    return ofStorage_[storage];
  }                                                     // in order
  CopyId newestBefore(uint32_t storage, RunId r) const; // kNone if there is none
  CopyId oldestAfter(uint32_t storage, RunId r) const;  // not `r`'s own
  bool isUnread(RunId r) const;                         // all that it makes

  // Counts elementary steps, for limits that are the same on every machine.
  mutable uint64_t work = 0;

private:
  static constexpr uint32_t kChunk = 32, kFill = 16;
  static constexpr uint32_t kMostStretches = 512; // a power of two, as the tree's levels
  struct Run {
    uint32_t op = kNone, position = kNone;
    uint32_t firstRead = 0, firstMade = 0;
    int64_t extra = 0; // workspace less what results share with operands
  };
  struct Copy {
    uint32_t storage = kNone;
    RunId maker = kNone;
    std::vector<RunId> readers;
  };

  static uint64_t editWork(const StorageGraph::Op &o);
  RunId newRun(uint32_t op);
  void place(RunId r, uint32_t at);
  void displace(RunId r);
  void makeRoom(uint32_t chunk);
  void spread(const std::vector<RunId> &order, const std::vector<int64_t> &live);
  void add(uint32_t from, uint32_t to, int64_t bytes); // positions, both included
  void refreshChunk(uint32_t chunk);
  void pull(uint32_t node);
  int64_t above(uint32_t chunk) const;
  int64_t excessOver(int64_t budget, uint32_t node, int64_t above);
  int64_t excessInChunk(uint32_t chunk, int64_t budget);
  int64_t sharedAt(RunId r) const;
  void refreshExtra(RunId r);
  void refreshTouched();
  int64_t bytes(uint32_t storage) const { return g_.storages[storage].bytes; }
  double stalls() const;
  void noteCopyRun(RunId r, bool isPlaced);
  double opCost(RunId r) const { return op(runs_[r].op).cost; }
  size_t rankOf(uint32_t storage, uint32_t position) const;

  const StorageGraph &g_;
  StorageGraph::Op endOp_;
  const StorageGraph::Op &op(uint32_t i) const { return i < g_.ops.size() ? g_.ops[i] : endOp_; }

  std::vector<Run> runs_;
  std::vector<CopyId> readCopies_;
  std::vector<Copy> copies_;
  std::vector<std::vector<CopyId>> ofStorage_;
  std::vector<std::vector<RunId>> free_; // by op
  RunId end_ = kNone;
  size_t numRuns_ = 0;
  double cost_ = 0;
  bool hasReuse_ = false;
  std::vector<RunId> copyRuns_; // to the host and back
  struct BusEvent {
    enum Kind : uint8_t { WaitBack, StartOut, Run, StartOutAfter } kind;
    uint32_t position;
    uint32_t order; // among those of the same kind at one position
    RunId run;
  };
  mutable std::vector<BusEvent> events_;
  mutable std::vector<double> completion_; // by run
  mutable double stalls_ = 0;
  mutable bool areStallsKnown_ = false;
  mutable std::vector<uint32_t> takenReads_, takenMade_;
  std::vector<RunId> touched_; // by the present edit: where another copy dies now

  std::vector<RunId> scratchOrder_;
  std::vector<int64_t> scratchLive_;
  uint32_t numChunks_ = 0, leaves_ = 1;
  std::vector<RunId> at_;     // by position
  std::vector<int64_t> live_; // by position, without what the tree adds
  std::vector<uint32_t> size_;
  std::vector<double> costIn_;     // by chunk, where there are copies
  std::vector<int64_t> max_, add_; // a tree of maxima; node 1 is the root
};

} // namespace isthmus::plan
