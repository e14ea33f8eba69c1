// Steps of optimizers: they compute the new parameter and the new state from the parameter, its
// gradient, the state, and the scalars that change from step to step. All of these may be
// overwritten in place.
//
// State has the parameter's type, or f32 for parameters of 16 bits. The expansions define the
// computation, and let autodiff differentiate through a step (for meta-learning).

#include "ir/ops/families.h"

namespace isthmus {
namespace {

// --- Shape rules. Operands: param, grad, `states` tensors, rate, then perhaps step.

DType wideType(DType t) { return t == DType::F64 ? DType::F64 : DType::F32; }

llvm::Error expectScalar(const InferContext &c, size_t i) {
  if (c.operand(i).rank() == 0)
    return llvm::Error::success();
  return c.error("expects '{0}' of rank 0, got '{1}'", c.op.operandNames[i], c.operand(i).str());
}

llvm::Expected<TypeList> inferStep(const InferContext &c, size_t states) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = c.expectSame(0, 1))
    return e;
  const Type &param = c.operand(0);
  TypeList results{param};
  for (size_t i = 2; i < 2 + states; ++i) {
    const Type &s = c.operand(i);
    if (s.dims != param.dims || (s.dtype != param.dtype && s.dtype != wideType(param.dtype)))
      return c.error("expects '{0}' of the sizes of '{1}' and of {2} or {3}, got '{4}'",
                     c.op.operandNames[i], param.str(), dtypeName(param.dtype),
                     dtypeName(wideType(param.dtype)), s.str());
    if (s.dtype != c.operand(2).dtype)
      return c.error("expects '{0}' and '{1}' of one type, got '{2}' and '{3}'",
                     c.op.operandNames[2], c.op.operandNames[i], c.operand(2).str(), s.str());
    results.push_back(s);
  }
  size_t rate = 2 + states;
  if (llvm::Error e = c.expectFloat(rate))
    return e;
  if (llvm::Error e = expectScalar(c, rate))
    return e;
  if (c.has(rate + 1)) {
    if (llvm::Error e = c.expectInteger(rate + 1))
      return e;
    if (llvm::Error e = expectScalar(c, rate + 1))
      return e;
  }
  return results;
}
llvm::Expected<TypeList> inferSgd(const InferContext &c) { return inferStep(c, 0); }
llvm::Expected<TypeList> inferOneState(const InferContext &c) { return inferStep(c, 1); }
llvm::Expected<TypeList> inferTwoStates(const InferContext &c) { return inferStep(c, 2); }

// --- Expansions, computed in f32 or f64

struct Step {
  ExpandContext &c;
  Builder &b;
  Type param, state; // the operands' own types
  Type wide;
  ValueId p, g, rate;

  Step(ExpandContext &c, size_t states)
      : c(c), b(c.b), param(b.type(c.operands[0])), state(b.type(c.operands[states ? 2 : 0])),
        wide(param.with(wideType(param.dtype))), p(value(0)), g(value(1)), rate(value(2 + states)) {
  }

  ValueId value(size_t i) const { return b.cast(c.operands[i], wide.dtype); }
  double attr(const char *name) const { return c.attrs.getFloat(name); }
  ValueId scalar(double v) const { return b.full(Type(wide.dtype, {}), v); }
  // The gradient of the loss plus `decay` / 2 times the square of the parameter.
  ValueId decayed(const char *decay) const {
    return attr(decay) == 0 ? g : b.add(g, b.scale(p, attr(decay)));
  }
  // keep * old + add * now
  ValueId mix(ValueId old, double keep, ValueId now, double add) const {
    return b.add(b.scale(old, keep), b.scale(now, add));
  }
  ValueId moved(ValueId direction) const { // p - rate * direction
    return b.cast(b.sub(p, b.mul(direction, rate)), param.dtype);
  }
  ValueId asState(ValueId v) const { return b.cast(v, state.dtype); }
  ValueId isLater(ValueId step) const { // whether `step` is later than step 0
    return b.create("greater", {step, b.full(b.type(step), 0)});
  }
};

ValueList expandSgd(ExpandContext &c) {
  Step s(c, 0);
  return {s.moved(s.decayed("weight_decay"))};
}

