// The devices of a step and the links between them, as far as plans depend on them.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace isthmus {

// The time that a message takes on a link.
struct LinkTimes {
  double latencySeconds = 5e-6;
  double bytesPerSecond = 5e9;
  double secondsOf(int64_t bytes) const { return latencySeconds + double(bytes) / bytesPerSecond; }
};

class Machine {
public:
  struct Device {
    std::string name;                   // "cpu:0"
    std::optional<int64_t> memoryBytes; // none: no limit
    double speed = 1;                   // relative to the target
  };
  LinkTimes link; // between devices without a link of their own

  // Stage s runs on device s % devices().size(); empty: as the target has them.
  const std::vector<Device> &devices() const { return devices_; }
  // False, and nothing is added, if a device has the name.
  bool add(Device d) {
    const bool isNew = numbers_.try_emplace(d.name, uint32_t(devices_.size())).second;
    if (isNew)
      devices_.push_back(std::move(d));
    return isNew;
  }
  // Null for a device that is not listed.
  const Device *find(llvm::StringRef name) const {
    const auto it = numbers_.find(name);
    return it == numbers_.end() ? nullptr : &devices_[it->second];
  }
  double speedOf(llvm::StringRef name) const {
    const Device *d = find(name);
    return d ? d->speed : 1;
  }

  // The link in one direction between two devices of the list. False if that is known.
  bool addLink(const Device &from, const Device &to, const LinkTimes &times) {
    return links_.try_emplace({numberOf(from), numberOf(to)}, times).second;
  }
  const LinkTimes &linkOf(llvm::StringRef from, llvm::StringRef to) const {
    const Device *a = find(from), *b = find(to);
    const auto it = a && b ? links_.find({numberOf(*a), numberOf(*b)}) : links_.end();
    return it == links_.end() ? link : it->second;
  }

private:
  uint32_t numberOf(const Device &d) const { return uint32_t(&d - devices_.data()); }

  std::vector<Device> devices_;
  llvm::StringMap<uint32_t> numbers_;                              // by name: the index in devices_
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, LinkTimes> links_; // by both ends, in one direction
};

} // namespace isthmus
