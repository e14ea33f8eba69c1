// Memory of the host, for tensors and for device code that computes there. Linux promises more
// memory than there is and ends the process later, when it writes there; so every large request is
// compared with what is left first, without the bytes that earlier ones still have to write.
#pragma once

#include "ir/diagnostics.h"
#include "ir/system_limits.h"
#include <memory>
#include <new>

namespace isthmus {

// `bytes` bytes, aligned to a page, that the caller gives back. Any thread may call these.
// Errors (OutOfMemory): less is left; `who` begins the message, such as "cpu:0".
llvm::Expected<char *> allocateHostMemory(int64_t bytes, llvm::StringRef who);
void releaseHostMemory(char *bytes); // null: nothing

// What is left for a request of `bytes`.
AvailableMemory availableHostMemory(int64_t bytes);
// Error (OutOfMemory): less is left. Requests below 16 MiB are not looked at: asking the system
// takes as long as writing a megabyte.
llvm::Error checkHostMemory(int64_t bytes);

// Where no error can be returned, as for tensors, this is thrown.
class OutOfHostMemory : public std::bad_alloc {
public:
  explicit OutOfHostMemory(std::string message) : message_(std::move(message)) {}
  const char *what() const noexcept override { return message_.c_str(); }

private:
  std::string message_; // "out of memory: 600.0 MiB asked for, 480.1 MiB available"
};

// `bytes` zeroed bytes and one more, aligned for vector loads. Throws OutOfHostMemory, or
// std::bad_alloc for a small request.
std::shared_ptr<char> zeroedHostMemory(size_t bytes);

} // namespace isthmus
