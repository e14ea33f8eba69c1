#include "passes/cheapest_steps.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace isthmus {

uint32_t CheapestSteps::addThing(double price) {
  things_.push_back({price});
  return uint32_t(things_.size() - 1);
}

void CheapestSteps::addStep(double cost, const std::vector<uint32_t> &reads,
                            std::vector<uint32_t> makes) {
  for (uint32_t thing : reads)
    things_[thing].readBy.push_back(uint32_t(steps_.size()));
  steps_.push_back({cost, uint32_t(reads.size()), std::move(makes)});
}

void CheapestSteps::clear() {
  things_.clear();
  steps_.clear();
}

// Settles things in order of rising price: the things that a step reads cost no more than those
// that it makes.
void CheapestSteps::solve(Reads reads, uint32_t wanted) {
  heap_.clear();
  for (uint32_t i = 0; i < things_.size(); ++i) {
    Thing &t = things_[i];
    t.price = t.asIs;
    t.step = kNone;
    t.isSettled = false;
    if (t.price < std::numeric_limits<double>::infinity())
      push(t.price, i);
  }
  for (uint32_t s = 0; s < steps_.size(); ++s) {
    steps_[s].price = steps_[s].cost;
    steps_[s].missing = steps_[s].numReads;
    if (steps_[s].missing == 0)
      make(s);
  }
  while (!heap_.empty()) {
    const auto [price, thing] = pop();
    Thing &t = things_[thing];
    if (t.isSettled || price > t.price)
      continue;
    t.isSettled = true;
    if (thing == wanted)
      return;
    for (uint32_t s : t.readBy) {
      Step &step = steps_[s];
      if (reads == Reads::Sum)
        step.price += price;
      if (--step.missing > 0)
        continue;
      if (reads == Reads::Most) // the last one settled has the highest price
        step.price += price;
      make(s);
    }
  }
}

void CheapestSteps::make(uint32_t step) {
  const double price = steps_[step].price;
  for (uint32_t i : steps_[step].makes)
    if (price < things_[i].price) {
      things_[i].price = price;
      things_[i].step = step;
      push(price, i);
    }
}

void CheapestSteps::push(double price, uint32_t thing) {
  heap_.push_back({price, thing});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

std::pair<double, uint32_t> CheapestSteps::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
  const std::pair<double, uint32_t> top = heap_.back();
  heap_.pop_back();
  return top;
}

} // namespace isthmus
