// Compares the losses of --loss with their formulas, and their gradients with central differences.

#include "passes/differentiate/loss.h"

#include "ir/text/parser.h"
#include "kernels/plain/register.h"
#include "passes/differentiate/differentiate.h"
#include "tests/testing/interpret.h"
#include "tools/random/draw.h"
#include <cmath>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

double interpreted(const Graph &g, const std::vector<std::vector<double>> &inputs,
                   std::vector<double> *gradient = nullptr) {
  llvm::DenseMap<ValueId, Tensor> at;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    ValueId v = g.inputs()[i].value;
    at[v] = fromDoubles(g.type(v), inputs[i]);
  }
  auto outputs = llvm::cantFail(interpret(plainKernels(), g, at));
  if (gradient)
    *gradient = toDoubles(outputs[1]);
  return toDoubles(outputs[0])[0];
}

LossOptions named(llvm::StringRef loss) { return llvm::cantFail(parseLoss(loss)); }

struct Case {
  const char *name;
  double (*each)(double y, double t);
  std::vector<double> y, t;
};

const double kHuge = 300; // exp of it overflows f32, and nearly f64

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
  ValueId loss = llvm::cantFail(attachLoss(g, named(c.name)));
  setOutputs(g, {loss});
  double want = 0;
  for (size_t i = 0; i < c.y.size(); ++i)
    want += c.each(c.y[i], c.t[i]) / double(c.y.size());
  EXPECT_NEAR(interpreted(g, {c.y, c.t}), want, 1e-12 * (1 + std::fabs(want)));

  auto grads = llvm::cantFail(gradients(g, {loss}, {y}));
  setOutputs(g, {loss, grads[0]});
  std::vector<double> gradient;
  interpreted(g, {c.y, c.t}, &gradient);
  for (size_t i = 0; i < c.y.size(); ++i) {
    const double h = 1e-6;
    double slope = (c.each(c.y[i] + h, c.t[i]) - c.each(c.y[i] - h, c.t[i])) / (2 * h);
    EXPECT_NEAR(gradient[i], slope / double(c.y.size()), 1e-6) << "element " << i;
  }
}

// The slope of a logarithm is at most 1e12, and the logarithm at least -100, as in PyTorch: at
// probabilities of 0 and 1, and below the least f32 that is normal, gradients are finite.
TEST(LossOf, ProbabilitiesThatAreCertain) {
  Graph g;
  const std::vector<double> y{0, 1, 0, 1, 1e-40, 0.25}, t{1, 0, 0, 1, 1, 1};
  ValueId v = llvm::cantFail(g.addInput(InputKind::Input, "y", Type(DType::F32, {6})));
  g.addOutput(v);
  ValueId loss = llvm::cantFail(attachLoss(g, named("bce")));
  auto grads = llvm::cantFail(gradients(g, {loss}, {v}));
  setOutputs(g, {loss, grads[0]});
  std::vector<double> gradient;
  const double tiny = -std::log(double(float(1e-40)));
  EXPECT_NEAR(interpreted(g, {y, t}, &gradient), (200 + tiny - std::log(0.25)) / 6, 1e-4);
  const std::vector<double> want{-1e12, 1e12, 1, -1, -1e12, -4};
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(gradient[i], want[i] / 6, 1e-6 * std::fabs(want[i])) << i;
}

Graph twoOutputs() {
  Graph g;
  for (const char *name : {"first", "second"})
    g.addOutput(llvm::cantFail(g.addInput(InputKind::Input, name, Type(DType::F64, {3, 2}))));
  Builder b(g);
  g.addOutput(b.neg(g.find("second")));
  g.rename(g.outputs()[2], "computed");
  return g;
}

TEST(LossOf, AValueThatIsNamed) {
  Graph g = twoOutputs();
  ValueId loss = llvm::cantFail(attachLoss(g, named("mse:%computed")));
  EXPECT_EQ(g.type(g.find("target")), g.type(g.find("computed")));
  setOutputs(g, {loss});
  std::vector<double> zeros(6, 0), y{1, 2, 3, 4, 5, 6};
  EXPECT_NEAR(interpreted(g, {zeros, y, zeros}), 91. / 6, 1e-12);
}

