// Tests transfers on a thread of their own.

#include "runtime/link.h"
#include <chrono>
#include <gtest/gtest.h>
#include <string>

namespace isthmus {
namespace {

double secondsOf(const std::function<void()> &work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One megabyte, at a rate of twenty megabytes a second.
constexpr int64_t kBytes = 1000000;
constexpr double kRate = 20e6, kSeconds = kBytes / kRate;

TEST(LinkThread, CopiesInTheOrderOfTheStarts) {
  std::vector<std::string> memory(10, std::string(kBytes, '0'));
  memory[0] = std::string(kBytes, 'x');
  LinkThread link;
  for (uint32_t i = 1; i < memory.size(); ++i) // each reads what the one before it wrote
    link.start(i, memory[i].data(), memory[i - 1].data(), kBytes);
  link.waitFor(uint32_t(memory.size()) - 1);
  for (const std::string &m : memory)
    EXPECT_TRUE(m == memory[0]);
}

TEST(LinkThread, ReturnsAtOnceForWhatIsCompleteOrUnknown) {
  std::string from(100, 'x'), to(100, '0');
  LinkThread link;
  link.waitFor(7);
  link.start(7, to.data(), from.data(), 100);
  for (int twice : {1, 2}) {
    link.waitFor(7);
    EXPECT_EQ(to, from) << twice;
  }
  link.waitFor(8);
}

// Ids are used again, as in steps that run repeatedly.
TEST(LinkThread, TakesAnIdAgain) {
  std::string from(kBytes, 'x'), to(kBytes, '0');
  LinkThread link;
  for (char step = 'a'; step < 'f'; ++step) {
    from.assign(kBytes, step);
    link.start(1, to.data(), from.data(), kBytes);
    link.waitFor(1);
    EXPECT_TRUE(to == from) << step;
  }
}

TEST(LinkThread, EndsAfterAllThatWasStarted) {
  std::vector<std::string> to(20, std::string(kBytes, '0'));
  const std::string from(kBytes, 'x');
  {
    LinkThread link;
    for (uint32_t i = 0; i < to.size(); ++i)
      link.start(i, to[i].data(), from.data(), kBytes);
  }
  for (const std::string &t : to)
    EXPECT_TRUE(t == from);
}

// Only lower limits of times are checked, as upper limits depend on the machine.
TEST(LinkThread, TakesTheTimeOfItsRate) {
  std::string from(kBytes, 'x'), to(kBytes, '0');
  LinkThread link(kRate);
  EXPECT_GE(secondsOf([&] {
              for (uint32_t i = 0; i < 4; ++i)
                link.start(i, to.data(), from.data(), kBytes);
              link.waitFor(3);
            }),
            4 * kSeconds);
  EXPECT_EQ(to, from);
}

TEST(LinkThread, SavesUpNoTimeWhileNothingIsCopied) {
  std::string from(kBytes, 'x'), to(kBytes, '0');
  LinkThread link(kRate);
  std::this_thread::sleep_for(std::chrono::duration<double>(2 * kSeconds));
  EXPECT_GE(secondsOf([&] {
              link.start(1, to.data(), from.data(), kBytes);
              link.waitFor(1);
            }),
            kSeconds);
}

} // namespace
} // namespace isthmus
