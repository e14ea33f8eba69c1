#include "tools/session/agreement.h"

#include "ir/text/printer.h"
#include "llvm/Support/xxhash.h"
#include <cstring>

namespace isthmus {
namespace {

// What one process has. Sent as it is.
struct Record {
  uint64_t digest = 0;
  char target[120] = {}, host[120] = {};
};

void put(llvm::StringRef text, llvm::MutableArrayRef<char> to) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), to.size() - 1));
}

llvm::Expected<std::vector<Record>> recordsOfAll(llvm::StringRef text, llvm::StringRef target,
                                                 ProcessGroup &group) {
  Record own;
  own.digest = llvm::xxHash64(text);
  put(target, own.target);
  put(group.host(), own.host);
  std::vector<Record> all(group.size());
  if (llvm::Error e = group.allGather(&own, sizeof own, all.data()))
    return e;
  return all;
}

} // namespace

llvm::Error checkAllCompiled(const Graph &g, llvm::StringRef target, ProcessGroup &group) {
  auto all = recordsOfAll(graphText(g), target, group);
  if (!all)
    return all.takeError();
  const Record &first = all->front();
  for (size_t i = 1; i < all->size(); ++i) {
    const Record &other = (*all)[i];
    if (llvm::StringRef(other.target) != first.target)
      return makeError("rank {0} on {1} has compiled the step for '{2}', and rank 0 on {3} for "
                       "'{4}'; all processes need processors of one type and the same --threads",
                       i, other.host, other.target, first.host, first.target);
    if (other.digest != first.digest)
      return makeError("rank {0} on {1} has compiled another step than rank 0 on {2}; give all "
                       "processes the same command, files and version of isthmus",
                       i, other.host, first.host);
  }
  return llvm::Error::success();
}

llvm::Error checkAllHave(llvm::StringRef text, llvm::StringRef what, ProcessGroup &group) {
  auto all = recordsOfAll(text, /*target=*/"", group);
  if (!all)
    return all.takeError();
  for (size_t i = 1; i < all->size(); ++i)
    if ((*all)[i].digest != all->front().digest)
      return makeError("rank {0} on {1} has other {2} than rank 0 on {3}; give all processes the "
                       "same command and files",
                       i, (*all)[i].host, what, all->front().host);
  return llvm::Error::success();
}

} // namespace isthmus
