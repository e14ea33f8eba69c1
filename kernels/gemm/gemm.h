// The product of two f32 matrices, fast, in memory that the caller supplies.
//
// After Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): pieces
// of both operands are packed in the order in which a small kernel in registers reads them. Each
// element of the result is a chain of fused multiply-adds over the inner axis, cut every kDepth
// steps; neither sizes nor threads change the order, so they change no bit.
#pragma once

#include <cstdint>

namespace isthmus::gemm {

// Element (i, j) is at data[i * rowStep + j * columnStep].
struct Matrix {
  const float *data;
  int64_t rowStep, columnStep;
};

struct Sizes {
  int64_t rows, columns, inner; // the result is [rows, columns]
};

// Whether this machine has the vector units that the small kernels are written for.
bool isAvailable();

// Floats of packing space for one product computed by `threads` threads together.
int64_t packedFloats(const Sizes &s, int threads);

// result = a b, the result being dense with `step` between rows. `packed` has packedFloats(s,
// threads), aligned to 64 bytes.
void multiply(const Sizes &s, const Matrix &a, const Matrix &b, float *result, int64_t step,
              float *packed, int threads);

} // namespace isthmus::gemm
