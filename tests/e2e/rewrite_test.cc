// Compares rewritten graphs with their originals, on random graphs with dropout, batch norm, views
// and ops of several results. The runtime, which shares no code with the reference interpreter,
// must give the same bits with the predicted peak.

#include "ir/verifier.h"
#include "kernels/plain/register.h"
#include "passes/checkpoint/policy.h"
#include "passes/differentiate/differentiate.h"
#include "passes/place/place.h"
#include "passes/plan/checkpoint_schedule.h"
#include "passes/rewrite/original.h"
#include "passes/rewrite/rematerialize.h"
#include "passes/simplify/dce.h"
#include "runtime/cpu_device.h"
#include "runtime/executor.h"
#include "tests/testing/interpret.h"
#include "tools/random/draw.h"
#include "tools/random/random_graph.h"
#include "gtest/gtest.h"
#include <cstring>

using namespace isthmus;

namespace {

class Rewrites : public ::testing::Test {
protected:
  Rewrites() {
    registerPlainKernels(kernels_);
    device_ = makeCpuDevice(kernels_, {2});
  }

  // A random graph with the gradients of its loss with respect to all parameters.
  static Graph trainingGraph(uint64_t seed) {
    RandomGraphOptions o;
    o.seed = seed;
    o.steps = 10 + seed % 30;
    o.dtype = seed % 2 ? DType::F32 : DType::F64;
    o.mostElements = 64;
    Graph g = randomGraph(o);
    ValueList params;
    for (const Input &i : g.inputs())
      if (i.kind == InputKind::Param)
        params.push_back(i.value);
    ValueList grads = cantFail(gradients(g, {g.loss}, params));
    addGradientOutputs(g, params, grads);
    return withoutDeadNodes(g);
  }

  using Inputs = std::map<std::string, Tensor>;
  static Inputs drawInputs(const Graph &g, uint64_t seed) {
    Inputs out;
    for (const Input &i : g.inputs()) {
      const Type &t = g.type(i.value);
      Tensor &to = out[g.valueName(i.value).str()];
      if (i.init.kind == Initializer::Kind::Data)
        to = i.init.data;
      else if (i.init.kind == Initializer::Kind::Fill)
        to = fromDoubles(t, std::vector<double>(t.elements(), i.init.args.getFloat("value")));
      else
        to = draw(t, seed + i.value.index);
    }
    return out;
  }

  std::vector<Tensor> reference(const Graph &g, const Inputs &inputs) {
    llvm::DenseMap<ValueId, Tensor> values;
    for (const Input &i : g.inputs())
      values[i.value] = inputs.at(g.valueName(i.value).str());
    InterpretOptions o;
    o.random = {7, 0};
    return cantFail(interpret(kernels_, g, values, o));
  }

  // Rewrites by `schedule`, runs the result, and compares it with `want`.
  void check(const Graph &g, const GraphProblem &p, const plan::Schedule &schedule,
             const Inputs &inputs, const std::vector<Tensor> &want) {
    plan::Evaluation predicted = plan::evaluate(p.problem, schedule);
    ASSERT_EQ(predicted.error, "");
    Graph rewritten = rematerialize(g, p, schedule);
    if (llvm::Error e = verify(rewritten))
      FAIL() << llvm::toString(std::move(e));
    Layout layout = cantFail(place(rewritten, device_->target()));
    ASSERT_EQ(layout.peakBytes, predicted.peakBytes);
    auto e = cantFail(Executor::create(rewritten, layout, *device_));
    for (const Input &i : rewritten.inputs())
      cantFail(e->feed(i.value, inputs.at(rewritten.valueName(i.value).str())));
    for (int step = 0; step < 2; ++step) { // the second step starts with the first step's bytes
      cantFail(e->step({7, 0}));
      ASSERT_EQ(e->measuredPeakBytes(), predicted.peakBytes);
      ASSERT_EQ(rewritten.outputs().size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        Tensor got = cantFail(e->fetch(rewritten.outputs()[i]));
        ASSERT_EQ(rewritten.valueName(rewritten.outputs()[i]), g.valueName(g.outputs()[i]));
        ASSERT_EQ(std::memcmp(got.data, want[i].data, got.bytes()), 0)
            << "output " << rewritten.valueName(rewritten.outputs()[i]).str();
      }
    }
    Graph back = originalOf(rewritten);
    ASSERT_EQ(back.numNodes(), g.numNodes());
    for (uint32_t i = 0; i < g.numNodes(); ++i)
      ASSERT_EQ(back.nodeName(NodeId(i)), g.nodeName(NodeId(i)));
  }

