#include "ir/onnx/recurrent.h"

#include "llvm/ADT/StringSwitch.h"

namespace isthmus::onnx_import {
namespace {

// The defaults of alpha and beta, those of the ONNX operators of these names. NaN: the activation
// has no such parameter.
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
std::optional<std::pair<double, double>> parametersOf(const std::string &name) {
  using P = std::optional<std::pair<double, double>>;
  return llvm::StringSwitch<P>(name)
      .CasesLower("relu", "tanh", "sigmoid", std::pair(kNone, kNone))
      .CasesLower("softsign", "softplus", std::pair(kNone, kNone))
      .CaseLower("affine", std::pair(1.0, 0.0))
      .CaseLower("scaledtanh", std::pair(1.0, 1.0))
      .CaseLower("hardsigmoid", std::pair(0.2, 0.5))
      .CaseLower("leakyrelu", std::pair(0.01, kNone))
      .CaseLower("elu", std::pair(1.0, kNone))
      .CaseLower("thresholdedrelu", std::pair(1.0, kNone))
      .Default(std::nullopt);
}

std::vector<double> floatList(NodeContext &n, llvm::StringRef name) {
  std::vector<double> out;
  if (const onnx::AttributeProto *a = n.attr(name))
    for (float f : a->floats())
      out.push_back(f);
  return out;
}

} // namespace

Recurrent::Recurrent(NodeContext &n, int64_t gates, std::vector<std::string> activations)
    : n(n), gates(gates) {
  std::string direction = n.stringAttr("direction", "forward");
  bool both = direction == "bidirectional";
  if (!both && direction != "forward" && direction != "reverse") {
    n.fail("expects the direction forward, reverse or bidirectional, got '{0}'", direction);
    return;
  }
  batchFirst_ = n.intAttr("layout", 0) != 0;
  clip_ = n.floatAttr("clip", 0);
  if (gates == 3)
    linearBeforeReset = n.intAttr("linear_before_reset", 0) != 0;
  if (gates == 4)
    inputForget = n.intAttr("input_forget", 0) != 0;
  const Type &x = n.in(0).type, &w = n.in(1).type, &r = n.in(2).type;
  int64_t count = both ? 2 : 1;
  if (x.rank() != 3 || w.rank() != 3 || r.rank() != 3 || w.dims[0] != count || r.dims[0] != count ||
      w.dims[2] != x.dims[2] || w.dims[1] != gates * r.dims[2] || r.dims[1] != gates * r.dims[2]) {
    n.fail("expects an operand [steps, batch, input] and weights [{0}, {1} * hidden, input] "
           "and [{0}, {1} * hidden, hidden], got '{2}', '{3}' and '{4}'",
           count, gates, x.str(), w.str(), r.str());
    return;
  }
  steps = x.dims[batchFirst_ ? 1 : 0];
  batch = x.dims[batchFirst_ ? 0 : 1];
  hidden = r.dims[2];
  if (int64_t given = n.intAttr("hidden_size", hidden); given != hidden) {
    n.fail("expects a hidden_size of {0}, as the weights have, got {1}", hidden, given);
    return;
  }
  if (steps == 0) {
    n.fail("expects one step or more, got '{0}'", x.str());
    return;
  }
  directions_.resize(size_t(count));
  readActivations(activations);
  for (size_t d = 0; d < directions_.size() && !n.failed(); ++d) {
    directions_[d].reverse = direction == "reverse" || d == 1;
    readDirection(d, directions_[d]);
  }
  bounded_ = n.has(4);
  if (bounded_ && (n.in(4).type.rank() != 1 || n.in(4).type.dims[0] != batch))
    n.fail("expects one length for each of {0} sequences, got '{1}'", batch, n.in(4).type.str());
}

// The parameters are listed in the order of the activations that have them.
void Recurrent::readActivations(const std::vector<std::string> &byDefault) {
  std::vector<std::string> names;
  if (const onnx::AttributeProto *a = n.attr("activations"))
    names.assign(a->strings().begin(), a->strings().end());
  if (names.empty())
    for (size_t d = 0; d < directions_.size(); ++d)
      names.insert(names.end(), byDefault.begin(), byDefault.end());
  if (names.size() != byDefault.size() * directions_.size())
    return n.fail("expects {0} activations, got {1}", byDefault.size() * directions_.size(),
                  names.size());
  std::vector<double> alphas = floatList(n, "activation_alpha"),
                      betas = floatList(n, "activation_beta");
  size_t alpha = 0, beta = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    auto parameters = parametersOf(names[i]);
    if (!parameters)
      return n.fail("activation '{0}' is not known", names[i]);
    auto [a, b] = *parameters;
    if (!std::isnan(a) && alpha < alphas.size())
      a = alphas[alpha++];
    if (!std::isnan(b) && beta < betas.size())
      b = betas[beta++];
    directions_[i / byDefault.size()].activations.push_back(
        {llvm::StringRef(names[i]).lower(), a, b});
  }
}

