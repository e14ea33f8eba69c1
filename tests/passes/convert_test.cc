// Converts whole models to other precisions. What happens to casts and data is shown in golden/.

#include "passes/lower/convert.h"

#include "passes/differentiate/differentiate.h"
#include "tests/passes/small_graphs.h"
#include "tools/zoo/zoo.h"
#include <gtest/gtest.h>

namespace isthmus {
namespace {

Graph converted(const Graph &g, DType to) {
  auto out = withPrecision(g, to);
  if (!out) {
    ADD_FAILURE() << llvm::toString(out.takeError());
    return Graph();
  }
  return std::move(*out);
}

bool keepsStatistics(const Node &n) {
  return n.op->name == "layer_norm" || n.op->name == "attention";
}

// Every float value has the new type and every other value its old type, under the old names. For
// 16-bit operands, layer norm and attention give their statistics, which are the results after the
// first, in f32.
void expectConverted(const Graph &from, const Graph &to, DType type) {
  for (uint32_t i = 0; i < to.numValues(); ++i) {
    ValueId now(i), old = from.find(to.valueName(now));
    ASSERT_TRUE(old) << to.valueName(now).str();
    Type want = from.type(old);
    if (isFloat(want.dtype))
      want.dtype = type;
    if (dtypeBytes(type) == 2 && to.value(now).def && to.value(now).resultIndex > 0 &&
        keepsStatistics(nodeOf(to, to.valueName(now))))
      want.dtype = DType::F32;
    EXPECT_EQ(to.type(now).str(), want.str()) << to.valueName(now).str();
  }
}

TEST(Convert, AModelWithItsBackwardPass) {
  for (auto [name, options] :
       {std::pair<const char *, ZooOptions>("resnet", {{"depth", "8"}, {"batch", "2"}}),
        {"vae", {{"batch", "2"}}},
        {"gpt2", {{"depth", "1"}, {"width", "8"}, {"heads", "2"}, {"tokens", "4"}, {"vocab", "9"}}},
        {"gpt2",
         {{"depth", "1"},
          {"width", "8"},
          {"heads", "2"},
          {"tokens", "4"},
          {"vocab", "9"},
          {"fused", "1"},
          {"dropout", "0"}}}}) {
    Graph g = llvm::cantFail(buildZoo(name, options));
    ValueList params;
    for (const Input &i : g.inputs())
      if (i.kind == InputKind::Param)
        params.push_back(i.value);
    ValueId y = g.outputs()[0];
    auto grads = gradients(g, {y}, params);
    ASSERT_TRUE(bool(grads)) << llvm::toString(grads.takeError());
    addGradientOutputs(g, params, *grads);
    for (DType type : {DType::F64, DType::BF16, DType::F16, DType::F32}) {
      Graph out = converted(g, type);
      EXPECT_EQ(nodeNames(out), nodeNames(g));
      EXPECT_EQ(outputNames(out), outputNames(g));
      expectConverted(g, out, type);
    }
  }
}

} // namespace
} // namespace isthmus
