// Live values, the decisions of tensors and their reasons, on graphs small enough to know the
// answers; and sums on random graphs.

#include "passes/checkpoint/bottleneck_choice.h"
#include "passes/differentiate/differentiate.h"
#include "passes/inspect/explain.h"
#include "passes/place/place.h"
#include "passes/plan/checkpoint_schedule.h"
#include "passes/plan/overwrites.h"
#include "passes/rewrite/rematerialize.h"
#include "passes/simplify/dce.h"
#include "tests/passes/random_problem.h"
#include "tests/passes/small_graphs.h"
#include "tools/random/random_graph.h"
#include "gtest/gtest.h"
#include <numeric>

using namespace isthmus;

namespace {

using Kind = TensorDecision::Kind;
using Why = BottleneckDecision::Why;

// Sizes in bytes: a, b 4096, loss 64, d, c 8192, and g, which takes over c or d. Live bytes by
// node:
//   0 a                        4096
//   1 b = cos(a)               8192
//   2 loss = mean(b)           8256
//   3 d = concat(b, b)        16448   b dies
//   4 c = concat(a, a)        20544   a dies: the peak, a 4096, d and c 16384, loss 64
//   5 g = mul(d, c)           16448
struct Small {
  Graph g{"small"};
  ValueId a, b, d, c;

  Small() {
    Builder f(g);
    ValueId x = addInput(g, "x", Type(DType::F32, {1024}), InputKind::Param);
    a = f.create("tanh", {x}, {}, "a");
    b = f.create("cos", {a}, {}, "b");
    g.loss = f.create("mean", {b}, {}, "loss");
    g.addOutput(g.loss);
    Builder back(g, Phase::Backward);
    d = back.create("concat", {b, b}, {{"axis", 0}}, "d");
    c = back.create("concat", {a, a}, {{"axis", 0}}, "c");
    g.addOutput(back.create("mul", {d, c}, {}, "grad.x"));
  }

