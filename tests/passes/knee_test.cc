// The knee of the price curve: of given points, and of chains.

#include "passes/plan/knee.h"
#include "tests/passes/random_problem.h"

#include <gtest/gtest.h>

namespace isthmus::plan {
namespace {

// From 100 bytes at cost 50 to 60 bytes at cost 58, a byte costs 0.2; from there to 50 bytes, 3.
// Points above the curve, and the order, make no difference.
TEST(Knee, IsWhereBytesBecomeExpensive) {
  const auto knee = kneeOf({{50, 88}, {70, 70}, {80, 54}, {60, 58}, {100, 50}, {60, 90}, {55, 75}});
  ASSERT_TRUE(knee);
  EXPECT_EQ(knee->at.peakBytes, 60);
  EXPECT_EQ(knee->at.cost, 58);
  EXPECT_DOUBLE_EQ(knee->above, 0.2);
  EXPECT_DOUBLE_EQ(knee->below, 3);
}

TEST(Knee, MayBeFree) {
  const auto knee = kneeOf({{100, 50}, {90, 50}, {80, 60}});
  ASSERT_TRUE(knee);
  EXPECT_EQ(knee->at.peakBytes, 90);
  EXPECT_EQ(knee->above, 0);
  const auto rounded = kneeOf({{100, 50}, {90, 50 - 1e-14}, {80, 60}});
  ASSERT_TRUE(rounded);
  EXPECT_EQ(rounded->above, 0);
}

TEST(Knee, NoneWhereTheCurveBendsNowhere) {
  EXPECT_FALSE(kneeOf({}));
  EXPECT_FALSE(kneeOf({{100, 50}}));
  EXPECT_FALSE(kneeOf({{100, 50}, {50, 60}}));
  EXPECT_FALSE(kneeOf({{100, 50}, {90, 51}, {80, 52}, {70, 53}})); // straight
  EXPECT_FALSE(kneeOf({{100, 50}, {75, 60}, {50, 78}}));           // 0.4, then 0.72
  EXPECT_FALSE(kneeOf({{100, 50}, {75, 70}, {50, 78}}));           // cheaper and cheaper
  EXPECT_FALSE(kneeOf({{100, 50}, {75, 50}, {50, 50}}));           // for nothing
  EXPECT_FALSE(kneeOf({{100, 50}, {75, 50}, {50, 50.04}}));        // for next to nothing
}

// The knee is a plan on the curve, within the price allowed, and bytes below it cost more.
TEST(Knee, OfAProblemIsWithinThePriceAllowed) {
  Rng rng(1);
  SearchOptions o;
  o.effort = 0.05;
  int found = 0;
  for (int i = 0; i < 20; ++i) {
    const Problem p = randomProblem(rng, 30);
    o.budgetBytes = 0;
    o.mostAdded = 0.5 + 0.1 * (i % 5);
    const PlanResult least = planWithin(p, o);
    const auto knee = findKnee(p, o, least);
    if (!knee)
      continue;
    ++found;
    EXPECT_GT(knee->at.peakBytes, least.lowestPeak);
    EXPECT_LT(knee->at.peakBytes, least.baseline.peakBytes);
    EXPECT_LE(overhead(knee->at.cost, least.baseline.cost), o.mostAdded);
    EXPECT_GE(knee->below, 2 * knee->above);
    o.budgetBytes = knee->at.peakBytes;
    const PlanResult plan = planWithin(p, o);
    EXPECT_TRUE(plan.isWithin);
    EXPECT_LE(plan.planned.cost, 1.05 * knee->at.cost);
  }
  EXPECT_GT(found, 5);
}

} // namespace
} // namespace isthmus::plan
