#include "ir/onnx/notes.h"

#include "llvm/ADT/StringExtras.h"

namespace isthmus::onnx_import {
namespace {
constexpr size_t kMostNamed = 5;
}

void Notes::add(const std::string &kind, const std::string &subject, const std::string &text,
                const Remedy &otherwise) {
  auto [it, isNew] = index_.try_emplace(kind, lines_.size());
  if (isNew) {
    lines_.push_back({text, otherwise, {}, 0});
    return;
  }
  if (subject.empty()) // the same text was already added
    return;
  Line &line = lines_[it->second];
  if (line.others.size() < kMostNamed)
    line.others.push_back("'" + subject + "'");
  ++line.more;
}

std::vector<Remark> Notes::lines() const {
  std::vector<Remark> out;
  for (const Line &line : lines_) {
    out.push_back(line.otherwise.option.empty() ? Remark(line.text)
                                                : Remark(line.text, line.otherwise));
    if (line.more)
      out.back().text += "; the same holds for " + std::to_string(line.more) +
                         (line.more == 1 ? " other: " : " others: ") +
                         llvm::join(line.others, ", ") +
                         (line.more > line.others.size() ? ", ..." : "");
  }
  return out;
}

} // namespace isthmus::onnx_import
