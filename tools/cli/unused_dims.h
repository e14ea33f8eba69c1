// The sizes of --dim that no model of a command leaves open. Of two models each takes those that it
// leaves open; a name that both lack is a mistake.
#pragma once

#include "tools/cli/exit.h"
#include <optional>
#include <set>
#include <string>

namespace isthmus {

class UnusedDims {
public:
  // Called once for each model, with the names that it lacks.
  void lackedBy(const std::set<std::string> &names) {
    std::set<std::string> both;
    for (const std::string &name : names)
      if (!unused_ || unused_->count(name))
        both.insert(name);
    unused_ = std::move(both);
  }

  // A usage error if a name is left.
  llvm::Error check() const {
    if (!unused_ || unused_->empty())
      return llvm::Error::success();
    return usageError("no open size of either model is called '{0}' (--dim)", *unused_->begin());
  }

private:
  std::optional<std::set<std::string>> unused_; // none: no model was loaded yet
};

} // namespace isthmus
