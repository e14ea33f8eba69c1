// Makes a new instance of an evicted storage just before a step that reads it, and first of
// whatever that takes: by the storage's own task, by another form of it, or by a prefetch.
#pragma once

#include "passes/plan/search_state.h"

namespace isthmus::plan {

// How a storage is rematerialized.
struct Method {
  TaskId task; // its own, or an alternative
  // Of a prefetch: transfers take no more room than there is, and stalls are accepted. Otherwise
  // they take as much room as it takes to hide them.
  bool isTight = false;
};

struct EvictOptions {
  // The method of the evicted storage itself, by number; or the one that seems best.
  static constexpr uint32_t kBestMethod = ~0u;
  uint32_t method = kBestMethod;
  double costLimit = 1e300;    // of the whole schedule
  bool isGreedy = true;        // the best guess each time, rather than a random choice
  bool extendOperands = false; // operands live on, and all else that can be made of them is evicted
};

class Rematerializer {
public:
  explicit Rematerializer(SearchState &state)
      : state_(state), g_(state.graph()), s_(state.schedule()), edits_(state.edits) {}

  // Begins one eviction: the edits from here on count together.
  void begin() { logSizeBefore_ = edits_.size(); }
  // False if it cannot be done within the limits; the edits until then are to be undone.
  bool rematerialize(StorageId s, StepId before, const EvictOptions &o) {
    return rematerialize(s, before, o, 0);
  }
  // Operands that live on since `extended` was last cleared.
  std::vector<StorageId> extended;
  // Whether nothing but one step was inserted since `begin`.
  bool wasOneStep() const { return edits_.size() == logSizeBefore_ + 1 && extended.empty(); }

  // A prefetch is two methods, tight and not.
  uint32_t numMethods(StorageId s) const;
  uint32_t randomMethod(StorageId s); // kBestMethod where there is no choice

  // Puts another form of a step in its place, one that does not read `s`, if that seems better than
  // to make `s` again before it; false if there is none, or it cannot be done.
  bool exchangeReader(StepId reader, StorageId s, const EvictOptions &o);

  // Whether another form may stand in the step's place.
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
  bool provideAll(const std::vector<StorageId> &reads, StepId before, const EvictOptions &o,
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
