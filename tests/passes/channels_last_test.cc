// Networks with channels last compute the same values. Where the pass inserts transposes is shown
// in golden/.

#include "passes/lower/channels_last.h"

#include "ir/equal_graphs.h"
#include "ir/ops/channels.h"
#include "ir/verifier.h"
#include "kernels/plain/register.h"
#include "passes/differentiate/differentiate.h"
#include "passes/differentiate/loss.h"
#include "passes/lower/convert.h"
#include "passes/simplify/dce.h"
#include "tests/passes/small_graphs.h"
#include "tests/testing/interpret.h"
#include "tools/random/draw_inputs.h"
#include "tools/random/random_table_graph.h"
#include "tools/zoo/zoo.h"
#include <cmath>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

std::vector<Tensor> outputsOf(const Graph &g, const NamedTensors &inputs) {
  return llvm::cantFail(interpret(plainKernels(), g, byValue(g, inputs), {1, {7, 3}}));
}

ValueList paramsOf(const Graph &g) {
  ValueList params;
  for (const Input &i : g.inputs())
    if (i.kind == InputKind::Param)
      params.push_back(i.value);
  return params;
}

// Appends the gradients of the loss, or of the sum of squares of all outputs, as outputs.
void differentiate(Graph &g, bool again = false) {
  ValueList params = paramsOf(g);
  ValueId y = g.loss;
  if (again || !y) {
    Builder b(g, again ? Phase::Backward : Phase::Forward);
    y = ValueId();
    for (ValueId v : std::vector<ValueId>(g.outputs()))
      if (isFloat(g.type(v).dtype) && (!again || g.valueName(v).startswith("grad."))) {
        ValueId more = b.sum(b.create("square", {v}), {}, /*keepDims=*/false);
        y = y ? b.add(y, more) : more;
      }
  }
  auto grads = gradients(g, {y}, params);
  ASSERT_TRUE(bool(grads)) << llvm::toString(grads.takeError());
  addGradientOutputs(g, params, *grads);
}

void expectClose(const Graph &got, const Graph &want, double tolerance = 1e-10) {
  NamedTensors inputs = drawInputs(want, 5);
  auto a = outputsOf(got, inputs), b = outputsOf(want, inputs);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].type, b[i].type);
    std::vector<double> x = toDoubles(a[i]), y = toDoubles(b[i]);
    double largest = 1e-3;
    for (double v : y)
      largest = std::isfinite(v) ? std::max(largest, std::fabs(v)) : largest;
    for (size_t k = 0; k < x.size(); ++k)
      ASSERT_TRUE(x[k] == y[k] || (std::isnan(x[k]) && std::isnan(y[k])) ||
                  std::fabs(x[k] - y[k]) <= tolerance * largest)
          << want.valueName(want.outputs()[i]).str() << " element " << k << ": " << x[k]
          << ", expected " << y[k];
  }
}

using Facts = std::map<std::string, std::string>;

// The facts of nodes that the pass must keep: by name, the op, phase, device, marks and stream.
Facts factsOf(const Graph &g, bool all) {
  Facts facts;
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    const Attr *stream = n.attrs.find("stream");
    if (!all && n.marks.empty() && !n.op->is(kContraction) && !stream)
      continue;
    std::string &text = facts[g.nodeName(NodeId(i)).str()];
    text = n.op->name + " " + phaseName(n.phase).str() + " " + n.device;
    for (const std::string &m : n.marks)
      text += " #" + m;
    if (stream)
      text += " " + attrText(*stream);
  }
  return facts;
}

