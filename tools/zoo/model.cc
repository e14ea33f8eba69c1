#include "tools/zoo/model.h"

#include "ir/check.h"
#include "ir/splitmix64.h"
#include "tools/cli/exit.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <cstdio>

namespace isthmus::zoo {
namespace {

// A short FNV-1a hash: the seed depends on the name alone, on any machine.
int64_t seedOf(llvm::StringRef name) {
  uint64_t h = 14695981039346656037u;
  for (unsigned char c : name)
    h = (h ^ c) * 1099511628211u;
  return static_cast<int64_t>((h >> 32 ^ h) & 0x7fffffff);
}

// Four digits are enough, and easier to read in the text.
double shortened(double d) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", d);
  return std::atof(text);
}

} // namespace

int64_t productOf(llvm::ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t s : sizes)
    if (__builtin_mul_overflow(product, s, &product))
      return INT64_MAX;
  return product;
}

llvm::Error checkElements(llvm::StringRef what, std::initializer_list<int64_t> sizes) {
  if (productOf(sizes) <= int64_t(1) << 44)
    return llvm::Error::success();
  std::string text;
  for (int64_t s : sizes)
    text += (text.empty() ? "" : " x ") + std::to_string(s);
  return usageError("{0} of {1} elements is more than the 2^44 that a tensor of the zoo may have; "
                    "give smaller sizes",
                    what, text);
}

llvm::Error checkHalvings(llvm::StringRef model, const Sizes &s, int64_t times) {
  int64_t step = int64_t(1) << times;
  if (s.shape[1] % step == 0 && s.shape[2] % step == 0)
    return llvm::Error::success();
  return usageError("a {0} of {1} {2} expects height and width to be multiples of {3}, got "
                    "--shape={4}x{5}x{6}",
                    model, times, times == 1 ? "level" : "levels", step, s.shape[0], s.shape[1],
                    s.shape[2]);
}

Dims Sizes::batched(llvm::ArrayRef<int64_t> rest) const {
  Dims d = {batch};
  d.append(rest.begin(), rest.end());
  return d;
}

ValueId Model::input(llvm::StringRef name, DType type, llvm::ArrayRef<int64_t> dims) {
  return llvm::cantFail(g_.addInput(InputKind::Input, name, Type(type, dims)));
}

ValueId Model::normalParam(const std::string &name, llvm::ArrayRef<int64_t> dims, double std) {
  Initializer init;
  init.kind = Initializer::Kind::Normal;
  init.args = {{"mean", 0.0}, {"std", shortened(std)}, {"seed", seedOf(name)}};
  return llvm::cantFail(
      g_.addInput(InputKind::Param, name, Type(DType::F32, dims), std::move(init)));
}

ValueId Model::fillInput(InputKind kind, const std::string &name, llvm::ArrayRef<int64_t> dims,
                         double value) {
  Initializer init;
  init.kind = Initializer::Kind::Fill;
  init.args = {{"value", value}};
  return llvm::cantFail(g_.addInput(kind, name, Type(DType::F32, dims), std::move(init)));
}

ValueId Model::weightParam(const std::string &name, llvm::ArrayRef<int64_t> dims, double gain,
                           double fan) {
  return gain == 0 ? fillInput(InputKind::Param, name, dims, 0)
                   : normalParam(name, dims, std::sqrt(gain / fan));
}

// The product of Householder's reflections I - 2 v v^T / (v^T v), as many as there are dimensions,
// or 64. Sums of uniform numbers replace normal ones, so that the arithmetic is exact and the same
// everywhere.
ValueId Model::rotationParam(const std::string &name, int64_t size) {
  size_t n = size_t(size);
  std::vector<double> q(n * n, 0), v(n);
  for (size_t i = 0; i < n; ++i)
    q[i * n + i] = 1;
  uint64_t state = uint64_t(seedOf(name));
  for (int64_t k = 0; k < std::min<int64_t>(size, 64); ++k) {
    double square = 0;
    for (double &e : v) {
      e = -6;
      for (int draws = 0; draws < 12; ++draws)
        e += double(nextSplitMix64(state) >> 11) * 0x1p-53;
      square += e * e;
    }
    for (size_t i = 0; i < n; ++i) {
      double along = 0;
      for (size_t j = 0; j < n; ++j)
        along += q[i * n + j] * v[j];
      for (size_t j = 0; j < n; ++j)
        q[i * n + j] -= 2 * along / square * v[j];
    }
  }
  Initializer init;
  init.kind = Initializer::Kind::Data;
  init.data = Tensor::make(Type(DType::F32, {size, size}), [&](char *bytes) {
    std::copy(q.begin(), q.end(), reinterpret_cast<float *>(bytes));
  });
  return llvm::cantFail(
      g_.addInput(InputKind::Param, name, Type(DType::F32, {size, size}), std::move(init)));
}

