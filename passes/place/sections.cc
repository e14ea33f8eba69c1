#include "passes/place/sections.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

Sections::Sections(OffsetAssignment &p) : p_(p) {
  const size_t n = p.buffers.size();
  for (uint32_t i = 0; i < n; ++i)
    all_.push_back(i);
  begin_.resize(n);
  end_.resize(n);
  kind_.resize(n);
  isPlaced_.resize(n);
  lowest_.resize(n);
  support_.resize(n);
  offsets_.assign(n, kUnplaced);
  findSections();
  findKinds();
  coming_.resize(sections_.size());
  base_.resize(sections_.size());
  numCandidates_.resize(sections_.size());
  isTouched_.resize(sections_.size());
  failures_.resize(sections_.size());
}

// Sorts all buffers by first step.
void Sections::findSections() {
  llvm::stable_sort(
      all_, [&](uint32_t a, uint32_t b) { return p_.buffers[a].begin < p_.buffers[b].begin; });
  std::vector<uint32_t> live;
  for (uint32_t i : all_) {
    auto isDead = [&](uint32_t j) { return p_.buffers[j].end <= p_.buffers[i].begin; };
    if (llvm::any_of(live, isDead)) {
      sections_.push_back(live);
      llvm::erase_if(live, isDead);
    }
    live.push_back(i);
    p_.work += int64_t(live.size());
  }
  sections_.push_back(live);
  for (uint32_t s = sections_.size(); s-- > 0;)
    for (uint32_t i : sections_[s])
      begin_[i] = s;
  for (uint32_t s = 0; s < sections_.size(); ++s) {
    for (uint32_t i : sections_[s])
      end_[i] = s + 1;
    p_.work += 4 * int64_t(sections_[s].size());
  }
}

