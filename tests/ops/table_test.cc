// Sweeps over the op table and checks every row against its own examples. A new row is tested
// without new code here.

#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/op_registry.h"
#include "ir/value_facts.h"
#include "kernels/plain/register.h"
#include "passes/differentiate/differentiate.h"
#include "tests/testing/example.h"
#include "tests/testing/interpret.h"
#include "tools/random/draw.h"
#include <cmath>
#include <gtest/gtest.h>
#include <set>

namespace isthmus {
namespace {

const InterpretOptions kOneThread = {1, {7, 3}};

std::vector<Tensor> run(const Example &e, llvm::ArrayRef<Tensor> operands,
                        const InterpretOptions &options = kOneThread) {
  return llvm::cantFail(interpretCall(plainKernels(), e.call, operands, options));
}

std::vector<std::string> rowNames() {
  std::vector<std::string> names;
  for (const OpDef *op : OpRegistry::get().computedRows())
    names.push_back(op->name);
  return names;
}

class OpTable : public testing::TestWithParam<std::string> {
protected:
  const OpDef &row() const { return OpRegistry::get().at(GetParam()); }

  // Calls check(example, operands) for each example of the row.
  template <typename Check> void forEachExample(Check check) {
    for (const std::string &text : row().examples) {
      SCOPED_TRACE(text);
      auto e = parseExample(text);
      check(*e, drawOperands(*e));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Rows, OpTable, testing::ValuesIn(rowNames()),
                         [](const auto &info) { return info.param; });

TEST_P(OpTable, HasExamplesAndAGradient) {
  EXPECT_FALSE(row().examples.empty());
  for (const std::string &text : row().examples)
    EXPECT_EQ(parseExample(text)->call.op, &row()) << text;
  EXPECT_NE(row().differentiable, Differentiable::Missing);
}

TEST_P(OpTable, HasAKernel) {
  EXPECT_TRUE(row().is(kView) || !plainKernels().of(GetParam()).empty());
}

TEST_P(OpTable, CostIsANumber) {
  forEachExample([](const Example &e, const std::vector<Tensor> &) {
    Cost c = costOf(e.call);
    EXPECT_TRUE(std::isfinite(c.flops) && c.flops >= 0) << c.flops;
    EXPECT_TRUE(std::isfinite(c.bytes) && c.bytes >= 0) << c.bytes;
  });
}

TEST_P(OpTable, SameBitsTwiceAndOnTwoThreads) {
  forEachExample([](const Example &e, const std::vector<Tensor> &operands) {
    auto once = run(e, operands), twice = run(e, operands),
         threaded = run(e, operands, {2, kOneThread.random});
    ASSERT_EQ(once.size(), e.call.results.size());
    for (size_t i = 0; i < once.size(); ++i) {
      EXPECT_EQ(once[i].type, e.call.results[i]);
      EXPECT_TRUE(sameBits(once[i], twice[i]));
      EXPECT_TRUE(sameBits(once[i], threaded[i]));
    }
  });
}

// An encoded operand is smaller and gives the same bits in all results.
TEST_P(OpTable, EncodedOperandsGiveTheSameBits) {
  if (row().encodings.empty())
    GTEST_SKIP() << "no encodings";
  size_t encoded = 0;
  forEachExample([&](const Example &e, const std::vector<Tensor> &operands) {
    const auto want = run(e, operands);
    for (const Encoding &how : row().encodings) {
      const std::string type = e.call.operands[how.operand].str();
      if (type.find("bool") != std::string::npos) // encoded already
        continue;
      auto encoding = parseExample(how.op + "(" + type + ")");
      const Tensor smaller = run(*encoding, {operands[how.operand]})[0];
      EXPECT_LT(smaller.bytes(), operands[how.operand].bytes());
      std::string call = row().name + "(";
      std::vector<Tensor> given = operands;
      given[how.operand] = smaller;
      for (size_t i = 0; i < given.size(); ++i)
        call += (i ? ", " : "") + given[i].type.str();
      auto over = parseExample(call + ")");
      const auto got = run(*over, given);
      for (size_t r = 0; r < want.size(); ++r)
        EXPECT_TRUE(sameBits(got[r], want[r])) << call;
      ++encoded;
    }
  });
  EXPECT_GT(encoded, 0u);
}

// A row with an expansion is defined twice. All results start with the bytes of NaN, so that a
// kernel which leaves elements out fails here.
TEST_P(OpTable, ExpansionGivesTheSame) {
  if (!row().expand)
    GTEST_SKIP() << "no expansion";
  forEachExample([&](const Example &e, const std::vector<Tensor> &operands) {
    Graph g("expansion");
    Builder b(g);
    llvm::DenseMap<ValueId, Tensor> inputs;
    ValueList values;
    for (const Tensor &t : operands) {
      values.push_back(llvm::cantFail(g.addInput(InputKind::Input, "x", t.type)));
      inputs[values.back()] = t;
    }
    ExpandContext context{b, *e.call.attrs, values};
    ValueList made = row().expand(context);
    ASSERT_EQ(made.size(), e.call.results.size());
    for (ValueId v : made) // an operand may itself be a result
      g.addOutput(b.create("identity", {v}));
    auto expanded = llvm::cantFail(interpret(plainKernels(), g, inputs, kOneThread));
    auto direct = run(e, operands);
    for (size_t r = 0; r < made.size(); ++r) {
      ASSERT_EQ(expanded[r].type, direct[r].type);
      auto got = toDoubles(expanded[r]), want = toDoubles(direct[r]);
      double tolerance = direct[r].type.dtype == DType::F64 ? 1e-9 : 1e-5;
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i])))
            << "result " << r << ", element " << i;
    }
  });
}

