// Optimizer steps. One thread computes the update from the rate and the step count, which are in
// device memory, and stores it in the workspace. Then all elements are read and written once.

#include "kernels/cuda/map.h"
#include "kernels/cuda/register.h"
#include "kernels/element/optimizer.h"

namespace isthmus::cuda {
namespace {

// A scalar operand of any float or index type; a thread reads it.
struct Scalar {
  const void *at = nullptr;
  DType dtype = DType::F64;

  Scalar() = default;
  Scalar(const Launch &l, size_t i) : at(l.args.operands[i]), dtype(l.call.operands[i].dtype) {}
  template <typename T> ISTHMUS_DEVICE T as() const { return *static_cast<const T *>(at); }
  ISTHMUS_DEVICE double number() const {
    return dtype == DType::F32    ? double(as<float>())
           : dtype == DType::F64  ? as<double>()
           : dtype == DType::BF16 ? double(float(as<BF16>()))
                                  : double(float(as<F16>()));
  }
  ISTHMUS_DEVICE int64_t integer(int64_t otherwise) const {
    return !at ? otherwise : dtype == DType::I32 ? as<int32_t>() : as<int64_t>();
  }
};

constexpr int64_t kUpdateBytes = 256; // size of the workspace

template <typename C, typename Rule, typename Update>
void makeUpdate(const Launch &l, const Rule &rule, Update *update) {
  static_assert(sizeof(Update) <= kUpdateBytes);
  constexpr size_t at = 2 + Rule::kStates;
  Scalar rate(l, at), step = l.call.operands.size() > at + 1 ? Scalar(l, at + 1) : Scalar();
  forEach(l.queue, 1, [=] ISTHMUS_GPU(int64_t) {
    *update = rule.template update<C>(rate.number(), step.integer(1));
  });
}

template <typename S, int n> struct States {
  const S *from[n + 1] = {};
  S *to[n + 1] = {};
};

// T: type of param. S: type of the states. All arithmetic is in T's compute type.
template <typename Rule, typename T, typename S> void stepElements(const Launch &l) {
  using C = Compute<T>;
  using Update = typename Rule::template Update<C>;
  constexpr int kStates = Rule::kStates, N = kPackOf<T, S>;
  Update *made = l.workspace<Update>();
  makeUpdate<C>(l, Rule(*l.call.attrs), made);
  const T *param = l.operand<T>(0), *grad = l.operand<T>(1);
  T *newParam = l.result<T>(0);
  States<S, kStates> states;
  for (int k = 0; k < kStates; ++k) {
    states.from[k] = l.operand<S>(2 + k);
    states.to[k] = l.result<S>(1 + k);
  }
  int64_t n = l.call.results[0].elements();
  forEach(l.queue, (n + N - 1) / N, [=] ISTHMUS_GPU(int64_t p) {
    Update update = *made;
    Pack<T, N> x = loadPack<N>(param, p, n), g = loadPack<N>(grad, p, n);
    Pack<S, N> state[kStates + 1];
    for (int k = 0; k < kStates; ++k)
      state[k] = loadPack<N>(states.from[k], p, n);
    for (int i = 0; i < N; ++i) {
      C value = C(x.element[i]), s[kStates + 1];
      for (int k = 0; k < kStates; ++k)
        s[k] = C(state[k].element[i]);
      update(value, C(g.element[i]), s);
      x.element[i] = T(value);
      for (int k = 0; k < kStates; ++k)
        state[k].element[i] = S(s[k]);
    }
    storePack(newParam, p, n, x);
    for (int k = 0; k < kStates; ++k)
      storePack(states.to[k], p, n, state[k]);
  });
}

template <typename Rule> void runStep(const Launch &l) {
  dispatchFloat(l.call.operands[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (Rule::kStates == 0 || l.call.operands[2].dtype == l.call.operands[0].dtype)
      stepElements<Rule, T, T>(l);
    else
      stepElements<Rule, T, Compute<T>>(l);
  });
}
int64_t updateBytes(const OpCall &) { return kUpdateBytes; }

} // namespace

void registerOptimizer(KernelTable &table) {
  table.add({"sgd", "cuda", prepareGrid<runStep<Sgd>, updateBytes>});
  table.add({"momentum", "cuda", prepareGrid<runStep<Momentum>, updateBytes>});
  table.add({"adam", "cuda", prepareGrid<runStep<Adam>, updateBytes>});
  table.add({"adamw", "cuda", prepareGrid<runStep<AdamW>, updateBytes>});
  table.add({"adagrad", "cuda", prepareGrid<runStep<Adagrad>, updateBytes>});
}

} // namespace isthmus::cuda