ValueId Model::squeeze(ValueId x, const std::string &name) {
  Dims d = dims(x);
  ValueId apart =
      op("reshape", {x}, name + ".apart", {{"dims", Ints{d[0], d[1], d[2] / 2, 2, d[3] / 2, 2}}});
  ValueId moved = op("transpose", {apart}, name + ".moved", {{"perm", Ints{0, 1, 3, 5, 2, 4}}});
  return op("reshape", {moved}, name, {{"dims", Ints{d[0], 4 * d[1], d[2] / 2, d[3] / 2}}});
}

std::pair<ValueId, ValueId> Model::halves(ValueId x, const std::string &name) {
  int64_t channels = dim(x, 1), half = channels / 2;
  NodeId node = b.createNode("split", {x},
                             {{"axis", int64_t(1)}, {"sizes", Ints{half, channels - half}}}, name);
  return {g_.node(node).result(0), g_.node(node).result(1)};
}

ValueId Model::linear(ValueId x, int64_t features, const std::string &name, double gain) {
  int64_t from = dim(x, 1);
  ValueId w = weightParam(name + ".weight", {from, features}, gain, double(from));
  ValueId bias = fillInput(InputKind::Param, name + ".bias", {features}, 0);
  return op("add", {op("matmul", {x, w}, name + ".product"), bias}, name);
}

ValueId Model::conv(ValueId x, int64_t channels, const std::string &name, Conv o) {
  int64_t from = dim(x, 1) / o.groups;
  double fan = double(from * o.kernel * o.kernel);
  ValueList operands = {
      x, weightParam(name + ".weight", {channels, from, o.kernel, o.kernel}, o.gain, fan)};
  if (o.bias)
    operands.push_back(fillInput(InputKind::Param, name + ".bias", {channels}, 0));
  int64_t pad = o.kernel / 2;
  return op("conv", operands, name,
            {{"strides", Ints{o.stride, o.stride}},
             {"pads", Ints{pad, pad, pad, pad}},
             {"groups", o.groups}});
}

ValueId Model::upConv(ValueId x, int64_t channels, const std::string &name) {
  int64_t from = dim(x, 1);
  ValueId w = normalParam(name + ".weight", {from, channels, 2, 2}, std::sqrt(1 / double(from)));
  ValueId bias = fillInput(InputKind::Param, name + ".bias", {channels}, 0);
  return op("conv_transpose", {x, w, bias}, name,
            {{"strides", Ints{2, 2}}, {"dims", Ints{2 * dim(x, 2), 2 * dim(x, 3)}}});
}

ValueId Model::maxPool(ValueId x, int64_t kernel, int64_t stride, int64_t pad,
                       const std::string &name) {
  return op("max_pool", {x}, name,
            {{"kernel", Ints{kernel, kernel}},
             {"strides", Ints{stride, stride}},
             {"pads", Ints{pad, pad, pad, pad}}});
}

ValueId Model::batchNorm(ValueId x, const std::string &name) {
  int64_t c = dim(x, 1);
  ValueId scale = fillInput(InputKind::Param, name + ".weight", {c}, 1);
  ValueId bias = fillInput(InputKind::Param, name + ".bias", {c}, 0);
  ValueId mean = fillInput(InputKind::State, name + ".running_mean", {c}, 0);
  ValueId var = fillInput(InputKind::State, name + ".running_var", {c}, 1);
  NodeId node = b.createNode("batch_norm", {x, scale, bias, mean, var}, {}, name);
  b.phase = Phase::Update;
  ValueId nowMean = g_.node(node).result(1), nowVar = g_.node(node).result(2);
  for (auto [state, now] : {std::pair(mean, nowMean), {var, nowVar}})
    addOutput(op("running_average", {state, now}, "state." + g_.valueName(state).str()),
              {OutputKind::NextState, state});
  b.phase = Phase::Forward;
  return g_.node(node).firstResult;
}

ValueId Model::layerNorm(ValueId x, const std::string &name) {
  int64_t features = dims(x).back();
  ValueId scale = fillInput(InputKind::Param, name + ".weight", {features}, 1);
  ValueId bias = fillInput(InputKind::Param, name + ".bias", {features}, 0);
  return op("layer_norm", {x, scale, bias}, name);
}

ValueId Model::dropout(ValueId x, double ratio, const std::string &name) {
  return ratio == 0 ? x : op("dropout", {x}, name, {{"ratio", ratio}, {"stream", nextStream()}});
}

ValueId Model::flatten(ValueId x, const std::string &name) {
  Dims d = dims(x);
  if (d.size() == 2)
    return x;
  return op("reshape", {x}, name,
            {{"dims", Ints{d[0], productOf(llvm::makeArrayRef(d).drop_front())}}});
}

ValueId Model::globalPool(ValueId x, const std::string &name) {
  return op("mean", {x}, name, {{"axes", Ints{2, 3}}});
}

Graph Model::finish(ValueId y, llvm::StringRef name) {
  g_.rename(y, name);
  g_.addOutput(y);
  for (auto [v, role] : outputs_)
    g_.addOutput(v, role);
  return std::move(g_);
}

} // namespace isthmus::zoo
