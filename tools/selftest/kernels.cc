// Kernels, one call at a time.

#include "ir/builder.h"
#include "ir/op_registry.h"
#include "ir/text/parser.h"
#include "passes/lower/convert.h"
#include "tools/selftest/selftest.h"

namespace isthmus {
namespace {

// Drawn values are small: what f32 rounds, and what reductions add in another order.
constexpr double kDouble = 1e-11, kSingle = 1e-4;

// A graph of one node over drawn inputs, in f64.
llvm::Expected<Graph> exampleGraph(const OpDef &op, const std::string &example) {
  auto call = parseCall(example);
  if (!call)
    return call.takeError();
  Graph g("example");
  ValueList operands;
  for (const Type &t : call->operands) {
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
  auto n = g.addNode(op, operands, call->attrs);
  if (!n)
    return n.takeError();
  for (uint32_t r = 0; r < g.node(*n).numResults; ++r)
    g.addOutput(g.node(*n).result(r));
  return g;
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
  auto single = withPrecision(*exact, DType::F32);
  if (!single)
    return single.takeError();
  auto want = outputsOf(*exact, AsItIs(), reference_);
  if (!want)
    return want.takeError();
  auto inDouble = outputsOf(*exact, AsItIs(), device_);
  if (!inDouble)
    return inDouble.takeError();
  check(areClose(*inDouble, *want, kDouble), "kernel of " + example);
  auto inSingle = outputsOf(*single, AsItIs(), device_);
  if (!inSingle)
    return inSingle.takeError();
  check(areClose(*inSingle, *want, kSingle), "kernel of " + example + " in f32");
  return llvm::Error::success();
}

void Selftest::checkKernels() {
  std::vector<const OpDef *> rows;
  for (const OpDef *op : OpRegistry::get().rows())
    if (!op->is(kView))
      rows.push_back(op);
  ProgressBar bar("kernels", rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    bar.at(i);
    for (const std::string &example : rows[i]->examples)
      check(checkKernel(*rows[i], example), example);
  }
}

} // namespace isthmus
