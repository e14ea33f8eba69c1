// Functions, reductions, scans, gathers, scatters, choices and einsum give the numbers that ONNX
// defines, as nodes and folded at import.

#include "tests/onnx/convert_case.h"

namespace isthmus {
namespace {

class ConvertIndex : public testing::TestWithParam<Case> {};
TEST_P(ConvertIndex, GivesTheNumbers) { checkCase(GetParam()); }

Arg bytes(Values values) { return {{int64_t(values.size())}, values, Proto::UINT8}; }
const Arg kSix{{2, 3}, {0, 1, 2, 3, 4, 5}};
const Arg kFour{{2, 2}, {1, 2, 3, 4}};

const Case kFunctions[] = {
    {"Floor", 13, {{{4}, {-1.5, 1.5, 2, -0.5}}}, {}, {4}, {-2, 1, 2, -1}},
    {"Ceil", 13, {{{4}, {-1.5, 1.5, 2, -0.5}}}, {}, {4}, {-1, 2, 2, 0}},
    {"Round", 11, {{{5}, {0.5, 1.5, 2.5, -0.5, -1.5}}}, {}, {5}, {0, 2, 2, 0, -2}},
    {"Asinh", 9, {{{1}, {1}}}, {}, {1}, {std::asinh(1.0)}},
    {"Neg", 13, {ints({3, -4})}, {}, {2}, {-3, 4}},
    {"Abs", 13, {ints({3, -4})}, {}, {2}, {3, 4}},
    {"Sign", 13, {ints({3, -4, 0})}, {}, {3}, {1, -1, 0}},
    {"Relu", 14, {ints({3, -4})}, {}, {2}, {3, 0}},
    {"Mod", 13, {{{3}, {-4.5, 5, 3.5}}, {{3}, {2, 3, -2}}}, {{"fmod", 1}}, {3}, {-0.5, 2, 1.5}},
    {"Pow", 15, {ints({2, 3}), {{2}, {3, 2}}}, {}, {2}, {8, 9}},
    {"BitShift",
     11,
     {bytes({16, 4, 1}), bytes({1, 2, 3})},
     {{"direction", "LEFT"}},
     {3},
     {32, 16, 8}},
    {"BitShift",
     11,
     {bytes({16, 4, 1}), bytes({1, 9, 3})},
     {{"direction", "RIGHT"}},
     {3},
     {8, 0, 0}},
    {"BitwiseAnd", 18, {ints({6, -1}), ints({3, 5})}, {}, {2}, {2, 5}},
    {"BitwiseOr", 18, {ints({6, -1}), ints({3, 5})}, {}, {2}, {7, -1}},
    {"BitwiseXor", 18, {ints({6, -1}), ints({3, 5})}, {}, {2}, {5, -6}},
    {"BitwiseNot", 18, {bytes({6, 255})}, {}, {2}, {249, 0}},
    {"IsInf", 10, {{{4}, {1, -INFINITY, INFINITY, NAN}}}, {}, {4}, {0, 1, 1, 0}},
    {"IsInf", 10, {{{3}, {1, -INFINITY, INFINITY}}}, {{"detect_negative", 0}}, {3}, {0, 0, 1}},
    {"Shrink", 9, {{{4}, {-2, -1, 1, 2}}}, {{"lambd", 1.5}, {"bias", 1.5}}, {4}, {-0.5, 0, 0, 0.5}},
    // Slopes that the row does not accept are composed from other rows.
    {"Elu", 6, {{{3}, {-1, 1, 200}}}, {{"alpha", -2.0}}, {3}, {2 - 2 / std::exp(1.0), 1, 200}},
    // Broadcasting of old opsets, from an axis on.
    {"Add",
     6,
     {{{2, 2}, {1, 2, 3, 4}}, {{2}, {10, 20}}},
     {{"broadcast", 1}, {"axis", 0}},
     {2, 2},
     {11, 12, 23, 24}},
    {"PRelu", 6, {{{1, 2, 2}, {-1, -2, -3, 4}}, {{2}, {2, 3}}}, {}, {1, 2, 2}, {-2, -4, -9, 4}},
    {"Celu", 12, {{{2}, {-2, 1}}}, {{"alpha", 2.0}}, {2}, {2 / std::exp(1.0) - 2, 1}},
};
INSTANTIATE_TEST_SUITE_P(Functions, ConvertIndex, testing::ValuesIn(kFunctions));

// PyTorch treats a scalar as a vector of one element, and its exporters write axes accordingly. The
// result must be a scalar.
const Case kScalars[] = {
    {"ReduceSum", 13, {number(3), ints({0})}, {{"keepdims", 1}}, {}, {3}},
    {"ReduceL2", 18, {number(-3), ints({-1})}, {{"keepdims", 0}}, {}, {3}},
    {"ReduceMax", 13, {number(3)}, {{"axes", std::vector<int64_t>{0}}}, {}, {3}},
    {"ArgMax", 13, {number(3)}, {{"axis", -1}}, {}, {0}},
    {"Softmax", 13, {number(3)}, {{"axis", 0}}, {}, {1}},
    {"LogSoftmax", 13, {number(3)}, {{"axis", -1}}, {}, {0}},
    {"CumSum", 14, {number(3), {{}, {0}, Proto::INT64}}, {}, {}, {3}},
    {"CumSum", 14, {number(3), {{}, {-1}, Proto::INT64}}, {{"exclusive", 1}}, {}, {0}},
    {"TopK", 11, {number(3), ints({1})}, {}, {}, {3}, 2},
    {"Gather", 13, {number(3), ints({0})}, {{"axis", 0}}, {}, {3}},
    {"GatherElements", 13, {number(3), {{}, {0}, Proto::INT64}}, {}, {}, {3}},
    {"GatherElements", 13, {number(3), ints({0, 0})}, {}, {2}, {3, 3}},
    {"GatherElements", 13, {{{2}, {3, 4}}, {{}, {1}, Proto::INT64}}, {}, {}, {4}},
    {"ScatterElements", 16, {number(3), {{}, {0}, Proto::INT64}, number(5)}, {}, {}, {5}},
    {"ScatterElements",
     16,
     {{{2}, {3, 4}}, {{}, {1}, Proto::INT64}, number(5)},
     {{"reduction", "add"}},
     {2},
     {3, 9}},
    {"Slice", 13, {number(3), ints({-1}), ints({9}), ints({0})}, {}, {}, {3}},
    {"Squeeze", 13, {number(3), ints({-1})}, {}, {}, {3}},
    {"Unsqueeze", 13, {number(3), ints({1})}, {}, {1, 1}, {3}},
    {"Unsqueeze", 13, {number(3), ints({1, 2})}, {}, {1, 1, 1}, {3}},
};
INSTANTIATE_TEST_SUITE_P(Scalars, ConvertIndex, testing::ValuesIn(kScalars));

TEST(ConvertIndex, AxesThatNoScalarHas) {
  ModelMaker m;
  m.input("x", {});
  m.node("Softmax", {"x"}, {"a"}, {{"axis", 1}});
  m.node("ReduceSum", {"x", "axes"}, {"b"});
  m.constant("axes", {1}, {-2}, Proto::INT64);
  m.graph().mutable_node()->SwapElements(1, 2);
  m.output("a");
  m.output("b");
  std::string error = m.errorOf();
  EXPECT_NE(error.find("expects an axis in [-1, 1), got 1"), std::string::npos) << error;
  EXPECT_NE(error.find("expects an axis in [-1, 1), got -2"), std::string::npos) << error;
}

const Case kReductions[] = {
    {"ReduceProd", 18, {kSix, ints({1})}, {{"keepdims", 0}}, {2}, {0, 60}},
    {"ReduceMin", 18, {{{0, 2}, {}}, ints({0})}, {{"keepdims", 0}}, {2}, {INFINITY, INFINITY}},
    {"ReduceMax",
     20,
     {{{2, 2}, {1, 0, 0, 0}, Proto::BOOL}, ints({1})},
     {{"keepdims", 0}},
     {2},
     {1, 0}},
    {"ReduceMean", 18, {ints({1, 2, 4})}, {{"keepdims", 0}}, {}, {2}},
    {"ReduceLogSumExp",
     18,
     {{{2, 1}, {-INFINITY, 3}}, ints({1})},
     {{"keepdims", 0}},
     {2},
     {-INFINITY, 3}},
    {"ArgMax", 13, {{{2, 3}, {2, 2, 1, 3, 5, 5}}}, {{"axis", 1}, {"keepdims", 0}}, {2}, {0, 1}},
    {"ArgMax",
     13,
     {{{2, 3}, {2, 2, 1, 3, 5, 5}}},
     {{"axis", -1}, {"select_last_index", 1}},
     {2, 1},
     {1, 2}},
    {"ArgMin", 13, {{{3}, {2, 1, 1}}}, {}, {1}, {1}},
    {"CumSum", 14, {kSix, {{}, {1}, Proto::INT64}}, {{"exclusive", 1}}, {2, 3}, {0, 0, 1, 0, 3, 7}},
    {"CumSum", 14, {ints({1, 2, 3}), {{}, {0}, Proto::INT64}}, {{"reverse", 1}}, {3}, {6, 5, 3}},
    {"CumProd", 26, {{{3}, {2, 3, 4}}, {{}, {-1}, Proto::INT64}}, {}, {3}, {2, 6, 24}},
};
INSTANTIATE_TEST_SUITE_P(Reductions, ConvertIndex, testing::ValuesIn(kReductions));

const Case kIndexing[] = {
    {"GatherElements",
     13,
     {kFour, {{2, 2}, {0, 0, -1, 0}, Proto::INT64}},
     {{"axis", 1}},
     {2, 2},
     {1, 1, 4, 3}},
    {"GatherND", 13, {kFour, {{2, 2}, {0, 0, 1, -1}, Proto::INT64}}, {}, {2}, {1, 4}},
    {"GatherND", 13, {kFour, {{2, 1}, {1, 0}, Proto::INT64}}, {{"batch_dims", 1}}, {2}, {2, 3}},
    {"ScatterElements",
     18,
     {{{3}, {1, 2, 3}}, {{3}, {0, -1, 0}, Proto::INT64}, {{3}, {5, 6, 7}}},
     {{"reduction", "add"}},
     {3},
     {13, 2, 9}},
    {"Scatter",
     9,
     {kFour, {{1, 2}, {1, 0}, Proto::INT64}, {{1, 2}, {5, 6}}},
     {},
     {2, 2},
     {1, 6, 5, 4}},
    {"ScatterND",
     18,
     {kFour, {{2, 1}, {1, 1}, Proto::INT64}, {{2, 2}, {2, 3, 4, 9}}},
     {{"reduction", "mul"}},
     {2, 2},
     {1, 2, 24, 108}},
    {"ScatterND",
     18,
     {kFour, {{1, 1}, {0}, Proto::INT64}, {{1, 2}, {0, 9}}},
     {{"reduction", "max"}},
     {2, 2},
     {1, 9, 3, 4}},
    {"ReverseSequence",
     10,
     {{{3, 2}, {1, 2, 3, 4, 5, 6}}, ints({2, 3})},
     {},
     {3, 2},
     {3, 6, 1, 4, 5, 2}},
    {"TensorScatter",
     24,
     {{{1, 3, 1}, {1, 2, 3}}, {{1, 2, 1}, {8, 9}}, ints({2})},
     {{"mode", "circular"}},
     {1, 3, 1},
     {9, 2, 8}},
    {"TopK", 11, {{{4}, {1, 3, 2, 3}}, ints({2})}, {}, {2}, {3, 3}, 2},
    {"TopK", 11, {kSix, ints({1})}, {{"axis", 0}, {"largest", 0}}, {1, 3}, {0, 1, 2}, 2},
    {"Hardmax", 13, {{{2, 3}, {3, 3, 1, 0, 1, 2}}}, {}, {2, 3}, {1, 0, 0, 0, 0, 1}},
    {"Hardmax", 11, {{{1, 2, 2}, {3, 3, 4, 0}}}, {}, {1, 2, 2}, {0, 0, 1, 0}},
    {"OneHot",
     11,
     {ints({1, -1, 5}), number(3), {{2}, {2, 7}}},
     {},
     {3, 3},
     {2, 7, 2, 2, 2, 7, 2, 2, 2}},
    {"Compress", 11, {kSix, {{2}, {0, 1}, Proto::BOOL}}, {{"axis", 0}}, {1, 3}, {3, 4, 5}},
    {"EyeLike", 9, {kSix}, {{"k", 1}}, {2, 3}, {0, 1, 0, 0, 0, 1}},
    {"CenterCropPad", 18, {kSix, ints({3, 1})}, {}, {3, 1}, {1, 4, 0}},
    // If the difference is odd, the larger half is at the end.
    {"CenterCropPad", 18, {{{4}, {0, 1, 2, 3}}, ints({1})}, {}, {1}, {1}},
    {"CenterCropPad", 18, {{{2}, {1, 2}}, ints({5})}, {}, {5}, {0, 1, 2, 0, 0}},
};
INSTANTIATE_TEST_SUITE_P(Indexing, ConvertIndex, testing::ValuesIn(kIndexing));

Case einsum(const char *equation, std::vector<Arg> args, Sizes dims, Values values) {
  return {"Einsum", 12, args, {{"equation", equation}}, dims, values};
}
const Case kEinsums[] = {
    einsum("ij->ji", {kSix}, {3, 2}, {0, 3, 1, 4, 2, 5}),
    einsum("i,i", {{{2}, {1, 2}}, {{2}, {3, 4}}}, {}, {11}),
    einsum("i,j->ij", {{{2}, {1, 2}}, {{2}, {3, 4}}}, {2, 2}, {3, 4, 6, 8}),
    einsum("ij,jk", {kFour, kFour}, {2, 2}, {7, 10, 15, 22}),
    einsum("ij,kj->ki", {kFour, {{1, 2}, {5, 6}}}, {1, 2}, {17, 39}),
    einsum("ii->i", {kFour}, {2}, {1, 4}),
    einsum("ii", {kFour}, {}, {5}),
    einsum("...i->...", {kSix}, {2}, {3, 12}),
    einsum("b...,b", {kFour, {{2}, {10, 100}}}, {2}, {310, 420}),
    einsum("ij , ij , j -> i", {kFour, kFour, {{1}, {2}}}, {2}, {10, 50}),
    einsum("bij,bjk->bik", {{{1, 2, 2}, {1, 2, 3, 4}}, {{1, 2, 1}, {5, 6}}}, {1, 2, 1}, {17, 39}),
    einsum("bhqd,bhkd->bhqk", {{{1, 1, 2, 2}, {1, 2, 3, 4}}, {{1, 1, 1, 2}, {5, 6}}}, {1, 1, 2, 1},
           {17, 39}),
    einsum("iji->j", {{{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}}}, {2}, {7, 11}),
};
INSTANTIATE_TEST_SUITE_P(Einsums, ConvertIndex, testing::ValuesIn(kEinsums));

TEST(ConvertIndex, EinsumsThatCannotBe) {
  auto errorOf = [](const char *equation) {
    ModelMaker m;
    m.input("x", {2, 3});
    m.input("y", {2, 2});
    m.node("Einsum", {"x", "y"}, {"z"}, {{"equation", equation}});
    m.output("z");
    return m.errorOf();
  };
  auto has = [&](const char *equation, const char *text) {
    std::string error = errorOf(equation);
    EXPECT_NE(error.find(text), std::string::npos) << error;
  };
  has("ij,ij->i", "sizes that agree");
  has("ij->i", "one term for each");
  has("i,ij->i", "a letter for each axis");
  has("ij,ik->iz", "no operand has");
  has("ij,ik->ii", "each letter once");
  has("i-,ik->i", "expects letters");
}

TEST(ConvertIndex, ConstantIndicesAreHeldAgainstTheSize) {
  ModelMaker m;
  m.input("x", {2, 3});
  m.constant("i", {1, 1}, {2}, Proto::INT64);
  m.node("GatherND", {"x", "i"}, {"y"});
  m.output("y");
  EXPECT_NE(m.errorOf().find("expects indices in [-2, 2), got 2"), std::string::npos);
}

// A small file must not be able to request any amount of memory.
TEST(ConvertIndex, CountingIsLimited) {
  auto errorOf = [](const char *op, ModelMaker::Dim size, std::vector<std::string> in) {
    ModelMaker m;
    m.input("x", {size});
    m.input("i", {2}, Proto::INT64);
    m.constant("depth", {}, {1 << 30}, Proto::INT64);
    m.constant("values", {2}, {0, 1});
    m.node(op, std::move(in), {"y"});
    m.output("y");
    return m.errorOf();
  };
  EXPECT_NE(errorOf("Hardmax", 1 << 30, {"x"}).find("would count to 1073741824"),
            std::string::npos);
  EXPECT_NE(errorOf("OneHot", 2, {"i", "depth", "values"}).find("would count to 1073741824"),
            std::string::npos);
}

TEST(ConvertIndex, UniqueOfAConstant) {
  ModelMaker m;
  m.constant("x", {6}, {2, 1, 1, 3, 4, 3});
  m.node("Unique", {"x"}, {"y", "first", "which", "counts"}, {{"sorted", 0}});
  for (const char *name : {"y", "first", "which", "counts"})
    m.output(name);
  auto out = outputsOf(m.graphOf(), {});
  ASSERT_EQ(out.size(), 4u);
  EXPECT_EQ(numbers(out[0]), (Values{2, 1, 3, 4}));
  EXPECT_EQ(numbers(out[1]), (Values{0, 1, 3, 4}));
  EXPECT_EQ(numbers(out[2]), (Values{0, 1, 1, 2, 3, 2}));
  EXPECT_EQ(numbers(out[3]), (Values{1, 2, 2, 1}));
}

} // namespace
} // namespace isthmus
