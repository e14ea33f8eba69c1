// Tests whether a result lies over a dying operand or beside it.

#include "passes/place/place.h"

#include "passes/rewrite/problem.h"
#include "tests/passes/small_graphs.h"
#include "gtest/gtest.h"

using namespace isthmus;

namespace {

struct Placed {
  Graph g{"placed"};
  Builder b{g};
  ValueId x = addInput(g, "x", Type(DType::F32, {2, 4}));
  ValueId h = b.create("exp", {x});
  ValueId m = b.create("max", {h}, {{"axes", Ints{1}}, {"keepdims", true}});

  int64_t offset(ValueId v) { return llvm::cantFail(place(g, Target())).valueOffset[v.index]; }
};

TEST(Place, AResultTakesThePlaceOfAnOperandOfItsSize) {
  Placed p;
  ValueId y = p.b.create("sub", {p.h, p.m});
  p.g.addOutput(y);
  EXPECT_EQ(p.offset(y), p.offset(p.h));
}

// The operands have 32 and 8 bytes, and both are rounded up to 64. Each row of the result reads the
// row's maximum repeatedly.
TEST(Place, AResultDoesNotOverwriteAnOperandThatIsBroadcast) {
  Placed p;
  ValueId y = p.b.create("sub", {p.h, p.m});
  p.g.addOutput(p.h); // %h stays live, so that only %m could be overwritten
  p.g.addOutput(y);
  EXPECT_NE(p.offset(y), p.offset(p.m));
  EXPECT_NE(p.offset(y), p.offset(p.h));
}

TEST(Place, EmptyTensorsTakeNoPlace) {
  Graph g("empty");
  Builder b(g);
  ValueId x = addInput(g, "x", Type(DType::F32, {2, 0}));
  ValueId y = b.create("sum", {b.create("exp", {b.create("exp", {x})})}, {{"axes", Ints{1}}});
  g.addOutput(y);
  Layout layout = llvm::cantFail(place(g, Target()));
  EXPECT_EQ(layout.arenaBytes, 64);
}

// `count` values of 2^60 bytes each, all live at the end.
std::string errorOfLarge(int count) {
  Graph g("large");
  Builder b(g);
  ValueId x = addInput(g, "x", Type(DType::F32, {int64_t(1) << 58}));
  for (int i = 1; i < count; ++i)
    g.addOutput(b.create("exp", {x}, {}, "y" + std::to_string(i)));
  auto p = extractProblem(g, Target());
  return p ? "" : toString(p.takeError());
}

TEST(Problem, SizesTogetherStayWithin64Bits) {
  EXPECT_EQ(errorOfLarge(4), "");
  EXPECT_NE(errorOfLarge(8).find("with '%y4', of type f32[288230376151711744], all tensors "
                                 "together need over 2^62 bytes"),
            std::string::npos)
      << errorOfLarge(8);
}

} // namespace
