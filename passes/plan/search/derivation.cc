#include "passes/plan/search/derivation.h"

#include <algorithm>
#include <utility>

namespace isthmus::plan {
namespace {

// Trees over more storages than this are not searched.
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
    listSteps();
    steps_.solve(CheapestSteps::Reads::Sum, /*wanted=*/0);
    double price = emit(out_);
    steps_.solve(CheapestSteps::Reads::Most, /*wanted=*/0);
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

// --- Collecting tasks, from the root down

uint32_t Derivations::placeOf(StorageId s, double above, const Terms &terms) {
  uint32_t &at = place_[s];
  if (at == kNowhere) {
    at = uint32_t(wanted_.size());
    const double asIs = terms.priceAsIs(s);
    wanted_.push_back({s, above, asIs});
  } else if (above < wanted_[at].above) {
    wanted_[at].above = above;
  } else {
    return at;
  }
  if (!wanted_[at].isExpanded && wanted_[at].asIs > 0)
    open_.push({above, at});
  return at;
}

// A tree costs at least as much as its tasks on the path to a storage. Storages whose path costs as
// much as reading the root's instance are not expanded.
void Derivations::collect(const Terms &terms) {
  while (!open_.empty()) {
    const auto [above, at] = open_.top();
    open_.pop();
    if (wanted_[at].isExpanded || above > wanted_[at].above)
      continue;
    if (above >= wanted_[0].asIs || wanted_.size() > kMostWanted)
      break;
    wanted_[at].isExpanded = true;
    expand(at, terms);
  }
  open_ = {};
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
  offers_.push_back(t);
  for (StorageId read : task.reads)
    placeOf(read, above, terms);
}

// --- Prices, from the leaves up

void Derivations::listSteps() {
  steps_.clear();
  for (const Wanted &w : wanted_)
    steps_.addThing(w.asIs);
  auto places = [&](const auto &storages) {
    std::vector<uint32_t> out;
    for (StorageId s : storages)
      if (place_[s] != kNowhere)
        out.push_back(place_[s]);
    return out;
  };
  for (TaskId t : offers_)
    steps_.addStep(g_.tasks[t].cost, places(g_.tasks[t].reads), places(g_.tasks[t].made()));
}

// Lists the tasks depth first: a task's operands are made before it, and once. Returns the price of
// all tasks and of all instances that are read.
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
    const uint32_t step = steps_.stepTo(f.at);
    const bool isMade = step != CheapestSteps::kNone && !w.isThere;
    const TaskId task = isMade ? offers_[step] : TaskId();
    if (isMade && f.next < g_.tasks[task].reads.size()) {
      stack.push_back({place_[g_.tasks[task].reads[f.next++]]});
      continue;
    }
    if (isMade) {
      out.push_back(task);
      price += g_.tasks[task].cost;
      for (StorageId s : g_.tasks[task].made())
        if (const uint32_t at = place_[s]; at != kNowhere)
          wanted_[at].isThere = true;
    } else if (!std::exchange(w.isThere, true)) {
      price += w.asIs;
    }
    stack.pop_back();
  }
  for (Wanted &w : wanted_)
    w.isThere = false;
  return price;
}

} // namespace isthmus::plan
