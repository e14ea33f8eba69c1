// Kingma and Welling 2014. Pictures pass through convolutions of stride 2, flat examples through
// matrices.
//
// The loss is the negative evidence lower bound under a normal likelihood of variance one, up to a
// constant: half the squared error plus the divergence from a standard normal, summed over an
// example, averaged over the batch.

#include "tools/cli/exit.h"
#include "tools/zoo/model.h"

namespace isthmus::zoo {
namespace {

ValueId reduced(Model &m, const char *op, ValueId x, const std::string &name) {
  return m.op(op, {x}, name);
}

// mean over the batch of: half the squared error; -(1 + log var - mean^2 - var) / 2
ValueId addLoss(Model &m, ValueId x, ValueId y, ValueId mean, ValueId logVar, int64_t batch) {
  double share = 0.5 / double(batch);
  ValueId squares = m.op("square", {m.op("sub", {y, x}, "error")}, "error.square");
  ValueId mse =
      m.op("affine", {reduced(m, "sum", squares, "error.sum")}, "mse", {{"scale", share}});
  ValueId var = m.op("exp", {logVar}, "var");
  ValueId terms =
      m.op("sub", {m.op("add", {m.op("square", {mean}, "mean.square"), var}, "kl.grows"), logVar},
           "kl.terms");
  terms = m.op("affine", {terms}, "kl.shifted", {{"shift", -1.0}});
  ValueId kl = m.op("affine", {reduced(m, "sum", terms, "kl.sum")}, "kl", {{"scale", share}});
  return m.op("add", {mse, kl}, "loss");
}

struct Code {
  ValueId mean, logVar, z;
};

Code sample(Model &m, ValueId hidden, const Sizes &s) {
  Code c;
  c.mean = m.linear(hidden, s.latent, "mean", /*gain=*/1);
  // Small at first, so that the noise starts with a variance near one.
  c.logVar = m.linear(hidden, s.latent, "log_var", /*gain=*/0.01);
  ValueId noise =
      m.op("normal", {}, "noise", {{"dims", Ints{s.batch, s.latent}}, {"stream", m.nextStream()}});
  ValueId std = m.op("exp", {m.op("affine", {c.logVar}, "log_std", {{"scale", 0.5}})}, "std");
  c.z = m.op("add", {c.mean, m.op("mul", {std, noise}, "z.noise")}, "z");
  return c;
}

ValueId finalLinear(Model &m, ValueId h, int64_t features) {
  return m.linear(h, features, "decoder.out", /*gain=*/1);
}

llvm::Expected<Graph> buildFlat(const Sizes &s) {
  if (llvm::Error e = checkElements("a matrix", {std::max({s.shape[0], s.width, s.batch}),
                                                 std::max({s.shape[0], s.width, s.latent})}))
    return e;
  Model m("vae");
  ValueId x = m.input("x", DType::F32, s.batched(s.shape)), h = x;
  auto layers = [&](const std::string &in) {
    for (int64_t i = 1; i <= s.depth; ++i)
      h = m.relu(m.linear(h, s.width, in + ".fc" + std::to_string(i)),
                 in + ".relu" + std::to_string(i));
  };
  layers("encoder");
  Code c = sample(m, h, s);
  h = c.z;
  layers("decoder");
  ValueId y = finalLinear(m, h, s.shape[0]);
  ValueId loss = addLoss(m, x, y, c.mean, c.logVar, s.batch);
  m.setLoss(loss);
  m.addOutput(loss);
  return m.finish(y);
}

llvm::Expected<Graph> buildPictures(const Sizes &s) {
  if (s.depth > 20)
    return usageError("--depth expects 20 halvings at most, got {0}", s.depth);
  int64_t step = int64_t(1) << s.depth;
  if (s.shape[1] % step || s.shape[2] % step)
    return usageError("a vae of depth {0} expects height and width to be multiples of {1}, got "
                      "--shape={2}x{3}x{4}",
                      s.depth, step, s.shape[0], s.shape[1], s.shape[2]);
  int64_t widest = s.width << (s.depth - 1),
          bottom = productOf({widest, s.shape[1] / step, s.shape[2] / step});
  if (llvm::Error e = checkElements(
          "an activation", {s.batch, std::max(s.width, s.shape[0]), s.shape[1], s.shape[2]}))
    return e;
  for (int64_t other : {widest, s.shape[0]})
    if (llvm::Error e = checkElements("a weight", {9, widest, other}))
      return e;
  if (llvm::Error e = checkElements("a weight", {bottom, s.latent}))
    return e;
  if (llvm::Error e = checkElements("the code", {s.batch, s.latent}))
    return e;

  Model m("vae");
  ValueId x = m.input("x", DType::F32, s.batched(s.shape)), h = x;
  for (int64_t i = 1; i <= s.depth; ++i) {
    std::string number = std::to_string(i);
    h = m.relu(m.conv(h, s.width << (i - 1), "encoder.conv" + number, {.stride = 2}),
               "encoder.relu" + number);
  }
  Dims inner = m.dims(h);
  Code c = sample(m, m.flatten(h, "encoder.flat"), s);
  h = m.relu(m.linear(c.z, bottom, "decoder.fc"), "decoder.relu0");
  h = m.op("reshape", {h}, "decoder.picture", {{"dims", Ints(inner.begin(), inner.end())}});
  for (int64_t i = s.depth; i > 1; --i) {
    std::string number = std::to_string(s.depth - i + 1);
    h = m.relu(m.upConv(h, s.width << (i - 2), "decoder.conv" + number), "decoder.relu" + number);
  }
  ValueId y = m.upConv(h, s.shape[0], "decoder.out");
  ValueId loss = addLoss(m, x, y, c.mean, c.logVar, s.batch);
  m.setLoss(loss);
  m.addOutput(loss);
  return m.finish(y);
}

} // namespace

llvm::Expected<Graph> buildVae(const Sizes &s) {
  return s.shape.size() == 1 ? buildFlat(s) : buildPictures(s);
}

} // namespace isthmus::zoo
