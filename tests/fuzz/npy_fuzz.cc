// Reads any bytes as an array. The result is an error with one message, or a tensor that holds all
// its bytes and is the same after it is written and read again.
//
// FUZZ: sources=tools/cli/npy.cc

#include "ir/check.h"
#include "ir/diagnostics.h"
#include "tools/cli/npy.h"
#include <cstring>

using namespace isthmus;

namespace {

llvm::Expected<Tensor> parsed(llvm::StringRef bytes) {
  return parseNpy(llvm::MemoryBuffer::getMemBufferCopy(bytes));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto t = parsed(llvm::StringRef(reinterpret_cast<const char *>(data), size));
  if (!t) {
    ISTHMUS_CHECK(!llvm::toString(t.takeError()).empty(), "a message");
    return 0;
  }
  if (t->type.rank() > 64) // its header would be longer than version 1 allows
    return 0;
  std::string written;
  {
    llvm::raw_string_ostream to(written);
    writeNpy(*t, to);
  }
  auto back = parsed(written);
  ISTHMUS_CHECK(bool(back), "what was written does not read");
  ISTHMUS_CHECK(back->type == t->type, "another type was read back");
  ISTHMUS_CHECK(std::memcmp(back->data, t->data, size_t(t->bytes())) == 0, "other bytes");
  return 0;
}