Operand Recurrent::ofDirection(size_t operand, size_t d) {
  Operand x = n.in(operand);
  if (n.failed())
    return x;
  Dims rest(x.type.dims.begin() + (x.type.rank() > 0), x.type.dims.end());
  if (x.type.rank() < 2 || x.type.dims[0] != int64_t(directions_.size())) {
    n.fail("expects operand {0} with an entry for each of {1} directions, got '{2}'", operand,
           directions_.size(), x.type.str());
    return x;
  }
  if (directions_.size() > 1)
    x = n.emitAll("split", {x}, {{"axis", int64_t(0)}, {"sizes", Ints{1, 1}}})[d];
  return n.reshape(x, rest);
}

void Recurrent::readDirection(size_t d, Direction &to) {
  to.w = ofDirection(1, d);
  to.r = ofDirection(2, d);
  int64_t all = gates * hidden;
  if (n.has(3)) {
    Operand both = ofDirection(3, d);
    if (!n.failed() && both.type.dims != Dims{2 * all})
      return n.fail("expects {0} biases, got '{1}'", 2 * all, both.type.str());
    auto parts = split(both, {all, all}, 0);
    if (linearBeforeReset) {
      auto w = split(parts[0], {2 * hidden, hidden}, 0),
           r = split(parts[1], {2 * hidden, hidden}, 0);
      to.resetBias = r[1];
      to.bias = n.emit("concat", {n.emit("add", {w[0], r[0]}), w[1]}, {{"axis", int64_t(0)}});
    } else {
      to.bias = n.emit("add", {parts[0], parts[1]});
    }
  }
  if (gates == 3 && !linearBeforeReset) {
    auto parts = split(to.r, {2 * hidden, hidden}, 0);
    to.r = parts[0];
    to.rest = parts[1];
  }
  auto start = [&](size_t operand) -> Operand {
    if (!n.has(operand))
      return {};
    Operand s = n.in(operand);
    const int64_t count = int64_t(directions_.size());
    const Dims want = batchFirst_ ? Dims{batch, count, hidden} : Dims{count, batch, hidden};
    if (s.type.dims != want) {
      n.fail("expects a first state '{0}' as operand {1}, got '{2}'", s.type.with(want).str(),
             operand, s.type.str());
      return {};
    }
    if (batchFirst_) {
      s = n.emitAll("split", {s},
                    {{"axis", int64_t(1)}, {"sizes", Ints(directions_.size(), 1)}})[d];
      return n.reshape(s, {batch, hidden});
    }
    return ofDirection(operand, d);
  };
  to.start.h = start(5);
  if (gates != 4)
    return;
  to.start.c = start(6);
  if (n.has(7) && n.in(7).type.elements() != 3 * hidden * int64_t(directions_.size()))
    return n.fail("expects {0} peepholes for each direction, got '{1}'", 3 * hidden,
                  n.in(7).type.str());
  if (n.has(7))
    to.peepholes = split(ofDirection(7, d), {hidden, hidden, hidden}, 0);
}

llvm::SmallVector<Operand, 4> Recurrent::split(const Operand &x, Ints sizes, int64_t axis) {
  if (n.failed())
    return llvm::SmallVector<Operand, 4>(sizes.size());
  return n.emitAll("split", {x}, {{"axis", axis}, {"sizes", std::move(sizes)}});
}

