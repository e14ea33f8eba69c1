// The generator must give the numbers that its authors published, on every machine and in every
// version: weights, plans and random tests depend on them.
#include "ir/splitmix64.h"
#include <gtest/gtest.h>

namespace isthmus {
namespace {

TEST(SplitMix64, GivesTheNumbersOfItsAuthors) {
  uint64_t state = 1234567;
  for (uint64_t expected : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                            4593380528125082431u, 16408922859458223821u})
    EXPECT_EQ(nextSplitMix64(state), expected);
}

TEST(SplitMix64, ADrawIsAHashOfItsState) {
  uint64_t state = 7, second = 7 + kSplitMix64Step;
  nextSplitMix64(state);
  EXPECT_EQ(state, second);
  EXPECT_EQ(nextSplitMix64(state), splitMix64(second));
}

} // namespace
} // namespace isthmus
