// Tests cuts into stages: the bound holds for every cut of small graphs, and is reached on chains.

#include "passes/stages/cut.h"
#include "passes/stages/cut_bound.h"
#include "passes/compile/compile.h"
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
    const Cut gpt2 = cutOf("gpt2", {{"depth", "16"}, {"width", "64"}, {"heads", "4"}, {"batch", "2"},
                                    {"tokens", "32"}, {"vocab", "100"}},
                           stages);
    EXPECT_LE(gpt2.seconds[gpt2.slowest()], 1.05 * gpt2.boundSeconds);
    const Cut unet = cutOf("unet", {{"batch", "2"}, {"width", "8"}}, stages);
    EXPECT_LE(unet.seconds[unet.slowest()], 1.05 * unet.boundSeconds);
  }
}

} // namespace
} // namespace isthmus
