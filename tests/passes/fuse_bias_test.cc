// Tests the results of products that add their bias. Which products do is shown in golden/.

#include "passes/lower/fuse_bias.h"

#include "ir/equal_graphs.h"
#include "ir/text/parser.h"
#include "ir/verifier.h"
#include "kernels/plain/register.h"
#include "passes/differentiate/differentiate.h"
#include "passes/lower/convert.h"
#include "passes/simplify/dce.h"
#include "tests/passes/small_graphs.h"
#include "tests/testing/interpret.h"
#include "tools/random/draw_inputs.h"
#include "tools/random/random_graph.h"
#include "tools/zoo/zoo.h"
#include <gtest/gtest.h>

namespace isthmus {
namespace {

Graph training(Graph g) {
  ValueList params;
  for (const Input &i : g.inputs())
    if (i.kind == InputKind::Param)
      params.push_back(i.value);
  ValueId y = g.loss ? g.loss : g.outputs()[0];
  addGradientOutputs(g, params, llvm::cantFail(gradients(g, {y}, params)));
  return withoutDeadNodes(g);
}

size_t count(const Graph &g, llvm::StringRef row, size_t operands) {
  size_t n = 0;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    n += g.node(NodeId(i)).op->name == row && g.node(NodeId(i)).operands.size() == operands;
  return n;
}

std::vector<Tensor> outputsOf(const Graph &g) {
  return llvm::cantFail(interpret(plainKernels(), g, byValue(g, drawInputs(g, 5)), {1, {7, 0}}));
}

// Expects the same bits, forward and backward, with fusion before or after differentiation.
void expectSameBits(const Graph &forward) {
  Graph whole = training(forward), late = withFusedBias(whole),
        early = training(withFusedBias(forward));
  std::vector<Tensor> want = outputsOf(whole);
  for (const Graph *g : {&late, &early}) {
    EXPECT_FALSE(verify(*g));
    EXPECT_EQ(outputNames(*g), outputNames(whole));
    std::vector<Tensor> got = outputsOf(*g);
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(sameBits(got[i], want[i])) << outputNames(whole)[i];
  }
  EXPECT_TRUE(equalGraphs(withFusedBias(late), late, nullptr));
}

TEST(FuseBias, EveryLinearLayerOfTheZoo) {
  const ZooOptions gpt2 = {{"depth", "2"}, {"width", "8"},  {"heads", "2"},
                           {"batch", "2"}, {"tokens", "4"}, {"vocab", "9"}};
  struct {
    const char *name;
    ZooOptions options;
    size_t layers;
  } networks[] = {{"gpt2", gpt2, 8}, {"mlp", {{"batch", "3"}, {"width", "16"}}, 0}};
  for (const auto &[name, options, layers] : networks) {
    SCOPED_TRACE(name);
    Graph g = llvm::cantFail(buildZoo(name, options));
    size_t products = count(g, "matmul", 2), adds = count(g, "add", 2);
    Graph fused = withFusedBias(g);
    size_t now = count(fused, "matmul", 3);
    EXPECT_EQ(now, layers ? layers : products); // in an MLP, all products are fused
    EXPECT_EQ(count(fused, "matmul", 2), products - now);
    EXPECT_EQ(count(fused, "add", 2), adds - now);
    for (DType t : {DType::F32, DType::F64})
      expectSameBits(llvm::cantFail(withPrecision(g, t)));
  }
}

// In 16 bits the sum is rounded once, and it is as near to the exact sum as the separate nodes'
// results.
TEST(FuseBias, RoundsOnceIn16Bits) {
  Graph g = llvm::cantFail(parseGraph(R"(isthmus 2
graph @g {
  input %x : f64[40, 30]
  param %w : f64[30, 20] = uniform {low = -1, high = 1}
  param %b : f64[20] = uniform {low = -1, high = 1}
  %p = matmul(%x, %w) : f64[40, 20]
  %y = add(%p, %b) : f64[40, 20]
  output %y
})",
                                      "g.isth"));
  for (DType t : {DType::BF16, DType::F16}) {
    Graph narrow = llvm::cantFail(withPrecision(g, t));
    NamedTensors inputs = drawInputs(narrow, 3);
    auto run = [&](const Graph &which) {
      return toDoubles(llvm::cantFail(interpret(plainKernels(), which, byValue(which, inputs)))[0]);
    };
    NamedTensors wide;
    for (auto &[name, tensor] : inputs)
      wide[name] = fromDoubles(tensor.type.with(DType::F64), toDoubles(tensor));
    std::vector<double> twice = run(narrow), once = run(withFusedBias(narrow));
    std::vector<double> exact =
        toDoubles(llvm::cantFail(interpret(plainKernels(), g, byValue(g, wide)))[0]);
    double errorOfTwo = 0, errorOfOne = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      errorOfTwo += std::abs(twice[i] - exact[i]);
      errorOfOne += std::abs(once[i] - exact[i]);
    }
    EXPECT_LT(errorOfOne, 0.9 * errorOfTwo);
  }
}

// Few random products have a bias. Many graphs are drawn, and those with such a product are
// checked.
TEST(FuseBias, RandomGraphs) {
  size_t fused = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    RandomGraphOptions o;
    o.seed = seed;
    o.steps = 40;
    o.dtype = seed % 2 ? DType::F32 : DType::F64;
    Graph g = randomGraph(o);
    if (size_t n = count(withFusedBias(g), "matmul", 3)) {
      SCOPED_TRACE(seed);
      fused += n;
      expectSameBits(g);
    }
  }
  EXPECT_GT(fused, 5u);
}

} // namespace
} // namespace isthmus