ValueList expandMomentum(ExpandContext &c) {
  Step s(c, 1);
  double momentum = s.attr("momentum"), gain = s.attr("gain");
  ValueId g = s.decayed("weight_decay"), share = s.scalar(gain);
  if (c.operands.size() > 4)
    share = c.b.create("where", {s.isLater(c.operands[4]), share, s.scalar(1)});
  ValueId v = c.b.add(c.b.scale(s.value(2), momentum), c.b.mul(g, share));
  ValueId direction = c.attrs.getBool("nesterov") ? c.b.add(g, c.b.scale(v, momentum)) : v;
  return {s.moved(direction), s.asState(v)};
}

// The bias correction after `step` steps: 1 - decay^step, and 1 at step 0.
ValueId correction(Step &s, ValueId step, double decay) {
  ValueId power = s.b.create("pow", {s.scalar(decay), s.b.cast(step, s.wide.dtype)});
  return s.b.create("where", {s.isLater(step), s.b.shift(s.b.neg(power), 1), s.scalar(1)});
}

ValueList adam(Step &s, ValueId g, ValueId p) {
  Builder &b = s.b;
  double beta1 = s.attr("beta1"), beta2 = s.attr("beta2");
  ValueId mean = s.mix(s.value(2), beta1, g, 1 - beta1);
  ValueId square = s.mix(s.value(3), beta2, b.create("square", {g}), 1 - beta2);
  ValueId step = s.c.operands[5];
  ValueId first = correction(s, step, beta1),
          second = b.create("sqrt", {correction(s, step, beta2)});
  ValueId root = b.create("sqrt", {square}), direction;
  if (s.c.attrs.getBool("epsilon_hat"))
    direction = b.mul(b.div(mean, b.shift(root, s.attr("epsilon"))), b.div(second, first));
  else
    direction = b.div(b.div(mean, first), b.shift(b.div(root, second), s.attr("epsilon")));
  return {b.sub(p, b.mul(direction, s.rate)), s.asState(mean), s.asState(square)};
}

ValueList expandAdam(ExpandContext &c) {
  Step s(c, 2);
  ValueList out = adam(s, s.decayed("weight_decay"), s.p);
  out[0] = c.b.cast(c.b.scale(out[0], 1 - s.attr("decay_after")), s.param.dtype);
  return out;
}

ValueList expandAdamW(ExpandContext &c) {
  Step s(c, 2);
  ValueId keep = c.b.shift(c.b.scale(s.rate, -s.attr("weight_decay")), 1);
  ValueList out = adam(s, s.g, c.b.mul(s.p, keep));
  out[0] = c.b.cast(out[0], s.param.dtype);
  return out;
}

ValueList expandAdagrad(ExpandContext &c) {
  Step s(c, 1);
  Builder &b = c.b;
  ValueId g = s.decayed("weight_decay");
  ValueId sum = b.add(s.value(2), b.create("square", {g}));
  ValueId slow = b.shift(b.scale(b.cast(c.operands[4], s.wide.dtype), s.attr("rate_decay")), 1);
  s.rate = b.div(s.rate, slow);
  ValueId root = b.shift(b.create("sqrt", {sum}), s.attr("epsilon"));
  return {s.moved(b.div(g, root)), s.asState(sum)};
}

// --- Cost: a few flops per element; operands are read once, and results written once.

Cost costStep(const OpCall &c) {
  Cost cost;
  for (const Type &t : c.operands)
    cost.bytes += double(t.bytes());
  for (const Type &t : c.results)
    cost.bytes += double(t.bytes());
  cost.flops = 4 * double(c.results.size()) * double(c.results[0].elements());
  return cost;
}

// --- Rows

AttrDef number(const char *name, double byDefault, const char *doc) {
  return {name, AttrKind::Float, byDefault, doc};
}
AttrDef weightDecay() {
  return number("weight_decay", 0, "the multiple of the parameter that is added to the gradient");
}
std::vector<AttrDef> adamAttrs(std::vector<AttrDef> more) {
  std::vector<AttrDef> a = {
      number("beta1", 0.9, "the share of the old mean that stays"),
      number("beta2", 0.999, "the share of the old mean square that stays"),
      number("epsilon", 1e-8, "the constant added to the root of the mean square"),
      {"epsilon_hat", AttrKind::Bool, false,
       "whether epsilon is added before the bias of the root is corrected (the paper, end of "
       "section 2), not after"}};
  a.insert(a.end(), more.begin(), more.end());
  return a;
}

} // namespace

