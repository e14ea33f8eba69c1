// The problem as the search sees it: a reader of a view needs all that the view read, and what is
// read by a view that must not run again is not made again. Standard library only.
#pragma once

#include "passes/plan/storages.h"

namespace isthmus::plan {

struct StorageGraph : Storages {
  // `optional`: with the problem's optional ops, where they have the plain form that networks have:
  // none reads what another one makes, but for copies back, which read what is on the host; all may
  // run again; copies back make one storage, and waits wait for nothing else. Those of other forms
  // are left out.
  explicit StorageGraph(const Problem &p, bool optional = false);

  Order order;
  uint32_t numDefault = 0; // ops that are not optional, which come first
  uint32_t firstBackward;  // op; kNone: there is none
  bool hasCopies = false;  // to the host and back
  bool hasOptional() const { return ops.size() > numDefault; }
  bool isOptional(uint32_t op) const { return op >= numDefault; }
  // The optional ops that make the storage.
  const std::vector<uint32_t> &others(uint32_t storage) const {
    static const std::vector<uint32_t> kNoOps;
    return hasOptional() ? others_[storage] : kNoOps;
  }
  static bool isCopyBack(const Op &op) { return op.bus == Op::Bus::ToDevice; }
  bool mayComeBack(uint32_t storage) const {
    return ops[storages[storage].maker].mayRepeat || !others(storage).empty();
  }

  // The runs of these ops in this order, with the views that their readers need, and the other ends
  // of copies: those to the host start as soon as what they copy is made, those back are waited for
  // just before the first reader. Copies of which nothing is read are left out.
  Schedule scheduleOf(const std::vector<uint32_t> &runs) const;

private:
  void addOptional();
  bool isUsable(const std::vector<Read> &inputs) const;
  // The storages that a copy of its `of` is made of; false if there may be no other copy.
  bool makesCopyOf(const plan::Op &from, Op &op) const;
  void addForm(OpIndex i);
  void addCopyBack(OpIndex wait, std::vector<uint32_t> &toHost);

  const Problem &p_;
  std::vector<std::vector<uint32_t>> others_; // by storage
};

} // namespace isthmus::plan
