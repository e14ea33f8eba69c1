#include "ir/name_list.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace isthmus {
namespace {

// Linear except for the usual backtracking to the last star.
bool matchesWild(llvm::StringRef pattern, llvm::StringRef text) {
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

} // namespace

bool NamePattern::matches(llvm::StringRef name) const {
  return isWild() ? matchesWild(text, name) : name == text;
}

bool matchesAny(llvm::ArrayRef<NamePattern> patterns, llvm::StringRef name) {
  return llvm::any_of(patterns, [&](const NamePattern &p) { return p.matches(name); });
}

std::vector<NamePattern> parseNameList(llvm::StringRef list) {
  std::vector<NamePattern> out;
  while (!list.empty()) {
    list = list.ltrim();
    list.consume_front("%");
    NamePattern p;
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

} // namespace isthmus
