// How a function of the library runs: nothing that goes wrong in it reaches the program.
#pragma once

#include "tools/c/isthmus.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <string>

namespace isthmus::c {

isthmus_status fail(isthmus_status status, std::string message, isthmus_error **error);
isthmus_status fail(llvm::Error e, isthmus_error **error); // its kind says the status

// Runs a function's body and gives its status. An exception is a failure with status
// ISTHMUS_INTERNAL, and so is a bug of ours: a check or an assertion that does not hold, LLVM's
// fatal errors, an exception where none may leave.
isthmus_status guarded(isthmus_error **error, llvm::function_ref<isthmus_status()> body);

} // namespace isthmus::c
