// The layers of normalizing flows: each has an inverse and a log-determinant that is easy to
// compute. A flow maps a picture to numbers z of a standard normal distribution.
//
// Every layer is written so that the inverse rules of the op table can rebuild its operand from its
// result: parts are split and concatenated, never masked or sliced, and factors are exponentials.
#pragma once

#include "tools/zoo/model.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <algorithm>

namespace isthmus::zoo {

class Flow {
public:
  // For a flow of this many couplings.
  Flow(Model &m, int64_t batch, int64_t couplings)
      : m_(m), batch_(batch), range_(std::min(1.0, 16 / double(couplings))) {}

  // (x + bias) exp(log_scale), one of each per channel, zeros at first. Glow computes them from the
  // first batch; a graph has no first step, so for this the trainer must feed them.
  ValueId actnorm(ValueId x, const std::string &name);
  // x exp(log_scale), one for each feature.
  ValueId scaling(ValueId x, const std::string &name);
  // Multiplies the channels of each pixel by a square matrix, a rotation at first.
  ValueId invertible1x1(ValueId x, const std::string &name);

  // net(half, channels, name): computes the change of the other half.
  using Net = llvm::function_ref<ValueId(ValueId, int64_t, const std::string &)>;
  // Leaves one half of the channels unchanged and changes the other as a function of it: adds a
  // sum, or multiplies by exp(a tanh(r)) and adds a sum. The factor is one if the net gives zeros,
  // so that deep flows neither grow nor shrink their values at first. With a = 1 it lies between
  // 1/e and e. With more than 16 couplings a is 16 over their number, so that all of them together
  // stay within e^16: with a = 1 the inverse of 256 couplings with random nets is lost, even in
  // f64.
  struct Coupling {
    bool additive;
    bool movesFirst; // half of the channels; the second otherwise
  };
  ValueId couple(ValueId x, Coupling how, Net net, const std::string &name);

  // Makes half of the channels a part of z; returns the rest.
  ValueId factorOut(ValueId x, const std::string &name);
  // Makes all of x a part of z.
  void addLatent(ValueId x, const std::string &name);

  // Adds the outputs nll (the loss), logdet, latent and z.
  Graph finish();

private:
  void addLogDet(ValueId &sum, ValueId more, const std::string &name);

  Model &m_;
  int64_t batch_;
  double range_;               // a
  int64_t features_ = 0;       // of an example, in z
  ValueList latents_;          // [N, features]
  ValueId ofData_, ofWeights_; // log-determinants: summed over the batch, and of each example
};

} // namespace isthmus::zoo
