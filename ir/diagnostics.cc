#include "ir/diagnostics.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>

namespace isthmus {

char DiagError::ID = 0;

void DiagError::log(llvm::raw_ostream &os) const {
  bool first = true;
  for (const Diag &d : diags) {
    if (!first)
      os << '\n';
    first = false;
    if (!d.where.empty())
      os << d.where << ": ";
    os << "error: " << d.message << remediesText(d.remedies);
    if (!d.excerpt.empty())
      os << '\n' << llvm::StringRef(d.excerpt).rtrim('\n');
    for (const Note &n : d.notes)
      os << '\n' << n.where << (n.where.empty() ? "" : ": ") << "note: " << n.message;
  }
}

namespace {
template <typename Change> llvm::Error changed(llvm::Error e, Change change) {
  return llvm::handleErrors(std::move(e), [&](std::unique_ptr<DiagError> d) -> llvm::Error {
    change(*d);
    return llvm::Error(std::move(d));
  });
}
} // namespace

llvm::Error locate(llvm::Error e, llvm::StringRef where) {
  return changed(std::move(e), [&](DiagError &d) {
    for (Diag &each : d.diags)
      if (each.where.empty())
        each.where = where.str();
  });
}

std::string plainMessage(llvm::Error e) {
  std::string all;
  auto add = [&](const std::string &m) { all += (all.empty() ? "" : "; ") + m; };
  llvm::handleAllErrors(
      std::move(e),
      [&](const DiagError &d) {
        for (const Diag &each : d.diags)
          add(each.message + remediesText(each.remedies));
      },
      [&](const llvm::ErrorInfoBase &other) { add(other.message()); });
  return all;
}

llvm::Error addNote(llvm::Error e, llvm::StringRef note) {
  return changed(std::move(e),
                 [&](DiagError &d) { d.diags.back().notes.emplace_back(note.str()); });
}

llvm::Error addRemedy(llvm::Error e, Remedy remedy) {
  return changed(std::move(e),
                 [&](DiagError &d) { d.diags.back().remedies.push_back(std::move(remedy)); });
}

std::string remediesText(llvm::ArrayRef<Remedy> remedies) {
  std::string text;
  for (const Remedy &r : remedies)
    text += (text.empty() ? "; " : ", or ") + (r.purpose.empty() ? "give it" : r.purpose) +
            " (option " + r.option + (r.value.empty() ? "" : " = " + r.value) + ")";
  return text;
}

std::string didYouMean(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> known,
                       llvm::StringRef sigil) {
  // The edit distance takes time proportional to the product of the lengths. Longer names are
  // unlikely to be typing errors.
  constexpr size_t kLongest = 100;
  if (name.size() > kLongest)
    return "";
  llvm::SmallVector<std::pair<unsigned, llvm::StringRef>, 8> near;
  unsigned limit = std::max<unsigned>(2, name.size() / 3);
  for (llvm::StringRef k : known) {
    if (k.size() > kLongest)
      continue;
    unsigned distance = name.edit_distance(k, /*AllowReplacements=*/true, limit);
    bool contains = name.size() >= 3 && k.contains(name);
    if (distance <= limit || contains)
      near.emplace_back(distance <= limit ? distance : limit + 1, k);
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto &a, const auto &b) { return a.first < b.first; });
  if (near.empty())
    return "";
  std::string s = "; did you mean ";
  size_t n = std::min<size_t>(3, near.size());
  for (size_t i = 0; i < n; ++i)
    s += (i == 0 ? "'" : i + 1 == n ? " or '" : ", '") + sigil.str() + near[i].second.str() + "'";
  return s + "?";
}

} // namespace isthmus
