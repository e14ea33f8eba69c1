#include "ir/onnx/dependencies.h"

#include "ir/onnx/symbols.h"
#include "llvm/ADT/DenseSet.h"

namespace isthmus::onnx_import {
namespace {

struct Dependencies {
  std::vector<NodeId> nodes;            // that compute it, in the graph's order
  llvm::SmallVector<ValueId, 4> inputs; // fed at every step
  ValueId learned;                      // the first parameter or state
  bool isDrawn = false;                 // depends on random numbers
};

// What is decided already is not looked into, but for the inputs. Nothing if the search takes too
// long: a graph can have any number of such values.
std::optional<Dependencies> dependenciesOf(const Graph &g, ValueId v, ImportState &s) {
  constexpr int64_t kWorkPerValue = 64;
  Dependencies found;
  llvm::DenseSet<unsigned> seen;
  std::vector<ValueId> todo = {v};
  while (!todo.empty()) {
    ValueId at = todo.back();
    todo.pop_back();
    if (!seen.insert(at.index).second)
      continue;
    if (!s.folding.look(kWorkPerValue))
      return std::nullopt;
    if (const Input *in = g.inputOf(at)) {
      if (in->kind == InputKind::Input)
        found.inputs.push_back(at);
      else if (in->kind != InputKind::Const && !found.learned)
        found.learned = at;
      continue;
    }
    const NodeId def = g.value(at).def;
    if (s.decided.count(at))
      continue;
    found.nodes.push_back(def);
    const Node &n = g.node(def);
    found.isDrawn |= n.op->effect == Effect::Draws;
    todo.insert(todo.end(), n.operands.begin(), n.operands.end());
  }
  llvm::sort(found.inputs, [](ValueId a, ValueId b) { return a.index < b.index; });
  llvm::sort(found.nodes, [](NodeId a, NodeId b) { return a.index < b.index; });
  return found;
}

// The alternative for models that decide sizes by data, such as a mixture of experts or a selection
// of boxes.
constexpr const char *kInstead = "; sizes and branches that a step decides are not supported: the "
                                 "model would compute all that may be needed, and choose by a mask";

// The tensor in the declared type: runs take f32 for every float type, and files of another
// precision if they run in that. None if the types do not agree.
Tensor asDeclared(const Tensor &given, const Type &type) {
  if (given.type == type)
    return given;
  if (given.type.dims != type.dims || !isFloat(given.type.dtype) || !isFloat(type.dtype))
    return {};
  return Tensor::make(type, [&](char *to) {
    for (int64_t i = 0; i < type.elements(); ++i)
      setElement(type.dtype, to, i, elementAsDouble(given, i));
  });
}

// The names of these inputs; those whose values are given become decided values.
struct GivenInputs {
  std::string names;
  bool areAll = true;
  std::string wrong; // of one that is given in another type
};

GivenInputs takeGiven(ImportState &s, llvm::ArrayRef<ValueId> inputs) {
  GivenInputs found;
  for (ValueId in : inputs) {
    const std::string name = s.graph.valueName(in).str();
    found.names += (found.names.empty() ? "'" : ", '") + name + "'";
    if (s.decided.count(in))
      continue;
    const Tensor *given = givenValue(s.options, name);
    if (!given || !*given) {
      found.areAll = false;
      continue;
    }
    const Type &type = s.graph.type(in);
    Tensor value = asDeclared(*given, type);
    if (!value) {
      found.wrong = "the value given for the input '" + name + "' is of type " + given->type.str() +
                    ", and it is declared " + type.str();
      continue;
    }
    s.decided[in] = std::make_unique<Tensor>(std::move(value));
    s.notes.add("deciding input", name,
                "the value that is given for the input '" + name +
                    "' decides what must be known before the run, such as a branch or a size: the "
                    "graph is that of this value, whatever is fed later");
  }
  return found;
}

// Computes `v`, and what it is computed from, into `s.decided`. Nothing if a node was too large or
// has no kernel.
const Tensor *computed(ImportState &s, ValueId v, llvm::ArrayRef<NodeId> nodes) {
  const Graph &g = s.graph;
  auto tensorOf = [&](ValueId of) {
    const Input *in = g.inputOf(of);
    return in && in->kind == InputKind::Const ? in->init.data : *s.decided.find(of)->second;
  };
  for (NodeId id : nodes) {
    const Node &n = g.node(id);
    if (s.decided.count(n.firstResult))
      continue;
    TensorList operands;
    for (ValueId of : n.operands)
      operands.push_back(tensorOf(of));
    auto results = s.folding.run(*n.op, n.attrs, operands);
    if (!results)
      return nullptr;
    for (uint32_t r = 0; r < results->size(); ++r)
      s.decided[n.result(r)] = std::make_unique<Tensor>(std::move((*results)[r]));
  }
  return s.decided.find(v)->second.get();
}

} // namespace

const Tensor *decidedValue(ImportState &s, ValueId v, std::string &why) {
  if (const auto it = s.decided.find(v); it != s.decided.end())
    return it->second.get();
  const Graph &g = s.graph;
  auto d = dependenciesOf(g, v, s);
  if (!d) {
    why = "it depends on the model's inputs or parameters";
  } else if (d->learned) {
    why = "it depends on the " +
          std::string(g.inputOf(d->learned)->kind == InputKind::Param ? "parameter" : "state") +
          " '" + g.valueName(d->learned).str() + "', which training changes" + kInstead;
  } else if (d->isDrawn) {
    why = std::string("it depends on random numbers") + kInstead;
  } else {
    const GivenInputs given = takeGiven(s, d->inputs);
    const bool isOne = d->inputs.size() == 1;
    if (!given.wrong.empty())
      why = given.wrong;
    else if (!given.areAll)
      why = std::string("it depends on the input") + (isOne ? " " : "s ") + given.names +
            "; give " + (isOne ? "its value" : "their values") + " with --inputs";
    else if (const Tensor *value = computed(s, v, d->nodes))
      return value;
    else
      why = "it was too large to be computed, or there is no kernel for it";
  }
  return nullptr;
}

} // namespace isthmus::onnx_import
