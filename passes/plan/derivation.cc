#include "passes/plan/derivation.h"

#include <algorithm>
#include <utility>

namespace isthmus::plan {
namespace {

// Trees that reach over more storages are not looked for.
constexpr size_t kMostWanted = 4000;

} // namespace

const std::vector<TaskId> &Derivations::cheapest(StorageId s, const Terms &terms) {
  wanted_.clear();
  offers_.clear();
  out_.clear();
  other_.clear();
  placeOf(s, 0, terms);
  wanted_[0].asIs *= terms.bias;
  const double asIs = wanted_[0].asIs;
  if (asIs > 0) {
    collect(terms);
    settle(Of::Sum);
    double price = emit(out_);
    settle(Of::Most);
    if (double other = emit(other_); other < price) {
      price = other;
      std::swap(out_, other_);
    }
    if (price >= asIs)
      out_.clear();
  }
  for (const Wanted &w : wanted_)
    place_[w.storage] = kNowhere;
  work_ += wanted_.size() + offers_.size();
  return out_;
}

// --- A heap of prices, the least on top

void Derivations::push(double price, uint32_t at) {
  heap_.push_back({price, at});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

std::pair<double, uint32_t> Derivations::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
  auto top = heap_.back();
  heap_.pop_back();
  return top;
}

// --- What might be of use, from the root down

uint32_t Derivations::placeOf(StorageId s, double above, const Terms &terms) {
  uint32_t &at = place_[s];
  if (at == kNowhere) {
    at = uint32_t(wanted_.size());
    const double asIs = terms.priceAsIs(s);
    wanted_.push_back({s, above, asIs, asIs});
  } else if (above < wanted_[at].above) {
    wanted_[at].above = above;
  } else {
    return at;
  }
  if (!wanted_[at].isExpanded && wanted_[at].asIs > 0)
    push(above, at);
  return at;
}

// A tree costs at least what its tasks on the way to a storage do: none through storages where that
// is as much as reading the root as it is.
void Derivations::collect(const Terms &terms) {
  while (!heap_.empty()) {
    auto [above, at] = pop();
    if (wanted_[at].isExpanded || above > wanted_[at].above)
      continue;
    if (above >= wanted_[0].asIs || wanted_.size() > kMostWanted)
      break;
    wanted_[at].isExpanded = true;
    expand(at, terms);
  }
  heap_.clear();
}

void Derivations::expand(uint32_t at, const Terms &terms) {
  const StorageId s = wanted_[at].storage;
  addOffer(g_.storages[s].maker, at, terms);
  for (TaskId t : g_.alternatives(s))
    addOffer(t, at, terms);
}

void Derivations::addOffer(TaskId t, uint32_t from, const Terms &terms) {
  const StorageGraph::Task &task = g_.tasks[t];
  const double above = wanted_[from].above + task.cost;
  if (!task.mayRepeat || task.transfer != StorageGraph::Task::Transfer::None ||
      above >= wanted_[0].asIs || !terms.mayRun(t))
    return;
  const uint32_t offer = uint32_t(offers_.size());
  offers_.push_back({t, task.cost, uint32_t(task.reads.size())});
  for (StorageId read : task.reads) {
    const uint32_t at = placeOf(read, above, terms); // may move `wanted_`
    wanted_[at].readBy.push_back(offer);
  }
}

// --- What each costs, from the leaves up

void Derivations::settle(Of reads) {
  for (uint32_t at = 0; at < wanted_.size(); ++at) {
    Wanted &w = wanted_[at];
    w.price = w.asIs;
    w.offer = kNoOffer;
    w.isSettled = false;
    push(w.price, at);
  }
  for (uint32_t i = 0; i < offers_.size(); ++i) {
    const StorageGraph::Task &task = g_.tasks[offers_[i].task];
    offers_[i].price = task.cost;
    offers_[i].missing = uint32_t(task.reads.size());
    if (offers_[i].missing == 0)
      make(i);
  }
  while (!heap_.empty()) {
    auto [price, at] = pop();
    Wanted &w = wanted_[at];
    if (w.isSettled || price > w.price)
      continue;
    w.isSettled = true;
    if (at == 0)
      break;
    for (uint32_t i : w.readBy) {
      Offer &o = offers_[i];
      if (reads == Of::Sum)
        o.price += price;
      if (--o.missing > 0)
        continue;
      if (reads == Of::Most) // the last is the most
        o.price += price;
      make(i);
    }
  }
  heap_.clear();
}

void Derivations::make(uint32_t offer) {
  const Offer &o = offers_[offer];
  for (StorageId s : g_.tasks[o.task].made())
    if (const uint32_t at = place_[s]; at != kNowhere && o.price < wanted_[at].price) {
      wanted_[at].price = o.price;
      wanted_[at].offer = offer;
      push(o.price, at);
    }
}

// Depth first: what a task reads is made before it, and once. Returns the price of all: of each
// task, and of each storage that is read as it is.
double Derivations::emit(std::vector<TaskId> &out) {
  struct Frame {
    uint32_t at;
    size_t next = 0;
  };
  std::vector<Frame> stack = {{0}};
  double price = 0;
  while (!stack.empty()) {
    Frame &f = stack.back();
    Wanted &w = wanted_[f.at];
    const std::vector<StorageId> *reads =
        w.offer == kNoOffer ? nullptr : &g_.tasks[offers_[w.offer].task].reads;
    if (reads && f.next < reads->size()) {
      stack.push_back({place_[(*reads)[f.next++]]});
      continue;
    }
    if (reads) {
      out.push_back(offers_[w.offer].task);
      price += g_.tasks[out.back()].cost;
      for (StorageId s : g_.tasks[out.back()].made())
        if (const uint32_t at = place_[s]; at != kNowhere) {
          wanted_[at].offer = kNoOffer; // it is there now
          wanted_[at].isPaid = true;
        }
    } else if (!std::exchange(w.isPaid, true)) {
      price += w.asIs;
    }
    stack.pop_back();
  }
  for (Wanted &w : wanted_)
    w.isPaid = false;
  return price;
}

} // namespace isthmus::plan
