#include "runtime/arena.h"

#include "ir/check.h"

namespace isthmus {

static std::string textOf(const Arena::Owner &o) {
  return llvm::formatv("{0}'%{1}'", o.what, o.name).str();
}

std::map<int64_t, Arena::Use>::const_iterator Arena::overlapping(int64_t offset,
                                                                 int64_t bytes) const {
  auto next = inUse_.lower_bound(offset);
  if (next != inUse_.begin() && std::prev(next)->second.end > offset)
    return std::prev(next);
  return next != inUse_.end() && next->first < offset + bytes ? next : inUse_.end();
}

llvm::Error Arena::take(int64_t offset, int64_t bytes, Owner owner) {
  if (bytes == 0)
    return llvm::Error::success();
  if (offset < 0 || offset + bytes > bytes_)
    return internalError("the layout has {0} at bytes [{1}, {2}) of {3}, which has {4}",
                         textOf(owner), offset, offset + bytes, name_, bytes_);
  if (offset % alignment_ != 0)
    return internalError("the layout has {0} at byte {1} of {2}, which is no multiple of {3}",
                         textOf(owner), offset, name_, alignment_);
  if (auto other = overlapping(offset, bytes); other != inUse_.end())
    return internalError("the layout has {0} at bytes [{1}, {2}) of {3}, and {4}, which is in use "
                         "and must not be overwritten, at [{5}, {6})",
                         textOf(owner), offset, offset + bytes, name_, textOf(other->second.owner),
                         other->first, other->second.end);
  inUse_[offset] = {offset + bytes, owner};
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  return llvm::Error::success();
}

void Arena::giveBack(int64_t offset, int64_t bytes) {
  if (bytes == 0)
    return;
  auto it = inUse_.find(offset);
  ISTHMUS_CHECK(it != inUse_.end() && it->second.end == offset + bytes,
                "bytes given back that were not taken");
  inUse_.erase(it);
  live_ -= bytes;
}

void Arena::reset() {
  inUse_.clear();
  live_ = 0;
}

} // namespace isthmus
