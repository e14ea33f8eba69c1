#include "passes/lower/convert.h"

#include "passes/differentiate/differentiate.h"
#include "tests/passes/small_graphs.h"
#include "tools/zoo/zoo.h"
#include <cmath>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

using Names = std::vector<std::string>;

Initializer dataOf(std::vector<float> values, Dims dims) {
  Initializer init;
  init.kind = Initializer::Kind::Data;
  init.data = Tensor::make(Type(DType::F32, dims),
                           [&](char *p) { std::memcpy(p, values.data(), values.size() * 4); });
  return init;
}

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

// Every float value has the new type, every other its old one, under the old names. Of 16-bit
// operands layer norm and attention give their statistics, results behind the first, in f32.
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

TEST(Convert, RoundsDataToNearest) {
  Graph g;
  addInput(g, "w", Type(DType::F32, {5}), InputKind::Param,
           dataOf({1.0f, -2.5f, 1.00390625f, 65520.0f, 1e-8f}, {5}));
  g.addOutput(g.find("w"));
  Graph f64 = converted(g, DType::F64);
  EXPECT_EQ(f64.inputs()[0].init.data.type, Type(DType::F64, {5}));
  EXPECT_EQ(f64.inputs()[0].init.data.as<double>()[4], double(1e-8f));

  Graph bf16 = converted(g, DType::BF16); // 1 + 2^-8 is half way from 1 to 1 + 2^-7: to even
  const uint16_t *b = bf16.inputs()[0].init.data.as<uint16_t>();
  EXPECT_EQ(b[0], 0x3f80);
  EXPECT_EQ(b[1], 0xc020);
  EXPECT_EQ(b[2], 0x3f80);

  Graph f16 = converted(g, DType::F16);
  const uint16_t *h = f16.inputs()[0].init.data.as<uint16_t>();
  EXPECT_EQ(h[1], 0xc100);
  EXPECT_EQ(h[3], 0x7c00); // infinite: 65504 is the largest
  EXPECT_EQ(h[4], 0);
  Graph back = converted(f16, DType::F32);
  EXPECT_EQ(back.inputs()[0].init.data.as<float>()[1], -2.5f);
  EXPECT_EQ(back.inputs()[0].init.data.as<float>()[3], INFINITY);
}

// x, an f32, is cast to f64 and back: nothing is left of that. Casts from and to integers stay.
TEST(Convert, LeavesOutCastsBetweenFloats) {
  Graph g;
  ValueId x = addInput(g, "x", Type(DType::F32, {4})), i = addInput(g, "i", Type(DType::I64, {4}));
  Builder b(g);
  ValueId wide = b.create("cast", {x}, {{"type", "f64"}}, "wide");
  ValueId e = b.create("exp", {wide}, {}, "e");
  ValueId narrow = b.create("cast", {e}, {{"type", "f32"}}, "narrow");
  ValueId index = b.create("cast", {narrow}, {{"type", "i64"}}, "index");
  ValueId sum = b.create("add", {index, i}, {}, "sum");
  g.addOutput(b.create("cast", {sum}, {{"type", "f64"}}, "y"));
  for (DType type : {DType::F32, DType::F64, DType::BF16}) {
    Graph out = converted(g, type);
    EXPECT_EQ(nodeNames(out), (Names{"e", "index", "sum", "y"}));
    expectConverted(g, out, type);
    EXPECT_EQ(nodeOf(out, "e").operands[0], out.find("x"));
  }
}

TEST(Convert, KeepsCastsThatAreReferredTo) {
  Graph g;
  ValueId x = addInput(g, "x", Type(DType::F32, {4}));
  Builder b(g);
  ValueId output = b.create("cast", {x}, {{"type", "f64"}}, "output");
  ValueId origin = b.create("cast", {x}, {{"type", "f64"}}, "origin");
  ValueId clone = b.create("cast", {x}, {{"type", "f64"}}, "clone");
  nodeOf(g, clone).from.origin = g.value(origin).def;
  ValueId marked = b.create("cast", {x}, {{"type", "f64"}}, "marked");
  nodeOf(g, marked).marks = {"checkpoint"};
  ValueId before = b.create("cast", {x}, {{"type", "f64"}}, "before");
  ValueId sum = b.create("concat", {origin, clone, marked, before}, {{"axis", 0}}, "sum");
  nodeOf(g, sum).from.after = {g.value(before).def};
  g.addOutput(output);
  g.addOutput(sum);
  Graph out = converted(g, DType::F32);
  EXPECT_EQ(nodeNames(out), nodeNames(g));
  expectConverted(g, out, DType::F32);
  EXPECT_TRUE(nodeOf(out, "clone").isClone());
}

TEST(Convert, TypesOfNullaryNodes) {
  Graph g;
  Builder b(g);
  ValueId noise =
      b.create("normal", {}, {{"dims", Ints{4}}, {"type", "f32"}, {"stream", 1}}, "noise");
  ValueId count = b.full(Type(DType::I64, {4}), 3);
  g.addOutput(noise);
  g.addOutput(count);
  Graph out = converted(g, DType::F16);
  EXPECT_EQ(out.type(out.outputs()[0]).str(), "f16[4]");
  EXPECT_EQ(out.type(out.outputs()[1]).str(), "i64[4]");
}

TEST(Convert, NeedsTheWeights) {
  Graph g;
  Initializer init;
  init.kind = Initializer::Kind::Data;
  init.key = "w";
  addInput(g, "w", Type(DType::F32, {4}), InputKind::Param, init);
  auto out = withPrecision(g, DType::F64);
  ASSERT_FALSE(bool(out));
  EXPECT_NE(llvm::toString(out.takeError())
                .find("the values of 'w' cannot be converted to f64: the weights file"),
            std::string::npos);
  EXPECT_TRUE(bool(withPrecision(g, DType::F32))); // nothing to convert
}

} // namespace
} // namespace isthmus
