// What normalizing flows are made of: layers with an inverse whose log-determinant is easy to find,
// from a picture to numbers z of a standard normal distribution.
//
// Every layer is written so that the inverse rules of the op table lead back from its result: parts
// are split and concatenated, never masked or sliced, and factors are exponentials.
#pragma once

#include "tools/zoo/model.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <algorithm>

namespace isthmus::zoo {

class Flow {
public:
  // Of this many couplings.
  Flow(Model &m, int64_t batch, int64_t couplings)
      : m_(m), batch_(batch), range_(std::min(1.0, 16 / double(couplings))) {}

  // (x + bias) exp(log_scale), one of each per channel, zeros at first. Where data are to choose
  // them, as Glow has it, whoever trains feeds them: a graph has no first step of its own.
  ValueId actnorm(ValueId x, const std::string &name);
  // x exp(log_scale), one for each feature.
  ValueId scaling(ValueId x, const std::string &name);
  // The channels of each pixel times a square matrix, a rotation at first.
  ValueId invertible1x1(ValueId x, const std::string &name);

  // net(half, channels, name): what the other half is moved by.
  using Net = llvm::function_ref<ValueId(ValueId, int64_t, const std::string &)>;
  // Leaves one half of the channels as it is, from which follows how the other is moved: by a sum,
  // or by exp(a tanh(r)) times it plus a sum. The factor is one where the net gives zeros, so that
  // deep flows neither grow nor shrink at first what goes through them. With a = 1 it lies between
  // 1/e and e; of more than 16 couplings a is 16 over their number, so that all of them together
  // stay within e^16: with a = 1 the inverse of 256 of random nets is lost, in f64 too.
  struct Coupling {
    bool additive;
    bool movesFirst; // half of the channels; the second otherwise
  };
  ValueId couple(ValueId x, Coupling how, Net net, const std::string &name);

  // Half of the channels is done, and becomes a part of z; the rest goes on.
  ValueId factorOut(ValueId x, const std::string &name);
  // All of it becomes a part of z.
  void addLatent(ValueId x, const std::string &name);

  // The outputs nll (the loss), logdet, latent and z.
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