// Applies the pass, and expects the same inputs, outputs, marks and results, and no convolution
// with channels first.
Graph moved(const Graph &given) {
  Graph g = withoutDeadNodes(given), to = withChannelsLast(g);
  if (llvm::Error e = verify(to))
    ADD_FAILURE() << llvm::toString(std::move(e));
  EXPECT_EQ(to.inputs().size(), g.inputs().size());
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    EXPECT_EQ(to.valueName(to.inputs()[i].value), g.valueName(g.inputs()[i].value));
    EXPECT_EQ(to.type(to.inputs()[i].value), g.type(g.inputs()[i].value));
    EXPECT_EQ(to.inputs()[i].kind, g.inputs()[i].kind);
  }
  EXPECT_EQ(outputNames(to), outputNames(g));
  EXPECT_EQ(bool(to.loss), bool(g.loss));
  if (g.loss) {
    EXPECT_EQ(to.valueName(to.loss), g.valueName(g.loss));
  }
  Facts want = factsOf(g, /*all=*/false), got = factsOf(to, /*all=*/true);
  for (const auto &[name, fact] : want) {
    auto it = got.find(name);
    if (it == got.end() || it->second != fact)
      it = got.find(name + ".channels_last"); // its own name is taken by a transpose
    ASSERT_TRUE(it != got.end()) << name, Graph();
    EXPECT_EQ(it->second, fact) << name;
  }
  EXPECT_FALSE(convolvesChannelsFirst(to, {DType::F64, DType::F32, DType::BF16, DType::F16}));
  std::string why;
  EXPECT_TRUE(equalGraphs(withChannelsLast(to), to, &why)) << "the second time: " << why;
  return to;
}

// Checks first and second gradients, and second gradients of a graph that the pass has already
// changed.
void check(Graph g, bool second = true) {
  differentiate(g);
  Graph to = moved(g);
  expectClose(to, g);
  if (!second)
    return;
  differentiate(g, /*again=*/true);
  differentiate(to, /*again=*/true);
  expectClose(moved(g), g, 1e-9);
  expectClose(to, g, 1e-9);
  expectClose(moved(to), g, 1e-9);
}

Graph zoo(llvm::StringRef name, const ZooOptions &options) {
  Graph g = llvm::cantFail(buildZoo(name, options));
  if (!g.loss)
    llvm::cantFail(attachLoss(g, {LossKind::Mean}).takeError());
  return llvm::cantFail(withPrecision(g, DType::F64));
}

TEST(ChannelsLast, Zoo) {
  std::pair<const char *, ZooOptions> nets[] = {
      {"cnn", {{"batch", "2"}}},
      {"resnet", {{"depth", "8"}, {"batch", "2"}, {"shape", "3x16x16"}, {"width", "4"}}},
      {"unet", {{"batch", "1"}, {"shape", "1x16x16"}, {"width", "3"}, {"depth", "2"}}},
      {"densenet", {{"batch", "1"}, {"shape", "3x32x32"}}},
      {"mobilenetv2", {{"batch", "1"}, {"shape", "3x32x32"}}}};
  for (auto &[name, options] : nets) {
    SCOPED_TRACE(name);
    check(zoo(name, options), /*second=*/false);
  }
}

// --- Random networks, of one to three spatial axes

class Net {
public:
  explicit Net(uint64_t seed) : random_(seed), b_(g) {
    axes_ = 1 + random_.below(3);
    Dims dims = {2, 4};
    for (size_t a = 0; a < axes_; ++a)
      dims.push_back(int64_t(axes_ == 3 ? 4 + random_.below(2) : 5 + random_.below(4)));
    live_ = {addInput(g, "x", Type(DType::F64, dims))};
    grow(conv(live_[0]));
    for (size_t i = 0, n = 6 + random_.below(8); i < n; ++i)
      step();
    ValueId y;
    for (ValueId v : live_) {
      ValueId mean = b_.create("mean", {b_.create("tanh", {v})});
      y = y ? b_.add(y, mean) : mean;
    }
    g.loss = y;
    g.addOutput(y);
    for (ValueId v : live_)
      if (random_.oneIn(4))
        g.addOutput(v);
    if (random_.oneIn(2))
      g.editNode(g.value(live_.back()).def).marks.push_back("checkpoint");
  }
  Graph g{"net"};

private:
  const Dims &dims(ValueId v) { return g.type(v).dims; }
  ValueId param(llvm::ArrayRef<int64_t> dims) {
    return addInput(g, g.uniqueName("w"), Type(DType::F64, dims), InputKind::Param);
  }
  // Returns one of the three newest values.
  ValueId pick() {
    return live_[live_.size() - 1 - random_.below(std::min<size_t>(live_.size(), 3))];
  }
  // Returns two values of one shape, or none.
  std::pair<ValueId, ValueId> pickPair() {
    ValueId a = pick();
    for (ValueId b : live_)
      if (b != a && dims(b) == dims(a) && random_.oneIn(2))
        return {a, b};
    return {a, a};
  }
  void grow(ValueId v) {
    if (g.type(v).elements() <= 4000)
      live_.push_back(v);
  }
  Ints all(int64_t n) { return Ints(axes_, n); }

