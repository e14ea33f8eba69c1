#include "passes/lower/fuse_bias.h"

#include "ir/equal_graphs.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
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

Graph parsed(const std::string &lines) {
  return llvm::cantFail(parseGraph("isthmus 1\ngraph @g {\n" + lines + "}\n", "g.isth"));
}
void expectFused(const std::string &lines, const std::string &want) {
  Graph g = withFusedBias(parsed(lines));
  EXPECT_FALSE(verify(g));
  EXPECT_EQ(graphText(g), graphText(parsed(want)));
}
void expectLeft(const std::string &lines) { expectFused(lines, lines); }

const std::string kInputs = R"(
  input %x : f32[2, 3]
  input %z : f32[2, 4]
  param %w : f32[3, 4] = normal {std = 1}
  param %b : f32[4] = uniform
)";

TEST(FuseBias, TakesTheNameAndTheMarksOfTheAdd) {
  expectFused(kInputs + R"(
  %p = matmul(%x, %w) : f32[2, 4]
  %y = add(%p, %b) : f32[2, 4] #checkpoint
  %h = tanh(%y) : f32[2, 4]
  output %h
  output %y
  loss %y
)",
              kInputs + R"(
  %y = matmul(%x, %w, %b) : f32[2, 4] #checkpoint
  %h = tanh(%y) : f32[2, 4]
  output %h
  output %y
  loss %y
)");
}

TEST(FuseBias, OnEitherSideWithTransposesAndBatches) {
  expectFused(R"(
  input %x : f32[2, 3, 5]
  param %w : f32[4, 3] = normal {std = 1}
  param %b : f32[4] = uniform
  %p = matmul(%x, %w) {transpose_a = true, transpose_b = true} : f32[2, 5, 4]
  %y = add(%b, %p) : f32[2, 5, 4]
  output %y
)",
              R"(
  input %x : f32[2, 3, 5]
  param %w : f32[4, 3] = normal {std = 1}
  param %b : f32[4] = uniform
  %y = matmul(%x, %w, %b) {transpose_a = true, transpose_b = true} : f32[2, 5, 4]
  output %y
)");
}

// As others write it, [1, 4]: a view of it is the vector.
TEST(FuseBias, OfARowWithLeadingOnes) {
  const std::string inputs = "  input %x : f32[2, 3]\n  param %w : f32[3, 4] = normal {std = 1}\n"
                             "  param %b : f32[1, 4] = uniform\n";
  expectFused(inputs + R"(
  %p = matmul(%x, %w) : f32[2, 4]
  %y = add(%p, %b) : f32[2, 4]
  output %y
)",
              inputs + R"(
  %y.bias = reshape(%b) {dims = [4]} : f32[4]
  %y = matmul(%x, %w, %y.bias) : f32[2, 4]
  output %y
)");
}

// The product moves no further than it must.
TEST(FuseBias, StandsWhereBothAreThere) {
  expectFused(kInputs + R"(
  %p = matmul(%x, %w) : f32[2, 4]
  %q = matmul(%x, %w) : f32[2, 4]
  %c = exp(%b) : f32[4]
  %y = add(%p, %b) : f32[2, 4]
  %v = add(%q, %c) : f32[2, 4]
  output %y
  output %v
)",
              kInputs + R"(
  %y = matmul(%x, %w, %b) : f32[2, 4]
  %c = exp(%b) : f32[4]
  %v = matmul(%x, %w, %c) : f32[2, 4]
  output %y
  output %v
)");
}

// Two products of one row: one is the other's bias.
TEST(FuseBias, OneOfTwoProducts) {
  const std::string inputs = "  input %x : f32[1, 3]\n  param %w : f32[3, 4] = normal {std = 1}\n";
  expectFused(inputs + R"(
  %p = matmul(%x, %w) : f32[1, 4]
  %q = matmul(%x, %w) : f32[1, 4]
  %y = add(%p, %q) : f32[1, 4]
  output %y
)",
              inputs + R"(
  %q = matmul(%x, %w) : f32[1, 4]
  %y.bias = reshape(%q) {dims = [4]} : f32[4]
  %y = matmul(%x, %w, %y.bias) : f32[1, 4]
  output %y
)");
}

