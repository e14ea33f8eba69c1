#include "passes/loss.h"

#include "ir/builder.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

llvm::Expected<ValueId> crossEntropy(Graph &g, ValueId y, int64_t axis) {
  const Type &t = g.type(y);
  if (axis < -t.rank() || axis >= t.rank())
    return makeError("--loss=cross_entropy expects the classes on axis {0} of the first output, "
                     "'%{1}' of type {2}; "
                     "give another with --class-axis",
                     axis, g.valueName(y), t.str());
  Dims dims = t.dims;
  dims.erase(dims.begin() + (axis < 0 ? axis + t.rank() : axis));
  auto labels = g.addInput(InputKind::Input, "labels", Type(DType::I64, dims));
  if (!labels)
    return labels.takeError();
  return Builder(g).create("cross_entropy", {y, *labels}, {{"axis", axis}}, "loss");
}

llvm::Expected<ValueId> meanSquaredError(Graph &g, ValueId y) {
  auto target = g.addInput(InputKind::Input, "target", g.type(y));
  if (!target)
    return target.takeError();
  Builder b(g);
  ValueId square =
      b.create("square", {b.create("sub", {y, *target}, {}, "loss.error")}, {}, "loss.square");
  return b.create("mean", {square}, {}, "loss");
}

llvm::Expected<ValueId> namedValue(const Graph &g, llvm::StringRef name) {
  llvm::StringRef bare = name.drop_front().trim('"');
  if (ValueId v = g.find(bare))
    return v;
  std::vector<llvm::StringRef> known;
  for (uint32_t i = 0; i < g.numValues(); ++i)
    known.push_back(g.value(ValueId(i)).name);
  return makeError("no value is called '%{0}'{1}", bare, didYouMean(bare, known));
}

llvm::Expected<ValueId> makeLoss(Graph &g, const LossOptions &o) {
  if (llvm::StringRef(o.loss).startswith("%"))
    return namedValue(g, o.loss);
  static constexpr llvm::StringRef known[] = {"cross_entropy", "mse", "mean"};
  if (!llvm::is_contained(known, o.loss))
    return makeErrorCode(2, "--loss expects cross_entropy, mse, mean or %value, got '{0}'{1}",
                         o.loss, didYouMean(o.loss, known));
  if (g.outputs().empty())
    return makeError("--loss={0} takes the first output, and the graph has none; name a value with "
                     "--loss=%value",
                     o.loss);
  ValueId y = g.outputs()[0];
  if (!isFloat(g.type(y).dtype))
    return makeError("--loss={0} takes the first output, '%{1}', which is of type {2}; a "
                     "floating-point value is "
                     "expected",
                     o.loss, g.valueName(y), g.type(y).str());
  if (o.loss == "cross_entropy")
    return crossEntropy(g, y, o.classAxis);
  if (o.loss == "mse")
    return meanSquaredError(g, y);
  return Builder(g).create("mean", {y}, {}, "loss");
}

} // namespace

llvm::Expected<ValueId> attachLoss(Graph &g, const LossOptions &options) {
  auto loss = makeLoss(g, options);
  if (!loss)
    return loss.takeError();
  g.loss = *loss;
  if (!llvm::is_contained(g.outputs(), *loss))
    g.addOutput(*loss);
  return *loss;
}

} // namespace isthmus
