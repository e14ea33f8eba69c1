// The zoo's invertible networks run backwards by the op table's inverse rules alone.

#include "ir/builder.h"
#include "kernels/plain/register.h"
#include "passes/lower/convert.h"
#include "tests/testing/invert.h"
#include "tools/random/draw.h"
#include "tools/zoo/zoo.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

using Values = llvm::DenseMap<ValueId, Tensor>;

struct Net {
  Graph graph;
  Values weights;
  Tensor x;

  // A network of the zoo in this type. Weights that are initially zero are drawn too, as if
  // trained; otherwise couplings would do nothing.
  Net(llvm::StringRef name, const ZooOptions &options, DType type)
      : graph(llvm::cantFail(withPrecision(llvm::cantFail(buildZoo(name, options)), type))) {
    uint64_t seed = 1;
    for (const Input &in : graph.inputs()) {
      const Type &t = graph.type(in.value);
      Tensor drawn = draw(t, ++seed, {-0.2, 0.2});
      if (in.kind == InputKind::Input)
        x = draw(t, seed, {-1, 1});
      else if (in.init.kind == Initializer::Kind::Data)
        weights[in.value] = in.init.data;
      else if (in.init.kind == Initializer::Kind::Normal)
        weights[in.value] = scaled(drawn, 5 * in.init.args.getFloat("std"));
      else if (in.init.args.getFloat("value") == 1)
        weights[in.value] = draw(t, seed, {0.5, 1.5});
      else
        weights[in.value] = drawn;
    }
  }

  Values forwards() const {
    Values known = weights;
    known[graph.inputs()[0].value] = x;
    return llvm::cantFail(deriveValues(plainKernels(), graph, known));
  }
  // The values that follow from the weights and the named values.
  Values backwards(const Values &from, std::initializer_list<const char *> names) const {
    Values known = weights;
    for (const char *name : names)
      known[graph.find(name)] = from.lookup(graph.find(name));
    return llvm::cantFail(deriveValues(plainKernels(), graph, known));
  }

private:
  static Tensor scaled(const Tensor &t, double by) {
    std::vector<double> v = toDoubles(t);
    for (double &e : v)
      e *= by;
    return fromDoubles(t.type, v);
  }
};

// The largest difference as a share of the largest element; infinite if there is no result.
double errorOf(const Tensor &got, const Tensor &want) {
  if (!got)
    return INFINITY;
  std::vector<double> a = toDoubles(got), b = toDoubles(want);
  double off = 0, largest = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    off = a[i] == a[i] ? std::max(off, std::fabs(a[i] - b[i])) : INFINITY;
    largest = std::max(largest, std::fabs(b[i]));
  }
  return off / largest;
}

// Computes `to` from the values `from` and the weights, and compares it with the forward result.
void expectInverse(llvm::StringRef name, const ZooOptions &options,
                   std::initializer_list<const char *> from, const char *to, double f64 = 1e-9,
                   double f32 = 1e-4) {
  for (auto [type, error] : {std::pair(DType::F64, f64), {DType::F32, f32}}) {
    Net net(name, options, type);
    Values forwards = net.forwards();
    ValueId wanted = net.graph.find(to);
    Values back = net.backwards(forwards, from);
    ASSERT_TRUE(back.count(wanted)) << name.str() << ": nothing leads back to " << to;
    double off = errorOf(back[wanted], forwards[wanted]);
    EXPECT_LE(off, error) << name.str() << " in " << dtypeName(type).str();
  }
}

TEST(Invertible, FlowsGiveTheExampleBackFromZ) {
  for (const char *coupling : {"affine", "additive"}) {
    SCOPED_TRACE(coupling);
    expectInverse("nice", {{"shape", "9"}, {"width", "8"}, {"coupling", coupling}, {"batch", "3"}},
                  {"z"}, "x");
    ZooOptions pictures = {{"shape", "3x8x8"}, {"width", "8"}, {"depth", "3"},
                           {"levels", "2"},    {"batch", "2"}, {"coupling", coupling}};
    expectInverse("realnvp", pictures, {"z"}, "x");
    expectInverse("glow", pictures, {"z"}, "x");
  }
}

