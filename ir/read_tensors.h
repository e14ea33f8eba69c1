// The tensors that were read from a file and are in use, so that a graph that names one part of a
// file many times holds it once.
#pragma once

#include "ir/source_file.h"
#include <map>

namespace isthmus {

class ReadTensors {
public:
  // A tensor of the bytes at `offset` of `file`, which must be the same file in every call.
  llvm::Expected<Tensor> at(const SourceFile &file, const Type &type, uint64_t offset) {
    Known &known = known_[{offset, uint64_t(type.bytes()), type.dtype == DType::Bool}];
    if (std::shared_ptr<const void> owner = known.owner.lock())
      return Tensor{type, std::move(owner), known.data};
    auto t = file.readTensor(type, offset);
    if (t)
      known = {t->owner, t->data};
    return t;
  }

private:
  struct Known {
    std::weak_ptr<const void> owner;
    const char *data = nullptr;
  };
  // By offset and size, and whether the bytes are bools, which may be read as other ones.
  std::map<std::tuple<uint64_t, uint64_t, bool>, Known> known_;
};

} // namespace isthmus
