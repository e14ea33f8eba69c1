// Tests isthmus.hpp from a program in C++17.

#include "tools/c/isthmus.hpp"
#include "gtest/gtest.h"
#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

namespace {

using isthmus::Op;
using isthmus::Output;

// A chain of layers. Each gradient reads the gradient before it, whose bytes it may take over, and
// the operand of a layer.
isthmus::ProblemBuilder chain(int layers) {
  isthmus::ProblemBuilder b;
  std::vector<Output> made = {b.pinned(1000, "x")};
  for (int i = 0; i < layers; ++i) {
    Op op;
    op.cost = 2;
    op.bytes = {1000};
    op.inputs = {made.back()};
    made.push_back({b.add(op), 0});
  }
  Output gradient = made.back();
  for (int i = layers; i > 0; --i) {
    Op op;
    op.cost = 4;
    op.bytes = {1000};
    op.phase = ISTHMUS_BACKWARD;
    op.inputs = {gradient, made[size_t(i) - 1]};
    op.donations = {{0, 0}};
    gradient = {b.add(op), 0};
  }
  b.output(gradient);
  return b;
}

TEST(Hpp, PlansWhatABuilderMade) {
  const isthmus::Problem problem = chain(12).build();
  isthmus::PlanOptions options;
  options.budgetBytes = 7000;
  options.place = true;
  isthmus::Plan plan = problem.plan(options);
  const isthmus::Figures f = plan.figures();
  EXPECT_EQ(f.baseline_peak_bytes, 12000);
  EXPECT_LE(f.peak_bytes, 7000);
  EXPECT_GT(f.recomputed, 0u);
  EXPECT_EQ(plan.schedule().size(), 24 + f.recomputed);
  const isthmus::Layout layout = plan.layout();
  EXPECT_LE(layout.arenaBytes, 7000);
  EXPECT_EQ(layout.blocks.size(), plan.schedule().size());
  isthmus_page_options page = {};
  page.size = sizeof page;
  page.title = "<chain>";
  EXPECT_EQ(plan.page(page).find("<!DOCTYPE html>"), 0u);
  EXPECT_NE(plan.page(page).find("<title>&lt;chain&gt;</title>"), std::string::npos);
  EXPECT_NE(plan.report().find("\"arena_bytes\": " + std::to_string(layout.arenaBytes)),
            std::string::npos);

  // The judge of a schedule finds the same.
  EXPECT_EQ(problem.judge(plan.schedule()).figures().cost, f.cost);
  EXPECT_THROW(problem.judge({1, 1}), isthmus::Error);
}

TEST(Hpp, CopiesToTheHostAndOtherFormsAreTaken) {
  isthmus::ProblemBuilder b;
  const Output x = b.pinned(8);
  Op op;
  op.cost = 100;
  op.bytes = {1000};
  op.inputs = {x};
  op.runsOnce = true;
  const std::uint32_t a = b.add(op);
  op.cost = 10;
  op.runsOnce = false;
  op.inputs = {{a, 0}};
  op.bytes = {900};
  const Output big = {b.add(op), 0};
  const Output looked = b.view({0, {}, {big}});
  op.inputs = {looked};
  op.bytes = {10};
  op.phase = ISTHMUS_BACKWARD;
  const Output small = {b.add(op), 0};
  op.bytes = {1500};
  op.inputs = {small};
  const Output bigger = {b.add(op), 0};
  op.bytes = {10};
  op.inputs = {bigger};
  const Output last = {b.add(op), 0};
  op.inputs = {last, {a, 0}};
  b.output({b.add(op), 0});
  isthmus::PlanOptions options;
  options.budgetBytes = 1950;
  EXPECT_THROW(b.build().plan(options), isthmus::BudgetError);

  isthmus::ProblemBuilder withCopy = b;
  withCopy.addHostCopy({a, 0}, 5, 5);
  EXPECT_EQ(withCopy.build().plan(options).figures().transfers, 2u);

  // Another form of `a`, which may run again, at its price.
  op = Op();
  op.cost = 120;
  op.bytes = {1000};
  op.inputs = {x};
  op.phase = ISTHMUS_BACKWARD;
  b.addAlternative(a, op);
  const isthmus::Figures f = b.build().plan(options).figures();
  EXPECT_EQ(f.transfers, 0u);
  EXPECT_EQ(f.cost, f.baseline_cost + 120);
}

TEST(Hpp, ErrorsAreExceptions) {
  isthmus::PlanOptions options;
  options.budgetBytes = 100;
  const isthmus::Problem problem = chain(12).build();
  try {
    problem.plan(options);
    FAIL();
  } catch (const isthmus::BudgetError &e) {
    EXPECT_EQ(e.status(), ISTHMUS_CANNOT_BE_MET);
    EXPECT_NE(std::string(e.what()).find("(100 bytes) cannot be met"), std::string::npos);
    EXPECT_EQ(e.least().figures().peak_bytes, e.least().figures().smallest_peak_bytes);
  }
  try {
    isthmus::Graph::parse("isthmus 2\ngraph @g {\n  %y = oops(%x)\n}\n");
    FAIL();
  } catch (const isthmus::Error &e) {
    EXPECT_EQ(e.status(), ISTHMUS_BAD_INPUT);
    EXPECT_NE(std::string(e.what()).find("oops"), std::string::npos);
  }
  isthmus::ProblemBuilder wrong;
  Op op;
  op.inputs = {{0, 0}};
  op.name = "reads itself";
  wrong.add(op);
  EXPECT_THROW(
      {
        try {
          wrong.build();
        } catch (const isthmus::Error &e) {
          EXPECT_NE(std::string(e.what()).find("reads itself: "), std::string::npos);
          throw;
        }
      },
      isthmus::Error);
  EXPECT_THROW(isthmus::Problem::fromJson("{"), isthmus::Error);
  EXPECT_THROW(problem.judge({}), isthmus::Error);

  const isthmus::Problem empty = isthmus::ProblemBuilder().build();
  EXPECT_TRUE(empty.plan(isthmus::PlanOptions()).schedule().empty());
}

TEST(Hpp, WhatTheProgressFunctionThrowsComesOut) {
  struct Mine {};
  isthmus::PlanOptions options;
  options.budgetShare = 0.6;
  options.effort = 1e6;
  options.progress = [](double, double) -> bool { throw Mine(); };
  EXPECT_THROW(chain(30).build().plan(options), Mine);
  options.progress = [](double, double) { return false; };
  EXPECT_FALSE(chain(30).build().plan(options).schedule().empty()); // what needs no search
  options.budgetShare = 0.02;                                       // which no schedule meets
  try {
    chain(30).build().plan(options);
    FAIL() << "a search that was ended throws";
  } catch (const isthmus::Error &e) {
    EXPECT_EQ(e.status(), ISTHMUS_CANCELLED);
  }
}

// Searches that would take weeks, ended from the thread that began them.
TEST(Hpp, AnotherThreadCancels) {
  constexpr int kCount = 3;
  std::atomic<int> begun{0}, cancelled{0};
  std::atomic<bool> isStopped{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kCount; ++t)
    threads.emplace_back([&] {
      bool isFirst = true; // question of this search
      isthmus::PlanOptions options;
      options.budgetShare = 0.6;
      options.effort = 1e6;
      options.progress = [&](double, double) {
        begun += std::exchange(isFirst, false);
        const bool ends = isStopped;
        cancelled += ends;
        return !ends;
      };
      try {
        chain(30).build().plan(options);
      } catch (const isthmus::Error &e) {
        EXPECT_EQ(e.status(), ISTHMUS_CANCELLED) << e.what();
      }
    });
  while (begun < kCount)
    std::this_thread::yield();
  isStopped = true;
  for (std::thread &t : threads)
    t.join();
  EXPECT_EQ(cancelled, kCount);
}

const char *const kModel = R"(isthmus 2
graph @g {
  input %x : f32[64, 256]
  param %w : f32[256, 256] = normal {std = 0.1, seed = 1}
  %a = matmul(%x, %w)
  %b = gelu(%a)
  %c = matmul(%b, %w)
  %d = gelu(%c)
  %e = matmul(%d, %w)
  %f = gelu(%e)
  output %f
}
)";

