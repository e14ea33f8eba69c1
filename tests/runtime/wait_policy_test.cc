// How long threads spin, over traces of what the machine let them have.

#include "runtime/wait_policy.h"

#include <gtest/gtest.h>
#include <sstream>
#include <vector>

namespace isthmus {
namespace {

// `repeat` times: every thread is awake for `awake` ms, of which it runs for `ran`.
struct Phase {
  int repeat;
  double awake, ran;
};

WaitPolicy::Nanoseconds ms(double t) { return WaitPolicy::Nanoseconds(int64_t(t * 1e6)); }

// The changes between quiet and busy, by the time of one of `threads` threads, such as "6 busy, 120
// quiet".
std::string changes(int threads, const std::vector<Phase> &trace) {
  WaitPolicy policy;
  std::ostringstream out;
  double now = 0;
  for (const Phase &p : trace)
    for (int i = 0; i < p.repeat; ++i) {
      now += p.awake;
      const bool before = policy.isBusy();
      for (int t = 0; t < threads; ++t)
        policy.observe({ms(now), ms(p.awake), ms(p.ran)});
      if (policy.isBusy() != before)
        out << (out.tellp() > 0 ? ", " : "") << now << (policy.isBusy() ? " busy" : " quiet");
    }
  return out.str();
}

TEST(WaitPolicy, StaysQuietWhereThreadsHaveTheirCores) {
  EXPECT_EQ(changes(2, {{1000, 1, 1}}), "");
  EXPECT_EQ(changes(2, {{1000, 1, 0.99}}), "");
  // An interruption of 2 ms every 100 ms.
  std::vector<Phase> daemon;
  for (int i = 0; i < 10; ++i)
    daemon.insert(daemon.end(), {{98, 1, 1}, {1, 2, 0}});
  EXPECT_EQ(changes(1, daemon), "");
}

TEST(WaitPolicy, IsBusyBesideOtherPrograms) {
  // As many programs as cores: half of the time. One program for two threads on two cores: a third
  // is lacking.
  EXPECT_EQ(changes(2, {{100, 1, 1}, {100, 6, 3}}), "106 busy");
  EXPECT_EQ(changes(2, {{100, 1, 1}, {100, 3, 2}}), "106 busy");
  // A team of more threads than it has cores.
  EXPECT_EQ(changes(8, {{100, 4, 1}}), "4 busy");
}

TEST(WaitPolicy, ChangesWithin20Milliseconds) {
  EXPECT_EQ(changes(2, {{100, 2, 2}, {100, 4, 2}, {100, 2, 2}}), "204 busy, 622 quiet");
  // One long interruption is forgotten as fast, even one of a minute.
  EXPECT_EQ(changes(2, {{100, 1, 1}, {1, 6, 0}, {100, 1, 1}}), "106 busy, 129 quiet");
  EXPECT_EQ(changes(2, {{100, 1, 1}, {1, 60'000, 1}, {100, 1, 1}}), "60100 busy, 60130 quiet");
}

TEST(WaitPolicy, TriesQuietLessOftenBesideProgramsThatLast) {
  // Threads that sleep lack nothing; threads that spin lack half. A trial of quiet lasts 2 ms.
  WaitPolicy policy;
  std::ostringstream out;
  double now = 0;
  for (bool before = false; now < 1200; before = policy.isBusy()) {
    now += 2;
    for (int t = 0; t < 2; ++t)
      policy.observe({ms(now), ms(2), ms(policy.isBusy() ? 2 : 1)});
    if (policy.isBusy() != before)
      out << now << (policy.isBusy() ? " busy " : " quiet ");
  }
  EXPECT_EQ(out.str(),
            "4 busy 24 quiet 26 busy 66 quiet 68 busy 148 quiet 150 busy 310 quiet 312 busy 472 "
            "quiet 474 busy "
            "634 quiet 636 busy 796 quiet 798 busy 958 quiet 960 busy 1120 quiet 1122 busy ");
}

TEST(WaitPolicy, SeesAQuotaOfAControlGroup) {
  // 75 ms of every 100 are used up by two threads, which then stand still.
  std::vector<Phase> quota;
  for (int i = 0; i < 20; ++i)
    quota.insert(quota.end(), {{37, 1, 1}, {1, 63, 0}});
  EXPECT_TRUE(changes(2, quota).starts_with("100 busy")) << changes(2, quota);
}

TEST(WaitPolicy, SpinsForLongOnlyWhereItIsQuiet) {
  WaitPolicy policy;
  EXPECT_EQ(policy.spinTime(), WaitPolicy::kQuietSpin);
  policy.observe({ms(10), ms(10), ms(5)});
  EXPECT_EQ(policy.spinTime(), WaitPolicy::kBusySpin);
  policy.observe({ms(10), ms(0), ms(0)}); // no time, no news
  EXPECT_EQ(policy.spinTime(), WaitPolicy::kBusySpin);
}

} // namespace
} // namespace isthmus
