// Normalisations: each norm is a rule that divides the elements among groups, and one that says
// which element of the scale belongs to each.

#include "ir/ops/channels.h"
#include "tests/ops/definitions/definitions.h"
#include <functional>

namespace isthmus::definitions {
namespace {

struct Grouping {
  int64_t groups = 1;
  std::function<int64_t(const Index &)> group, scale; // flat positions in statistics and scale
};

// x is the type of the tensor to normalise.
Grouping batchGroups(const OpCall &call, const Type &x) {
  const int64_t axis = channelAxis(*call.attrs, x.rank()), channels = x.dims[size_t(axis)],
                parts = call.attrs->find("parts") ? call.attrs->getInt("parts") : 1;
  auto channel = [=](const Index &at) { return at[size_t(axis)]; };
  return {parts * channels,
          [=, n = x.dims[0]](const Index &at) { // part p has the examples from n p / parts on
            int64_t part = 0;
            while (n * (part + 1) / parts <= at[0])
              ++part;
            return part * channels + channel(at);
          },
          channel};
}
Grouping layerGroups(const OpCall &call, const Type &x) { // the inner axes together
  const size_t axis = size_t(axisOf(call, x.rank()));
  const Sizes outer = Sizes(x.dims).take_front(axis), inner = Sizes(x.dims).drop_front(axis);
  return {product(outer), [=](const Index &at) { return flatOf(at, outer); },
          [=](const Index &at) { return flatOf(Sizes(at).drop_front(axis), inner); }};
}
Grouping groupGroups(const OpCall &call, const Type &x) {
  const int64_t groups = call.attrs->getInt("groups"), each = x.dims[1] / groups;
  return {x.dims[0] * groups, [=](const Index &at) { return at[0] * groups + at[1] / each; },
          [](const Index &at) { return at[1]; }};
}

// The mean of f(position) over the elements of each group; zero for a group without elements.
template <typename F> std::vector<Number> means(const Type &x, const Grouping &g, F f) {
  std::vector<Number> sums(size_t(g.groups)), counts = sums;
  forEachIndex(x.dims, [&](const Index &at) {
    sums[size_t(g.group(at))] += f(at);
    ++counts[size_t(g.group(at))];
  });
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] /= std::max<Number>(counts[i], 1);
  return sums;
}

enum class Kind { Batch, Layer, Rms };

// Results: y, the mean (not for Rms), and the variance (Batch) or 1 / the standard deviation.
template <auto groupsOf, Kind kind> void norm(const OpCall &call, Operands x, Results y) {
  const Grouping g = groupsOf(call, x[0].type);
  std::vector<Number> mean(size_t(g.groups)), variance;
  if (kind != Kind::Rms)
    mean = means(x[0].type, g, [&](const Index &at) { return x[0][at]; });
  variance = means(x[0].type, g, [&](const Index &at) {
    return std::pow(x[0][at] - mean[size_t(g.group(at))], 2);
  });
  if (call.attrs->find("training") && !call.attrs->getBool("training")) {
    mean = x[3].values;
    variance = x[4].values;
  }
  std::vector<Number> rstd = variance;
  for (Number &v : rstd)
    v = 1 / std::sqrt(v + call.attrs->getFloat("epsilon"));
  forEachIndex(x[0].type.dims, [&](const Index &at) {
    const size_t group = size_t(g.group(at)), scale = size_t(g.scale(at));
    y[0][at] = (x[0][at] - mean[group]) * rstd[group] * x[1].values[scale] +
               (x.size() > 2 ? x[2].values[scale] : 0);
  });
  if (kind != Kind::Rms)
    y[1].values = mean;
  y[kind == Kind::Rms ? 1 : 2].values = kind == Kind::Batch ? variance : rstd;
}

// Operands: the gradient, x, the scale, and the statistics. Results: the gradients of x, of the
// scale and, not for Rms, of the bias; with parts, those of the scale for each part.
template <auto groupsOf, Kind kind> void normGrad(const OpCall &call, Operands x, Results y) {
  const Grouping g = groupsOf(call, x[1].type);
  const bool fixed = call.attrs->find("training") && !call.attrs->getBool("training");
  std::vector<Number> rstd = x[kind == Kind::Rms ? 3 : 4].values;
  if (kind == Kind::Batch)
    for (Number &v : rstd)
      v = 1 / std::sqrt(v + call.attrs->getFloat("epsilon"));
  auto normal = [&](const Index &at) {
    const size_t group = size_t(g.group(at));
    return (x[1][at] - (kind == Kind::Rms ? 0 : x[3].values[group])) * rstd[group];
  };
  auto scaled = [&](const Index &at) { return x[0][at] * x[2].values[size_t(g.scale(at))]; };
  const auto mean = means(x[1].type, g, scaled),
             meanNormal =
                 means(x[1].type, g, [&](const Index &at) { return scaled(at) * normal(at); });
  const bool parts = call.attrs->find("parts");
  forEachIndex(x[1].type.dims, [&](const Index &at) {
    const size_t group = size_t(g.group(at)), to = parts ? group : size_t(g.scale(at));
    Number dx = scaled(at);
    if (!fixed)
      dx -= (kind == Kind::Rms ? 0 : mean[group]) + normal(at) * meanNormal[group];
    y[0][at] = dx * rstd[group];
    y[1].values[to] += x[0][at] * normal(at);
    if (kind != Kind::Rms)
      y[2].values[to] += x[0][at];
  });
}

void batchNormInverse(const OpCall &call, Operands x, Results y) {
  const Grouping g = batchGroups(call, x[0].type);
  forEachIndex(x[0].type.dims, [&](const Index &at) {
    const size_t c = size_t(g.group(at));
    y[0][at] = (x[0][at] - x[2].values[c]) / x[1].values[c] *
                   std::sqrt(x[4].values[c] + call.attrs->getFloat("epsilon")) +
               x[3].values[c];
  });
}
void runningAverage(const OpCall &call, Operands x, Results y) {
  const Number share = call.attrs->getFloat("momentum");
  forEachIndex(y[0].type.dims,
               [&](const Index &at) { y[0][at] = share * x[0][at] + (1 - share) * x[1][at]; });
}

// What lrn divides the element at `at` by, before the power beta. The window of an even size has
// one channel more above.
struct Lrn {
  const OpCall &call;
  const Numbers &x;
  int64_t size = call.attrs->getInt("size");
  Number alpha = call.attrs->getFloat("alpha") / Number(size), beta = call.attrs->getFloat("beta"),
         bias = call.attrs->getFloat("bias");