// Rounding in chains of 32 couplings and of 32 steps of Glow, in both directions.
TEST(Invertible, ChainsOf32) {
  for (const char *coupling : {"affine", "additive"}) {
    SCOPED_TRACE(coupling);
    expectInverse(
        "nice",
        {{"shape", "8"}, {"width", "8"}, {"coupling", coupling}, {"batch", "3"}, {"depth", "32"}},
        {"z"}, "x", 1e-9, 1e-3);
    expectInverse("glow",
                  {{"shape", "1x4x4"},
                   {"width", "4"},
                   {"depth", "32"},
                   {"levels", "1"},
                   {"batch", "2"},
                   {"coupling", coupling}},
                  {"z"}, "x", 1e-9, 1e-3);
  }
}

// The factors of affine couplings must keep deep flows invertible in f32.
TEST(Invertible, GlowOf256Steps) {
  for (const char *coupling : {"affine", "additive"})
    expectInverse("glow",
                  {{"shape", "1x4x4"},
                   {"width", "4"},
                   {"depth", "256"},
                   {"levels", "1"},
                   {"batch", "2"},
                   {"coupling", coupling}},
                  {"z"}, "x", 1e-9, 1e-3);
}

TEST(Invertible, BlocksOfReversibleNets) {
  ZooOptions small = {{"shape", "3x8x8"}, {"width", "8"}, {"depth", "3"},
                      {"levels", "2"},    {"batch", "2"}, {"classes", "3"}};
  expectInverse("irevnet", small, {"joined"}, "x");
  expectInverse("revnet", small, {"stage2"}, "stage2.in.relu");
}

double distance(const Tensor &a, const Tensor &b) {
  std::vector<double> x = toDoubles(a), y = toDoubles(b);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    sum += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(sum);
}

// Checks what the mark claims: a residual branch brings any two operands closer together, by the
// factor 0.9 for each of its two convolutions, whatever its weights.
TEST(Invertible, MarkedSumsAddContractions) {
  Net net("iresnet",
          {{"shape", "3x8x8"}, {"width", "8"}, {"depth", "2"}, {"levels", "1"}, {"batch", "2"}},
          DType::F64);
  for (auto &[input, weight] : net.weights) { // large weights too
    std::vector<double> v = toDoubles(weight);
    for (double &e : v)
      e *= 30;
    weight = fromDoubles(weight.type, v);
  }
  std::vector<Values> runs;
  for (uint64_t seed : {1, 2}) {
    net.x = draw(net.x.type, seed, {-1, 1});
    runs.push_back(net.forwards());
  }
  size_t marked = 0;
  for (uint32_t i = 0; i < net.graph.numNodes(); ++i) {
    const Node &n = net.graph.node(NodeId(i));
    if (!n.hasMark("contraction"))
      continue;
    ++marked;
    auto moved = [&](size_t operand) {
      ValueId v = n.operands[operand];
      return distance(runs[0].lookup(v), runs[1].lookup(v));
    };
    EXPECT_GT(moved(1), 0);
    EXPECT_LE(moved(1), 0.81 * moved(0));
  }
  EXPECT_EQ(marked, 2u);
}

// In-place activated batch norm (Rota Bulo et al. 2018): the operand of batch norm is computed from
// the result of leaky_relu.
TEST(Invertible, NormBeforeLeakyRelu) {
  for (bool training : {true, false}) {
    Graph g;
    Builder b(g);
    Values known;
    auto given = [&](InputKind kind, const char *name, const Type &type, double low) {
      ValueId v = llvm::cantFail(g.addInput(kind, name, type));
      known[v] = draw(type, v.index + 1, {low, 2});
      return v;
    };
    Type channels(DType::F64, {3});
    ValueId x = given(InputKind::Input, "x", Type(DType::F64, {4, 3, 2, 2}), -2);
    ValueId scale = given(InputKind::Param, "scale", channels, 0.5),
            bias = given(InputKind::Param, "bias", channels, -1),
            mean = given(InputKind::State, "mean", channels, -1),
            var = given(InputKind::State, "var", channels, 0.5);
    NodeId norm = b.createNode("batch_norm", {x, scale, bias, mean, var}, {{"training", training}});
    ValueId y = b.create("leaky_relu", {g.node(norm).result(0)}, {{"alpha", 0.1}});
    Values all = llvm::cantFail(deriveValues(plainKernels(), g, known));
    Values less = known;
    less.erase(x);
    less[y] = all[y];
    for (uint32_t r : {1, 2})
      less[g.node(norm).result(r)] = all[g.node(norm).result(r)];
    Values back = llvm::cantFail(deriveValues(plainKernels(), g, less));
    EXPECT_LE(errorOf(back.lookup(x), all[x]), 1e-12);
  }
}