TEST(Hpp, GraphsGoThere) {
  isthmus::CompileOptions options;
  options.loss = "mean";
  options.policy = ISTHMUS_BUDGET;
  options.budgetShare = 0.9;
  options.effort = 0.05;
  const isthmus::Compiled compiled = isthmus::Graph::parse(kModel).compile(options);
  const isthmus::Graph small = compiled.graph();
  EXPECT_EQ(compiled.figures().nodes, compiled.liveBytes().size());
  EXPECT_GE(compiled.layout().size(), compiled.liveBytes().size());
  EXPECT_NE(compiled.report().find("isthmus.report/1"), std::string::npos);
  EXPECT_NE(small.text().find("clone("), std::string::npos);
  EXPECT_EQ(small.dot().find("// g"), 0u);
  const std::string path = testing::TempDir() + "small.isth";
  small.save(path);
  EXPECT_EQ(isthmus::Graph::load(path).text(), small.text());
}

TEST(Hpp, StepsOverSeveralDevices) {
  isthmus::CompileOptions options;
  options.loss = "mean";
  options.stages = 2;
  options.microBatches = 2;
  options.schedule = "gpipe";
  options.checkpoint = "never";
  options.devices = "cpu:2,cpu:5";
  options.balance = "1,2";
  const isthmus::Compiled compiled = isthmus::Graph::parse(kModel).compile(options);
  ASSERT_EQ(compiled.devices().size(), 2u);
  EXPECT_STREQ(compiled.devices()[1].device, "cpu:5");
  EXPECT_EQ(std::max(compiled.devices()[0].predicted_peak_bytes,
                     compiled.devices()[1].predicted_peak_bytes),
            compiled.figures().predicted_peak_bytes);
  EXPECT_TRUE(compiled.liveBytes().empty() && compiled.layout().empty());
  EXPECT_NE(compiled.graph().text().find("@cpu:5"), std::string::npos);
}

