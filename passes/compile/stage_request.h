// Options of a step over several devices, as a user spells them.
#pragma once

#include "passes/compile/compile.h"

namespace isthmus {

// `option` is the option's name in messages, such as "--schedule". Errors say what was expected.

// "gpipe" or another name of an order; none for "auto".
llvm::Expected<std::optional<StageOrder>> parseStageOrder(llvm::StringRef text,
                                                          llvm::StringRef option);
// "always", "except_last" or "never"; none for "auto".
llvm::Expected<std::optional<CheckpointMode>> parseCheckpointMode(llvm::StringRef text,
                                                                  llvm::StringRef option);
// Sets the devices of the machine: "cpu:0,cpu:1".
llvm::Error parseDevices(llvm::StringRef text, llvm::StringRef option, StageOptions &o);
// Sets the shares, "2,1,1", or the names of values behind which stages end, "%h1,%h2".
llvm::Error parseBalance(llvm::StringRef text, llvm::StringRef option, StageOptions &o);

// Checks that involve several of them. Names of options begin with `dashes`.
llvm::Error checkStages(const StageOptions &o, llvm::StringRef dashes);

} // namespace isthmus