TEST_P(OpTable, EveryElementIsWritten) {
  forEachExample([](const Example &e, const std::vector<Tensor> &operands) {
    for (const Tensor &t : run(e, operands))
      for (double v : toDoubles(t))
        EXPECT_TRUE(std::isfinite(v)) << v;
  });
}

TEST_P(OpTable, InPlaceGivesTheSameBits) {
  forEachExample([&](const Example &e, const std::vector<Tensor> &operands) {
    auto want = run(e, operands);
    for (InPlace place : row().inPlace) {
      if (place.operand >= operands.size() ||
          operands[place.operand].bytes() != want[place.result].bytes())
        continue;
      auto kernel = llvm::cantFail(plainKernels().prepare(e.call, {1}));
      std::vector<Tensor> results;
      llvm::SmallVector<const void *, 4> in;
      llvm::SmallVector<void *, 4> out;
      for (const Tensor &t : operands)
        in.push_back(t.data);
      for (size_t i = 0; i < want.size(); ++i) {
        results.push_back(Tensor::make(want[i].type, [&](char *p) {
          if (i == place.result)
            memcpy(p, operands[place.operand].data, operands[place.operand].bytes());
        }));
        out.push_back(const_cast<char *>(results[i].data));
      }
      in[place.operand] = out[place.result];
      Tensor workspace = Tensor::make(Type(DType::U8, {kernel->workspaceBytes()}), [](char *) {});
      kernel->run({in, out, const_cast<char *>(workspace.data), &kOneThread.random});
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_TRUE(sameBits(results[i], want[i]))
            << "result " << place.result << " over operand " << place.operand;
    }
  });
}

// --- Gradients

struct Function { // a graph, and the inputs at which it is evaluated
  Graph graph;
  llvm::DenseMap<ValueId, Tensor> at;
};

double weighted(const Function &f, const Graph &g, llvm::ArrayRef<Tensor> weights) {
  auto outputs = llvm::cantFail(interpret(plainKernels(), g, f.at, kOneThread));
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto y = toDoubles(outputs[i]), w = toDoubles(weights[i]);
    for (size_t j = 0; j < y.size(); ++j)
      sum += y[j] * w[j];
  }
  return sum;
}