// The loss is the mean over the labels that are not ignored; the others have no gradient.
TEST(LossOf, LabelsThatDoNotCount) {
  Graph g;
  ValueId y = llvm::cantFail(g.addInput(InputKind::Input, "y", Type(DType::F64, {3, 2})));
  g.addOutput(y);
  LossOptions options{LossKind::CrossEntropy};
  options.ignoreIndex = -100;
  ValueId loss = llvm::cantFail(attachLoss(g, options));
  auto grads = llvm::cantFail(gradients(g, {loss}, {y}));
  setOutputs(g, {loss, grads[0]});
  std::vector<double> gradient, logits{0, 0, 5, -7, 0, 0};
  EXPECT_NEAR(interpreted(g, {logits, {0, -100, 1}}, &gradient), std::log(2.0), 1e-12);
  const std::vector<double> want{-0.25, 0.25, 0, 0, 0.25, -0.25};
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(gradient[i], want[i], 1e-12) << i;
  EXPECT_TRUE(std::isnan(interpreted(g, {logits, {-100, -100, -100}}))) << "the mean of none";
}

TEST(LossOf, LabelsThatFitAnotherAxis) {
  auto message = [](Dims labels) {
    Graph g;
    g.addOutput(llvm::cantFail(g.addInput(InputKind::Input, "y", Type(DType::F32, {2, 5, 7}))));
    LossOptions options{LossKind::CrossEntropy};
    options.labels = Type(DType::I64, labels);
    auto loss = attachLoss(g, options);
    return loss ? "" : llvm::toString(loss.takeError());
  };
  EXPECT_EQ(message({2, 7}), "");
  EXPECT_EQ(message({3, 3}), ""); // reported when the labels are fed
  EXPECT_NE(message({2, 5}).find("class-axis = 2"), std::string::npos) << message({2, 5});
  EXPECT_NE(message({5, 7}).find("class-axis = 0"), std::string::npos) << message({5, 7});
}

TEST(LossOf, WhatIsNone) {
  auto message = [](const char *loss) -> std::string {
    Graph g = twoOutputs();
    auto options = parseLoss(loss);
    if (!options)
      return llvm::toString(options.takeError());
    auto value = attachLoss(g, *options);
    return value ? "" : llvm::toString(value.takeError());
  };
  EXPECT_EQ(message("%computed"), "");
  EXPECT_NE(message("%second").find("is an input of the graph"), std::string::npos);
  EXPECT_NE(message("l1:%second").find("is an input of the graph"), std::string::npos);
  EXPECT_NE(message("l1:second").find("KIND:%value"), std::string::npos);
  EXPECT_NE(message("l1:%compute").find("did you mean 'computed'"), std::string::npos);
}

// A value in the host's memory cannot be the loss, and no gradient flows through transfers.
TEST(Loss, IsOfAValueOnTheDevice) {
  Graph g = llvm::cantFail(parseGraph(R"(isthmus 2
graph @g {
  param %x : f32[2]
  %a = exp(%x)
  %h, %sent = copy_to_host(%a)
  %kept = wait(%h, %sent, %a)
  output %a
})",
                                      "g"));
  const ValueId x = g.find("x"), kept = g.find("kept"), a = g.find("a");
  for (const char *loss : {"%kept", "mean:%kept", "mse:%kept"}) {
    Graph to = g;
    auto made = attachLoss(to, named(loss));
    EXPECT_EQ(made ? "" : plainMessage(made.takeError()),
              "'%kept', of type host f32[2], is no longer in the device's memory, where a loss is "
              "computed; name the value that was copied");
  }
  for (auto [ys, xs, what] : {std::tuple(kept, x, "differentiate"), {a, kept, "differentiate by"}})
    EXPECT_EQ(llvm::toString(gradients(g, {ys}, {xs}).takeError()),
              llvm::formatv("error: the value to {0} '%kept' is of type host f32[2]; gradients "
                            "need floating-point values in the device's memory",
                            what)
                  .str());
}

} // namespace
} // namespace isthmus