// A rule that needs a nonzero factor applies only if the graph guarantees one.
TEST(Invertible, NothingIsDividedByWhatMayBeZero) {
  for (const char *factor : {"relu", "exp", "sigmoid", "softplus"}) {
    Graph g;
    Builder b(g);
    Type type(DType::F64, {7});
    ValueId x = llvm::cantFail(g.addInput(InputKind::Input, "x", type)),
            c = llvm::cantFail(g.addInput(InputKind::Input, "c", type));
    ValueId s = b.create(factor, {c});
    ValueId y = b.mul(x, b.reshape(b.scale(s, 0.5), {7}));
    Values known = {{x, draw(type, 1, {-1, 1})}, {c, draw(type, 2, {-1, 1})}};
    Values all = llvm::cantFail(deriveValues(plainKernels(), g, known));
    Values back = llvm::cantFail(deriveValues(plainKernels(), g, {{c, known[c]}, {y, all[y]}}));
    if (llvm::StringRef(factor) == "relu") {
      EXPECT_FALSE(back.count(x));
    } else {
      EXPECT_LE(errorOf(back.lookup(x), known[x]), 1e-12) << factor;
    }
  }
}

// Permutations along an axis by `gather`, and of the first axis by tuples of one index.
TEST(Invertible, GatherOfAPermutation) {
  for (bool isPermutation : {true, false})
    for (bool isTuples : {true, false}) {
      Graph g;
      Builder b(g);
      Type type = isTuples ? Type(DType::F32, {5, 3}) : Type(DType::F32, {2, 5, 3});
      Type list = isTuples ? Type(DType::I64, {5, 1}) : Type(DType::I64, {5});
      ValueId x = llvm::cantFail(g.addInput(InputKind::Input, "x", type));
      Initializer data;
      data.kind = Initializer::Kind::Data;
      data.data = fromDoubles(list, {3, 0, 4, isPermutation ? 1.0 : 4.0, 2});
      ValueId indices = llvm::cantFail(g.addInput(InputKind::Const, "indices", list, data));
      ValueId y = isTuples ? b.create("gather_nd", {x, indices})
                           : b.create("gather", {x, indices}, {{"axis", int64_t(1)}});
      Values known = {{x, draw(type, 1, {-1, 1})}, {indices, data.data}};
      Values all = llvm::cantFail(deriveValues(plainKernels(), g, known));
      Values back =
          llvm::cantFail(deriveValues(plainKernels(), g, {{indices, data.data}, {y, all[y]}}));
      ASSERT_EQ(back.count(x), isPermutation ? 1u : 0u);
      if (isPermutation) {
        EXPECT_TRUE(sameBits(back[x], known[x]));
      }
    }
}

// A matrix that was computed from examples is no weight, so its inverse is not used.
TEST(Invertible, MatricesOfWeightsAlone) {
  for (InputKind kind : {InputKind::Param, InputKind::Input}) {
    Graph g;
    Builder b(g);
    Type type(DType::F64, {3, 3});
    ValueId x = llvm::cantFail(g.addInput(InputKind::Input, "x", type)),
            w = llvm::cantFail(g.addInput(kind, "w", type));
    ValueId y = b.create("matmul", {x, w});
    Values known = {{x, draw(type, 1, {-1, 1})}, {w, draw(type, 2, {-1, 1})}};
    Values all = llvm::cantFail(deriveValues(plainKernels(), g, known));
    Values back = llvm::cantFail(deriveValues(plainKernels(), g, {{w, known[w]}, {y, all[y]}}));
    EXPECT_EQ(back.count(x), kind == InputKind::Param ? 1u : 0u);
  }
}

} // namespace
} // namespace isthmus
