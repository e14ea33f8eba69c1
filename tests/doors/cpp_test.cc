// Tests isthmus.h from a C++ program with an LLVM of its own: the library's symbols and the
// program's do not mix.

#include "tools/c/isthmus.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"
#include <random>
#include <thread>

namespace {

TEST(CLibrary, LivesBesideAnotherLlvm) {
  llvm::Error mine = llvm::createStringError(llvm::inconvertibleErrorCode(), "mine");
  isthmus_graph *graph = nullptr;
  isthmus_error *error = nullptr;
  const std::string text = "isthmus 2\ngraph @g {\n  %y = oops(%x)\n}\n";
  EXPECT_EQ(isthmus_graph_from_text(text.data(), text.size(), &graph, &error), ISTHMUS_BAD_INPUT);
  EXPECT_EQ(graph, nullptr);
  EXPECT_NE(std::string(isthmus_error_message(error)).find("oops"), std::string::npos);
  isthmus_error_free(error);
  EXPECT_EQ(llvm::toString(std::move(mine)), "mine");
}

TEST(CLibrary, ThreadsUseHandlesOfTheirOwn) {
  auto plan = [](int64_t *peak) {
    const std::string text = R"(isthmus 2
graph @g {
  input %x : f32[64, 64]
  param %w : f32[64, 64]
  %a = matmul(%x, %w)
  %b = gelu(%a)
  %c = matmul(%b, %w)
  output %c
}
)";
    isthmus_graph *forward = nullptr;
    isthmus_compiled *compiled = nullptr;
    isthmus_compile_options options;
    isthmus_compile_options_init(&options, sizeof options);
    options.loss = "mean";
    options.wrt = "w";
    options.policy = ISTHMUS_BUDGET;
    options.effort = 0.02;
    isthmus_compiled_figures figures;
    figures.size = sizeof figures;
    ASSERT_EQ(isthmus_graph_from_text(text.data(), text.size(), &forward, nullptr), ISTHMUS_OK);
    ASSERT_EQ(isthmus_compile(forward, &options, nullptr, &compiled, nullptr), ISTHMUS_OK);
    ASSERT_EQ(isthmus_compiled_get_figures(compiled, &figures, nullptr), ISTHMUS_OK);
    *peak = figures.predicted_peak_bytes;
    isthmus_compiled_free(compiled);
    isthmus_graph_free(forward);
  };
  int64_t peaks[4] = {};
  std::vector<std::thread> threads;
  for (int64_t &peak : peaks)
    threads.emplace_back(plan, &peak);
  for (std::thread &t : threads)
    t.join();
  for (int64_t peak : peaks) {
    EXPECT_GT(peak, 0);
    EXPECT_EQ(peak, peaks[0]); // the same plan, whoever made it
  }
}

