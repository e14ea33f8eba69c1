// Residual nets. He et al. 2016, Deep Residual Learning: table 1 for ImageNet, with the stride on
// the 3x3 convolution of a bottleneck; section 4.2 for CIFAR, with projections where the width
// changes.

#include "tools/cli/exit.h"
#include "tools/zoo/model.h"
#include <array>

namespace isthmus::zoo {
namespace {

struct Plan {
  bool imageNet;   // its stem: 7x7 and a pooling
  bool bottleneck; // 1x1, 3x3, 1x1 rather than 3x3, 3x3
  std::vector<int64_t> blocks;
};

std::optional<Plan> imageNetPlan(int64_t depth) {
  switch (depth) {
  case 18:
    return Plan{true, false, {2, 2, 2, 2}};
  case 34:
    return Plan{true, false, {3, 4, 6, 3}};
  case 50:
    return Plan{true, true, {3, 4, 6, 3}};
  case 101:
    return Plan{true, true, {3, 4, 23, 3}};
  case 152:
    return Plan{true, true, {3, 8, 36, 3}};
  default:
    return std::nullopt;
  }
}

std::optional<Plan> cifarPlan(int64_t depth) {
  for (auto [perStage, bottleneck] : {std::pair(6, false), std::pair(9, true)})
    if (int64_t n = (depth - 2) / perStage; n >= 1 && n * perStage + 2 == depth)
      return Plan{false, bottleneck, {n, n, n}};
  return std::nullopt;
}

// The two families share the depths 50, 101 and 152: for these, pictures of 32x32 select CIFAR's.
llvm::Expected<Plan> planFor(int64_t depth, bool small) {
  std::optional<Plan> imageNet = imageNetPlan(depth), cifar = cifarPlan(depth);
  if (cifar && (small || !imageNet))
    return *cifar;
  if (imageNet)
    return *imageNet;
  int64_t below = depth, above = depth;
  while (below > 8 && !cifarPlan(below))
    --below;
  while (!cifarPlan(above))
    ++above;
  return usageError(
      "resnet expects a --depth of 18, 34, 50, 101, 152 or, in CIFAR's family, 6n+2 or 9n+2, "
      "got {0}; near it {1} {2}",
      depth, below < depth && below >= 8 ? "are " + std::to_string(below) + " and" : "is", above);
}

bool isSmall(const Sizes &s) { return s.shape[1] == 32 && s.shape[2] == 32; }

ValueId convNorm(Model &m, ValueId x, int64_t channels, int64_t kernel, int64_t stride,
                 const std::string &in, const std::string &number) {
  x = m.conv(x, channels, in + "conv" + number,
             {.kernel = kernel, .stride = stride, .bias = false});
  return m.batchNorm(x, in + "bn" + number);
}

ValueId block(Model &m, ValueId x, const Plan &plan, int64_t width, int64_t stride,
              const std::string &in) {
  ValueId skip = x;
  int64_t out = plan.bottleneck ? 4 * width : width;
  if (plan.bottleneck) {
    x = m.relu(convNorm(m, x, width, 1, 1, in, "1"), in + "relu1");
    x = m.relu(convNorm(m, x, width, 3, stride, in, "2"), in + "relu2");
    x = convNorm(m, x, out, 1, 1, in, "3");
  } else {
    x = m.relu(convNorm(m, x, width, 3, stride, in, "1"), in + "relu1");
    x = convNorm(m, x, out, 3, 1, in, "2");
  }
  if (stride != 1 || m.dim(skip, 1) != out)
    skip = convNorm(m, skip, out, 1, stride, in + "skip.", "");
  return m.relu(m.op("add", {x, skip}, in + "sum"), in + "out");
}

} // namespace

// For small pictures the depths of CIFAR's family, of basic blocks; otherwise those of ImageNet's.
std::vector<int64_t> resnetDepths(const Sizes &s, int64_t most) {
  constexpr int64_t kMostOfImageNet = 152, kSmallPicture = 64;
  const bool isCifar = s.shape[1] <= kSmallPicture && s.shape[2] <= kSmallPicture;
  std::vector<int64_t> all;
  for (int64_t depth = 8; depth <= (isCifar ? most : std::min(most, kMostOfImageNet)); ++depth)
    if (isCifar ? (depth - 2) % 6 == 0 && (isSmall(s) || !imageNetPlan(depth))
                : imageNetPlan(depth).has_value())
      all.push_back(depth);
  return all;
}

llvm::Expected<Graph> buildResnet(const Sizes &given) {
  Sizes s = given;
  bool small = isSmall(s);
  // The table's defaults are those of ImageNet.
  auto plan = planFor(s.depthGiven || !small ? s.depth : 20, small);
  if (!plan)
    return plan.takeError();
  if (!plan->imageNet && !s.shapeGiven)
    s.shape = {3, 32, 32};
  int64_t width = s.widthGiven || plan->imageNet ? s.width : 16;
  int64_t classes = s.classesGiven || plan->imageNet ? s.classes : 10;
  int64_t widest = 32 * width;
  if (llvm::Error e = checkElements(
          "an activation", {s.batch, std::max(4 * width, s.shape[0]), s.shape[1], s.shape[2]}))
    return e;
  for (int64_t other : {widest, 49 * s.shape[0], classes, s.batch})
    if (llvm::Error e = checkElements("a weight", {9, widest, other}))
      return e;
  if (llvm::Error e = checkElements("the result", {s.batch, classes}))
    return e;

  Model m("resnet");
  ValueId x = m.input("x", DType::F32, s.batched(s.shape));
  if (plan->imageNet) {
    x = m.relu(convNorm(m, x, width, 7, 2, "", "1"), "relu1");
    x = m.maxPool(x, 3, 2, 1, "pool1");
  } else {
    x = m.relu(convNorm(m, x, width, 3, 1, "", "1"), "relu1");
  }
  for (size_t stage = 0; stage < plan->blocks.size(); ++stage)
    for (int64_t i = 0; i < plan->blocks[stage]; ++i)
      x = block(m, x, *plan, width << stage, stage > 0 && i == 0 ? 2 : 1,
                "layer" + std::to_string(stage + 1) + "." + std::to_string(i) + ".");
  x = m.globalPool(x, "pool");
  return m.finish(m.linear(x, classes, "fc", /*gain=*/1));
}

} // namespace isthmus::zoo
