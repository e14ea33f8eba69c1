#include "ir/onnx/problems.h"

namespace isthmus::onnx_import {
void Problems::add(std::string where, std::string kind, std::string message) {
  std::pair<std::string, std::string> key(std::move(kind), message);
  if (auto it = index_.find(key); it != index_.end()) {
    ++found_[it->second].count;
    return;
  }
  if (full()) {
    ++numNotShown_;
    return;
  }
  index_[std::move(key)] = found_.size();
  Problem p;
  p.diag.where = std::move(where);
  p.diag.message = std::move(message);
  found_.push_back(std::move(p));
}

void Problems::add(llvm::Error e, llvm::StringRef where) {
  llvm::handleAllErrors(std::move(e), [&](const DiagError &d) {
    for (const Diag &each : d.diags) {
      const size_t before = found_.size();
      add(each.where.empty() ? where.str() : each.where, "", each.message);
      if (found_.size() > before)
        found_.back().diag.remedies = each.remedies;
    }
  });
}

llvm::Error Problems::take() {
  if (found_.empty())
    return llvm::Error::success();
  std::vector<Diag> diags;
  for (Problem &p : found_) {
    Diag d = std::move(p.diag);
    if (size_t more = p.count - 1)
      d.notes.push_back("the same holds for " + std::to_string(more) +
                        (more == 1 ? " other node" : " other nodes"));
    diags.push_back(std::move(d));
  }
  if (numNotShown_)
    diags.back().notes.push_back(std::to_string(numNotShown_) + " more errors are not shown");
  found_.clear();
  return llvm::make_error<DiagError>(std::move(diags));
}

} // namespace isthmus::onnx_import
