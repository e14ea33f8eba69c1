// Sandler et al. 2018, MobileNetV2, table 2: inverted residuals with linear bottlenecks.

#include "tools/zoo/model.h"

namespace isthmus::zoo {
namespace {

// The paper's widths are for a stem of 32 channels. Other stems scale them in proportion, rounded
// to multiples of 8 and never more than a tenth below.
int64_t scaled(int64_t channels, int64_t stem) {
  int64_t exact = channels * stem / 32;
  int64_t rounded = std::max<int64_t>(8, (exact + 4) / 8 * 8);
  return rounded * 10 < exact * 9 ? rounded + 8 : rounded;
}

ValueId convNorm(Model &m, ValueId x, int64_t channels, const std::string &name,
                 Model::Conv options) {
  options.bias = false;
  return m.batchNorm(m.conv(x, channels, name + ".conv", options), name + ".bn");
}

ValueId relu6(Model &m, ValueId x, const std::string &name) {
  return m.op("clamp", {x}, name + ".relu6", {{"min", 0.0}, {"max", 6.0}});
}

ValueId block(Model &m, ValueId x, int64_t expansion, int64_t channels, int64_t stride,
              const std::string &in) {
  ValueId skip = x;
  int64_t hidden = m.dim(x, 1) * expansion;
  if (expansion != 1)
    x = relu6(m, convNorm(m, x, hidden, in + ".expand", {.kernel = 1}), in + ".expand");
  x = relu6(
      m,
      convNorm(m, x, hidden, in + ".depthwise", {.kernel = 3, .stride = stride, .groups = hidden}),
      in + ".depthwise");
  x = convNorm(m, x, channels, in + ".project", {.kernel = 1});
  bool keepsShape = stride == 1 && m.dim(skip, 1) == channels;
  return keepsShape ? m.op("add", {skip, x}, in + ".sum") : x;
}

} // namespace

llvm::Expected<Graph> buildMobilenetV2(const Sizes &s) {
  if (llvm::Error e = checkElements(
          "an activation", {s.batch, std::max(6 * s.width, s.shape[0]), s.shape[1], s.shape[2]}))
    return e;
  for (int64_t other : {64 * s.width, s.shape[0], s.classes, s.batch})
    if (llvm::Error e = checkElements("a weight", {9, 64 * s.width, other}))
      return e;
  if (llvm::Error e = checkElements("the result", {s.batch, s.classes}))
    return e;

  static constexpr int64_t kStages[][4] = {// expansion, channels, blocks, stride of the first
                                           {1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2},
                                           {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2},
                                           {6, 320, 1, 1}};
  Model m("mobilenetv2");
  ValueId x = m.input("x", DType::F32, s.batched(s.shape));
  x = relu6(m, convNorm(m, x, scaled(32, s.width), "stem", {.kernel = 3, .stride = 2}), "stem");
  int64_t number = 0;
  for (auto [expansion, channels, blocks, stride] : kStages)
    for (int64_t i = 0; i < blocks; ++i)
      x = block(m, x, expansion, scaled(channels, s.width), i == 0 ? stride : 1,
                "block" + std::to_string(++number));
  x = relu6(m,
            convNorm(m, x, std::max<int64_t>(1280, scaled(1280, s.width)), "head", {.kernel = 1}),
            "head");
  x = m.dropout(m.globalPool(x, "pool"), s.dropout, "dropout");
  return m.finish(m.linear(x, s.classes, "fc", /*gain=*/1));
}

} // namespace isthmus::zoo