// Whatever numbers stand in the arrays: a problem or a reason, and plans of what is a problem.
TEST(CLibrary, TakesArraysOfAnyNumbers) {
  std::mt19937_64 random(1);
  size_t good = 0, bad = 0;
  for (int i = 0; i < 3000; ++i) {
    const size_t n = 1 + random() % 8;
    const bool isWild = random() % 2;
    auto below = [&](uint64_t most) {
      return random() % (isWild && random() % 8 == 0 ? 1000 : most);
    };
    std::vector<double> cost;
    std::vector<int64_t> workspace, bytes;
    std::vector<uint8_t> phase, flags;
    std::vector<size_t> outputBegin = {0}, inputBegin = {0};
    std::vector<uint32_t> inputOp, inputOutput, outputOp;
    std::vector<int32_t> viewOf;
    std::vector<size_t> donationBegin = {0};
    std::vector<uint32_t> donationOutput, donationInput, ofOp, ofOutput;
    std::vector<uint8_t> kind;
    std::vector<double> transferTime;
    const bool hasAlternatives = random() % 2;
    for (size_t op = 0; op < n; ++op) {
      cost.push_back(double(below(9)) - (isWild && random() % 50 == 0 ? 100 : 0));
      workspace.push_back(int64_t(below(50)) - (isWild && random() % 50 == 0 ? 100 : 0));
      phase.push_back(uint8_t(op * 2 < n ? 0 : 1));
      flags.push_back(uint8_t(op == 0 ? ISTHMUS_PINNED : below(8) == 0 ? ISTHMUS_RUNS_ONCE : 0));
      for (size_t k = op == 0 ? 0 : below(3); k > 0; --k) {
        inputOp.push_back(uint32_t(below(op)));
        inputOutput.push_back(uint32_t(below(isWild ? 2 : 1)));
      }
      inputBegin.push_back(inputOp.size());
      const bool isView = inputBegin[op] < inputBegin[op + 1] && below(5) == 0;
      viewOf.push_back(isView ? int32_t(below(inputBegin[op + 1] - inputBegin[op])) : -1);
      for (size_t k = isView || op == 0 ? 1 : 1 + below(2); k > 0; --k)
        bytes.push_back(isView ? 0 : int64_t(below(100)));
      outputBegin.push_back(bytes.size());
      for (size_t k = below(3); k > 0 && inputBegin[op] < inputBegin[op + 1]; --k) {
        donationOutput.push_back(uint32_t(below(2)));
        donationInput.push_back(uint32_t(below(inputBegin[op + 1] - inputBegin[op])));
      }
      donationBegin.push_back(donationOutput.size());
      const bool isAlternative = hasAlternatives && op > 1 && below(3) == 0;
      kind.push_back(uint8_t(isAlternative && isWild ? below(5) : 0));
      ofOp.push_back(isAlternative ? uint32_t(below(op)) : ISTHMUS_NONE);
      ofOutput.push_back(below(2) ? ISTHMUS_NONE : uint32_t(below(2)));
      transferTime.push_back(double(below(5)));
    }
    outputOp.push_back(uint32_t(below(n)));
    isthmus_arrays a = {};
    a.size = sizeof a;
    a.num_ops = n;
    a.cost = cost.data();
    a.workspace = workspace.data();
    a.phase = phase.data();
    a.flags = flags.data();
    a.output_begin = outputBegin.data();
    a.output_bytes = bytes.data();
    a.input_begin = inputBegin.data();
    a.input_op = inputOp.data() ? inputOp.data() : outputOp.data();
    a.input_output = inputOutput.data() ? inputOutput.data() : outputOp.data();
    a.view_of = viewOf.data();
    a.num_outputs = 1;
    a.output_op = outputOp.data();
    a.order = int32_t(below(3));
    a.donation_begin = donationBegin.data();
    a.donation_output = donationOutput.data() ? donationOutput.data() : outputOp.data();
    a.donation_input = donationInput.data() ? donationInput.data() : outputOp.data();
    a.kind = kind.data();
    a.of_op = ofOp.data();
    a.of_output = ofOutput.data();
    a.transfer_time = transferTime.data();
    isthmus_problem *problem = nullptr;
    isthmus_error *error = nullptr;
    const isthmus_status status = isthmus_problem_from_arrays(&a, &problem, &error);
    ASSERT_TRUE(status == ISTHMUS_OK || status == ISTHMUS_BAD_INPUT) << i;
    ASSERT_EQ(status == ISTHMUS_OK, problem != nullptr) << i;
    if (!problem) {
      ASSERT_STRNE(isthmus_error_message(error), "") << i;
      isthmus_error_free(error);
      ++bad;
      continue;
    }
    ++good;
    isthmus_plan_options options;
    isthmus_plan_options_init(&options, sizeof options);
    options.effort = 0.001;
    options.budget_share = 0.01 * double(random() % 100);
    isthmus_plan *plan = nullptr;
    const isthmus_status planned = isthmus_plan_make(problem, &options, &plan, nullptr);
    ASSERT_TRUE(planned == ISTHMUS_OK || planned == ISTHMUS_CANNOT_BE_MET) << i;
    size_t steps = 0;
    const uint32_t *schedule = isthmus_plan_schedule(plan, &steps);
    isthmus_plan *judged = nullptr;
    ASSERT_EQ(isthmus_plan_from_schedule(problem, schedule, steps, &judged, nullptr), ISTHMUS_OK)
        << i;
    isthmus_plan_free(judged);
    const isthmus_block *blocks = nullptr;
    size_t count = 0;
    int64_t arena = 0;
    ASSERT_EQ(isthmus_plan_layout(problem, plan, &blocks, &count, &arena, nullptr), ISTHMUS_OK);
    isthmus_plan_free(plan);
    isthmus_problem_free(problem);
  }
  EXPECT_GT(good, 500u);
  EXPECT_GT(bad, 200u);
}

} // namespace
