// Collects the errors in a model, so that all of them are reported at once.
#pragma once

#include "ir/diagnostics.h"
#include <map>
#include <string>
#include <vector>

namespace isthmus::onnx_import {

class Problems {
public:
  // Problems with the same `kind` and message are reported once, at the first place, with a count.
  void add(std::string where, std::string kind, std::string message);
  void add(llvm::Error e, llvm::StringRef where); // takes its diagnostics unchanged

  bool any() const { return !found_.empty(); }
  bool full() const { return found_.size() >= kMostShown; } // a new problem would only be counted
  llvm::Error take();

private:
  static constexpr size_t kMostShown = 40;
  struct Problem {
    Diag diag;
    size_t count = 1;
  };
  std::vector<Problem> found_;
  std::map<std::pair<std::string, std::string>, size_t> index_;
  size_t numNotShown_ = 0;
};

} // namespace isthmus::onnx_import
