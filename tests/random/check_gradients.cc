// Compares gradients of first and second order with differences.

#include "passes/differentiate/differentiate.h"
#include "passes/simplify/dce.h"
#include "tests/random/check_graph.h"
#include "tests/random/joint_graphs.h"
#include "tests/random/smooth.h"
#include "tests/testing/interpret.h"
#include <cmath>

namespace isthmus {

using llvm::toString;

namespace {

using Direction = std::map<std::string, std::vector<double>>; // by the input's name

Direction randomDirection(const Graph &g, llvm::ArrayRef<ValueId> xs, uint64_t seed) {
  Direction out;
  for (size_t i = 0; i < xs.size(); ++i)
    out[g.valueName(xs[i]).str()] = toDoubles(draw(g.type(xs[i]), seed + 31 * i));
  return out;
}

NamedTensors moved(const NamedTensors &inputs, const Direction &direction, double step) {
  NamedTensors out = inputs;
  for (auto &[name, along] : direction) {
    std::vector<double> x = toDoubles(inputs.at(name));
    for (size_t e = 0; e < x.size(); ++e)
      x[e] += step * along[e];
    out[name] = fromDoubles(inputs.at(name).type, x);
  }
  return out;
}

struct Slope {
  double value = 0; // the sum of products of gradients and direction
  double size = 0;  // the same sum of the magnitudes
};

llvm::Expected<Slope> slope(GraphRunner &runner, const Graph &g, llvm::ArrayRef<ValueId> xs,
                            const NamedTensors &inputs, const Direction &direction) {
  Graph d = g;
  auto grads = gradients(d, {g.loss}, xs);
  if (!grads)
    return grads.takeError();
  ValueList found, by;
  for (size_t i = 0; i < xs.size(); ++i)
    if (ValueId v = (*grads)[i]) {
      found.push_back(v);
      by.push_back(xs[i]);
    }
  setOutputs(d, found);
  auto values = runner.reference(d, inputs);
  if (!values)
    return values.takeError();
  Slope out;
  for (size_t i = 0; i < by.size(); ++i) {
    std::vector<double> grad = toDoubles((*values)[i]);
    const std::vector<double> &along = direction.at(g.valueName(by[i]).str());
    for (size_t e = 0; e < grad.size(); ++e) {
      out.value += grad[e] * along[e];
      out.size += std::fabs(grad[e] * along[e]);
    }
  }
  return out;
}

} // namespace

// Compares the gradient of the loss with respect to `xs`, times a random direction, with central
// differences along that direction. The values must agree for one of several step widths: a large
// step may cross a kink, and a small one gives rounding errors.
std::string GraphChecker::directional(const Graph &g, llvm::ArrayRef<ValueId> xs,
                                      const NamedTensors &inputs, uint64_t seed) {
  const Direction direction = randomDirection(g, xs, seed);
  auto analytic = slope(runner_, g, xs, inputs, direction);
  if (!analytic)
    return toString(analytic.takeError());
  Graph f = g;
  setOutputs(f, {g.loss});
  f = withoutDeadNodes(f);
  double largest = 0;
  std::string tried;
  for (double h : {1e-5, 1e-4, 1e-6, 1e-7}) {
    auto above = runner_.reference(f, moved(inputs, direction, h));
    auto below = runner_.reference(f, moved(inputs, direction, -h));
    if (!above || !below)
      return errorsOf(above, below);
    double difference = 0;
    for (auto [values, sign] : {std::pair(&*above, 1.0), {&*below, -1.0}})
      for (double v : toDoubles(values->front())) {
        difference += sign * v;
        largest = std::max(largest, std::fabs(v));
      }
    double numeric = difference / (2 * h);
    if (std::fabs(numeric - analytic->value) <= 1e-6 * (1 + analytic->size) + 1e-14 * largest / h)
      return "";
    tried += llvm::formatv(" {0} for a step of {1},", floatText(numeric), floatText(h));
  }
  tried.pop_back();
  return llvm::formatv("the gradient in a direction is {0}, differences give{1}",
                       floatText(analytic->value), tried);
}

// Accepts differences for functions that jump: a step may change the order of values that differ
// only by rounding.
std::string GraphChecker::excused(const Graph &g, std::string difference) {
  if (difference.empty() || !jumps(g))
    return difference;
  ++counts.excused;
  return "";
}

std::string GraphChecker::first(const Case &c) {
  if (!isDifferentiableInF64(c.forward))
    return "";
  ++counts.first;
  return excused(c.forward,
                 directional(c.forward, differentiableInputs(c.forward), c.inputs, c.seed));
}

// The product of the first gradients and a random direction is a loss, of which the gradient is
// checked.
std::string GraphChecker::second(const Case &c) {
  if (!isDifferentiableInF64(c.forward))
    return "";
  Graph g = c.training;
  NamedTensors inputs = c.inputs;
  ValueList xs = differentiableInputs(g), grads = gradientOutputs(g);
  Builder b(g, Phase::Backward);
  ValueId sum;
  for (size_t i = 0; i < xs.size(); ++i) {
    ValueId along = llvm::cantFail(
        g.addInput(InputKind::Input, "along." + g.valueName(xs[i]).str(), g.type(xs[i])));
    inputs[g.valueName(along).str()] = draw(g.type(along), c.seed + 77 * i);
    ValueId each = b.sum(b.mul(grads[i], along), {}, /*keepDims=*/false);
    sum = sum ? b.add(sum, each) : each;
  }
  if (!sum)
    return "";
  g.loss = sum;
  setOutputs(g, {sum});
  ++counts.second;
  if (std::string d = excused(withoutDeadNodes(g), directional(g, xs, inputs, c.seed + 1));
      !d.empty())
    return d;
  auto second = secondOrder(c.training);
  if (!second)
    return toString(second.takeError());
  return runner_.executorDiffers(*second, drawInputs(*second, c.seed));
}

} // namespace isthmus