  GraphProblem problem() const { return cantFail(extractProblem(g, Target())); }
  // The graph with `a` recomputed just before `c`.
  Graph rewritten() const {
    GraphProblem p = problem();
    auto op = [&](uint32_t node) { return p.opOf(NodeId(node)); };
    return rematerialize(g, p, {op(0), op(1), op(2), op(3), op(0), op(4), op(5)});
  }
};

Explanation explained(const Graph &g, const Graph &original, ExplainOptions o = {}) {
  o.policyUsed = o.policyUsed == PlannedBy::Nothing ? plannedBy(o.policy) : o.policyUsed;
  return cantFail(explain(g, original, Target(), o));
}

int64_t of(const PeakContents &c, LiveKind k) { return c.bytesOf[size_t(k)]; }

TEST(Explain, PeakOfAGraphByKind) {
  Small s;
  PeakContents peak = explained(s.g, s.g).planned;
  EXPECT_EQ(peak.bytes, 20544);
  EXPECT_EQ(s.g.nodeName(peak.node), "c");
  EXPECT_EQ(of(peak, LiveKind::Saved), 4096);
  EXPECT_EQ(of(peak, LiveKind::Recomputed), 0);
  EXPECT_EQ(of(peak, LiveKind::ActivationGradient), 2 * 8192);
  EXPECT_EQ(of(peak, LiveKind::OtherOutput), 64);
  ASSERT_EQ(peak.tensors.size(), 4u);
  EXPECT_EQ(peak.tensors[0].value, s.d);
  EXPECT_EQ(peak.tensors[0].first, 3u);
  EXPECT_EQ(peak.tensors[0].last, 5u);
  EXPECT_EQ(peak.tensors[2].value, s.a);
}

TEST(Explain, WhatIsMadeAgainIsRecomputed) {
  Small s;
  Graph r = s.rewritten();
  Explanation e = explained(r, s.g);
  EXPECT_EQ(e.baseline.bytes, 20544);
  EXPECT_EQ(of(e.baseline, LiveKind::Saved), 4096);
  EXPECT_EQ(e.planned.bytes, 20544);
  EXPECT_EQ(of(e.planned, LiveKind::Saved), 0);
  EXPECT_EQ(of(e.planned, LiveKind::Recomputed), 4096);
  EXPECT_EQ(e.recomputations, 1u);
  ASSERT_EQ(e.tensors.size(), 2u); // a and b, both of 4096 bytes, in order
  const TensorDecision &a = e.tensors[0];
  EXPECT_EQ(r.valueName(a.value), "a");
  EXPECT_EQ(a.kind, Kind::Recomputed);
  EXPECT_EQ(a.recomputations, 1u);
  EXPECT_NEAR(a.addedUs, e.plannedUs - e.baselineUs, 1e-9);
  EXPECT_GT(a.addedUs, 0);
  // `a` is not live from its reader b, node 1, to its clone, node 4. Between them b, d and the loss
  // are live.
  ASSERT_EQ(a.away.size(), 1u);
  EXPECT_EQ(a.away[0].from, 1u);
  EXPECT_EQ(a.away[0].to, 4u);
  EXPECT_EQ(a.away[0].live, 4096 + 8192 + 64);
  EXPECT_EQ(e.tensors[1].kind, Kind::Kept);
}

TEST(Explain, WhatIsKeptIsHeldAgainstMakingItAgain) {
  Small s;
  Explanation e = explained(s.g, s.g);
  ASSERT_EQ(e.tensors.size(), 2u);
  const TensorDecision &a = e.tensors[0];
  EXPECT_EQ(a.kind, Kind::Kept);
  ASSERT_TRUE(a.kept.has_value()); // idle between b and c; the most live bytes in between are at d
  EXPECT_EQ(a.kept->from, 1u);
  EXPECT_EQ(a.kept->to, 4u);
  EXPECT_EQ(a.kept->live, 16448);
  ASSERT_TRUE(a.eviction.has_value()); // from the input x; the peak is where the result is used
  EXPECT_EQ(a.eviction->runs, 1u);
  EXPECT_NEAR(a.eviction->us, a.runUs, 1e-12);
  EXPECT_EQ(a.eviction->peakBytes, 20544);
  // b is read at once, so it has no idle interval in which it could be evicted.
  EXPECT_FALSE(e.tensors[1].eviction.has_value());
  EXPECT_EQ(e.totals[size_t(Kind::Kept)].tensors, 2u);
  EXPECT_EQ(e.totals[size_t(Kind::Kept)].bytes, 2 * 4096);
  EXPECT_EQ(e.totals[size_t(Kind::Output)].tensors, 2u);
  EXPECT_EQ(e.totals[size_t(Kind::Gradient)].bytes, 2 * 8192);
}

// f = tanh(x), v = a view of it, m = cos(v), and backward nodes that read v again after the peak.
// When f is recomputed, its view is rebuilt too.
TEST(Explain, AViewIsMadeAgainWithItsBase) {
  Graph g("viewed");
  Builder f(g);
  ValueId x = addInput(g, "x", Type(DType::F32, {1024}), InputKind::Param);
  ValueId h = f.create("tanh", {x}, {}, "h");
  ValueId v = f.reshape(h, {32, 32});
  ValueId m = f.create("cos", {v}, {}, "m");
  g.loss = f.create("mean", {m}, {}, "loss");
  g.addOutput(g.loss);
  Builder back(g, Phase::Backward);
  ValueId big = back.create("concat", {m, m, m, m}, {{"axis", 0}}, "big"); // the peak
  ValueId s = back.create("mean", {big}, {}, "s");
  ValueId y = back.create("mul", {v, v}, {}, "y");
  g.addOutput(back.create("add", {y, s}, {}, "grad.v"));
  Explanation e = explained(g, g);
  EXPECT_EQ(e.planned.bytes, 4096 + 4096 + 4 * 4096 + 64); // h, m, big, loss
  ASSERT_FALSE(e.tensors.empty());
  const TensorDecision &t = e.tensors[0];
  EXPECT_EQ(t.value, h);
  ASSERT_TRUE(t.eviction.has_value());
  EXPECT_EQ(t.eviction->runs, 1u);
  EXPECT_EQ(t.eviction->peakBytes, e.planned.bytes - 4096);
}

TEST(Explain, TensorsByName) {
  Small s;
  ExplainOptions o;
  o.of = "?,grad.*";
  Explanation e = explained(s.g, s.g, o);
  std::vector<std::string> names;
  for (const TensorDecision &f : e.tensors)
    names.push_back(s.g.valueName(f.value).str());
  EXPECT_EQ(names, (std::vector<std::string>{"d", "c", "grad.x", "a", "b"})); // x is always live
  EXPECT_EQ(e.tensors[2].kind, Kind::Output);
  o.of = "aa";
  auto none = explain(s.g, s.g, Target(), o);
  EXPECT_NE(llvm::toString(none.takeError()).find("no value or node is called 'aa'"),
            std::string::npos);
  o.of = "x";
  auto inputs = explain(s.g, s.g, Target(), o);
  EXPECT_NE(llvm::toString(inputs.takeError()).find("always live"), std::string::npos);
}

// --- Bottlenecks

// 16 layers; the backward pass reads each h, so that N = 16 and one in 4 is kept: h5, h9, h13.
struct Net {
  Graph g{"net"};
  Net() {
    Builder b(g);
    ValueId h = addInput(g, "x", Type(DType::F32, {512, 64}));
    ValueList params;
    for (int i = 1; i <= 16; ++i) {
      std::string n = std::to_string(i);
      params.push_back(addInput(g, "w" + n, Type(DType::F32, {64, 64}), InputKind::Param));
      h = b.create("tanh", {b.create("matmul", {h, params.back()}, {}, "m" + n)}, {}, "h" + n);
    }
    g.loss = b.create("mean", {h}, {}, "loss");
    g.addOutput(g.loss);
    addGradientOutputs(g, params, cantFail(gradients(g, {g.loss}, params)));
  }

