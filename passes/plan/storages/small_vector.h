// A vector of ids that stores a few of them within itself. Most storages have one or two instances,
// and most instances a few readers: a search then finds them without one more access to memory.
// Standard library only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>

namespace isthmus::plan {

// `T` is trivially copyable. References and iterators stay valid until the vector is moved or
// grows.
template <typename T, uint32_t N> class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

public:
  using value_type = T;

  SmallVector() : within_() {}
  SmallVector(const SmallVector &other) : SmallVector() { assign(other.begin(), other.end()); }
  SmallVector(SmallVector &&other) noexcept
      : size_(std::exchange(other.size_, 0)), capacity_(std::exchange(other.capacity_, N)) {
    if (isApart())
      apart_ = other.apart_;
    else
      std::copy(other.within_, other.within_ + N, within_);
  }
  SmallVector &operator=(SmallVector other) noexcept {
    std::destroy_at(this);
    std::construct_at(this, std::move(other));
    return *this;
  }
  ~SmallVector() {
    if (isApart())
      delete[] apart_;
  }

  T *begin() { return isApart() ? apart_ : within_; }
  T *end() { return begin() + size_; }
  const T *begin() const { return isApart() ? apart_ : within_; }
  const T *end() const { return begin() + size_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T &operator[](size_t i) { return begin()[i]; }
  const T &operator[](size_t i) const { return begin()[i]; }
  const T &front() const { return begin()[0]; }
  const T &back() const { return begin()[size_ - 1]; }

  void clear() { size_ = 0; }
  void truncate(size_t n) { size_ = static_cast<uint32_t>(n); } // to no more than it has
  void push_back(T value) {
    reserve(size_ + 1);
    begin()[size_++] = value;
  }
  void insert(const T *at, T value) {
    const size_t i = at - begin();
    push_back(value);
    std::rotate(begin() + i, end() - 1, end());
  }
  void erase(const T *at) {
    std::copy(at + 1, std::as_const(*this).end(), begin() + (at - begin()));
    --size_;
  }
  // The values are not its own.
  template <typename Iterator> void append(Iterator first, Iterator last) {
    reserve(size_ + static_cast<uint32_t>(std::distance(first, last)));
    size_ = static_cast<uint32_t>(std::copy(first, last, end()) - begin());
  }
  template <typename Iterator> void assign(Iterator first, Iterator last) {
    clear();
    append(first, last);
  }

private:
  bool isApart() const { return capacity_ > N; }

  void reserve(uint32_t n) {
    if (n <= capacity_)
      return;
    const uint32_t capacity = std::max(n, 2 * capacity_);
    T *grown = new T[capacity];
    std::copy(begin(), end(), grown);
    if (isApart())
      delete[] apart_;
    apart_ = grown;
    capacity_ = capacity;
  }

  uint32_t size_ = 0, capacity_ = N;
  union {
    T within_[N];
    T *apart_; // if there are more
  };
};

} // namespace isthmus::plan
