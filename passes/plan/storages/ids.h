// Dense ids of tasks, storages, steps and instances, for the search and the bounds. They are
// distinct types, so that one kind is never taken for another. Standard library only.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace isthmus::plan {

template <typename Tag> struct Id {
  static constexpr uint32_t kNone = ~uint32_t(0);
  uint32_t index = kNone;

  constexpr Id() = default;
  explicit constexpr Id(size_t i) : index(static_cast<uint32_t>(i)) {}
  explicit constexpr operator bool() const { return index != kNone; }
  friend constexpr auto operator<=>(Id a, Id b) = default;
  constexpr Id &operator++() {
    ++index;
    return *this;
  }
  constexpr Id operator+(size_t n) const { return Id(index + n); }
};

using TaskId = Id<struct TaskTag>;         // an op of the problem, with the views that it reads
using StorageId = Id<struct StorageTag>;   // the bytes behind one output of a task
using StepId = Id<struct StepTag>;         // one run of a task in a schedule
using InstanceId = Id<struct InstanceTag>; // one copy of a storage that one step makes

// A range of consecutive ids, for loops.
template <typename I> struct IdRange {
  struct Iterator {
    I at;
    I operator*() const { return at; }
    Iterator &operator++() {
      ++at;
      return *this;
    }
    bool operator==(const Iterator &) const = default;
  };
  I first, last; // `last` is not included

  Iterator begin() const { return {first}; }
  Iterator end() const { return {last}; }
};

// A vector indexed by ids of one kind only.
template <typename I, typename T> class IdVector {
public:
  IdVector() = default;
  explicit IdVector(size_t n, const T &value = T()) : items_(n, value) {}

  T &operator[](I i) { return items_[i.index]; }
  const T &operator[](I i) const { return items_[i.index]; }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  IdRange<I> ids() const { return {I(0), I(items_.size())}; }
  I nextId() const { return I(items_.size()); }

  void push_back(T value) { items_.push_back(std::move(value)); }
  void assign(size_t n, const T &value) { items_.assign(n, value); }
  void resize(size_t n, const T &value = T()) { items_.resize(n, value); }
  void clear() { items_.clear(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

private:
  std::vector<T> items_;
};

} // namespace isthmus::plan
