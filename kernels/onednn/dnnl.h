// Includes oneDNN for the rest of this folder. Only this file includes its headers and depends on
// its version (2.x: operation descriptors, exceptions).
#pragma once

#include "ir/type.h"
#include "runtime/kernel.h"
#include "runtime/team.h"
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

namespace isthmus::onednn {

using dnnl::memory;

inline dnnl::engine &engine() {
  static auto *e = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *e;
}

// Scratch memory is always supplied by the caller.
inline dnnl::primitive_attr userScratchpad() {
  dnnl::primitive_attr a;
  a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return a;
}

inline std::optional<memory::data_type> dataType(DType t) {
  switch (t) {
  case DType::F32:
    return memory::data_type::f32;
  case DType::BF16:
    return memory::data_type::bf16;
  default:
    return std::nullopt;
  }
}

// A dense layout whose innermost axis is `inner`; the other axes keep their order.
inline memory::desc denseDesc(const memory::dims &dims, memory::data_type t, size_t inner) {
  memory::dims strides(dims.size());
  memory::dim step = dims[inner];
  strides[inner] = 1;
  for (size_t i = dims.size(); i-- > 0;)
    if (i != inner) {
      strides[i] = step;
      step *= dims[i];
    }
  return memory::desc(dims, t, strides);
}
inline memory::desc denseDesc(const memory::dims &dims, memory::data_type t) {
  return denseDesc(dims, t, dims.size() - 1);
}
inline memory::desc anyDesc(const memory::dims &dims, memory::data_type t) {
  return memory::desc(dims, t, memory::format_tag::any);
}

// Rejects two kinds of implementations: the reference loops, which are slower than ours, and those
// built on oneDNN's general matrix product, which allocates megabytes of memory per thread on its
// own.
inline bool isTaken(const char *implementation) {
  llvm::StringRef name = implementation;
  return !name.contains("ref") && !name.contains("gemm");
}

// Advances `pd` to the first implementation that `isTaken` accepts; false if there is none. The
// operation descriptor and the hint that `pd` was made from must still be alive, because oneDNN
// reads them again.
template <typename PrimitiveDesc> bool findImplementation(PrimitiveDesc &pd) {
  if (!pd)
    return false;
  while (!isTaken(pd.impl_info_str()))
    if (!pd.next_impl())
      return false;
  return true;
}

// Runs `make`, which returns a kernel or null. Null too where oneDNN throws because it does not
// support the call.
template <typename Make>
std::unique_ptr<PreparedKernel> orNull(const KernelOptions &options, Make make) {
  TeamSize team(options.threads);
  try {
    return make();
  } catch (const dnnl::error &) {
    return nullptr;
  }
}

} // namespace isthmus::onednn