// The elements to check: all of a small tensor, some of a large one.
std::vector<size_t> sample(size_t n) {
  std::vector<size_t> out;
  for (size_t i = 0; i < n; i += n <= 40 ? 1 : n / 12 + 1)
    out.push_back(i);
  return out;
}

// Compares the gradients of the outputs with central differences by each f64 input. The outputs are
// weighted by numbers, which become inputs. Returns the function whose outputs are the gradients,
// or nothing if there are none.
llvm::Expected<std::optional<Function>> checkGradients(const Function &f) {
  Function d = f;
  Graph &g = d.graph;
  ValueList ys(g.outputs().begin(), g.outputs().end()), xs, seeds;
  for (const Input &in : g.inputs())
    if (g.type(in.value).dtype == DType::F64)
      xs.push_back(in.value);
  std::vector<Tensor> weights;
  for (ValueId y : ys) {
    ValueId seed = llvm::cantFail(g.addInput(InputKind::Input, "w", g.type(y)));
    weights.push_back(draw(g.type(y), 77 + seed.index));
    d.at[seed] = weights.back();
    seeds.push_back(seed);
  }
  auto grads = gradients(g, ys, xs, seeds);
  if (!grads)
    return grads.takeError();

  ValueList outputs;
  std::vector<size_t> where(xs.size(), ~size_t(0));
  for (size_t i = 0; i < xs.size(); ++i)
    if ((*grads)[i]) {
      where[i] = outputs.size();
      outputs.push_back((*grads)[i]);
    }
  setOutputs(g, outputs);
  auto found = llvm::cantFail(interpret(plainKernels(), g, d.at, kOneThread));
  const double h = 1e-5;
  for (size_t i = 0; i < xs.size(); ++i) {
    std::vector<double> x = toDoubles(f.at.lookup(xs[i])), analytic(x.size());
    if (where[i] != ~size_t(0))
      analytic = toDoubles(found[where[i]]);
    for (size_t e : sample(x.size())) {
      Function moved = f;
      auto valueAt = [&](double v) {
        std::vector<double> there = x;
        there[e] = v;
        moved.at[xs[i]] = fromDoubles(f.graph.type(xs[i]), there);
        return weighted(moved, f.graph, weights);
      };
      double numeric = (valueAt(x[e] + h) - valueAt(x[e] - h)) / (2 * h);
      EXPECT_NEAR(analytic[e], numeric, 1e-6 * (1 + std::fabs(numeric)))
          << "by '%" << g.valueName(xs[i]).str() << "', element " << e;
    }
  }
  if (outputs.empty())
    return std::nullopt;
  return d;
}

// The function that an example defines, with its f64 results; nothing if no operand or no result is
// f64.
std::optional<Function> functionOf(const Example &e, llvm::ArrayRef<Tensor> operands) {
  Function f;
  ValueList in;
  bool any = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    in.push_back(llvm::cantFail(
        f.graph.addInput(InputKind::Input, "x" + std::to_string(i), operands[i].type)));
    f.at[in.back()] = operands[i];
    any |= operands[i].type.dtype == DType::F64;
  }
  NodeId n = llvm::cantFail(f.graph.addNode(*e.call.op, in, *e.call.attrs));
  for (uint32_t r = 0; r < f.graph.node(n).numResults; ++r)
    if (e.call.results[r].dtype == DType::F64)
      f.graph.addOutput(f.graph.node(n).result(r));
  if (!any || f.graph.outputs().empty())
    return std::nullopt;
  return f;
}

// Whether the row takes no f64, in any of its examples.
bool refusesF64(const OpDef &row) {
  return llvm::none_of(row.examples, [](std::string text) {
    for (size_t at; (at = text.find("f32")) != std::string::npos;)
      text.replace(at, 3, "f64");
    return isTaken(text);
  });
}