TEST(FuseBias, LeavesProductsThatAreNeeded) {
  const std::string product = kInputs + "  %p = matmul(%x, %w) : f32[2, 4]";
  const std::string sum = "\n  %y = add(%p, %b) : f32[2, 4]\n  output %y\n";
  expectLeft(product + sum + "  output %p\n");
  expectLeft(product + sum + "  loss %p\n");
  expectLeft(product + " #checkpoint" + sum);
  expectLeft(product + sum + "  %h = tanh(%p) : f32[2, 4]\n  output %h\n");
  expectLeft(product + sum + "  %h = tanh(%y) : f32[2, 4] after(%p)\n  output %h\n");
  expectLeft(product + "\n  %y = add(%p, %p) : f32[2, 4]\n  output %y\n");
}

TEST(FuseBias, LeavesWhatIsNoBias) {
  const std::string product = kInputs + "  %p = matmul(%x, %w) : f32[2, 4]\n";
  expectLeft(product + "  %y = add(%p, %z) : f32[2, 4]\n  output %y\n");
  expectLeft(product + "  %y = sub(%p, %b) : f32[2, 4]\n  output %y\n");
  // An element for each row, one for all, and a product that is repeated itself.
  for (const char *type : {"f32[2, 1]", "f32[]"})
    expectLeft(std::string("  input %r : ") + type + "\n" + product +
               "  %y = add(%p, %r) : f32[2, 4]\n  output %y\n");
  expectLeft("  input %x : f32[1, 3]\n  input %w : f32[3, 4]\n  input %z : f32[2, 4]\n"
             "  %p = matmul(%x, %w) : f32[1, 4]\n  %y = add(%p, %z) : f32[2, 4]\n  output %y\n");
  // One that has a bias.
  expectLeft(kInputs + "  %p = matmul(%x, %w, %b) : f32[2, 4]\n"
                       "  %y = add(%p, %b) : f32[2, 4]\n  output %y\n");
}

TEST(FuseBias, LeavesARewrittenGraph) {
  Graph g = parsed(kInputs + R"(
  %p = matmul(%x, %w) : f32[2, 4]
  %y = add(%p, %b) : f32[2, 4]
  %h = tanh(%x) : f32[2, 3]
  %clone = tanh(%x) : f32[2, 3]
  output %y
  output %h
  output %clone
)");
  nodeOf(g, g.find("clone")).from.origin = g.value(g.find("h")).def;
  EXPECT_EQ(graphText(withFusedBias(g)), graphText(g));
}

// --- What comes of them

const KernelTable &plainKernels() {
  static const KernelTable *table = [] {
    auto *t = new KernelTable;
    registerPlainKernels(*t);
    return t;
  }();
  return *table;
}

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

// The same bits, forward and backward, fused before or after differentiation.
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
    EXPECT_EQ(now, layers ? layers : products); // all of an MLP are
    EXPECT_EQ(count(fused, "matmul", 2), products - now);
    EXPECT_EQ(count(fused, "add", 2), adds - now);
    for (DType t : {DType::F32, DType::F64})
      expectSameBits(llvm::cantFail(withPrecision(g, t)));
  }
}

// In 16 bits the sum is rounded once, and is as near to the exact one as both were.
TEST(FuseBias, RoundsOnceIn16Bits) {
  Graph g = parsed(R"(
  input %x : f64[40, 30]
  param %w : f64[30, 20] = uniform {low = -1, high = 1}
  param %b : f64[20] = uniform {low = -1, high = 1}
  %p = matmul(%x, %w) : f64[40, 20]
  %y = add(%p, %b) : f64[40, 20]
  output %y
)");
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

// Few random products have a bias: of many graphs, those that do.
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
