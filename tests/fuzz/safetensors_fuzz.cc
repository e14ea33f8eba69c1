// Reads any bytes as a weights file. The result is an error with one message, or tensors that hold
// all their bytes.

#include "ir/check.h"
#include "ir/diagnostics.h"
#include "ir/safetensors.h"

using namespace isthmus;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef bytes(reinterpret_cast<const char *>(data), size);
  auto file = Safetensors::parse(SourceFile::of(llvm::MemoryBuffer::getMemBufferCopy(bytes), "fuzz"), "fuzz");
  if (!file) {
    ISTHMUS_CHECK(!llvm::toString(file.takeError()).empty(), "a message");
    return 0;
  }
  unsigned sum = 0;
  for (const Safetensors::Entry &e : file->entries()) {
    auto tensor = file->find(e.name);
    if (!tensor) {
      llvm::consumeError(tensor.takeError());
      continue;
    }
    ISTHMUS_CHECK(uint64_t(tensor->bytes()) == e.end - e.begin, "a tensor's size");
    for (int64_t i = 0; i < tensor->bytes(); ++i)
      sum += uint8_t(tensor->data[i]);
  }
  [[maybe_unused]] static volatile unsigned sink; // so that the reads are kept
  sink = sum;
  return 0;
}
