// Messages between threads of one process: the later of the two ends copies.
#pragma once

#include "runtime/transport.h"
#include <memory>
#include <string>
#include <vector>

namespace isthmus {

// One end for each device, in the order of the names, which are all different.
std::vector<std::unique_ptr<Transport>> makeThreadTransport(const std::vector<std::string> &devices);

} // namespace isthmus
