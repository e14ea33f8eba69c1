// Cuts every example of the op table in each way that it can be cut, inside of outer parts of axes,
// too, and compares chunks with the whole.

#include "ir/axis_cut.h"
#include "ir/factors.h"
#include "ir/op_registry.h"
#include "ir/parts.h"
#include "kernels/cpu.h"
#include "kernels/plain/register.h"
#include "tests/testing/example.h"
#include "tests/testing/interpret.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <set>

namespace isthmus {
namespace {

std::vector<Tensor> run(const KernelTable &kernels, const OpDef &op, const Attrs &attrs,
                        llvm::ArrayRef<Tensor> operands) {
  OpCall call;
  call.op = &op;
  call.attrs = &attrs;
  for (const Tensor &t : operands)
    call.operands.push_back(t.type);
  auto types = inferTypes(op, attrs, call.operands);
  if (!types) {
    ADD_FAILURE() << llvm::toString(types.takeError());
    return {};
  }
  call.results.assign(types->begin(), types->end());
  return llvm::cantFail(interpretCall(kernels, call, operands, {2, {7, 3}}));
}

std::vector<Tensor> run(const KernelTable &kernels, llvm::StringRef op,
                        std::initializer_list<std::pair<const char *, Attr>> given,
                        llvm::ArrayRef<Tensor> operands) {
  const OpDef &row = OpRegistry::get().at(op);
  Attrs attrs;
  for (const auto &[name, value] : given)
    attrs.set(name, value);
  llvm::cantFail(completeAttrs(row, attrs));
  return run(kernels, row, attrs, operands);
}

Tensor reshaped(const Tensor &t, const Dims &dims) {
  return run(plainKernels(), "reshape", {{"dims", Ints(dims.begin(), dims.end())}}, {t})[0];
}

// The elements from `begin` to `end` of the cut.
Tensor sliced(const Tensor &t, AxisCut cut, int64_t begin, int64_t end) {
  const Tensor split = reshaped(t, splitDims(t.type, cut));
  Ints starts(split.type.dims.size(), 0), limits(split.type.dims.begin(), split.type.dims.end());
  starts[cut.axis + 1] = begin;
  limits[cut.axis + 1] = end;
  Dims dims = t.type.dims;
  dims[cut.axis] = cut.outer * (end - begin);
  return reshaped(
      run(plainKernels(), "slice", {{"starts", starts}, {"limits", limits}}, {split})[0], dims);
}

// As "[1] [.] -> [0 in 3]": the axis of each value, and the outer part inside of which it is cut.
std::string cutsText(const CallCuts &cuts) {
  std::string s;
  auto print = [&](const std::optional<CallCuts::Of> &of) {
    s += !of ? "[.] "
             : "[" + std::to_string(of->cut.axis) +
                   (of->cut.outer == 1 ? "" : " in " + std::to_string(of->cut.outer)) + "] ";
  };
  for (const auto &of : cuts.operands)
    print(of);
  s += "-> ";
  for (const auto &of : cuts.results)
    print(of);
  return s;
}

// Chunks of a cut side by side.
Tensor joined(llvm::ArrayRef<Tensor> parts, AxisCut cut, const Dims &dims) {
  std::vector<Tensor> split;
  for (const Tensor &t : parts)
    split.push_back(reshaped(t, splitDims(t.type, cut)));
  return reshaped(run(plainKernels(), "concat", {{"axis", int64_t(cut.axis + 1)}}, split)[0], dims);
}

// A call that is cut as one of its values is, and the call as a whole.
class Cut {
public:
  Cut(const KernelTable &kernels, const Example &e, CallCuts cuts)
      : kernels_(kernels), e_(e), cuts_(std::move(cuts)), operands_(drawOperands(e)),
        whole_(run(kernels, *e.call.op, *e.call.attrs, operands_)) {
    auto count = [&](const Type &t, const std::optional<CallCuts::Of> &of) {
      if (!of)
        return;
      EXPECT_EQ(t.dims[of->cut.axis] % (of->cut.outer * of->places), 0);
      int64_t &places = of->isOfParts ? parts_ : units_;
      EXPECT_TRUE(places == 0 || places == of->places) << places << " and " << of->places;
      places = of->places;
    };
    for (size_t i = 0; i < operands_.size(); ++i)
      count(e_.call.operands[i], cuts_.operands[i]);
    for (size_t i = 0; i < whole_.size(); ++i)
      count(e_.call.results[i], cuts_.results[i]);
  }