TEST(Hpp, BudgetsOfGraphsThatCannotBeMet) {
  const isthmus::Graph step = isthmus::Graph::parse(kModel).differentiate("mean");
  isthmus::CompileOptions options;
  options.policy = ISTHMUS_BUDGET;
  options.budgetBytes = 1000;
  options.effort = 0.05;
  try {
    step.compile(options);
    ADD_FAILURE() << "1000 bytes suffice";
  } catch (const isthmus::CompileError &e) {
    EXPECT_EQ(e.status(), ISTHMUS_CANNOT_BE_MET);
    options.budgetBytes = e.compiled().figures().smallest_budget_bytes;
  }
  EXPECT_GT(options.budgetBytes, 1000);
  EXPECT_LE(step.compile(options).figures().arena_bytes, options.budgetBytes);
  options.progress = [](double, double) -> bool { throw std::runtime_error("mine"); };
  EXPECT_THROW(step.compile(options), std::runtime_error);
}

// The results of several calls of the library, one after the other.
std::vector<std::string> resultsOf(unsigned seed) {
  std::vector<std::string> out;
  for (unsigned i = 0; i < 4; ++i) {
    isthmus::PlanOptions options;
    options.budgetShare = 0.5 + 0.1 * i;
    options.effort = 0.01;
    options.seed = seed;
    options.place = i % 2;
    try {
      isthmus::Plan plan = chain(10 + int(i)).build().plan(options);
      const std::vector<std::uint32_t> s = plan.schedule();
      out.emplace_back(s.begin(), s.end());
      out.push_back(std::to_string(plan.layout().arenaBytes));
    } catch (const isthmus::Error &e) {
      out.push_back(e.what());
    }
    isthmus::CompileOptions within;
    within.loss = "mean";
    within.policy = ISTHMUS_BUDGET;
    within.budgetShare = 0.9;
    within.effort = 0.01;
    out.push_back(isthmus::Graph::parse(kModel).compile(within).graph().text());
    EXPECT_THROW(isthmus::Graph::parse("isthmus 2\ngraph @g {\n  output %x\n}\n"), isthmus::Error);
  }
  return out;
}

// Each thread with handles of its own.
std::vector<std::vector<std::string>> byThreads(unsigned count) {
  std::vector<std::vector<std::string>> got(count);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t)
    threads.emplace_back([&, t] { got[t] = resultsOf(t); });
  for (std::thread &t : threads)
    t.join();
  return got;
}

std::vector<std::vector<std::string>> byOneThread(unsigned count) {
  std::vector<std::vector<std::string>> got;
  for (unsigned t = 0; t < count; ++t)
    got.push_back(resultsOf(t));
  return got;
}

// Run alone, these are the process's first calls.
TEST(Hpp, ThreadsCallFirst) {
  const auto got = byThreads(6);
  EXPECT_EQ(got, byOneThread(6));
}

// Under Helgrind (host_test.py): it knows locks, and not how C++ makes statics once.
TEST(Hpp, ThreadsCallAgain) {
  const auto expected = byOneThread(3);
  EXPECT_EQ(byThreads(3), expected);
}

} // namespace
