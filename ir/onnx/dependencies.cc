#include "ir/onnx/dependencies.h"

#include "ir/onnx/symbols.h"
#include "llvm/ADT/DenseSet.h"

namespace isthmus::onnx_import {
namespace {

struct Dependencies {
  llvm::SmallVector<ValueId, 4> inputs; // fed at every step
  ValueId learned;                      // the first parameter or state
  bool isDrawn = false;                 // depends on random numbers
};

// Nothing if the search takes too long: a graph can have any number of such values.
std::optional<Dependencies> dependenciesOf(const Graph &g, ValueId v, Folding &limit) {
  constexpr int64_t kWorkPerValue = 64;
  Dependencies found;
  llvm::DenseSet<unsigned> seen;
  std::vector<ValueId> todo = {v};
  while (!todo.empty()) {
    ValueId at = todo.back();
    todo.pop_back();
    if (!seen.insert(at.index).second)
      continue;
    if (!limit.look(kWorkPerValue))
      return std::nullopt;
    if (const Input *in = g.inputOf(at)) {
      if (in->kind == InputKind::Input)
        found.inputs.push_back(at);
      else if (in->kind != InputKind::Const && !found.learned)
        found.learned = at;
      continue;
    }
    const Node &n = g.node(g.value(at).def);
    found.isDrawn |= n.op->effect == Effect::Draws;
    todo.insert(todo.end(), n.operands.begin(), n.operands.end());
  }
  llvm::sort(found.inputs, [](ValueId a, ValueId b) { return a.index < b.index; });
  return found;
}

// The alternative for models that decide sizes by data, such as a mixture of experts or a selection
// of boxes.
constexpr const char *kInstead = "; sizes and branches that a step decides are not supported: the "
                                 "model would compute all that may be needed, and choose by a mask";

} // namespace

std::string whyUnknown(ImportState &s, ValueId v) {
  const Graph &g = s.graph;
  auto d = dependenciesOf(g, v, s.folding);
  if (!d)
    return "it depends on the model's inputs or parameters";
  if (d->learned)
    return "it depends on the " +
           std::string(g.inputOf(d->learned)->kind == InputKind::Param ? "parameter" : "state") +
           " '" + g.valueName(d->learned).str() + "', which training changes" + kInstead;
  if (d->isDrawn)
    return std::string("it depends on random numbers") + kInstead;
  if (d->inputs.empty())
    return "it was too large to be computed, or there is no kernel for it";
  std::string names;
  for (ValueId in : d->inputs) {
    names += (names.empty() ? "'" : ", '") + g.valueName(in).str() + "'";
    const Tensor *given = givenValue(s.options, g.valueName(in));
    if (given && *given)
      s.toBind.insert(g.valueName(in).str());
  }
  bool one = d->inputs.size() == 1;
  return "it depends on the input" + (one ? " " + names : "s " + names) + "; give " +
         (one ? "its value" : "their values") + " with --inputs";
}

} // namespace isthmus::onnx_import
