// Devices by the name that --device takes.
#pragma once

#include "runtime/device.h"

namespace isthmus {

// "cpu", "cpu:0", "counting", "cuda" or "cuda:N". Errors: cuda where it is not available, with the
// reason (exit 5); an unknown name (exit 2).
llvm::Expected<std::unique_ptr<Device>> openDevice(llvm::StringRef name, int threads);

} // namespace isthmus
