// The losses of --loss against their formulas, and their gradients against central differences.

#include "passes/loss.h"

#include "kernels/plain/register.h"
#include "passes/differentiate.h"
#include "tools/random/draw.h"
#include "tests/testing/interpret.h"
#include <cmath>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

double interpreted(const Graph &g, const std::vector<std::vector<double>> &inputs,
                   std::vector<double> *gradient = nullptr) {
  static const KernelTable *table = [] {
    auto *t = new KernelTable;
    registerPlainKernels(*t);
    return t;
  }();
  llvm::DenseMap<ValueId, Tensor> at;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    ValueId v = g.inputs()[i].value;
    at[v] = fromDoubles(g.type(v), inputs[i]);
  }
  auto outputs = llvm::cantFail(interpret(*table, g, at));
  if (gradient)
    *gradient = toDoubles(outputs[1]);
  return toDoubles(outputs[0])[0];
}

struct Case {
  const char *name;
  double (*each)(double y, double t);
  std::vector<double> y, t;
};

const double kHuge = 300; // where exp overflows f32, and nearly f64

const Case kCases[] = {
    {"mse", [](double y, double t) { return (y - t) * (y - t); }, {1, -2, 0.5}, {0.5, 1, 3}},
    {"l1", [](double y, double t) { return std::fabs(y - t); }, {1, -2, 0.5}, {0.5, 1, 3}},
    {"huber",
     [](double y, double t) {
       double d = std::fabs(y - t);
       return d < 1 ? d * d / 2 : d - 0.5;
     },
     {1, -2, 0.5, 4},
     {0.5, 1, 3, 4.25}},
    {"bce",
     [](double y, double t) { return -(t * std::log(y) + (1 - t) * std::log(1 - y)); },
     {0.25, 0.9, 0.5},
     {0, 1, 0.75}},
    {"bce_logits",
     [](double y, double t) {
       return std::max(y, 0.0) - y * t + std::log1p(std::exp(-std::fabs(y)));
     },
     {0.25, -3, kHuge, -kHuge},
     {0, 1, 0.75, 0.5}},
    {"kl_div",
     [](double y, double t) { return t > 0 ? t * (std::log(t) - y) : 0; },
     {-0.5, -3, -1},
     {0.25, 0, 0.75}},
};

class Loss : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, Loss, testing::ValuesIn(kCases),
                         [](const auto &info) { return std::string(info.param.name); });

TEST_P(Loss, IsTheMeanOfItsFormula) {
  const Case &c = GetParam();
  Graph g;
  ValueId y =
      llvm::cantFail(g.addInput(InputKind::Input, "y", Type(DType::F64, {int64_t(c.y.size())})));
  g.addOutput(y);
  ValueId loss = llvm::cantFail(attachLoss(g, {c.name}));
  g.setOutputs({loss});
  double want = 0;
  for (size_t i = 0; i < c.y.size(); ++i)
    want += c.each(c.y[i], c.t[i]) / double(c.y.size());
  EXPECT_NEAR(interpreted(g, {c.y, c.t}), want, 1e-12 * (1 + std::fabs(want)));

  auto grads = llvm::cantFail(gradients(g, {loss}, {y}));
  g.setOutputs({loss, grads[0]});
  std::vector<double> gradient;
  interpreted(g, {c.y, c.t}, &gradient);
  for (size_t i = 0; i < c.y.size(); ++i) {
    const double h = 1e-6;
    double slope = (c.each(c.y[i] + h, c.t[i]) - c.each(c.y[i] - h, c.t[i])) / (2 * h);
    EXPECT_NEAR(gradient[i], slope / double(c.y.size()), 1e-6) << "element " << i;
  }
}

} // namespace
} // namespace isthmus
