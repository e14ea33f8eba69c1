// Makes a new instance of an evicted storage just before a step that reads it: by the storage's own
// task, by another form of it, or by a prefetch. Before that, it makes every operand that is not
// live.
#pragma once

#include "passes/plan/search/search_state.h"

namespace isthmus::plan {

// How a storage is rematerialized.
struct Method {
  TaskId task; // its own, or an alternative
  // Of a prefetch: its transfers use only room within the budget, and stalls are accepted.
  // Otherwise they use as much room as it takes to hide them.
  bool isTight = false;
};

struct EvictOptions {
  // The method for the evicted storage itself, by number; or the one that seems best.
  static constexpr uint32_t kBestMethod = ~0u;
  uint32_t method = kBestMethod;
  double costLimit = 1e300;    // of the whole schedule
  bool isGreedy = true;        // always the best guess, rather than a random choice
  bool extendOperands = false; // operands stay live; others made from them are evicted
};

class Rematerializer {
public:
  explicit Rematerializer(SearchState &state)
      : state_(state), g_(state.graph()), s_(state.schedule()), edits_(state.edits) {}

  // Begins an eviction: the limits of one eviction count the edits from here on.
  void begin() { logSizeBefore_ = edits_.size(); }
  // False if it is impossible within the limits; the caller then undoes the edits made until then.
  bool rematerialize(StorageId s, StepId before, const EvictOptions &o) {
    return rematerialize(s, before, o, 0);
  }
  // Operands whose lives were extended since `extended` was last cleared.
  std::vector<StorageId> extended;
  // Whether exactly one step was inserted, and nothing else edited, since `begin`.
  bool wasOneStep() const { return edits_.size() == logSizeBefore_ + 1 && extended.empty(); }

  // A prefetch counts as two methods, tight and not.
  uint32_t numMethods(StorageId s) const;
  uint32_t randomMethod(StorageId s); // kBestMethod if there is no choice

  // Replaces a reader of `s` by another form that does not read `s`, if that seems cheaper than to
  // rematerialize `s`; false if there is no such form, or the exchange fails.
  bool exchangeReader(StepId reader, StorageId s, const EvictOptions &o);

  // Whether another form may take the step's place.
  bool mayExchange(StepId r) const;

  // Whether older instances can serve the step's readers.
  bool isRemovable(StepId r) const;

private:
  Method method(StorageId s, uint32_t k) const;
  Method choose(StorageId s, StepId before, const EvictOptions &o);
  double guessCost(const Method &m, StepId before) const;
  bool rematerialize(StorageId s, StepId before, const EvictOptions &o, int depth);
  bool recompute(TaskId t, StepId before, const EvictOptions &o, int depth);
  bool exchange(StepId r, TaskId form, const EvictOptions &o);
  StepId insertAtLastUse(TaskId t, StepId before);
  double helpersCost(TaskId form, StepId before) const;
  double costInstead(StorageId s, StepId reader, const EvictOptions &o);
  bool provideAll(const StorageGraph::Reads &reads, StepId before, const EvictOptions &o,
                  int depth);
  bool provideOperand(StorageId s, StepId before, const EvictOptions &o, int depth);
  bool makeHelper(StorageId s, StepId before, const EvictOptions &o, int depth);
  bool prefetch(const Method &m, StepId before, const EvictOptions &o);
  StepId startEarlier(StepId fetch, StepId after, const Method &m, double costBefore);
  StepId offload(TaskId t, StepId before, bool isTight);
  StepId waitLater(StepId r, StepId before, bool isTight, double costBefore);
  StepId lastUseBefore(StorageId s, StepId before) const;

  SearchState &state_;
  const StorageGraph &g_;
  const EditableSchedule &s_;
  EditLog &edits_;
  size_t logSizeBefore_ = 0;
};

} // namespace isthmus::plan
