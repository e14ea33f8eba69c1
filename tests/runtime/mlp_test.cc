// The whole path on the smallest network that is worth rewriting: build, differentiate, plan,
// rewrite, place and run. The bits must be the same, and the peak as predicted.

#include "ir/builder.h"
#include "ir/verifier.h"
#include "kernels/plain/register.h"
#include "passes/checkpoint/policy.h"
#include "passes/differentiate/differentiate.h"
#include "passes/place/place.h"
#include "passes/rewrite/rematerialize.h"
#include "runtime/cpu_device.h"
#include "runtime/executor.h"
#include "gtest/gtest.h"
#include <cstring>

using namespace isthmus;

namespace {

Tensor ramp(const Type &t, double scale) {
  return Tensor::make(t, [&](char *p) {
    for (int64_t i = 0; i < t.elements(); ++i)
      reinterpret_cast<float *>(p)[i] = float(scale * (double((i * 7919) % 1009) / 500 - 1));
  });
}

struct Mlp {
  Graph g{"mlp"};

  Mlp(int layers, int64_t batch, int64_t width) {
    Builder b(g);
    ValueId h = cantFail(g.addInput(InputKind::Input, "x", Type(DType::F32, {batch, width})));
    ValueList params;
    for (int i = 0; i < layers; ++i) {
      std::string n = std::to_string(i);
      ValueId w = cantFail(g.addInput(InputKind::Param, "w" + n, Type(DType::F32, {width, width})));
      ValueId c = cantFail(g.addInput(InputKind::Param, "b" + n, Type(DType::F32, {width})));
      params.append({w, c});
      h = b.create("tanh", {b.add(b.create("matmul", {h, w}, {}, "m" + n), c)}, {}, "h" + n);
    }
    ValueId loss = b.create("mean", {b.create("square", {h})}, {}, "loss");
    g.loss = loss;
    g.addOutput(loss);
    ValueList grads = cantFail(gradients(g, {loss}, params));
    addGradientOutputs(g, params, grads);
  }
};

struct Outcome {
  std::vector<Tensor> outputs;
  int64_t predicted, measured, arena;
  size_t clones = 0;
};

Outcome runWith(const Graph &g, PolicyOptions policy) {
  KernelTable kernels;
  registerPlainKernels(kernels);
  auto device = makeCpuDevice(kernels, {2});
  GraphProblem p = cantFail(extractProblem(g, device->target()));
  PolicyResult plan = cantFail(planPolicy(g, p, policy));
  Graph rewritten = rematerialize(g, p, plan.schedule);
  EXPECT_FALSE(verify(rewritten)) << "the rewritten graph is not legal";
  Layout layout = cantFail(place(rewritten, device->target()));
  auto e = cantFail(Executor::create(rewritten, layout, *device));
  for (const Input &i : rewritten.inputs())
    cantFail(e->feed(i.value, ramp(rewritten.type(i.value), 0.3)));
  cantFail(e->step({0, 0}));
  Outcome out{{}, plan.planned.peakBytes, e->measuredPeakBytes(), layout.arenaBytes};
  for (ValueId v : rewritten.outputs())
    out.outputs.push_back(cantFail(e->fetch(v)));
  for (uint32_t i = 0; i < rewritten.numNodes(); ++i)
    out.clones += rewritten.node(NodeId(i)).isClone();
  return out;
}

TEST(Mlp, EveryPolicyGivesTheSameBitsWithinItsPeak) {
  Mlp mlp(12, 256, 64); // activations outweigh gradients
  Outcome none = runWith(mlp.g, {});
  EXPECT_EQ(none.predicted, none.measured);
  EXPECT_EQ(none.clones, 0u);
  for (PolicyOptions o : {PolicyOptions{Policy::Speed, ""}, PolicyOptions{Policy::Memory, ""},
                          PolicyOptions{Policy::Collection, "h2,%h5,h8"}}) {
    Outcome got = runWith(mlp.g, o);
    EXPECT_EQ(got.predicted, got.measured);
    EXPECT_LE(got.arena, got.predicted * 1.01);
    // A policy that saves no memory changes nothing.
    EXPECT_LE(got.measured, none.measured);
    EXPECT_EQ(got.clones > 0, got.measured < none.measured);
    ASSERT_EQ(got.outputs.size(), none.outputs.size());
    for (size_t i = 0; i < got.outputs.size(); ++i)
      EXPECT_EQ(std::memcmp(got.outputs[i].data, none.outputs[i].data, none.outputs[i].bytes()), 0)
          << i;
  }
  for (PolicyOptions o :
       {PolicyOptions{Policy::Memory, ""}, PolicyOptions{Policy::Collection, "h2,%h5,h8"}})
    EXPECT_LT(runWith(mlp.g, o).measured, none.measured);
}

} // namespace