  KernelTable kernels_;
  std::unique_ptr<Device> device_;
};

TEST_F(Rewrites, RandomKeepOrRecomputeChoicesGiveTheSameBits) {
  size_t recomputed = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Graph g = trainingGraph(seed);
    GraphProblem p = cantFail(extractProblem(g, device_->target()));
    Inputs inputs = drawInputs(g, seed);
    std::vector<Tensor> want = reference(g, inputs);
    Random random(seed);
    std::vector<std::vector<bool>> keep;
    size_t share = 1 + random.below(5);
    for (const plan::Op &op : p.problem.ops) {
      keep.emplace_back(std::max<size_t>(1, op.outputBytes.size()));
      for (size_t o = 0; o < keep.back().size(); ++o)
        keep.back()[o] = random.oneIn(share);
    }
    plan::Schedule s = plan::checkpointSchedule(p.problem, keep);
    recomputed += plan::evaluate(p.problem, s).recomputed;
    check(g, p, s, inputs, want);
    if (HasFatalFailure())
      return;
  }
  EXPECT_GT(recomputed, 500u);
}

// Schedules that no policy would choose: ops that may run again run at random places, any number of
// times.
TEST_F(Rewrites, RandomRecomputationsAnywhereGiveTheSameBits) {
  for (uint64_t seed = 1000; seed < 1200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Graph g = trainingGraph(seed);
    GraphProblem p = cantFail(extractProblem(g, device_->target()));
    Inputs inputs = drawInputs(g, seed);
    std::vector<Tensor> want = reference(g, inputs);
    Random random(seed);
    plan::Schedule s;
    for (plan::OpIndex op : plan::sourceOrder(p.problem)) {
      s.push_back(op);
      while (random.oneIn(3)) {
        plan::OpIndex again = s[random.below(s.size())];
        if (p.problem.ops[again].recomputable)
          s.push_back(again);
      }
    }
    check(g, p, s, inputs, want);
    if (HasFatalFailure())
      return;
  }
}

TEST_F(Rewrites, EveryPolicyGivesTheSameBits) {
  for (uint64_t seed = 2000; seed < 2100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Graph g = trainingGraph(seed);
    GraphProblem p = cantFail(extractProblem(g, device_->target()));
    Inputs inputs = drawInputs(g, seed);
    std::vector<Tensor> want = reference(g, inputs);
    for (Policy policy : {Policy::None, Policy::Speed, Policy::Memory, Policy::Collection}) {
      auto plan = planPolicy(g, p, {policy, ""});
      if (!plan) { // for example, there is no matrix product or no mark
        llvm::consumeError(plan.takeError());
        continue;
      }
      EXPECT_LE(plan->planned.peakBytes, plan->baseline.peakBytes);
      check(g, p, plan->schedule, inputs, want);
      if (HasFatalFailure())
        return;
    }
  }
}

// A loss that is no output may be recomputed, but the original stays the loss to differentiate.
TEST_F(Rewrites, TheLossIsNoClone) {
  Graph g;
  ValueId x = cantFail(g.addInput(InputKind::Param, "x", Type(DType::F64, {3})));
  g.loss = Builder(g).create("exp", {Builder(g).create("mean", {x}, {}, "m")}, {}, "loss");
  ValueList grads = cantFail(gradients(g, {g.loss}, {x})); // exp's gradient reads its result
  addGradientOutputs(g, {x}, grads);
  GraphProblem p = cantFail(extractProblem(g, device_->target()));
  std::vector<std::vector<bool>> none(p.problem.ops.size(), std::vector<bool>(1, false));
  plan::Schedule s = plan::checkpointSchedule(p.problem, none);
  Inputs inputs = drawInputs(g, 1);
  check(g, p, s, inputs, reference(g, inputs));

  Graph rewritten = rematerialize(g, p, s);
  ValueId clone = rewritten.find("loss.re");
  ASSERT_TRUE(clone) << "nothing was recomputed";
  EXPECT_EQ(rewritten.loss, rewritten.find("loss"));
  Graph back = originalOf(rewritten);
  EXPECT_EQ(back.loss, back.find("loss"));
  rewritten.loss = clone; // a file may say this
  back = originalOf(rewritten);
  EXPECT_EQ(back.loss, back.find("loss"));
}

} // namespace
