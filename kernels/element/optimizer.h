// Optimizer steps, on every device. Each optimizer is built from the op's attributes; `update`
// takes the learning rate and the step count, which are operands, and returns the function that
// updates one element. `kStates` numbers per element are carried from step to step.
#pragma once

#include "ir/op_def.h"
#include "kernels/element/portable.h"
#include <cmath>

namespace isthmus::element {

struct Sgd {
  static constexpr int kStates = 0;
  double decay;
  explicit Sgd(const Attrs &a) : decay(a.getFloat("weight_decay")) {}

  template <typename C> struct Update {
    C rate, decay;
    ISTHMUS_DEVICE void operator()(C &p, C g, C *) const { p -= (g + p * decay) * rate; }
  };
  template <typename C> ISTHMUS_DEVICE Update<C> update(double rate, int64_t) const {
    return {C(rate), C(decay)};
  }
};

struct Momentum {
  static constexpr int kStates = 1;
  double decay, momentum, gain;
  bool nesterov;
  explicit Momentum(const Attrs &a)
      : decay(a.getFloat("weight_decay")), momentum(a.getFloat("momentum")),
        gain(a.getFloat("gain")), nesterov(a.getBool("nesterov")) {}

  template <typename C> struct Update {
    C rate, decay, momentum, gain;
    bool nesterov;
    ISTHMUS_DEVICE void operator()(C &p, C g, C *state) const {
      C &v = state[0];
      g += p * decay;
      v = v * momentum + g * gain;
      p -= (nesterov ? g + v * momentum : v) * rate;
    }
  };
  template <typename C> ISTHMUS_DEVICE Update<C> update(double rate, int64_t step) const {
    return {C(rate), C(decay), C(momentum), step > 0 ? C(gain) : C(1), nesterov};
  }
};

// The bias correction 1 - decay^step; 1 before the first step.
ISTHMUS_DEVICE inline double correction(double decay, int64_t step) {
  return step > 0 ? 1 - std::pow(decay, double(step)) : 1;
}

// Epsilon is added either to the corrected root, mean / first / (sqrt(square) / second + epsilon),
// or to the uncorrected one (`hat`). Both are mean * byMean / (sqrt(square) * byRoot + epsilon).
template <typename C> struct AdamUpdate {
  C beta1, rest1, beta2, rest2, epsilon, byMean, byRoot, rate;
  ISTHMUS_DEVICE void operator()(C &p, C g, C &mean, C &square) const {
    mean = mean * beta1 + g * rest1;
    square = square * beta2 + g * g * rest2;
    p -= mean * byMean / (std::sqrt(square) * byRoot + epsilon) * rate;
  }
};
struct AdamNumbers {
  double beta1, beta2, epsilon, decay;
  bool hat;
  explicit AdamNumbers(const Attrs &a)
      : beta1(a.getFloat("beta1")), beta2(a.getFloat("beta2")), epsilon(a.getFloat("epsilon")),
        decay(a.getFloat("weight_decay")), hat(a.getBool("epsilon_hat")) {}

  template <typename C> ISTHMUS_DEVICE AdamUpdate<C> adam(double rate, int64_t step) const {
    double first = correction(beta1, step), second = std::sqrt(correction(beta2, step));
    double byMean = hat ? second / first : 1 / first, byRoot = hat ? 1 : 1 / second;
    return {C(beta1),   C(1 - beta1), C(beta2),  C(1 - beta2),
            C(epsilon), C(byMean),    C(byRoot), C(rate)};
  }
};

struct Adam : AdamNumbers {
  static constexpr int kStates = 2;
  double after;
  explicit Adam(const Attrs &a) : AdamNumbers(a), after(1 - a.getFloat("decay_after")) {}

  template <typename C> struct Update {
    AdamUpdate<C> adam;
    C decay, keep;
    ISTHMUS_DEVICE void operator()(C &p, C g, C *state) const {
      adam(p, g + p * decay, state[0], state[1]);
      p *= keep;
    }
  };
  template <typename C> ISTHMUS_DEVICE Update<C> update(double rate, int64_t step) const {
    return {adam<C>(rate, step), C(decay), C(after)};
  }
};

struct AdamW : AdamNumbers {
  static constexpr int kStates = 2;
  using AdamNumbers::AdamNumbers;

  template <typename C> struct Update {
    AdamUpdate<C> adam;
    C keep;
    ISTHMUS_DEVICE void operator()(C &p, C g, C *state) const {
      p *= keep;
      adam(p, g, state[0], state[1]);
    }
  };
  template <typename C> ISTHMUS_DEVICE Update<C> update(double rate, int64_t step) const {
    return {adam<C>(rate, step), C(1 - rate * decay)};
  }
};

struct Adagrad {
  static constexpr int kStates = 1;
  double rateDecay, decay, epsilon;
  explicit Adagrad(const Attrs &a)
      : rateDecay(a.getFloat("rate_decay")), decay(a.getFloat("weight_decay")),
        epsilon(a.getFloat("epsilon")) {}

  template <typename C> struct Update {
    C rate, decay, epsilon;
    ISTHMUS_DEVICE void operator()(C &p, C g, C *state) const {
      C &sum = state[0];
      g += p * decay;
      sum += g * g;
      p -= g / (std::sqrt(sum) + epsilon) * rate;
    }
  };
  template <typename C> ISTHMUS_DEVICE Update<C> update(double rate, int64_t step) const {
    return {C(rate / (1 + double(step) * rateDecay)), C(decay), C(epsilon)};
  }
};

} // namespace isthmus::element
