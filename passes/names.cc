// Lists of names with wildcards, as `--checkpoints` takes them.

#include "passes/policy.h"

#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

// `*` is any text, `?` any one character. Linear but for the usual backtracking over the last star.
bool matches(llvm::StringRef pattern, llvm::StringRef text) {
  size_t p = 0, t = 0, star = llvm::StringRef::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*') {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != llvm::StringRef::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  return pattern.drop_front(p).find_first_not_of('*') == llvm::StringRef::npos;
}

struct Pattern {
  std::string text;
  bool isExact; // quoted: no wildcards
};

std::vector<Pattern> split(llvm::StringRef list) {
  std::vector<Pattern> out;
  while (!list.empty()) {
    list = list.ltrim();
    list.consume_front("%");
    Pattern p{"", false};
    if (list.consume_front("\"")) {
      p.isExact = true;
      p.text = list.take_until([](char c) { return c == '"'; }).str();
      list = list.drop_front(std::min(list.size(), p.text.size() + 1));
      list = list.drop_until([](char c) { return c == ','; });
    } else {
      p.text = list.take_until([](char c) { return c == ','; }).rtrim().str();
      list = list.drop_until([](char c) { return c == ','; });
    }
    list.consume_front(",");
    if (!p.text.empty())
      out.push_back(std::move(p));
  }
  return out;
}

} // namespace

llvm::Expected<std::vector<ValueId>> matchValues(const Graph &g, llvm::StringRef patterns) {
  std::vector<ValueId> out;
  std::vector<Diag> failed;
  std::vector<Pattern> list = split(patterns);
  if (list.empty())
    return makeError("a list of names is expected, such as 'relu1,block*', got '{0}'", patterns);
  for (const Pattern &p : list) {
    size_t before = out.size();
    bool isWild =
        !p.isExact && llvm::StringRef(p.text).find_first_of("*?") != llvm::StringRef::npos;
    if (!isWild) {
      if (ValueId v = g.find(p.text))
        out.push_back(v);
    } else {
      for (uint32_t i = 0; i < g.numValues(); ++i)
        if (matches(p.text, g.value(ValueId(i)).name))
          out.push_back(ValueId(i));
    }
    if (out.size() > before)
      continue;
    std::vector<llvm::StringRef> known;
    for (uint32_t i = 0; i < g.numValues(); ++i)
      known.push_back(g.value(ValueId(i)).name);
    // Of a pattern the letters are compared.
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
