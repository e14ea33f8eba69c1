// Steps of optimizers, one element at a time, as their papers write them.

#include "tests/ops/definitions/definitions.h"

namespace isthmus::definitions {
namespace {

Number attr(const OpCall &call, const char *name) { return call.attrs->getFloat(name); }

void sgd(const OpCall &call, Operands x, Results y) {
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    const Number g = x[1][at] + attr(call, "weight_decay") * x[0][at];
    y[0][at] = x[0][at] - x[2].values[0] * g;
  });
}

void momentum(const OpCall &call, Operands x, Results y) {
  const bool isFirst = x.size() > 4 && x[4].values[0] == 0;
  const Number share = attr(call, "momentum"), gain = isFirst ? 1 : attr(call, "gain");
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    const Number g = x[1][at] + attr(call, "weight_decay") * x[0][at];
    const Number v = y[1][at] = share * x[2][at] + gain * g;
    y[0][at] = x[0][at] - x[3].values[0] * (call.attrs->getBool("nesterov") ? g + share * v : v);
  });
}

// Adam, and AdamW if the decay is `decoupled`. Operands: param, grad, mean, square, rate, step.
template <bool decoupled> void adam(const OpCall &call, Operands x, Results y) {
  const Number rate = x[4].values[0], step = x[5].values[0], decay = attr(call, "weight_decay"),
               beta1 = attr(call, "beta1"), beta2 = attr(call, "beta2"),
               epsilon = attr(call, "epsilon");
  const Number bias1 = step > 0 ? 1 - std::pow(beta1, step) : 1,
               bias2 = step > 0 ? 1 - std::pow(beta2, step) : 1;
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    const Number g = x[1][at] + (decoupled ? 0 : decay * x[0][at]);
    const Number m = y[1][at] = beta1 * x[2][at] + (1 - beta1) * g;
    const Number s = y[2][at] = beta2 * x[3][at] + (1 - beta2) * g * g;
    const Number root = call.attrs->getBool("epsilon_hat")
                            ? (std::sqrt(s) + epsilon) / std::sqrt(bias2)
                            : std::sqrt(s / bias2) + epsilon;
    const Number p = x[0][at] * (decoupled ? 1 - rate * decay : 1) - rate * (m / bias1) / root;
    y[0][at] = decoupled ? p : p * (1 - attr(call, "decay_after"));
  });
}

void adagrad(const OpCall &call, Operands x, Results y) {
  const Number rate = x[3].values[0] / (1 + x[4].values[0] * attr(call, "rate_decay"));
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    const Number g = x[1][at] + attr(call, "weight_decay") * x[0][at];
    const Number sum = y[1][at] = x[2][at] + g * g;
    y[0][at] = x[0][at] - rate * g / (std::sqrt(sum) + attr(call, "epsilon"));
  });
}

} // namespace

void defineOptimizer(Table &t) {
  t["sgd"] = {sgd};
  t["momentum"] = {momentum};
  t["adam"] = {adam<false>};
  t["adamw"] = {adam<true>};
  t["adagrad"] = {adagrad};
}

} // namespace isthmus::definitions