TEST_P(OpTable, GradientsAreThoseOfDifferences) {
  if (row().differentiable != Differentiable::Yes)
    GTEST_SKIP() << "no gradient";
  size_t checked = 0;
  forEachExample([&](const Example &e, const std::vector<Tensor> &operands) {
    auto f = functionOf(e, operands);
    if (!f)
      return;
    ++checked;
    auto first = checkGradients(*f);
    ASSERT_TRUE(bool(first)) << llvm::toString(first.takeError());
    if (!*first)
      return;
    SCOPED_TRACE("second gradient");
    auto second = checkGradients(**first);
    EXPECT_TRUE(bool(second)) << llvm::toString(second.takeError());
  });
  EXPECT_TRUE(checked > 0 || refusesF64(row())) << "no example with f64";
}

// The gradients of the operands: `exact` from the exact results, and `rounded` from results with
// errors as large as an inverse may leave.
struct RoundedGradients {
  std::vector<Tensor> exact, rounded;
  bool compares = false; // some node that contributes compares its operands
};

llvm::Expected<RoundedGradients> roundedGradients(const Function &f) {
  Graph g = f.graph;
  llvm::DenseMap<ValueId, Tensor> at = f.at;
  const size_t forward = g.numNodes();
  ValueList xs, seeds, ys(g.outputs().begin(), g.outputs().end());
  for (const Input &in : g.inputs())
    if (g.type(in.value).dtype == DType::F64)
      xs.push_back(in.value);
  for (ValueId y : ys) {
    seeds.push_back(llvm::cantFail(g.addInput(InputKind::Input, "w", g.type(y))));
    at[seeds.back()] = draw(g.type(y), 77 + y.index);
  }
  auto grads = gradients(g, ys, xs, seeds);
  if (!grads)
    return grads.takeError();
  RoundedGradients out;
  for (bool rounds : {false, true}) {
    llvm::DenseMap<ValueId, Tensor> now = at;
    for (uint32_t i = 0; i < g.numNodes(); ++i) {
      const Node &n = g.node(NodeId(i));
      out.compares |= !n.op->comparedOperands.empty();
      llvm::SmallVector<Tensor, 4> operands;
      for (ValueId v : n.operands)
        operands.push_back(now.lookup(v));
      auto results = interpretCall(plainKernels(), g.call(NodeId(i)), operands, kOneThread);
      if (!results)
        return results.takeError();
      for (uint32_t r = 0; r < n.numResults; ++r) {
        Tensor t = (*results)[r];
        if (rounds && i < forward && isFloat(t.type.dtype)) {
          std::vector<double> v = toDoubles(t);
          for (size_t k = 0; k < v.size(); ++k)
            v[k] += (k % 2 ? 1e-11 : -1e-11) * (1 + std::fabs(v[k]));
          t = fromDoubles(t.type, v);
        }
        now[n.result(r)] = t;
      }
    }
    for (ValueId v : *grads)
      if (v)
        (rounds ? out.rounded : out.exact).push_back(now.lookup(v));
  }
  return out;
}

// Plans may rebuild results by inverses, which round. Only rows that say so may have gradients that
// are sensitive to that.
TEST_P(OpTable, GradientsOfRoundedResultsAreNear) {
  if (row().differentiable != Differentiable::Yes)
    GTEST_SKIP() << "no gradient";
  bool jumps = false, compares = false;
  forEachExample([&](const Example &e, const std::vector<Tensor> &operands) {
    auto f = functionOf(e, operands);
    if (!f)
      return;
    auto g = roundedGradients(*f);
    ASSERT_TRUE(bool(g)) << llvm::toString(g.takeError());
    compares |= g->compares;
    for (size_t i = 0; i < g->exact.size(); ++i) {
      std::vector<double> exact = toDoubles(g->exact[i]), rounded = toDoubles(g->rounded[i]);
      for (size_t k = 0; k < exact.size(); ++k)
        jumps |= !(std::fabs(rounded[k] - exact[k]) <= 1e-6 * (1 + std::fabs(exact[k])));
    }
  });
  EXPECT_EQ(jumps && !compares, row().is(kTellsResultBits));
}

