// Convolutions and pools: what a window reads at each of its places.

#include "ir/ops/window.h"
#include "ir/ops/channels.h"
#include "tests/ops/definitions/definitions.h"
#include <optional>

namespace isthmus::definitions {
namespace {

// Calls f(tap, position in x) for each element of the window at `place`, in row-major order. All
// three are positions on the spatial axes; the one in x may lie in the padding.
template <typename F> void forEachTap(const Window &w, Sizes place, F f) {
  Index kernel;
  for (const WindowAxis &a : w)
    kernel.push_back(a.kernel);
  forEachIndex(kernel, [&](const Index &tap) {
    Index from;
    for (size_t a = 0; a < w.size(); ++a)
      from.push_back(place[a] * w[a].stride + tap[a] * w[a].dilation - w[a].padLow);
    f(tap, from);
  });
}
bool isInside(Sizes at, Sizes sizes) {
  for (size_t a = 0; a < at.size(); ++a)
    if (at[a] < 0 || at[a] >= sizes[a])
      return false;
  return true;
}
Sizes spatialOf(Sizes at) { return at.drop_front(2); }

// --- Convolutions

// A position with its channel on axis 1, as the call's tensors have it.
Index placed(const OpCall &call, Index at) {
  if (isChannelsLast(*call.attrs) && at.size() > 2)
    std::rotate(at.begin() + 1, at.begin() + 2, at.end());
  return at;
}

// Calls f(position in x, in w, in y) for each product of an element of x and one of w that conv
// adds to an element of y. The types are those of conv.
template <typename F>
void forEachTerm(const OpCall &call, const Type &tx, const Type &tw, const Type &ty, F f) {
  const bool last = isChannelsLast(*call.attrs);
  const Type x = last ? channelsFirst(tx) : tx, w = last ? channelsFirst(tw) : tw,
             y = last ? channelsFirst(ty) : ty;
  const int64_t perGroup = w.dims[0] / call.attrs->getInt("groups");
  const Window window = windowOf(*call.attrs, spatial(w));
  forEachIndex(y.dims, [&](const Index &at) {
    forEachTap(window, spatialOf(at), [&](const Index &tap, const Index &from) {
      for (int64_t c = 0; c < w.dims[1] && isInside(from, spatial(x)); ++c)
        f(placed(call, joined({at[0], at[1] / perGroup * w.dims[1] + c}, from)),
          placed(call, joined({at[1], c}, tap)), placed(call, at));
    });
  });
}
void addBias(const OpCall &call, Operands x, Numbers &y) {
  if (x.size() > 2)
    forEachIndex(y.type.dims, [&](const Index &at) {
      y[at] += x[2][{at[size_t(channelAxis(*call.attrs, y.type.rank()))]}];
    });
}

void conv(const OpCall &call, Operands x, Results y) {
  forEachTerm(call, x[0].type, x[1].type, y[0].type,
              [&](const Index &atX, const Index &atW, const Index &atY) {
                y[0][atY] += x[0][atX] * x[1][atW];
              });
  addBias(call, x, y[0]);
}
void convTranspose(const OpCall &call, Operands x, Results y) {
  forEachTerm(call, y[0].type, x[1].type, x[0].type,
              [&](const Index &atX, const Index &atW, const Index &atY) {
                y[0][atX] += x[0][atY] * x[1][atW];
              });
  addBias(call, x, y[0]);
}
void convWeightGrad(const OpCall &call, Operands x, Results y) {
  forEachTerm(call, x[1].type, y[0].type, x[0].type,
              [&](const Index &atX, const Index &atW, const Index &atY) {
                y[0][atW] += x[0][atY] * x[1][atX];
              });
}

// --- Pools

Window poolWindow(const OpCall &call) {
  return windowOf(*call.attrs, call.attrs->getInts("kernel"));
}

// The position of the first maximum of the window of y's element `at`, or of its last NaN; none if
// all is padding.
std::optional<Index> firstMaximum(const OpCall &call, const Numbers &x, Sizes at) {
  std::optional<Index> best;
  forEachTap(poolWindow(call), spatialOf(at), [&](const Index &, const Index &from) {
    if (!isInside(from, spatial(x.type)))
      return;
    const Index here = joined(at.take_front(2), from);
    if (!best || x[here] > x[*best] || std::isnan(x[here]))
      best = here;
  });
  return best;
}

void maxPool(const OpCall &call, Operands x, Results y) {
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    const auto from = firstMaximum(call, x[0], at);
    y[0][at] = from ? x[0][*from] : least(x[0].type.dtype);
  });
}
// A window without elements is not defined; its result is the first of the channel.
void maxPoolIndices(const OpCall &call, Operands x, Results y) {
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    Index sizes(x[0].type.dims.begin(), x[0].type.dims.end());
    Index from = firstMaximum(call, x[0], at).value_or(with(Index(at.size(), 0), 0, at[0]));
    from[1] = at[1];
    if (call.attrs->getBool("column_major")) {
      std::reverse(from.begin() + 2, from.end());
      std::reverse(sizes.begin() + 2, sizes.end());
    }
    y[0][at] = flatOf(from, sizes);
  });
}
void maxPoolGrad(const OpCall &call, Operands x, Results y) {
  forEachIndex(x[0].type.dims, [&](const Index &at) {
    if (const auto to = firstMaximum(call, x[1], at))
      y[0][*to] += x[0][at];
  });
}
void maxPoolTake(const OpCall &call, Operands x, Results y) {
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    if (const auto from = firstMaximum(call, x[1], at))
      y[0][at] = x[0][*from];
  });
}

