// A fast product of two f32 matrices, in memory that the caller supplies.
//
// After Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): blocks
// of both operands are packed in the order in which a small register kernel reads them. Each
// element of the result is a sum of chains of fused multiply-adds over the inner axis, each of kDepth
// steps, or one chain (Result::isChain). The order depends on neither sizes nor threads, so neither
// changes a bit of the result; nor does a cut of the inner axis into several products, for one chain.
#pragma once

#include <cstdint>

namespace isthmus::gemm {

struct Sizes {
  int64_t rows, columns, inner; // the result is [rows, columns]
  // The images of a batch are not contiguous: an axis that runs over the elements of all images is
  // split into runs, one per image, with a jump between runs. Zero means a single run. At most one
  // axis is split.
  int64_t columnRun = 0; // of b and the result
  int64_t innerRun = 0;  // of a and b

  int64_t columnsInRun() const { return columnRun ? columnRun : columns; }
  int64_t innerInRun() const { return innerRun ? innerRun : inner; }
};

// Element (i, j) is at data[i * rowStep + j * columnStep], plus `jump` for each preceding run.
struct Matrix {
  const float *data;
  int64_t rowStep, columnStep;
  int64_t jump = 0;
};

// The same with contiguous rows.
struct Result {
  float *data;
  int64_t step;
  int64_t jump = 0;
  bool add = false;            // add the product to the present contents
  bool isChain = false;        // one chain, which goes on from the contents if `add` is set
  const float *bias = nullptr; // one per column, added last; null: none
};

// Whether this machine has the vector units that the small kernels are written for.
bool isAvailable();

// Size of the packing buffer for a product, in floats. It does not depend on the number of threads.
int64_t packedFloats(const Sizes &s);

// result = a b + bias, or (result + a b) + bias. `packed` has packedFloats(s) floats, aligned to 64
// bytes.
void multiply(const Sizes &s, const Matrix &a, const Matrix &b, const Result &result, float *packed,
              int threads);

} // namespace isthmus::gemm