// Compares gradients up to the third order with central differences of the order below, where
// factors are zero. Random operands do not meet such points. The function is linear in each
// operand.
TEST(Products, HaveGradientsOfEveryOrderWhereFactorsAreZero) {
  struct Case {
    const char *call;
    std::vector<std::vector<double>> operands;
  };
  const char *elements = "scatter_elements(f64[3], i64[5], f64[5]) {reduction = mul}";
  const Case cases[] = {
      {elements, {{2, -5, 3}, {0, 1, 0, -3, 1}, {-1.5, 2, 4, 3, 0.5}}}, // no zero
      {elements, {{2, -5, 3}, {0, 1, 0, -3, 1}, {0, -2, 4, -3, 0.5}}},  // one zero
      {elements, {{2, -5, 3}, {0, 1, 0, -3, 1}, {0, -2, 0, -3, 0}}},    // two zeros in place 0
      {elements, {{2, -5, 3}, {0, 1, 0, 0, 2}, {0, -2, 0, 0, 0}}},      // three zeros
      {elements, {{0, -5, 0}, {0, 1, 0, -3, 1}, {-4, -2, 0, -3, 0.5}}}, // zeros in the data too
      {"scatter_elements(f64[2, 3], i32[2, 4], f64[2, 4]) {axis = -1, reduction = mul}",
       {{1, 0, 3, -4, 5, 0}, {1, 1, 2, 1, 0, -3, 0, 2}, {0, 2, -3, 0, 0, 0, 7, 2}}},
      {"scatter_nd(f64[2, 2, 2], i64[4, 2], f64[4, 2]) {reduction = mul}",
       {{1, 2, 0, 4, -5, 6, 7, 8}, {0, 1, 1, 0, 0, -1, -2, 1}, {0, 2, -3, 0, 0, 5, 0, 0}}},
      {"scatter_nd(f64[2, 3], i32[2, 4, 1], f64[2, 4]) {batch_dims = 1, reduction = mul}",
       {{1, 0, 3, -4, 5, 0}, {1, 1, 2, 1, 0, -3, 0, 2}, {0, 2, -3, 0, 0, 0, 7, 2}}},
      {"scatter_nd(f64[2], i64[3, 0], f64[3, 2]) {reduction = mul}",
       {{2, 3}, {}, {0, 1, -4, 5, 0, 0}}},
      {"prod(f64[5])", {{2, 0, -3, 0, 0.5}}},
      {"cumprod(f64[5])", {{2, 0, -3, 0, 0.5}}}};
  for (const Case &c : cases) {
    SCOPED_TRACE(c.call);
    auto e = parseExample(c.call);
    std::vector<Tensor> operands;
    for (size_t i = 0; i < c.operands.size(); ++i)
      operands.push_back(fromDoubles(e->call.operands[i], c.operands[i]));
    auto f = functionOf(*e, operands);
    for (int order = 1; order <= 3 && f; ++order) {
      SCOPED_TRACE("order " + std::to_string(order));
      auto next = checkGradients(*f);
      ASSERT_TRUE(bool(next)) << llvm::toString(next.takeError());
      EXPECT_TRUE(next->has_value());
      f = std::move(*next);
    }
  }
}

// --- Inverses

// A graph of one node whose other operands are weights and constants, which inverses may assume.
struct OneNode {
  Graph g;
  NodeId node;

  OneNode(const Example &e, llvm::ArrayRef<Tensor> operands) {
    ValueList values;
    for (const Tensor &t : operands) {
      Initializer data;
      data.kind = Initializer::Kind::Data;
      data.data = t;
      InputKind kind = isFloat(t.type.dtype) ? InputKind::Param : InputKind::Const;
      values.push_back(llvm::cantFail(g.addInput(kind, "x", t.type, std::move(data))));
    }
    node = llvm::cantFail(g.addNode(*e.call.op, values, *e.call.attrs));
  }
  bool holds(size_t operand) const {
    const OpDef &op = *g.node(node).op;
    return !op.inverseHolds ||
           op.inverseHolds(ValueFacts(g, /*areWeightsFixed=*/true), g.node(node), operand);
  }
};

