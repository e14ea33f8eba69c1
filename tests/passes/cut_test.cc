// Tests cuts into stages: the bounds hold for every cut of small graphs, and are reached on chains;
// gradients stand with their forward nodes.

#include "ir/text/parser.h"
#include "passes/compile/compile.h"
#include "passes/differentiate/training_step.h"
#include "passes/stages/cut.h"
#include "passes/stages/cut_bound.h"
#include "passes/stages/messages.h"
#include "tools/random/random_graph.h"
#include "tools/zoo/zoo.h"

#include <gtest/gtest.h>
#include <random>

namespace isthmus {
namespace {

// The least slowest stage of all assignments of places to stages that ascend along edges.
double leastByTrial(const PlacesToCut &p, const std::vector<double> &weights) {
  const size_t n = p.seconds.size(), k = weights.size();
  double least = INFINITY;
  std::vector<size_t> stage(n, 0);
  while (true) {
    bool ascends = true;
    for (const auto &[from, to] : p.edges)
      ascends &= stage[from] <= stage[to];
    if (ascends) {
      std::vector<double> seconds(k, 0);
      for (size_t i = 0; i < n; ++i)
        seconds[stage[i]] += p.seconds[i] / weights[stage[i]];
      least = std::min(least, *std::max_element(seconds.begin(), seconds.end()));
    }
    size_t i = 0;
    while (i < n && ++stage[i] == k)
      stage[i++] = 0;
    if (i == n)
      return least;
  }
}

TEST(CutBound, HoldsForEveryCut) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    PlacesToCut p;
    const uint32_t n = 2 + random() % 6;
    const bool isChain = round % 3 == 0;
    for (uint32_t i = 0; i < n; ++i) {
      p.seconds.push_back(double(1 + random() % 9));
      for (uint32_t j = 0; j < i; ++j)
        if (isChain ? j + 1 == i : random() % 3 == 0)
          p.edges.push_back({j, i});
    }
    std::vector<double> weights{1, 1, 1};
    if (round % 2)
      weights = {0.5, 1.5, 1};
    const double bound = leastSlowestStage(p, weights), least = leastByTrial(p, weights);
    EXPECT_LE(bound, least * (1 + 1e-9));
    if (isChain) {
      EXPECT_NEAR(bound, least, 1e-9 * least);
    }
  }
}

// --- Cuts of training steps

Graph stepOf(const Graph &g, Wrt::Kind wrt = Wrt::Kind::Params) {
  StepOptions o;
  o.wrt.kind = wrt;
  return cantFail(trainingStep(g, o));
}

Graph stepOf(llvm::StringRef nodes) {
  return stepOf(
      cantFail(parseGraph(("isthmus 2\ngraph @g {\n" + nodes + "}\n").str(), "step.isth")));
}

Cut cutInto(const Graph &g, uint32_t stages, std::vector<std::string> ends = {}) {
  CutOptions o;
  o.stages = stages;
  o.ends = std::move(ends);
  return cantFail(cutIntoStages(g, Target(), o));
}

// Layers without activations: nothing of the backward pass needs a result of theirs.
Graph linearChain(unsigned layers) {
  std::string params, nodes, last = "x";
  for (unsigned i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i), from = std::to_string(8 + 7 * i % 48),
                      to = std::to_string(8 + 7 * (i + 1) % 48);
    params += "  param %w" + n + " : f32[" + from + ", " + to + "]\n";
    nodes += "  %h" + n + " = matmul(%" + last + ", %w" + n + ")\n";
    last = "h" + n;
  }
  return stepOf("  input %x : f32[8, 8]\n" + params + nodes + "  %l = mean(%" + last +
                ")\n  loss %l\n  output %l\n");
}

// A language model whose head has the table of its embedding.
Graph tiedModel() {
  return stepOf(R"(
  input %ids : i64[4, 3]
  input %labels : i64[12]
  param %table : f32[20, 8]
  param %u : f32[8, 8]
  param %v : f32[8, 8]
  %e = gather(%table, %ids)
  %a = matmul(%e, %u)
  %b = relu(%a)
  %c = matmul(%b, %v)
  %d = relu(%c)
  %head = transpose(%table) {perm = [1, 0]}
  %logits = matmul(%d, %head)
  %flat = reshape(%logits) {dims = [12, 20]}
  %l, %lse = cross_entropy(%flat, %labels)
  loss %l
  output %l
)");
}

// The slowest stage of each cut whose stages end behind named values; the stages' costs are added
// up anew, by the forward nodes of which the backward nodes are.
std::vector<double> slowestOfAllCuts(const Graph &g, uint32_t stages) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (g.node(NodeId(i)).phase == Phase::Forward)
      names.push_back(g.nodeName(NodeId(i)).str());
  std::vector<double> all;
  std::vector<size_t> at(stages - 1, 0); // of the ends, among the names
  while (true) {
    CutOptions o;
    o.stages = stages;
    for (size_t i : at)
      o.ends.push_back(names[i]);
    if (auto cut = cutIntoStages(g, Target(), o)) {
      std::vector<double> seconds(stages, 0);
      for (uint32_t i = 0; i < g.numNodes(); ++i) {
        const Node &n = g.node(NodeId(i));
        if (n.from.gradientOf) {
          EXPECT_EQ(cut->stageOf[i], cut->stageOf[n.from.gradientOf.index])
              << g.nodeName(NodeId(i)).str();
        }
        seconds[cut->stageOf[i]] += Target().seconds(g.call(NodeId(i)));
      }
      for (uint32_t s = 0; s < stages; ++s)
        EXPECT_NEAR(cut->seconds[s], seconds[s], 1e-9 * cut->meanSeconds);
      all.push_back(cut->seconds[cut->slowest()]);
    } else {
      llvm::consumeError(cut.takeError()); // ends that do not ascend, or behind a cast of a weight
    }
    size_t i = 0;
    while (i < at.size() && ++at[i] == names.size())
      at[i++] = 0;
    if (i == at.size())
      return all;
  }
}

