#include "runtime/process_group.h"

namespace isthmus {

llvm::Error broadcastText(std::string &text, ProcessGroup &group, uint32_t root) {
  int64_t bytes = int64_t(text.size());
  if (llvm::Error e = group.broadcast(&bytes, sizeof bytes, root))
    return e;
  text.resize(size_t(bytes));
  return group.broadcast(text.data(), bytes, root);
}

} // namespace isthmus
