// Tests the axes, scales and charts of `isthmus sweep`.

#include "tools/sweep/axis.h"
#include "tools/sweep/chart.h"
#include "tools/sweep/scale.h"

#include <gtest/gtest.h>

namespace isthmus {
namespace {

std::string joined(const std::vector<double> &values, ChartUnit unit) {
  std::string out;
  for (double v : values)
    out += (out.empty() ? "" : ", ") + numberText(v, unit);
  return out;
}

std::vector<std::string> budgets(llvm::StringRef text) {
  auto values = parseBudgets("--budgets", text, 100);
  if (!values)
    return {"error: " + plainMessage(values.takeError())};
  std::vector<std::string> texts;
  for (const SweepBudget &b : *values)
    texts.push_back(b.text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Axis, RangesHaveBothEnds) {
  EXPECT_EQ(budgets("90%:30%:-20%"), (Texts{"90%", "70%", "50%", "30%"}));
  EXPECT_EQ(budgets("30%:95%:20%"), (Texts{"30%", "50%", "70%", "90%"}));
  // Tenths are not exact in binary: the last value must be included, and no digit may be wrong.
  EXPECT_EQ(budgets("0.1GiB:0.5GiB:0.1GiB"),
            (Texts{"0.1GiB", "0.2GiB", "0.3GiB", "0.4GiB", "0.5GiB"}));
  EXPECT_EQ(budgets("4096:1024:-1024,min"), (Texts{"4096", "3072", "2048", "1024", "min"}));
  auto counts = parseCounts("--batch", "1,8:32:8,100:98", 100);
  ASSERT_TRUE(bool(counts));
  EXPECT_EQ(*counts, (std::vector<int64_t>{1, 8, 16, 24, 32, 100, 99, 98}));
}

TEST(Axis, WrongRanges) {
  for (auto [text, words] : {std::pair("90%:30%", "FROM:TO:STEP"),
                             {"90%:30%:10%", "leads from one end"},
                             {"90%:30%:0%", "leads from one end"},
                             {"90%:30:-10%", "of one unit"},
                             {"1%:99%:0.1%", "100 values at most"},
                             {"a:b:c", "numbers in a range"},
                             {"50%,50%", "each value once"},
                             {"", "got ''"},
                             {"50%,,30%", "got ''"},
                             {"nan%", "got 'nan%'"}}) {
    const Texts got = budgets(text);
    EXPECT_NE(got.front().find(words), std::string::npos) << text << ": " << got.front();
  }
  for (const char *text :
       {"0", "-1", "1.5", "x", "1:3:0.5", "99999999999999999999", "1:1e300", ""}) {
    auto counts = parseCounts("--batch", text, 100);
    EXPECT_FALSE(bool(counts)) << text;
    llvm::consumeError(counts.takeError());
  }
}

TEST(Scale, TicksAreRound) {
  constexpr double kMiB = 0x1p20;
  EXPECT_EQ(joined(Scale({3.1 * kMiB, 0.4 * kMiB}, ChartUnit::Bytes, false, true).ticks(7),
                   ChartUnit::Bytes),
            "0 B, 512 KiB, 1 MiB, 1.5 MiB, 2 MiB, 2.5 MiB, 3 MiB");
  EXPECT_EQ(joined(Scale({0.9, 0.2}, ChartUnit::Seconds, false, true).ticks(7), ChartUnit::Seconds),
            "0 s, 200 ms, 400 ms, 600 ms, 800 ms");
  EXPECT_EQ(joined(Scale({0.002, 3}, ChartUnit::Seconds, true, true).ticks(7), ChartUnit::Seconds),
            "10 ms, 100 ms, 1 s");
  EXPECT_EQ(joined(Scale({1 * kMiB, 600 * kMiB}, ChartUnit::Bytes, true, true).ticks(7),
                   ChartUnit::Bytes),
            "1 MiB, 4 MiB, 16 MiB, 64 MiB, 256 MiB");
  EXPECT_EQ(joined(Scale({0, 0}, ChartUnit::Percent, false, true).ticks(4), ChartUnit::Percent),
            "0 %, 0.5 %, 1 %");
}

TEST(Scale, NumbersAreShort) {
  EXPECT_EQ(joined({0, 1023, 1023.4 * 1024, 8e6, 0x1p62}, ChartUnit::Bytes),
            "0 B, 1023 B, 1023 KiB, 7.63 MiB, 4096 PiB");
  EXPECT_EQ(joined({28.6925, 0.125, 1234}, ChartUnit::Percent), "28.7 %, 0.125 %, 1234 %");
  EXPECT_EQ(joined({0, 2.5e-7, 0.0125, 90}, ChartUnit::Seconds), "0 s, 0.25 us, 12.5 ms, 90 s");
}

TEST(Scale, OneNumberStandsInTheMiddle) {
  for (double value : {0.0, 4.0, 1e12}) {
    const Scale s({value}, ChartUnit::Count, true, false);
    EXPECT_GE(s.at(value), 0);
    EXPECT_LE(s.at(value), 1);
  }
}

TEST(Scale, RatiosAndSteps) {
  EXPECT_TRUE(growsByRatio({8, 16, 32, 64, 128, 256}));
  EXPECT_TRUE(growsByRatio({64, 8, 32, 16}));
  std::vector<double> steps;
  for (int i = 1; i <= 100; ++i)
    steps.push_back(i);
  EXPECT_FALSE(growsByRatio(steps));
  EXPECT_FALSE(growsByRatio({30, 50, 70, 90}));
  EXPECT_FALSE(growsByRatio({0, 100}));
  EXPECT_FALSE(growsByRatio({}));
}

// An empty chart, a chart without numbers, and names of any kind give valid pictures.
TEST(Chart, OddContent) {
  EXPECT_NE(svgText({}).find("</svg>"), std::string::npos);
  Chart c;
  c.title = "a<b>&\"c\"\x01\xff";
  c.series = {"x<y", "z"};
  c.panels.push_back({"p", ChartUnit::Bytes, {{{1, std::nullopt, "no\nplan <"}}, {}}, 5.0});
  const std::string svg = svgText(c);
  EXPECT_NE(svg.find("a&lt;b&gt;&amp;&quot;c&quot;??"), std::string::npos);
  EXPECT_NE(svg.find("x&lt;y"), std::string::npos);
  EXPECT_NE(svg.find("<title>no\nplan &lt;</title>"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

} // namespace
} // namespace isthmus
