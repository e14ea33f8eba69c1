// Random problems of a dozen ops, of the shapes that networks have.
#pragma once

#include "tests/passes/random_problem.h"

namespace isthmus::plan {

enum class Shape { Chain, Skips, Dense, Mixed };
constexpr Shape kShapes[] = {Shape::Chain, Shape::Skips, Shape::Dense, Shape::Mixed};
constexpr const char *kShapeNames[] = {"chain", "skips", "dense", "mixed"};

class SmallProblem {
public:
  // Makes a problem with as many backward ops as forward ops, at most 12 with the loss. The shape
  // determines what they read.
  static Problem make(Rng &rng, Shape shape, uint32_t leastLayers = 3) {
    if (shape == Shape::Mixed) {
      // Problems with views, several outputs, workspaces, donations, dead ops, and ops that may run
      // only once.
      Problem p = randomProblem(rng, 3);
      for (OpIndex i = 0; i < p.ops.size() && p.forwardOutputs.empty(); ++i)
        if (!p.ops[i].isPinned && p.ops[i].phase == OpPhase::Forward && below(rng, 3) == 0)
          p.forwardOutputs.push_back(i);
      return p;
    }
    return SmallProblem(rng, shape, leastLayers).p_;
  }

private:
  SmallProblem(Rng &rng, Shape shape, uint32_t leastLayers) : rng_(rng) {
    uint32_t layers = leastLayers + uint32_t(below(rng, 3));
    std::vector<OpIndex> x = {add({}, OpPhase::Forward)};
    p_.ops[0].isPinned = true;
    for (uint32_t i = 0; i < layers; ++i) {
      std::vector<Read> reads = {{x.back(), 0}};
      if (shape == Shape::Dense)
        for (size_t k = 0; k + 1 < x.size(); ++k)
          reads.push_back({x[k], 0});
      if (shape == Shape::Skips && i >= (layers + 1) / 2)
        reads.push_back({x[layers - i], 0});
      x.push_back(add(std::move(reads), OpPhase::Forward));
    }
    OpIndex g = x.back();
    for (uint32_t i = layers; i > 0; --i) {
      // The gradient of layer i reads the input or the result of layer i.
      std::vector<Read> reads = {{g, 0}};
      OpIndex kept = below(rng, 2) ? x[i] : x[i - 1];
      if (kept != g)
        reads.push_back({kept, 0});
      if (shape == Shape::Skips && i <= layers / 2)
        reads.push_back({x[layers - i], 0});
      g = add(std::move(reads), OpPhase::Backward);
    }
    p_.outputs = {{g, 0}};
    if (below(rng, 3) == 0)
      p_.outputs.push_back({x.back(), 0});
  }

  OpIndex add(std::vector<Read> reads, OpPhase phase) {
    Op op;
    op.name = "op" + std::to_string(p_.ops.size());
    op.phase = phase;
    op.cost = double(1 + below(rng_, 9));
    op.inputs = std::move(reads);
    op.outputBytes = {int64_t(5 + below(rng_, 40))};
    op.recomputable = below(rng_, 10) != 0;
    op.workspace = below(rng_, 4) ? 0 : int64_t(below(rng_, 30));
    if (!op.inputs.empty() && below(rng_, 4) == 0)
      op.donations.push_back({0, 0});
    p_.ops.push_back(op);
    return OpIndex(p_.ops.size() - 1);
  }

  Rng &rng_;
  Problem p_;
};

} // namespace isthmus::plan