  // The number of places, less one, at which the call may be cut.
  int64_t units() const { return units_; }

  // Cuts between the parts of the factor, if operands or results have an element for each.
  bool compareParts() {
    std::vector<int64_t> ends;
    for (int64_t k = 1; k <= parts_; ++k)
      ends.push_back(beginOfPart(units_, parts_, k));
    if (parts_ > 0)
      compare(ends);
    return parts_ > 0;
  }

  void compare(llvm::ArrayRef<int64_t> ends) {
    std::vector<std::vector<Tensor>> parts(whole_.size());
    std::vector<std::vector<double>> sizes;
    for (const Tensor &t : whole_)
      sizes.emplace_back(size_t(t.type.elements()), 0.0);
    int64_t begin = 0;
    for (int64_t end : ends) {
      takeChunk(begin, end, parts, sizes);
      begin = end;
    }
    for (size_t r = 0; r < whole_.size(); ++r) {
      const auto &of = cuts_.results[r];
      const Tensor got = of ? joined(parts[r], of->cut, whole_[r].type.dims)
                            : cast(parts[r][0], e_.call.results[r].dtype);
      if (of ? cuts_.keepsBits : cuts_.isRepeated(uint32_t(r)) || (goesOn(r) && cuts_.keepsBits))
        EXPECT_TRUE(sameBits(got, whole_[r])) << "result " << r;
      else
        expectNear(got, whole_[r], sizes[r], r);
    }
  }

private:
  bool isShort(size_t r) const { return dtypeBytes(e_.call.results[r].dtype) == 2; }

  // Whether the row goes on from the sum of the chunks before: of 16-bit values from one in f32.
  bool goesOn(size_t r) const {
    const Accumulation &how = e_.call.op->accumulation;
    if (how.op.empty())
      return false;
    auto operands = e_.call.operands;
    operands.insert(operands.begin() + how.operand, sumType(r));
    auto types = inferTypes(OpRegistry::get().at(how.op), *e_.call.attrs, operands);
    if (!types)
      llvm::consumeError(types.takeError());
    return bool(types);
  }
  Type sumType(size_t r) const {
    Type t = e_.call.results[r];
    t.dtype = isShort(r) ? DType::F32 : t.dtype;
    return t;
  }
  static Tensor cast(const Tensor &t, DType type) {
    return run(plainKernels(), "cast", {{"type", dtypeName(type).str()}}, {t})[0];
  }

  // `sizes`, by result: the sums of the absolute values of all parts so far.
  void takeChunk(int64_t begin, int64_t end, std::vector<std::vector<Tensor>> &parts,
                 std::vector<std::vector<double>> &sizes) const {
    std::vector<Tensor> operands;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const auto &of = cuts_.operands[i];
      if (!of) {
        operands.push_back(operands_[i]);
        continue;
      }
      const int64_t share = of->cut.innerOf(operands_[i].type) / of->places;
      auto at = [&](int64_t unit) {
        return of->isOfParts ? partsBefore(units_, parts_, unit) : unit * share;
      };
      operands.push_back(sliced(operands_[i], of->cut, at(begin), at(end)));
    }
    Attrs attrs = *e_.call.attrs;
    if (const auto &of = cuts_.results[0]) {
      const int64_t share = of->cut.innerOf(whole_[0].type) / of->places;
      attrs =
          of->isOfParts
              ? attrsOfChunk(e_.call, of->cut, partsBefore(units_, parts_, begin),
                             partsBefore(units_, parts_, end) - partsBefore(units_, parts_, begin))
              : attrsOfChunk(e_.call, of->cut, begin * share, (end - begin) * share);
    }
    const bool addsOn = (begin > 0 || isShort(0)) && goesOn(0) && !cuts_.results[0];
    const Accumulation &how = e_.call.op->accumulation;
    if (addsOn && begin == 0)
      parts[0].push_back(zeros(sumType(0)));
    if (addsOn)
      operands.insert(operands.begin() + how.operand, parts[0][0]);
    const auto made =
        run(kernels_, addsOn ? OpRegistry::get().at(how.op) : *e_.call.op, attrs, operands);
    ASSERT_EQ(made.size(), whole_.size());
    for (size_t r = 0; r < made.size(); ++r) {
      if (cuts_.results[r]) {
        parts[r].push_back(made[r]);
        continue;
      }
      if (cuts_.isRepeated(uint32_t(r))) {
        parts[r] = {made[r]};
        continue;
      }
      const Tensor part = cast(made[r], sumType(r).dtype);
      const auto values = toDoubles(part);
      for (size_t i = 0; i < values.size(); ++i)
        sizes[r][i] += std::abs(values[i]);
      if (addsOn)
        parts[r][0] = part;
      else if (begin == 0)
        parts[r].push_back(part);
      else
        parts[r][0] = run(plainKernels(), "add", {}, {parts[r][0], part})[0];
    }
  }
  static Tensor zeros(const Type &t) {
    return Tensor::make(t, [&](char *p) { std::memset(p, 0, size_t(t.bytes())); });
  }