// Calls f(position in x, share of the window's mean) for each element of the window at y's `at`.
template <typename F> void forEachShare(const OpCall &call, const Type &x, Sizes at, F f) {
  const Window w = poolWindow(call);
  Index padded; // sizes with the padding after the elements
  for (size_t a = 0; a < w.size(); ++a)
    padded.push_back(spatial(x)[a] + w[a].padHigh);
  int64_t counted = 0;
  forEachTap(w, spatialOf(at), [&](const Index &, const Index &from) {
    bool beyond = false; // a last window in ceil mode reaches beyond the padding
    for (size_t a = 0; a < w.size(); ++a)
      beyond |= from[a] >= padded[a];
    counted += call.attrs->getBool("count_include_pad") ? !beyond : isInside(from, spatial(x));
  });
  const int64_t divisor = call.attrs->getInt("divisor");
  forEachTap(w, spatialOf(at), [&](const Index &, const Index &from) {
    if (isInside(from, spatial(x)))
      f(joined(at.take_front(2), from), 1 / Number(divisor ? divisor : counted));
  });
}
void avgPool(const OpCall &call, Operands x, Results y) {
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    forEachShare(call, x[0].type, at,
                 [&](const Index &from, Number share) { y[0][at] += share * x[0][from]; });
  });
}
void avgPoolGrad(const OpCall &call, Operands x, Results y) {
  forEachIndex(x[0].type.dims, [&](const Index &at) {
    forEachShare(call, y[0].type, at,
                 [&](const Index &to, Number share) { y[0][to] += share * x[0][at]; });
  });
}

} // namespace

void defineWindow(Table &t) {
  t["conv"] = {conv};
  t["conv_transpose"] = {convTranspose};
  t["conv_weight_grad"] = {convWeightGrad};
  t["max_pool"] = {maxPool, Accuracy::Exact};
  t["max_pool_indices"] = {maxPoolIndices, Accuracy::Exact};
  t["max_pool_grad"] = {maxPoolGrad, Accuracy::AddsUp};
  t["max_pool_take"] = {maxPoolTake, Accuracy::Moves};
  t["avg_pool"] = {avgPool};
  t["avg_pool_grad"] = {avgPoolGrad};
}

} // namespace isthmus::definitions
