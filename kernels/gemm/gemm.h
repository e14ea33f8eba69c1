// The product of two f32 matrices, fast, in memory that the caller supplies.
//
// After Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): pieces
// of both operands are packed in the order in which a small kernel in registers reads them. Each
// element of the result is a chain of fused multiply-adds over the inner axis, cut every kDepth
// steps; neither sizes nor threads change the order, so they change no bit.
#pragma once

#include <cstdint>

namespace isthmus::gemm {

struct Sizes {
  int64_t rows, columns, inner; // the result is [rows, columns]
  // The images of a batch lie apart: an axis that runs over the elements of all of them is cut into
  // runs, one image each, and from run to run there is a jump. Zero: one run. One axis at most is
  // cut.
  int64_t columnRun = 0; // of b and the result
  int64_t innerRun = 0;  // of a and b

  int64_t columnsInRun() const { return columnRun ? columnRun : columns; }
  int64_t innerInRun() const { return innerRun ? innerRun : inner; }
};

// Element (i, j) is at data[i * rowStep + j * columnStep], plus `jump` for each run before it.
struct Matrix {
  const float *data;
  int64_t rowStep, columnStep;
  int64_t jump = 0;
};

// The same, neighbours in a row lying side by side.
struct Result {
  float *data;
  int64_t step;
  int64_t jump = 0;
  bool add = false;            // the product to what is there
  const float *bias = nullptr; // one for each column, added last; null: none
};

// Whether this machine has the vector units that the small kernels are written for.
bool isAvailable();

// Floats of packing space for a product, however many threads compute it together.
int64_t packedFloats(const Sizes &s);

// result = a b, or is increased by it, plus the bias. `packed` has packedFloats(s), aligned to 64
// bytes.
void multiply(const Sizes &s, const Matrix &a, const Matrix &b, const Result &result, float *packed,
              int threads);

} // namespace isthmus::gemm