  // Each part of a 16-bit sum is rounded once, and so are the sum of them and the whole.
  void expectNear(const Tensor &got, const Tensor &want, llvm::ArrayRef<double> sizesOfParts,
                  size_t r) const {
    const auto g = toDoubles(got), w = toDoubles(want);
    const DType type = want.type.dtype;
    const double unit = type == DType::BF16  ? 0x1p-8
                        : type == DType::F16 ? 0x1p-11
                                             : 0,
                 tolerance = type == DType::F64 ? 1e-12 : 1e-5;
    for (size_t i = 0; i < w.size(); ++i)
      EXPECT_NEAR(g[i], w[i],
                  tolerance * (1 + std::abs(w[i])) +
                      unit * (sizesOfParts[i] + std::abs(g[i]) + std::abs(w[i])))
          << "result " << r;
  }

  const KernelTable &kernels_;
  const Example &e_;
  const CallCuts cuts_;
  int64_t parts_ = 0, units_ = 0;
  const std::vector<Tensor> operands_, whole_;
};

// All ways in which a call may be cut: along each axis of each value, whole and inside of each
// outer part. Those that cut all values alike are one.
std::vector<CallCuts> allCuts(const OpCall &call) {
  std::vector<CallCuts> all;
  std::set<std::string> seen;
  auto add = [&](const Type &t, CallPlace place) {
    for (uint32_t axis = 0; axis < t.dims.size(); ++axis)
      for (int64_t outer = 1; outer <= t.dims[axis]; ++outer)
        if (t.dims[axis] % outer == 0)
          if (auto cuts = cutsOf(call, place, {axis, outer});
              cuts && seen.insert(cutsText(*cuts)).second)
            all.push_back(*cuts);
  };
  for (size_t i = 0; i < call.operands.size(); ++i)
    add(call.operands[i], {CallPlace::Operand, i});
  for (size_t r = 0; r < call.results.size(); ++r)
    add(call.results[r], {CallPlace::Result, r});
  return all;
}

// Tries halves, thirds, and a last chunk of one unit, by these kernels.
size_t cutAll(const KernelTable &kernels, const std::string &text) {
  SCOPED_TRACE(text);
  auto e = parseExample(text);
  size_t tried = 0;
  for (const CallCuts &cuts : allCuts(e->call)) {
    SCOPED_TRACE(cutsText(cuts));
    EXPECT_EQ(cuts.operands.size(), e->call.operands.size());
    EXPECT_EQ(cuts.results.size(), e->call.results.size());
    Cut cut(kernels, *e, cuts);
    const int64_t n = cut.units();
    if (n < 2) // an axis of one unit
      continue;
    ++tried;
    if (cut.compareParts())
      continue;
    cut.compare({n / 2, n});
    cut.compare({n - 1, n});
    if (n > 2)
      cut.compare({n / 3, 2 * n / 3, n});
  }
  return tried;
}

std::vector<std::string> rowNames() {
  std::vector<std::string> names;
  for (const OpDef *op : OpRegistry::get().computedRows())
    if (op->effect != Effect::Ordered)
      names.push_back(op->name);
  return names;
}

class RowFactors : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Rows, RowFactors, testing::ValuesIn(rowNames()),
                         [](const auto &info) { return info.param; });

TEST_P(RowFactors, ChunksGiveTheWhole) {
  const OpDef &row = OpRegistry::get().at(GetParam());
  size_t cuts = 0;
  for (const std::string &text : row.examples)
    cuts += cutAll(plainKernels(), text);
  EXPECT_TRUE(cuts > 0 || !(row.factors || row.cuts || row.is(kElementwise)))
      << "no example is cut";
}

