#include "tools/zoo/flow.h"

#include <cmath>

namespace isthmus::zoo {
namespace {

// Dimensions of one number for each channel of [N, C, H, W], or for each feature of [N, D].
Dims perChannel(const Dims &x) {
  Dims d(x.size() - 1, 1);
  d[0] = x[1];
  return d;
}

// The number of elements of an example that share a channel.
double pixels(const Dims &x) { return double(productOf(llvm::makeArrayRef(x).drop_front(2))); }

} // namespace

void Flow::addLogDet(ValueId &sum, ValueId more, const std::string &name) {
  sum = sum ? m_.op("add", {sum, more}, name) : more;
}

ValueId Flow::scaling(ValueId x, const std::string &name) {
  Dims dims = m_.dims(x);
  ValueId log = m_.fillInput(InputKind::Param, name + ".log_scale", perChannel(dims), 0);
  ValueId total = m_.op("sum", {log}, name + ".log_scale.sum");
  total = m_.op("affine", {total}, name + ".logdet", {{"scale", pixels(dims)}});
  addLogDet(ofWeights_, total, name + ".logdet.sum");
  return m_.op("mul", {x, m_.op("exp", {log}, name + ".scale")}, name);
}

ValueId Flow::actnorm(ValueId x, const std::string &name) {
  ValueId bias = m_.fillInput(InputKind::Param, name + ".bias", perChannel(m_.dims(x)), 0);
  return scaling(m_.op("add", {x, bias}, name + ".centred"), name);
}

ValueId Flow::invertible1x1(ValueId x, const std::string &name) {
  Dims dims = m_.dims(x);
  ValueId w = m_.rotationParam(name + ".weight", dims[1]);
  ValueId size = m_.op("logabsdet", {w}, name + ".logabsdet");
  size = m_.op("affine", {size}, name + ".logdet", {{"scale", pixels(dims)}});
  addLogDet(ofWeights_, size, name + ".logdet.sum");
  ValueId filter =
      m_.op("reshape", {w}, name + ".filter", {{"dims", Ints{dims[1], dims[1], 1, 1}}});
  return m_.op("conv", {x, filter}, name);
}

ValueId Flow::couple(ValueId x, Coupling how, Net net, const std::string &name) {
  auto [first, second] = m_.halves(x, name + ".halves");
  ValueId stays = how.movesFirst ? second : first, moves = how.movesFirst ? first : second;
  int64_t channels = m_.dim(moves, 1);
  ValueId by = net(stays, how.additive ? channels : 2 * channels, name + ".net.");
  if (!how.additive) {
    auto [shift, raw] = m_.halves(by, name + ".parts");
    ValueId log = m_.op("tanh", {raw}, name + (range_ == 1 ? ".log_scale" : ".tanh"));
    if (range_ != 1)
      log = m_.op("affine", {log}, name + ".log_scale", {{"scale", range_}});
    addLogDet(ofData_, m_.op("sum", {log}, name + ".logdet"), name + ".logdet.sum");
    moves = m_.op("mul", {moves, m_.op("exp", {log}, name + ".scale")}, name + ".scaled");
    by = shift;
  }
  moves = m_.op("add", {moves, by}, name + ".moved");
  ValueList parts = {stays, moves};
  if (how.movesFirst)
    std::swap(parts[0], parts[1]);
  return m_.op("concat", parts, name, {{"axis", int64_t(1)}});
}

void Flow::addLatent(ValueId x, const std::string &name) {
  latents_.push_back(m_.flatten(x, name));
  features_ += m_.dim(latents_.back(), 1);
}

ValueId Flow::factorOut(ValueId x, const std::string &name) {
  auto [rest, done] = m_.halves(x, name);
  addLatent(done, name + ".latent");
  return rest;
}

Graph Flow::finish() {
  ValueId z = m_.op("concat", latents_, "z", {{"axis", int64_t(1)}});
  ValueId squares = m_.op("sum", {m_.op("square", {z}, "z.square")}, "z.square.sum");
  ValueId latent = m_.op(
      "affine", {squares}, "latent",
      {{"scale", 0.5 / double(batch_)}, {"shift", 0.5 * double(features_) * std::log(2 * M_PI)}});
  ValueId logdet = ofWeights_ || ofData_ ? ofWeights_ : m_.b.zeros(Type(DType::F32, {}));
  if (ofData_) {
    logdet = m_.op("affine", {ofData_}, "logdet.data", {{"scale", 1 / double(batch_)}});
    if (ofWeights_)
      logdet = m_.op("add", {logdet, ofWeights_}, "logdet.all");
  }
  m_.b.graph().rename(logdet, "logdet");
  ValueId nll = m_.op("sub", {latent, logdet}, "nll");
  m_.setLoss(nll);
  for (ValueId v : {logdet, latent, z})
    m_.addOutput(v);
  return m_.finish(nll, "nll");
}

} // namespace isthmus::zoo
