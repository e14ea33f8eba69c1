// Memory of the host that device code computes in. Linux promises more memory than there is and
// ends the process later, when it writes there; so every request is compared with what is left
// first, without the bytes that earlier ones still have to write.
#pragma once

#include "ir/diagnostics.h"

namespace isthmus {

// `bytes` bytes, aligned to a page, that the caller gives back. Any thread may call these.
// Errors (OutOfMemory): less is left; `who` begins the message, such as "cpu:0".
llvm::Expected<char *> allocateHostMemory(int64_t bytes, llvm::StringRef who);
void releaseHostMemory(char *bytes); // null: nothing

} // namespace isthmus
