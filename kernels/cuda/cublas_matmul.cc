// matmul by cuBLASLt. Its matrices are column-major and ours are row-major, so it computes the
// transpose, y^T = op(b)^T op(a)^T, on the operands in place. A bias, one element per column of
// ours, is then one element per row of its result, which its epilogue can add.

#include "kernels/cuda/candidates.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/products.h"
#include "kernels/element/broadcast.h"
#include <optional>

namespace isthmus::cuda {
namespace {

using namespace element;

struct ElementTypes {
  cudaDataType_t element;
  cublasComputeType_t compute;
  cudaDataType_t scale;
};
std::optional<ElementTypes> typesOf(DType t, bool tf32) {
  switch (t) {
  case DType::F32:
    return ElementTypes{CUDA_R_32F, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                        CUDA_R_32F};
  case DType::F64:
    return ElementTypes{CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F};
  case DType::BF16:
    return ElementTypes{CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F};
  case DType::F16:
    return ElementTypes{CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
  default:
    return std::nullopt;
  }
}

// Owns a library handle and destroys it.
template <typename T, auto destroy> struct Handle {
  T it = nullptr;
  Handle() = default;
  Handle(const Handle &) = delete;
  ~Handle() {
    if (it)
      (cublasLt()->*destroy)(it);
  }
};
using Layout = Handle<cublasLtMatrixLayout_t, &CublasLt::cublasLtMatrixLayoutDestroy>;
using Operation = Handle<cublasLtMatmulDesc_t, &CublasLt::cublasLtMatmulDescDestroy>;
using Preference = Handle<cublasLtMatmulPreference_t, &CublasLt::cublasLtMatmulPreferenceDestroy>;

// One of the algorithms that the library proposes for a call. If `addsBias` is false, the result is
// first filled with the bias, and the product is added to it. `first` is the operand that is the
// first factor; the result is first filled with an operand before it.
class CublasMatmul : public PreparedKernel {
public:
  CublasMatmul(const OpCall &call, const Queue &queue, const ElementTypes &types,
               cudaDataType_t resultType, size_t first, int64_t alignment, bool addsBias)
      : queue_(queue), types_(types), resultType_(resultType), firstFactor_(first),
        bytes_(dtypeBytes(call.operands[first].dtype)),
        resultBytes_(dtypeBytes(call.results[0].dtype)), hasBias_(call.operands.size() > first + 2),
        addsBias_(addsBias), alignment_(alignment) {
    const Type &a = call.operands[first], &b = call.operands[first + 1], &y = call.results[0];
    transposeA_ = call.attrs->getBool("transpose_a");
    transposeB_ = call.attrs->getBool("transpose_b");
    rows_ = y.dims[y.dims.size() - 2];
    columns_ = y.dims.back();
    inner_ = a.dims[a.dims.size() - (transposeA_ ? 2 : 1)];
    divideBatch(a, b, y);
  }

  // The library's algorithms, best first; none if it does not support the call.
  std::vector<cublasLtMatmulHeuristicResult_t> proposals() {
    if (!describe())
      return {};
    return findAlgorithms();
  }
  // False if the algorithm cannot be used after all.
  bool choose(const cublasLtMatmulHeuristicResult_t &proposal) {
    algorithm_ = proposal.algo;
    workspaceBytes_ = int64_t(proposal.workspaceSize);
    return describe();
  }

  int64_t workspaceBytes() const override { return workspaceWithSlack(workspaceBytes_); }

  void run(const KernelArgs &args) override {
    auto *a = static_cast<const char *>(args.operands[firstFactor_]);
    auto *b = static_cast<const char *>(args.operands[firstFactor_ + 1]);
    auto *y = static_cast<char *>(args.results[0]);
    if (firstFactor_ > 0 && args.operands[0] != y)
      copyResult(queue_, outer_->elements() * together_ * rows_ * columns_ * resultBytes_,
                 args.operands[0], y);
    int64_t matrices = rows_ * columns_ * resultBytes_ * together_;
    if (addsBias_) {
      if (!setBias(args.operands[2])) {
        queue_.failure = "cuBLASLt did not take the place of a bias";
        return;
      }
    } else if (hasBias_) {
      repeatRow(queue_, args.operands[2], columns_, bytes_, outer_->elements() * together_ * rows_,
                y);
    }
    outer_->forEachRow(0, outer_->elements(), [&](const std::array<int64_t, 2> &at, int64_t n) {
      for (int64_t i = 0; i < n; ++i, y += matrices)
        product(a + (at[0] + i * outer_->rowStride(0)) * bytes_,
                b + (at[1] + i * outer_->rowStride(1)) * bytes_, y, args.workspace);
    });
  }

private:
  static constexpr int64_t kMostBytes = int64_t(32) << 20; // NVIDIA's advice for Hopper
  static constexpr int kMostProposals = 4;

  std::vector<cublasLtMatmulHeuristicResult_t> findAlgorithms() {
    const CublasLt &c = *cublasLt();
    Preference preference;
    if (c.cublasLtMatmulPreferenceCreate(&preference.it) != CUBLAS_STATUS_SUCCESS)
      return {};
    uint64_t most = uint64_t(kMostBytes);
    // Splits of the inner axis that are summed in place depend on the order of arrival; those that
    // are summed in the workspace do not.
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t alignment = alignmentOfPointers();
    auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const auto &value) {
      return c.cublasLtMatmulPreferenceSetAttribute(preference.it, what, &value, sizeof value) ==
             CUBLAS_STATUS_SUCCESS;
    };
    if (!set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most) ||
        !set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes) ||
        !set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment) ||
        !set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment) ||
        !set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment) ||
        !set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment))
      return {};
    int found = 0;
    std::vector<cublasLtMatmulHeuristicResult_t> proposals(kMostProposals);
    if (c.cublasLtMatmulAlgoGetHeuristic(librariesOf(queue_).cublasLt, operation_.it, first_.it,
                                         second_.it, result_.it, result_.it, preference.it,
                                         kMostProposals, proposals.data(),
                                         &found) != CUBLAS_STATUS_SUCCESS)
      return {};
    proposals.resize(size_t(found));
    llvm::erase_if(proposals, [](const auto &p) { return p.state != CUBLAS_STATUS_SUCCESS; });
    return proposals;
  }

  // One call multiplies a run of matrices at fixed steps. The run is the last axis of the batch,
  // after merging contiguous axes; each index of the axes before it takes one call.
  void divideBatch(const Type &a, const Type &b, const Type &y) {
    Dims batch(y.dims.begin(), y.dims.end() - 2);
    auto steps = [&](const Type &t) {
      Dims own(t.dims.begin(), t.dims.end() - 2);
      Dims s = broadcastStrides(own, batch);
      for (int64_t &step : s)
        step *= t.dims[t.dims.size() - 2] * t.dims.back();
      return s;
    };
    Walk<2> walk(batch, {steps(a), steps(b)});
    together_ = walk.rowLength();
    stepA_ = walk.rowStride(0);
    stepB_ = walk.rowStride(1);
    // One b for the whole run: the run is one product of a taller matrix.
    if (stepB_ == 0 && !transposeA_ && stepA_ == rows_ * inner_ && together_ > 1) {
      rows_ *= together_;
      together_ = 1;
    }
    Dims outer;
    std::array<Dims, 2> outerSteps;
    for (size_t axis = 0; axis + 1 < walk.rank(); ++axis) {
      outer.push_back(walk.size(axis));
      outerSteps[0].push_back(walk.stride(0, axis));
      outerSteps[1].push_back(walk.stride(1, axis));
    }
    outer_.emplace(outer, outerSteps);
  }

  static bool makeLayout(Layout &layout, cudaDataType_t type, int64_t rows, int64_t columns,
                         int64_t batch, int64_t step) {
    const CublasLt &c = *cublasLt();
    if (c.cublasLtMatrixLayoutCreate(&layout.it, type, uint64_t(rows), uint64_t(columns), rows) !=
        CUBLAS_STATUS_SUCCESS)
      return false;
    int32_t count = int32_t(batch);
    return c.cublasLtMatrixLayoutSetAttribute(layout.it, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                              sizeof count) == CUBLAS_STATUS_SUCCESS &&
           c.cublasLtMatrixLayoutSetAttribute(layout.it,
                                              CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                              sizeof step) == CUBLAS_STATUS_SUCCESS;
  }

  // b comes first: a row-major [r, c] matrix is a column-major [c, r] matrix.
  bool describe() {
    if (together_ > INT32_MAX ||
        cublasLt()->cublasLtMatmulDescCreate(&operation_.it, types_.compute, types_.scale) !=
            CUBLAS_STATUS_SUCCESS)
      return false;
    cublasOperation_t first = transposeB_ ? CUBLAS_OP_T : CUBLAS_OP_N,
                      second = transposeA_ ? CUBLAS_OP_T : CUBLAS_OP_N;
    return setOperation(CUBLASLT_MATMUL_DESC_TRANSA, first) &&
           setOperation(CUBLASLT_MATMUL_DESC_TRANSB, second) &&
           makeLayout(first_, types_.element, transposeB_ ? inner_ : columns_,
                      transposeB_ ? columns_ : inner_, together_, stepB_) &&
           makeLayout(second_, types_.element, transposeA_ ? rows_ : inner_,
                      transposeA_ ? inner_ : rows_, together_, stepA_) &&
           makeLayout(result_, resultType_, columns_, rows_, together_, rows_ * columns_) &&
           setBias(addsBias_ ? reinterpret_cast<const void *>(alignment_) : nullptr) &&
           setEpilogue(addsBias_ ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT);
  }

  template <typename T> bool setOperation(cublasLtMatmulDescAttributes_t what, const T &value) {
    return cublasLt()->cublasLtMatmulDescSetAttribute(operation_.it, what, &value, sizeof value) ==
           CUBLAS_STATUS_SUCCESS;
  }
  bool setEpilogue(cublasLtEpilogue_t epilogue) {
    return setOperation(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  }
  // While an algorithm is searched, the pointer only conveys its alignment.
  bool setBias(const void *bias) { return setOperation(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias); }

  // The largest power of two, at most the operands' alignment, that divides every address.
  uint32_t alignmentOfPointers() const {
    int64_t steps = alignment_ | (rows_ * columns_ * resultBytes_);
    auto add = [&](int64_t elements) { steps |= elements * bytes_; };
    add(stepA_);
    add(stepB_);
    for (size_t axis = 0; axis < outer_->rank(); ++axis)
      for (size_t k = 0; k < 2; ++k)
        add(outer_->stride(k, axis));
    return uint32_t(steps & -steps);
  }

  void product(const char *a, const char *b, char *y, void *workspace) {
    // kept: the factor of the present result
    float one = 1, kept = firstFactor_ > 0 || (hasBias_ && !addsBias_) ? 1 : 0;
    double wideOne = one, wideKept = kept;
    bool wide = types_.scale == CUDA_R_64F;
    cublasStatus_t s = cublasLt()->cublasLtMatmul(
        librariesOf(queue_).cublasLt, operation_.it, wide ? (void *)&wideOne : &one, b, first_.it,
        a, second_.it, wide ? (void *)&wideKept : &kept, y, result_.it, y, result_.it, &algorithm_,
        alignedWorkspace(workspace), size_t(workspaceBytes_), streamOf(queue_));
    if (s != CUBLAS_STATUS_SUCCESS)
      queue_.failure = cublasLt()->cublasLtGetStatusString(s);
  }

  const Queue &queue_;
  const ElementTypes types_;
  const cudaDataType_t resultType_;
  const size_t firstFactor_;
  const int64_t bytes_, resultBytes_; // of an element
  const bool hasBias_, addsBias_;     // addsBias_: by the library's epilogue
  const int64_t alignment_;
  bool transposeA_, transposeB_;
  int64_t rows_, columns_, inner_;
  int64_t together_ = 1, stepA_ = 0, stepB_ = 0; // matrices in a call, and elements between them
  std::optional<Walk<2>> outer_;
  Operation operation_;
  Layout first_, second_, result_;
  cublasLtMatmulAlgo_t algorithm_;
  int64_t workspaceBytes_ = 0;
};

