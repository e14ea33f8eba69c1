// The cheapest way to have things that are made of one another: steps, each of which makes some
// things once all that it reads is there. Knuth's generalization of Dijkstra's algorithm ("A
// generalization of Dijkstra's algorithm", 1977). Standard library only.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace isthmus {

class CheapestSteps {
public:
  static constexpr uint32_t kNone = ~0u;

  // `price`: that of having the thing without any step; infinite where a step has to make it.
  uint32_t addThing(double price);
  // `reads` and `makes`: each thing once.
  void addStep(double cost, const std::vector<uint32_t> &reads, std::vector<uint32_t> makes);
  void clear();

  // What a step pays for what it reads: the prices of all, which counts twice what two of them
  // share, or the highest of them, which counts it once and all else not at all.
  enum class Reads : uint8_t { Sum, Most };
  // Prices everything, or no more than it takes to know the price of `wanted`.
  void solve(Reads reads, uint32_t wanted = kNone);

  // As far as it was solved; infinite: it cannot be had.
  double price(uint32_t thing) const { return things_[thing].price; }
  // The step by which it is had at this price, the first one found of several; kNone: none is
  // needed, or it cannot be had.
  uint32_t stepTo(uint32_t thing) const { return things_[thing].step; }

private:
  struct Thing {
    double asIs = 0, price = 0;
    uint32_t step = kNone;
    bool isSettled = false;
    std::vector<uint32_t> readBy; // steps
  };
  struct Step {
    double cost = 0;
    uint32_t numReads = 0;
    std::vector<uint32_t> makes;
    double price = 0;     // of itself and of what of its reads is settled
    uint32_t missing = 0; // reads that are not
  };

  void make(uint32_t step);
  void push(double price, uint32_t thing);
  std::pair<double, uint32_t> pop();

  std::vector<Thing> things_;
  std::vector<Step> steps_;
  std::vector<std::pair<double, uint32_t>> heap_; // prices and things, the least on top
};

} // namespace isthmus
