#include "runtime/arena.h"

#include "ir/check.h"

namespace isthmus {

llvm::Error Arena::take(int64_t offset, int64_t bytes) {
  if (bytes == 0)
    return llvm::Error::success();
  if (offset < 0 || offset + bytes > bytes_)
    return internalError("bytes [{0}, {1}) lie outside the arena of {2}", offset, offset + bytes,
                         bytes_);
  auto next = inUse_.lower_bound(offset);
  bool hitsNext = next != inUse_.end() && next->first < offset + bytes;
  bool hitsPrevious = next != inUse_.begin() && std::prev(next)->second > offset;
  if (hitsNext || hitsPrevious)
    return internalError("bytes [{0}, {1}) of the arena are in use", offset, offset + bytes);
  inUse_.emplace_hint(next, offset, offset + bytes);
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  return llvm::Error::success();
}

void Arena::giveBack(int64_t offset, int64_t bytes) {
  if (bytes == 0)
    return;
  auto it = inUse_.find(offset);
  ISTHMUS_CHECK(it != inUse_.end() && it->second == offset + bytes,
                "bytes given back that were not taken");
  inUse_.erase(it);
  live_ -= bytes;
}

void Arena::reset() {
  inUse_.clear();
  live_ = 0;
}

} // namespace isthmus
