// matmul on f32 by our own matrix product. Many small products of a batch are distributed over the
// threads; a few large ones run one after another, each on all threads.

#include "kernels/element/broadcast.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/register.h"
#include "kernels/gemm/tasks.h"
#include "runtime/kernel.h"
#include <algorithm>

namespace isthmus::gemm {
namespace {

class MatmulKernel : public PreparedKernel {
public:
  // `first`: the operand that is the first factor. An operand before it is what is added to.
  MatmulKernel(const OpCall &call, size_t first, int threads) : first_(first), threads_(threads) {
    const Type &a = call.operands[first], &b = call.operands[first + 1], &y = call.results[0];
    transposeA_ = call.attrs->getBool("transpose_a");
    transposeB_ = call.attrs->getBool("transpose_b");
    sizes_ = {y.dims[y.dims.size() - 2], y.dims.back(),
              a.dims[a.dims.size() - (transposeA_ ? 2 : 1)]};
    llvm::ArrayRef<int64_t> batch = llvm::makeArrayRef(y.dims).drop_back(2);
    for (int64_t d : batch)
      batch_ *= d;
    // One b for the whole batch: the products are one product of a taller matrix.
    bool sharedB = b.elements() == sizes_.inner * sizes_.columns;
    if (sharedB && !transposeA_ && a.elements() == batch_ * sizes_.rows * sizes_.inner) {
      sizes_.rows *= batch_;
      batch_ = 1;
      batch = {};
    }
    batchDims_.assign(batch.begin(), batch.end());
    stepsA_ = batchSteps(a, sizes_.rows * sizes_.inner);
    stepsB_ = batchSteps(b, sizes_.inner * sizes_.columns);
    // Small products are not worth a team.
    bool oneByOne =
        batch_ >= 2 * threads_ || (batch_ > 1 && sizes_.rows * sizes_.columns <= 64 * 64);
    packedFloats_ = rounded64(packedFloats(sizes_));
    packs_ = oneByOne ? std::min<int64_t>(threads_, batch_) : 1;
  }

  int64_t workspaceBytes() const override {
    return packs_ * packedFloats_ * int64_t(sizeof(float));
  }

  void run(const KernelArgs &args) override {
    forEachTask(
        batch_, packs_, threads_, static_cast<float *>(args.workspace), packedFloats_,
        [&](int64_t index, float *packed, int threads) { product(args, index, packed, threads); });
  }

private:
  // Elements between neighbours along each batch axis; zero where the operand is broadcast.
  llvm::SmallVector<int64_t, 4> batchSteps(const Type &t, int64_t matrix) const {
    llvm::SmallVector<int64_t, 4> steps(batchDims_.size(), 0);
    size_t own = t.dims.size() - 2;
    int64_t step = matrix;
    for (size_t i = 0; i < batchDims_.size() && i < own; ++i) {
      int64_t d = t.dims[own - 1 - i];
      steps[batchDims_.size() - 1 - i] = d == 1 ? 0 : step;
      step *= d;
    }
    return steps;
  }

  void product(const KernelArgs &args, int64_t index, float *packed, int threads) const {
    auto *a = static_cast<const float *>(args.operands[first_]),
         *b = static_cast<const float *>(args.operands[first_ + 1]);
    const int64_t place = index * sizes_.rows * sizes_.columns;
    auto *y = static_cast<float *>(args.results[0]) + place;
    int64_t rest = index;
    for (size_t i = batchDims_.size(); i-- > 0; rest /= batchDims_[i]) {
      a += rest % batchDims_[i] * stepsA_[i];
      b += rest % batchDims_[i] * stepsB_[i];
    }
    Matrix ma = {a, transposeA_ ? 1 : sizes_.inner, transposeA_ ? sizes_.rows : 1};
    Matrix mb = {b, transposeB_ ? 1 : sizes_.columns, transposeB_ ? sizes_.inner : 1};
    Result result = {y, sizes_.columns};
    if (args.operands.size() > first_ + 2)
      result.bias = static_cast<const float *>(args.operands[first_ + 2]);
    result.isChain = true;
    if (first_ > 0) {
      result.add = true;
      if (args.operands[0] != args.results[0])
        std::copy_n(static_cast<const float *>(args.operands[0]) + place,
                    sizes_.rows * sizes_.columns, y);
    }
    multiply(sizes_, ma, mb, result, packed, threads);
  }

  const size_t first_;
  int threads_;
  bool transposeA_, transposeB_;
  Sizes sizes_;
  int64_t batch_ = 1, packedFloats_, packs_;
  llvm::SmallVector<int64_t, 4> batchDims_, stepsA_, stepsB_;
};

template <size_t first>
std::unique_ptr<PreparedKernel> prepareMatmul(const OpCall &call, const KernelOptions &options) {
  if (!isAvailable() || call.operands[first].dtype != DType::F32 ||
      call.operands[first].elements() == 0 || call.operands[first + 1].elements() == 0)
    return nullptr;
  return std::make_unique<MatmulKernel>(call, first, options.threads);
}

} // namespace
} // namespace isthmus::gemm

namespace isthmus {

void registerGemmMatmul(KernelTable &table) {
  table.add({"matmul", "gemm", gemm::prepareMatmul<0>});
  table.add({"matmul_add", "gemm", gemm::prepareMatmul<1>});
}

} // namespace isthmus
