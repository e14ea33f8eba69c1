// Compares isthmus_plan_layout with a simulation of the schedule, which shares no code with the
// planner or the placer.

#include "tests/doors/arrays.h"
#include "tests/passes/random_problem.h"
#include "gtest/gtest.h"
#include <memory>
#include <tuple>

namespace isthmus::doors {
namespace {

// One instance, by definition.
struct Copy {
  OpIndex op;
  uint32_t output;
  uint32_t born, last; // steps
  int64_t bytes;
  int takesFrom = -1; // whose bytes were donated to it
};

class Simulated {
public:
  Simulated(const plan::Problem &p, const plan::Schedule &s) : p_(p), s_(s) {
    for (OpIndex i = 0; i < p.ops.size(); ++i)
      if (p.ops[i].isPinned)
        newest_[{i, 0}] = -1;
    for (uint32_t t = 0; t < s.size(); ++t)
      run(t);
    for (const Read &r : p.outputs)
      if (int c = newest_.at({r.op, r.output}); c >= 0)
        copies[c].last = uint32_t(s.size() - 1), stays_.insert(c);
    for (uint32_t t = 0; t < s.size(); ++t)
      donate(t);
  }

  std::vector<Copy> copies;

private:
  void run(uint32_t t) {
    const Op &op = p_.ops[s_[t]];
    std::vector<int> read;
    for (const Read &r : op.inputs) {
      auto held = held_.find(r.op);
      for (int c :
           held == held_.end() ? std::vector<int>{newest_.at({r.op, r.output})} : held->second) {
        read.push_back(c);
        if (c >= 0)
          copies[c].last = t;
      }
    }
    reads_.push_back(read);
    made_.emplace_back();
    if (op.transfer == Op::Transfer::StartOffload)
      held_[s_[t]] = read;
    if (op.isView())
      newest_[{s_[t], 0}] = read[op.viewOf];
    for (uint32_t o = 0; !op.isView() && o < op.outputBytes.size(); ++o) {
      if (op.transfer == Op::Transfer::WaitPrefetch) {
        newest_[{s_[t], o}] = read[o];
      } else {
        newest_[{s_[t], o}] = int(copies.size());
        made_[t].push_back(int(copies.size()));
        copies.push_back({s_[t], o, t, t, p_.rounded(op.outputBytes[o])});
      }
      if (op.of != Op::kNone)
        newest_[{op.of, op.ofOutput == Op::kAllOutputs ? o : op.ofOutput}] = newest_[{s_[t], o}];
    }
  }

  void donate(uint32_t t) {
    std::set<int> given;
    for (const Op::Donation &d : p_.ops[s_[t]].donations) {
      const int from = reads_[t][d.input], to = made_[t][d.output];
      if (from < 0 || copies[from].last != t || copies[from].born == t || stays_.count(from) ||
          given.count(from) || copies[to].takesFrom >= 0 || copies[from].bytes < copies[to].bytes)
        continue;
      given.insert(from);
      copies[to].takesFrom = from;
    }
  }

