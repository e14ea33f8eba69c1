// Each operator gives the numbers that ONNX defines, as nodes and folded at import.

#include "tests/onnx/convert_case.h"
#include <cmath>

namespace isthmus {
namespace {

class Convert : public testing::TestWithParam<Case> {};
TEST_P(Convert, GivesTheNumbers) { checkCase(GetParam()); }

const double kE = std::exp(1.0);

const Case kElementwise[] = {
    {"Add", 17, {{{2}, {1, 2}}, {{2, 1}, {10, 20}}}, {}, {2, 2}, {11, 12, 21, 22}},
    {"Add", 17, {{{2}, {1, 2}}, number(3)}, {}, {2}, {4, 5}},
    {"Sub", 17, {{{2}, {1, 2}}, number(3)}, {}, {2}, {-2, -1}},
    {"Mul", 17, {{{2}, {1, 2}}, number(3)}, {}, {2}, {3, 6}},
    {"Div", 17, {{{2}, {1, 2}}, number(8)}, {}, {2}, {0.125, 0.25}},
    {"Div", 17, {{{2}, {3, 6}}, number(3)}, {}, {2}, {1, 2}},
    {"Div", 17, {{{3}, {7, -7, 9}, Proto::INT64}, {{1}, {2}, Proto::INT64}}, {}, {3}, {3, -3, 4}},
    {"Pow", 17, {{{2}, {-3, 2}}, number(2)}, {}, {2}, {9, 4}},
    {"Pow", 17, {{{2}, {-3, 2}}, number(3)}, {}, {2}, {-27, 8}},
    {"Pow", 17, {{{2}, {4, 9}}, number(0.5)}, {}, {2}, {2, 3}},
    {"Pow", 17, {{{2}, {2, 3}}, {{2}, {4, 1}, Proto::INT64}}, {}, {2}, {16, 3}},
    {"Max", 13, {{{2}, {1, 5}}, {{2}, {3, 4}}, number(2)}, {}, {2}, {3, 5}},
    {"Min", 13, {{{2}, {1, 5}}, {{2}, {3, 4}}}, {}, {2}, {1, 4}},
    {"Sum", 13, {{{2}, {1, 5}}, {{2}, {3, 4}}, {{2}, {1, 1}}}, {}, {2}, {5, 10}},
    {"Mean", 13, {{{2}, {1, 5}}, {{2}, {3, 4}}}, {}, {2}, {2, 4.5}},
    {"Neg", 13, {{{2}, {1, -5}, Proto::INT64}}, {}, {2}, {-1, 5}},
    {"Abs", 13, {{{2}, {1, -5}, Proto::INT64}}, {}, {2}, {1, 5}},
    {"Equal", 13, {{{3}, {1, 2, 3}}, number(2)}, {}, {3}, {0, 1, 0}},
    {"Xor",
     7,
     {{{4}, {0, 0, 1, 1}, Proto::BOOL}, {{4}, {0, 1, 0, 1}, Proto::BOOL}},
     {},
     {4},
     {0, 1, 1, 0}},
    {"Where", 16, {{{2}, {1, 0}, Proto::BOOL}, {{2}, {1, 2}}, number(7)}, {}, {2}, {1, 7}},
    {"Clip", 7, {{{3}, {-2, 0, 9}}}, {{"min", -1.0}, {"max", 6.0}}, {3}, {-1, 0, 6}},
    {"Clip", 13, {{{3}, {-2, 0, 9}}, kNone, number(6)}, {}, {3}, {-2, 0, 6}},
    {"Clip", 13, {{{3}, {-2, 0, 9}}, number(5), number(3)}, {}, {3}, {3, 3, 3}},
    {"Clip", 13, {{{3}, {-2, 0, 9}, Proto::INT64}, {{}, {-1}, Proto::INT64}}, {}, {3}, {-1, 0, 9}},
    {"IsNaN", 13, {{{2}, {NAN, 1}}}, {}, {2}, {1, 0}},
    {"LeakyRelu", 16, {{{2}, {-2, 3}}}, {{"alpha", 0.5}}, {2}, {-1, 3}},
    {"PRelu", 16, {{{2}, {-2, 3}}, {{1}, {0.25}}}, {}, {2}, {-0.5, 3}},
    {"Elu", 7, {{{3}, {-1, 2, 200}}}, {{"alpha", 2.0}}, {3}, {2 / kE - 2, 2, 200}},
    {"Selu", 7, {{{2}, {-1, 2}}}, {{"alpha", 2.0}, {"gamma", 3.0}}, {2}, {6 / kE - 6, 6}},
    {"Celu", 12, {{{2}, {-2, 2}}}, {{"alpha", 2.0}}, {2}, {2 / kE - 2, 2}},
    {"HardSigmoid", 7, {{{3}, {-9, 1, 9}}}, {}, {3}, {0, 0.7, 1}},
    {"HardSwish", 14, {{{3}, {-9, 1, 9}}}, {}, {3}, {0, 2.0 / 3, 9}},
    {"ThresholdedRelu", 10, {{{3}, {0.5, 1, 3}}}, {}, {3}, {0, 0, 3}},
    {"Softsign", 7, {{{2}, {-1, 3}}}, {}, {2}, {-0.5, 0.75}},
    {"Mish", 18, {{{1}, {1}}}, {}, {1}, {std::tanh(std::log1p(kE))}},
    {"Swish", 24, {{{1}, {1}}}, {{"alpha", 2.0}}, {1}, {1 / (1 + std::exp(-2.0))}},
    {"Gelu", 20, {{{2}, {1, -1}}}, {}, {2}, {0.8413447, -0.1586553}},
    {"Gelu", 20, {{{1}, {1}}}, {{"approximate", "tanh"}}, {1}, {0.841192}},
    {"Cast", 13, {{{3}, {1.7, -1.7, 0}}}, {{"to", int(Proto::INT64)}}, {3}, {1, -1, 0}},
    {"CastLike", 15, {{{2}, {1.7, 0}}, {{1}, {1}, Proto::INT64}}, {}, {2}, {1, 0}},
};
INSTANTIATE_TEST_SUITE_P(Elementwise, Convert, testing::ValuesIn(kElementwise));

const Arg kSix{{2, 3}, {0, 1, 2, 3, 4, 5}};

const Case kShapes[] = {
    {"Reshape", 14, {kSix, ints({3, -1})}, {}, {3, 2}, {0, 1, 2, 3, 4, 5}},
    {"Reshape", 14, {kSix, ints({0, 1, -1})}, {{"allowzero", 0}}, {2, 1, 3}, {0, 1, 2, 3, 4, 5}},
    {"Reshape", 14, {{{0, 3}, {}}, ints({3, 0})}, {{"allowzero", 1}}, {3, 0}, {}},
    {"Flatten", 13, {{{1, 2, 3}, kSix.values}}, {{"axis", -1}}, {2, 3}, {0, 1, 2, 3, 4, 5}},
    {"Flatten", 13, {{{1, 2, 3}, kSix.values}}, {{"axis", 0}}, {1, 6}, {0, 1, 2, 3, 4, 5}},
    {"Squeeze", 11, {{{1, 2, 1}, {3, 4}}}, {{"axes", Sizes{-1}}}, {1, 2}, {3, 4}},
    {"Squeeze", 13, {{{1, 2, 1}, {3, 4}}}, {}, {2}, {3, 4}},
    {"Unsqueeze", 11, {{{2}, {3, 4}}}, {{"axes", Sizes{0, 2}}}, {1, 2, 1}, {3, 4}},
    {"Unsqueeze", 13, {{{2}, {3, 4}}, ints({-1, 0})}, {}, {1, 2, 1}, {3, 4}},
    {"Transpose", 13, {kSix}, {}, {3, 2}, {0, 3, 1, 4, 2, 5}},
    {"Transpose", 13, {kSix}, {{"perm", Sizes{-1, 0}}}, {3, 2}, {0, 3, 1, 4, 2, 5}},
    {"Expand", 13, {{{2, 1}, {1, 2}}, ints({2})}, {}, {2, 2}, {1, 1, 2, 2}},
    {"Expand", 13, {{{3, 1}, {1, 2, 3}}, ints({2, 1, 1})}, {}, {2, 3, 1}, {1, 2, 3, 1, 2, 3}},
    {"Tile", 13, {{{1, 2}, {1, 2}}, ints({2, 2})}, {}, {2, 4}, {1, 2, 1, 2, 1, 2, 1, 2}},
    {"DepthToSpace",
     13,
     {{{1, 4, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 7}}},
     {{"blocksize", 2}},
     {1, 1, 2, 4},
     {0, 2, 1, 3, 4, 6, 5, 7}},
    {"SpaceToDepth",
     13,
     {{{1, 1, 2, 4}, {0, 2, 1, 3, 4, 6, 5, 7}}},
     {{"blocksize", 2}},
     {1, 4, 1, 2},
     {0, 1, 2, 3, 4, 5, 6, 7}},
    {"Concat", 13, {{{1, 2}, {1, 2}}, {{1, 1}, {3}}}, {{"axis", -1}}, {1, 3}, {1, 2, 3}},
    {"Split", 11, {kSix}, {{"axis", 1}, {"split", Sizes{1, 2}}}, {2, 1}, {0, 3}, 2},
    {"Split", 13, {kSix, ints({2, 1})}, {{"axis", 1}}, {2, 2}, {0, 1, 3, 4}, 2},
    {"Split", 18, {kSix}, {{"axis", 1}, {"num_outputs", 2}}, {2, 2}, {0, 1, 3, 4}, 2},
    {"Slice",
     9,
     {kSix},
     {{"starts", Sizes{1}}, {"ends", Sizes{1000}}, {"axes", Sizes{1}}},
     {2, 2},
     {1, 2, 4, 5}},
    {"Slice", 13, {kSix, ints({-1}), ints({-9}), ints({1}), ints({-2})}, {}, {2, 2}, {2, 0, 5, 3}},
    {"Slice", 13, {kSix, ints({5}), ints({9}), ints({0})}, {}, {0, 3}, {}},
    {"Slice", 13, {kSix, ints({-9}), ints({-9}), ints({1}), ints({-1})}, {}, {2, 1}, {0, 3}},
    {"Slice",
     13,
     {kSix, ints({-1}), ints({-9e18}), ints({0}), ints({-1})},
     {},
     {2, 3},
     {3, 4, 5, 0, 1, 2}},
    {"Gather", 13, {kSix, ints({2, -3})}, {{"axis", 1}}, {2, 2}, {2, 0, 5, 3}},
    {"Gather", 13, {kSix, {{}, {1}, Proto::INT64}}, {}, {3}, {3, 4, 5}},
    {"Trilu", 14, {kSix, {{}, {1}, Proto::INT64}}, {}, {2, 3}, {0, 1, 2, 0, 0, 5}},
    {"Trilu", 14, {kSix}, {{"upper", 0}}, {2, 3}, {0, 0, 0, 3, 4, 0}},
    {"Pad",
     10,
     {{{1, 2}, {1, 2}}},
     {{"pads", Sizes{0, 1, 1, 0}}, {"value", 9.0}},
     {2, 3},
     {9, 1, 2, 9, 9, 9}},
    {"Pad", 18, {{{1, 3}, {1, 2, 3}}, ints({1, -1}), number(9), ints({-1})}, {}, {1, 3}, {9, 1, 2}},
    {"Pad",
     18,
     {{{1, 3}, {1, 2, 3}}, ints({0, 2, 0, 0})},
     {{"mode", "reflect"}},
     {1, 5},
     {3, 2, 1, 2, 3}},
};
INSTANTIATE_TEST_SUITE_P(Shapes, Convert, testing::ValuesIn(kShapes));

const Case kSums[] = {
    {"ReduceMean", 17, {kSix}, {{"axes", Sizes{-1}}}, {2, 1}, {1, 4}},
    {"ReduceMean", 18, {kSix, ints({0})}, {{"keepdims", 0}}, {3}, {1.5, 2.5, 3.5}},
    {"ReduceMean", 18, {kSix}, {{"noop_with_empty_axes", 1}}, {2, 3}, kSix.values},
    {"ReduceSum", 13, {kSix, ints({1})}, {{"keepdims", 0}}, {2}, {3, 12}},
    {"ReduceSum", 11, {kSix}, {}, {1, 1}, {15}},
    {"ReduceMax", 13, {kSix}, {{"axes", Sizes{0}}, {"keepdims", 0}}, {3}, {3, 4, 5}},
    {"ReduceMin", 13, {kSix}, {{"axes", Sizes{1}}, {"keepdims", 0}}, {2}, {0, 3}},
    {"ReduceL1", 18, {{{2}, {-3, 4}}}, {}, {1}, {7}},
    {"ReduceL2", 18, {{{2}, {-3, 4}}}, {}, {1}, {5}},
    {"ReduceSumSquare", 18, {{{2}, {-3, 4}}}, {}, {1}, {25}},
    {"ReduceLogSumExp", 18, {{{2}, {200, 200}}}, {{"keepdims", 0}}, {}, {200 + std::log(2)}},
    {"ReduceProd", 13, {{{3}, {2, 3, 4}, Proto::INT64}}, {{"keepdims", 0}}, {}, {24}},
    {"MatMul", 13, {kSix, {{3}, {1, 1, 1}}}, {}, {2}, {3, 12}},
    {"MatMul", 13, {{{3}, {1, 1, 1}}, {{3, 2}, {0, 1, 2, 3, 4, 5}}}, {}, {2}, {6, 9}},
    {"MatMul", 13, {{{2}, {1, 2}}, {{2}, {3, 4}}}, {}, {}, {11}},
    {"MatMul", 13, {{{2, 1, 2}, {1, 2, 3, 4}}, {{2}, {3, 4}}}, {}, {2, 1}, {11, 25}},
    {"Gemm",
     13,
     {kSix, {{2, 3}, {1, 1, 1, 2, 2, 2}}, {{2}, {10, 20}}},
     {{"transB", 1}, {"alpha", 0.5}, {"beta", 2.0}},
     {2, 2},
     {21.5, 43, 26, 52}},
    {"Gemm", 13, {{{2, 1}, {2, 3}}, {{2, 1}, {1, 1}}}, {{"transA", 1}}, {1, 1}, {5}},
    {"GlobalAveragePool", 7, {{{1, 2, 3}, kSix.values}}, {}, {1, 2, 1}, {1, 4}},
    {"GlobalMaxPool", 7, {{{1, 2, 3}, kSix.values}}, {}, {1, 2, 1}, {2, 5}},
    {"InstanceNormalization",
     7,
     {{{1, 2, 2}, {1, 3, 5, 9}}, {{2}, {1, 2}}, {{2}, {0, 10}}},
     {{"epsilon", 0.0}},
     {1, 2, 2},
     {-1, 1, 8, 12}},
    {"GroupNormalization",
     21,
     {{{1, 2, 2}, {1, 1, 3, 3}}, {{2}, {1, 2}}, {{2}, {0, 10}}},
     {{"epsilon", 0.0}, {"num_groups", 1}},
     {1, 2, 2},
     {-1, -1, 12, 12}},
    {"GroupNormalization",
     18,
     {{{1, 2, 2}, {1, 3, 5, 9}}, {{2}, {1, 2}}, {{2}, {0, 10}}},
     {{"epsilon", 0.0}, {"num_groups", 2}},
     {1, 2, 2},
     {-1, 1, 8, 12}},
    {"RMSNormalization",
     23,
     {{{2}, {3, 4}}, {{2}, {5, 10}}},
     {{"epsilon", 0.0}},
     {2},
     {15 / std::sqrt(12.5), 40 / std::sqrt(12.5)}},
};
INSTANTIATE_TEST_SUITE_P(Sums, Convert, testing::ValuesIn(kSums));

const Arg kRow{{1, 1, 5}, {1, 2, 3, 4, 5}};

const Case kWindows[] = {
    {"Conv",
     11,
     {kRow, {{1, 1, 2}, {1, 10}}, {{1}, {0.5}}},
     {{"strides", Sizes{2}}, {"pads", Sizes{1, 0}}},
     {1, 1, 3},
     {10.5, 32.5, 54.5}},
    {"Conv",
     11,
     {kRow, {{1, 1, 2}, {1, 10}}},
     {{"auto_pad", "SAME_UPPER"}},
     {1, 1, 5},
     {21, 32, 43, 54, 5}},
    {"Conv",
     11,
     {kRow, {{1, 1, 2}, {1, 10}}},
     {{"auto_pad", "SAME_LOWER"}},
     {1, 1, 5},
     {10, 21, 32, 43, 54}},
    {"Conv",
     11,
     {kRow, {{1, 1, 2}, {1, 10}}},
     {{"auto_pad", "VALID"}, {"dilations", Sizes{2}}},
     {1, 1, 3},
     {31, 42, 53}},
    {"ConvTranspose",
     11,
     {{{1, 1, 2}, {1, 2}}, {{1, 1, 2}, {1, 10}}},
     {{"strides", Sizes{2}}},
     {1, 1, 4},
     {1, 10, 2, 20}},
    {"ConvTranspose",
     11,
     {{{1, 1, 2}, {1, 2}}, {{1, 1, 2}, {1, 10}}},
     {{"strides", Sizes{2}}, {"pads", Sizes{1, 0}}, {"output_padding", Sizes{1}}},
     {1, 1, 4},
     {10, 2, 20, 0}},
    {"ConvTranspose",
     11,
     {{{1, 1, 2}, {1, 2}}, {{1, 1, 3}, {1, 10, 100}}},
     {{"strides", Sizes{2}}, {"output_shape", Sizes{4}}},
     {1, 1, 4},
     {10, 102, 20, 200}},
    {"ConvTranspose",
     11,
     {{{1, 1, 2}, {1, 2}}, {{1, 1, 3}, {1, 10, 100}}},
     {{"strides", Sizes{2}}, {"auto_pad", "SAME_UPPER"}},
     {1, 1, 4},
     {1, 10, 102, 20}},
    {"MaxPool", 12, {kRow}, {{"kernel_shape", Sizes{2}}, {"strides", Sizes{2}}}, {1, 1, 2}, {2, 4}},
    {"MaxPool",
     12,
     {kRow},
     {{"kernel_shape", Sizes{2}}, {"strides", Sizes{2}}, {"ceil_mode", 1}},
     {1, 1, 3},
     {2, 4, 5}},
    {"AveragePool",
     11,
     {kRow},
     {{"kernel_shape", Sizes{2}}, {"pads", Sizes{1, 0}}},
     {1, 1, 5},
     {1, 1.5, 2.5, 3.5, 4.5}},
    {"AveragePool",
     11,
     {kRow},
     {{"kernel_shape", Sizes{2}}, {"pads", Sizes{1, 0}}, {"count_include_pad", 1}},
     {1, 1, 5},
     {0.5, 1.5, 2.5, 3.5, 4.5}},
    {"BatchNormalization",
     15,
     {{{1, 2, 1}, {3, 5}}, {{2}, {1, 2}}, {{2}, {0, 1}}, {{2}, {1, 1}}, {{2}, {4, 4}}},
     {{"epsilon", 0.0}},
     {1, 2, 1},
     {1, 5}},
    {"LayerNormalization",
     17,
     {{{1, 2}, {1, 3}}, {{2}, {1, 2}}, {{2}, {0, 1}}},
     {{"epsilon", 0.0}},
     {1, 2},
     {-1, 3}},
    {"Softmax",
     13,
     {{{1, 2, 2}, {0, 0, 1, 1}}},
     {{"axis", 1}},
     {1, 2, 2},
     {1 / (1 + kE), 1 / (1 + kE), kE / (1 + kE), kE / (1 + kE)}},
    {"Softmax", 11, {{{1, 2, 2}, {0, 0, 0, 0}}}, {}, {1, 2, 2}, {0.25, 0.25, 0.25, 0.25}},
    {"LogSoftmax", 13, {{{1, 2}, {0, 0}}}, {}, {1, 2}, {-std::log(2), -std::log(2)}},
    {"SoftmaxCrossEntropyLoss", 13, {{{2, 2}, {0, 0, 0, 0}}, ints({0, 1})}, {}, {}, {std::log(2)}},
    // One sample without a batch axis, which PyTorch allows.
    {"SoftmaxCrossEntropyLoss",
     13,
     {{{2}, {0, 0}}, {{}, {1}, Proto::INT64}},
     {{"reduction", "none"}},
     {},
     {std::log(2)},
     2},
    {"NegativeLogLikelihoodLoss",
     13,
     {{{2}, {1, 2}}, {{}, {1}, Proto::INT64}, {{2}, {3, 5}}},
     {},
     {},
     {-2}},
    // Real signals without an axis of real and imaginary parts, as PyTorch's exporter writes them.
    {"STFT",
     17,
     {{{1, 4}, {1, 2, 3, 4}}, {{}, {2}, Proto::INT64}, {{2}, {1, 1}}},
     {},
     {1, 2, 2, 2},
     {3, 0, -1, 0, 7, 0, -1, 0}},
    {"NegativeLogLikelihoodLoss",
     13,
     {{{2, 2}, {1, 2, 3, 4}}, ints({0, -1})},
     {{"ignore_index", -1}},
     {},
     {-1}},
    {"NegativeLogLikelihoodLoss",
     13,
     {{{3, 2}, {1, 2, 3, 4, 5, 6}}, ints({0, 1, 7}), {{2}, {0.5, 1.5}}},
     {{"ignore_index", 7}},
     {},
     {-(0.5 * 1 + 1.5 * 4) / 2}},
    {"NegativeLogLikelihoodLoss",
     13,
     {{{2, 2}, {1, 2, 3, 4}}, ints({0, 1})},
     {{"reduction", "none"}},
     {2},
     {-1, -4}},
    {"LRN",
     13,
     {{{1, 3, 1}, {1, 2, 3}}},
     {{"size", 2}, {"alpha", 2.0}, {"beta", 1.0}, {"bias", 0.0}},
     {1, 3, 1},
     {1.0 / 5, 2.0 / 13, 3.0 / 9}},
    {"LpNormalization", 13, {{{2, 2}, {3, 4, 0, 0}}}, {}, {2, 2}, {0.6, 0.8, 0, 0}},
    {"LpNormalization", 13, {{{1, 2}, {1, -3}}}, {{"p", 1}}, {1, 2}, {0.25, -0.75}},
    {"LayerNormalization", // one scale for each row, which the op table's row does not accept
     17,
     {{{2, 2}, {1, 3, 3, 1}}, {{2, 1}, {1, 2}}},
     {{"epsilon", 0.0}},
     {2, 2},
     {-1, 1, 2, -2}},
};
INSTANTIATE_TEST_SUITE_P(Windows, Convert, testing::ValuesIn(kWindows));

const Arg kPair{{1, 1, 2}, {1, 3}};
const Arg kZero{{1, 2, 1}, {0, 0}}; // two queries or keys that give equal scores
const Arg kTwo{{1, 2, 1}, {1, 3}};

const Case kComposed[] = {
    {"Resize", 10, {kPair, {{3}, {1, 1, 2}}}, {}, {1, 1, 4}, {1, 1, 3, 3}},
    // ONNX's test resize_downsample_nearest of opset 10: positions are rounded up.
    {"Resize", 10, {{{2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}}, {{2}, {0.6, 0.6}}}, {}, {1, 2}, {1, 3}},
    // One axis gets smaller, the other larger, as ONNX Runtime does it.
    {"Resize",
     10,
     {{{2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}, {{2}, {1.5, 0.7}}},
     {},
     {3, 3},
     {0, 2, 3, 0, 2, 3, 5, 7, 8}},
    {"Upsample", 9, {{{5}, {0, 1, 2, 3, 4}}, {{1}, {0.7}}}, {}, {3}, {0, 1, 2}},
    {"Resize",
     13,
     {kPair, kNone, {{3}, {1, 1, 2}}},
     {{"mode", "linear"}},
     {1, 1, 4},
     {1, 1.5, 2.5, 3}},
    {"Resize",
     13,
     {kPair, kNone, kNone, ints({1, 1, 3})},
     {{"mode", "linear"}, {"coordinate_transformation_mode", "align_corners"}},
     {1, 1, 3},
     {1, 2, 3}},
    {"Resize",
     18,
     {{{1, 2, 1}, {1, 3}}, kNone, {{1}, {2}}},
     {{"mode", "linear"}, {"axes", Sizes{1}}},
     {1, 4, 1},
     {1, 1.5, 2.5, 3}},
    {"Resize",
     13,
     {{{2, 1, 1}, {1, 3}}, kNone, kNone, ints({1, 1, 1})},
     {{"mode", "linear"}},
     {1, 1, 1},
     {2}},
    {"Resize",
     18,
     {{{1, 4}, {1, 2, 3, 6}}, kNone, kNone, ints({1, 2})},
     {{"mode", "linear"}, {"antialias", 1}},
     {1, 2},
     {1.625, 4.375}},
    // Element 3 is 3 / 0.6, which is 5 in f32, although 0.6 in f32 is larger than 0.6.
    {"Resize",
     13,
     {{{12}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}, kNone, {{1}, {0.6}}},
     {{"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}},
     {7},
     {0, 1, 3, 5, 6, 8, 10}},
    // Element 9 is 9 * 14 / 18 = 7.
    {"Resize",
     13,
     {{{14}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}}, kNone, kNone, ints({18})},
     {{"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}},
     {18},
     {0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11, 12, 13}},
    // With cubic interpolation, a coordinate beyond the border is not clamped.
    {"GridSample",
     20,
     {{{1, 1, 1, 3}, {1, 2, 4}}, {{1, 1, 6, 2}, {-0.9, 0, 0.3, 0, 0.95, 0, 1.1, 0, 1.6, 0, -3, 0}}},
     {{"mode", "cubic"}, {"padding_mode", "border"}},
     {1, 1, 1, 6},
     {0.8890944, 2.9897196, 4.2107735, 4.1194372, 4, 1}},
    {"Attention",
     23,
     {kZero, kZero, kTwo},
     {{"q_num_heads", 1}, {"kv_num_heads", 1}},
     {1, 2, 1},
     {2, 2}},
    // All keys are masked for the first query.
    {"Attention",
     23,
     {kZero, kZero, kTwo, {{2, 2}, {0, 0, 0, 1}, Proto::BOOL}},
     {{"q_num_heads", 1}, {"kv_num_heads", 1}},
     {1, 2, 1},
     {0, 3}},
    {"Attention",
     23,
     {kZero, kZero, kTwo, {{2, 2}, {0, 0, 0, 1}, Proto::BOOL}},
     {{"q_num_heads", 1}, {"kv_num_heads", 1}, {"softcap", 2.0}},
     {1, 2, 1},
     {0, 3}},
    {"Attention",
     24,
     {{{2, 1, 1}, {0, 0}},
      {{2, 2, 1}, {0, 0, 0, 0}},
      {{2, 2, 1}, {1, 3, 5, 7}},
      kNone,
      kNone,
      kNone,
      {{2}, {0, 1}, Proto::INT64}},
     {{"q_num_heads", 1}, {"kv_num_heads", 1}, {"softcap", 2.0}},
     {2, 1, 1},
     {0, 5}},
    {"Attention",
     23,
     {kZero, kZero, kTwo},
     {{"q_num_heads", 1}, {"kv_num_heads", 1}, {"is_causal", 1}},
     {1, 2, 1},
     {1, 2}},
    {"Attention",
     23,
     {{{1, 1, 1, 1}, {2}},
      {{1, 1, 2, 1}, {0, 5}},
      {{1, 1, 2, 1}, {1, 3}},
      {{1, 2}, {1, 0}, Proto::BOOL}},
     {},
     {1, 1, 1, 1},
     {1}},
    {"Attention",
     23,
     {{{1, 1, 2}, {0, 0}}, {{1, 2, 1}, {0, 0}}, {{1, 2, 1}, {1, 3}}},
     {{"q_num_heads", 2}, {"kv_num_heads", 1}},
     {1, 1, 2},
     {2, 2}},
};
INSTANTIATE_TEST_SUITE_P(Composed, Convert, testing::ValuesIn(kComposed));

const Case kConstants[] = {
    {"Shape", 15, {{{2, 3, 4}, Values(24, 1)}}, {{"start", -2}}, {2}, {3, 4}},
    {"Size", 13, {{{2, 3}, kSix.values}}, {}, {}, {6}},
    {"ConstantOfShape", 9, {ints({2, 2})}, {}, {2, 2}, {0, 0, 0, 0}},
    {"Range",
     11,
     {{{}, {1}, Proto::INT64}, {{}, {8}, Proto::INT64}, {{}, {3}, Proto::INT64}},
     {},
     {3},
     {1, 4, 7}},
    {"Range",
     11,
     {{{}, {3}, Proto::INT64}, {{}, {0}, Proto::INT64}, {{}, {-2}, Proto::INT64}},
     {},
     {2},
     {3, 1}},
    // Twice the delta is 2^63, which is no i64, although all elements are.
    {"Range",
     11,
     {{{}, {-0x1p63}, Proto::INT64}, {{}, {0x1p62}, Proto::INT64}, {{}, {0x1p62}, Proto::INT64}},
     {},
     {3},
     {-0x1p63, -0x1p62, 0}},
    {"Mod", 13, {{{3}, {7, -7, 6}, Proto::INT64}, {{}, {3}, Proto::INT64}}, {}, {3}, {1, 2, 0}},
    {"Mod",
     13,
     {{{3}, {7, -7, 6}, Proto::INT64}, {{}, {3}, Proto::INT64}},
     {{"fmod", 1}},
     {3},
     {1, -1, 0}},
    {"NonZero", 13, {{{2, 2}, {1, 0, 1, 1}, Proto::INT64}}, {}, {2, 3}, {0, 1, 1, 0, 0, 1}},
};
INSTANTIATE_TEST_SUITE_P(Constants, Convert, testing::ValuesIn(kConstants));

// --- What the cases above cannot show

TEST(Convert, ConstantsComeInSeveralForms) {
  ModelMaker m;
  auto &a = *m.node("Constant", {}, {"a"}).add_attribute();
  a.set_name("value_floats");
  a.set_type(onnx::AttributeProto::FLOATS);
  a.add_floats(1.5f);
  m.node("Constant", {}, {"b"}, {{"value_ints", Sizes{2, 3}}});
  m.node("Constant", {}, {"c"}, {{"value_float", 2.5}});
  m.node("Constant", {}, {"d"}, {{"value_int", 7}});
  for (const char *name : {"a", "b", "c", "d"})
    m.output(name);
  auto y = outputsOf(m.graphOf(), {});
  ASSERT_EQ(y.size(), 4u);
  EXPECT_EQ(numbers(y[0]), Values{1.5});
  EXPECT_EQ(numbers(y[1]), (Values{2, 3}));
  EXPECT_EQ(y[2].type.str(), "f32[]");
  EXPECT_EQ(y[3].type.str(), "i64[]");
}

TEST(Convert, ComputedShapesFold) {
  ModelMaker m; // reshapes x to [shape(x)[0], -1], as exporters write it
  m.input("x", {"N", 3, 4});
  m.node("Shape", {"x"}, {"s"});
  m.constant("zero", {}, {0}, Proto::INT64);
  m.constant("axes", {1}, {0}, Proto::INT64);
  m.constant("rest", {1}, {-1}, Proto::INT64);
  m.node("Gather", {"s", "zero"}, {"n"});
  m.node("Unsqueeze", {"n", "axes"}, {"nn"});
  m.node("Concat", {"nn", "rest"}, {"shape"}, {{"axis", 0}});
  m.node("Reshape", {"x", "shape"}, {"y"});
  m.output("y");
  Graph g = m.graphOf({.dims = {{"N", 5}}});
  EXPECT_EQ(rowsOf(g), "reshape");
  EXPECT_EQ(g.type(g.outputs()[0]).str(), "f32[5, 12]");
  EXPECT_EQ(g.inputs().size(), 1u);
}

TEST(Convert, ZeroBiasOfAConvolutionIsDropped) {
  ModelMaker m;
  m.input("x", {1, 1, 4});
  m.init("w", {2, 1, 3});
  m.node("Shape", {"w"}, {"s"}, {{"end", 1}});
  m.constant("zero", {}, {0});
  m.node("Expand", {"zero", "s"}, {"bias"});
  m.node("Conv", {"x", "w", "bias"}, {"y"});
  m.output("y");
  Graph g = m.graphOf();
  EXPECT_EQ(rowsOf(g), "conv");
  EXPECT_EQ(g.node(NodeId(0)).operands.size(), 2u);
}

// The rows into which an attention is converted, with `heads` heads of queries and 2 of keys.
std::string attentionRows(std::vector<ModelMaker::AttrItem> attrs,
                          std::vector<std::string> more = {}, int heads = 2,
                          std::vector<std::string> results = {"y"}) {
  ModelMaker m(24);
  m.input("q", {1, heads, 3, 4});
  for (const char *name : {"k", "v", "pastK", "pastV"})
    m.input(name, {1, 2, 3, 4});
  m.input("mask", {heads, 1, 3});
  m.input("counts", {1}, Proto::INT64);
  m.constant("seen", {3, 3}, {1, 0, 1, 1, 1, 0, 1, 1, 1}, Proto::BOOL);
  std::vector<std::string> in = {"q", "k", "v"};
  in.insert(in.end(), more.begin(), more.end());
  m.node("Attention", in, results, attrs);
  m.output("y");
  return rowsOf(m.graphOf());
}

TEST(Convert, AttentionIsARowWhereThatSaysTheSame) {
  EXPECT_EQ(attentionRows({}), "attention");
  EXPECT_EQ(attentionRows({{"is_causal", 1}, {"softmax_precision", Proto::FLOAT}}), "attention");
  EXPECT_EQ(attentionRows({{"is_causal", 1}}, {"mask"}), "attention");
  EXPECT_EQ(attentionRows({}, {"seen"}), "attention");
  EXPECT_EQ(attentionRows({}, {}, 4), "reshape attention reshape");
  EXPECT_EQ(attentionRows({}, {"mask"}, 4),
            "reshape broadcast reshape reshape broadcast reshape attention");
  EXPECT_EQ(attentionRows({}, {"", "pastK", "pastV"}), "concat concat attention");
  // The causal mask covers the past keys too.
  EXPECT_EQ(attentionRows({{"is_causal", 1}}, {"", "pastK", "pastV"}), "concat concat attention");
  EXPECT_EQ(attentionRows({}, {"", "", "", "counts"}), "reshape less where attention");
  // These attributes and outputs are not in the row, so it is not used.
  for (const std::string &rows :
       {attentionRows({{"softcap", 2.0}}), attentionRows({{"softmax_precision", Proto::DOUBLE}}),
        attentionRows({}, {}, 2, {"y", "", "", "p"})}) {
    EXPECT_EQ(rows.find("attention"), std::string::npos) << rows;
    EXPECT_NE(rows.find("softmax"), std::string::npos) << rows;
  }
}

// The attention weights, as PyTorch's exporters write them below opset 23.
TEST(Convert, ZeroInPlaceOfASoftmaxThatIsNaN) {
  for (bool ofItself : {true, false}) {
    ModelMaker m(18);
    m.input("x", {2, 2}).input("z", {2, 2});
    m.constant("mask", {2, 2}, {0, 0, -INFINITY, -INFINITY});
    m.constant("zero", {}, {0});
    m.node("Add", {"x", "mask"}, {"scores"});
    m.node("Softmax", {"scores"}, {"p"});
    m.node("IsNaN", {ofItself ? "p" : "z"}, {"none"});
    m.node("Where", {"none", "zero", "p"}, {"y"});
    m.output("y");
    Graph g = m.graphOf();
    EXPECT_EQ(rowsOf(g), ofItself ? "add softmax is_nan softmax" : "add softmax is_nan where");
    if (!ofItself)
      continue;
    EXPECT_EQ(numbers(outputsOf(g, {{"x", floats({2, 2}, {1, 1, 1, 1})}})[0]),
              (std::vector<double>{0.5, 0.5, 0, 0}));
  }
}

// The row of the node that makes y, the result of the last of `nodes`; each is {operator,
// operands...}.
std::string lastRow(const std::vector<std::vector<std::string>> &nodes) {
  ModelMaker m(17);
  m.input("x", {2, 3}).input("z", {2, 3});
  m.constant("half of rank 3", {1, 1, 1}, {0.5});
  m.constant("root of rank 3", {1, 1, 1}, {1.41421356});
  const std::pair<const char *, double> kNumbers[] = {
      {"half", 0.5},           {"one", 1},     {"root", 1.41421356},
      {"inverse", 0.70710678}, {"three", 3},   {"cubic", 0.044715},
      {"tanhs", 0.7978846},    {"other", 0.7}, {"quick", 1.702}};
  for (auto [name, value] : kNumbers)
    m.constant(name, {}, {value});
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::vector<std::string> in(nodes[i].begin() + 1, nodes[i].end());
    m.node(nodes[i][0], in, {i + 1 == nodes.size() ? "y" : "n" + std::to_string(i)});
  }
  m.output("y");
  Graph g = m.graphOf();
  const Node &last = g.node(g.value(g.outputs()[0]).def);
  std::string row = last.op->name;
  return row == "gelu" ? row + " " + last.attrs.getString("approximate") : row;
}

// Activations as PyTorch's exporters write them below opset 20, and as people write them.
TEST(Convert, ActivationsThatAreWrittenOut) {
  for (const char *x : {"x", "z"}) {
    bool isIt = x[0] == 'x';
    EXPECT_EQ(lastRow({{"Div", "x", "root"},
                       {"Erf", "n0"},
                       {"Add", "n1", "one"},
                       {"Mul", x, "n2"},
                       {"Mul", "n3", "half"}}),
              isIt ? "gelu none" : "affine");
    EXPECT_EQ(lastRow({{"Mul", x, "half"},
                       {"Mul", "x", "inverse"},
                       {"Erf", "n1"},
                       {"Add", "one", "n2"},
                       {"Mul", "n3", "n0"}}),
              isIt ? "gelu none" : "mul");
    EXPECT_EQ(lastRow({{"Mul", "x", "half"},
                       {"Pow", "x", "three"},
                       {"Mul", "n1", "cubic"},
                       {"Add", x, "n2"},
                       {"Mul", "tanhs", "n3"},
                       {"Tanh", "n4"},
                       {"Add", "n5", "one"},
                       {"Mul", "n0", "n6"}}),
              isIt ? "gelu tanh" : "mul");
    EXPECT_EQ(lastRow({{"Mul", "x", "x"},
                       {"Mul", "n0", "x"},
                       {"Mul", "n1", "cubic"},
                       {"Add", "n2", "x"},
                       {"Mul", "n3", "tanhs"},
                       {"Tanh", "n4"},
                       {"Add", "n5", "one"},
                       {"Mul", x, "n6"},
                       {"Mul", "half", "n7"}}),
              isIt ? "gelu tanh" : "affine");
    EXPECT_EQ(lastRow({{"Sigmoid", "x"}, {"Mul", x, "n0"}}), isIt ? "silu" : "mul");
    EXPECT_EQ(lastRow({{"Mul", "x", "quick"}, {"Sigmoid", "n0"}, {"Mul", "n1", x}}),
              isIt ? "swish" : "mul");
  }
  // Operands of another rank.
  EXPECT_EQ(lastRow({{"Mul", "x", "half of rank 3"},
                     {"Div", "x", "root of rank 3"},
                     {"Erf", "n1"},
                     {"Add", "n2", "one"},
                     {"Mul", "n0", "n3"}}),
            "mul");
  // Other constants.
  EXPECT_EQ(lastRow({{"Mul", "x", "other"},
                     {"Erf", "n0"},
                     {"Add", "n1", "one"},
                     {"Mul", "x", "n2"},
                     {"Mul", "n3", "half"}}),
            "affine");
  EXPECT_EQ(
      lastRow({{"Div", "x", "root"}, {"Erf", "n0"}, {"Add", "n1", "one"}, {"Mul", "x", "n2"}}),
      "mul");
}

TEST(Convert, HugeConstantsStayNodes) {
  ModelMaker m;
  m.constant("one", {}, {1});
  m.constant("shape", {2}, {1 << 16, 1 << 16}, Proto::INT64);
  m.node("Expand", {"one", "shape"}, {"big"});
  m.node("ConstantOfShape", {"shape"}, {"zeros"});
  m.node("Add", {"big", "zeros"}, {"y"});
  m.output("y");
  EXPECT_EQ(rowsOf(m.graphOf()), "broadcast full add");
}

TEST(Convert, UniformConstantsAreToldInAWord) {
  ModelMaker m;
  m.input("x", {64, 64});
  m.constant("c", {64, 64}, Values(64 * 64, 0.1));
  m.node("Mul", {"x", "c"}, {"y"});
  m.output("y");
  Graph g = m.graphOf();
  const Input *c = g.inputOf(g.find("c"));
  ASSERT_TRUE(c);
  EXPECT_EQ(c->init.kind, Initializer::Kind::Fill);
  EXPECT_EQ(c->init.args.getFloat("value"), double(0.1f));
}

} // namespace
} // namespace isthmus
