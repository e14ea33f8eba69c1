// A problem that is given as arrays has the same plans as the same problem given as JSON.

#include "tests/doors/arrays.h"
#include "tests/passes/random_problem.h"
#include "gtest/gtest.h"
#include <memory>

namespace isthmus::doors {
namespace {

using Problem = std::unique_ptr<isthmus_problem, decltype(&isthmus_problem_free)>;
using Plan = std::unique_ptr<isthmus_plan, decltype(&isthmus_plan_free)>;

// Returns an empty problem if the library refuses the arrays; `why` then holds its message.
Problem fromArrays(const isthmus_arrays &a, std::string &why) {
  isthmus_problem *p = nullptr;
  isthmus_error *error = nullptr;
  isthmus_problem_from_arrays(&a, &p, &error);
  why = isthmus_error_message(error);
  isthmus_error_free(error);
  return {p, isthmus_problem_free};
}

Problem fromJson(const std::string &json, std::string &why) {
  isthmus_problem *p = nullptr;
  isthmus_error *error = nullptr;
  isthmus_problem_from_json(json.data(), json.size(), &p, &error);
  why = isthmus_error_message(error);
  isthmus_error_free(error);
  return {p, isthmus_problem_free};
}

std::string printed(const isthmus_problem *p, isthmus_problem_form form) {
  isthmus_text *text = nullptr;
  EXPECT_EQ(isthmus_problem_print(p, form, &text, nullptr), ISTHMUS_OK);
  const std::string out = isthmus_text_data(text, nullptr);
  isthmus_text_free(text);
  return out;
}

struct Planned {
  isthmus_status status;
  plan::Schedule schedule;
  isthmus_figures figures = {};
};

Planned planned(const isthmus_problem *p, double share) {
  isthmus_plan_options options;
  isthmus_plan_options_init(&options, sizeof options);
  options.budget_share = share;
  options.effort = 0.005;
  isthmus_plan *plan = nullptr;
  Planned out{isthmus_plan_make(p, &options, &plan, nullptr), {}};
  const Plan owned(plan, isthmus_plan_free);
  size_t steps = 0;
  const uint32_t *ops = isthmus_plan_schedule(plan, &steps);
  out.schedule.assign(ops, ops + steps);
  out.figures.size = sizeof out.figures;
  EXPECT_EQ(isthmus_plan_figures(plan, &out.figures, nullptr), ISTHMUS_OK);
  return out;
}

plan::Problem drawn(plan::Rng &rng) {
  for (;;) {
    plan::Problem p = plan::randomProblem(rng, 8);
    p.order = plan::Order(plan::below(rng, 3));
    for (OpIndex i = 2; i < p.ops.size() && p.order == plan::Order::Phases; ++i)
      if (p.ops[i].phase == plan::OpPhase::Forward && plan::below(rng, 3) == 0)
        p.forwardOutputs.push_back(i);
    if (plan::below(rng, 2))
      plan::addOverwrites(p, rng);
    plan::addAlternatives(p, rng, 3);
    if (Expressible::is(p))
      return Expressible::of(p);
  }
}

plan::Problem withoutRepeatedOutputs(plan::Problem p) {
  std::vector<Read> outputs;
  for (const Read &r : p.outputs)
    if (std::find(outputs.begin(), outputs.end(), r) == outputs.end())
      outputs.push_back(r);
  p.outputs = outputs;
  return p;
}

TEST(ArraysAndJson, AreOneProblem) {
  plan::Rng rng(1);
  size_t transfers = 0, recomputed = 0, savedByDonations = 0;
  for (int i = 0; i < 800; ++i) {
    plan::Problem p = drawn(rng);
    std::string why;
    Problem a = fromArrays(Arrays(p).get(), why);
    ASSERT_TRUE(a) << i << ": " << why << "\n" << jsonOf(p);
    Problem j = fromJson(jsonOf(p), why);
    ASSERT_TRUE(j) << i << ": " << why << "\n" << jsonOf(p);
    Problem again = fromJson(printed(a.get(), ISTHMUS_JOINT_GRAPH), why);
    ASSERT_TRUE(again) << i << ": " << why << "\n" << jsonOf(p);
    Problem once =
        fromArrays(Arrays(withoutRepeatedOutputs(p)).get(), why); // which a file lists once
    ASSERT_EQ(printed(again.get(), ISTHMUS_OPS), printed(once.get(), ISTHMUS_OPS)) << i;
    const double share = 0.5 + 0.01 * double(rng() % 50);
    const Planned byArrays = planned(a.get(), share), byJson = planned(j.get(), share);
    ASSERT_EQ(byArrays.status, byJson.status) << i << "\n" << jsonOf(p);
    ASSERT_EQ(byArrays.schedule, byJson.schedule) << i << "\n" << jsonOf(p);
    ASSERT_EQ(byArrays.figures.peak_bytes, byJson.figures.peak_bytes) << i;
    ASSERT_EQ(byArrays.figures.cost, byJson.figures.cost) << i;
    // And the peak is what the problem means by it.
    ASSERT_EQ(byArrays.figures.peak_bytes, plan::Slow::peak(p, byArrays.schedule)) << i;
    transfers += byArrays.figures.transfers;
    recomputed += byArrays.figures.recomputed;
    for (Op &op : p.ops)
      op.donations.clear();
    Problem without = fromArrays(Arrays(p).get(), why);
    savedByDonations += planned(without.get(), 1).figures.baseline_peak_bytes >
                        byArrays.figures.baseline_peak_bytes;
  }
  EXPECT_GT(transfers, 20u);
  EXPECT_GT(recomputed, 100u);
  EXPECT_GT(savedByDonations, 60u);
}

// x, pinned, then a, b = f(a), an offload and a prefetch of a, and another form of b.
plan::Problem withAlternatives() {
  plan::Problem p;
  auto add = [&](std::vector<Read> inputs, std::vector<int64_t> bytes) -> Op & {
    Op op;
    op.inputs = std::move(inputs);
    op.outputBytes = std::move(bytes);
    p.ops.push_back(op);
    return p.ops.back();
  };
  add({}, {8}).isPinned = true;
  add({{0, 0}}, {8});
  add({{1, 0}}, {8, 4});
  auto alternative = [&](Op &op, Op::Transfer transfer, OpIndex of) {
    op.isAlternative = true;
    op.transfer = transfer;
    op.of = of;
  };
  alternative(add({{1, 0}}, {}), Op::Transfer::StartOffload, Op::kNone);
  alternative(add({{3, 0}}, {0}), Op::Transfer::WaitOffload, Op::kNone);
  alternative(add({{4, 0}}, {8}), Op::Transfer::StartPrefetch, Op::kNone);
  alternative(add({{5, 0}}, {8}), Op::Transfer::WaitPrefetch, 1);
  alternative(add({{0, 0}}, {8, 4}), Op::Transfer::None, 2);
  p.outputs = {{2, 0}};
  return p;
}

TEST(ArraysAndJson, RefuseWhatIsNoAlternative) {
  struct Case {
    void (*spoil)(plan::Problem &);
    const char *why;
  };
  const Case cases[] = {
      {[](plan::Problem &p) { p.ops[7].of = 0; }, "op 7: it is of op 0, which has no storage"},
      {[](plan::Problem &p) { p.ops[7].of = 6; }, "op 7: it is of op 6, which has no storage"},
      {[](plan::Problem &p) { p.ops[7].of = 90; }, "op 7: it is of op 90, and there are 8"},
      {[](plan::Problem &p) { p.ops[7].ofOutput = 2; }, "op 7: it is of output 2 of op 2, which"},
      {[](plan::Problem &p) {
         p.ops[7].outputBytes = {8, 8};
       },
       "op 7: its bytes are not those of"},
      {[](plan::Problem &p) { p.ops[7].isPinned = true, p.ops[7].outputBytes = {8}; },
       "op 7: an alternative must be neither a view nor pinned"},
      {[](plan::Problem &p) { p.ops[7].inputs[0].op = 5; }, "op 7: it reads op 5, the start of a"},
      {[](plan::Problem &p) { p.ops[7].inputs[0].op = 4; }, "op 7: prefetches, and nothing else"},
      {[](plan::Problem &p) { p.ops[5].inputs[0].op = 1; }, "op 5: prefetches, and nothing else"},
      {[](plan::Problem &p) { p.ops[4].inputs[0].op = 5; }, "expected one wait for the transfer"},
      {[](plan::Problem &p) { p.ops[4].inputs[0].op = 1; }, "expected one wait for the transfer"},
      {[](plan::Problem &p) { p.ops[4].of = 1; }, "op 4: the wait for a prefetch has an 'of'"},
      {[](plan::Problem &p) { p.ops[6].of = Op::kNone; }, "op 6: the wait for a prefetch has an"},
      {[](plan::Problem &p) { p.ops[3].inputs.clear(); }, "op 3: a transfer needs an input"},
      {[](plan::Problem &p) {
         p.ops[3].inputs.push_back({2, 0});
       },
       "op 3: the start of a transfer"},
      {[](plan::Problem &p) {
         p.ops[6].donations = {{0, 0}};
       },
       "op 6: a wait makes nothing"},
      {[](plan::Problem &p) { p.ops[5].transferTime = -1; }, "op 5: its transfer time"},
      {[](plan::Problem &p) {
         p.ops[2].donations = {{2, 0}};
       },
       "op 2: its input 0 donates to its"},
      {[](plan::Problem &p) {
         p.ops[2].donations = {{0, 1}};
       },
       "op 2: its input 1 donates to its"},
      {[](plan::Problem &p) { p.ops[2].inputs[0].op = 7; }, "op 2: it reads op 7, which does not"},
      {[](plan::Problem &p) {
         p.outputs = {{7, 0}};
       },
       "op 7: an alternative can be no output"},
      {[](plan::Problem &p) { p.forwardOutputs = {7}; }, "op 7: it cannot be a forward output"},
  };
  std::string why;
  const plan::Problem good = withAlternatives();
  ASSERT_TRUE(fromArrays(Arrays(good).get(), why)) << why;
  for (const Case &c : cases) {
    plan::Problem p = good;
    c.spoil(p);
    EXPECT_FALSE(fromArrays(Arrays(p).get(), why)) << c.why;
    EXPECT_NE(why.find(c.why), std::string::npos) << why << "\nexpected " << c.why;
  }
  Arrays a(good);
  const std::vector<uint8_t> kinds(good.ops.size(), 5);
  a.get().kind = kinds.data();
  EXPECT_FALSE(fromArrays(a.get(), why));
  EXPECT_NE(why.find("none of isthmus_kind"), std::string::npos) << why;
}

TEST(ArraysAndJson, RefuseADonationToAWait) {
  std::string json = jsonOf(Expressible::of(withAlternatives())), why;
  ASSERT_TRUE(fromJson(json, why)) << why;
  // The wait for the prefetch makes no instance, so none can take bytes over.
  const std::string wait = "\"may_reuse\": [], \"of\": 1, \"kind\": \"copy_wait\"";
  ASSERT_NE(json.find(wait), std::string::npos) << json;
  json.replace(json.find(wait), 15, "\"may_reuse\": [[0, 0]]");
  EXPECT_FALSE(fromJson(json, why));
  EXPECT_NE(why.find("nothing can be donated"), std::string::npos) << why;
}

} // namespace
} // namespace isthmus::doors
