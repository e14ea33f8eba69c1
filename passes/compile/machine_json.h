// Machines as files (docs/stages.md).
#pragma once

#include "ir/diagnostics.h"
#include "passes/stages/machine.h"

namespace isthmus {

// {"schema": "isthmus.machine/1",
//  "devices": [{"name": "gpu:0", "memory": "24GB", "speed": 1.0}, ...],
//  "link": {"bandwidth": "25GB", "latency_us": 5},
//  "links": [{"from": "gpu:0", "to": "gpu:1", "bandwidth": "12GB", "latency_us": 10}, ...]}
// Sizes are texts as budgets have them, or bytes; "memory", "speed" and "links" may be left out. A
// link holds for both directions, unless one of them has a link of its own. Errors say what was
// expected.
llvm::Expected<Machine> parseMachine(llvm::StringRef json);
llvm::Expected<Machine> readMachine(const std::string &path);

} // namespace isthmus
