// Values by lists of names with wildcards, as `--checkpoints` takes them.

#include "passes/names.h"
#include "ir/name_list.h"

#include "llvm/ADT/STLExtras.h"

namespace isthmus {

// The values of forward nodes whose names match behind the path of a module, however long it is.
static std::vector<ValueId> valuesBehindPaths(const Graph &g,
                                              llvm::function_ref<bool(llvm::StringRef)> matches) {
  auto isFound = [&](llvm::StringRef name) {
    while (name.contains('.')) {
      name = name.split('.').second;
      if (matches(name))
        return true;
    }
    return false;
  };
  std::vector<ValueId> found;
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    for (uint32_t r = 0; r < n.numResults && n.phase == Phase::Forward && !n.isStandIn(); ++r)
      if (isFound(g.valueName(n.result(r))))
        found.push_back(n.result(r));
  }
  return found;
}

ValueId valueNamed(const Graph &g, llvm::StringRef name) {
  const ValueId v = g.find(name);
  if (v || name.empty())
    return v;
  const std::vector<ValueId> found =
      valuesBehindPaths(g, [&](llvm::StringRef other) { return other == name; });
  return found.size() == 1 ? found[0] : ValueId();
}

llvm::Expected<std::vector<ValueId>> matchValues(const Graph &g, llvm::StringRef patterns) {
  std::vector<ValueId> out;
  std::vector<Diag> failed;
  std::vector<NamePattern> list = parseNameList(patterns);
  if (list.empty())
    return makeError("a list of names is expected, such as 'relu1,block*', got '{0}'", patterns);
  for (const NamePattern &p : list) {
    size_t before = out.size();
    bool isWild = p.isWild();
    if (!isWild) {
      if (ValueId v = valueNamed(g, p.text))
        out.push_back(v);
    } else {
      for (uint32_t i = 0; i < g.numValues(); ++i)
        if (p.matches(g.value(ValueId(i)).name))
          out.push_back(ValueId(i));
      if (out.size() == before)
        for (ValueId v : valuesBehindPaths(g, [&](llvm::StringRef s) { return p.matches(s); }))
          out.push_back(v);
    }
    if (out.size() > before)
      continue;
    std::vector<llvm::StringRef> known;
    for (uint32_t i = 0; i < g.numValues(); ++i)
      known.push_back(g.value(ValueId(i)).name);
    // To suggest names near a pattern, compare its text without wildcards.
    std::string letters = p.text;
    if (isWild)
      llvm::erase_if(letters, [](char c) { return c == '*' || c == '?'; });
    Diag d;
    d.message = (isWild ? "no value or node matches '" : "no value or node is called '") + p.text +
                "'" + didYouMean(letters, known);
    failed.push_back(std::move(d));
  }
  if (!failed.empty())
    return llvm::make_error<DiagError>(std::move(failed));
  llvm::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

} // namespace isthmus