// Random operands, except that as many indices as there are places form a permutation, so that no
// element is lost.
std::vector<Tensor> invertibleOperands(const Example &e) {
  std::vector<Tensor> operands = drawOperands(e);
  for (size_t i = 0; i < operands.size(); ++i) {
    auto bound = e.call.op->indexBound ? e.call.op->indexBound(e.call, i) : std::nullopt;
    int64_t n = operands[i].type.elements();
    if (bound != n)
      continue;
    std::vector<double> turned;
    for (int64_t k = 0; k < n; ++k)
      turned.push_back(double((k + 1) % n));
    operands[i] = fromDoubles(operands[i].type, turned);
  }
  return operands;
}

// The operands, with weights above zero beside the wanted one: some rows have an inverse only then.
std::vector<Tensor> besidePositive(std::vector<Tensor> operands, size_t wanted) {
  for (size_t i = 0; i < operands.size(); ++i)
    if (i != wanted && isFloat(operands[i].type.dtype)) {
      std::vector<double> e = toDoubles(operands[i]);
      for (double &d : e)
        d = std::fabs(d) + 0.1;
      operands[i] = fromDoubles(operands[i].type, e);
    }
  return operands;
}

// The operand that the row's inverse computes from the results and the other operands; nothing if
// there is no inverse.
std::optional<Tensor> rebuilt(const Example &e, llvm::ArrayRef<Tensor> operands, size_t wanted) {
  if (!isFloat(e.call.operands[wanted].dtype) || !OneNode(e, operands).holds(wanted))
    return std::nullopt;
  Graph g;
  Builder b(g);
  llvm::DenseMap<ValueId, Tensor> at;
  InverseContext c{b, *e.call.attrs, {}, {}, e.call.operands[wanted]};
  auto given = [&](const Tensor &t) {
    ValueId v = llvm::cantFail(g.addInput(InputKind::Input, "in", t.type));
    at[v] = t;
    return v;
  };
  for (size_t i = 0; i < operands.size(); ++i)
    c.operands.push_back(i == wanted ? ValueId() : given(operands[i]));
  for (const Tensor &t : run(e, operands))
    c.results.push_back(given(t));
  ValueId back = e.call.op->inverse(c, wanted);
  if (!back)
    return std::nullopt;
  g.addOutput(back);
  return llvm::cantFail(interpret(plainKernels(), g, at, kOneThread))[0];
}

// Checks f64 and f32 on the row's domain, and the 16-bit types if the inverse restores bits.
TEST_P(OpTable, InverseGivesTheOperandBack) {
  if (!row().inverse)
    GTEST_SKIP() << "no inverse";
  size_t checked = 0;
  for (const char *type : {"f64", "f32", "bf16", "f16"})
    for (const std::string &text : row().examples) {
      bool isShort = llvm::StringRef(type).endswith("16");
      if (text.find("f64") == std::string::npos || (isShort && !row().inverseKeepsBits))
        continue;
      auto e = parseExample(inType(text, type));
      SCOPED_TRACE(inType(text, type));
      std::vector<Tensor> operands = invertibleOperands(*e);
      for (size_t wanted = 0; wanted < operands.size(); ++wanted) {
        auto got = rebuilt(*e, operands, wanted);
        if (!got)
          got = rebuilt(*e, besidePositive(operands, wanted), wanted);
        if (!got)
          continue;
        ++checked;
        ASSERT_EQ(got->type, operands[wanted].type);
        if (row().inverseKeepsBits) {
          EXPECT_TRUE(sameBits(*got, operands[wanted])) << "operand " << wanted;
          continue;
        }
        double error = row().inverseError * (got->type.dtype == DType::F64 ? 1e-7 : 1);
        auto x = toDoubles(*got), want = toDoubles(operands[wanted]);
        for (size_t i = 0; i < x.size(); ++i)
          EXPECT_NEAR(x[i], want[i], error * (1 + std::fabs(want[i])))
              << "operand " << wanted << ", element " << i;
      }
    }
  EXPECT_GT(checked, 0u) << "the row has an inverse that no example reaches";
}

} // namespace
} // namespace isthmus
