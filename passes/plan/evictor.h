// Evicts storages in idle intervals: the instance ends at the use before the interval, and a new
// one is made just before the use after it.
#pragma once

#include "passes/plan/rematerializer.h"

namespace isthmus::plan {

// Between an instance's making or a read of it, and its next read.
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

  // The interval whose eviction makes room at a step: it covers the step, or begins there and the
  // step could be donated the storage's bytes. None if there is none.
  IdleInterval intervalAt(StorageId s, StepId step) const;
  IdleInterval widestInterval(InstanceId c) const;
  // The most live bytes at steps at which an eviction makes room.
  int64_t highestIn(const IdleInterval &idle) const;

  // False if it cannot be done within the limits; the edits until then are to be undone.
  bool evict(const IdleInterval &idle, const EvictOptions &o);
  // Whether the last eviction, without `extendOperands`, took nothing but one step.
  bool wasOneStep() const { return remat_.wasOneStep(); }

private:
  bool takesDonation(StepId r, StorageId from) const;
  bool makeAgain(const IdleInterval &idle, const EvictOptions &o);
  struct Gain {
    int64_t bytes;    // of the excess
    double addedCost; // for it
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
