// Tests kernels one call at a time.

#include "ir/builder.h"
#include "ir/op_registry.h"
#include "ir/text/parser.h"
#include "passes/lower/convert.h"
#include "tools/selftest/selftest.h"

namespace isthmus {
namespace {

// Drawn values are small. The tolerances cover rounding in f32, and reductions that add in another
// order.
constexpr double kF64Tolerance = 1e-11, kF32Tolerance = 1e-4;
// Tolerances relative to a result's largest element, for a few roundings of intermediate values.
constexpr double kBf16Tolerance = 3e-2, kF16Tolerance = 4e-3;

// A graph of one node over drawn inputs.
llvm::Expected<Graph> graphOf(const OpDef &op, const Attrs &attrs, llvm::ArrayRef<Type> types) {
  Graph g("example");
  ValueList operands;
  for (const Type &t : types) {
    Initializer init;
    if (isFloat(t.dtype)) {
      init.kind = Initializer::Kind::Uniform;
      init.args = {{"low", op.low}, {"high", op.high}, {"seed", int64_t(operands.size())}};
    }
    auto v = g.addInput(InputKind::Input, "x" + std::to_string(operands.size()), t, init);
    if (!v)
      return v.takeError();
    operands.push_back(*v);
  }
  auto n = g.addNode(op, operands, attrs);
  if (!n)
    return n.takeError();
  for (uint32_t r = 0; r < g.node(*n).numResults; ++r)
    g.addOutput(g.node(*n).result(r));
  return g;
}

// The example in f64.
llvm::Expected<Graph> exampleGraph(const OpDef &op, const std::string &example) {
  auto call = parseCall(example);
  if (!call)
    return call.takeError();
  return graphOf(op, call->attrs, call->operands);
}

// The float type of the fewest bytes among the inputs, if all of them name types of their own: for
// rows of several float types. None if the example is in f64, or has no floats.
std::optional<DType> narrowestOf(const Graph &g) {
  std::optional<DType> narrowest;
  for (const Input &in : g.inputs()) {
    const DType type = g.type(in.value).dtype;
    if (type == DType::F64)
      return std::nullopt;
    if (isFloat(type) && (!narrowest || dtypeBytes(type) < dtypeBytes(*narrowest)))
      narrowest = type;
  }
  return narrowest;
}

double toleranceOf(DType type) {
  return type == DType::BF16  ? kBf16Tolerance
         : type == DType::F16 ? kF16Tolerance
         : type == DType::F32 ? kF32Tolerance
                              : kF64Tolerance;
}

bool areClose(llvm::ArrayRef<Tensor> got, llvm::ArrayRef<Tensor> want, double tolerance) {
  for (size_t i = 0; i < want.size(); ++i)
    if (!isClose(got[i], want[i], tolerance))
      return false;
  return true;
}

} // namespace

llvm::Error Selftest::checkKernel(const OpDef &op, const std::string &example) {
  auto exact = exampleGraph(op, example);
  if (!exact)
    return exact.takeError();
  if (const auto narrowest = narrowestOf(*exact)) {
    const DType result = exact->type(exact->outputs()[0]).dtype;
    return checkAlike(*exact, std::max(toleranceOf(*narrowest), toleranceOf(result)),
                      "kernel of " + example);
  }
  auto single = withPrecision(*exact, DType::F32);
  if (!single)
    return single.takeError();
  auto want = outputsOf(*exact, AsItIs(), reference_);
  if (!want)
    return want.takeError();
  auto inDouble = outputsOf(*exact, AsItIs(), device_);
  if (!inDouble)
    return inDouble.takeError();
  check(areClose(*inDouble, *want, kF64Tolerance), "kernel of " + example);
  auto inSingle = outputsOf(*single, AsItIs(), device_);
  if (!inSingle)
    return inSingle.takeError();
  check(areClose(*inSingle, *want, kF32Tolerance), "kernel of " + example + " in f32");
  return checkNarrow(*exact, example);
}

// Operands that the row takes in f32 only, such as statistics, are cast.
llvm::Error Selftest::checkNarrow(const Graph &exact, const std::string &example) {
  for (DType type : {DType::BF16, DType::F16}) {
    auto g = withPrecision(exact, type);
    if (!g) {
      llvm::consumeError(g.takeError()); // the row does not take the type
      continue;
    }
    if (llvm::Error e = checkAlike(*g, toleranceOf(type),
                                   "kernel of " + example + " in " + dtypeName(type).str()))
      return e;
  }
  return llvm::Error::success();
}

// Both devices compute from the same rounded operands, so that discontinuous ops agree.
llvm::Error Selftest::checkAlike(const Graph &g, double tolerance, const std::string &what) {
  auto want = outputsOf(g, AsItIs(), reference_);
  if (!want)
    return want.takeError();
  auto got = outputsOf(g, AsItIs(), device_);
  if (!got)
    return got.takeError();
  check(areClose(*got, *want, tolerance), what);
  return llvm::Error::success();
}

void Selftest::checkKernels(llvm::ArrayRef<std::string> ops) {
  std::vector<const OpDef *> rows;
  for (const OpDef *op : OpRegistry::get().computedRows())
    if (!op->is(kView) && (ops.empty() || llvm::is_contained(ops, op->name)))
      rows.push_back(op);
  ProgressBar bar("kernels", rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    bar.at(i);
    for (const std::string &example : rows[i]->examples)
      check(checkKernel(*rows[i], example), example);
  }
}

} // namespace isthmus
