#include "tests/random/joint_graphs.h"

#include "passes/differentiate/differentiate.h"

namespace isthmus {

ValueList differentiableInputs(const Graph &g) {
  ValueList xs;
  for (const Input &i : g.inputs())
    if (g.type(i.value).dtype == g.type(g.loss).dtype &&
        (i.kind == InputKind::Param || i.kind == InputKind::Input))
      xs.push_back(i.value);
  return xs;
}

llvm::Expected<Graph> firstOrder(const Graph &forward) {
  Graph g = forward;
  ValueList xs = differentiableInputs(g);
  auto grads = gradients(g, {g.loss}, xs);
  if (!grads)
    return grads.takeError();
  addGradientOutputs(g, xs, *grads);
  return g;
}

ValueList gradientOutputs(const Graph &first) {
  llvm::ArrayRef<ValueId> grads = first.outputs().take_back(differentiableInputs(first).size());
  return ValueList(grads.begin(), grads.end());
}

llvm::Expected<Graph> secondOrder(const Graph &first) {
  Graph g = first;
  if (!g.loss)
    return makeError("the graph names no loss");
  ValueList xs = differentiableInputs(g), ys = gradientOutputs(g), alongs;
  for (ValueId x : xs) {
    auto along = g.addInput(InputKind::Input, "along." + g.valueName(x).str(), g.type(x));
    if (!along)
      return along.takeError();
    alongs.push_back(*along);
  }
  auto grads = gradients(g, ys, xs, alongs);
  if (!grads)
    return grads.takeError();
  addGradientOutputs(g, xs, *grads);
  return g;
}

} // namespace isthmus
