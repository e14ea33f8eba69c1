// Classifiers whose blocks have inverses: RevNet (Gomez et al. 2017), i-RevNet (Jacobsen et al.
// 2018) and i-ResNet (Behrmann et al. 2019).

#include "tools/cli/exit.h"
#include "tools/zoo/model.h"

namespace isthmus::zoo {
namespace {

// Batch norm, relu and a convolution.
ValueId normConv(Model &m, ValueId x, int64_t channels, int64_t kernel, const std::string &in,
                 const std::string &number) {
  x = m.relu(m.batchNorm(x, in + "bn" + number), in + "relu" + number);
  return m.conv(x, channels, in + "conv" + number, {.kernel = kernel, .bias = false});
}

Graph classified(Model &m, ValueId x, int64_t classes) {
  x = m.relu(m.batchNorm(x, "bn"), "relu");
  return m.finish(m.linear(m.globalPool(x, "pool"), classes, "fc", /*gain=*/1));
}

std::string place(int64_t stage, int64_t block) {
  return "stage" + std::to_string(stage) + "." + std::to_string(block) + ".";
}

// `widest`: the most channels, at the end or inside of a block.
llvm::Error checkSizes(const Sizes &s, int64_t widest) {
  if (llvm::Error e = checkElements("an activation", {s.batch, widest, s.shape[1], s.shape[2]}))
    return e;
  for (int64_t other : {widest, s.classes})
    if (llvm::Error e = checkElements("a weight", {9, widest, other}))
      return e;
  return checkElements("the result", {s.batch, s.classes});
}

} // namespace

// Between stages a convolution of stride 2, which has no inverse, doubles the channels; the paper's
// stages have 32, 32, 64 and 112 channels.
llvm::Expected<Graph> buildRevNet(const Sizes &s) {
  if (s.width % 2)
    return usageError("revnet expects an even --width, which it splits, got {0}", s.width);
  if (llvm::Error e = checkHalvings("revnet", s, s.levels - 1))
    return e;
  if (llvm::Error e =
          checkSizes(s, std::max(productOf({s.width, int64_t(1) << s.levels}), s.shape[0])))
    return e;
  Model m("revnet");
  ValueId x = m.input("x", DType::F32, s.batched(s.shape));
  for (int64_t stage = 1; stage <= s.levels; ++stage) {
    std::string in = "stage" + std::to_string(stage) + ".in.";
    x = m.conv(x, s.width << (stage - 1), in + "conv",
               {.stride = stage == 1 ? 1 : 2, .bias = false});
    x = m.relu(m.batchNorm(x, in + "bn"), in + "relu");
    auto [first, second] = m.halves(x, in + "halves");
    auto moved = [&](ValueId v, ValueId by, const std::string &name) {
      ValueId r = normConv(m, by, m.dim(v, 1), 3, name, "1");
      r = normConv(m, r, m.dim(v, 1), 3, name, "2");
      return m.op("add", {v, r}, name + "sum");
    };
    for (int64_t block = 1; block <= s.depth; ++block) {
      first = moved(first, second, place(stage, block) + "f.");
      second = moved(second, first, place(stage, block) + "g.");
    }
    x = m.op("concat", {first, second}, "stage" + std::to_string(stage), {{"axis", int64_t(1)}});
  }
  return classified(m, x, s.classes);
}

// No information is lost before the last batch norm: stages begin with a squeeze. (In the paper the
// first block of a stage squeezes by its own stride.)
llvm::Expected<Graph> buildIRevNet(const Sizes &s) {
  if (llvm::Error e = checkHalvings("irevnet", s, s.levels))
    return e;
  int64_t channels = productOf({s.shape[0], int64_t(1) << (2 * s.levels)}),
          inner = productOf({s.width, int64_t(1) << s.levels});
  if (llvm::Error e = checkSizes(s, std::max(channels, inner)))
    return e;
  Model m("irevnet");
  ValueId x = m.squeeze(m.input("x", DType::F32, s.batched(s.shape)), "squeeze");
  auto [first, second] = m.halves(x, "halves");
  for (int64_t stage = 1; stage <= s.levels; ++stage) {
    std::string at = "stage" + std::to_string(stage);
    if (stage > 1) {
      first = m.squeeze(first, at + ".squeeze1");
      second = m.squeeze(second, at + ".squeeze2");
    }
    int64_t width = s.width << (stage - 1);
    for (int64_t block = 1; block <= s.depth; ++block) {
      std::string in = place(stage, block);
      ValueId r = normConv(m, second, width, 1, in, "1");
      r = normConv(m, r, width, 3, in, "2");
      r = normConv(m, r, m.dim(first, 1), 1, in, "3");
      ValueId sum = m.op("add", {first, r}, in + "sum");
      first = second;
      second = sum;
    }
  }
  return classified(m, m.op("concat", {first, second}, "joined", {{"axis", int64_t(1)}}),
                    s.classes);
}

namespace {

constexpr double kLipschitz = 0.9; // of each convolution of a residual branch

// A convolution with Lipschitz constant kLipschitz at most. It is scaled by a bound of its norm,
// the root of the product of its norms for the largest sum of a row and of a column (Riesz and
// Thorin). The bound is computed from the weights at every step. The paper's estimate by power
// iteration is closer, but holds only once it has converged.
ValueId contraction(Model &m, ValueId x, int64_t channels, const std::string &name) {
  int64_t from = m.dim(x, 1);
  ValueId w = m.weightParam(name + ".weight", {channels, from, 3, 3}, 1, double(9 * from));
  ValueId bias = m.fillInput(InputKind::Param, name + ".bias", {channels}, 0);
  ValueId sizes = m.op("abs", {w}, name + ".sizes");
  auto largest = [&](Ints axes, const std::string &of) {
    ValueId sums = m.op("sum", {sizes}, name + of + ".sums", {{"axes", std::move(axes)}});
    return m.op("max", {sums}, name + of);
  };
  ValueId square =
      m.op("mul", {largest({1, 2, 3}, ".rows"), largest({0, 2, 3}, ".columns")}, name + ".square");
  ValueId bound = m.op("sqrt", {square}, name + ".bound");
  bound = m.op("clamp", {bound}, name + ".bound.large", {{"min", kLipschitz}});
  ValueId factor = m.op("reciprocal", {bound}, name + ".one_over");
  factor = m.op("affine", {factor}, name + ".factor", {{"scale", kLipschitz}});
  return m.op("conv", {x, m.op("mul", {w, factor}, name + ".filter"), bias}, name,
              {{"pads", Ints{1, 1, 1, 1}}});
}

} // namespace

// x + g(x), where g is a contraction: x = y - g(x) is then found by iteration. A mark on the sum
// says so.
llvm::Expected<Graph> buildIResNet(const Sizes &s) {
  if (llvm::Error e = checkHalvings("iresnet", s, s.levels))
    return e;
  int64_t channels = productOf({s.shape[0], int64_t(1) << (2 * s.levels)});
  if (llvm::Error e = checkSizes(s, std::max(channels, s.width)))
    return e;
  Model m("iresnet");
  ValueId x = m.input("x", DType::F32, s.batched(s.shape));
  for (int64_t stage = 1; stage <= s.levels; ++stage) {
    x = m.squeeze(x, "stage" + std::to_string(stage) + ".squeeze");
    for (int64_t block = 1; block <= s.depth; ++block) {
      std::string in = place(stage, block);
      ValueId h = contraction(m, m.op("elu", {x}, in + "elu1"), s.width, in + "conv1");
      h = contraction(m, m.op("elu", {h}, in + "elu2"), m.dim(x, 1), in + "conv2");
      x = m.op("add", {x, h}, in + "sum");
      m.b.graph().editNode(m.b.graph().value(x).def).marks.push_back("contraction");
    }
  }
  return classified(m, x, s.classes);
}

} // namespace isthmus::zoo
