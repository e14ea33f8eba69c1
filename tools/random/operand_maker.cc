#include "tools/random/operand_maker.h"

#include "tools/random/draw.h"
#include <algorithm>

namespace isthmus {
namespace {

constexpr int64_t kBoundOfOthers = 4;  // for integers that are not indices
constexpr double kLow = -2, kHigh = 2; // of rows without an interval of their own

int64_t product(llvm::ArrayRef<int64_t> d) { return Type(DType::U8, d).elements(); }

} // namespace

ValueId OperandMaker::operand(const OpCall &call, size_t i, ValueId given) {
  const Type &type = call.operands[i];
  const OpDef &op = *call.op;
  if (given && g_.inputOf(given) && g_.inputOf(given)->kind == InputKind::State)
    return given;
  if (type.dtype == DType::Bool)
    return boolOperand(type);
  if (!isFloat(type.dtype)) {
    std::optional<int64_t> bound = op.indexBound ? op.indexBound(call, i) : std::nullopt;
    if (op.takesIndex && type.elements() > 0) // at least one label must not be ignored
      return labels(type, *bound);
    return intOperand(type, bound.value_or(kBoundOfOthers));
  }
  double low = op.low, high = op.high;
  if (op.name == "mod") // the divisor may be any number except zero
    low = 0.5, high = 2;
  // Unsquashed values, for ops whose results grow slowly.
  bool mayBeRaw = low == kLow && high == kHigh &&
                  (op.is(kView) || (op.is(kElementwise) && op.operandNames.size() > 1));
  ValueId v = floatOperand(type, low, high, given, mayBeRaw);
  bool ofMatrices = op.name == "inverse" || op.name == "det" || op.name == "logabsdet";
  return ofMatrices ? dominant(v) : v;
}

ValueId OperandMaker::anyFloat() {
  for (int tries = 0; tries < 16; ++tries) {
    ValueId v = random_.oneIn(3) || kept_.size() < 6
                    ? random_.of(kept_)
                    : kept_[kept_.size() - 1 - random_.below(6)]; // deep rather than wide
    if (g_.type(v).dtype == dtype_ && g_.type(v).elements() > 0)
      return v;
  }
  return kept_[0]; // an input
}

ValueId OperandMaker::floatFor(int64_t elements) {
  if (ValueId v = random_.of(kept_);
      isFloat(g_.type(v).dtype) && (g_.type(v).elements() > 0 || elements == 0))
    return v;
  return anyFloat();
}

ValueId OperandMaker::floatOperand(const Type &type, double low, double high, ValueId given,
                                   bool mayBeRaw) {
  if (!given && random_.oneIn(5))
    return learned(type, low, high);
  ValueId v = given ? given : floatFor(type.elements());
  v = shaped(b_.cast(v, type.dtype), type.dims);
  if (mayBeRaw && random_.oneIn(2))
    return v;
  return squashed(v, low, high);
}

// A parameter, or rarely another input, within the interval; half the time one that exists already,
// if one fits.
ValueId OperandMaker::learned(const Type &type, double low, double high) {
  for (const Input &i : g_.inputs())
    if (i.kind == InputKind::Param && g_.type(i.value) == type && within_[i.value].low >= low &&
        within_[i.value].high <= high && random_.oneIn(2))
      return i.value;
  return drawnInput(random_.oneIn(4) ? InputKind::Input : InputKind::Param, type, low, high);
}

ValueId OperandMaker::drawnInput(InputKind kind, const Type &type, double low, double high) {
  Initializer init;
  init.kind = Initializer::Kind::Uniform;
  init.args = {{"low", low}, {"high", high}, {"seed", int64_t(random_.below(100))}};
  const char *base = kind == InputKind::Param ? "w" : kind == InputKind::State ? "s" : "x";
  ValueId v = llvm::cantFail(g_.addInput(kind, name(base), type, std::move(init)));
  within_[v] = {low, high};
  return v;
}

ValueId OperandMaker::drawnData(const Type &type, int64_t bound) {
  Initializer init;
  init.kind = Initializer::Kind::Data;
  init.data = draw(type, random_.next(), {.bound = bound});
  InputKind kind = random_.oneIn(2) ? InputKind::Const : InputKind::Input;
  ValueId v = llvm::cantFail(g_.addInput(kind, name("data"), type, std::move(init)));
  below_[v] = bound;
  keep(v);
  return v;
}

ValueId OperandMaker::labels(const Type &type, int64_t bound) {
  std::vector<double> data = toDoubles(draw(type, random_.next(), {.bound = bound}));
  data[0] = 0; // no example ignores this label in a mean
  Initializer init;
  init.kind = Initializer::Kind::Data;
  init.data = fromDoubles(type, data);
  return llvm::cantFail(g_.addInput(InputKind::Input, name("labels"), type, std::move(init)));
}

ValueId OperandMaker::intOperand(const Type &type, int64_t bound) {
  bound = std::max<int64_t>(bound, 1); // an empty axis has no index either
  for (int tries = 0; tries < 4; ++tries) {
    ValueId v = random_.of(kept_);
    auto known = below_.find(v);
    if (known == below_.end() || known->second > bound || g_.type(v).dtype != type.dtype ||
        (g_.type(v).elements() == 0 && type.elements() > 0))
      continue;
    return shaped(v, type.dims);
  }
  if (random_.oneIn(2))
    return drawnData(type, bound);
  ValueId v = shaped(b_.cast(floatFor(type.elements()), dtype_), type.dims);
  v = squashed(v, 0, 0.999 * double(bound));
  v = b_.cast(v, type.dtype);
  below_[v] = bound;
  keep(v);
  return v;
}

ValueId OperandMaker::boolOperand(const Type &type) {
  if (ValueId v = random_.of(kept_);
      g_.type(v).dtype == DType::Bool && (g_.type(v).elements() > 0 || type.elements() == 0))
    return shaped(v, type.dims);
  if (random_.oneIn(3))
    return drawnData(type, 2);
  auto side = [&] { return shaped(b_.cast(floatFor(type.elements()), dtype_), type.dims); };
  ValueId a = side(), b = side();
  ValueId v = b_.create("less", {a, b}, {}, name("less"));
  keep(v);
  return v;
}

// Makes square matrices well conditioned: the diagonal outweighs the rest of its row.
ValueId OperandMaker::dominant(ValueId v) {
  const Type t = g_.type(v);
  int64_t n = t.dims.back();
  std::vector<double> diagonal(size_t(n * n));
  for (int64_t i = 0; i < n; ++i)
    diagonal[size_t(i * n + i)] = 2 * kHigh * double(n) + 1;
  Initializer init;
  init.kind = Initializer::Kind::Data;
  init.data = fromDoubles(Type(t.dtype, {n, n}), diagonal);
  Type dataType = init.data.type;
  ValueId d = llvm::cantFail(g_.addInput(InputKind::Const, "diagonal", dataType, std::move(init)));
  return b_.add(v, d);
}

ValueId OperandMaker::squashed(ValueId v, double low, double high) {
  auto known = within_.find(v);
  if (known != within_.end() && known->second.low >= low && known->second.high <= high)
    return v;
  double middle = (low + high) / 2, half = (high - low) / 2;
  ValueId y;
  switch (random_.below(3)) {
  case 0:
    y = b_.create("tanh", {v}, {}, name("tanh"));
    y = b_.create("affine", {y}, {{"scale", half}, {"shift", middle}});
    break;
  case 1:
    y = b_.create("sigmoid", {v}, {}, name("sigmoid"));
    y = b_.create("affine", {y}, {{"scale", 2 * half}, {"shift", low}});
    break;
  default: // this does not saturate for large values
    y = b_.create("affine", {b_.create("tanh", {b_.scale(v, 0.25)})}, {{"scale", 3.0}});
    y = b_.create("sin", {y}, {}, name("sin"));
    y = b_.create("affine", {y}, {{"scale", half}, {"shift", middle}});
  }
  within_[y] = {low, high};
  keep(y);
  return y;
}

ValueId OperandMaker::shaped(ValueId v, llvm::ArrayRef<int64_t> dims) {
  if (llvm::makeArrayRef(g_.type(v).dims) == dims)
    return v;
  auto bounds = within_.find(v);
  auto bound = below_.find(v);
  std::optional<Interval> within;
  std::optional<int64_t> below;
  if (bounds != within_.end())
    within = bounds->second;
  if (bound != below_.end())
    below = bound->second;
  int64_t have = g_.type(v).elements();
  const int64_t want = product(dims);
  if (have != want) {
    v = b_.reshape(v, {have});
    if (have < want) {
      int64_t times = (want + have - 1) / have;
      v = b_.create("broadcast", {v}, {{"dims", Ints{times, have}}});
      have *= times;
      v = b_.reshape(v, {have});
    }
    if (have > want) {
      int64_t start = int64_t(random_.below(size_t(have - want + 1)));
      v = b_.create("slice", {v},
                    {{"starts", Ints{start}}, {"limits", Ints{start + want}}, {"steps", Ints{1}}});
    }
  }
  v = b_.reshape(v, dims);
  if (within)
    within_[v] = *within;
  if (below)
    below_[v] = *below;
  return v;
}

std::string OperandMaker::name(llvm::StringRef base) {
  if (oddNames_ && random_.oneIn(10))
    return "block/" + std::to_string(random_.below(4)) + ":" + base.str() +
           (random_.oneIn(3) ? " \"\\\n" : "");
  return base.str();
}

} // namespace isthmus