void registerOptimizerOps(OpRegistry &r) {
  r.add(
      {{.name = "sgd",
        .doc = "A step of gradient descent: param - rate * grad.",
        .operands = "param grad rate",
        .results = "new_param",
        .attrs = {weightDecay()},
        .infer = inferSgd,
        .expand = expandSgd,
        .cost = costStep,
        .inPlace = {{0, 0}, {0, 1}},
        .examples = {"sgd(f64[2, 3], f64[2, 3], f64[])",
                     "sgd(f64[5], f64[5], f64[]) {weight_decay = 0.1}"}},
       {.name = "momentum",
        .doc = "A step of gradient descent with momentum (Sutskever et al. 2013): velocity' = "
               "momentum * velocity + gain * grad, param' = param - rate * velocity'.",
        .operands = "param grad velocity rate step?",
        .results = "new_param new_velocity",
        .attrs = {number("momentum", 0.9, "the share of the old velocity that stays"),
                  number("gain", 1, "the factor of the gradient, except at step 0"),
                  {"nesterov", AttrKind::Bool, false,
                   "whether the parameter moves by grad + momentum * velocity'"},
                  weightDecay()},
        .infer = inferOneState,
        .expand = expandMomentum,
        .cost = costStep,
        .inPlace = {{0, 0}, {0, 1}, {1, 2}},
        .examples = {"momentum(f64[2, 3], f64[2, 3], f64[2, 3], f64[])",
                     "momentum(f64[5], f64[5], f64[5], f64[], i64[]) {gain = 0.5, nesterov = true, "
                     "weight_decay = 0.1}"}},
       {.name = "adam",
        .doc = "A step of Adam (Kingma and Ba 2015). `step` counts from 1; at 0 no bias is "
               "corrected.",
        .operands = "param grad mean square rate step",
        .results = "new_param new_mean new_square",
        .attrs = adamAttrs(
            {weightDecay(), number("decay_after", 0,
                                   "the share of the new parameter that is subtracted from it")}),
        .infer = inferTwoStates,
        .expand = expandAdam,
        .cost = costStep,
        .inPlace = {{0, 0}, {0, 1}, {1, 2}, {2, 3}},
        .examples = {"adam(f64[2, 3], f64[2, 3], f64[2, 3], f64[2, 3], f64[], i64[])",
                     "adam(f64[5], f64[5], f64[5], f64[5], f64[], i32[]) {beta1 = 0.5, beta2 = "
                     "0.75, epsilon = 0.01, epsilon_hat = true, weight_decay = 0.1, decay_after = "
                     "0.25}"},
        .low = 0.5,
        .high = 2},
       {.name = "adamw",
        .doc =
            "A step of Adam whose weight decay is no part of the gradient (Loshchilov and Hutter "
            "2019). `step` counts from 1; at 0 no bias is corrected.",
        .operands = "param grad mean square rate step",
        .results = "new_param new_mean new_square",
        .attrs = adamAttrs({number(
            "weight_decay", 0.01,
            "its product with the rate is the share of the parameter that is subtracted first")}),
        .infer = inferTwoStates,
        .expand = expandAdamW,
        .cost = costStep,
        .inPlace = {{0, 0}, {0, 1}, {1, 2}, {2, 3}},
        .examples = {"adamw(f64[2, 3], f64[2, 3], f64[2, 3], f64[2, 3], f64[], i64[]) "
                     "{weight_decay = 0.1}"},
        .low = 0.5,
        .high = 2},
       {.name = "adagrad",
        .doc =
            "A step of Adagrad (Duchi et al. 2011): sum' = sum + grad^2, param' = param - rate / "
            "(1 + step * rate_decay) * grad / (sqrt(sum') + epsilon).",
        .operands = "param grad sum rate step",
        .results = "new_param new_sum",
        .attrs = {number("epsilon", 1e-10, "the constant added to the root of the sum"),
                  number("rate_decay", 0, "the decay of the rate with the number of steps"),
                  weightDecay()},
        .infer = inferOneState,
        .expand = expandAdagrad,
        .cost = costStep,
        .inPlace = {{0, 0}, {0, 1}, {1, 2}},
        .examples = {"adagrad(f64[2, 3], f64[2, 3], f64[2, 3], f64[], i64[])",
                     "adagrad(f64[5], f64[5], f64[5], f64[], i32[]) {epsilon = 0.01, rate_decay = "
                     "0.25, weight_decay = 0.1}"},
        .low = 0.5,
        .high = 2}});
}

} // namespace isthmus