  ValueId conv(ValueId x) {
    int64_t channels = dims(x)[1], groups = channels % 2 == 0 && random_.oneIn(3) ? 2 : 1;
    if (random_.oneIn(5))
      groups = channels;
    Dims w = {groups * int64_t(1 + random_.below(3)), channels / groups};
    Ints pads, strides, high;
    for (size_t a = 0; a < axes_; ++a) {
      int64_t kernel = random_.oneIn(3) ? 1 : 1 + int64_t(random_.below(3));
      w.push_back(kernel);
      strides.push_back(random_.oneIn(4) ? 2 : 1);
      pads.push_back(kernel / 2);
      high.push_back(int64_t(random_.below(2)) + kernel / 2);
    }
    pads.insert(pads.end(), high.begin(), high.end());
    ValueList operands = {x, param(w)};
    if (random_.oneIn(2))
      operands.push_back(param({w[0]}));
    return b_.create("conv", operands, {{"groups", groups}, {"pads", pads}, {"strides", strides}});
  }
  ValueId convTranspose(ValueId x) {
    Dims w = {dims(x)[1], int64_t(1 + random_.below(3))};
    w.append(axes_, 2);
    ValueList operands = {x, param(w)};
    if (random_.oneIn(2))
      operands.push_back(param({w[1]}));
    return b_.create("conv_transpose", operands,
                     {{"strides", all(random_.oneIn(2) && g.type(x).elements() < 200 ? 2 : 1)}});
  }
  ValueId batchNorm(ValueId x) {
    ValueId mean = param({dims(x)[1]}), scale = param({dims(x)[1]}), bias = param({dims(x)[1]});
    ValueId var = b_.shift(b_.create("square", {mean}), 1);
    NodeId n = b_.createNode("batch_norm", {x, scale, bias, mean, var},
                             {{"training", !random_.oneIn(3)}, {"epsilon", 0.1}});
    if (random_.oneIn(4)) // the statistics are read
      return b_.mul(g.node(n).result(0), across(g.node(n).result(1)));
    return g.node(n).result(0);
  }
  ValueId across(ValueId perChannel) { // to [C, 1, ...]
    Dims to = {dims(perChannel)[0]};
    to.append(axes_, 1);
    return b_.reshape(perChannel, to);
  }
  ValueId broadcasting(ValueId x) { // broadcasts a parameter of a random shape
    Dims to = dims(x);
    switch (random_.below(5)) {
    case 0:
      return b_.create("mul", {x, param({})});
    case 1:
      to.erase(to.begin());
      std::fill(to.begin() + 1, to.end(), 1);
      return b_.create("prelu", {x, param(to)});
    case 2:
      to.erase(to.begin(), to.begin() + 2);
      return b_.create("add", {x, param(to)});
    case 3:
      to.erase(to.begin());
      return b_.create("mul", {param(to), x});
    default:
      to[0] = to.back() = 1;
      return b_.create("maximum", {x, param(to)});
    }
  }
  ValueId reduced(ValueId x) {
    static const char *const kOps[] = {"mean", "sum", "max", "logsumexp"};
    Ints axes;
    for (int64_t a = 0; a < int64_t(axes_) + 2; ++a)
      if (random_.oneIn(2))
        axes.push_back(random_.oneIn(2) ? a : a - int64_t(axes_) - 2);
    bool keep = random_.oneIn(2);
    ValueId r = b_.create(random_.of(kOps), {x}, {{"axes", axes}, {"keepdims", keep}});
    r = b_.create("tanh", {r});
    if (keep)
      return b_.mul(x, r);
    return b_.mul(x, b_.create("mean", {r}));
  }
  ValueId cut(ValueId x) {
    Ints starts(axes_ + 2, 0), limits(dims(x).begin(), dims(x).end()), steps(axes_ + 2, 1);
    size_t a = 1 + random_.below(axes_ + 1);
    if (limits[a] > 2) {
      starts[a] = 1;
      steps[a] = 1 + int64_t(random_.below(2));
    }
    return b_.create("slice", {x}, {{"starts", starts}, {"limits", limits}, {"steps", steps}});
  }
  ValueId padded(ValueId x) {
    static const char *const kModes[] = {"constant", "reflect", "edge"};
    Ints low(axes_ + 2, 0), high(axes_ + 2, 0);
    low[2] = 1;
    high[1 + random_.below(axes_ + 1)] = 1;
    std::string mode = random_.of(kModes);
    for (int64_t d : dims(x))
      if (d < 2)
        mode = "constant";
    return b_.create("pad", {x}, {{"low", low}, {"high", high}, {"mode", mode}});
  }
  // A norm over the channels, as in ConvNeXt.
  ValueId normed(ValueId x) {
    int64_t rank = int64_t(axes_) + 2, channels = dims(x)[1];
    ValueId rows = b_.transpose(x, toChannelsLast(rank));
    rows = b_.create("layer_norm", {rows, param({channels}), param({channels})});
    return b_.transpose(rows, toChannelsFirst(rank));
  }
  void step() {
    ValueId x = pick();
    switch (random_.below(16)) {
    case 0:
    case 1:
    case 2:
      return grow(conv(x));
    case 3:
      return grow(convTranspose(x));
    case 4:
    case 5:
      return grow(batchNorm(x));
    case 6:
      return grow(b_.create("gelu", {x}));
    case 7: {
      auto [a, b] = pickPair();
      return grow(b_.add(a, b));
    }
    case 8: {
      auto [a, b] = pickPair();
      return grow(b_.create("concat", {a, b}, {{"axis", random_.oneIn(2) ? int64_t(1) : -1}}));
    }
    case 9:
      return grow(broadcasting(x));
    case 10:
      return grow(reduced(x));
    case 11:
      return grow(cut(x));
    case 12:
      return grow(padded(x));
    case 13:
      return grow(normed(x));
    case 14: {
      if (dims(x)[1] < 2)
        return grow(b_.create("softmax", {x}, {{"axis", int64_t(1)}}));
      NodeId n =
          b_.createNode("split", {x}, {{"axis", int64_t(1)}, {"sizes", Ints{1, dims(x)[1] - 1}}});
      grow(g.node(n).result(0));
      return grow(b_.create("identity", {g.node(n).result(1)}));
    }
    default: // ops that need channels on axis 1
      if (llvm::is_contained(llvm::makeArrayRef(dims(x)).drop_front(2), 1) || random_.oneIn(2))
        return grow(b_.create("dropout", {x}, {{"ratio", 0.3}, {"stream", int64_t(live_.size())}}));
      return grow(b_.create("max_pool", {x}, {{"kernel", all(2)}}));
    }
  }

  Random random_;
  Builder b_;
  size_t axes_;
  std::vector<ValueId> live_;
};

TEST(ChannelsLast, RandomNetworks) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    check(Net(seed).g);
    if (HasFatalFailure())
      return;
  }
}

TEST(ChannelsLast, GraphsOverTheWholeTable) {
  size_t moving = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    RandomTableOptions options = tableOptions(seed);
    options.dtype = DType::F64;
    options.mixed = false;
    Graph g = randomTableGraph(options).graph;
    if (!convolvesChannelsFirst(g, {DType::F64}))
      continue;
    ++moving;
    check(std::move(g), /*second=*/false);
    if (HasFatalFailure())
      return;
  }
  EXPECT_GT(moving, 20u);
}

} // namespace
} // namespace isthmus
