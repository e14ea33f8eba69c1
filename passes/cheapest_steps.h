// Finds the cheapest steps that make things from one another. A step makes some things once all
// things that it reads are available. Knuth's generalization of Dijkstra's algorithm ("A
// generalization of Dijkstra's algorithm", 1977). Standard library only.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace isthmus {

class CheapestSteps {
public:
  static constexpr uint32_t kNone = ~0u;

  // `price`: the price of the thing without any step; infinite if a step has to make it.
  uint32_t addThing(double price);
  // `reads` and `makes` name each thing at most once.
  void addStep(double cost, const std::vector<uint32_t> &reads, std::vector<uint32_t> makes);
  void clear();

  // How a step pays for the things that it reads. Sum: the sum of their prices, which counts a step
  // that two of them share twice. Most: the highest of their prices, which ignores all others.
  enum class Reads : uint8_t { Sum, Most };
  // Prices all things, or stops once the price of `wanted` is known.
  void solve(Reads reads, uint32_t wanted = kNone);

  // Valid for the things that solve() priced; infinite if no steps make the thing.
  double price(uint32_t thing) const { return things_[thing].price; }
  // The step that makes the thing at this price, the first one found if there are several; kNone if
  // no step is needed or none makes it.
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
    double price = 0;     // of the step and of its settled reads
    uint32_t missing = 0; // number of reads that are not settled
  };

  void make(uint32_t step);
  void push(double price, uint32_t thing);
  std::pair<double, uint32_t> pop();

  std::vector<Thing> things_;
  std::vector<Step> steps_;
  std::vector<std::pair<double, uint32_t>> heap_; // prices and things, cheapest on top
};

} // namespace isthmus
