// How a function of the library runs: no failure inside it reaches the host program.
#pragma once

#include "tools/c/isthmus.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <string>

namespace isthmus::c {

isthmus_status fail(isthmus_status status, std::string message, isthmus_error **error);
isthmus_status fail(llvm::Error e, isthmus_error **error); // the error's kind decides the status

// Runs a function's body and returns its status. An exception gives ISTHMUS_INTERNAL, and so does a
// bug of ours: a failed check or assertion, a fatal error of LLVM, an exception that leaves a
// noexcept function. An allocation that fails gives ISTHMUS_OUT_OF_MEMORY. Numbers in texts have a
// point, whatever LC_NUMERIC the host has set: a text may be given back to the library.
isthmus_status guarded(isthmus_error **error, llvm::function_ref<isthmus_status()> body);
// Calls a function of the host from within a body, in the host's own locale.
void callHost(llvm::function_ref<void()> function);

// The most items that an array may have: they are numbered in 32 bits.
constexpr size_t kMostItems = UINT32_MAX - 1;
// ISTHMUS_BAD_CALL if `count` items are more than `most`; `name` is that of the parameter.
isthmus_status checkCount(const char *name, size_t count, size_t most, isthmus_error **error);

} // namespace isthmus::c