constexpr int64_t kArenaAlignment = 64;
constexpr const char *kCublasLt = "cublasLt";

std::unique_ptr<PreparedKernel> prepareMatmul(const OpCall &call, const KernelOptions &options) {
  return prepareCublasProduct(call, *static_cast<const Queue *>(options.queue), kArenaAlignment);
}

std::unique_ptr<PreparedKernel> prepareFrom(size_t first, const OpCall &call, const Queue &queue,
                                            int64_t alignment) {
  auto types = typesOf(call.operands[first].dtype, queue.tf32);
  auto result = typesOf(call.results[0].dtype, queue.tf32);
  if (!librariesOf(queue).cublasLt || !types || !result || call.operands[first].elements() == 0 ||
      call.operands[first + 1].elements() == 0)
    return nullptr;
  std::vector<std::unique_ptr<PreparedKernel>> kernels;
  bool hasBias = call.operands.size() > first + 2;
  for (bool addsBias : {true, false}) {
    if (addsBias && !hasBias)
      continue;
    auto make = [&] {
      return std::make_unique<CublasMatmul>(call, queue, *types, result->element, first, alignment,
                                            addsBias);
    };
    for (const cublasLtMatmulHeuristicResult_t &proposal : make()->proposals()) {
      auto kernel = make();
      kernel->library = kCublasLt;
      if (kernel->choose(proposal))
        kernels.push_back(std::move(kernel));
    }
  }
  if (!kernels.empty())
    return std::make_unique<Candidates>(queue, callTitle(call), std::move(kernels));
  queue.note(callTitle(call) +
             ": cuBLASLt has no algorithm that gives the same bits every time, so "
             "our own kernel, which is slow, runs");
  return nullptr;
}

std::unique_ptr<PreparedKernel> prepareMatmulAdd(const OpCall &call, const KernelOptions &options) {
  return prepareFrom(1, call, *static_cast<const Queue *>(options.queue), kArenaAlignment);
}

} // namespace

std::unique_ptr<PreparedKernel> prepareCublasProduct(const OpCall &call, const Queue &queue,
                                                     int64_t alignment) {
  return prepareFrom(0, call, queue, alignment);
}

void registerCublasMatmul(KernelTable &table) {
  table.add({"matmul", kCublasLt, prepareMatmul});
  table.add({"matmul_add", kCublasLt, prepareMatmulAdd});
}

} // namespace isthmus::cuda
