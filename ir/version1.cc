#include "ir/version1.h"

namespace isthmus {
namespace {

// The graph input `name`, or none.
ValueId inputNamed(const Graph &g, llvm::StringRef name) {
  ValueId v = g.find(name);
  return v && g.inputOf(v) ? v : ValueId();
}

OutputRole roleByName(const Graph &g, ValueId output) {
  llvm::StringRef name = g.valueName(output);
  NodeId def = g.value(output).def;
  if (!def)
    return {};
  if (name.consume_front("state."))
    if (ValueId of = inputNamed(g, name);
        of && g.node(def).phase == Phase::Update && g.type(of) == g.type(output))
      return {OutputKind::NextState, of};
  if (!name.consume_front("grad"))
    return {};
  unsigned order = 1;
  if (!name.startswith(".") && name.consumeInteger(10, order))
    return {};
  if (!name.consume_front("."))
    return {};
  ValueId of = g.find(name); // gradients exist for any value, not for inputs alone
  return of && g.type(of) == g.type(output) ? OutputRole{OutputKind::Gradient, of, order}
                                            : OutputRole{};
}

} // namespace

void rolesByName(Graph &g) {
  for (size_t i = 0; i < g.outputs().size(); ++i)
    g.setRole(i, roleByName(g, g.outputs()[i]));
}

void recordFromMeta(Graph &g) {
  auto take = [&](const char *key) {
    auto it = g.meta.find(key);
    if (it == g.meta.end())
      return std::string();
    std::string value = it->second;
    g.meta.erase(it);
    return value;
  };
  g.record.target = take("target");
  g.record.policy = parsePlannedBy(take("policy")).value_or(PlannedBy::Nothing);
  g.record.channelsLast = take("layout") == "channels-last";
  g.record.fusedBias = take("bias") == "fused";
  std::string mode = take("mode");
  g.record.mode = mode == "eval"         ? ModeSource::Eval
                  : mode == "as-written" ? ModeSource::AsWritten
                                         : ModeSource::Rule;
}

} // namespace isthmus
