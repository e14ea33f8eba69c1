// Tests the whole compilation through the interface that embedding programs call.

#include "passes/compile/compile.h"
#include "passes/compile/effect.h"
#include "passes/compile/gradient.h"
#include "tools/zoo/zoo.h"
#include "gtest/gtest.h"

namespace isthmus {
namespace {

Graph zoo(llvm::StringRef name, const ZooOptions &options) {
  return llvm::cantFail(buildZoo(name, options));
}
Graph smallNet() { return zoo("resnet", {{"depth", "20"}, {"batch", "2"}, {"shape", "3x32x32"}}); }

CompileOptions crossEntropy() {
  CompileOptions o;
  o.step.loss = LossOptions{LossKind::CrossEntropy};
  return o;
}

// The kind of error and its text, or "" for none.
struct Failure {
  ErrorKind kind = ErrorKind::Internal;
  std::string text;
  std::vector<std::string> options; // of its remedies
};
template <typename T> Failure failureOf(llvm::Expected<T> e) {
  Failure f;
  if (e)
    return f;
  llvm::handleAllErrors(e.takeError(), [&](const DiagError &d) {
    f.kind = d.kind;
    f.text = d.diags.front().message;
    for (const Remedy &r : d.diags.front().remedies)
      f.options.push_back(r.option);
  });
  return f;
}

std::vector<OutputKind> kindsOf(const Graph &g) {
  std::vector<OutputKind> kinds;
  for (size_t i = 0; i < g.outputs().size(); ++i)
    kinds.push_back(g.role(i).kind);
  return kinds;
}

TEST(Compile, AForwardGraphWithinABudget) {
  CompileOptions o = crossEntropy();
  std::vector<std::string> notes;
  o.step.note = [&](const Remark &r) { notes.push_back(r.text); };
  auto all = llvm::cantFail(compile(smallNet(), o, Target()));
  o.plan = Budget{Budget::Share, 0, 0.6};
  auto c = llvm::cantFail(compile(smallNet(), o, Target()));
  EXPECT_EQ(c.figures.baselinePeakBytes, all.figures.predictedPeakBytes);
  EXPECT_EQ(c.budgetBytes, int64_t(0.6 * double(c.figures.baselinePeakBytes)));
  EXPECT_LE(c.layout.arenaBytes, *c.budgetBytes);
  EXPECT_EQ(c.layout.peakBytes, c.figures.predictedPeakBytes);
  EXPECT_GT(c.figures.clones, 0u);
  EXPECT_EQ(c.figures.mode, "train");
  EXPECT_EQ(c.graph.record.policy, PlannedBy::Budget);
  EXPECT_EQ(c.graph.record.target, Target().name);
  EXPECT_EQ(c.graph.record.budgetBytes, c.budgetBytes);
  EXPECT_FALSE(c.original.hasClones());
  EXPECT_EQ(kindsOf(c.graph), kindsOf(c.original));
  ASSERT_EQ(notes.size(), 2u); // one for each compilation
  EXPECT_NE(notes[0].find("it trains"), std::string::npos);

  // A planned graph is compiled again: first unchanged, then with a new plan, which must be the
  // same.
  o.plan = AsItIs();
  o.step.loss.reset();
  auto kept = llvm::cantFail(compile(c.graph, o, Target()));
  EXPECT_EQ(kept.figures.predictedPeakBytes, c.figures.predictedPeakBytes);
  EXPECT_EQ(kept.figures.clones, c.figures.clones);
  o.plan = Budget{Budget::Share, 0, 0.6};
  auto again = llvm::cantFail(compile(c.graph, o, Target()));
  EXPECT_EQ(again.figures.arenaBytes, c.figures.arenaBytes);
}

// A search that evicts single values gets stuck in long chains with many small ops beside them. It
// must also evict whole segments.
TEST(Compile, TheLeastIsNoMoreThanThatOfAPolicy) {
  const Graph net = zoo(
      "iresnet",
      {{"depth", "48"}, {"levels", "1"}, {"width", "8"}, {"batch", "64"}, {"shape", "3x16x16"}});
  CompileOptions o = crossEntropy();
  o.plan = PolicyOptions{Policy::Memory, ""};
  const auto policy = llvm::cantFail(compile(net, o, Target()));
  o.plan = Budget{Budget::Smallest};
  const auto least = llvm::cantFail(compile(net, o, Target()));
  EXPECT_LT(least.figures.predictedPeakBytes, policy.figures.predictedPeakBytes);
}

// Its bottlenecks alone need 0.48 of the peak.
TEST(Compile, MemoryTakesFrontiersWhereTheyNeedLess) {
  CompileOptions o = crossEntropy();
  o.plan = PolicyOptions{Policy::Memory, ""};
  const Figures f =
      llvm::cantFail(compile(zoo("resnet", {{"depth", "50"}, {"batch", "16"}}), o, Target()))
          .figures;
  EXPECT_EQ(f.policyUsed, PlannedBy::Frontiers);
  EXPECT_LT(double(f.predictedPeakBytes), 0.4 * double(f.baselinePeakBytes));
}

TEST(Compile, WhatCannotBeMetTellsWhatCan) {
  CompileOptions o = crossEntropy();
  o.plan = Budget{Budget::Bytes, 1, 0};
  auto c = compile(smallNet(), o, Target());
  ASSERT_FALSE(bool(c));
  int64_t smallest = 0;
  llvm::handleAllErrors(c.takeError(), [&](const NotWithin &e) {
    EXPECT_EQ(e.kind, ErrorKind::CannotBeMet);
    ASSERT_EQ(e.diags.size(), 1u);
    ASSERT_FALSE(e.diags[0].remedies.empty());
    EXPECT_EQ(e.diags[0].remedies[0].option, "budget");
    smallest = *e.figures.smallestBudgetBytes;
    EXPECT_EQ(e.diags[0].remedies[0].value, std::to_string(smallest));
    EXPECT_GE(smallest, *e.figures.lowerBoundBytes);
  });
  o.plan = Budget{Budget::Bytes, smallest, 0};
  EXPECT_LE(llvm::cantFail(compile(smallNet(), o, Target())).layout.arenaBytes, smallest);
}

TEST(Compile, ALimitOnMemoryCountsWhatIsAlwaysThere) {
  CompileOptions o = crossEntropy();
  auto all = llvm::cantFail(compile(smallNet(), o, Target()));
  o.memoryLimitBytes = all.figures.persistentBytes + all.figures.arenaBytes - 64;
  auto c = llvm::cantFail(compile(smallNet(), o, Target()));
  EXPECT_LE(c.figures.persistentBytes + c.layout.arenaBytes, *o.memoryLimitBytes);
  o.plan = PolicyOptions(); // keeps everything, and does not search
  Failure f = failureOf(compile(smallNet(), o, Target()));
  EXPECT_EQ(f.kind, ErrorKind::CannotBeMet);
  EXPECT_EQ(f.options, (std::vector<std::string>{"memory-limit", "budget"}));
}

TEST(Effect, IsLittleByItsFigures) {
  const AskedOfPeak policy{.lower = true, .any = true}, budget{.any = true},
      parts{.parts = true, .lower = true, .any = true};
  auto effect = [](int64_t before, int64_t after, double added, const AskedOfPeak &asked) {
    Figures f;
    f.baselinePeakBytes = before;
    f.predictedPeakBytes = after;
    f.recomputeOverhead = added;
    return littleEffect(f, asked);
  };
  EXPECT_EQ(effect(1000, 995, 0.01, policy), LittleEffect::PeakStays);
  EXPECT_EQ(effect(1000, 995, 0.01, budget), std::nullopt); // as was asked
  EXPECT_EQ(effect(1000, 1000, 0, AskedOfPeak()), std::nullopt);
  EXPECT_EQ(effect(1000, 1001, 0, parts), LittleEffect::PartsTakeMore);
  EXPECT_EQ(effect(1000, 500, 0.3, policy), std::nullopt);
  EXPECT_EQ(effect(1000, 980, 0.3, policy), LittleEffect::IsDear);
  EXPECT_EQ(effect(1000, 980, 0.3, budget), LittleEffect::IsDear);

  Figures f;
  f.simulatedSeconds = 1;
  f.stages.resize(3);
  f.stages[0].busySeconds = 0.9;
  f.stages[1].busySeconds = 0.4;
  f.stages[2].busySeconds = 0.6;
  EXPECT_EQ(idleStages(f), std::vector<size_t>{1});
}

// A request that does nothing says so, by the node that stops it.
TEST(Effect, IsNotedWithItsCause) {
  CompileOptions o = crossEntropy();
  std::vector<Remark> notes;
  o.step.note = [&](const Remark &r) { notes.push_back(r); };
  o.plan = Budget{Budget::Smallest};
  // One layer, whose weight's gradient is most of the peak.
  const ZooOptions wide = {{"depth", "1"}, {"width", "64"}, {"batch", "2"}, {"shape", "4096"}};
  const Compiled c = llvm::cantFail(compile(zoo("mlp", wide), o, Target()));
  ASSERT_EQ(littleEffect(c.figures, askedOfPeak(o)), LittleEffect::PeakStays);
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes.back().text.find("the peak stays at"), std::string::npos) << notes.back().text;
  EXPECT_NE(notes.back().text.find("; it is reached at '"), std::string::npos);
}

TEST(Compile, ErrorsHaveAKind) {
  CompileOptions o;
  Failure noLoss = failureOf(compile(smallNet(), o, Target()));
  EXPECT_EQ(noLoss.kind, ErrorKind::BadInput);
  EXPECT_EQ(noLoss.text, "the graph names no loss");
  EXPECT_EQ(noLoss.options, std::vector<std::string>{"loss"});

  o = crossEntropy();
  o.step.loss->classAxis = 7;
  Failure axis = failureOf(compile(smallNet(), o, Target()));
  EXPECT_EQ(axis.kind, ErrorKind::BadInput);
  EXPECT_EQ(axis.options, std::vector<std::string>{"class-axis"});
  EXPECT_EQ(axis.text.find("--"), std::string::npos) << "flags are the command line's";
}

// The target's lowering is applied, unless the caller asks for exact passes only.
TEST(Compile, ExactPassesAlone) {
  Target target;
  target.fusesBias = true;
  target.channelsLast = {DType::F32};
  CompileOptions o = crossEntropy();
  auto fast = llvm::cantFail(compile(smallNet(), o, target));
  EXPECT_TRUE(fast.graph.record.channelsLast);
  EXPECT_TRUE(fast.graph.record.fusedBias);
  o.exactOnly = true;
  auto exact = llvm::cantFail(compile(smallNet(), o, target));
  EXPECT_FALSE(exact.graph.record.channelsLast);
  EXPECT_FALSE(exact.graph.record.fusedBias);
  o.lowering = LoweringOptions();
  o.exactOnly = false;
  auto plain = llvm::cantFail(compile(smallNet(), o, target));
  EXPECT_EQ(plain.graph.numNodes(), exact.graph.numNodes());
}

// An output's role says what the output is, whatever its name.
TEST(Compile, OutputsHaveRoles) {
  auto c = llvm::cantFail(compile(smallNet(), crossEntropy(), Target()));
  const Graph &g = c.graph;
  size_t gradients = 0, states = 0;
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const OutputRole &role = g.role(i);
    gradients += role.kind == OutputKind::Gradient;
    states += role.kind == OutputKind::NextState;
    if (role.kind == OutputKind::Gradient) {
      EXPECT_EQ(g.type(role.of), g.type(g.outputs()[i]));
      EXPECT_EQ(g.inputOf(role.of)->kind, InputKind::Param);
      EXPECT_EQ(role.order, 1u);
    } else if (role.kind == OutputKind::NextState) {
      EXPECT_EQ(g.inputOf(role.of)->kind, InputKind::State);
    }
  }
  size_t params = 0, averages = 0;
  for (const Input &input : g.inputs()) {
    params += input.kind == InputKind::Param;
    averages += input.kind == InputKind::State;
  }
  EXPECT_EQ(gradients, params);
  EXPECT_EQ(states, averages);

  GradientOptions second;
  CompileOptions o;
  o.step.loss = LossOptions{LossKind::Value, "loss"};
  auto twice = llvm::cantFail(withGradients(c.graph, o, second));
  size_t ofSecond = 0;
  for (size_t i = 0; i < twice.outputs().size(); ++i)
    ofSecond += twice.role(i).order == 2;
  EXPECT_EQ(ofSecond, params);
  EXPECT_FALSE(twice.hasClones());
}

} // namespace
} // namespace isthmus
