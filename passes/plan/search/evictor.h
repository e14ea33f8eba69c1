// Evicts storages in idle intervals: the instance ends at the use before the interval, and a new
// one is made just before the use after it.
#pragma once

#include "passes/plan/search/rematerializer.h"

namespace isthmus::plan {

// The gap between two uses of an instance: its making or a read, and the next read.
struct IdleInterval {
  InstanceId instance;
  uint32_t reader = 0; // the read that ends it
  explicit operator bool() const { return bool(instance); }
};

class Evictor {
public:
  explicit Evictor(SearchState &state)
      : state_(state), g_(state.graph()), s_(state.schedule()), edits_(state.edits), remat_(state) {
  }

  const Rematerializer &rematerializer() const { return remat_; }
  Rematerializer &rematerializer() { return remat_; }

  // The idle interval whose eviction frees bytes at a step: it covers the step, or it begins there
  // and the step could take the storage's bytes by donation. None if there is no such interval.
  IdleInterval intervalAt(StorageId s, StepId step) const;
  IdleInterval widestInterval(InstanceId c) const;
  // The most live bytes among the steps at which the eviction frees bytes.
  int64_t highestIn(const IdleInterval &idle) const;

  // False if the eviction is impossible within the limits; the caller then undoes the edits made
  // until then.
  bool evict(const IdleInterval &idle, const EvictOptions &o);
  // Whether the last eviction, which was without `extendOperands`, inserted one step and edited
  // nothing else.
  bool wasOneStep() const { return remat_.wasOneStep(); }

private:
  bool takesDonation(StepId r, StorageId from) const;
  bool makeAgain(const IdleInterval &idle, const EvictOptions &o);
  struct Gain {
    int64_t bytes;    // by which the excess falls
    double addedCost; // microseconds
    bool isWorthMoreThan(const Gain &other) const;
  };
  void evictSiblings(const EvictOptions &o, int64_t excessBefore, double costBefore);
  bool evictSibling(StepId user, uint32_t output, const EvictOptions &o);

  SearchState &state_;
  const StorageGraph &g_;
  const EditableSchedule &s_;
  EditLog &edits_;
  Rematerializer remat_;
};

} // namespace isthmus::plan
