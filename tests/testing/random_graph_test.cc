// Checks that all values and gradients of random graphs are finite, and that the loss depends on
// the inputs.

#include "kernels/plain/register.h"
#include "passes/differentiate/differentiate.h"
#include "tests/testing/interpret.h"
#include "tools/random/draw.h"
#include "tools/random/random_graph.h"
#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace isthmus;

namespace {

// Inputs up to the bounds that they may have; other graph inputs follow their initializers.
llvm::DenseMap<ValueId, Tensor> drawInputs(const Graph &g, uint64_t seed) {
  llvm::DenseMap<ValueId, Tensor> out;
  for (const Input &i : g.inputs()) {
    const Type &t = g.type(i.value);
    if (i.init.kind == Initializer::Kind::Data)
      out[i.value] = i.init.data;
    else if (i.init.kind == Initializer::Kind::Fill)
      out[i.value] =
          fromDoubles(t, std::vector<double>(t.elements(), i.init.args.getFloat("value")));
    else if (i.kind == InputKind::Param)
      out[i.value] = draw(t, seed + i.value.index, {-1, 1});
    else
      out[i.value] = draw(t, seed + i.value.index, {-6, 6});
  }
  return out;
}

ValueList differentiable(const Graph &g) {
  ValueList xs;
  for (const Input &i : g.inputs())
    if (isFloat(g.type(i.value).dtype) && i.kind != InputKind::State)
      xs.push_back(i.value);
  return xs;
}

TEST(RandomGraph, StaysFinite) {
  KernelTable kernels;
  registerPlainKernels(kernels);
  std::set<std::string> ops;
  size_t withGradient = 0;
  constexpr uint64_t kGraphs = 300;
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    Graph g = randomGraph({.seed = seed,
                           .steps = unsigned(1 + seed % 60),
                           .dtype = seed % 2 ? DType::F32 : DType::F64});
    ValueList grads = llvm::cantFail(gradients(g, {g.loss}, differentiable(g)));
    withGradient += llvm::any_of(grads, [](ValueId v) { return bool(v); });
    ValueList all;
    for (uint32_t i = 0; i < g.numNodes(); ++i) {
      const Node &n = g.node(NodeId(i));
      ops.insert(n.op->name);
      for (uint32_t r = 0; r < n.numResults; ++r)
        if (isFloat(g.type(n.result(r)).dtype))
          all.push_back(n.result(r));
    }
    g.clearOutputs();
    for (ValueId v : all)
      g.addOutput(v);
    auto values = interpret(kernels, g, drawInputs(g, seed));
    ASSERT_TRUE(bool(values)) << llvm::toString(values.takeError());
    for (size_t i = 0; i < all.size(); ++i)
      for (double d : toDoubles((*values)[i]))
        ASSERT_TRUE(std::isfinite(d) && std::fabs(d) < 1e12)
            << "seed " << seed << ": " << g.valueName(all[i]).str();
  }
  EXPECT_EQ(withGradient, kGraphs);
  for (const char *op : {"batch_norm",
                         "batch_norm_grad",
                         "running_average",
                         "layer_norm",
                         "dropout",
                         "uniform",
                         "normal",
                         "split",
                         "concat",
                         "gather",
                         "scatter_rows",
                         "matmul",
                         "where",
                         "softmax",
                         "max",
                         "reshape",
                         "transpose",
                         "broadcast",
                         "slice",
                         "pad",
                         "trilu",
                         "div",
                         "log",
                         "identity"})
    EXPECT_TRUE(ops.count(op)) << op << " is in no graph";
}

} // namespace