  const plan::Problem &p_;
  const plan::Schedule &s_;
  std::map<std::pair<OpIndex, uint32_t>, int> newest_;
  std::map<OpIndex, std::vector<int>> held_; // by a start of an offload
  std::vector<std::vector<int>> reads_, made_;
  std::set<int> stays_;
};

std::vector<isthmus_block> layoutOf(const isthmus_problem *problem, isthmus_plan *plan,
                                    int64_t *arena) {
  const isthmus_block *blocks = nullptr;
  size_t n = 0;
  isthmus_error *error = nullptr;
  EXPECT_EQ(isthmus_plan_layout(problem, plan, &blocks, &n, arena, &error), ISTHMUS_OK)
      << isthmus_error_message(error);
  isthmus_error_free(error);
  return {blocks, blocks + n};
}

bool overlap(int64_t a, int64_t aBytes, int64_t b, int64_t bBytes) {
  return a < b + bBytes && b < a + aBytes;
}

// Holds the blocks against the schedule; gives how many took over donated bytes.
size_t check(const plan::Problem &p, const plan::Schedule &s,
             const std::vector<isthmus_block> &blocks, int64_t arena) {
  const std::vector<Copy> copies = Simulated(p, s).copies;
  std::vector<isthmus_block> instances, workspaces;
  for (const isthmus_block &b : blocks)
    (b.output == ISTHMUS_NONE ? workspaces : instances).push_back(b);
  EXPECT_EQ(instances.size(), copies.size());
  int64_t end = 0;
  size_t taken = 0;
  for (size_t i = 0; i < instances.size(); ++i) {
    const isthmus_block &b = instances[i];
    const Copy &c = copies[i];
    EXPECT_EQ(std::tie(b.op, b.output, b.first_step, b.last_step, b.bytes),
              std::tie(c.op, c.output, c.born, c.last, c.bytes));
    for (size_t k = 0; k < i; ++k) {
      const isthmus_block &a = instances[k];
      if (a.last_step < b.first_step || b.last_step < a.first_step)
        continue;
      if (c.takesFrom == int(k)) {
        EXPECT_EQ(a.offset, b.offset);
        ++taken;
      } else {
        EXPECT_FALSE(overlap(a.offset, a.bytes, b.offset, b.bytes)) << k << " " << i;
      }
    }
  }
  size_t next = 0;
  for (uint32_t t = 0; t < s.size(); ++t) {
    const int64_t bytes = p.rounded(p.ops[s[t]].workspace);
    if (bytes == 0)
      continue;
    if (next >= workspaces.size()) {
      ADD_FAILURE() << "step " << t << " has no workspace";
      break;
    }
    const isthmus_block &w = workspaces[next++];
    EXPECT_EQ(std::tie(w.op, w.first_step, w.last_step, w.bytes), std::tie(s[t], t, t, bytes));
    for (const isthmus_block &b : instances) {
      const bool isLive = b.first_step <= t && t <= b.last_step;
      EXPECT_FALSE(isLive && overlap(b.offset, b.bytes, w.offset, w.bytes)) << "step " << t;
    }
  }
  EXPECT_EQ(next, workspaces.size());
  for (const isthmus_block &b : blocks) {
    end = std::max(end, b.bytes > 0 ? b.offset + b.bytes : 0);
    EXPECT_GE(b.offset, 0);
    EXPECT_EQ(b.offset % p.alignment, 0);
  }
  EXPECT_EQ(end, arena);
  return taken;
}

TEST(Layout, WhatLivesAtOnceDoesNotOverlap) {
  plan::Rng rng(2);
  size_t taken = 0, tight = 0, met = 0;
  for (int i = 0; i < 300; ++i) {
    plan::Problem p = plan::randomProblem(rng, 12);
    plan::addAlternatives(p, rng, 3);
    if (!Expressible::is(p))
      continue;
    isthmus_problem *problem = nullptr;
    Arrays arrays(p);
    ASSERT_EQ(isthmus_problem_from_arrays(&arrays.get(), &problem, nullptr), ISTHMUS_OK);
    isthmus_plan_options options;
    isthmus_plan_options_init(&options, sizeof options);
    options.budget_share = 0.6 + 0.01 * double(rng() % 50);
    options.effort = 0.005;
    options.place = i % 2;
    isthmus_plan *plan = nullptr;
    const isthmus_status status = isthmus_plan_make(problem, &options, &plan, nullptr);
    ASSERT_TRUE(plan) << i;
    size_t steps = 0;
    const uint32_t *ops = isthmus_plan_schedule(plan, &steps);
    isthmus_figures figures;
    figures.size = sizeof figures;
    isthmus_plan_figures(plan, &figures, nullptr);
    int64_t arena = 0;
    const std::vector<isthmus_block> blocks = layoutOf(problem, plan, &arena);
    taken += check(p, plan::Schedule(ops, ops + steps), blocks, arena);
    ASSERT_FALSE(HasFailure()) << "problem " << i;
    EXPECT_GE(arena, figures.peak_bytes);
    tight += double(arena) <= 1.01 * double(figures.peak_bytes);
    if (options.place && status == ISTHMUS_OK) {
      ++met;
      const int64_t budget = int64_t(options.budget_share * double(figures.baseline_peak_bytes));
      EXPECT_LE(arena, budget) << i;
    }
    isthmus_plan_free(plan);
    isthmus_problem_free(problem);
  }
  EXPECT_GT(taken, 50u);
  EXPECT_GT(tight, 50u);
  EXPECT_GT(met, 20u);
}

TEST(Layout, IsOfItsProblem) {
  plan::Rng rng(3);
  plan::Problem p = plan::randomProblem(rng, 12), q = plan::randomProblem(rng, 3);
  isthmus_problem *one = nullptr, *other = nullptr;
  Arrays a(p), b(q);
  ASSERT_EQ(isthmus_problem_from_arrays(&a.get(), &one, nullptr), ISTHMUS_OK);
  ASSERT_EQ(isthmus_problem_from_arrays(&b.get(), &other, nullptr), ISTHMUS_OK);
  isthmus_plan_options options;
  isthmus_plan_options_init(&options, sizeof options);
  options.budget_share = 1;
  isthmus_plan *plan = nullptr;
  ASSERT_EQ(isthmus_plan_make(one, &options, &plan, nullptr), ISTHMUS_OK);
  const isthmus_block *blocks = nullptr;
  size_t n = 0;
  int64_t arena = 0;
  EXPECT_EQ(isthmus_plan_layout(other, plan, &blocks, &n, &arena, nullptr), ISTHMUS_BAD_CALL);
  EXPECT_EQ(isthmus_plan_layout(one, plan, nullptr, &n, &arena, nullptr), ISTHMUS_BAD_CALL);
  EXPECT_EQ(isthmus_plan_layout(one, plan, &blocks, &n, &arena, nullptr), ISTHMUS_OK);
  isthmus_plan_free(plan);
  isthmus_problem_free(one);
  isthmus_problem_free(other);
}

} // namespace
} // namespace isthmus::doors
