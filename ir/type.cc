#include "ir/type.h"

namespace isthmus {
namespace {

struct DTypeInfo {
  llvm::StringRef name;
  int64_t bytes;
  bool isFloat;
};

constexpr DTypeInfo kInfo[] = {{"f32", 4, true}, {"f64", 8, true},   {"bf16", 2, true},
                               {"f16", 2, true}, {"i32", 4, false},  {"i64", 8, false},
                               {"u8", 1, false}, {"bool", 1, false}, {"token", 0, false}};
static_assert(std::size(kInfo) == kNumDTypes);

const DTypeInfo &info(DType t) { return kInfo[static_cast<size_t>(t)]; }

constexpr int64_t kMaxBytes = int64_t(1) << 60;

} // namespace

llvm::StringRef dtypeName(DType t) { return info(t).name; }
int64_t dtypeBytes(DType t) { return info(t).bytes; }
bool isFloat(DType t) { return info(t).isFloat; }

std::optional<DType> parseDType(llvm::StringRef name) {
  for (size_t i = 0; i < std::size(kInfo); ++i)
    if (kInfo[i].name == name)
      return static_cast<DType>(i);
  return std::nullopt;
}

int64_t Type::elements() const {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

bool Type::isValid() const {
  // The product over the non-zero dimensions is bounded too, so that no partial product overflows.
  int64_t n = dtypeBytes(dtype);
  for (int64_t d : dims) {
    if (d < 0)
      return false;
    if (d > 0 && __builtin_mul_overflow(n, d, &n))
      return false;
    if (n > kMaxBytes)
      return false;
  }
  return true;
}

std::string Type::str() const {
  std::string s = (memory == Memory::Host ? "host " : "") + dtypeName(dtype).str() + "[";
  for (size_t i = 0; i < dims.size(); ++i)
    s += (i ? ", " : "") + std::to_string(dims[i]);
  return s + "]";
}

} // namespace isthmus
