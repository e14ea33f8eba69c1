// Nets that are one chain of layers: mlp, cnn, vgg16.

#include "tools/cli/exit.h"
#include "tools/zoo/model.h"

namespace isthmus::zoo {
namespace {

llvm::Error checkHalvings(const Sizes &s, int64_t halvings) {
  for (size_t axis : {1, 2})
    if (s.shape[axis] >> halvings == 0)
      return usageError(
          "the net halves height and width {0} times and expects {1} pixels at least, got "
          "--shape={2}x{3}x{4}",
          halvings, int64_t(1) << halvings, s.shape[0], s.shape[1], s.shape[2]);
  return llvm::Error::success();
}

std::string numbered(const char *what, int64_t i) { return what + std::to_string(i); }

} // namespace

llvm::Expected<Graph> buildMlp(const Sizes &s) {
  int64_t features = productOf(s.shape);
  for (auto sizes :
       {std::pair(features, s.width), std::pair(s.width, s.width), std::pair(s.width, s.classes),
        std::pair(s.batch, features), std::pair(s.batch, s.width), std::pair(s.batch, s.classes),
        std::pair(features, s.classes)})
    if (llvm::Error e = checkElements("a matrix", {sizes.first, sizes.second}))
      return e;
  Model m("mlp");
  ValueId x = m.flatten(m.input("x", DType::F32, s.batched(s.shape)), "flatten");
  for (int64_t i = 1; i < s.depth; ++i) {
    x = m.relu(m.linear(x, s.width, numbered("fc", i)), numbered("relu", i));
    x = m.dropout(x, s.dropout, numbered("dropout", i));
  }
  return m.finish(m.linear(x, s.classes, numbered("fc", s.depth), /*gain=*/1));
}

llvm::Expected<Graph> buildCnn(const Sizes &s) {
  if (s.depth > 20)
    return usageError("--depth expects 20 stages at most, each halving the picture, got {0}",
                      s.depth);
  if (llvm::Error e = checkHalvings(s, s.depth))
    return e;
  int64_t widest = s.width << s.depth, pixels = s.shape[1] * s.shape[2];
  if (llvm::Error e =
          checkElements("an activation", {s.batch, std::max(widest, s.shape[0]), pixels}))
    return e;
  if (llvm::Error e = checkElements("a weight", {9, widest, std::max(widest, s.shape[0])}))
    return e;
  if (llvm::Error e = checkElements("a weight", {widest, pixels, s.classes}))
    return e;
  Model m("cnn");
  ValueId x = m.input("x", DType::F32, s.batched(s.shape));
  for (int64_t i = 1; i <= s.depth; ++i) {
    x = m.relu(m.conv(x, s.width << (i - 1), numbered("conv", i), {}), numbered("relu", i));
    x = m.maxPool(x, 2, 2, 0, numbered("pool", i));
  }
  x = m.dropout(m.flatten(x, "flatten"), s.dropout, "dropout");
  return m.finish(m.linear(x, s.classes, "fc", /*gain=*/1));
}

// Simonyan and Zisserman 2015, configuration D.
llvm::Expected<Graph> buildVgg16(const Sizes &s) {
  if (llvm::Error e = checkHalvings(s, 5))
    return e;
  int64_t pixels = s.shape[1] * s.shape[2], hidden = 64 * s.width;
  if (llvm::Error e =
          checkElements("an activation", {s.batch, std::max(s.width, s.shape[0]), pixels}))
    return e;
  if (llvm::Error e = checkElements("a weight", {8 * s.width, pixels / 1024 + 1, hidden}))
    return e;
  if (llvm::Error e =
          checkElements("a weight", {hidden, std::max({hidden, s.classes, s.batch, s.shape[0]})}))
    return e;
  if (llvm::Error e = checkElements("the result", {s.batch, s.classes}))
    return e;
  static constexpr int kStages[][2] = {
      {1, 2}, {2, 2}, {4, 3}, {8, 3}, {8, 3}}; // times the width, convolutions
  Model m("vgg16");
  ValueId x = m.input("x", DType::F32, s.batched(s.shape));
  for (int stage = 0; stage < 5; ++stage) {
    std::string name = numbered("stage", stage + 1);
    for (int i = 1; i <= kStages[stage][1]; ++i)
      x = m.relu(m.conv(x, kStages[stage][0] * s.width, name + numbered(".conv", i), {}),
                 name + numbered(".relu", i));
    x = m.maxPool(x, 2, 2, 0, name + ".pool");
  }
  x = m.flatten(x, "flatten");
  for (int i : {1, 2}) {
    x = m.relu(m.linear(x, hidden, numbered("fc", i)), numbered("relu", i));
    x = m.dropout(x, s.dropout, numbered("dropout", i));
  }
  return m.finish(m.linear(x, s.classes, "fc3", /*gain=*/1));
}

} // namespace isthmus::zoo