void checkAllCuts(const Graph &g, uint32_t stages) {
  const std::vector<double> all = slowestOfAllCuts(g, stages);
  if (all.empty()) // fewer places than stages
    return;
  const double least = *std::min_element(all.begin(), all.end());
  const Cut cut = cutInto(g, stages);
  EXPECT_LE(cut.boundSeconds, cut.leastSeconds * (1 + 1e-9));
  EXPECT_NEAR(cut.leastSeconds, least, 1e-6 * least);
  EXPECT_LE(cut.seconds[cut.slowest()], 1.01 * least * (1 + 1e-6));
}

TEST(Cut, TheBoundHoldsForEveryCutOfTheForwardOrder) {
  for (uint32_t stages : {2, 3}) {
    checkAllCuts(linearChain(12), stages);
    checkAllCuts(tiedModel(), stages);
    for (uint64_t seed = 0; seed < 20; ++seed)
      checkAllCuts(
          stepOf(randomGraph({.seed = seed, .steps = unsigned(2 + seed % 8)}), Wrt::Kind::All),
          stages);
  }
}

// Whatever shares a cut is to have, its times are those of equal devices.
TEST(Cut, SharesDoNotChangeWhatIsSlow) {
  const Graph g = linearChain(12);
  CutOptions o;
  o.stages = 3;
  const Cut even = cantFail(cutIntoStages(g, Target(), o));
  o.shares = {4, 1, 1};
  const Cut uneven = cantFail(cutIntoStages(g, Target(), o));
  EXPECT_EQ(uneven.leastSeconds, even.leastSeconds);
  EXPECT_EQ(uneven.slowest(), 0u);
  EXPECT_GT(uneven.seconds[0], 1.5 * uneven.meanSeconds);
  o.shares.clear();
  o.speeds = {4, 1, 1};
  const Cut fast = cantFail(cutIntoStages(g, Target(), o));
  EXPECT_LT(fast.seconds[fast.slowest()], 1.2 * fast.meanSeconds);
}

TEST(Cut, GradientsOfLinearLayersStandWithThem) {
  const Graph g = linearChain(40);
  const Cut cut = cutInto(g, 4);
  EXPECT_LE(cut.seconds[cut.slowest()], 1.05 * cut.meanSeconds);
  // A file that does not say of whose gradients its nodes are.
  Graph old = g;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    old.editNode(NodeId(i)).from.gradientOf = NodeId();
  const Cut same = cutInto(old, 4);
  EXPECT_LE(same.seconds[same.slowest()], 1.1 * same.meanSeconds);
}

// Between two stages go the activations and their gradient, and the table and the sum of its last
// reader's gradients.
TEST(Cut, ATiedWeightIsSummedWhereItIsReadFirst) {
  Graph g = tiedModel();
  const Cut cut = cutInto(g, 2, {"b"});
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    g.editNode(NodeId(i)).device = "cpu:" + std::to_string(cut.stageOf[i]);
  const Graph sent = withMessages(g);
  EXPECT_EQ(sent.countNodes([](const Node &n) { return n.op->is(kSend); }), 4u);
  const ValueId sum = g.find("grad.table");
  EXPECT_EQ(cut.stageOf[g.value(sum).def.index], 0u);
}

// By its training step, cut for a target's estimates.
Cut cutOf(llvm::StringRef name, const ZooOptions &options, uint32_t stages) {
  CompileOptions o;
  o.step.loss = cantFail(parseLoss("cross_entropy"));
  const Graph g = cantFail(prepared(cantFail(buildZoo(name, options)), o));
  CutOptions cut;
  cut.stages = stages;
  return cantFail(cutIntoStages(g, Target(), cut));
}

TEST(Cut, IsCloseToTheBound) {
  for (uint32_t stages : {2, 4, 8, 16, 32}) {
    const Cut mlp = cutOf("mlp", {{"depth", "64"}, {"width", "128"}, {"shape", "128"}}, stages);
    EXPECT_LE(mlp.seconds[mlp.slowest()], 1.02 * mlp.boundSeconds);
    const Cut gpt2 = cutOf("gpt2",
                           {{"depth", "16"},
                            {"width", "64"},
                            {"heads", "4"},
                            {"batch", "2"},
                            {"tokens", "32"},
                            {"vocab", "100"}},
                           stages);
    EXPECT_LE(gpt2.seconds[gpt2.slowest()], 1.05 * gpt2.boundSeconds);
    const Cut unet = cutOf("unet", {{"batch", "2"}, {"width", "8"}}, stages);
    EXPECT_LE(unet.seconds[unet.slowest()], 1.05 * unet.boundSeconds);
  }
}

} // namespace
} // namespace isthmus
