// Tests the cheapest ways to make things, on small examples and against Bellman and Ford's
// algorithm.

#include "passes/cheapest_steps.h"
#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <random>

namespace isthmus {
namespace {

using Reads = CheapestSteps::Reads;
constexpr double kNever = std::numeric_limits<double>::infinity();

// `dear` can be made directly for 10, or from two things that cost 4 each: for 9 if the costs of
// what a step reads are added, for 5 if the highest counts.
TEST(CheapestSteps, AddsThePricesOfReadsOrTakesTheHighest) {
  CheapestSteps steps;
  const uint32_t given = steps.addThing(0), left = steps.addThing(kNever),
                 right = steps.addThing(kNever), dear = steps.addThing(kNever),
                 never = steps.addThing(kNever);
  steps.addStep(10, {given}, {dear});
  steps.addStep(4, {given}, {left});
  steps.addStep(4, {given}, {right});
  steps.addStep(1, {left, right}, {dear});
  steps.addStep(1, {never}, {given, dear});
  steps.solve(Reads::Sum);
  EXPECT_EQ(steps.price(dear), 9);
  EXPECT_EQ(steps.stepTo(dear), 3u);
  EXPECT_EQ(steps.stepTo(given), CheapestSteps::kNone);
  EXPECT_EQ(steps.price(never), kNever);
  steps.solve(Reads::Most);
  EXPECT_EQ(steps.price(dear), 5);
  EXPECT_EQ(steps.stepTo(left), 1u);
}

TEST(CheapestSteps, LiveThingsAreMadeAgainOnlyIfThatIsCheaper) {
  CheapestSteps steps;
  const uint32_t a = steps.addThing(7), b = steps.addThing(2);
  steps.addStep(3, {}, {a, b});
  steps.solve(Reads::Sum, a);
  EXPECT_EQ(steps.price(a), 3);
  EXPECT_EQ(steps.stepTo(a), 0u);
  EXPECT_EQ(steps.price(b), 2);
  EXPECT_EQ(steps.stepTo(b), CheapestSteps::kNone);
  steps.clear();
  EXPECT_EQ(steps.addThing(1), 0u);
}

// Compares with the algorithm of Bellman and Ford on random steps with cycles.
TEST(CheapestSteps, AgreesWithRoundsOverAllSteps) {
  std::mt19937 random(1);
  auto below = [&](uint32_t n) { return uint32_t(random() % n); };
  for (int round = 0; round < 300; ++round) {
    struct Step {
      double cost;
      std::vector<uint32_t> reads, makes;
    };
    const uint32_t n = 2 + below(12);
    CheapestSteps steps;
    std::vector<double> asIs;
    for (uint32_t i = 0; i < n; ++i) {
      asIs.push_back(below(3) ? kNever : below(20));
      steps.addThing(asIs.back());
    }
    std::vector<Step> all;
    for (uint32_t i = below(3 * n); i-- > 0;) {
      Step s{double(below(8)), {}, {below(n)}};
      for (uint32_t thing = 0; thing < n; ++thing)
        if (below(n) < 2)
          s.reads.push_back(thing);
      steps.addStep(s.cost, s.reads, s.makes);
      all.push_back(std::move(s));
    }
    for (Reads reads : {Reads::Sum, Reads::Most}) {
      std::vector<double> least = asIs;
      for (uint32_t pass = 0; pass <= n; ++pass)
        for (const Step &s : all) {
          double price = 0;
          for (uint32_t thing : s.reads)
            price = reads == Reads::Sum ? price + least[thing] : std::max(price, least[thing]);
          least[s.makes[0]] = std::min(least[s.makes[0]], s.cost + price);
        }
      steps.solve(reads);
      for (uint32_t i = 0; i < n; ++i)
        EXPECT_EQ(steps.price(i), least[i]) << "round " << round << ", thing " << i;
    }
  }
}

} // namespace
} // namespace isthmus