  bool reads(int64_t center, int64_t c) const {
    return c >= center - (size - 1) / 2 && c <= center + size / 2;
  }
  Number base(const Index &at) const {
    Number squares = 0;
    for (int64_t c = 0; c < x.size(1); ++c)
      squares += reads(at[1], c) ? std::pow(x[with(at, 1, c)], 2) : 0;
    return bias + alpha * squares;
  }
};
void lrn(const OpCall &call, Operands x, Results y) {
  const Lrn n{call, x[0]};
  forEachIndex(x[0].type.dims,
               [&](const Index &at) { y[0][at] = x[0][at] / std::pow(n.base(at), n.beta); });
}
void lrnGrad(const OpCall &call, Operands x, Results y) {
  const Lrn n{call, x[1]};
  forEachIndex(x[1].type.dims, [&](const Index &at) { // at: an element of y, which others are in
    const Number base = n.base(at);
    for (int64_t c = 0; c < x[1].size(1); ++c)
      if (const Index from = with(at, 1, c); n.reads(at[1], c))
        y[0][from] -=
            x[0][at] * x[1][at] * n.beta * std::pow(base, -n.beta - 1) * n.alpha * 2 * x[1][from];
    y[0][at] += x[0][at] * std::pow(base, -n.beta);
  });
}

} // namespace

void defineNorm(Table &t) {
  t["batch_norm"] = t["batch_norm_parts"] = {norm<batchGroups, Kind::Batch>, Accuracy::AddsUp};
  t["batch_norm_grad"] =
      t["batch_norm_parts_grad"] = {normGrad<batchGroups, Kind::Batch>, Accuracy::AddsUp};
  t["batch_norm_inverse"] = {batchNormInverse};
  t["layer_norm"] = {norm<layerGroups, Kind::Layer>, Accuracy::AddsUp};
  t["layer_norm_grad"] = {normGrad<layerGroups, Kind::Layer>, Accuracy::AddsUp};
  t["rms_norm"] = {norm<layerGroups, Kind::Rms>, Accuracy::AddsUp};
  t["rms_norm_grad"] = {normGrad<layerGroups, Kind::Rms>, Accuracy::AddsUp};
  t["group_norm"] = {norm<groupGroups, Kind::Layer>, Accuracy::AddsUp};
  t["group_norm_grad"] = {normGrad<groupGroups, Kind::Layer>, Accuracy::AddsUp};
  t["lrn"] = {lrn};
  t["lrn_grad"] = {lrnGrad};
  t["running_average"] = {runningAverage};
}

} // namespace isthmus::definitions
