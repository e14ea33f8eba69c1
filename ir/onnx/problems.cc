#include "ir/onnx/problems.h"

namespace isthmus::onnx_import {
namespace {
constexpr size_t kMostTold = 40;
} // namespace

void Problems::add(std::string where, std::string kind, std::string message) {
  auto [it, isNew] = index_.try_emplace({std::move(kind), message}, found_.size());
  if (!isNew) {
    ++found_[it->second].count;
    return;
  }
  Problem p;
  p.diag.where = std::move(where);
  p.diag.message = std::move(message);
  found_.push_back(std::move(p));
}

void Problems::add(llvm::Error e, llvm::StringRef where) {
  llvm::handleAllErrors(std::move(e), [&](const DiagError &d) {
    for (const Diag &each : d.diags)
      add(each.where.empty() ? where.str() : each.where, "", each.message);
  });
}

llvm::Error Problems::take() {
  if (found_.empty())
    return llvm::Error::success();
  std::vector<Diag> diags;
  for (size_t i = 0; i < found_.size() && i < kMostTold; ++i) {
    Diag d = std::move(found_[i].diag);
    if (size_t more = found_[i].count - 1)
      d.notes.push_back("the same holds for " + std::to_string(more) + (more == 1 ? " other node" : " other nodes"));
    diags.push_back(std::move(d));
  }
  if (found_.size() > kMostTold)
    diags.back().notes.push_back(std::to_string(found_.size() - kMostTold) + " more errors are not shown");
  found_.clear();
  return llvm::make_error<DiagError>(std::move(diags));
}

} // namespace isthmus::onnx_import
