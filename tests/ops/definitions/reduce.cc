// Reductions, and running sums and products.

#include "tests/ops/definitions/definitions.h"

namespace isthmus::definitions {
namespace {

// The axes that a call reduces, and where the result of a position lies.
struct Reduced {
  std::vector<bool> reduced;
  bool keep;

  Reduced(const OpCall &call, int64_t rank)
      : reduced(size_t(rank)), keep(call.attrs->getBool("keepdims")) {
    if (call.attrs->find("axis")) {
      reduced[size_t(axisOf(call, rank))] = true;
      return;
    }
    const Ints &axes = call.attrs->getInts("axes");
    for (int64_t a : axes)
      reduced[size_t(a < 0 ? a + rank : a)] = true;
    if (axes.empty())
      reduced.assign(reduced.size(), true);
  }
  Index result(const Index &at) const {
    Index out;
    for (size_t a = 0; a < at.size(); ++a)
      if (!reduced[a] || keep)
        out.push_back(reduced[a] ? 0 : at[a]);
    return out;
  }
};

// Sets every result to `start`, and then to next(result, element) for each of its elements.
template <typename F>
void reduce(const OpCall &call, const Numbers &x, Numbers &y, Number start, F next) {
  const Reduced r(call, x.type.rank());
  std::fill(y.values.begin(), y.values.end(), start);
  forEachIndex(x.type.dims, [&](const Index &at) {
    Number &to = y[r.result(at)];
    to = next(to, x[at]);
  });
}

void sum(const OpCall &call, Operands x, Results y) {
  const DType t = y[0].type.dtype;
  reduce(call, x[0], y[0], 0, [=](Number a, Number b) { return plus(t, a, b); });
}
void prod(const OpCall &call, Operands x, Results y) {
  const DType t = y[0].type.dtype;
  reduce(call, x[0], y[0], 1, [=](Number a, Number b) { return times(t, a, b); });
}
void mean(const OpCall &call, Operands x, Results y) {
  Numbers counts = y[0];
  reduce(call, x[0], counts, 0, [](Number n, Number) { return n + 1; });
  sum(call, x, y);
  for (size_t i = 0; i < counts.values.size(); ++i)
    y[0].values[i] /= counts.values[i];
}
void logSumExp(const OpCall &call, Operands x, Results y) {
  reduce(call, x[0], y[0], 0, [](Number a, Number b) { return a + std::exp(b); });
  for (Number &v : y[0].values)
    v = std::log(v);
}
void max(const OpCall &call, Operands x, Results y) {
  reduce(call, x[0], y[0], least(x[0].type.dtype),
         [](Number a, Number b) { return b > a || std::isnan(b) ? b : a; });
}
void min(const OpCall &call, Operands x, Results y) {
  reduce(call, x[0], y[0], greatest(x[0].type.dtype),
         [](Number a, Number b) { return b < a || std::isnan(b) ? b : a; });
}

// Of max and min alike: y, operand 2, is the extremum.
void extremumGrad(const OpCall &call, Operands x, Results y) {
  const Reduced r(call, x[1].type.rank());
  const bool shares = call.attrs->getBool("share_ties");
  auto isTie = [&](const Index &at) {
    const Number v = x[1][at], extremum = x[2][r.result(at)];
    return v == extremum || (std::isnan(v) && std::isnan(extremum));
  };
  Numbers ties(x[2].type), before(x[2].type);
  forEachIndex(x[1].type.dims, [&](const Index &at) { ties[r.result(at)] += isTie(at); });
  forEachIndex(x[1].type.dims, [&](const Index &at) {
    const Index to = r.result(at);
    if (shares && std::isnan(x[2][to]))
      y[0][at] = kNaN;
    else if (isTie(at) && shares)
      y[0][at] = x[0][to] / ties[to];
    else if (isTie(at) && before[to]++ == 0)
      y[0][at] = x[0][to];
  });
}

template <bool largest> void argExtremum(const OpCall &call, Operands x, Results y) {
  const int64_t axis = axisOf(call, x[0].type.rank());
  const Reduced r(call, x[0].type.rank());
  forEachLine(x[0], axis, [&](const Index &first) {
    const std::vector<Number> v = line(x[0], first, axis);
    size_t best = 0;
    for (size_t i = 1; i < v.size() && !std::isnan(v[best]); ++i)
      if (std::isnan(v[i]) || (largest ? v[i] > v[best] : v[i] < v[best]) ||
          (v[i] == v[best] && call.attrs->getBool("last")))
        best = i;
    y[0][r.result(first)] = Number(best);
  });
}

// Calls f(positions) for each line along the axis, in the order in which the op runs along it.
template <typename F> void forEachRun(const OpCall &call, const Numbers &x, F f) {
  const int64_t axis = axisOf(call, x.type.rank());
  forEachLine(x, axis, [&](const Index &first) {
    std::vector<Index> run;
    for (int64_t i = 0, n = x.size(axis); i < n; ++i)
      run.push_back(with(first, axis, call.attrs->getBool("reverse") ? n - 1 - i : i));
    if (!run.empty())
      f(run);
  });
}
template <auto combine, int start> void scan(const OpCall &call, Operands x, Results y) {
  forEachRun(call, x[0], [&](const std::vector<Index> &run) {
    Number before = start;
    for (const Index &at : run) {
      const Number now = combine(x[0].type.dtype, before, x[0][at]);
      y[0][at] = call.attrs->getBool("exclusive") ? before : now;
      before = now;
    }
  });
}
void recurrence(const OpCall &call, Operands x, Results y) {
  forEachRun(call, x[0], [&](const std::vector<Index> &run) {
    y[0][run[0]] = x[0][run[0]];
    for (size_t i = 1; i < run.size(); ++i) {
      const Index &factor = run[call.attrs->getBool("previous") ? i - 1 : i];
      const bool cut = x.size() > 2 && x[2][factor] != 0;
      y[0][run[i]] = x[0][run[i]] + (cut ? 0 : x[1][factor] * y[0][run[i - 1]]);
    }
  });
}

} // namespace

void defineReduce(Table &t) {
  t["sum"] = {sum};
  t["mean"] = {mean};
  t["prod"] = {prod};
  t["max"] = {max, Accuracy::Exact};
  t["min"] = {min, Accuracy::Exact};
  t["logsumexp"] = {logSumExp};
  t["max_grad"] = t["min_grad"] = {extremumGrad};
  t["argmax"] = {argExtremum<true>, Accuracy::Exact};
  t["argmin"] = {argExtremum<false>, Accuracy::Exact};
  t["cumsum"] = {scan<plus, 0>};
  t["cumprod"] = {scan<times, 1>};
  t["recurrence"] = {recurrence};
}

} // namespace isthmus::definitions
