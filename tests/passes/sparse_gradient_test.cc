// Gradients of tables that are read by index stay sparse until something needs a dense gradient.

#include "kernels/plain/register.h"
#include "passes/differentiate/differentiate.h"
#include "passes/simplify/dce.h"
#include "tests/passes/small_graphs.h"
#include "tests/testing/interpret.h"
#include "tools/random/draw.h"
#include "gtest/gtest.h"

using namespace isthmus;

namespace {

constexpr int64_t kRows = 7, kWidth = 3;

// Looks up two lists of indices and, if `dense`, also reads the whole table. If `isShared`, all
// readers share one table; otherwise each has its own.
struct Lookup {
  Graph g{"lookup"};
  std::vector<ValueId> tables;

  Lookup(bool isShared, bool dense) {
    Builder b(g);
    auto table = [&] {
      if (tables.empty() || !isShared)
        tables.push_back(addInput(g, "w" + std::to_string(tables.size()),
                                  Type(DType::F64, {kRows, kWidth}), InputKind::Param));
      return tables.back();
    };
    auto weighted = [&](ValueId rows, const char *name) {
      ValueId by = addInput(g, name, b.type(rows));
      return b.sum(b.mul(rows, by), {}, /*keepDims=*/false);
    };
    ValueId i = addInput(g, "i", Type(DType::I64, {4})),
            j = addInput(g, "j", Type(DType::I64, {2, 3}));
    ValueId total = weighted(b.create("gather", {table(), i}), "by_i");
    total = b.add(total, weighted(b.create("gather", {table(), j}), "by_j"));
    if (dense)
      total = b.add(total, weighted(b.create("tanh", {table()}), "by_all"));
    g.loss = total;
    g.addOutput(total);
    addGradientOutputs(g, tables, llvm::cantFail(gradients(g, {total}, tables)));
    g = withoutDeadNodes(g);
  }

  std::vector<std::string> ops() const {
    std::vector<std::string> out;
    for (uint32_t n = 0; n < g.numNodes(); ++n)
      if (g.node(NodeId(n)).phase == Phase::Backward)
        out.push_back(g.node(NodeId(n)).op->name);
    return out;
  }

  // The sum of the gradients of all tables.
  std::vector<double> gradient() const {
    llvm::DenseMap<ValueId, Tensor> inputs;
    for (const Input &in : g.inputs()) {
      llvm::StringRef name = g.valueName(in.value);
      uint64_t seed = name.startswith("w") ? 1 : llvm::hash_value(name) % 1000;
      inputs[in.value] = draw(g.type(in.value), seed, {-1, 1, kRows});
    }
    KernelTable kernels;
    registerPlainKernels(kernels);
    auto outputs = llvm::cantFail(interpret(kernels, g, inputs));
    std::vector<double> sum(kRows * kWidth);
    for (size_t k = 1; k < outputs.size(); ++k)
      for (size_t e = 0; e < sum.size(); ++e)
        sum[e] += toDoubles(outputs[k])[e];
    return sum;
  }
};

int64_t count(const std::vector<std::string> &names, llvm::StringRef name) {
  return std::count(names.begin(), names.end(), name);
}

TEST(SparseGradient, TwoLookupsMakeOneTable) {
  Lookup shared(true, false), apart(false, false);
  EXPECT_EQ(count(shared.ops(), "scatter_rows"), 1);
  EXPECT_EQ(count(shared.ops(), "add"), 0);
  EXPECT_EQ(count(apart.ops(), "scatter_rows"), 2);
  auto a = shared.gradient(), b = apart.gradient();
  for (size_t e = 0; e < a.size(); ++e)
    EXPECT_NEAR(a[e], b[e], 1e-12);
}

// A table that an embedding and a head share, as in language models.
TEST(SparseGradient, RowsAreAddedToADenseGradient) {
  Lookup shared(true, true), apart(false, true);
  EXPECT_EQ(count(shared.ops(), "scatter_rows"), 2);
  EXPECT_EQ(count(shared.ops(), "add"), 0);
  auto a = shared.gradient(), b = apart.gradient();
  for (size_t e = 0; e < a.size(); ++e)
    EXPECT_NEAR(a[e], b[e], 1e-12);
}

} // namespace
