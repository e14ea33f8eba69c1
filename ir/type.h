// Tensor types: an element type, constant dimensions, and the memory that holds the tensor. Tensors
// are dense and row-major.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace isthmus {

// A token has no bytes: it stands for an event, and a node that reads it runs after the node that
// makes it.
enum class DType : uint8_t { F32, F64, BF16, F16, I32, I64, U8, Bool, Token };
constexpr size_t kNumDTypes = size_t(DType::Token) + 1;

llvm::StringRef dtypeName(DType t);                    // "f32", "bool", ...
std::optional<DType> parseDType(llvm::StringRef name); // nothing for an unknown name
int64_t dtypeBytes(DType t);
bool isFloat(DType t);

using Dims = llvm::SmallVector<int64_t, 4>;

enum class Memory : uint8_t { Device, Host };

struct Type {
  DType dtype = DType::F32;
  Dims dims;
  Memory memory = Memory::Device;

  Type() = default;
  Type(DType t, llvm::ArrayRef<int64_t> d) : dtype(t), dims(d.begin(), d.end()) {}

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t elements() const; // product of dims; 1 for a scalar. Valid types only (see isValid).
  int64_t bytes() const { return elements() * dtypeBytes(dtype); }
  int64_t bytesIn(Memory m) const { return m == memory ? bytes() : 0; }
  // A tensor in device memory, the only kind that most ops take and give.
  bool isPlain() const { return dtype != DType::Token && memory == Memory::Device; }
  Type with(DType t) const { return Type(t, dims); }
  Type with(llvm::ArrayRef<int64_t> d) const { return Type(dtype, d); }
  Type in(Memory m) const {
    Type t = *this;
    t.memory = m;
    return t;
  }

  // No negative dimension, and a size of at most 2^60 bytes.
  bool isValid() const;
  std::string str() const; // "f32[32, 784]", "host f32[32, 784]"

  friend bool operator==(const Type &a, const Type &b) {
    return a.dtype == b.dtype && a.dims == b.dims && a.memory == b.memory;
  }
  friend bool operator!=(const Type &a, const Type &b) { return !(a == b); }
};

using TypeList = llvm::SmallVector<Type, 2>;

} // namespace isthmus
