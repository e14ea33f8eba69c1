// Ronneberger et al. 2015, with padded convolutions: every skip has the size of the value with
// which it is concatenated.

#include "tools/cli/exit.h"
#include "tools/zoo/model.h"

namespace isthmus::zoo {
namespace {

ValueId doubleConv(Model &m, ValueId x, int64_t channels, const std::string &in) {
  for (const char *i : {"1", "2"})
    x = m.relu(m.conv(x, channels, in + ".conv" + i, {}), in + ".relu" + i);
  return x;
}

} // namespace

llvm::Expected<Graph> buildUnet(const Sizes &s) {
  if (s.depth > 20)
    return usageError("--depth expects 20 halvings at most, got {0}", s.depth);
  int64_t step = int64_t(1) << s.depth;
  if (s.shape[1] % step || s.shape[2] % step)
    return usageError("a unet of depth {0} expects height and width to be multiples of {1}, got "
                      "--shape={2}x{3}x{4}",
                      s.depth, step, s.shape[0], s.shape[1], s.shape[2]);
  int64_t widest = s.width << s.depth;
  int64_t channels = std::max({2 * s.width, s.shape[0], s.classes});
  if (llvm::Error e = checkElements("an activation", {s.batch, channels, s.shape[1], s.shape[2]}))
    return e;
  for (int64_t other : {2 * widest, s.shape[0], s.classes})
    if (llvm::Error e = checkElements("a weight", {9, widest, other}))
      return e;

  Model m("unet");
  ValueId x = m.input("x", DType::F32, s.batched(s.shape));
  std::vector<ValueId> skips;
  for (int64_t i = 0; i < s.depth; ++i) {
    std::string in = "down" + std::to_string(i + 1);
    skips.push_back(doubleConv(m, x, s.width << i, in));
    x = m.maxPool(skips.back(), 2, 2, 0, in + ".pool");
  }
  x = m.dropout(doubleConv(m, x, widest, "bottom"), s.dropout, "bottom.dropout");
  for (int64_t i = s.depth; i-- > 0;) {
    std::string in = "up" + std::to_string(i + 1);
    x = m.upConv(x, s.width << i, in + ".conv_up");
    x = m.op("concat", {skips[static_cast<size_t>(i)], x}, in + ".concat", {{"axis", int64_t(1)}});
    x = doubleConv(m, x, s.width << i, in);
  }
  return m.finish(m.conv(x, s.classes, "head", {.kernel = 1}));
}

} // namespace isthmus::zoo
