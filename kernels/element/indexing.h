// Tensors of indices and the positions that they denote, on every device.
#pragma once

#include "ir/op_def.h"
#include "ir/rank.h"
#include "kernels/element/broadcast.h"
#include "kernels/element/dtype.h"
#include "kernels/element/portable.h"

namespace isthmus::element {

// The position that `index` denotes on an axis of `size`, or -1 if it is out of range. Negative
// indices count from the end.
ISTHMUS_DEVICE inline int64_t resolved(int64_t index, int64_t size) {
  int64_t i = index < 0 ? index + size : index;
  return i >= 0 && i < size ? i : -1;
}

// A tensor of i32 or i64 indices.
class Indices {
public:
  Indices(const void *data, DType t) : data_(data), wide_(t == DType::I64) {}
  ISTHMUS_DEVICE int64_t operator[](int64_t i) const {
    return wide_ ? static_cast<const int64_t *>(data_)[i] : static_cast<const int32_t *>(data_)[i];
  }
  // The position that element `i` denotes on an axis of `size`, or -1 if it is out of range.
  ISTHMUS_DEVICE int64_t at(int64_t i, int64_t size) const { return resolved((*this)[i], size); }

private:
  const void *data_;
  bool wide_;
};

// The result of an index out of range, as bits of the element's size: NaN, or zero for types
// without NaN.
template <typename T> T nothing(DType t) {
  switch (t) {
  case DType::F32:
    return T(0x7fc00000u);
  case DType::F64:
    return T(0x7ff8000000000000u);
  case DType::BF16:
    return T(0x7fc0u);
  case DType::F16:
    return T(0x7e00u);
  default:
    return 0;
  }
}

inline int64_t axisOf(const OpCall &call, const Type &t) {
  return axisFromFront(call.attrs->getInt("axis"), t.rank());
}
inline int64_t product(llvm::ArrayRef<int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

// A tensor as [outer, size, inner], `size` being the indexed axis.
struct Rows {
  int64_t outer, size, inner;
  Rows(const Type &t, int64_t axis)
      : outer(product(llvm::makeArrayRef(t.dims).take_front(axis))), size(t.dims[axis]),
        inner(product(llvm::makeArrayRef(t.dims).drop_front(axis + 1))) {}
};

// Columns of indices along an axis, and the columns of `x` that they index.
struct Pairs {
  explicit Pairs(const OpCall &call) {
    const Type &x = call.operands[0], &indices = call.operands[1];
    int64_t axis = axisOf(call, x);
    size = x.dims[axis];
    count = indices.dims[axis];
    stridesX = denseStrides(x.dims);
    strides = denseStrides(indices.dims);
    columns = indices.dims;
    stepX = stridesX[axis];
    step = strides[axis];
    columns[axis] = 1;
    stridesX[axis] = 0;
  }
  int64_t size, count, stepX, step;
  Dims columns, stridesX, strides; // the grid of columns, and strides of their first elements

  Walk<2> walk() const { return Walk<2>(columns, {stridesX, strides}); }
};

// Slices of x that tuples of indices select. `Sizes` is a vector of the sizes of the indexed axes.
template <typename Sizes> struct Slices {
  explicit Slices(const OpCall &call) {
    const Type &x = call.operands[0], &indices = call.operands[1];
    int64_t batchDims = call.attrs->getInt("batch_dims");
    depth = indices.dims.back();
    for (int64_t i = 0; i < batchDims; ++i)
      batches *= x.dims[i];
    for (int64_t i = batchDims; i < x.rank(); ++i)
      if (i < batchDims + depth) {
        sizes.push_back(x.dims[i]);
        perBatch *= x.dims[i];
      } else {
        length *= x.dims[i];
      }
    for (int64_t i = batchDims; i + 1 < indices.rank(); ++i)
      tuples *= indices.dims[i];
  }
  int64_t depth, batches = 1, perBatch = 1, tuples = 1, length = 1;
  Sizes sizes;

  int64_t count() const { return batches * tuples; }
  // The slice of x, counted over all batches, that tuple `t` selects; -1 if it is out of range.
  ISTHMUS_DEVICE int64_t slice(const Indices &indices, int64_t t) const {
    int64_t s = 0;
    for (int64_t i = 0; i < depth; ++i) {
      int64_t k = indices.at(t * depth + i, sizes[i]);
      if (k < 0)
        return -1;
      s = s * sizes[i] + k;
    }
    return t / tuples * perBatch + s;
  }
};

} // namespace isthmus::element
