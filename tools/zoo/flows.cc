// Flows: NICE (Dinh et al. 2015), RealNVP (Dinh et al. 2017) and Glow (Kingma and Dhariwal 2018).
// Their z is standard normal.

#include "tools/cli/exit.h"
#include "tools/zoo/flow.h"

namespace isthmus::zoo {
namespace {

llvm::Error checkPictures(llvm::StringRef model, const Sizes &s) {
  if (llvm::Error e = checkHalvings(model, s, s.levels))
    return e;
  int64_t channels = productOf({s.shape[0], int64_t(4) << s.levels}); // an upper bound
  if (llvm::Error e = checkElements("an activation",
                                    {s.batch, std::max(s.width, channels), s.shape[1], s.shape[2]}))
    return e;
  for (int64_t other : {channels, s.width})
    if (llvm::Error e = checkElements("a weight", {9, std::max(s.width, channels), other}))
      return e;
  return llvm::Error::success();
}

// Each level: squeeze, steps, and half of the channels is factored out; the last level factors out
// all.
template <typename Step> Graph multiScale(const char *name, const Sizes &s, Step step) {
  Model m(name);
  Flow flow(m, s.batch, productOf({s.depth, s.levels}));
  ValueId x = m.input("x", DType::F32, s.batched(s.shape));
  for (int64_t level = 1; level <= s.levels; ++level) {
    std::string in = "level" + std::to_string(level) + ".";
    x = m.squeeze(x, in + "squeeze");
    for (int64_t i = 1; i <= s.depth; ++i)
      x = step(m, flow, x, i, in + "step" + std::to_string(i) + ".");
    if (level < s.levels)
      x = flow.factorOut(x, in + "split");
  }
  flow.addLatent(x, "last.latent");
  return flow.finish();
}

} // namespace

// Couplings of flattened pictures, which change the halves in turn, and a scale for each feature at
// the end. The paper's halves are the odd and the even features, and its z is logistic.
llvm::Expected<Graph> buildNice(const Sizes &s) {
  int64_t features = productOf(s.shape);
  if (features < 2)
    return usageError("nice expects 2 features or more, which it splits, got --shape={0}",
                      features);
  if (llvm::Error e = checkElements("an activation", {s.batch, std::max(features, s.width)}))
    return e;
  if (llvm::Error e = checkElements("a weight", {std::max(features, s.width), s.width}))
    return e;
  Model m("nice");
  Flow flow(m, s.batch, s.depth);
  ValueId x = m.flatten(m.input("x", DType::F32, s.batched(s.shape)), "flat");
  auto net = [&](ValueId half, int64_t to, const std::string &in) {
    for (const char *i : {"1", "2"})
      half = m.relu(m.linear(half, s.width, in + "fc" + i), in + "relu" + i);
    return m.linear(half, to, in + "fc3", /*gain=*/0);
  };
  for (int64_t i = 1; i <= s.depth; ++i)
    x = flow.couple(x, {.additive = s.additive, .movesFirst = i % 2 == 0}, net,
                    "coupling" + std::to_string(i));
  flow.addLatent(flow.scaling(x, "scaling"), "latent");
  return flow.finish();
}

// The paper's chequered masks are couplings of half of the channels here, after a squeeze; the nets
// have one residual block, and no batch norm.
llvm::Expected<Graph> buildRealNvp(const Sizes &s) {
  if (llvm::Error e = checkPictures("realnvp", s))
    return e;
  return multiScale("realnvp", s,
                    [&](Model &m, Flow &flow, ValueId x, int64_t i, const std::string &name) {
                      auto net = [&](ValueId half, int64_t to, const std::string &in) {
                        ValueId h = m.conv(half, s.width, in + "conv1", {});
                        ValueId r = m.conv(m.relu(h, in + "relu1"), s.width, in + "conv2", {});
                        r = m.conv(m.relu(r, in + "relu2"), s.width, in + "conv3", {.gain = 1});
                        h = m.relu(m.op("add", {h, r}, in + "sum"), in + "relu3");
                        return m.conv(h, to, in + "conv4", {.gain = 0});
                      };
                      return flow.couple(x, {.additive = s.additive, .movesFirst = i % 2 == 0}, net,
                                         name + "coupling");
                    });
}

llvm::Expected<Graph> buildGlow(const Sizes &s) {
  if (llvm::Error e = checkPictures("glow", s))
    return e;
  return multiScale("glow", s,
                    [&](Model &m, Flow &flow, ValueId x, int64_t, const std::string &name) {
                      x = flow.actnorm(x, name + "actnorm");
                      x = flow.invertible1x1(x, name + "mix");
                      auto net = [&](ValueId half, int64_t to, const std::string &in) {
                        ValueId h = m.relu(m.conv(half, s.width, in + "conv1", {}), in + "relu1");
                        h = m.relu(m.conv(h, s.width, in + "conv2", {.kernel = 1}), in + "relu2");
                        return m.conv(h, to, in + "conv3", {.gain = 0});
                      };
                      return flow.couple(x, {.additive = s.additive, .movesFirst = false}, net,
                                         name + "coupling");
                    });
}

} // namespace isthmus::zoo
