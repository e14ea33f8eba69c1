// Dense ids of values and nodes. Distinct types, so that one is never taken for the other.
#pragma once

#include "llvm/ADT/DenseMapInfo.h"
#include "llvm/ADT/Hashing.h"
#include <cstdint>
#include <functional>

namespace isthmus {

template <typename Tag> struct Id {
  static constexpr uint32_t kNone = ~uint32_t(0);
  uint32_t index = kNone;

  constexpr Id() = default;
  explicit constexpr Id(uint32_t i) : index(i) {}
  explicit constexpr operator bool() const { return index != kNone; }
  friend constexpr bool operator==(Id a, Id b) { return a.index == b.index; }
  friend constexpr bool operator!=(Id a, Id b) { return a.index != b.index; }
  friend constexpr bool operator<(Id a, Id b) { return a.index < b.index; }
};

using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;

} // namespace isthmus

template <typename Tag> struct llvm::DenseMapInfo<isthmus::Id<Tag>> {
  using T = isthmus::Id<Tag>;
  static T getEmptyKey() { return T(~uint32_t(0)); }
  static T getTombstoneKey() { return T(~uint32_t(0) - 1); }
  static unsigned getHashValue(T id) { return DenseMapInfo<uint32_t>::getHashValue(id.index); }
  static bool isEqual(T a, T b) { return a == b; }
};