  Explanation plan(Policy policy, const std::string &list = "") {
    GraphProblem p = cantFail(extractProblem(g, Target()));
    PolicyResult r = cantFail(planPolicy(g, p, {policy, list}));
    Graph rewritten = rematerialize(g, p, r.schedule);
    ExplainOptions o;
    o.policy = policy;
    o.policyUsed = r.policyUsed;
    for (ValueId v : r.checkpoints)
      o.checkpoints.push_back(rewritten.find(g.valueName(v)));
    Explanation e = explained(rewritten, g, o);
    EXPECT_EQ(e.planned.bytes, r.planned.peakBytes);
    EXPECT_NEAR(e.plannedUs, r.planned.cost, 1e-6);
    for (const BottleneckDecision &b : e.bottlenecks)
      why[rewritten.valueName(b.value).str()] = b.why;
    return e;
  }
  std::map<std::string, Why> why;
};

TEST(Explain, BottlenecksByTheRulesOfMemory) {
  Net n;
  Explanation e = n.plan(Policy::Memory);
  EXPECT_EQ(e.checkpointTarget, 4);
  EXPECT_EQ(e.checkpointStep, 4u);
  EXPECT_EQ(n.why.size(), 33u);
  EXPECT_EQ(n.why["m7"], Why::NotRead);
  EXPECT_EQ(n.why["loss"], Why::End);
  for (int i = 1; i <= 16; ++i)
    EXPECT_EQ(n.why["h" + std::to_string(i)],
              i == 5 || i == 9 || i == 13 ? Why::Taken : Why::InSegment)
        << i;
}

TEST(Explain, BottlenecksByOtherPolicies) {
  Net collection;
  collection.plan(Policy::Collection, "h4,h8");
  EXPECT_EQ(collection.why["h4"], Why::Taken);
  EXPECT_EQ(collection.why["h5"], Why::NotNamed);
  Net none;
  Explanation e = none.plan(Policy::None);
  EXPECT_EQ(none.why["h4"], Why::Price);
  EXPECT_EQ(e.bottlenecks[1].tensor.kind, Kind::Kept);
  EXPECT_EQ(e.bottlenecks[0].tensor.kind, Kind::Passing); // the gradient of tanh reads its result
}

TEST(BottleneckChoice, SaysWhyNot) {
  Graph g("reasons");
  Builder b(g);
  ValueId w = addInput(g, "w", Type(DType::F32, {64, 64}), InputKind::Param);
  ValueId x = addInput(g, "x", Type(DType::F32, {64, 64}));
  ValueId h = b.create("tanh", {b.create("matmul", {x, w}, {}, "m")}, {}, "h");
  ValueId flat = b.reshape(h, {4096});
  ValueId wide = b.cast(flat, DType::F64);
  ValueId few = b.sum(b.reshape(wide, {64, 64}), {0}, /*keepDims=*/false);
  g.loss = b.create("mean", {few}, {}, "loss");
  g.addOutput(g.loss);
  addGradientOutputs(g, {w}, cantFail(gradients(g, {g.loss}, {w})));
  std::map<ValueId, BottleneckChoice::Decision> decisions;
  for (const auto &c : chooseBottlenecks(g, storageRoots(g)).candidates)
    decisions[c.value] = c.decision;
  EXPECT_EQ(decisions.at(h), BottleneckChoice::Decision::Taken);
  EXPECT_EQ(decisions.at(flat), BottleneckChoice::Decision::SameStorage);
  EXPECT_EQ(decisions.at(wide), BottleneckChoice::Decision::KindOfOp);
  EXPECT_EQ(decisions.at(few), BottleneckChoice::Decision::Small);
  EXPECT_EQ(decisions.at(g.find("m")), BottleneckChoice::Decision::NotRead);
}

// --- Sums

TEST(Instances, AddUpToWhatIsLiveOnRandomProblems) {
  plan::Rng rng(5);
  size_t donations = 0;
  for (int i = 0; i < 2000; ++i) {
    plan::Problem p = plan::randomProblem(rng);
    plan::Schedule s = plan::sourceOrder(p);
    for (size_t k = 0; k < s.size(); k += 1 + plan::below(rng, 6))
      if (plan::OpIndex again = s[plan::below(rng, k + 1)]; p.ops[again].recomputable)
        s.insert(s.begin() + int64_t(k) + 1, again);
    plan::Evaluation e = plan::evaluate(p, s);
    ASSERT_EQ(e.error, "");
    std::vector<plan::Instance> instances = plan::instancesOf(p, s);
    std::vector<int64_t> live(s.size());
    for (size_t t = 0; t < s.size(); ++t)
      live[t] = p.rounded(p.ops[s[t]].workspace);
    for (const plan::Instance &c : instances) {
      for (uint32_t t = c.first; t <= c.last; ++t)
        live[t] += c.bytes;
      ASSERT_TRUE(std::is_sorted(c.uses.begin(), c.uses.end()));
      if (c.donatedTo == plan::Instance::kNotDonated)
        continue;
      ++donations;
      ASSERT_EQ(instances[c.donatedTo].first, c.last);
      live[c.last] -= instances[c.donatedTo].bytes;
    }
    auto most = std::max_element(live.begin(), live.end());
    ASSERT_EQ(*most, plan::Slow::peak(p, s)) << "problem " << i;
    ASSERT_EQ(*most, e.peakBytes);
    ASSERT_EQ(size_t(most - live.begin()), e.peakStep);
  }
  EXPECT_GT(donations, 1000u);
}

// A random schedule: either ops that may repeat run again any number of times, or a random set of
// values is kept.
plan::Schedule randomSchedule(const plan::Problem &p, Random &random) {
  if (random.oneIn(2)) {
    std::vector<std::vector<bool>> keep;
    for (const plan::Op &op : p.ops) {
      keep.emplace_back(std::max<size_t>(1, op.outputBytes.size()));
      for (size_t o = 0; o < keep.back().size(); ++o)
        keep.back()[o] = random.oneIn(3);
    }
    return plan::checkpointSchedule(p, keep);
  }
  plan::Schedule s;
  for (plan::OpIndex op : plan::sourceOrder(p)) {
    s.push_back(op);
    while (random.oneIn(4))
      if (plan::OpIndex again = s[random.below(s.size())]; p.ops[again].recomputable)
        s.push_back(again);
  }
  return plan::withLateOverwrites(p, s);
}

void checkSums(const PeakContents &c, int64_t peak) {
  EXPECT_EQ(c.bytes, peak);
  EXPECT_EQ(std::accumulate(c.bytesOf.begin(), c.bytesOf.end(), int64_t(0)), peak);
  int64_t tensors = 0;
  for (const LiveTensor &l : c.tensors)
    tensors += l.bytes;
  EXPECT_EQ(tensors, peak);
}

TEST(Explain, PartsAddUpOnRandomGraphs) {
  size_t recomputations = 0, evictions = 0;
  for (uint64_t seed = 0; seed < 150 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraphOptions options;
    options.seed = seed;
    options.steps = unsigned(10 + seed % 30);
    Graph g = randomGraph(options);
    ValueList params;
    for (const Input &i : g.inputs())
      if (i.kind == InputKind::Param)
        params.push_back(i.value);
    addGradientOutputs(g, params, cantFail(gradients(g, {g.loss}, params)));
    g = withoutDeadNodes(g);
    GraphProblem p = cantFail(extractProblem(g, Target()));
    Random random(seed);
    plan::Schedule s = randomSchedule(p.problem, random);
    plan::Evaluation judged = plan::evaluate(p.problem, s);
    ASSERT_EQ(judged.error, "");
    Graph rewritten = rematerialize(g, p, s);
    ExplainOptions o;
    o.top = 1000;
    Explanation e = explained(rewritten, g, o);
    checkSums(e.baseline, plan::evaluate(p.problem, plan::sourceOrder(p.problem)).peakBytes);
    checkSums(e.planned, judged.peakBytes);
    EXPECT_EQ(e.planned.bytes, cantFail(place(rewritten, Target())).peakBytes);
    EXPECT_NEAR(e.plannedUs, judged.cost, 1e-6 * judged.cost);
    EXPECT_EQ(e.recomputations, judged.recomputed);
    recomputations += e.recomputations;
    for (const TensorDecision &f : e.tensors) {
      EXPECT_EQ(f.recomputations > 0, f.kind == Kind::Recomputed);
      if (!f.eviction)
        continue;
      ++evictions;
      EXPECT_GE(f.eviction->runs, 1u);
      EXPECT_GE(f.eviction->us, f.runUs);
    }
  }
  EXPECT_GT(recomputations, 1000u); // enough for the comparison to mean something
  EXPECT_GT(evictions, 300u);
}

} // namespace