// The kernels that a CPU runs, in the other types: those of libraries and our fast ones among them.
TEST_P(RowFactors, ChunksGiveTheWholeByTheFastKernels) {
  for (const std::string &text : OpRegistry::get().at(GetParam()).examples)
    for (const std::string &other :
         std::set<std::string>{inType(text, "f32"), inType(text, "bf16"), inType(text, "f16")})
      cutAll(cpuKernels(), other);
}

TEST(RowFactors, AreWritten) {
  auto factors = [](const char *text) { return factorsOf(parseExample(text)->call).str(); };
  EXPECT_EQ(factors("matmul(f32[4, 3], f32[5, 3]) {transpose_b = true}"),
            "[a, c] [b, c] -> [a, b]");
  EXPECT_EQ(factors("matmul(f32[4, 3], f32[3, 5], f32[5])"), "[a, .] [., b] [b] -> [a, b]");
  EXPECT_EQ(factors("add(f32[4, 3], f32[3])"), "[a, b] [b] -> [a, b]");
  EXPECT_EQ(factors("softmax(f32[4, 3])"), "[a, .] -> [a, .]");
  EXPECT_EQ(factors("sum(f32[4, 3]) {axes = [0]}"), "[a, b] -> [b]");
  EXPECT_EQ(factors("sum(f32[4, 3]) {axes = [1]}"), "[a, b] -> [a]");
  EXPECT_EQ(factors("scatter_rows(i64[2, 3], f64[2, 2, 3]) {axis = 1, size = 4}"),
            "[b, c] [a, b, c] -> [a, .]");
  EXPECT_EQ(factors("scatter_rows(i64[1, 3], f64[1, 3, 2]) {size = 4}"),
            "[., b] [., b, c] -> [., c]");
  EXPECT_EQ(factors("batch_norm(f32[4, 3, 2], f32[3], f32[3], f32[3], f32[3])"),
            "[., a, .] [a] [a] [a] [a] -> [., a, .] [a] [a]");
  const std::string given = "f32[3], f32[3], f32[3], f32[3]) {training = false}";
  EXPECT_EQ(factors(("batch_norm(f32[4, 3, 2], " + given).c_str()),
            "[a, b, c] [b] [b] [b] [b] -> [a, b, c] =[b] =[b]");
  EXPECT_EQ(factors("batch_norm_grad(f32[4, 3, 2], f32[4, 3, 2], f32[3], f32[3], f32[3]) "
                    "{training = false}"),
            "[b, a, .] [b, a, .] [a] [a] [a] -> [b, a, .] [a] [a]");
  EXPECT_EQ(factors("conv_weight_grad(f32[2, 4, 5], f32[2, 3, 7]) {kernel = [3]}"),
            "[a, ., .] [a, ., .] -> [., ., .]");
}

TEST(Cuts, GoThroughReshapes) {
  auto cuts = [](const char *text, CallPlace from, AxisCut cut) {
    const auto found = cutsOf(parseExample(text)->call, from, cut);
    return found ? cutsText(*found) + "in " + std::to_string(found->operands[0]->places) : "none";
  };
  const CallPlace in{CallPlace::Operand, 0}, out{CallPlace::Result, 0};
  EXPECT_EQ(cuts("reshape(f32[4, 6]) {dims = [24]}", in, {0}), "[0] -> [0] in 4");
  EXPECT_EQ(cuts("reshape(f32[4, 6]) {dims = [24]}", in, {1}), "[1] -> [0 in 4] in 6");
  EXPECT_EQ(cuts("reshape(f32[24]) {dims = [2, 2, 6]}", in, {0, 4}), "[0 in 4] -> [2] in 6");
  EXPECT_EQ(cuts("reshape(f32[24]) {dims = [4, 3, 2]}", in, {0, 4}), "[0 in 4] -> [1] in 3");
  EXPECT_EQ(cuts("reshape(f32[4, 6]) {dims = [8, 3]}", in, {0}), "[0] -> [0] in 4");
  EXPECT_EQ(cuts("reshape(f32[4, 6]) {dims = [8, 3]}", in, {1}), "[1] -> [0 in 4] in 2");
  EXPECT_EQ(cuts("reshape(f32[4, 6]) {dims = [8, 3]}", out, {1}), "[1 in 2] -> [1] in 3");
  EXPECT_EQ(cuts("reshape(f32[4, 6]) {dims = [8, 3]}", out, {0, 4}), "[1] -> [0 in 4] in 2");
  EXPECT_EQ(cuts("reshape(f32[4, 6]) {dims = [3, 8]}", in, {1}), "none");
}

} // namespace
} // namespace isthmus
