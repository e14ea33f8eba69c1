// Compares the plain kernels with the definitions of the ops: on the examples of the op table, and
// on calls that vary them, in all element types.

#include "ir/element.h"
#include "ir/op_registry.h"
#include "ir/ops/channels.h"
#include "kernels/plain/register.h"
#include "tests/kernels/call.h"
#include "tests/ops/definitions/definitions.h"
#include "tests/testing/example.h"
#include "tests/testing/interpret.h"
#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>
#include <random>

namespace isthmus {
namespace {

using namespace definitions;

// Rows without a definition, and why.
const std::map<std::string, const char *> kExceptions = {
    {"bitcast", "a view: it says nothing of numbers, and the bytes stay where they are"},
    {"copy_to_host", "the device runs it, not a kernel"},
    {"copy_to_device", "the device runs it, not a kernel"},
    {"wait", "the device runs it, not a kernel"},
    {"send", "the device runs it, not a kernel"},
    {"receive", "the device runs it, not a kernel"}};

TEST(Definitions, EveryRowHasOneOrAReason) {
  for (const OpDef *row : OpRegistry::get().rows())
    EXPECT_NE(table().count(row->name), kExceptions.count(row->name))
        << row->name << " needs a definition, in tests/ops/definitions, or a reason here";
  EXPECT_EQ(table().size() + kExceptions.size(), OpRegistry::get().rows().size());
}

// --- Numbers and tensors

Numbers numbersOf(const Tensor &t) {
  Numbers n(t.type);
  for (int64_t i = 0; i < t.type.elements(); ++i)
    n.values[size_t(i)] =
        isFloat(t.type.dtype) ? Number(elementAsDouble(t, i)) : Number(elementAsInt(t, i));
  return n;
}

// Rounded to the type.
Tensor tensorOf(const Numbers &n) {
  return Tensor::make(n.type, [&](char *data) {
    for (size_t i = 0; i < n.values.size(); ++i)
      if (n.type.dtype == DType::I64)
        reinterpret_cast<int64_t *>(data)[i] = int64_t(n.values[i]);
      else
        setElement(n.type.dtype, data, int64_t(i), double(n.values[i]));
  });
}

double epsilonOf(DType t) {
  return t == DType::F64 ? 0x1p-52 : t == DType::F32 ? 0x1p-23 : t == DType::F16 ? 0x1p-10 : 0x1p-7;
}

// Small: floats from the row's interval, small integers, and indices that the row takes. Coarse:
// few different floats, so that some are equal, and indices out of range. Wild: NaN, infinities,
// both zeros, and integers of all sizes.
enum class Draw { Small, Coarse, Wild };

std::vector<Numbers> drawNumbers(const Example &e, Draw how, uint32_t seed) {
  std::mt19937_64 r(seed);
  const OpDef &op = *e.call.op;
  auto pick = [&](int64_t low, int64_t high) {
    return low + int64_t(r() % uint64_t(high - low + 1));
  };
  const bool isAnyInteger =
      how == Draw::Wild && llvm::none_of(e.call.operands, [](Type t) { return isFloat(t.dtype); });
  std::vector<Numbers> out;
  for (size_t i = 0; i < e.call.operands.size(); ++i) {
    const DType t = e.call.operands[i].dtype;
    const auto bound = op.indexBound ? op.indexBound(e.call, i) : std::nullopt;
    auto index = [&] {
      const int64_t rest = how == Draw::Small && *bound > 0 ? 0 : 1;
      for (int tries = 0; tries < 100; ++tries)
        if (const int64_t v = pick(-*bound - rest, *bound - 1 + rest);
            !op.takesIndex || op.takesIndex(e.call, i, v))
          return v;
      return int64_t(0);
    };
    auto number = [&]() -> Number {
      const double low = op.low, high = op.high, share = double(r() >> 11) * 0x1p-53;
      if (t == DType::Bool)
        return pick(0, 1);
      if (bound)
        return index();
      if (!isFloat(t))
        return isAnyInteger && pick(0, 3) ? wrapped(t, r() >> pick(0, 63)) : Number(pick(0, 3));
      const Number wild[] = {kNaN, kInfinity, -kInfinity, 0, -0.0L};
      return how == Draw::Small                 ? low + (high - low) * share
             : how == Draw::Wild && !pick(0, 4) ? wild[pick(0, 4)]
                                                : low + (high - low) * double(pick(0, 7)) / 8;
    };
    Numbers n(e.call.operands[i]);
    std::generate(n.values.begin(), n.values.end(), number);
    out.push_back(numbersOf(tensorOf(n)));
  }
  // Gradients of extrema read the extremum.
  if (op.name == "max_grad" || op.name == "min_grad")
    table().at(op.name.substr(0, 3)).define(e.call, {out[1]}, {out[2]});
  return out;
}

// --- Comparison

bool areSame(double got, double want, Accuracy a) {
  return (std::isnan(got) && std::isnan(want)) ||
         (got == want && (a != Accuracy::Moves || std::signbit(got) == std::signbit(want)));
}

Draw drawFor(const OpCall &call, Accuracy accuracy, uint32_t seed) {
  const bool isWild = accuracy <= Accuracy::Exact ||
                      llvm::none_of(call.operands, [](const Type &t) { return isFloat(t.dtype); });
  return accuracy == Accuracy::Sensitive ? Draw::Small : Draw(seed % (isWild ? 3 : 2));
}

// Runs the plain kernel between guards, which show writes out of bounds.
std::vector<Tensor> run(const Example &e, const std::vector<Numbers> &operands, int threads) {
  std::vector<Tensor> in, out;
  for (const Numbers &n : operands)
    in.push_back(tensorOf(n));
  if (e.call.op->is(kView))
    return llvm::cantFail(interpretCall(plainKernels(), e.call, in));
  testing::Call call(e.call.op->name, e.text.operands, e.text.attrs);
  call.random = {kSeed, kStep};
  for (size_t i = 0; i < in.size(); ++i)
    std::memcpy(call.in[i].data(), in[i].data, size_t(in[i].bytes()));
  call.run(plainKernels(), threads);
  for (size_t k = 0; k < call.out.size(); ++k)
    out.push_back(Tensor::make(e.call.results[k], [&](char *data) {
      std::memcpy(data, call.out[k].data(), size_t(call.out[k].bytes()));
    }));
  return out;
}

void expectDefined(const std::string &text, uint32_t seed) {
  SCOPED_TRACE(text);
  const auto e = parseExample(text);
  const Entry &entry = table().at(e->call.op->name);
  const Draw how = drawFor(e->call, entry.accuracy, seed);
  const std::vector<Numbers> operands = drawNumbers(*e, how, seed);
  std::vector<Numbers> want(e->call.results.begin(), e->call.results.end());
  entry.define(e->call, operands, want);
  const std::vector<Tensor> got = run(*e, operands, 1 + int(seed % 2));
  for (size_t k = 0; k < want.size(); ++k) {
    const DType t = want[k].type.dtype;
    const Tensor rounded = tensorOf(want[k]);
    Number scale = 1;
    for (Number v : want[k].values)
      scale = std::max(scale, std::isfinite(v) ? std::fabs(v) : 0);
    const double steps = entry.accuracy == Accuracy::Sensitive ? 1000
                         : entry.accuracy == Accuracy::AddsUp  ? 16
                                                               : 1;
    // Kernels add narrow types in wider ones.
    const double roundings = steps * (t == DType::F64 ? 64 : t == DType::F32 ? 8 : 2);
    const Number tolerance = roundings * epsilonOf(t) * scale;
    for (int64_t i = 0; i < want[k].type.elements(); ++i) {
      const Number w = want[k].values[size_t(i)];
      bool isRight = !isFloat(t) && elementAsInt(got[k], i) == elementAsInt(rounded, i);
      if (isFloat(t)) {
        const double g = elementAsDouble(got[k], i);
        isRight = areSame(g, elementAsDouble(rounded, i), entry.accuracy) ||
                  (entry.accuracy >= Accuracy::Rounds && std::fabs(g - w) <= tolerance);
      }
      if (!isRight) {
        ADD_FAILURE() << "draw " << int(how) << ", seed " << seed << ", result " << k
                      << ", element " << i << ": " << elementAsDouble(got[k], i)
                      << ", by definition " << double(w);
        break;
      }
    }
  }
}

const char *const kTypes[] = {"f32", "bf16", "f16", "i64", "i32", "u8", "bool"};

// With another element type in the place of f64, if the row takes it.
void expectDefinedIn(const char *type, const std::string &text, uint32_t seed) {
  if (const std::string other = inType(text, type); other != text)
    expectDefined(other, seed);
}
// In the types that the text names, and in another one, by turns.
void expectDefinedInTypes(const std::string &text, uint32_t seed) {
  expectDefined(text, seed);
  expectDefinedIn(kTypes[seed % std::size(kTypes)], text, seed);
}

// --- Varied calls

// The call with some sizes, flags, axes and other attributes replaced. The row may refuse it.
std::string varied(const CallText &from, std::mt19937 &r) {
  auto oneIn = [&](unsigned n) { return r() % n == 0; };
  auto of = [&](auto list) { return *(list.begin() + r() % list.size()); };
  std::map<int64_t, int64_t> sizes;
  for (const Type &t : from.operands)
    for (int64_t d : t.dims)
      if (oneIn(2))
        sizes[d] = of(std::initializer_list<int64_t>{0, 1, 2, 3, 5, 8, 33, 65, 130, 300, 600});
  auto sized = [&](int64_t d) { return sizes.count(d) ? sizes[d] : d; };
  OpCall call;
  Attrs attrs = from.attrs;
  call.op = from.op;
  call.attrs = &attrs;
  call.operands.assign(from.operands.begin(), from.operands.end());
  for (Type &t : call.operands)
    for (int64_t &d : t.dims)
      d = sized(d);
  const bool resizes = oneIn(2);
  for (const AttrDef &def : from.op->attrs) {
    Attr a = *from.attrs.find(def.name);
    if (auto *v = std::get_if<bool>(&a))
      *v ^= oneIn(3);
    if (auto *v = std::get_if<int64_t>(&a))
      *v = resizes && oneIn(2) ? sized(*v) : oneIn(3) ? int64_t(r() % 7) - 3 : *v;
    if (auto *v = std::get_if<double>(&a))
      *v = oneIn(3) ? of(std::initializer_list<double>{0.25, 0.75}) : *v;
    if (auto *v = std::get_if<std::string>(&a))
      *v = oneIn(2) ? of(std::initializer_list<const char *>{
                          "none", "add", "mul", "max", "min", "mean", "sum", "constant", "reflect",
                          "edge", "wrap", "tanh", "f32", "f16", "bf16", "i32", "i64", "u8", "bool"})
                    : *v;
    if (auto *v = std::get_if<Ints>(&a)) {
      for (int64_t &n : *v)
        n = resizes ? sized(n) : oneIn(6) ? n + int64_t(r() % 3) - 1 : n;
      if (oneIn(2))
        std::shuffle(v->begin(), v->end(), r);
    }
    attrs.set(def.name, a);
  }
  return callText(call);
}

// A call that is quick to define too.
bool isSmall(llvm::StringRef text) {
  if (!isTaken(text))
    return false;
  const auto e = parseExample(text);
  double elements = 0;
  for (const Type &t : e->call.operands)
    elements += double(t.elements());
  for (const Type &t : e->call.results)
    elements += double(t.elements());
  return elements < 3e4 && costOf(e->call).flops < 3e5;
}

class Definitions : public ::testing::TestWithParam<std::string> {};
std::vector<std::string> namesOf(const Table &t) {
  std::vector<std::string> names;
  for (const auto &[name, entry] : t)
    names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Rows, Definitions, ::testing::ValuesIn(namesOf(table())),
                         [](const auto &info) { return info.param; });

TEST_P(Definitions, HoldForThePlainKernels) {
  std::mt19937 r(1);
  uint32_t seed = 0;
  const std::vector<std::string> &examples = OpRegistry::get().at(GetParam()).examples;
  const int most = std::max(8, 48 / int(examples.size()));
  for (const std::string &example : examples) {
    for (int i = 0; i < 3; ++i)
      expectDefined(example, seed++);
    for (const char *type : kTypes)
      expectDefinedIn(type, example, seed++);
    const CallText from = llvm::cantFail(parseCall(example));
    for (int tries = 0, taken = 0; tries < 10 * most && taken < most; ++tries)
      if (const std::string text = varied(from, r); isSmall(text)) {
        expectDefinedInTypes(text, seed++);
        ++taken;
      }
  }
}

void expectSameBitsWithChannelsLast(const std::string &text, uint32_t seed) {
  const auto e = parseExample(text);
  testing::Call first(e->call.op->name, e->text.operands, e->text.attrs);
  first.draw(seed);
  const auto last = withChannelsLast(first);
  first.run(plainKernels());
  last->run(plainKernels());
  testing::Guarded back(first.out[0].bytes());
  moveChannels(first.call.results[0], last->out[0], back, /*back=*/true);
  EXPECT_EQ(last->call.results[0], channelsLast(first.call.results[0])) << text;
  EXPECT_TRUE(back.sameBytes(first.out[0])) << text;
}

// Beyond the blocks and pieces of kernels, where few varied calls reach.
TEST(Large, CallsHold) {
  uint32_t seed = 0;
  for (const char *text :
       {"sum(f64[70001])", "mean(f64[5, 40000]) {axes = [1]}", "max(f64[40000, 3]) {axes = [0]}",
        "logsumexp(f64[3, 50, 300]) {axes = [0, 1]}", "add(f64[300, 301], f64[301])",
        "cross_entropy(f64[35000, 2], i64[35000])", "nll(f64[35000, 2], i64[35000]) {ignore = [1]}",
        "matmul(f64[125, 131], f64[131, 129], f64[129])",
        "matmul_add(f64[7, 150], f64[300, 7], f64[150, 300]) {transpose_a = true, transpose_b = "
        "true}",
        "transpose(f64[5, 65, 7, 33]) {perm = [0, 3, 1, 2]}",
        "transpose(f64[301, 129]) {perm = [1, 0]}",
        "batch_norm(f64[9, 3, 1100], f64[3], f64[3], "
        "f64[3], f64[3])"})
    for (const char *type : {"f64", "f32", "bf16"})
      expectDefined(inType(text, type), seed++);
}

// Random windows on one to three spatial axes. The sizes of the operands follow from them.
TEST(Windows, HoldForThePlainKernels) {
  std::mt19937 r(1);
  auto pick = [&](int64_t low, int64_t high) {
    return low + int64_t(r() % unsigned(high - low + 1));
  };
  auto call = [](const char *op, std::vector<Type> operands, Attrs attrs) {
    std::string text = std::string(op) + "(";
    for (const Type &t : operands)
      text += (text.back() == '(' ? "" : ", ") + t.str();
    text += ") {";
    for (const auto &[name, value] : attrs)
      text += (text.back() == '{' ? "" : ", ") + name + " = " + attrText(value);
    return text + "}";
  };
  for (uint32_t i = 0; i < 150; ++i) {
    const int64_t groups = pick(0, 2) ? 1 : pick(2, 3), in = groups * pick(1, 6),
                  out = groups * pick(1, 6);
    Ints kernel, strides, dilations, pads, high, size;
    for (int64_t a = 0, axes = pick(1, 3); a < axes; ++a) {
      kernel.push_back(pick(1, 3));
      strides.push_back(pick(1, 3));
      dilations.push_back(pick(1, 2));
      const int64_t extent = (kernel.back() - 1) * dilations.back() + 1;
      pads.push_back(pick(0, extent - 1));
      high.push_back(pick(0, extent - 1));
      size.push_back(extent + pick(0, axes == 3 ? 4 : 8));
    }
    if (i % 8 == 0)
      size.back() += 290; // longer than the pieces of kernels
    pads.insert(pads.end(), high.begin(), high.end());
    Attrs attrs = {{"strides", strides}, {"pads", pads}, {"dilations", dilations}}, pool = attrs;
    const Type x(DType::F64, joined({pick(1, 2), in}, size)),
        w(DType::F64, joined({out, in / groups}, kernel));
    attrs.set("groups", groups);
    const std::string conv = call("conv", {x, w, Type(DType::F64, {out})}, attrs);
    const Type y = parseExample(conv)->call.results[0];
    Attrs back = attrs, weight = attrs;
    back.set("dims", size);
    weight.set("kernel", kernel);
    for (const std::string &text :
         {conv, call("conv_transpose", {y, w, Type(DType::F64, {in})}, back),
          call("conv_weight_grad", {y, x}, weight)}) {
      expectDefinedInTypes(text, i);
      expectSameBitsWithChannelsLast(i % 3 ? text : inType(text, "f32"), i);
    }

    pool.set("kernel", kernel);
    pool.set("ceil_mode", bool(i % 2));
    const Type pooled = parseExample(call("max_pool", {x}, pool))->call.results[0];
    expectDefinedInTypes(call("max_pool", {x}, pool), i);
    expectDefinedInTypes(call("max_pool_indices", {x}, pool), i);
    expectDefinedInTypes(call("max_pool_grad", {pooled, x}, pool), i);
    expectDefinedInTypes(call("max_pool_take", {x, x}, pool), i);
    pool.set("count_include_pad", bool(i % 3));
    expectDefinedInTypes(call("avg_pool", {x}, pool), i);
    pool.set("dims", size);
    expectDefinedInTypes(call("avg_pool_grad", {pooled}, pool), i);
  }
}

} // namespace
} // namespace isthmus