// Buffers of one size and life are of one kind.
void Sections::findKinds() {
  auto key = [&](uint32_t i) { return std::tuple(begin_[i], end_[i], bytes(i)); };
  std::vector<uint32_t> order = all_;
  llvm::stable_sort(order, [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  for (size_t k = 0; k < order.size(); ++k)
    kind_[order[k]] = k > 0 && key(order[k]) == key(order[k - 1]) ? kind_[order[k - 1]] : order[k];
}

bool Sections::clear(int64_t height) {
  height_ = height;
  changes_.clear();
  std::fill(isPlaced_.begin(), isPlaced_.end(), false);
  std::fill(lowest_.begin(), lowest_.end(), 0);
  std::fill(support_.begin(), support_.end(), 0);
  std::fill(coming_.begin(), coming_.end(), 0);
  for (uint32_t i : all_) {
    come(i, bytes(i));
    touch(i);
  }
  p_.work += 20 * int64_t(all_.size());
  return update();
}

std::vector<uint32_t> Sections::candidates(uint32_t s) const {
  std::vector<uint32_t> result;
  for (uint32_t i : sections_[s])
    if (mayLieLowest(i, s))
      result.push_back(i);
  return result;
}

bool Sections::place(uint32_t i, const std::vector<uint32_t> &part) {
  const int64_t top = lowest_[i] + bytes(i);
  offsets_[i] = lowest_[i];
  isPlaced_[i] = true;
  come(i, -bytes(i));
  touch(i);
  changes_.push_back({i, What::Placed, 0, 0});
  for (uint32_t other : part) {
    if (other == i || !meet(i, other) || support_[other] >= top)
      continue;
    changes_.push_back({other, What::Support, 0, support_[other]});
    support_[other] = top;
    if (lowest_[other] < top)
      raise(other, top);
    else if (lowest_[other] == top) // it has lain on nothing
      touch(other);
  }
  p_.work += int64_t(part.size());
  return update();
}

bool Sections::leaveGap(uint32_t s, const std::vector<uint32_t> &part) {
  const int64_t above = aboveGap(s, part);
  if (above > height_ - coming_[s])
    return false;
  for (uint32_t i : sections_[s])
    if (!isPlaced_[i] && lowest_[i] < above)
      raise(i, above);
  return update();
}

// The least offset that the lowest buffer of a section can have if it does not lie at the base:
// it lies on a buffer that is not in the section, or has a higher lowest offset.
int64_t Sections::aboveGap(uint32_t s, const std::vector<uint32_t> &part) const {
  int64_t least = INT64_MAX;
  uint32_t begin = s, end = s + 1; // of the buffers at the base
  for (uint32_t i : sections_[s]) {
    if (isPlaced_[i])
      continue;
    if (lowest_[i] > base_[s]) {
      least = std::min(least, lowest_[i]);
    } else {
      begin = std::min(begin, begin_[i]);
      end = std::max(end, end_[i]);
    }
  }
  for (uint32_t i : part) {
    const bool isOutside = end_[i] <= s || begin_[i] > s;
    if (isOutside && begin_[i] < end && begin < end_[i])
      least = std::min(least, lowest_[i] + bytes(i));
  }
  p_.work += int64_t(part.size());
  return least;
}

void Sections::come(uint32_t i, int64_t bytes) {
  for (uint32_t s = begin_[i]; s < end_[i]; ++s)
    coming_[s] += bytes;
}

void Sections::raise(uint32_t i, int64_t lowest) {
  changes_.push_back({i, What::Lowest, 0, lowest_[i]});
  lowest_[i] = lowest;
  touch(i);
}

void Sections::touch(uint32_t i) {
  if (firstTouched_ == endTouched_) {
    firstTouched_ = begin_[i];
    endTouched_ = end_[i];
  }
  firstTouched_ = std::min(firstTouched_, begin_[i]);
  endTouched_ = std::max(endTouched_, end_[i]);
  std::fill(isTouched_.begin() + begin_[i], isTouched_.begin() + end_[i], true);
  p_.work += (end_[i] - begin_[i]) / 16;
}

// Brings all touched sections up to date, or none of the rest once the buffers of one do not fit.
bool Sections::update() {
  bool mayFit = true;
  for (uint32_t s = firstTouched_; s < endTouched_; ++s) {
    if (mayFit && isTouched_[s] && coming_[s] > 0 && !update(s)) {
      failures_[s] += 1;
      mayFit = false;
    }
    isTouched_[s] = false;
  }
  p_.work += (endTouched_ - firstTouched_) / 4;
  firstTouched_ = endTouched_ = 0;
  return mayFit;
}

// Finds a section's base and candidates. False if its buffers do not fit on top of each other, each
// at or above its lowest offset (one machine with release dates; Carlier 1982).
bool Sections::update(uint32_t s) {
  // Insertion sort, since the order is nearly that of the last call.
  std::vector<uint32_t> &order = sections_[s];
  size_t count = 0, moves = 0;
  for (size_t k = 0; k < order.size(); ++k) {
    const uint32_t i = order[k];
    if (isPlaced_[i])
      continue;
    order[k] = order[count];
    size_t to = count++;
    for (; to > 0 && lowest_[order[to - 1]] > lowest_[i]; --to, ++moves)
      order[to] = order[to - 1];
    order[to] = i;
  }
  int64_t top = 0;
  uint32_t numCandidates = 0;
  const int64_t base = lowest_[order[0]];
  for (size_t k = 0; k < count; ++k) {
    const uint32_t i = order[k];
    top = std::max(top, lowest_[i]) + bytes(i);
    numCandidates += lowest_[i] == base && support_[i] == base;
  }
  p_.work += int64_t(2 + order.size() / 2 + count + moves);
  if (base != base_[s] || numCandidates != numCandidates_[s]) {
    changes_.push_back({s, What::Base, numCandidates_[s], base_[s]});
    base_[s] = base;
    numCandidates_[s] = numCandidates;
  }
  return top <= height_;
}

void Sections::undo(size_t mark) {
  for (; changes_.size() > mark; changes_.pop_back()) {
    const Change &c = changes_.back();
    switch (c.what) {
    case What::Placed:
      isPlaced_[c.which] = false;
      come(c.which, bytes(c.which));
      break;
    case What::Lowest:
      lowest_[c.which] = c.before;
      break;
    case What::Support:
      support_[c.which] = c.before;
      break;
    case What::Base:
      base_[c.which] = c.before;
      numCandidates_[c.which] = c.numCandidates;
    }
  }
}

} // namespace isthmus
