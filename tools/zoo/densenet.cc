// Huang et al. 2017, Densely Connected Convolutional Networks, table 1: every layer of a block
// reads all earlier layers of the block.

#include "tools/cli/exit.h"
#include "tools/zoo/model.h"
#include <algorithm>
#include <array>

namespace isthmus::zoo {
namespace {

using Blocks = std::array<int64_t, 4>; // layers of each

constexpr int64_t kDepths[] = {121, 169, 201, 264};

llvm::Expected<Blocks> blocksFor(int64_t depth) {
  switch (depth) {
  case 121:
    return Blocks{6, 12, 24, 16};
  case 169:
    return Blocks{6, 12, 32, 32};
  case 201:
    return Blocks{6, 12, 48, 32};
  case 264:
    return Blocks{6, 12, 64, 48};
  default:
    return usageError("densenet expects a --depth of 121, 169, 201 or 264, got {0}", depth);
  }
}

ValueId normRelu(Model &m, ValueId x, const std::string &in, const std::string &number = "") {
  return m.relu(m.batchNorm(x, in + "norm" + number), in + "relu" + number);
}

// Appends `growth` channels to those of x.
ValueId layer(Model &m, ValueId x, int64_t growth, const std::string &in) {
  ValueId y =
      m.conv(normRelu(m, x, in, "1"), 4 * growth, in + "conv1", {.kernel = 1, .bias = false});
  y = m.conv(normRelu(m, y, in, "2"), growth, in + "conv2", {.kernel = 3, .bias = false});
  return m.op("concat", {x, y}, in + "out", {{"axis", int64_t(1)}});
}

// Halves the channels, the height and the width.
ValueId transition(Model &m, ValueId x, const std::string &in) {
  x = m.conv(normRelu(m, x, in), m.dim(x, 1) / 2, in + "conv", {.kernel = 1, .bias = false});
  return m.op("avg_pool", {x}, in + "pool", {{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}});
}

} // namespace

std::vector<int64_t> densenetDepths(const Sizes &, int64_t most) {
  return {std::begin(kDepths), std::upper_bound(std::begin(kDepths), std::end(kDepths), most)};
}

llvm::Expected<Graph> buildDensenet(const Sizes &s) {
  auto blocks = blocksFor(s.depth);
  if (!blocks)
    return blocks.takeError();
  if (s.shape[1] < 29 || s.shape[2] < 29) // five halvings
    return usageError("densenet expects a --shape of at least Cx29x29, got {0}x{1}x{2}", s.shape[0],
                      s.shape[1], s.shape[2]);
  int64_t widest = 128 * s.width; // more channels than any block ends with
  if (llvm::Error e = checkElements(
          "an activation", {s.batch, std::max(8 * s.width, s.shape[0]), s.shape[1], s.shape[2]}))
    return e;
  for (int64_t other : {4 * s.width, 13 * s.shape[0], s.classes, s.batch})
    if (llvm::Error e = checkElements("a weight", {9, widest, other}))
      return e;
  if (llvm::Error e = checkElements("the result", {s.batch, s.classes}))
    return e;

  Model m("densenet");
  ValueId x = m.input("x", DType::F32, s.batched(s.shape));
  x = m.conv(x, 2 * s.width, "conv0", {.kernel = 7, .stride = 2, .bias = false});
  x = m.maxPool(normRelu(m, x, "", "0"), 3, 2, 1, "pool0");
  for (size_t block = 0; block < blocks->size(); ++block) {
    std::string number = std::to_string(block + 1);
    if (block > 0)
      x = transition(m, x, "transition" + std::to_string(block) + ".");
    for (int64_t i = 0; i < (*blocks)[block]; ++i)
      x = layer(m, x, s.width, "block" + number + "." + std::to_string(i + 1) + ".");
  }
  x = m.globalPool(normRelu(m, x, "", "5"), "pool");
  return m.finish(m.linear(x, s.classes, "fc", /*gain=*/1));
}

} // namespace isthmus::zoo