Operand Recurrent::activation(const Direction &d, size_t i, const Operand &given, bool clipped) {
  Operand x = given;
  if (clip_ > 0 && clipped)
    x = n.emit("clamp", {x}, {{"min", -clip_}, {"max", clip_}});
  if (n.failed())
    return x;
  const Activation &a = d.activations[i];
  auto number = [&](double v) { return n.scalarConstant(x.type.dtype, v); };
  for (const char *row : {"relu", "tanh", "sigmoid", "softplus", "softsign"})
    if (a.name == row)
      return n.emit(row, {x});
  if (a.name == "affine")
    return n.affine(x, a.alpha, a.beta);
  if (a.name == "scaledtanh")
    return n.affine(n.emit("tanh", {n.affine(x, a.beta, 0)}), a.alpha, 0);
  if (a.name == "hardsigmoid")
    return n.emit("hard_sigmoid", {x}, {{"alpha", a.alpha}, {"beta", a.beta}});
  if (a.name == "leakyrelu")
    return n.emit("leaky_relu", {x}, {{"alpha", a.alpha}});
  if (a.name == "thresholdedrelu")
    return n.emit("where", {n.emit("greater_equal", {x, number(a.alpha)}), x, number(0)});
  // elu; the exponent is at most zero, so that the exponential stays finite
  Operand below = n.emit("exp", {n.emit("minimum", {x, number(0)})});
  return n.emit("where",
                {n.emit("greater_equal", {x, number(0)}), x, n.affine(below, a.alpha, -a.alpha)});
}

// A sequence that has ended keeps its state, and its output is zero.
Operand Recurrent::validAt(int64_t step) {
  if (!bounded_)
    return {};
  const Operand &lengths = n.in(4);
  if (lengths.isConstant()) {
    bool all = true;
    for (int64_t i = 0; i < batch; ++i)
      all &= elementAsInt(lengths.data(), i) > step;
    if (all)
      return {};
  }
  Operand valid = n.emit("greater", {lengths, n.scalarConstant(lengths.type.dtype, double(step))});
  return n.reshape(valid, {batch, 1});
}

void Recurrent::unroll(Step step, const Direction &d, llvm::SmallVectorImpl<Operand> &out,
                       State &last) {
  DType type = n.in(0).type.dtype;
  int64_t input = n.in(0).type.dims[2], all = gates * hidden;
  Operand x = batchFirst_ ? n.transpose(n.in(0), {1, 0, 2}) : n.in(0);
  x = n.emit("matmul", {n.reshape(x, {steps * batch, input}), d.w}, {{"transpose_b", true}});
  if (d.bias.isValid())
    x = n.emit("add", {x, d.bias});
  auto inputs = split(n.reshape(x, {steps, batch, all}), Ints(size_t(steps), 1), 0);
  out.resize(size_t(steps));
  State s = d.start;
  for (int64_t i = 0; i < steps && !n.failed(); ++i) {
    int64_t t = d.reverse ? steps - 1 - i : i;
    State before = s;
    step(*this, d, n.reshape(inputs[size_t(t)], {batch, all}), s);
    out[size_t(t)] = s.h;
    Operand valid = validAt(t);
    if (!valid.isValid() || n.failed())
      continue;
    Operand zero = n.scalarConstant(type, 0);
    out[size_t(t)] = n.emit("where", {valid, s.h, zero});
    s.h = before.h.isValid() ? n.emit("where", {valid, s.h, before.h}) : out[size_t(t)];
    if (s.c.isValid())
      s.c = n.emit("where", {valid, s.c, before.c.isValid() ? before.c : zero});
  }
  last = s;
}

void Recurrent::unroll(Step step) {
  int64_t axis = batchFirst_ ? 1 : 0; // of the directions in the last states
  llvm::SmallVector<Operand, 2> ys, hs, cs;
  for (const Direction &d : directions_) {
    llvm::SmallVector<Operand, 16> out;
    State last;
    unroll(step, d, out, last);
    if (n.failed())
      return;
    if (n.wants(0)) {
      for (Operand &o : out)
        o = batchFirst_ ? n.reshape(o, {batch, 1, 1, hidden}) : n.reshape(o, {1, 1, batch, hidden});
      ys.push_back(n.emit("concat", out, {{"axis", axis}}));
    }
    Dims dims = batchFirst_ ? Dims{batch, 1, hidden} : Dims{1, batch, hidden};
    if (n.wants(1))
      hs.push_back(n.reshape(last.h, dims));
    if (n.wants(2))
      cs.push_back(n.reshape(last.c, dims));
  }
  auto joined = [&](size_t result, llvm::ArrayRef<Operand> parts, int64_t along) {
    if (n.wants(result))
      n.result(result, parts.size() == 1 ? parts[0] : n.emit("concat", parts, {{"axis", along}}));
  };
  joined(0, ys, batchFirst_ ? 2 : 1);
  joined(1, hs, axis);
  joined(2, cs, axis);
}

} // namespace isthmus::onnx_import
