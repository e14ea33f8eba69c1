// The devices of a step and the links between them, as far as plans depend on them.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <map>
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

struct Machine {
  struct Device {
    std::string name;                    // "cpu:0"
    std::optional<int64_t> memoryBytes;  // none: no limit
    double speed = 1;                    // relative to the target
  };
  std::vector<Device> devices; // stage s runs on device s % devices.size(); empty: as the target has them
  LinkTimes link;              // between devices that `links` does not name
  std::map<std::pair<std::string, std::string>, LinkTimes> links; // by both ends, in one direction

  const LinkTimes &linkOf(llvm::StringRef from, llvm::StringRef to) const {
    const auto it = links.find({from.str(), to.str()});
    return it == links.end() ? link : it->second;
  }
  // Null for a device that is not listed.
  const Device *find(llvm::StringRef name) const {
    for (const Device &d : devices)
      if (d.name == name)
        return &d;
    return nullptr;
  }
  double speedOf(llvm::StringRef name) const {
    const Device *d = find(name);
    return d ? d->speed : 1;
  }
};

} // namespace isthmus
