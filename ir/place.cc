#include "ir/place.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

namespace isthmus {

bool deviceBefore(llvm::StringRef a, llvm::StringRef b) {
  auto split = [](llvm::StringRef name) {
    const llvm::StringRef letters = name.rtrim("0123456789");
    uint64_t number = 0;
    (void)name.drop_front(letters.size()).getAsInteger(10, number);
    return std::make_tuple(letters, number, name);
  };
  return split(a) < split(b);
}

Places::Places(const Graph &g) {
  llvm::StringMap<uint32_t> numbers;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    numbers.try_emplace(deviceOf(g.node(NodeId(i))), 0);
  if (numbers.empty())
    numbers.try_emplace(kFirstDevice, 0);
  for (const auto &entry : numbers)
    names_.push_back(entry.first().str());
  llvm::sort(names_, deviceBefore);
  for (uint32_t i = 0; i < names_.size(); ++i)
    numbers[names_[i]] = i;
  byNode_.reserve(g.numNodes());
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    byNode_.push_back(numbers.lookup(deviceOf(g.node(NodeId(i)))));
}

std::optional<uint32_t> Places::find(llvm::StringRef device) const {
  const auto it = llvm::find(names_, device);
  if (it == names_.end())
    return std::nullopt;
  return uint32_t(it - names_.begin());
}

bool hasMessages(const Graph &g) {
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (g.node(NodeId(i)).op->isMessage())
      return true;
  return false;
}

} // namespace isthmus
