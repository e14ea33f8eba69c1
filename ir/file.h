// Files, read whole and written whole or not at all.
#pragma once

#include "ir/diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>

namespace isthmus {

// The bytes of a file, mapped where it is large; of standard input if `path` is "-". An error names
// the path and says why.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readFile(llvm::StringRef path);

// Lets `write` fill a temporary file in the folder of `path`, which then takes the place of `path`
// at once. Where anything fails, an error of `write` included, the temporary file is removed and
// `path` is as it was. What is no regular file (a pipe, /dev/null) is written as it is, and so is
// standard output, if `path` is "-".
llvm::Error writeFileAtomically(llvm::StringRef path,
                                llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)> write);
llvm::Error writeFileAtomically(llvm::StringRef path, llvm::StringRef bytes);

// `file` as seen from the folder that holds `path`: itself if absolute, or if `path` is "-" or in
// no folder.
std::string pathBeside(llvm::StringRef path, llvm::StringRef file);

} // namespace isthmus
